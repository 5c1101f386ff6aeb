"""cronhpa.core.reasons: the reason of a count that a bound sets names the bound and its source's number."""

from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from core.situations import (
    NOW,
    at,
    behavior,
    queued,
    recommended,
    rules,
    schedule,
    seen,
    situations,
    spec,
)
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Rule, Scaled, Source, SourceRef, Step
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.spec import Override
from cronhpa.core.reasons import reason, step_reason

BROKEN = schedule("broken", problem="start: cannot be read", floor=50)
CAPPED = Override(at("23:00"), "INC-4711", cap=10)
BY_OVERRIDE = SourceRef(Source.OVERRIDE)
STEPWISE = behavior(down=rules(("Pods", 4, 30)))
UNREAD = "as Schedule/broken cannot be read and may ask for more"


def test_a_cap_below_what_an_unreadable_schedule_keeps_decides():
    """Of 36 the schedule might ask for all and the override allows 10; the queue asks for 4; 4 may go at a time."""
    of = spec(schedules=(BROKEN,), override=CAPPED, behavior=STEPWISE)

    decision = decide(of, queued(40, current=36), None, Memory(), NOW)

    limit = "limited to 32: scaleDown allows 4 pods fewer than 36 in 30 s"
    assert (BY_OVERRIDE, 32) == (decision.decided_by, decision.desired)
    assert f"Override asks for at most 10; 10 in place of 4, {UNREAD}; {limit}" == reason(decision)
    assert Step(Rule.NO_EVIDENCE, 4, 10, BY_OVERRIDE) == decision.steps[0]


def test_without_metrics_too_the_cap_decides():
    """The spec's minimum of 2 is all that else is asked for."""
    decision = decide(spec(metrics=(), schedules=(BROKEN,), override=CAPPED), seen(current=36), None, Memory(), NOW)

    assert (BY_OVERRIDE, 10) == (decision.decided_by, decision.desired)
    assert f"Override asks for at most 10; 10 in place of 2, {UNREAD}" == reason(decision)


def test_a_cap_of_the_count_that_is_there_lowers_nothing_so_the_count_stays():
    decision = decide(spec(schedules=(BROKEN,), override=CAPPED), queued(40, current=10), None, Memory(), NOW)

    assert (SourceRef(Source.SCHEDULE, "broken"), 10) == (decision.decided_by, decision.desired)
    assert f"queue asks for 4; 10 stay, {UNREAD}" == reason(decision)


def test_what_a_cap_left_is_held_later_as_its_and_not_as_found():
    """36 were found at 10:00, 10 were the override's. 15 s later both are gone, and of the 32 the window keeps 10."""
    of, observation = spec(schedules=(BROKEN,), override=CAPPED, behavior=STEPWISE), queued(40, current=36)
    decision = decide(of, observation, None, Memory(), NOW)
    memory = Memory().after(decision, Scaled(NOW), of, observation)

    free, later = replace(of, schedules=(), override=None), NOW + 15 * SECOND
    # The seed of 36, which would hold all 32, is left aside.
    memory = replace(memory, recommendations=memory.recommendations[-1:])
    told = reason(decide(free, queued(40, current=32), None, memory, later))

    held = "10 held by stabilization: 10 asked for at 2026-11-23T10:00:00Z by Override, until 2026-11-23T10:05:00Z"
    assert f"queue asks for 4; {held}; limited to 32: " in told


def test_a_floor_ahead_that_gets_less_than_it_states_is_not_called_that_floor():
    """`soon` states 22 and opens at 10:03, when `quiet` allows 16; the queue's 50 are kept back at the 8 there are."""
    quiet = schedule("quiet", "2 10 * * *", "30 10 * * *", cap=16, priority=1)
    soon = schedule("soon", "3 10 * * *", "0 18 * * *", floor=22, lead=5 * MINUTE)
    of = spec(schedules=(quiet, soon), behavior=behavior(up=rules(("Pods", 100, 15), window=120 * SECOND)))

    decision = decide(of, queued(500, current=8), None, recommended(5, "09:59"), NOW)

    ahead = "300 s ahead of its start at 2026-11-23T10:03:00Z, when 16 of its 22 are allowed"
    assert 16 == decision.desired
    assert f"raised to 16, as Schedule/soon asks for at least 16 ({ahead})" == step_reason(decision.steps[1], decision)
    assert reason(decision).endswith(f"; {step_reason(decision.steps[1], decision)}")


def test_a_floor_ahead_that_gets_all_it_states_is_its_floor():
    """Nothing else is open at 10:03."""
    soon = schedule("soon", "3 10 * * *", "0 18 * * *", floor=22, lead=5 * MINUTE)
    of = spec(schedules=(soon,), behavior=behavior(up=rules(("Pods", 100, 15), window=120 * SECOND)))

    decision = decide(of, queued(500, current=8), None, recommended(5, "09:59"), NOW)

    assert (22, "raised to 22, the floor of Schedule/soon") == (
        decision.desired,
        step_reason(decision.steps[1], decision),
    )


@given(situations(timed=True))
def test_only_the_count_that_is_there_is_said_to_stay(situation):
    decision = decide(*situation)

    for step in decision.steps:
        if step.rule is Rule.NO_EVIDENCE:
            unread = next(
                SourceRef(abstention.source, abstention.name)
                for abstention in decision.abstentions
                if abstention.source is Source.SCHEDULE
            )
            assert (f"{step.after} stay" in reason(decision)) == (step.after == decision.current)
            assert step.cause in ({unread} if step.after == decision.current else {decision.maximum_by} - {unread})
