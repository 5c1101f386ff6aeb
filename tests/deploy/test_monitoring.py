"""deploy/monitoring: the generated files are not stale, and every name in them exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from cronhpa.operator.monitoring.families import FAMILIES, FamilyKind

PROJECT = Path(__file__).parents[2]
SUFFIXES = {FamilyKind.HISTOGRAM: ("_bucket", "_sum", "_count")}
DECLARED = {f"{family.name}{suffix}" for family in FAMILIES for suffix in SUFFIXES.get(family.kind, ("",))}
NAME = re.compile(r"(?<![\w:])cronhpa_\w+(?![\w:])")
RECORDED = re.compile(r"[a-z_]+:cronhpa_\w+:\w+")


def test_no_made_file_is_stale(scripts):
    """`make monitoring` writes them."""
    stale = [
        path.relative_to(PROJECT).as_posix()
        for path, text in scripts["generate"].files().items()
        if not path.exists() or path.read_text("utf-8") != text
    ]

    assert [] == stale


def expressions(scripts):
    asked = [alert.expr for alert in scripts["rules"].alerts()]
    asked += [expr for _, expr in scripts["rules"].recordings()]
    for rows in (scripts["dashboards"].FLEET, scripts["dashboards"].OBJECT):
        asked += [expr for _, expr in scripts["dashboards"].queries(rows)]
    return asked


def test_rules_and_panels_ask_for_declared_families_and_recorded_series_alone(scripts):
    recorded = {name for name, _ in scripts["rules"].recordings()}
    for expression in expressions(scripts):
        assert {*NAME.findall(RECORDED.sub("", expression))} <= DECLARED
        assert {*RECORDED.findall(expression)} <= recorded


def test_each_alert_says_what_to_do_on_a_page_of_its_name_and_each_page_is_of_an_alert(scripts):
    names = {alert.name for alert in scripts["rules"].alerts()}
    pages = {path.stem: path.read_text("utf-8") for path in (PROJECT / "docs" / "runbooks").glob("CronHPA*.md")}

    assert names == set(pages)
    for name, text in pages.items():
        assert text.startswith(f"# {name}\n")
        assert ["## What it means", "## How to see it", "## What to do"] == re.findall(r"^## .*", text, re.MULTILINE)


def test_each_alert_has_the_annotations_that_a_receiver_shows(scripts):
    for rule in scripts["rules"].groups()["groups"][1]["rules"]:
        assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
        assert rule["annotations"]["runbook_url"].endswith(f"/docs/runbooks/{rule['alert']}.md")
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}


def test_short_waits_change_the_waits_alone(scripts):
    """The testbed fires the same rules within seconds, with shorter durations."""
    waits = dict.fromkeys(scripts["rules"].Waits()._fields, "1s") | {"lag_seconds": 0.1}
    short = scripts["rules"].alerts(scripts["rules"].Waits(**waits))

    for ours, shipped in zip(short, scripts["rules"].alerts(), strict=True):
        assert (ours.name, ours.severity, NAME.findall(ours.expr)) == (
            shipped.name, shipped.severity, NAME.findall(shipped.expr),
        )  # fmt: skip
        assert "1s" == ours.wait or shipped.wait == "0s"


def test_the_rule_file_is_yaml_that_says_the_same_as_the_rules(scripts):
    text = scripts["generate"].rules_text()

    assert scripts["rules"].groups() == yaml.safe_load(text)


DASHBOARDS = sorted((PROJECT / "deploy" / "monitoring" / "grafana").glob("*.json"))


def test_an_object_with_a_fixed_count_is_not_at_its_maximum(scripts):
    """Found: at night all that sleep with 0 replicas were; the condition MaxedOut is the home of the rule."""
    of = dict(scripts["dashboards"].queries(scripts["dashboards"].FLEET))

    assert 'cronhpa_object_condition{namespace=~"$namespace", type="MaxedOut", status="True"}' in of["At their maximum"]
    assert re.search(r"and .*max_replicas.* > .*min_replicas", of["Nearest to their maximum"])


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_one_by_the_models_of_grafana(path):
    """Read by them and written again it is the same: no field is lost, none is of another type."""
    told = json.loads(path.read_text("utf-8"))

    assert told == json.loads(json.dumps(Dashboard.from_json(told), cls=JSONEncoder))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_panels_of_a_dashboard_lie_beside_each_other(path):
    """On Grafana's grid of 24 columns; none without a title, and none of data without a query and its unit."""
    panels = [panel for panel in json.loads(path.read_text("utf-8"))["panels"] if panel["type"] != "row"]
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place.get("x", 0), place.get("x", 0) + place["w"])
        for y in range(place.get("y", 0), place.get("y", 0) + place["h"])
    ]

    assert len(panels) > 10
    assert len(taken) == len(set(taken))
    assert {x for x, _ in taken} <= set(range(24))
    assert all(panel["title"] and panel["targets"] for panel in panels)
    assert [] == [panel["title"] for panel in panels if panel["type"] != "table" and not unit_of(panel)]


def unit_of(panel):
    return panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
