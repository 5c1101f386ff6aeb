"""The memory between reconciliations, the part of it in the status, and its use after a restart."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import (
    BY_QUEUE,
    NOW,
    at,
    begun_leads,
    behavior,
    behaviors,
    counts,
    exactly,
    joined,
    past_instants,
    queued,
    recommendations,
    recommended,
    rules,
    scale_events,
    spec,
)
from cronhpa.api.status_memory import parse_memory, render_memory
from cronhpa.core.behavior import limit_down, limit_up, stabilize
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import BY_NOBODY, DecisionKind, Failed, Recommendation, Scaled, Withheld
from cronhpa.core.model.instant import DAY, FOR_EVER, SECOND
from cronhpa.core.model.memory import Intent, Memory, ScaleEvent, longest_window
from cronhpa.core.model.observation import Absent, NodeStart
from cronhpa.core.model.spec import ControllerOptions, Placeholders

OPTIONS = ControllerOptions()


def reconciliation(of, observation, memory=None, outcome=None, now=NOW):
    """A decision and what is remembered of it; scaled where it says so, unless another outcome is given."""
    memory = memory or Memory()
    decision = decide(of, observation, None, memory, now)
    done = outcome or (Scaled(now) if decision.rescales else Withheld())
    return decision, memory.after(decision, done, of, observation)


# --- after a reconciliation
# ------------------------------------------------------------------------------------------------


def test_the_first_reconciliation_seeds_the_memory_with_the_current_count():
    """As upstream: a new controller scales nothing down for a whole window."""
    decision, memory = reconciliation(spec(), queued(30, current=8))

    assert 8 == decision.desired
    assert (Recommendation(8, NOW, 8, BY_NOBODY), Recommendation(3, NOW, 3, BY_QUEUE)) == memory.recommendations


def test_an_outdated_slot_is_taken_again_in_its_place():
    """As upstream: the last slot older than the window is overwritten, the others stay where they are."""
    items = (Recommendation(4, at("09:50")), Recommendation(5, at("09:51")), Recommendation(6, at("09:58")))

    memory = Memory(recommendations=items).recommending(longest_window(None, OPTIONS), Recommendation(7, NOW))

    assert (items[0], Recommendation(7, NOW), items[2]) == memory.recommendations


@given(
    st.lists(st.integers(-400, 0), max_size=25),
    st.lists(st.integers(0, 40), min_size=1, max_size=25),
    st.sampled_from([0, 60 * SECOND, 300 * SECOND]),
)
def test_recommendations_noted_together_lie_where_they_would_if_each_had_been_noted_at_its_reconciliation(
    before, gaps, window
):
    """Seconds before now of what is remembered, and between the reconciliations."""
    noted = Memory(recommendations=tuple(Recommendation(4, NOW + seconds * SECOND) for seconds in before))
    reconciliations = [Recommendation(7, NOW + seconds * SECOND) for seconds in accumulate(gaps)]
    one_by_one = noted
    for reconciliation in reconciliations:
        one_by_one = one_by_one.recommending(window, reconciliation)

    assert one_by_one == noted.recommending(window, *reconciliations)


def test_a_recommendation_as_old_as_the_window_is_not_outdated_yet():
    items = (Recommendation(4, at("09:55")),)

    memory = Memory(recommendations=items).recommending(longest_window(None, OPTIONS), Recommendation(7, NOW))

    assert (*items, Recommendation(7, NOW)) == memory.recommendations


def test_a_memory_counts_alike_until_the_first_entry_of_another_kind_is_too_old():
    """
    The windows are 0 and 300 s. Of four at 09:58 and 09:59 the latter counts until 10:04, and exactly then still.

    What left the window may stay in its slot for ever, and so may scale events older than every policy's period.
    """
    old, earlier, later = (Recommendation(4, at(clock), 4) for clock in ("09:54", "09:58", "09:59"))
    new, up = Recommendation(6, NOW, 6), ScaleEvent(2, at("09:58"))

    def alike_until(*entries, of=None, now=NOW, **fields):
        return Memory(recommendations=(*entries, new), **fields).alike_until(new, of, OPTIONS, now)

    assert FOR_EVER == alike_until(old, replace(new, at=at("09:57")))
    assert at("10:04") == alike_until(old, earlier, later)
    assert at("10:04") + 1 == alike_until(old, earlier, later, now=at("10:04"))
    assert FOR_EVER == alike_until(old, earlier, later, now=at("10:04") + 1)
    assert FOR_EVER == alike_until(of=behavior(), scale_ups=(up,))
    assert at("10:01") == alike_until(of=behavior(up=rules(("Pods", 4, 180), ("Pods", 9, 60))), scale_ups=(up,))


def test_nothing_is_known_of_a_memory_with_an_intent_or_with_two_newest_recommendations():
    new = Recommendation(6, NOW, 6)

    assert NOW == Memory((new,), intent=Intent(4, 6, NOW)).alike_until(new, None, OPTIONS, NOW)
    assert NOW == Memory((replace(new, metrics=5), new)).alike_until(new, None, OPTIONS, NOW)


def test_scaling_is_remembered_by_direction_where_a_behavior_asks_for_it():
    up, down = Memory().scaled(3, 8, NOW, behavior()), Memory().scaled(8, 3, NOW, behavior())

    assert (ScaleEvent(5, NOW),) == up.scale_ups
    assert (ScaleEvent(5, NOW),) == down.scale_downs
    assert Memory() == Memory().scaled(3, 8, NOW, None) == Memory().scaled(3, 3, NOW, behavior())


def test_an_event_that_is_outdated_once_stays_so():
    """Older than the longest period, 60 s: marked for ever, and the last such slot is taken."""
    minute = behavior(up=rules(("Pods", 1, 60)))
    old = (ScaleEvent(1, at("09:58")), ScaleEvent(2, at("09:58:30")), ScaleEvent(3, at("09:59:30")))

    memory = Memory(scale_ups=old).scaled(3, 8, NOW, minute)

    assert (replace(old[0], outdated=True), ScaleEvent(5, NOW), old[2]) == memory.scale_ups


def test_a_scaling_that_failed_leaves_no_event_and_keeps_its_recommendation():
    _, memory = reconciliation(spec(behavior=behavior()), queued(500, current=8), outcome=Failed("forbidden"))

    assert () == memory.scale_ups
    assert Recommendation(50, NOW, 50, BY_QUEUE) in memory.recommendations


def test_nothing_is_remembered_of_a_reconciliation_that_saw_nothing():
    memory = recommended(8, "09:59")
    blind = queued(0, current=8)
    blind = replace(blind, scale=Absent("FailedGetScale", "not found"))

    assert memory == reconciliation(spec(), blind, memory)[1]


def test_a_held_reconciliation_recommends_nothing():
    of = spec()
    absent = replace(queued(0, current=8), readings=(Absent("FailedGetExternalMetric", "gone"),))

    decision, memory = reconciliation(of, absent, recommended(8, "09:59"))

    assert DecisionKind.HELD == decision.kind
    assert recommended(8, "09:59").recommendations == memory.recommendations


def test_what_pods_told_of_themselves_stays_while_there_are_none_to_ask():
    seen = queued(80, current=8, start_up=75 * SECOND, request_per_pod={"cpu": 1000})
    _, memory = reconciliation(spec(), seen)

    _, later = reconciliation(spec(), queued(80, current=8), memory)

    assert (75 * SECOND, {"cpu": 1000}) == (later.start_up, later.request_per_pod)


def test_a_wait_for_nodes_is_known_for_eight_days_after_the_last_pod_that_waited():
    """In the evening the pods that waited are the first to go; leads are asked for with their wait all the same."""
    waited = NodeStart(150 * SECOND, NOW)
    seen = queued(80, current=8, start_up=15 * SECOND, node_start=waited)
    _, memory = reconciliation(spec(), seen)
    _, later = reconciliation(spec(), queued(80, current=8, start_up=20 * SECOND), memory, now=NOW + 8 * DAY - 1)
    _, forgotten = reconciliation(spec(), queued(80, current=8, start_up=20 * SECOND), later, now=NOW + 8 * DAY)

    assert (waited, 20 * SECOND, 150 * SECOND) == (later.node_start, later.start_up, later.lead_start_up(spec()))
    assert (None, 20 * SECOND) == (forgotten.node_start, forgotten.lead_start_up(spec()))


def test_with_placeholders_leads_go_by_pods_that_find_room():
    room = spec(placeholders=Placeholders(5, 120 * SECOND))
    memory = Memory(start_up=15 * SECOND, node_start=NodeStart(150 * SECOND, NOW))

    assert (15 * SECOND, 150 * SECOND) == (memory.lead_start_up(room), memory.lead_start_up(spec()))
    assert 150 * SECOND == replace(memory, start_up=None).lead_start_up(spec())
    assert None is Memory().lead_start_up(spec())


# --- zero --------------------------------------------------------------------------------------------------------


def test_a_zero_of_a_schedules_making_is_remembered_and_left_again():
    of = spec(schedules=(exactly("night", 0),))

    _, asleep = reconciliation(of, queued(0, current=8))
    assert asleep.zero is True

    _, awake = reconciliation(of, queued(0, current=0), asleep, now=at("18:00"))
    assert awake.zero is False


def test_a_zero_taken_as_scheduled_is_remembered_as_ours():
    """Found at zero by an object that was never observed: the reconciliations after the first must still wake it."""
    of = spec(schedules=(exactly("night", 0),))

    decision, memory = reconciliation(of, queued(0, current=0))
    assert 0 == decision.desired
    assert memory.zero is True

    assert 2 == reconciliation(of, queued(0, current=0), memory, now=at("18:00"))[0].desired


def test_a_zero_made_by_hand_is_not_ours():
    of = spec(schedules=(exactly("night", 0),))
    _, memory = reconciliation(of, queued(80, current=8), recommended(8, "17:59"), now=at("18:00"))

    decision, later = reconciliation(of, queued(0, current=0), memory, now=at("18:01"))

    assert DecisionKind.SUSPENDED == decision.kind
    assert later.zero is not True


# --- before a scale-down is acted --------------------------------------------------------------------------------

DROP = spec(behavior=behavior(down=rules(("Percent", 50, 60), window=0)))


def intended():
    """8 is to become 4."""
    observation = queued(0, current=8)
    decision = decide(DROP, observation, None, recommended(8, "09:50"), NOW)
    assert 4 == decision.desired
    return recommended(8, "09:50").intending(decision, DROP, observation)


def test_a_scale_down_is_written_down_as_if_it_were_done():
    memory = intended()

    assert (ScaleEvent(4, NOW),) == memory.scale_downs
    assert Intent(8, 4, NOW) == memory.intent


def test_a_scale_down_that_was_intended_and_done_counts():
    assert (ScaleEvent(4, NOW),) == intended().resumed(4, NOW + SECOND).scale_downs


def test_a_scale_down_that_was_intended_and_not_done_is_forgotten():
    resumed = intended().resumed(8, NOW + SECOND)

    assert () == resumed.scale_downs
    assert resumed.intent is None


def test_a_zero_that_was_intended_and_not_done_is_not_ours():
    of = spec(schedules=(exactly("night", 0),))
    observation = queued(0, current=8)
    memory = Memory().intending(decide(of, observation, None, Memory(), NOW), of, observation)

    assert memory.zero is True
    assert memory.resumed(8, NOW + SECOND).zero is False
    assert memory.resumed(0, NOW + SECOND).zero is True


def test_the_next_reconciliation_clears_the_intent():
    assert reconciliation(DROP, queued(0, current=4), intended())[1].intent is None


# --- what the status keeps ---------------------------------------------------------------------------------------

some_memories = st.builds(
    Memory,
    recommendations=st.lists(recommendations(st.integers(0, 20), past_instants), min_size=1, max_size=12).map(tuple),
    scale_ups=scale_events(past_instants),
    scale_downs=scale_events(past_instants),
)


later_recommendations = st.integers(0, 3600).flatmap(
    lambda seconds: recommendations(st.integers(0, 20), st.just(NOW + seconds * SECOND))
)


@given(some_memories, behaviors, later_recommendations, st.integers(0, 20))
def test_a_pruned_memory_stabilizes_as_the_whole_one_at_every_later_instant(memory, of, asked, current):
    pruned = memory.pruned(of, OPTIONS, NOW)

    assert set(pruned.recommendations) <= set(memory.recommendations)
    assert stabilize(asked, current, memory.recommendations, of, OPTIONS) == stabilize(
        asked, current, pruned.recommendations, of, OPTIONS
    )


@given(some_memories, behaviors.filter(bool), st.integers(0, 20), st.integers(0, 3600).map(lambda s: s * SECOND))
def test_a_pruned_memory_allows_the_same_rates_at_every_later_instant(memory, of, current, later):
    pruned = memory.pruned(of, OPTIONS, NOW)

    now = NOW + later

    assert limit_up(of, current, memory, now) == limit_up(of, current, pruned, now)
    assert limit_down(of, current, memory, now) == limit_down(of, current, pruned, now)


def test_only_contenders_are_kept():
    """Of 3, 9, 4, 6 the 9 outdoes all before it and the 6 the 4."""
    memory = joined(recommended(3, "09:56"), recommended(9, "09:57"), recommended(4, "09:58"), recommended(6, "09:59"))

    assert [9, 6] == [recommendation.replicas for recommendation in memory.pruned(None, OPTIONS, NOW).recommendations]


def test_the_newest_recommendation_is_kept_however_old():
    assert recommended(5, "08:00") == recommended(5, "08:00").pruned(None, OPTIONS, NOW)


memories_as_written = st.builds(
    Memory,
    recommendations=st.lists(recommendations(counts, past_instants), max_size=9).map(tuple),
    scale_ups=scale_events(),
    scale_downs=scale_events(),
    replicas=st.none() | counts,
    zero=st.sampled_from([None, True, False]),
    start_up=st.none() | st.integers(0, 720).map(lambda fives: fives * 5 * SECOND),
    node_start=st.none()
    | st.builds(NodeStart, length=st.integers(0, 721).map(lambda fives: fives * 5 * SECOND), at=past_instants),
    request_per_pod=st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(1, 2**62)),
    intent=st.none() | st.builds(Intent, before=st.integers(1, 9), after=st.integers(0, 8), at=past_instants),
    leads=begun_leads,
)


@given(memories_as_written)
def test_a_memory_is_read_back_from_the_status_as_it_was_written(memory):
    assert memory == parse_memory({"memory": render_memory(memory)})


@given(memories_as_written, st.none() | st.builds(NodeStart, length=st.integers(0, 3600), at=past_instants))
def test_the_lead_of_a_decision_is_that_of_the_memory_after_it(memory, seen):
    """What `decide` goes by, and what the page, explain and preview read of the status a moment later."""
    observation = queued(80, current=8, start_up=15 * SECOND, node_start=seen)
    _, after = reconciliation(spec(), observation, memory)

    assert after.lead_start_up(spec()) == memory.lead_start_up_after(observation, spec(), NOW)
    assert after.node_start is None or after.node_start.at <= NOW


def test_a_count_below_zero_is_remembered_as_zero():
    """A queue of -10 with 10 a pod asks for -1. Kept so, the next process would find a damaged memory."""
    of, observation = spec(), queued(-10, current=3)
    decision = decide(of, observation, None, Memory(), at("10:00"))

    remembered = Memory().after(decision, Withheld(), of, observation)

    assert decision.recommended.replicas == -1
    assert min(entry.replicas for entry in remembered.recommendations) == 0
    assert remembered == parse_memory({"memory": render_memory(remembered)})
