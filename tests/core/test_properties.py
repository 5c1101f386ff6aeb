"""What must hold for any spec, any observation, any memory and any forecast."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import (
    NOW,
    cpu,
    groups_of_pods,
    observed,
    outcomes,
    pod_counts,
    queued,
    reconciliation_of,
    situations,
    spec,
    specs,
)
from cronhpa.api.events import events
from cronhpa.api.render import render
from cronhpa.api.status_memory import parse_memory, render_memory
from cronhpa.core.behavior import resume
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import DecisionKind, Rule, Withheld
from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation, Scale


def bounds_of(decision):
    return decision.minimum, decision.maximum


@given(situations())
def test_the_same_inputs_give_the_same_decision(situation):
    assert decide(*situation) == decide(*situation)


@given(situations())
def test_the_desired_count_is_within_the_bounds_or_on_the_way_to_them(situation):
    """Outside the bounds it never moves away from them; from within it never leaves them."""
    decision = decide(*situation)
    low, high = bounds_of(decision)
    if decision.kind in {DecisionKind.UNREACHABLE, DecisionKind.SUSPENDED}:
        assert decision.desired == decision.current
        return

    assert min(low, decision.current) <= decision.desired <= max(high, decision.current)


@given(situations())
def test_every_step_starts_where_the_last_one_ended(situation):
    decision = decide(*situation)

    numbers = [number for step in decision.steps for number in (step.before, step.after)]
    assert all(a == b for a, b in zip(numbers[1:-1:2], numbers[2::2], strict=True))
    assert not numbers or numbers[-1] == decision.desired
    assert all(step.before != step.after for step in decision.steps)


@given(situations())
def test_where_no_step_is_told_the_merged_count_is_desired(situation):
    decision = decide(*situation)

    assert decision.steps or decision.kind is not DecisionKind.COMPUTED or decision.merged == decision.desired


@given(situations(present=False))
def test_nothing_shrinks_without_evidence_but_by_a_cap(situation):
    """All metrics absent: the count stays or rises, or comes down towards a bound that it lies above."""
    decision = decide(*situation)
    has_metrics = bool(situation[0].metrics)

    assert not has_metrics or decision.desired >= min(decision.current, decision.maximum)


@given(situations())
def test_a_schedule_that_cannot_be_read_shrinks_nothing_but_by_a_bound(situation):
    decision = decide(*situation)
    unreadable = any(schedule.problem and not schedule.suspend for schedule in situation[0].schedules)

    assert not unreadable or decision.desired >= min(decision.current, decision.maximum)


@given(situations(timed=False))
def test_without_schedules_nothing_of_schedules_is_said(situation):
    decision = decide(*situation)

    assert bounds_of(decision) == (situation[0].min_replicas, situation[0].max_replicas)
    assert not {Rule.CAP, Rule.NO_EVIDENCE} & {step.rule for step in decision.steps}
    assert () == decision.windows
    assert decision.next_edge is None


@given(situations(), outcomes)
def test_any_reconciliation_can_be_remembered_written_down_and_told(situation, outcome):
    of, observation, _, memory, now = situation
    decision = decide(*situation)

    remembered = memory.after(decision, outcome, of, observation)
    reconciliation = reconciliation_of(of, decision, outcome, remembered, generation=1)
    status = render(render({}, reconciliation), reconciliation)

    kept = remembered.pruned(of.behavior, of.options, now)
    assert replace(kept, request_per_pod={}) == replace(parse_memory(status), request_per_pod={})
    assert all(event.message and event.reason for event in events(reconciliation))
    assert len(status["conditions"]) == len({condition["type"] for condition in status["conditions"]})


@given(situations(), outcomes)
def test_a_memory_survives_the_status_and_a_restart(situation, outcome):
    of, observation, _, memory, now = situation
    remembered = memory.after(decide(*situation), outcome, of, observation)

    read = parse_memory({"memory": render_memory(remembered)})

    assert remembered == read
    assert all(recommendation.at <= now for recommendation in resume(read, 3, now, of.behavior).recommendations)


@given(specs(), st.integers(0, 300), st.integers(0, 300), st.integers(1, 30))
def test_more_load_never_asks_for_fewer_replicas(of, load, more, current):
    """For any schedules and any behavior: of two queues the longer one never ends lower."""
    of = replace(of, metrics=spec().metrics, forecast=None)

    less, greater = (
        decide(of, queued(length, current=current), None, Memory(), NOW).desired for length in (load, load + more)
    )

    assert less <= greater


@given(groups_of_pods(), st.permutations(range(8)), st.integers(1, 200), st.integers(0, 20))
def test_the_order_of_pods_changes_no_decision(seen, order, percent, current):
    pods, samples = seen
    shuffled = [pods[index] for index in order if index < len(pods)]
    of = spec(metrics=(cpu(percent),))

    one, other = (
        decide(of, observed(of, some, samples, current=current), None, Memory(), NOW) for some in (pods, shuffled)
    )

    assert one == other


@given(pod_counts(), st.integers(1, 200), st.integers(0, 50))
def test_a_metric_beside_an_absent_one_never_lowers(tally, percent, current):
    of = spec(0, 1000, metrics=(cpu(percent), cpu(percent)))
    absent = Absent("FailedGetResourceMetric", "gone")
    observation = Observation(Scale(current, current, "app=shop"), (tally, absent))

    assert decide(of, observation, None, Memory(), NOW).desired >= current


@given(situations(timed=True), st.integers(1, 600))
def test_a_reconciliation_that_was_missed_is_made_up_for_by_the_next(situation, seconds):
    """
    Nothing fires at a point in time: with or without the reconciliation before, this one heads for the same bounds.
    """
    of, observation, told, memory, now = situation
    first = decide(*situation)
    remembered = memory.after(first, Withheld(), of, observation)

    taken, missed = (decide(of, observation, told, stored, now + seconds * SECOND) for stored in (remembered, memory))

    assert bounds_of(taken) == bounds_of(missed)
    assert taken.windows == missed.windows
