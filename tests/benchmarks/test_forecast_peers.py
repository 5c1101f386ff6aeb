"""Forecasts by others' own code: which prediction becomes which floor, and whether the published table is stale."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("benchmark_scripts")

REFRESH = (
    "stale: make bench-forecast-peers DAYS=3, then python benchmarks/forecast_peers.py benchmarks/traces --publish"
)


@pytest.fixture
def figures():
    import forecast_peers

    return json.loads(forecast_peers.PUBLISHED.read_text())


def test_crane_holds_the_largest_prediction_of_its_window_from_the_step_before_on():
    """Four samples a step, 4 steps a day: a quarter of a day ahead is a step, and the first sample of the next."""
    import forecast_peers

    series = SimpleNamespace(steps=np.zeros(8), steps_per_day=4)
    answers = [
        {"row": 4, "perStep": 4, "predicted": [1, 9, 1, 1, 2, 3, 2, 2, 7, 1, 1, 1, 0]},
        {"row": 6, "perStep": 4, "predicted": []},
    ]

    expected = forecast_peers.laid_crane(series, answers, 86_400 // 4)

    np.testing.assert_array_equal(expected[3:5], [[9, 9], [7, 7]])
    assert np.isnan(expected[5:]).all(), "no period, no forecast"
    assert np.isnan(expected[:3]).all()


def test_a_daily_model_gives_each_step_and_the_one_behind_it():
    import forecast_peers

    series = SimpleNamespace(steps=np.zeros(4 + 6), steps_per_day=4, first_step=4)
    answers = [{"predicted": [10, 11, 12, 13, 14]}, {"predicted": [20, 21, 22, 23, 24]}]

    expected = forecast_peers.laid(series, answers)

    np.testing.assert_array_equal(expected[3:], [[10, 11], [11, 12], [12, 13], [13, 14], [20, 21], [21, 22], [22, 23]])


def test_the_table_is_that_of_its_figures(figures):
    import forecast_peers
    import publish

    page = publish.PAGE.read_text()

    assert page == forecast_peers.written(page, figures), REFRESH


def test_the_figures_are_of_todays_versions_and_settings_with_nobody_missing(figures):
    import forecast_peers

    assert forecast_peers.versions() == figures["versions"], REFRESH
    assert forecast_peers.settings(60) == figures["settings"], REFRESH
    assert {} == figures["missing"]


@pytest.mark.slow
def test_the_figures_are_what_the_shipped_path_gives_today(figures):
    import forecast_peers

    for policy, score in forecast_peers.probe(figures["days"]).items():
        assert figures["scores"][forecast_peers.PROBE][policy] == pytest.approx(score, rel=1e-3, abs=0.01), REFRESH
