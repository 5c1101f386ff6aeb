"""cronhpa.core.fallback: a floor while a metric is unknown, which never lowers the count."""

from __future__ import annotations

import pytest
from hypothesis import given
from msgspec.structs import replace

from core.situations import (
    NO_METRICS,
    NOW,
    at,
    cpu,
    exactly,
    outcomes,
    queue,
    queued,
    recommended,
    schedule,
    seen,
    situations,
    spec,
)
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Abstention, DecisionKind, Proposal, Role, Source, Unmeasured, Withheld
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, ScalarReading
from cronhpa.core.model.spec import Fallback, Override
from cronhpa.core.reasons import event_reason, reason

TEN = Fallback(10, 5 * MINUTE)
GONE = Absent("FailedGetExternalMetric", "connection refused")


def lost(*, current, of=None, since="09:55", clock="10:00", reading=GONE):
    """The decision with an unknown metric, where not all metrics have been known since an instant."""
    memory = Memory(unmeasured_since=None if since is None else at(since))
    return decide(of or spec(fallback=TEN), seen(reading, current=current), None, memory, at(clock))


def test_a_lost_source_raises_to_the_stated_count_once_it_was_lost_for_so_long():
    """Found unknown at 09:55; after 300 s, at 10:00, 10 in place of 3."""
    waits, acts = lost(current=3, clock="09:59:59"), lost(current=3)

    assert (3, DecisionKind.HELD) == (waits.desired, waits.kind)
    assert (
        Abstention(
            Source.FALLBACK,
            "",
            "Waiting",
            "not all metrics are known since 2026-11-23T09:55:00Z: at least 10 are kept from 2026-11-23T10:00:00Z on",
        )
        in waits.abstentions
    )
    assert (10, "Fallback") == (acts.merged, str(acts.decided_by))
    assert 6 == acts.desired  # without a behavior at most double of 3
    assert Proposal(Source.FALLBACK, "", Role.FLOOR, 10, basis=Unmeasured(at("09:55"), 5 * MINUTE)) in acts.proposals


def test_it_never_lowers():
    assert 50 == lost(current=50).desired


def test_a_known_metric_may_ask_for_more_and_not_for_less():
    """KEDA set the fallback's count although CPU asked for more (its issue 6659). The queue of 250 asks for 25."""
    of = spec(metrics=(queue(), cpu()), fallback=TEN)
    memory = Memory(unmeasured_since=at("09:00"))

    def with_queue(length):
        return decide(of, seen(ScalarReading(length * 1000, 0), NO_METRICS, current=20), None, memory, NOW).desired

    assert [25, 20] == [with_queue(250), with_queue(30)]


def test_one_unknown_metric_of_several_is_enough():
    """CPU is idle and the queue is unknown: the queue may be full."""
    of = spec(metrics=(cpu(), queue()), fallback=TEN)
    idle = ScalarReading(10_000, 0)
    of = replace(of, metrics=(queue(), queue()))

    decision = decide(of, seen(idle, GONE, current=8), None, Memory(unmeasured_since=at("09:00")), NOW)

    assert 10 == decision.desired


def test_the_clock_starts_with_the_first_unknown_metric_and_stops_once_all_are_known():
    of, memory, since = spec(fallback=TEN), Memory(), []
    for clock, observation in (
        ("10:00", queued(30, current=3)),
        ("10:01", seen(GONE, current=3)),
        ("10:02", seen(GONE, current=3)),
        ("10:03", replace(seen(current=3), scale=Absent("FailedGetScale", "timed out"))),  # nothing is learned
        ("10:04", queued(30, current=3)),
        ("10:05", seen(GONE, current=3)),
    ):
        decision = decide(of, observation, None, memory, at(clock))
        memory = memory.after(decision, Withheld(), of, observation)
        since.append(memory.unmeasured_since)

    assert [None, at("10:01"), at("10:01"), at("10:01"), None, at("10:05")] == since


def test_a_zero_of_ours_is_woken_and_a_zero_of_a_person_and_of_a_cap_is_not():
    """KEDA stays at 0 (its issue 7239)."""
    of = spec(minimum=0, fallback=TEN)
    since = at("09:00")
    ours, theirs = Memory(zero=True, unmeasured_since=since), Memory(zero=False, unmeasured_since=since)

    assert 4 == decide(of, seen(GONE, current=0), None, ours, NOW).desired  # on the way to 10 at most 4
    assert DecisionKind.SUSPENDED is decide(of, seen(GONE, current=0), None, theirs, NOW).kind
    night = replace(of, schedules=(exactly("day", 0),))
    assert 0 == decide(night, seen(GONE, current=0), None, ours, NOW).desired


@pytest.mark.parametrize(
    ("bounds", "merged"),
    [({"floor": 15}, 15), ({"floor": 5}, 10), ({"cap": 8}, 8)],
)
def test_a_schedule_may_ask_for_more_and_its_cap_holds(bounds, merged):
    of = spec(fallback=TEN, schedules=(schedule("day", **bounds),))

    assert merged == lost(current=6, of=of).merged


def test_an_override_outranks_it():
    of = spec(fallback=TEN, override=Override(NOW + HOUR, "INC-4711", 4, 4))

    assert 4 == lost(current=6, of=of).desired


def test_maximum_holds():
    assert 8 == lost(current=6, of=spec(maximum=8, fallback=TEN)).desired


def test_without_a_wait_it_counts_at_once():
    at_once = lost(current=6, of=spec(fallback=Fallback(10, 0)), since=None)

    assert 10 == at_once.desired
    assert " 0 s" not in reason(at_once)


def test_the_reason_names_the_fallback_and_its_time():
    told = reason(lost(current=6))

    assert told == event_reason(lost(current=6), is_upstream=False)
    assert (
        "Fallback asks for at least 10 (not all metrics are known since 2026-11-23T09:55:00Z, for 300 s or more)"
        == told
    )


def test_a_clock_set_back_starts_the_wait_anew():
    memory = Memory(unmeasured_since=at("11:00")).settled(3, NOW)

    assert NOW == memory.unmeasured_since
    assert at("11:00") + SECOND == Memory(unmeasured_since=at("11:00")).shifted(SECOND).unmeasured_since


def test_after_the_source_is_back_stabilization_holds_what_was_asked_for():
    """10:00 the floor of 10 was asked for; 10:01 the queue asks for 3: 10 stay for 300 s."""
    of = spec(fallback=TEN)
    decision = lost(current=8)
    memory = recommended(3, "09:50").after(decision, Withheld(), of, seen(GONE, current=8))

    assert 10 == decide(of, queued(30, current=10), None, memory, at("10:01")).desired


@given(situations(), outcomes)
def test_it_only_ever_raises(situation, outcome):
    """With a fallback no count is lower than without it, and the memory differs in nothing but its clock."""
    of, *rest = situation
    with_it, without = decide(of, *rest), decide(replace(of, fallback=None), *rest)

    assert with_it.desired >= without.desired
    if not any(proposal.source is Source.FALLBACK for proposal in with_it.proposals):
        assert without == replace(
            with_it,
            unmeasured_since=without.unmeasured_since,
            abstentions=tuple(entry for entry in with_it.abstentions if entry.source is not Source.FALLBACK),
        )
