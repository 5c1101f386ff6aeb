"""cronhpa.core.model.memory, cronhpa.core.behavior: the memory after a restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import (
    BY_OVERRIDE,
    BY_QUEUE,
    DOWN,
    NOW,
    at,
    behavior,
    floored,
    joined,
    queued,
    recommended,
    reconciliation_of,
    rules,
    spec,
    stabilization_windows,
)
from cronhpa.api.render import render
from cronhpa.api.status_memory import parse_memory, render_memory
from cronhpa.core.behavior import limit_down, limit_up, resume, stabilize
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import BY_NOBODY, Failed, Recommendation, Scaled, Withheld
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Intent, Memory, ScaleEvent
from cronhpa.core.model.spec import ControllerOptions, Override
from cronhpa.core.reasons import reason
from cronhpa.operator.writes.written_status import StatusWrite, needed_between

OPTIONS = ControllerOptions()


# --- recommendations ---------------------------------------------------------------------------------------------


def test_the_newest_recommendation_is_taken_to_have_assumed_until_the_restart():
    """Nobody knows when the old process ended: at worst just now. A window of 300 s begins anew, and 5 stays."""
    resumed = recommended(5, "09:50").resumed(5, NOW)

    asked = Recommendation(2, NOW + 299 * SECOND, 2)
    assert (
        *recommended(5, "09:50").recommendations,
        Recommendation(5, NOW, 5, BY_QUEUE, asked_at=at("09:50")),
    ) == resumed.recommendations
    assert 5 == stabilize(asked, 5, resumed.recommendations, None, OPTIONS)


def test_an_empty_memory_stays_empty():
    assert Memory() == Memory().resumed(5, NOW)


def test_what_lies_in_the_future_is_moved_to_now():
    """A clock that was set back an hour must not block a scale-down for an hour."""
    hour = NOW + 60 * MINUTE
    memory = Memory(
        recommendations=(Recommendation(8, hour),), scale_ups=(ScaleEvent(3, hour),), scale_downs=(ScaleEvent(2, hour),)
    )

    resumed = memory.resumed(8, NOW)

    instants = {remembered.at for remembered in (*resumed.recommendations, *resumed.scale_ups, *resumed.scale_downs)}  # type: ignore[attr-defined]  # each of the three has an instant
    assert {NOW} == instants


# --- lives ------------------------------------------------------------------------------------------------------


class Life:
    """
    An object under a queue, tick by tick. The status holds what the operator would have written by then: it is written
    when something changed that a restart must find.
    """

    def __init__(self, of, current):
        self.spec, self.current, self.memory = of, current, Memory()
        self.status = {}
        self.lows = []

    def restart(self, now):
        self.memory = resume(parse_memory(self.status), self.current, now, self.spec.behavior)

    def tick(self, load, now, *, killed="", refused=False):
        """killed: "before" or "after" the scale is written, with nothing written behind it. refused: by the API."""
        observation = queued(load, current=self.current)
        decision = decide(self.spec, observation, None, self.memory, now)
        if decision.rescales and decision.desired < self.current:
            self._write(decision, self.memory.intending(decision, self.spec, observation), Withheld())
        if killed != "before" and not refused:
            self.current = decision.desired
        if not killed:
            outcome = Withheld() if not decision.rescales else Failed("not now") if refused else Scaled(now)
            self.memory = self.memory.after(decision, outcome, self.spec, observation)
            self._write(decision, self.memory, outcome)

    def _write(self, decision, memory, outcome):
        status = render(self.status, reconciliation_of(self.spec, decision, outcome, memory, generation=1))
        if needed_between(self.status, status) is StatusWrite.STATUS:
            self.status = status


loads = st.lists(st.integers(0, 300), min_size=4, max_size=40)


def life_of(kind, value, period, window):
    """
    No tolerance, no window up and no rate worth its name: then more pods now never mean fewer pods later, and two
    lives can be compared. Both directions have one period: the upstream overwrites events that are older than the
    periods of their own direction, also while the other direction still counts them.
    """
    paced = behavior(up=rules(("Pods", 1000, period), window=0), down=rules((kind, value, period), window=window))
    return spec(1, 200, behavior=paced, options=HASTY)


HASTY = ControllerOptions(tolerance=0.0, downscale_stabilization=MINUTE)
lives = st.just(spec(1, 200, options=HASTY)) | st.builds(
    life_of,
    st.sampled_from(["Pods", "Percent"]),
    st.integers(1, 100),
    st.sampled_from([15, 60, 120]),
    st.none() | stabilization_windows,
)
kills = st.lists(st.sampled_from(["", "", "", "", "between", "before", "after"]), min_size=40, max_size=40)


@given(lives, loads, kills)
def test_a_restart_at_any_tick_never_makes_a_scale_down_earlier(of, queue_lengths, restarts):
    """
    Two lives under the same load, one of them killed between ticks, before or after its scale was written (before:
    the other's write is refused, so that both have missed it). Both take one more tick after each kill. At no tick
    has the one that was killed fewer pods than the one that lived on.
    """
    whole, restarted = Life(of, 10), Life(of, 10)
    whole_counts, restarted_counts = [], []

    for index, (load, killed) in enumerate(zip(queue_lengths, restarts, strict=False)):
        now = NOW + index * 15 * SECOND
        whole.tick(load, now, refused=killed == "before")
        restarted.tick(load, now, killed="" if killed == "between" else killed)
        if killed:
            restarted.restart(now + SECOND)
            whole.tick(load, now + 2 * SECOND)
            restarted.tick(load, now + 2 * SECOND)
        whole_counts.append(whole.current)
        restarted_counts.append(restarted.current)

    assert [] == [pair for pair in zip(whole_counts, restarted_counts, strict=True) if pair[1] < pair[0]]


def test_a_restart_inside_the_window_keeps_the_scale_down_at_its_time_or_later():
    """
    8 asked for at 10:00 and 2 from then on, a window of a minute: down at 10:01:00, the fourth tick. A restart at the
    first takes the 8 to have held until then; a later one knows the 2, and the 8 with its time.
    """
    of = spec(behavior=behavior(down=replace(DOWN, stabilization_window=MINUTE)))

    def first_below(restart_at):
        life = Life(of, 8)
        for index in range(20):
            now = NOW + index * 15 * SECOND
            if index == restart_at:
                life.restart(now)
            life.tick(80 if index == 0 else 20, now)
            if life.current < 8:
                return index
        return None

    assert 4 == first_below(None)
    assert [5, 4, 4, 4] == [first_below(index) for index in (1, 2, 3, 4)]


# --- what is assumed is held, whatever becomes of the behavior ------------------------------------------------------

CALM = behavior(up=rules(("Pods", 100, 15), window=MINUTE))


def test_a_behavior_that_is_removed_after_a_restart_raises_nothing():
    """9 were asked for ten minutes before the restart, and 4 are there. Without a behavior 9 would be pursued."""
    resumed = resume(recommended(9, "09:50"), 4, NOW, CALM)

    for memory in (resumed, parse_memory({"memory": render_memory(resumed, 4)})):
        assert 4 == decide(spec(1), queued(30, current=4), None, memory, NOW + SECOND).desired


def test_a_behavior_that_is_removed_with_a_cap_raises_nothing():
    """22 were found, a cap brought them to 11: the cap and the behavior go at once, and 11 stay, not 22."""
    capped = spec(1, behavior=behavior(), override=Override(at("23:00"), "INC-4711", None, 11))
    first = decide(capped, queued(50, current=22), None, Memory(), NOW)
    memory = Memory().after(first, Scaled(NOW), capped, queued(50, current=22))

    assert 11 == first.desired
    assert 11 == decide(spec(1), queued(50, current=11), None, memory, NOW + 15 * SECOND).desired


def test_what_is_assumed_holds_pods_with_a_behavior_and_without():
    """9 by the metrics beside a cap of 6: 9 that are there stay."""
    memory = floored(6, "09:50", metrics=9)

    for of in (spec(1), spec(1, behavior=behavior(down=DOWN))):
        resumed = resume(memory, 9, NOW, of.behavior)
        assert 9 == decide(of, queued(30, current=9), None, resumed, NOW + 299 * SECOND).desired


def test_of_what_is_held_the_largest_holds():
    """A floor of 9 three minutes ago, and 7 by the metrics before the restart: 9 stay, and 7 once the floor is old."""
    memory = joined(floored(9, "09:57"), recommended(7, "09:50").resumed(7, NOW))

    counts = [
        decide(spec(1), queued(30, current=9), None, memory, at(clock)).desired for clock in ("10:02:00", "10:02:01")
    ]

    assert [9, 7] == counts


def test_what_is_assumed_beside_a_count_that_is_pursued_is_not_named():
    """6 were really asked for two minutes ago, and pursued from 4; 12 are only assumed, and hold nothing above 4."""
    memory = joined(recommended(12, "09:50").resumed(12, NOW), recommended(6, "09:58"))
    decision = decide(spec(1), queued(30, current=4), None, memory, NOW + SECOND)

    assert 6 == decision.desired
    assert "6 held by stabilization: 6 asked for at 2026-11-23T09:58:00Z by Metric/queue, until" in reason(decision)


# --- the reason names the instant of the decision -------------------------------------------------------------------


def told(memory, current, now):
    return reason(decide(spec(1), queued(30, current=current), None, memory, now))


def test_the_reason_names_when_a_held_count_was_asked_for_and_until_when_that_is_assumed():
    resumed = floored(8, "09:50", metrics=4, by=BY_OVERRIDE).resumed(8, NOW)

    assert (
        "8 asked for at 2026-11-23T09:50:00Z by Override (assumed until the restart at 2026-11-23T10:00:00Z), "
        "until 2026-11-23T10:05:00Z"
    ) in told(resumed, 8, NOW + MINUTE)


def test_a_second_restart_assumes_for_longer_and_keeps_the_instant():
    twice = recommended(8, "09:50").resumed(8, NOW).resumed(8, NOW + MINUTE)

    assert (
        "8 asked for at 2026-11-23T09:50:00Z by Metric/queue (assumed until the restart at 2026-11-23T10:01:00Z), "
        "until 2026-11-23T10:06:00Z"
    ) in told(twice, 8, NOW + 2 * MINUTE)


def test_metrics_above_a_cap_are_told_as_what_the_metrics_asked_for():
    """6 was the cap of the override, 9 what the metrics asked for: it is the 9 that is held."""
    resumed = floored(6, "09:50", metrics=9).resumed(9, NOW)

    assert "9 asked for at 2026-11-23T09:50:00Z by Metric (assumed" in told(resumed, 9, NOW + MINUTE)


def test_a_count_that_the_memory_does_not_explain_was_found_at_the_restart():
    resumed = recommended(3, "09:50").resumed(8, NOW)

    assert Recommendation(8, NOW, 8, BY_NOBODY, asked_at=NOW) == resumed.recommendations[-1]
    assert "8 found at 2026-11-23T10:00:00Z, until 2026-11-23T10:05:00Z" in told(resumed, 8, NOW + MINUTE)


def test_of_what_was_asked_for_at_one_instant_all_is_taken_to_have_assumed_until_the_restart():
    """
    Two reconciliations can be remembered under one instant, 3 and then 10, and later ones repeat the 10: a window up
    keeps the 3 in the status, and the order of the two says nothing. 10 held until the restart, so they stay for five
    minutes.
    """
    twice = joined(recommended(3, "09:58"), recommended(10, "09:58"))

    for memory in (twice, Memory(recommendations=twice.recommendations[::-1])):
        resumed = resume(memory, 10, NOW, CALM)
        assert 10 == decide(spec(1, behavior=CALM), queued(30, current=10), None, resumed, NOW + 299 * SECOND).desired


# --- a step up that was not written down ----------------------------------------------------------------------------

FOUR_A_MINUTE = spec(1, behavior=behavior(up=rules(("Pods", 4, 60), window=0), down=rules(("Pods", 1, 60), window=0)))


def test_a_step_up_that_a_kill_forgot_counts_from_the_restart_on():
    """
    4 pods, 20 are asked for at 10:00:15: 8, and the next four a minute later, at 10:01:15. Killed before the status was
    written and started two seconds later, it takes the step as made then, and the next four come a tick later.
    """

    def path(killed):
        life = Life(FOUR_A_MINUTE, 4)
        life.tick(40, NOW)
        life.tick(200, NOW + 15 * SECOND, killed=killed)
        if killed:
            life.restart(NOW + 17 * SECOND)
        counts = []
        for seconds in (30, 45, 60, 75, 90):
            life.tick(200, NOW + seconds * SECOND)
            counts.append(life.current)
        return counts

    assert [8, 8, 8, 12, 12] == path("")
    assert [8, 8, 8, 8, 12] == path("after")


def written_down(replicas):
    return replace(recommended(replicas, "09:50"), replicas=replicas)


def test_a_step_that_is_only_assumed_frees_no_scale_down():
    """A pod a minute. Four that came within the minute might go at once, but nobody knows that they did."""
    resumed = resume(written_down(4), 8, NOW, FOUR_A_MINUTE.behavior)

    assert (ScaleEvent(4, NOW, assumed=True),) == resumed.scale_ups
    assert 8 == limit_up(FOUR_A_MINUTE.behavior, 8, resumed, NOW + MINUTE - 1)
    assert 7 == limit_down(FOUR_A_MINUTE.behavior, 8, resumed, NOW + MINUTE - 1)
    up, down = (
        reason(decide(FOUR_A_MINUTE, queued(load, current=8), None, resumed, NOW + SECOND)) for load in (90, 30)
    )
    assert "limited to 8: scaleUp allows 4 pods more than 4 in 60 s" in up
    assert "limited to 7: scaleDown allows 1 pod fewer than 8 in 60 s" in down


def test_pods_that_came_in_the_future_are_undone_by_no_policy():
    """
    Four pods a minute may come and one may go. Two came at 10:15 of a clock that was set back to 10:00: nobody knows
    how long ago. Counted as pods of this minute they let 8 - 2 - 1 = 5 remain.
    """
    came = replace(written_down(8), scale_ups=(ScaleEvent(2, at("10:15")),)).settled(8, NOW)

    assert 8 - 1 == limit_down(FOUR_A_MINUTE.behavior, 8, came, NOW)
    assert 8 - 2 + 4 == limit_up(FOUR_A_MINUTE.behavior, 8, came, NOW)


@pytest.mark.parametrize(("found", "allowed"), [(4, 4 - 1), (7, 7 - 3 - 1), (9, 9 - 1)], ids=["no", "yes", "not known"])
def test_a_step_of_which_nobody_knows_whether_it_was_made_is_undone_by_no_policy(found, allowed):
    """
    One pod a minute may go, and whatever came within it. From 4 to 7 was intended; then 4, 7 or, by somebody else's
    doing, 9 pods are found. Found: of the 9 three more went than the policy allows.
    """
    behavior = FOUR_A_MINUTE.behavior
    doubt = replace(written_down(7), scale_ups=(ScaleEvent(3, NOW),), intent=Intent(before=4, after=7, at=NOW))

    assert allowed == limit_down(behavior, found, doubt.settled(found, NOW + SECOND), NOW + SECOND)


def test_a_rise_that_the_policies_did_not_allow_was_made_by_somebody_else():
    """Four a minute are allowed: from 4 to 9 a person scaled, whose changes limit nothing, as upstream."""
    assert () == resume(written_down(4), 9, NOW, FOUR_A_MINUTE.behavior).scale_ups


def test_a_count_that_is_known_or_fell_is_no_step():
    for current in (4, 3):
        assert () == resume(written_down(4), current, NOW, FOUR_A_MINUTE.behavior).scale_ups


def test_a_scale_down_that_was_intended_and_not_done_is_no_step_up():
    """8 were to become 7, and are still 8."""
    observation = queued(0, current=8)
    decision = decide(FOUR_A_MINUTE, observation, None, recommended(8, "09:50"), NOW)
    intended = recommended(8, "09:50").intending(decision, FOUR_A_MINUTE, observation)
    assert (7, 7) == (decision.desired, intended.replicas)

    resumed = resume(intended, 8, NOW + SECOND, FOUR_A_MINUTE.behavior)

    assert (8, ()) == (resumed.replicas, resumed.scale_ups)


def test_two_kills_one_after_the_other_forget_neither_the_scale_down_that_failed_nor_the_step_up():
    """
    A pod in 45 s. 2 pods were to become 1, which was written down and not done; then 1 came, which was not written
    down. From 3 pods the next one has to wait: by what the status says 2 came and 1 went, and 1 may come.
    """
    slowly = behavior(up=rules(("Pods", 1, 45), window=0), down=rules(("Pods", 5, 15), window=0))
    life = Life(spec(1, 200, behavior=slowly), 2)
    life.tick(20, NOW)
    life.tick(0, NOW + 15 * SECOND, killed="before")
    life.restart(NOW + 16 * SECOND)
    life.tick(30, NOW + 30 * SECOND, killed="after")
    life.restart(NOW + 31 * SECOND)
    life.tick(40, NOW + 45 * SECOND)

    assert 3 == life.current


@given(
    st.lists(st.integers(0, 300), min_size=4, max_size=30),
    st.integers(0, 29),
    st.sampled_from(["before", "after"]),
    st.integers(1, 9),
    st.sampled_from([15, 45, 60, 120]),
)
def test_no_kill_lets_more_pods_come_within_a_period_than_the_policy_allows(loads, at_tick, when, pods, period):
    """Killed at any tick but the first, before or after the scale was written, and started a second later."""
    paced = behavior(up=rules(("Pods", pods, period), window=0), down=rules(("Pods", 5, 15), window=0))
    life, changes = Life(spec(1, 200, behavior=paced), 5), []
    life.tick(50, NOW - 15 * SECOND)

    for index, load in enumerate(loads):
        now, before = NOW + index * 15 * SECOND, life.current
        life.tick(load, now, killed=when if index == at_tick % len(loads) else "")
        changes.append((now, life.current - before))
        if index == at_tick % len(loads):
            life.restart(now + SECOND)

        recent = [change for then, change in changes if then > now - period * SECOND]
        assert life.current <= before or sum(recent) <= pods
