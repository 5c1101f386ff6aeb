"""The forecast bench reads what it says, and its rivals look at nothing that comes later."""

import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _scripts(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    yield
    for name in ("forecast_value", "recorded", "rivals", "selected", "report"):
        sys.modules.pop(name, None)


def write(path, values, seconds):
    at = np.datetime64("2026-03-01T00:00:00") + np.arange(len(values)) * np.timedelta64(seconds, "s")
    lines = [f"{stamp}Z,{'' if np.isnan(value) else value}" for stamp, value in zip(at, values, strict=True)]
    path.write_text("timestamp,value\n" + "\n".join(lines) + "\n")
    return path


def daily(days, steps_per_day):
    clock = np.arange(days * steps_per_day) / steps_per_day * 2 * np.pi
    return 10 + 5 * np.sin(clock)


def test_minutes_become_maxima_of_five_and_the_mean_load_what_20_pods_carry_at_60_percent(tmp_path):
    import recorded

    series = recorded.read(write(tmp_path / "a.csv", daily(10, 1440), 60))

    assert (10 * 288, 288, 7 * 288) == (len(series.steps), series.steps_per_day, series.first_step)
    assert pytest.approx(12.0) == series.minutes.mean()
    assert series.minutes[:5].max() == series.steps[0]
    assert len(series.load) == 20 * len(series.steps)


def test_an_hourly_series_is_replayed_with_a_point_a_step(tmp_path):
    import recorded

    series = recorded.read(write(tmp_path / "a.csv", daily(40, 24), 3600))

    assert (40 * 24, 24, 28 * 24) == (len(series.steps), series.steps_per_day, series.first_step)
    assert series.minutes is None
    assert series.steps[1] == series.load[20]


def test_a_few_gaps_are_gaps_and_many_are_zero(tmp_path):
    import recorded

    some, most = daily(8, 288), daily(8, 288)
    some[100:110] = np.nan
    most[np.arange(len(most)) % 288 < 144] = np.nan

    assert 10 == np.isnan(recorded.read(write(tmp_path / "a.csv", some, 300)).steps).sum()
    assert 0 == np.isnan(recorded.read(write(tmp_path / "b.csv", most, 300)).steps).sum()


def test_a_grid_of_other_seconds_is_refused_by_name(tmp_path):
    import recorded

    with pytest.raises(
        ValueError, match=r"odd.csv: a point every 70 s: a part of a minute, minutes or a multiple of 300 s"
    ):
        recorded.read(write(tmp_path / "odd.csv", daily(2, 100), 70))


@pytest.mark.parametrize("name", ["Crane-like", "PHPA-like .3/.05/.3", "AWS-like", "seasonal naive"])
def test_rivals_look_at_nothing_that_comes_later(tmp_path, name):
    import recorded
    import rivals

    load = daily(9, 288)
    changed = np.concatenate([load[: 7 * 288], np.random.default_rng(1).gamma(2.0, 9.0, 2 * 288)])
    one, two = (recorded.read(write(tmp_path / "a.csv", each, 300)) for each in (load, changed))
    # Both are scaled to the same mean: what is compared is in the unit of the file.
    found = [rivals.RIVALS[name](each) * scale.mean() for each, scale in ((one, load), (two, changed))]

    np.testing.assert_allclose(found[0][: 7 * 288], found[1][: 7 * 288], rtol=0.02)


def test_a_forecast_beats_plain_scaling_on_a_daily_jump_within_its_budget(tmp_path):
    """The whole bench on a made series: ten days of one jump a day."""
    import forecast_value
    import recorded

    from cronhpa.learning.screening import World

    load = np.where(np.arange(10 * 288) % 288 < 72, 3.0, 15.0)
    series = recorded.read(write(tmp_path / "jump.csv", load, 300))

    scores = forecast_value.run(series, World())

    plain, five = scores["reactive"], scores["ours, budget 5 %"]
    assert plain.minutes > 1.0
    assert five.minutes < 0.5 * plain.minutes
    assert five.pod_hours <= 1.05 * plain.pod_hours
    assert scores["oracle"].minutes <= five.minutes
