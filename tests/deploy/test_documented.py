"""testbed.documented: each command and each YAML of a page is run, or named with who runs it or why nobody can."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any

import cel
import pytest
import typer
import yaml
from typer.core import TyperGroup

from cronhpa.api.crd import PLANNED_EVENT
from cronhpa.api.parse_event import parse_event
from cronhpa.api.rules import broken_rules
from cronhpa.api.schema import CronHPASpec
from cronhpa.api.written_spec import written_spec
from cronhpa.cli import app
from cronhpa.sources.parse import parse_sources
from testbed.build import promtool
from testbed.control_plane import CHART, helm_template
from testbed.documented import NOT_FOLLOWED, PAGES, PROJECT, commands, is_followed, yaml_blocks

COMMANDS = [command for page in PAGES for command in commands(page)]
BLOCKS = [block for page in PAGES for block in yaml_blocks(page)]


def named(snippets):
    return [
        pytest.param(candidate, id=f"{candidate.page}: {candidate.text.splitlines()[0][:60]}") for candidate in snippets
    ]


def test_the_pages_give_more_commands_than_somebody_could_try_by_hand_and_most_are_followed():
    followed = [command for command in COMMANDS if is_followed(command)]

    assert len(COMMANDS) > 150
    assert len(followed) > 0.7 * len(COMMANDS)


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in NOT_FOLLOWED])
def test_each_kind_of_command_that_is_not_followed_is_still_on_a_page(pattern):
    assert [command for command in COMMANDS if re.fullmatch(pattern, command.text)]


@pytest.mark.parametrize("reason", [reason for _, reason in NOT_FOLLOWED])
def test_who_runs_a_command_instead_is_there(reason):
    files = re.findall(r"tests/[\w/]+\.py", reason)

    assert [] == [file for file in files if not (PROJECT / file).exists()]


@pytest.mark.parametrize("command", named(command for command in COMMANDS if re.search(r"\bmake ", command.text)))
def test_each_command_of_make_is_one_that_it_would_carry_out(command):
    words = shlex.split(command.text.rpartition("&& ")[2])
    ended = subprocess.run([*words, "--dry-run"], cwd=PROJECT, capture_output=True, text=True, check=False)

    assert 0 == ended.returncode, ended.stderr


# A release and an object may have the same name: what begins a command, or follows a pipe, is the program.
OURS = re.compile(r"(?:^|\| |-- )(?:kubectl )?(cronhpa [a-z][^|>]*)")


@pytest.mark.parametrize("command", named(command for command in COMMANDS if OURS.search(command.text)))
def test_each_command_of_ours_exists_with_the_options_that_it_is_given(command):
    here: Any = typer.main.get_command(app)
    words = shlex.split(OURS.search(command.text)[1])[1:]
    while isinstance(here, TyperGroup) and words and not words[0].startswith("-"):
        name = words.pop(0)
        here = here.get_command(typer.Context(here), name)
        assert here is not None, f"there is no command {name}"
    taken = {option for param in here.params for option in (*param.opts, *param.secondary_opts)} | {"-", "--", "--help"}

    assert [] == [word for word in words if word.startswith("-") and word.partition("=")[0] not in taken]


SPEC = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
    "maxReplicas": 9,
    "metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
    ],
    "schedules": [{"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 3}],
}
SCHEDULE = {"start", "end", "exclude"}
VALUES = set(yaml.safe_load((CHART / "values.yaml").read_text()))
FIELDS = {field.alias or name for name, field in CronHPASpec.model_fields.items()}
HEALTHY = [{"type": kind, "status": "True"} for kind in ("Ready", "SpecAccepted", "TargetOwned")]
UNREADABLE = [{"type": "Ready", "status": "False"}, {"type": "SpecAccepted", "status": "False"}]


def within(spec):
    return written_spec({"metadata": {"name": "shop"}, "spec": spec})


def is_taken(part):
    """Whether what reads such YAML takes it. Raises AssertionError, or what its reader raises."""
    keys = set(part) if isinstance(part, dict) else set()
    if isinstance(part, list):
        return within({**SPEC, "schedules": part})
    if "scaleTargetRef" in part.get("spec", {}):
        return written_spec(part)
    if part.get("kind") == "PlannedEvent":
        event = parse_event(part["metadata"]["name"], part["metadata"]["namespace"], part["spec"])
        assert () == event.problems
        assert [] == list(broken_rules(part["spec"], PLANNED_EVENT))
        return event
    if keys == {"sources"}:
        return parse_sources(yaml.safe_dump(part), "page")
    if keys == {"query"}:
        return parse_sources(
            yaml.safe_dump({"sources": {"requests": {"prometheus": {"url": "http://prometheus:9090", **part}}}}), "page"
        )
    if keys <= SCHEDULE:
        return within({**SPEC, "schedules": [{**SPEC["schedules"][0], **part}]})
    if keys <= FIELDS:
        return within({**SPEC, **part})
    return None


def is_checked_elsewhere(part):
    keys = set(part) if isinstance(part, dict) else set()
    return (
        keys <= VALUES
        or keys in ({"repos"}, {"scrape_configs"}, {"data"})
        or "ignoreDifferences" in str(keys | set(part.get("spec", {})))
        or "healthCheckExprs" in part.get("spec", {})
    )


@pytest.mark.parametrize("block", named(BLOCKS))
def test_each_manifest_and_each_part_of_one_is_taken_by_what_reads_it(block):
    # Two lines of one name are two ways to write it.
    texts = block.text.splitlines() if re.match(r"(\w+):.*\n\1:", block.text) else [block.text]
    for part in (document for text in texts for document in yaml.safe_load_all(text)):
        assert is_checked_elsewhere(part) or is_taken(part), f"nothing checks {part}"


@pytest.mark.cluster
@pytest.mark.parametrize(
    "block", named(block for block in BLOCKS if (part := re.match(r"(\w+):", block.text)) and part[1] in VALUES)
)
def test_each_value_of_the_chart_is_rendered(block):
    for text in block.text.splitlines() if re.match(r"(\w+):.*\n\1:", block.text) else [block.text]:
        assert "kind: StatefulSet" in helm_template(values=yaml.safe_load(text))


def of(page, key):
    return [
        part for block in BLOCKS if block.page == page for part in yaml.safe_load_all(block.text) if key in str(part)
    ]


def test_the_hook_of_the_page_is_one_that_the_repository_has():
    (config,) = of("docs/how-to/gitops.md", "repos")
    hooks = yaml.safe_load((PROJECT / ".pre-commit-hooks.yaml").read_text())

    assert {"cronhpa-preview"} == {hook["id"] for hook in config["repos"][0]["hooks"]} & {hook["id"] for hook in hooks}


def test_fluxs_expressions_tell_an_object_that_decides_from_one_that_never_will():
    (kustomization,) = of("deploy/argocd/README.md", "healthCheckExprs")
    (check,) = kustomization["spec"]["healthCheckExprs"]

    def says(name, conditions):
        context = cel.Context()
        context.add_variable("status", {"conditions": conditions})
        return cel.evaluate(check[name], context)

    assert (True, False) == (says("current", HEALTHY), says("failed", HEALTHY))
    assert (False, True) == (says("current", UNREADABLE), says("failed", UNREADABLE))


def test_argo_cd_is_told_to_leave_fields_alone_that_the_objects_have():
    rules = [
        rule
        for part in of("deploy/argocd/README.md", "ignoreDifferences")
        for rule in part.get("spec", {}).get("ignoreDifferences", [])
    ]
    paths = {"Deployment": {"/spec/replicas"}, "CronHPA": {"/spec/override"} & {f"/spec/{name}" for name in FIELDS}}

    assert paths == {rule["kind"]: set(rule["jsonPointers"]) for rule in rules}


@pytest.mark.long  # its first run builds Prometheus
def test_prometheus_reads_the_scrape_configuration_of_the_page(tmp_path):
    (config,) = of("docs/monitoring.md", "scrape_configs")
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    ended = subprocess.run(
        [promtool(), "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True, check=False
    )

    assert 0 == ended.returncode, ended.stdout + ended.stderr
