"""docs/: generated pages are current, links lead somewhere, reasons are complete. test_documented.py has the rest."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cronhpa.api.schema import CronHPASpec

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
GENERATED = ("resource", "planned-event", "commands", "settings", "chart", "metrics")
ROOM = re.compile(r"[\w/]+: ([\d,]+) lines of code")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def of(path):
    return str(path.relative_to(PROJECT))


def test_the_generated_pages_are_what_the_code_says():
    ended = subprocess.run(
        [sys.executable, DOCS / "generate.py", "--check"], capture_output=True, text=True, check=False
    )

    assert (0, "") == (ended.returncode, ended.stdout), "run `make reference`"


def test_each_page_is_in_the_navigation_once():
    named = re.findall(r'= "([\w/.-]+\.md)"', (DOCS.parent / "zensical.toml").read_text())

    assert sorted(named) == sorted(str(path.relative_to(DOCS)) for path in PAGES)


def anchors(path):
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_each_link_leads_to_a_file_and_a_heading_that_are_there(page):
    links = re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text()))
    broken = []
    for link in links:
        name, _, anchor = link.partition("#")
        if re.match(r"https?:", link):
            continue
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)

    assert [] == broken


@pytest.mark.slow
def test_the_conditions_page_names_each_type_and_reason_that_the_code_has():
    """Texts in CamelCase of the packages that state conditions and events, but for names of other things."""
    others = {
        "AboveMaximum", "AverageValue", "BearerToken", "BelowMinimum", "CapacityBuffer", "ClockChange",
        "ClusterPlannedEvent", "ClusterRole", "ContainerResource",
        "CurrentReplicas", "CustomResourceDefinition", "DoesNotExist", "ExternalMetric", "FieldValueForbidden",
        "FieldValueRequired", "MaxFloorReplicas", "NoConfiguration", "NoContext", "NoEvidence", "NoKindMatch",
        "NoMetrics", "NoTarget", "NotFound", "NotIn", "NotLeading", "NotOne", "NotRegistered", "ObjectMetric",
        "HorizontalPodAutoscaler", "PlannedEvent",
        "PodScheduled", "PodsMetric", "ReadyForProvisioning", "ReplicaSet",
        "ReplicationController", "ResourceMetric", "RuntimeDefault",
        "SelfConflict", "StatefulSet", "SubjectAccessReview", "TokenReview", "TooLarge", "UnknownMetric", "WatchError",
    }  # fmt: skip
    texts = {
        node.value
        for package in ("api", "core", "operator", "kube")
        for path in (PROJECT / "cronhpa" / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"([A-Z][a-z]+){2,}", node.value)
    }
    page = (DOCS / "reference" / "conditions.md").read_text()

    assert set() == {text for text in texts - others if text not in page}
    assert set() == set(re.findall(r"`([A-Z]\w+)`", page)) - texts - words_of_the_code()


def words_of_the_code():
    """Reasons of one word, and those of other packages, such as the forecast's."""
    return {
        node.value
        for path in (PROJECT / "cronhpa").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.slow
def test_the_map_names_each_module_once_and_adds_up_the_rooms():
    def printed(*rooms):
        return subprocess.run([sys.executable, DOCS / "map.py", *rooms], capture_output=True, text=True, check=False)

    *lines, _, total = printed().stdout.splitlines()
    rooms = [int(lines_of_code[1].replace(",", "")) for line in lines if (lines_of_code := ROOM.fullmatch(line))]
    modules = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    packages = (PROJECT / "cronhpa", PROJECT / "models" / "cronhpa_models")

    assert [] == [module for module, *first_line in modules if not first_line]
    assert len(modules) == sum(1 for package in packages for path in package.rglob("*.py") if path.stat().st_size)
    assert f"{sum(rooms):,} lines of code" == total
    unknown = printed("attic")
    assert (1, "found attic; accepted are api, ") == (unknown.returncode, unknown.stderr[:31])


@pytest.mark.slow
def test_the_site_is_built_without_a_warning():
    """As `make docs` does."""
    config = tomllib.loads((PROJECT / "zensical.toml").read_text())["project"]
    subprocess.run([sys.executable, DOCS / "generate.py", "--site", config["docs_dir"]], cwd=PROJECT, check=True)

    ended = subprocess.run(
        [Path(sys.executable).parent / "zensical", "build", "--strict", "--clean"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    page = PROJECT / config["site_dir"] / "schedules" / "index.html"
    assert "https://github.com/cronhpa/cronhpa/tree/main/crds/examples" in page.read_text()
    # The theme's link to a repository asks api.github.com for its stars, from each reader.
    assert 'data-md-component="source"' not in page.read_text()


def test_the_reference_of_the_resource_begins_with_what_everybody_writes():
    """Found: cpuInitializationPeriodSeconds above schedules."""
    spec = (DOCS / "reference" / "resource.md").read_text().partition("## status")[0]
    fields = re.findall(r"^- \*\*`(\w+)`\*\*", spec, re.MULTILINE)

    assert ["scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "timeZone", "schedules", "override"] == fields[
        :7
    ]
    assert {*fields} == {*CronHPASpec.model_json_schema(by_alias=True)["properties"]}


def words(pages):
    return sum(len(page.read_text().split()) for page in pages)


def test_the_pages_are_short_enough_to_be_read():
    """
    What people write: 34,000 words; fields, commands and metrics make 11,500 more. What users meet, without reference,
    figures and decisions: 18,000.
    """
    folders = [DOCS, PROJECT / "changes", PROJECT / "deploy", PROJECT / ".github"]
    every = {page for folder in folders for page in folder.rglob("*.md")} | {*PROJECT.glob("*.md")}
    for_reviewers = {page for name in ("reference", "engineering", "decisions") for page in (DOCS / name).rglob("*.md")}
    changes = {PROJECT / "CHANGELOG.md", *(PROJECT / "changes").rglob("*.md")}
    generated = {DOCS / "reference" / f"{name}.md" for name in GENERATED}

    assert words(every - generated) <= 34_000
    assert words(every - for_reviewers - changes) <= 18_000


def test_readme_and_architecture_fit_their_readers():
    readme, architecture = (PROJECT / name for name in ("README.md", "ARCHITECTURE.md"))

    assert 80 <= len(readme.read_text().splitlines()) <= 100
    assert words([architecture]) <= 1_600
    assert all("docs/explanation/decision.md" in page.read_text() for page in (readme, architecture))
