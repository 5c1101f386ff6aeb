"""cronhpa.history.load.recorded: a load from the store, by the minute where minutes are kept."""

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, parse_instant
from cronhpa.history.database.series import STEP, LoadSample, Series
from cronhpa.history.load.recorded import recorded_load
from cronhpa.history.store import Store

NOW = parse_instant("2026-11-23T08:00:00Z")
SERIES = Series("prod", "shop", "cpu")


def test_minutes_take_the_place_of_the_steps_that_hold_them(tmp_path):
    """A step from 8:00 of which two minutes are known, and one before it that is known as a step alone."""
    store = Store(tmp_path / "history.db")
    store.loads.backfill(SERIES, [(NOW - STEP, 7.0)], width=STEP)
    store.loads.record([LoadSample(SERIES, NOW, 1.0), LoadSample(SERIES, NOW + MINUTE, 2.0)])

    points, middles = recorded_load(store.loads, SERIES)

    assert [(NOW, 7.0), (NOW + MINUTE, 1.0), (NOW + 2 * MINUTE, 2.0)] == points
    assert [NOW - STEP // 2, NOW + MINUTE // 2, NOW + 3 * MINUTE // 2] == middles


def test_a_series_that_is_not_known_has_no_load(tmp_path):
    store = Store(tmp_path / "history.db")

    assert ([], []) == recorded_load(store.loads, SERIES)


def test_loads_that_are_too_old_or_far_ahead_are_not_looked_up(tmp_path):
    store = Store(tmp_path / "history.db")
    kept = [NOW - 28 * DAY, NOW, NOW + HOUR]
    store.loads.record([LoadSample(SERIES, at, 1.0) for at in (*kept, NOW - 30 * DAY, NOW + 2 * DAY)])

    points, _ = recorded_load(store.loads, SERIES, NOW)

    assert [at + MINUTE for at in kept] == [at for at, _ in points]
