"""The floors that the benchmarks replay are those of the policy, and know nothing that comes later."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from benchmarks.made_series import write
from cronhpa.forecasting.columns import AutoscalerModel
from cronhpa.forecasting.daily import DailyWalk
from cronhpa.forecasting.fitted_models import by_minute
from cronhpa.forecasting.recording import Recording

pytestmark = pytest.mark.usefixtures("benchmark_scripts")


def noisy_jumps(days, per_step):
    """A jump a day amid noise, in points of five minutes or of single ones."""
    rows = np.arange(days * 288 * per_step)
    return np.where(rows // per_step % 288 < 72, 3.0, 15.0) * np.random.default_rng(2).gamma(20.0, 0.05, len(rows))


@cache
def unchanged(folder, per_step):
    """Nine days of noisy jumps as the bench reads them, and the floors for them."""
    import policy_floors
    import recorded

    series = recorded.read(write(folder / f"{per_step}.csv", noisy_jumps(9, per_step), 300 // per_step))
    return series, policy_floors.replayed(series, AutoscalerModel(), (5, 10)).floors


@pytest.mark.slow
@pytest.mark.parametrize(
    "per_step", [1, pytest.param(5, marks=pytest.mark.long)], ids=["points of five minutes", "single minutes"]
)
@settings(max_examples=2, deadline=None, derandomize=True, phases=(Phase.generate,))
@given(after=st.integers(8 * 288 + 30, 9 * 288 - 1), seed=st.integers(0, 1000))
def test_no_floor_up_to_an_instant_changes_when_the_future_does(tmp_path_factory, per_step, after, seed):
    """The leak test of the whole: evaluation, choice, coverage, budget and floors, with noise after a step."""
    import policy_floors

    one, plain = unchanged(tmp_path_factory.getbasetemp(), per_step)
    points = one.steps if one.minutes is None else one.minutes
    noise = np.random.default_rng(seed).gamma(1.0, 30.0, len(points) - (after + 1) * per_step)
    changed = np.concatenate([points[: (after + 1) * per_step], noise])
    lines = np.append(one.load[0], changed)
    other = replace(
        one,
        steps=changed.reshape(-1, per_step).max(axis=1),
        minutes=None if one.minutes is None else changed,
        load=np.interp(np.arange(len(one.load)) * per_step / 20, np.arange(len(lines)), lines),
    )

    with_noise = policy_floors.replayed(other, AutoscalerModel(), (5, 10)).floors

    ticks_known = ((after + 1) * 5 - one.first_step * 5) * 4
    assert plain[:, :ticks_known].any()
    np.testing.assert_array_equal(plain[:, :ticks_known], with_noise[:, :ticks_known])


@pytest.mark.slow
@pytest.mark.parametrize("per_step", [1, 5], ids=["points of five minutes", "single minutes"])
def test_the_floors_of_the_bench_are_those_of_the_policy_day_by_day(tmp_path, per_step):
    """
    A budget of 50 % does not end, and coverage is not known before a hundred steps of the first tested day.

    A floor is in force from 30 s after its minute, two ticks, for four ticks: the third of each minute has that of it.
    """
    import policy_floors
    import recorded

    series = recorded.read(write(tmp_path / "a.csv", noisy_jumps(8, per_step), 300 // per_step))
    recording = Recording(series.begin.value, series.steps, series.minutes)
    target = policy_floors.target_of(series.name, AutoscalerModel(), 50)

    (floors,) = policy_floors.replayed(series, AutoscalerModel(), (50,)).floors

    day = DailyWalk(recording, target).day(series.first_step)
    expected = by_minute(day.provisioned.replicas, day.fitted.workload, 1440)[:500]
    assert expected.any()
    assert not floors[:2].any()
    if per_step == 5:
        np.testing.assert_array_equal(expected, floors[2::4][:500])
    else:
        # Of five minutes the third is asked for its step, and from 160 s on for the step behind it: not at 150 s yet.
        is_third = np.arange(500) % 5 == 2
        np.testing.assert_array_equal(expected[~is_third], floors[2::4][:500][~is_third])
        np.testing.assert_array_equal(expected[is_third], floors[3::4][:500][is_third])
