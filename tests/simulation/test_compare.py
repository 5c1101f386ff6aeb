"""What schedules and a forecast are worth: the same load run with and without them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.situations import NOW, at, cpu, forecast, queue, schedule, spec
from cronhpa.core.decision import Source
from cronhpa.core.instant import DAY, HOUR, MINUTE
from cronhpa.core.observation import Absent
from cronhpa.core.spec import ForecastSettings, Mode, Override, Span
from cronhpa.simulation.compare import Variant, asking_for, confirm, variants
from cronhpa.simulation.load import Load, Shape
from cronhpa.simulation.run import run
from cronhpa.simulation.world import Conditions

ONE_CORE = Conditions(capacity=1.0, requests={"cpu": 1000}, start_up=2 * MINUTE)
FORECAST = spec(minimum=1, metrics=(cpu(),), forecast=ForecastSettings())
# 6 cores, for an hour each day from 11:00 on 12.
RUSH = Load(
    [
        (at("00:00") + day * DAY + hour * HOUR, 12.0 if hour == 11 else 6.0)
        for day in range(-9, 2)
        for hour in range(24)
    ],
    shape=Shape.STEPS,
    gap_max=HOUR,
)


def knowing(factor=1.0):
    """Forecasts by somebody who knows the load, times a factor."""

    def forecasts(now):
        start = now - now % (5 * MINUTE)
        load = [factor * RUSH.at(start + k * 5 * MINUTE) for k in range(12)]
        return forecast(*load, metric="cpu", issued_at=now, start=start)

    return forecasts


def test_an_object_is_run_with_what_it_has():
    day, settings = schedule("day", floor=3), ForecastSettings(mode=Mode.PREVIEW)
    full = spec(
        schedules=(day,), forecast=settings, mode=Mode.PREVIEW, override=Override(at("12:00"), "INC-1", floor=9)
    )

    found = variants(full)

    assert [Variant.REACTIVE, Variant.SCHEDULED, Variant.FORECAST] == list(found)
    assert [(), (day,), (day,)] == [each.schedules for each in found.values()]
    assert [None, None, ForecastSettings()] == [each.forecast for each in found.values()]
    assert {(Mode.ACTIVE, None)} == {(each.mode, each.override) for each in found.values()}
    assert [Variant.REACTIVE] == list(variants(spec()))
    assert [Variant.SCHEDULED] == list(variants(spec(metrics=(), schedules=(day,))))


def test_a_forecast_that_knows_takes_every_minute_away():
    """
    Two rises from 6 to 12 cores, each short for 2.75 min without a forecast (see test_run): 5.5 min. With one, 14
    pods stand 135 s ahead of each, where the reactive 10 are raised to 18 some minutes later.
    """
    found = confirm(FORECAST, RUSH, ONE_CORE, knowing(), NOW, span=2 * DAY)

    assert 2 * 2.75 == found.of_minutes
    assert found.of_minutes == found.minutes_avoided
    assert 0 < found.extra_pod_hours_percent < 1
    assert found.pays(budget_percent=1)
    assert 2 * DAY == found.without.span == found.with_forecast.span


def test_a_forecast_that_exaggerates_does_not_pay():
    """Twice the load: 12 / 0.9 = 14 pods all day, 27 in the rush."""
    found = confirm(FORECAST, RUSH, ONE_CORE, knowing(2.0), NOW, span=DAY, sync_period=MINUTE)

    assert found.of_minutes == found.minutes_avoided
    assert 30 < found.extra_pod_hours_percent < 60
    assert not found.pays(budget_percent=5)


@pytest.mark.parametrize(
    "forecasts", [lambda _: None, lambda _: Absent("Learning", "not yet"), knowing(0.1)], ids=["none", "absent", "low"]
)
def test_a_forecast_that_says_nothing_changes_nothing(forecasts):
    found = confirm(FORECAST, RUSH, ONE_CORE, forecasts, NOW, span=6 * HOUR)

    assert replace(found.without, turns_by={}) == replace(found.with_forecast, turns_by={})
    assert (0, 0) == (found.minutes_avoided, found.extra_pod_hours_percent)
    assert not found.pays(budget_percent=5)


def test_the_schedules_are_on_both_sides():
    """With a floor of 13 from 10:30 on the rise is covered: nothing is left for a forecast to gain."""
    early = schedule("rush", "30 10 * * *", "0 12 * * *", floor=13)

    found = confirm(replace(FORECAST, schedules=(early,)), RUSH, ONE_CORE, knowing(), NOW, span=DAY, sync_period=MINUTE)

    assert 0 == found.of_minutes
    assert not found.pays(budget_percent=5)


def test_a_load_that_begins_later_is_confirmed_over_what_there_is():
    late = Load([(NOW - HOUR, 6.0), (NOW, 6.0)], gap_max=DAY)

    assert HOUR == confirm(FORECAST, late, ONE_CORE, knowing(), NOW).without.span


def test_what_cannot_be_confirmed_is_refused():
    with pytest.raises(ValueError, match="nothing to confirm"):
        confirm(spec(metrics=(queue(),)), RUSH, ONE_CORE, knowing(), NOW)
    with pytest.raises(ValueError, match="earlier"):
        confirm(FORECAST, Load([(NOW, 1.0)]), ONE_CORE, knowing(), NOW)


def test_floors_in_pods_are_asked_for_minute_by_minute():
    """Floors of 0, 15 and 12 for a minute each, from one minute in on; 10 pods carry the load."""
    found = []
    forecasts = asking_for([0, 15, 12], FORECAST, ONE_CORE, NOW + MINUTE)

    run(
        FORECAST, Load([(NOW, 6.0)]), ONE_CORE, Span(NOW, NOW + 6 * MINUTE), forecasts=forecasts,
        watch=lambda _, decision: found.append(asked(decision)),
    )  # fmt: skip

    assert [None] * 4 + [0] * 4 + [15] * 4 + [12] * 4 + [None] * 8 == found


def asked(decision):
    """What the forecast asks for; None where it abstains."""
    return next((item.replicas for item in decision.proposals if item.source is Source.FORECAST), None)


def test_a_floor_in_pods_needs_a_target_that_tells_the_load_of_one():
    with pytest.raises(ValueError, match="request"):
        asking_for([1], FORECAST, Conditions(capacity=1.0), NOW)


def test_a_confirmation_is_told_as_a_track_record():
    found = confirm(FORECAST, RUSH, ONE_CORE, knowing(), NOW, span=DAY, sync_period=MINUTE)

    record = found.track_record
    assert (found.minutes_avoided, found.of_minutes, 1) == (record.avoided, record.of, record.days)
    assert found.extra_pod_hours_percent == record.extra_percent
