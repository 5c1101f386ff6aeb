"""docs/forecasting.md: its tables are those of its figures, and its figures are what the shipped path gives today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("benchmark_scripts")

PROJECT = Path(__file__).parents[2]
FIGURES = PROJECT / "docs" / "forecasting-figures.json"
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


def test_the_figures_are_what_the_shipped_path_gives_today(figures):
    """
    Three days of k8s_app11 by `decide`: whatever changes a choice, a floor or a decision changes them; what changes the
    code alone does not.
    """
    import probe

    found = probe.probe(PROJECT / "benchmarks" / "traces")

    for name, policies in figures["probe"].items():
        for policy, score in policies.items():
            assert found[name][policy] == pytest.approx(score, rel=1e-3, abs=0.01), f"{name}, {policy}: {REFRESH}"
    minutes = {name: [score["minutes"] for score in each.values()] for name, each in found.items()}
    assert all(plain > own for plain, own in minutes.values()), "a forecast that changes nothing proves nothing"
