"""cronhpa.forecasting.recent: what is read of many series at once is what is read of each alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, parse_instant
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES
from cronhpa.forecasting.recent import Loads
from cronhpa.history.database.series import STEP, LoadSample, Series
from cronhpa.history.store import Store

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
SEVERAL = [Series("shop", name, "cpu") for name in ("web", "api", "worker")]
GONE = Series("shop", "gone", "cpu")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """
    Two days and four hours: the first series by the minute, the second every seven minutes, the third with gaps.

    What is older than three hours is packed into days; one late sample is a row beside its packed day.
    """
    store = Store(tmp_path_factory.mktemp("recent") / "history.db")
    draw = np.random.default_rng(5)
    end = MIDNIGHT + 2 * DAY + 4 * HOUR
    for series, every in zip(SEVERAL, (1, 7, 1), strict=True):
        for minute in range(0, (end - MIDNIGHT) // MINUTE, every):
            if series is not SEVERAL[2] or minute % 300 < 200:
                store.loads.record([LoadSample(series, MIDNIGHT + minute * MINUTE, float(draw.gamma(2.0)))])
    store.compact(end)
    store.loads.record([LoadSample(SEVERAL[0], end - 5 * HOUR, 99.0)])
    yield store
    store.close()


@settings(max_examples=40, deadline=None)
@given(
    begins=st.lists(st.integers(0, 52 * 12), min_size=3, max_size=3),
    end=st.integers(0, 53 * 60),
    with_minutes=st.booleans(),
)
def test_many_series_are_read_as_each_alone(store, begins, end, with_minutes):
    now = MIDNIGHT + end * MINUTE
    since = [min(MIDNIGHT + begin * STEP, now - now % STEP) for begin in begins]
    loads = Loads(store.loads.packed([*SEVERAL, GONE], min(since), now, minutes=with_minutes), min(since), now)

    for series, begin in zip(SEVERAL, since, strict=True):
        steps = (now - begin) // STEP
        expected = alone(*store.loads.history(series, begin, begin + steps * STEP), begin, steps, STEP)  # type: ignore[call-arg]  # mypy takes the star for more than two
        np.testing.assert_array_equal(expected, loads.steps(series, begin, steps))
        minutes = (now - begin) // MINUTE
        if with_minutes:
            expected = alone(*store.loads.minute_history(series, begin, now), begin, minutes, MINUTE)  # type: ignore[call-arg]  # mypy takes the star for more than two
            np.testing.assert_array_equal(expected, loads.minutes(series, begin, minutes))
    assert np.isnan(loads.steps(GONE, since[0], 3)).all()


def alone(first, highs, begin, count, every):
    grid = np.full(count, np.nan)
    grid[(first - begin) // every :][: len(highs)] = highs
    return grid


def test_an_ignored_span_is_a_gap_in_steps_and_marked_in_minutes(store):
    """From 00:10 to 00:20, of a fit at midnight: steps 2 and 3, minutes 10 to 19 behind those before the fit."""
    begin = MIDNIGHT + 2 * DAY
    first, end = begin - RUN_UP_MINUTES * MINUTE, begin + HOUR
    loads = Loads(store.loads.packed(SEVERAL[:1], first, end), first, end)

    recent = loads.since(SEVERAL[0], begin, begin + HOUR, [Span(begin + 10 * MINUTE, begin + 20 * MINUTE)])

    assert [2, 3] == np.flatnonzero(np.isnan(recent.steps)).tolist()
    assert list(range(10, 20)) == np.flatnonzero(recent.is_ignored[RUN_UP_MINUTES:]).tolist()
    assert not np.isnan(recent.minutes[RUN_UP_MINUTES:]).any()
