"""What the public home is made of: workflows, hooks and forms. Their commands exist, and what they take is pinned."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fuzz.__main__ import BUILD
from testbed import build

PROJECT = Path(__file__).parents[2]
GITHUB = PROJECT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yaml"))


def read(path):
    return yaml.safe_load(path.read_text("utf-8"))


def steps():
    """(workflow, step) of every job."""
    return [
        (path.name, step) for path in WORKFLOWS for job in read(path)["jobs"].values() for step in job.get("steps", [])
    ]


@pytest.mark.cluster
def test_the_linter_of_workflows_finds_nothing():
    ended = subprocess.run(
        [build.actionlint(), "-no-color", *WORKFLOWS], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert (0, "", "") == (ended.returncode, ended.stdout, ended.stderr)


def test_each_action_is_named_by_a_commit_and_says_its_version():
    lines = [
        line
        for path in WORKFLOWS
        for line in path.read_text("utf-8").splitlines()
        if "uses: ." not in line and "uses:" in line
    ]

    assert len(lines) > 10
    assert [] == [line for line in lines if not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)]


def test_workflows_may_read_and_what_may_write_is_a_job():
    assert {"contents: read"} == {
        ", ".join(f"{key}: {value}" for key, value in read(path)["permissions"].items()) for path in WORKFLOWS
    }


def test_no_step_puts_what_others_wrote_into_a_shell():
    """`${{ github.event... }}` within `run` is executed: such values belong into `env`."""
    runs = [step["run"] for _, step in steps() if "run" in step]

    assert [] == [run for run in runs if re.search(r"\$\{\{\s*(github\.event|github\.head_ref|inputs)", run)]


def test_each_target_of_make_that_a_step_runs_exists():
    there = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    nightly = read(GITHUB / "workflows" / "nightly.yaml")["jobs"]["proof"]["strategy"]["matrix"]["target"]
    asked = {word for _, step in steps() for word in re.findall(r"make ([a-z-]+)", step.get("run", ""))}

    assert {"check", "unit", "test"} <= asked
    assert set() == (asked | {target.split()[0] for target in nightly}) - there


def test_each_night_fuzzes_on_with_what_the_nights_before_have_found_to_be_new():
    """Also after a night that found a bug: a step that follows a failed one runs only where it says so."""
    steps = read(GITHUB / "workflows" / "nightly.yaml")["jobs"]["proof"]["steps"]
    at = {step.get("uses", "").partition("@")[0]: number for number, step in enumerate(steps)}
    run = next(number for number, step in enumerate(steps) if step.get("run", "").startswith("make"))
    restored, saved = (steps[at[f"actions/cache/{what}"]] for what in ("restore", "save"))
    kept, broken = restored["with"]["path"].split()

    assert at["actions/cache/restore"] < run < at["actions/cache/save"]
    assert "always() && " + restored["if"] == saved["if"] == "always() && startsWith(matrix.target, 'fuzz')"
    assert restored["with"]["path"] == saved["with"]["path"]
    assert (str(BUILD.relative_to(PROJECT)), f"!{kept}/*-broken") == (kept, broken)
    assert restored["with"]["key"] == saved["with"]["key"]
    # Of this run alone, and found by what comes before it.
    before, _, of_run = saved["with"]["key"].partition("${{ github.run_id }}")
    assert (restored["with"]["restore-keys"], of_run[:1]) == (before, "-")


def test_the_unit_tests_run_on_each_python_that_is_claimed():
    claimed = re.findall(r"Python :: (3\.\d+)", (PROJECT / "pyproject.toml").read_text())

    assert claimed == read(GITHUB / "workflows" / "ci.yaml")["jobs"]["unit"]["strategy"]["matrix"]["python"]


def test_each_lock_of_go_modules_is_watched_for_updates():
    locks = {f"/{path.parent.relative_to(PROJECT)}" for path in PROJECT.glob("tests/testbed/lock/*/go.mod")}
    watched = next(
        update["directories"]
        for update in read(GITHUB / "dependabot.yml")["updates"]
        if update["package-ecosystem"] == "gomod"
    )
    # An older Kubernetes stays at its own version: that is what it is for.
    assert set(watched) == {lock for lock in locks if not re.search(r"kubernetes-1\.\d+$", lock)}


def test_each_form_asks_for_something_and_says_what():
    forms = [read(path) for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yaml"))]

    assert 2 == len(forms)
    for form in forms:
        assert {"name", "description", "body"} <= form.keys()
        assert all(field["attributes"]["label"] for field in form["body"])


GOOD = """apiVersion: cronhpa.io/v1alpha1
kind: CronHPA
metadata: {name: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  maxReplicas: 9
  schedules: [{name: day, start: "0 8 * * *", end: "0 18 * * *", minReplicas: 3}]
"""
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code", "says"),
    [(GOOD, 0, "shop"), (OTHER, 0, ""), (GOOD.replace("maxReplicas", "maxReplica"), 1, "did you mean maxReplicas?")],
    ids=["a good object", "another kind", "a misspelt field"],
)
def test_the_hook_for_other_repositories_refuses_a_slip_and_passes_over_other_kinds(tmp_path, text, code, says):
    """
    pre-commit splits the entry as a shell does and adds the names of the files.

    Found: with the bash of macOS, which lacks mapfile, everything was passed over.
    """
    (tmp_path / "bash-3.2").write_text("enable -n mapfile readarray")
    (tmp_path / "a b.yaml").write_text(text)
    (tmp_path / "other.yaml").write_text(OTHER)
    hook = read(PROJECT / ".pre-commit-hooks.yaml")[0]
    program = Path(sys.executable).with_name("cronhpa")

    ended = subprocess.run(
        [*shlex.split(hook["entry"]), "a b.yaml", "other.yaml"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": f"{program.parent}:/usr/bin:/bin", "BASH_ENV": str(tmp_path / "bash-3.2")},
    )  # fmt: skip

    assert code == ended.returncode
    assert says in ended.stdout + ended.stderr
