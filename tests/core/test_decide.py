"""One decision: proposals, their merge, and the count without metrics."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.situations import (
    DOWN,
    NO_METRICS,
    NOW,
    at,
    behavior,
    cpu,
    exactly,
    forecast,
    joined,
    queued,
    recommended,
    rules,
    schedule,
    seen,
    spec,
)
from cronhpa.core.behavior import Limits
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import DecisionKind, Rate, Role, Rule, Scaled, Source, SourceRef, Step
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, ScalarReading, Scale
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, Mode, Override, PodsMetric, SelectPolicy
from cronhpa.core.reasons import reason, upstream_reason

FAST = behavior(up=rules(("Pods", 1000, 15), window=0), down=rules(("Percent", 100, 15), window=0))
REQUESTS = PodsMetric("requests", MetricTarget("AverageValue", average_value=50_000))


def decided(of, observation, *, memory=None, told=None, clock="10:00"):
    return decide(of, observation, told, Memory() if memory is None else memory, at(clock))


def day(**bounds):
    """A schedule that is open from 08:00 to 18:00."""
    return schedule("day", **bounds)


def rule_names(decision):
    return [step.rule for step in decision.steps]


# --- merge -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "floor", "cap", "merged"),
    [(5, None, None, 5), (5, 8, None, 8), (5, 3, None, 5), (9, None, 7, 7), (5, 7, 7, 7), (5, 9, 7, 7), (0, 0, 0, 0)],
)
def test_floors_raise_and_then_caps_lower(target, floor, cap, merged):
    clamped, _ = Limits(1, 100, floor, cap).clamp(target)

    assert merged == clamped


def test_a_floor_above_a_cap_raises_the_count_and_the_cap_takes_it_back():
    count, steps = Limits(1, 100, floor=9, cap=5).clamp(5)

    assert 5 == count
    assert [Step(Rule.FLOOR, 5, 9), Step(Rule.CAP, 9, 5)] == [*steps]


@pytest.mark.parametrize(
    ("queue_length", "current", "bounds", "merged", "source"),
    [
        (50, 4, {"floor": 8}, 8, "Schedule/day"),  # 50 / 10 = 5, raised
        (50, 4, {"floor": 3}, 5, "Metric/queue"),
        (90, 4, {"cap": 7}, 7, "Schedule/day"),  # 90 / 10 = 9, lowered
        (50, 4, {"cap": 7}, 5, "Metric/queue"),
        (50, 4, {"floor": 5}, 5, "Metric/queue"),  # both ask for 5 in place of 4
        (50, 5, {"floor": 5}, 5, "Schedule/day"),  # 5 are there, and without the metrics 5 would stay
        (50, 5, {"cap": 5}, 5, "Metric/queue"),
    ],
)
def test_the_merged_count_has_the_source_that_set_it_last(queue_length, current, bounds, merged, source):
    decision = decided(spec(schedules=(day(**bounds),)), queued(queue_length, current=current))

    assert (merged, source) == (decision.recommended.replicas, str(decision.recommended.by))


def test_the_specs_own_bounds_are_not_applied_before_the_behavior():
    """As upstream the raw number is recorded, 50 of a maximum of 20, and clipped last."""
    decision = decided(spec(2, 20, behavior=FAST), queued(500, current=10))

    assert (50, 50, 20) == (decision.merged, decision.recommended.replicas, decision.desired)
    assert [Rule.TOO_MANY_REPLICAS] == rule_names(decision)


def test_a_floor_is_exact_inside_the_tolerance_band():
    """22 of 24 is within the tolerance of a metric; a floor of 24 means 24."""
    decision = decided(spec(schedules=(day(floor=24),), behavior=FAST), queued(220, current=22))

    assert 24 == decision.desired
    assert "Schedule/day" == str(decision.decided_by)
    assert "Schedule/day asks for at least 24" == reason(decision)


def test_a_cap_is_exact_inside_the_tolerance_band():
    decision = decided(spec(schedules=(day(cap=20),), behavior=FAST), queued(220, current=22))

    assert 20 == decision.desired
    assert "Schedule/day" == str(decision.decided_by)


def test_a_metric_decides_between_floor_and_cap():
    decision = decided(spec(schedules=(day(floor=10, cap=50),), behavior=FAST), queued(300, current=20))

    assert 30 == decision.desired
    assert SourceRef(Source.METRIC, "queue") == decision.decided_by
    assert "queue asks for 30" == reason(decision)


def test_the_minimum_of_an_open_window_may_lie_below_the_specs():
    """Nights may have fewer than the spec's minimum of 5."""
    decision = decided(spec(5, schedules=(day(floor=1),), behavior=FAST), queued(10, current=5))

    assert 1 == decision.desired


def test_a_floor_is_applied_again_after_stabilization():
    """The up window remembers a 3; the floor of 20 does not wait for it."""
    slow = behavior(up=rules(("Pods", 1000, 15), window=5 * MINUTE))
    decision = decided(
        spec(schedules=(day(floor=20),), behavior=slow), queued(30, current=10), memory=recommended(3, "09:59")
    )

    assert 20 == decision.desired
    assert [] == rule_names(decision)


def test_the_end_of_a_window_is_as_calm_as_any_scale_down():
    """20 asked for until 18:00; at 18:01 the window of 300 s still knows it."""
    of = spec(schedules=(day(floor=20),))

    decision = decided(of, queued(30, current=20), memory=recommended(20, "17:59:45"), clock="18:01")

    assert 20 == decision.desired
    assert [Rule.SCALE_DOWN_STABILIZED] == rule_names(decision)


def test_with_schedules_the_specs_bounds_are_approached_at_the_rate_of_the_policies():
    """50 above a maximum of 20: one pod a minute, where upstream jumps."""
    slow = behavior(down=rules(("Pods", 1, 60), window=0))

    assert 49 == decided(spec(2, 20, schedules=(day(),), behavior=slow), queued(500, current=50)).desired
    assert 20 == decided(spec(2, 20, behavior=slow), queued(500, current=50)).desired


def test_without_schedules_a_count_outside_the_bounds_jumps_to_them():
    above, below = decided(spec(2, 20), queued(0, current=50)), decided(spec(5, 20), queued(0, current=1))

    assert (DecisionKind.ABOVE_MAXIMUM, 20, "Current number of replicas above Spec.MaxReplicas") == (
        above.kind,
        above.desired,
        upstream_reason(above),
    )
    assert (DecisionKind.BELOW_MINIMUM, 5, "Current number of replicas below Spec.MinReplicas") == (
        below.kind,
        below.desired,
        upstream_reason(below),
    )


def test_without_metrics_the_lower_bound_is_the_target():
    of = spec(2, metrics=(), schedules=(day(floor=20),), behavior=FAST)

    assert 20 == decided(of, seen(current=5)).desired
    assert 2 == decided(of, seen(current=20), clock="18:00").desired


def test_an_override_is_obeyed_until_it_expires():
    of = spec(behavior=FAST, override=Override(at("11:00"), "INC-4711", floor=30))

    assert (30, "Override") == (
        decided(of, queued(50, current=5)).desired,
        str(decided(of, queued(50, current=5)).decided_by),
    )
    assert 5 == decided(of, queued(50, current=5), clock="11:00").desired


def test_headroom_of_an_open_window_counts_for_the_metric():
    """20 in the queue are 2 pods; half as much again is 3."""
    of = spec(1, schedules=(day(headroom_percent=50),), behavior=FAST)

    assert 3 == decided(of, queued(20, current=1)).desired
    assert 2 == decided(of, queued(20, current=1), clock="19:00").desired


# --- no evidence -------------------------------------------------------------------------------------------------


def test_when_all_metrics_are_absent_the_count_stays():
    decision = decided(spec(), seen(NO_METRICS, current=8))

    assert (DecisionKind.HELD, 8, None) == (decision.kind, decision.desired, decision.recommended)


def test_when_all_metrics_are_absent_a_floor_still_raises():
    decision = decided(spec(schedules=(day(floor=20),), behavior=FAST), seen(NO_METRICS, current=8))

    assert 20 == decision.desired
    assert "Schedule/day" == str(decision.decided_by)


def test_when_all_metrics_are_absent_nothing_but_a_cap_lowers():
    held = decided(spec(schedules=(day(floor=2),), behavior=FAST), seen(NO_METRICS, current=8))
    capped = decided(spec(schedules=(day(cap=5),), behavior=FAST), seen(NO_METRICS, current=8))

    assert (8, 5) == (held.desired, capped.desired)


def test_when_some_metrics_are_absent_the_others_may_raise_and_not_lower():
    """30 in the queue are 3 pods, 300 are 30."""
    of = spec(metrics=(*spec().metrics, cpu()), behavior=FAST)

    assert 8 == decided(of, seen(ScalarReading(30_000, 0), NO_METRICS, current=8)).desired
    assert 30 == decided(of, seen(ScalarReading(300_000, 0), NO_METRICS, current=8)).desired


def test_a_selector_that_cannot_be_used_holds_and_floors_still_raise():
    missing = Absent("SelectorRequired", "selector is required")
    blind = seen(NO_METRICS, current=8, selector_problem=missing)

    assert 8 == decided(spec(), blind).desired
    assert 20 == decided(spec(schedules=(day(floor=20),), behavior=FAST), blind).desired


def test_a_scale_that_cannot_be_read_ends_the_reconciliation():
    gone = Absent("FailedGetScale", "not found")
    decision = decided(spec(schedules=(day(floor=20),)), replace(queued(0, current=8), scale=gone))

    assert DecisionKind.UNREACHABLE == decision.kind
    assert not decision.rescales


BROKEN = schedule("broken", problem="start: cannot be read", floor=50)


def test_a_schedule_that_cannot_be_read_blocks_a_scale_down():
    """30 in the queue are 3 pods; the window that cannot be read might have asked for more."""
    decision = decided(spec(schedules=(BROKEN,), behavior=FAST), queued(30, current=8))

    assert 8 == decision.desired
    assert (Step(Rule.NO_EVIDENCE, 3, 8, SourceRef(Source.SCHEDULE, "broken")),) == decision.steps


def test_a_schedule_that_cannot_be_read_blocks_no_scale_up_and_no_floor_and_no_cap():
    def beside(observation, *others):
        return decided(spec(schedules=(BROKEN, *others), behavior=FAST), observation).desired

    assert 30 == beside(queued(300, current=8))
    assert 20 == beside(queued(30, current=8), day(floor=20))
    assert 5 == beside(queued(30, current=8), day(cap=5))


# --- zero --------------------------------------------------------------------------------------------------------

NIGHT = exactly("night", 0, start="0 22 * * *", end="0 6 * * *")


def zero(*, ours):
    return replace(recommended(0, "05:00"), zero=ours)


def test_a_night_is_slept_at_zero():
    of = spec(2, metrics=(cpu(),), schedules=(NIGHT,), behavior=FAST)

    decision = decided(of, seen(NO_METRICS, current=8), clock="22:00")

    assert 0 == decision.desired
    assert "Schedule/night" == str(decision.decided_by)


def test_a_morning_wakes_to_the_minimum_though_no_pod_can_be_measured():
    of = spec(2, metrics=(cpu(),), schedules=(NIGHT,), behavior=FAST)

    assert 0 == decided(of, seen(NO_METRICS, current=0), memory=zero(ours=True), clock="05:59").desired
    assert 2 == decided(of, seen(NO_METRICS, current=0), memory=zero(ours=True), clock="06:00").desired


def test_a_morning_wakes_to_the_floor_of_the_window_that_opens():
    of = spec(2, metrics=(cpu(),), schedules=(NIGHT, day(floor=20)), behavior=FAST)

    assert 20 == decided(of, seen(NO_METRICS, current=0), memory=zero(ours=True)).desired


@pytest.mark.parametrize("up", [rules(("Percent", 100, 15)), rules(("Percent", 1, 15), select=SelectPolicy.MIN)])
def test_a_morning_wakes_under_percent_policies(up):
    """0, 1, 2 ...: at any rate it leaves zero."""
    of = spec(20, metrics=(cpu(),), schedules=(NIGHT,), behavior=behavior(up=up))

    assert 1 == decided(of, seen(NO_METRICS, current=0), memory=zero(ours=True), clock="06:00").desired


def test_a_minimum_of_zero_keeps_what_cpu_alone_cannot_wake_until_a_window_does():
    """An abstaining metric means the effective minimum at a zero of ours, and that is 0 until 08:00."""
    of = spec(0, metrics=(cpu(),), schedules=(schedule("day", floor=3, lead=0),))

    for clock, replicas in (("07:59", 0), ("08:00", 3)):
        assert replicas == decided(of, seen(NO_METRICS, current=0), memory=zero(ours=True), clock=clock).desired


def test_a_zero_made_by_hand_stays():
    of = spec(2, schedules=(NIGHT, day(floor=20)), behavior=FAST)

    decision = decided(of, queued(500, current=0), memory=zero(ours=False))

    assert (DecisionKind.SUSPENDED, 0) == (decision.kind, decision.desired)


def test_a_zero_made_by_hand_stays_without_schedules():
    assert DecisionKind.SUSPENDED == decided(spec(0), queued(500, current=0)).kind


def test_a_zero_of_a_metric_is_left_again_when_the_metric_asks_for_more():
    """From zero the default rate allows 4; 30 in the queue are 3."""
    assert 3 == decided(spec(0), queued(30, current=0), memory=zero(ours=True)).desired


def test_a_zero_is_raised_to_a_minimum_that_was_raised_meanwhile():
    """As upstream: nothing in the queue, but the spec wants 6 now, past the default rate of 4."""
    assert 6 == decided(spec(6), queued(0, current=0), memory=zero(ours=True)).desired


def test_a_zero_that_was_never_observed_is_taken_as_scheduled():
    of = spec(2, schedules=(NIGHT,), behavior=FAST)

    assert 0 == decided(of, queued(0, current=0), clock="23:00").desired
    assert 2 == decided(of, queued(0, current=0)).desired


# --- forecasts ---------------------------------------------------------------------------------------------------

WITH_FORECAST = spec(1, metrics=(REQUESTS,), behavior=FAST, forecast=ForecastSettings())


def test_a_forecast_raises_above_the_metric():
    """1255 / 50 = 26 over 8 of the metric."""
    told = forecast(1255, metric="requests")

    decision = decided(WITH_FORECAST, seen(NO_METRICS, current=8), told=told)

    assert 26 == decision.desired
    assert "Forecast/requests" == str(decision.decided_by)
    assert (
        "Forecast/requests asks for at least 26 (a load of 1255 or more from 2026-11-23T10:00:00Z on is 5 % likely: "
        "26 pods at 50 each; more would not be worth their cost)"
    ) == reason(decision)


def test_a_forecast_lowers_nothing():
    decision = decided(WITH_FORECAST, seen(NO_METRICS, current=8), told=forecast(50, metric="requests"))

    assert 8 == decision.desired


def test_a_forecast_in_preview_is_told_and_not_obeyed():
    of = replace(WITH_FORECAST, forecast=ForecastSettings(mode=Mode.PREVIEW))

    decision = decided(of, seen(NO_METRICS, current=8), told=forecast(1255, metric="requests"))

    assert 8 == decision.desired
    assert [(Source.FORECAST, Role.FLOOR, 26)] == [
        (proposal.source, proposal.role, proposal.replicas) for proposal in decision.proposals
    ]


def test_a_forecast_is_capped_by_a_schedule_and_by_the_spec():
    told = forecast(1255, metric="requests")
    capped = replace(WITH_FORECAST, schedules=(day(cap=10),))
    small = replace(WITH_FORECAST, max_replicas=12)

    assert 10 == decided(capped, seen(NO_METRICS, current=8), told=told).desired
    assert 12 == decided(small, seen(NO_METRICS, current=8), told=told).desired


def test_a_forecast_that_abstains_is_told_with_its_reason():
    decision = decided(WITH_FORECAST, seen(NO_METRICS, current=8), told=Absent("Learning", "1 of 2 days"))

    assert 8 == decision.desired
    assert ("Learning", "1 of 2 days") in [
        (abstention.reason, abstention.message) for abstention in decision.abstentions
    ]


# --- upstream ----------------------------------------------------------------------------------------------------


def test_the_largest_metric_wins():
    of = spec(metrics=(*spec().metrics, *spec().metrics), behavior=FAST)

    assert 30 == decided(of, seen(ScalarReading(50_000, 0), ScalarReading(300_000, 0), current=5)).desired


def test_without_schedules_the_window_down_is_the_upstreams():
    of = spec(behavior=behavior(down=replace(DOWN, stabilization_window=MINUTE)))
    memory = joined(recommended(9, "09:58:59"), recommended(7, "09:59:30"))

    assert 7 == decided(of, queued(20, current=9), memory=memory).desired


def test_an_expired_override_leaves_the_decision_to_the_metric():
    of = spec(override=Override(NOW - SECOND, "INC-4711", floor=30), behavior=FAST)

    decision = decided(of, queued(50, current=5))

    assert 5 == decision.desired
    assert "Metric/queue" == str(decision.decided_by)


def test_a_scale_as_found_is_what_the_steps_start_from():
    """Merged 50; the default rate from 8 allows 16."""
    decision = decided(spec(), queued(500, current=8))

    assert (50, 16) == (decision.merged, decision.desired)
    assert (Step(Rule.SCALE_UP_LIMIT, 50, 16, Rate(8)),) == decision.steps
    assert Scale(8, 8, "app=shop") == queued(500, current=8).scale
    assert Scaled(NOW).at == decision.at


def test_a_zero_of_an_override_ends_with_it_even_where_nothing_is_timed_any_more():
    """CPU cannot be measured at zero; who took the override back must not have to scale by hand."""
    asleep = replace(zero(ours=True), scheduled_zero=True)

    assert 2 == decided(spec(2, metrics=(cpu(),)), seen(NO_METRICS, current=0), memory=asleep).desired


def test_a_night_at_zero_asks_no_metric_and_looks_well():
    """There is no pod to measure, and nobody is warned of it at every reconciliation."""
    of = spec(2, metrics=(cpu(),), schedules=(exactly("night", 0, start="0 22 * * *", end="0 6 * * *"),))

    decision = decided(of, seen(NO_METRICS, current=0), memory=zero(ours=True), clock="05:00")

    assert (0, DecisionKind.COMPUTED, None, ()) == (decision.desired, decision.kind, decision.failure, decision.metrics)


def test_what_an_unreadable_schedule_may_have_allowed_is_not_taken_away():
    """The spec allows 10, 30 are there: perhaps the broken schedule is the one that allowed 40."""
    broken = schedule("broken", cap=40, problem="it cannot be read")

    assert 30 == decided(spec(2, 10, schedules=(broken,), behavior=FAST), queued(300, current=30)).desired


def test_the_floor_that_put_a_count_there_is_named_while_metrics_are_silent():
    of = spec(2, metrics=(cpu(),), schedules=(day(floor=8),))

    decision = decided(of, seen(NO_METRICS, current=8), memory=recommended(8, "09:59"))

    assert (DecisionKind.HELD, "Schedule/day") == (decision.kind, str(decision.decided_by))


def test_a_cap_is_told_as_one_where_its_window_states_a_floor_too():
    """A queue of 300 asks for 30 pods, and 10 are the most."""
    decision = decided(spec(schedules=(schedule("day", floor=5, cap=10),)), queued(300, current=15))

    assert ("Schedule/day", "Schedule/day asks for at most 10") == (str(decision.decided_by), reason(decision))
