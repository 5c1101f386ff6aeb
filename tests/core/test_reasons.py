"""Why a count is what it is: in words that name what really set it."""

from __future__ import annotations

import re

from hypothesis import given
from msgspec.structs import replace

from core.situations import (
    NO_METRICS,
    NOW,
    at,
    behavior,
    exactly,
    floored,
    forecast,
    queue,
    queued,
    recommended,
    reconciliation_of,
    rules,
    schedule,
    seen,
    situations,
    spec,
)
from cronhpa.api.events import events
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import DecisionKind, ExpectedLoad, FloorLimit, Proposal, Role, Scaled, Source
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Memory, ScaleEvent
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings, Override, PodsMetric, SelectPolicy
from cronhpa.core.reasons import event_reason, proposal_reason, reason, upstream_reason

OVERRIDE = Override(at("23:00"), "INC-4711", floor=9)
BROKEN = schedule("broken", problem="start: cannot be read", floor=50)
ABOVE = "queue asks for 50"
BELOW = "queue asks for 3"


def said(of, observation, memory=None, told=None, now=NOW):
    """Who decided, how many, and why."""
    decision = decide(of, observation, told, Memory() if memory is None else memory, now)
    return str(decision.decided_by), decision.desired, reason(decision)


# --- sources ----------------------------------------------------------------------------------------------------


def test_a_metric_says_how_many_and_in_which_direction():
    fast = behavior(up=rules(("Pods", 100, 15)), down=rules(("Percent", 100, 15), window=0))

    assert ("Metric/queue", 50, ABOVE) == said(spec(behavior=fast), queued(500, current=8))
    assert ("Metric/queue", 3, BELOW) == said(spec(behavior=fast), queued(30, current=8))
    assert ("Metric/queue", 8, "queue asks for 8") == said(spec(behavior=fast), queued(80, current=8))


def test_a_floor_and_a_cap_say_so():
    floor, cap = spec(schedules=(schedule("day", floor=8),)), spec(schedules=(schedule("day", cap=8),))

    assert ("Schedule/day", 8, "Schedule/day asks for at least 8") == said(floor, queued(30, current=8))
    assert ("Schedule/day", 8, "Schedule/day asks for at most 8") == said(cap, queued(500, current=8))


def test_who_states_a_floor_and_a_cap_of_one_number_asks_for_exactly_that():
    of = spec(schedules=(exactly("night", 8),))

    for load in (30, 500):
        assert ("Schedule/night", 8, "Schedule/night asks for exactly 8") == said(of, queued(load, current=8))


def test_without_metrics_the_minimum_is_asked_for():
    of = spec(2, metrics=(), schedules=(schedule("day", floor=5),))

    assert ("Schedule/day", 5, "Schedule/day asks for at least 5") == said(of, seen(current=5))
    assert ("Spec", 2, "Spec asks for at least 2") == said(of, seen(current=2), now=at("20:00"))


def test_what_is_not_measured_is_said_with_the_count_that_stays():
    why = "8 stay: no metric asks for a count: no metrics returned from resource metrics API"

    assert ("CurrentReplicas", 8, why) == said(spec(), seen(NO_METRICS, current=8))


def test_a_schedule_that_cannot_be_read_holds_the_count():
    words = "queue asks for 3; 8 stay, as Schedule/broken cannot be read and may ask for more"

    assert ("Schedule/broken", 8, words) == said(spec(schedules=(BROKEN,)), queued(30, current=8))


def test_without_metrics_too_a_schedule_that_cannot_be_read_holds_the_count():
    """Nobody asks for 3 then, so nobody is named before: the sentence began with a semicolon."""
    told = said(spec(2, metrics=(), schedules=(BROKEN,)), seen(current=3))

    assert ("Schedule/broken", 3, "3 stay, as Schedule/broken cannot be read and may ask for more") == told


def test_a_schedule_that_cannot_be_read_is_not_given_a_maximum():
    """30 are there and the spec allows 10. The schedule may allow more, so 30 are no more than that."""
    told = said(spec(2, 10, schedules=(BROKEN,)), queued(500, current=30))

    words = f"{ABOVE}; lowered to 30, which are there: Schedule/broken cannot be read and may allow more"
    assert ("Schedule/broken", 30, words) == told


def test_a_lead_that_gets_less_than_it_states_says_so():
    """An override of at most 10 outlasts the start at 10:03 of a window that states 20."""
    soon = schedule("soon", "3 10 * * *", "0 18 * * *", floor=20, lead=5 * MINUTE)
    capped = Override(at("10:04"), "INC-4711", cap=10)

    told = said(spec(2, metrics=(), schedules=(soon,), override=capped), seen(current=10))

    ahead = "300 s ahead of its start at 2026-11-23T10:03:00Z, when 10 of its 20 are allowed"
    assert ("Schedule/soon", 10, f"Schedule/soon asks for at least 10 ({ahead})") == told


def test_a_zero_that_somebody_else_made_stays():
    words = "0 stay: somebody else scaled the target to zero"

    assert ("CurrentReplicas", 0, words) == said(spec(), queued(30, current=0))


def test_a_scale_that_cannot_be_read_is_said():
    blind = replace(queued(0, current=8), scale=Absent("FailedGetScale", "not found"))

    assert "the scale cannot be read: not found" == reason(decide(spec(), blind, None, Memory(), NOW))


def test_a_count_outside_the_bounds_jumps_to_them():
    words = "Current number of replicas above Spec.MaxReplicas, which is 20"

    assert ("Spec", 20, words) == said(spec(2, 20), queued(500, current=50))


# --- what limits -------------------------------------------------------------------------------------------------


def test_a_count_that_is_held_names_who_asked_for_it_when_and_until_when():
    """9 asked for by an override at 00:52:19; it went to 8 by then, and the window has 300 s."""
    memory = floored(9, "2026-11-23T00:52:19Z", metrics=4)

    words = (
        "queue asks for 4; 8 held by stabilization: "
        "9 asked for at 2026-11-23T00:52:19Z by Override, until 2026-11-23T00:57:19Z"
    )
    assert ("Override", 8, words) == said(spec(), queued(40, current=8), memory, now=at("2026-11-23T00:52:22Z"))


def test_of_several_that_hold_the_last_one_is_named():
    """500 a minute ago, 60 ten seconds ago: of 60 pods the later one keeps all, and for longer."""
    memory = Memory(
        recommendations=(
            *floored(500, "09:59").recommendations,
            *recommended(60, "09:59:50").recommendations,
        )
    )

    decision = decide(spec(), queued(300, current=60), None, memory, NOW)

    assert "60 asked for at 2026-11-23T09:59:50Z by Metric/queue, until 2026-11-23T10:04:50Z" in reason(decision)


def test_a_count_that_the_window_up_keeps_back_names_the_lowest():
    calm = behavior(up=rules(("Pods", 100, 15), window=120 * SECOND))

    words = (
        f"{ABOVE}; 8 kept back by stabilization: "
        "5 asked for at 2026-11-23T09:59:00Z by Metric/queue, until 2026-11-23T10:01:00Z"
    )
    assert ("Metric/queue", 8, words) == said(spec(behavior=calm), queued(500, current=8), recommended(5, "09:59"))


def test_the_count_found_at_the_start_holds():
    words = f"{BELOW}; 8 held by stabilization: 8 found at 2026-11-23T10:00:00Z, until 2026-11-23T10:05:00Z"

    assert ("CurrentReplicas", 8, words) == said(spec(), queued(30, current=8))


def test_a_count_that_is_also_the_minimum_says_so():
    """Found: a newcomer waited for a scale-down that cannot come."""
    held = "8 held by stabilization: 8 found at 2026-11-23T10:00:00Z, until 2026-11-23T10:05:00Z"

    assert ("CurrentReplicas", 8, f"{BELOW}; {held}; 8 is also the minimum") == said(spec(8), queued(30, current=8))


def test_what_an_earlier_operator_recommended_holds():
    memory = floored(8, "09:58", by=None)

    words = f"{BELOW}; 8 held by stabilization: 8 recommended at 2026-11-23T09:58:00Z, until 2026-11-23T10:03:00Z"
    assert ("CurrentReplicas", 8, words) == said(spec(), queued(30, current=8), memory)


def test_a_rate_names_its_policy_and_where_it_began():
    """4 pods in a minute from 8; 4 pods in a minute from 8 down; the smaller of two; the upstream's own."""
    slow = behavior(up=rules(("Pods", 4, 60)), down=rules(("Pods", 4, 60), window=0))
    both = behavior(up=rules(("Pods", 4, 60), ("Percent", 25, 30), select=SelectPolicy.MIN))

    assert f"{ABOVE}; limited to 12: scaleUp allows 4 pods more than 8 in 60 s" == words(slow, 500)
    assert f"{BELOW}; limited to 4: scaleDown allows 4 pods fewer than 8 in 60 s" == words(slow, 30)
    assert f"{ABOVE}; limited to 10: scaleUp allows 25 % more than 8 in 30 s" == words(both, 500)
    assert f"{ABOVE}; limited to 16: without a behavior at most twice the 8 that are there, or 4" == words(None, 500)


def test_a_rate_after_somebody_removed_what_had_come_counts_from_no_number_below_zero():
    """Ten came ten seconds ago and 3 are left: the upstream takes -7 for the count a minute ago."""
    slow = behavior(up=rules(("Pods", 4, 60)))
    memory = replace(recommended(3, "09:00"), scale_ups=(ScaleEvent(10, NOW - 10 * SECOND),))

    _, _, told = said(spec(behavior=slow), queued(500, current=3), memory)

    limit = "limited to 3: scaleUp allows 4 pods more in 60 s, and more than there are came within them"
    assert f"{ABOVE}; {limit}" == told


def test_the_minimum_of_the_spec_is_called_so_also_where_a_sleeping_target_wakes():
    """A Percent policy alone allows no pod from none."""
    percent = behavior(up=rules(("Percent", 50, 15)))
    asleep = replace(recommended(0, "09:00"), zero=True)

    _, count, told = said(spec(2, behavior=percent), queued(30, current=0), asleep)

    assert 2 == count
    assert told.endswith("; raised to 2, the minimum of Spec")


def words(of, load):
    return said(spec(behavior=of), queued(load, current=8), recommended(3, "09:00"))[2]


def test_a_disabled_direction_says_so():
    still = behavior(up=rules(("Pods", 4, 60), select=SelectPolicy.DISABLED))

    assert f"{ABOVE}; limited to 8: selectPolicy of scaleUp is Disabled" == words(still, 500)


def test_a_bound_names_who_set_it():
    fast = behavior(up=rules(("Pods", 1000, 15)))

    assert ("Spec", 20, f"{ABOVE}; lowered to 20, the maximum of Spec") == said(
        spec(2, 20, behavior=fast), queued(500, current=8)
    )


def test_a_cap_below_what_is_held_decides():
    """50 were asked for a minute ago, 3 are asked for now, and the window allows 20."""
    of = spec(schedules=(schedule("quiet", cap=20),))

    words = (
        f"{BELOW}; 50 held by stabilization: 50 asked for at 2026-11-23T09:59:00Z by Metric/queue, until "
        "2026-11-23T10:04:00Z; lowered to 20, the cap of Schedule/quiet"
    )
    assert ("Schedule/quiet", 20, words) == said(of, queued(30, current=50), recommended(50, "09:59"))


# --- forecasts ---------------------------------------------------------------------------------------------------


def expectation(limit, replicas=34, **fields):
    basis = ExpectedLoad(15.27, NOW, 0.45, limit, **fields)
    return proposal_reason(Proposal(Source.FORECAST, "cpu", Role.FLOOR, replicas, basis=basis))


def test_a_forecast_says_what_it_expects_from_when_and_how_likely_that_is():
    """The demo's sentence was "p17 load 15.27 within 75 s / 0.45 per pod = 34"."""
    expected = "a load of 15.27 or more from 2026-11-23T10:00:00Z on"

    assert f"{expected} is 83 % likely: 34 pods at 0.45 each; more would not be worth their cost" == expectation(
        FloorLimit.COST, percent=83
    )
    assert f"{expected}: 34 pods at 0.45 each; budgetPercent is nearly used, so pods count as dearer" == expectation(
        FloorLimit.BUDGET
    )
    assert (
        f"{expected} is at least 83 % likely: 34 pods at 0.45 each; no more is believed than 1.1 times the largest "
        "load of the last seven days"
    ) == expectation(FloorLimit.CEILING, percent=83)
    assert (
        f"{expected} is 83 % likely: more than 20 pods at 0.45 each, which is all that maxFloorReplicas allows"
    ) == expectation(FloorLimit.MAX_FLOOR, replicas=20, percent=83)
    assert f"{expected} is 83 % likely: 51 pods at 0.45 each and 50 % headroom" in expectation(
        FloorLimit.COST, replicas=51, percent=83, headroom_percent=50
    )
    assert f"no extra pod pays off now: {expected} is less than 1 % likely" == expectation(
        FloorLimit.COST, replicas=0, percent=0
    )
    assert f"no extra pod pays off now: {expected} is 5 % likely" == expectation(FloorLimit.COST, replicas=0, percent=5)


# --- events ------------------------------------------------------------------------------------------------------


def event_of(of, observation, memory=None, told=None):
    decision = decide(of, observation, told, Memory() if memory is None else memory, NOW)
    reconciliation = reconciliation_of(of, decision, Scaled(NOW), Memory(), generation=1)
    return next(event.message for event in events(reconciliation) if event.reason == "SuccessfulRescale")


def test_an_object_of_metrics_alone_has_the_events_of_the_upstream():
    """Also where it has no words: a count that the stabilization raises."""
    raised = recommended(50, "09:59")

    assert "New size: 16; reason: external metric queue(nil) above target" == event_of(spec(), queued(500, current=8))
    assert "New size: 16; reason: " == event_of(spec(), queued(80, current=8), raised)


def test_an_event_never_has_an_empty_reason_beside_schedules_overrides_and_forecasts():
    of = spec(schedules=(schedule("past", start="0 1 * * *", end="0 2 * * *", floor=5),))

    message = event_of(of, queued(80, current=8), recommended(50, "09:59"))

    assert message.startswith("New size: 16; reason: queue asks for 8; 50 held by stabilization: 50 asked for")


def test_an_event_says_that_a_limit_was_there_where_one_of_ours_took_part():
    assert (
        "New size: 8; reason: Override asks for at least 9; "
        "limited to 8: without a behavior at most twice the 4 that are there, or 4"
    ) == event_of(spec(override=OVERRIDE), queued(40, current=4))


def test_an_event_of_a_forecast_says_what_was_expected():
    requests = PodsMetric("requests", queue(50).target)
    of = spec(1, metrics=(requests,), forecast=ForecastSettings())

    message = event_of(of, seen(NO_METRICS, current=20), told=forecast(1255, metric="requests"))

    assert message.startswith("New size: 26; reason: Forecast/requests asks for at least 26 (a load of 1255 or more")


# --- what must always hold ---------------------------------------------------------------------------------------


@given(situations())
def test_the_desired_count_is_one_that_the_text_names(situation):
    """It is some proposal's, some step's, a bound or the count that was found; and no reason is empty."""
    decision = decide(*situation)
    told = reason(decision)
    numbers = {
        *(proposal.replicas for proposal in decision.proposals),
        *(step.after for step in decision.steps),
        decision.minimum,
        decision.maximum,
        decision.current,
    }

    assert told
    assert decision.desired in numbers
    assert decision.kind is DecisionKind.UNREACHABLE or re.search(rf"\b{decision.desired}\b", told)
    assert (decision.decided_by is None) == (decision.kind is DecisionKind.UNREACHABLE)


@given(situations())
def test_who_decided_is_named_in_the_text_or_is_nobody(situation):
    """A metric by its name alone."""
    decision = decide(*situation)
    by = decision.decided_by

    assert (
        by is None
        or by.source in {Source.CURRENT, Source.SPEC}
        or (by.name if by.source is Source.METRIC else str(by)) in reason(decision)
    )


@given(situations())
def test_sentences_are_made_from_the_value(situation):
    """Equal decisions say the same, and the upstream's words need nothing but the decision either."""
    one, other = decide(*situation), decide(*situation)

    assert (reason(one), upstream_reason(one)) == (reason(other), upstream_reason(other))


@given(situations())
def test_an_event_says_why(situation):
    of = situation[0]
    decision = decide(*situation)
    is_upstream = not of.is_timed and of.forecast is None

    assert is_upstream or event_reason(decision, is_upstream=False)


@given(situations(timed=False))
def test_for_metrics_alone_the_events_words_are_the_upstreams(situation):
    """`<metric> above target`, `All metrics below target`, a bound of the spec, or none."""
    of = replace(situation[0], forecast=None)
    decision = decide(of, *situation[1:])

    told = event_reason(decision, is_upstream=True)

    assert told in {
        "",
        "All metrics below target",
        "Current number of replicas above Spec.MaxReplicas",
        "Current number of replicas below Spec.MinReplicas",
        f"{decision.named} above target",
    }
