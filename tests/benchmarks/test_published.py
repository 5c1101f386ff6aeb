"""docs/engineering/forecasting.md: its tables are those of its figures, and these are what the shipped path gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("benchmark_scripts")

PROJECT = Path(__file__).parents[2]
FIGURES = PROJECT / "docs" / "engineering" / "forecasting-figures.json"
REFRESH = (
    "the published figures are stale: make bench-forecast TRACES=DIR with all twenty series, "
    "then python benchmarks/publish.py"
)


@pytest.fixture
def figures():
    return json.loads(FIGURES.read_text())


def test_the_tables_are_those_of_the_figures(figures):
    import publish

    page = publish.PAGE.read_text()

    assert page == publish.written(page, figures), "the tables were edited by hand: python benchmarks/publish.py"


def test_the_figures_are_of_todays_limits_of_the_budget(figures):
    """Three days, which the next test computes anew, hardly use a week's budget."""
    import publish

    assert publish.limits() == figures["limits"], REFRESH


@pytest.mark.slow
def test_the_figures_are_what_the_shipped_path_gives_today(figures):
    """
    Three days of k8s_app11 by `decide`: whatever changes a choice, a floor or a decision changes them; what changes the
    code alone does not.
    """
    import probe

    today = probe.probe(PROJECT / "benchmarks" / "traces")

    for name, policies in figures["probe"].items():
        for policy, score in policies.items():
            assert today[name][policy] == pytest.approx(score, rel=1e-3, abs=0.01), f"{name}, {policy}: {REFRESH}"
    minutes = {name: [score["minutes"] for score in policies.values()] for name, policies in today.items()}
    assert all(plain > own for plain, own in minutes.values()), "a forecast that changes nothing proves nothing"


def test_a_run_by_columns_alone_leaves_the_figures_by_decide_and_what_tells_their_age(figures):
    import publish

    score = figures["shipped"]["k8s_app11_cpu_1m"]
    by_columns = {"k8s_app11_cpu_1m": score}
    settings = dict.fromkeys((publish.SLOW, publish.HIGH), by_columns)
    run = {"shipped": by_columns, "decided": [], "budgets": [], "scores": by_columns, "grid": {"scores": settings}}

    shown = publish.shown(run, figures)

    assert {name: shown[name] for name in figures if name != "settings"} == {
        name: figures[name] for name in figures if name != "settings"
    }
    assert [list(of_setting) for of_setting in shown["settings"].values()] == [["k8s_app11_cpu_1m"]] * 3


def test_a_run_by_decide_replaces_its_figures_and_keeps_those_of_other_settings(figures):
    import publish

    name = "k8s_app11_cpu_1m"
    run = {"shipped": {name: figures["shipped"][name]}, "decided": [name], "budgets": [5], "grid": {}}

    shown = publish.shown(run, figures)

    assert (shown["decided"], shown["budgets"], list(shown["shipped"])) == ([name], [5], [name])
    assert shown["settings"] == figures["settings"]
    assert "probe" not in shown, "the probe and the limits are of the code that gave the figures"
