"""How a run is counted: exact times and areas under straight loads."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cronhpa.core.model.decision import Decision, DecisionKind, Rule, Source, SourceRef, Step
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND
from cronhpa.core.model.spec import Span
from cronhpa.simulation.score import ScoreAccumulator


def booked(*pieces, capacity=1.0):
    """pieces: (minutes, load at first, load at last, ready, pods), one after the other."""
    accumulator = ScoreAccumulator(capacity)
    at = 0
    for minutes, first, last, ready, pods in pieces:
        length = round(minutes * MINUTE)
        accumulator.book(at, at + length, first, (last - first) / length, ready, pods)
        at += length
    return accumulator.score()


def test_a_load_within_what_is_carried_costs_pods_only():
    score = booked((60, 4.0, 5.0, 5, 6))

    assert (0, 0) == (score.under_provisioned_minutes, score.unserved_hours)
    assert 6 == score.pod_hours
    assert 4.5 == score.demand / HOUR


def test_a_load_that_rises_past_what_is_carried_is_short_from_the_crossing_on():
    """From 3 to 7 within 8 minutes with 5 ready: short from minute 4 on, by 2 at the end: 4 min x 1 on average."""
    score = booked((8, 3.0, 7.0, 5, 5))

    assert 4 == score.under_provisioned_minutes
    assert 4 / 60 == pytest.approx(score.unserved_hours)
    assert (Span(4 * MINUTE, 8 * MINUTE),) == score.stretches


def test_a_load_that_falls_below_what_is_carried_is_short_until_the_crossing():
    score = booked((8, 7.0, 3.0, 5, 5))

    assert 4 == score.under_provisioned_minutes
    assert (Span(0, 4 * MINUTE),) == score.stretches


def test_unserved_is_told_in_percent_of_what_was_asked_for():
    """10 asked, 8 carried: a fifth."""
    assert 20 == booked((60, 10.0, 10.0, 8, 8)).unserved_percent


def test_what_one_pod_carries_counts_not_how_many_there_are():
    """Two pods of 0.5 carry 1; a third one that is not ready carries nothing and costs."""
    score = booked((60, 1.5, 1.5, 2, 3), capacity=0.5)

    assert 60 == score.under_provisioned_minutes
    assert 0.5 == score.unserved_hours
    assert 3 == score.pod_hours


def test_a_stretch_goes_on_over_changes_of_the_pods():
    score = booked((1, 9.0, 9.0, 5, 6), (1, 9.0, 9.0, 6, 9), (1, 9.0, 9.0, 9, 9), (1, 9.5, 9.5, 9, 9))

    assert (Span(0, 2 * MINUTE), Span(3 * MINUTE, 4 * MINUTE)) == score.stretches


def test_an_unknown_load_is_neither_short_nor_served_but_its_pods_cost():
    score = booked((30, math.nan, math.nan, 1, 4), (30, 9.0, 9.0, 1, 4))

    assert 30 * MINUTE == score.unknown
    assert 30 == score.under_provisioned_minutes
    assert 4 == score.pod_hours


def test_reconciliations_and_writes_are_counted_by_who_decided():
    cpu, ahead = SourceRef(Source.METRIC, "cpu"), SourceRef(Source.FORECAST, "cpu")
    limit = Step(Rule.TOO_MANY_REPLICAS, 12, 10)
    decision = Decision(
        at=0, kind=DecisionKind.COMPUTED, current=1, desired=1, minimum=1, maximum=10, steps=(limit,), decided_by=cpu
    )
    accumulator = ScoreAccumulator(1.0)
    accumulator.reconciled(decision)
    accumulator.reconciled(replace(decision, desired=2))
    accumulator.reconciled(replace(decision, desired=2, decided_by=ahead, steps=()))

    score = accumulator.score()

    assert 2 == score.actions
    assert {cpu: 2, ahead: 1} == score.reconciliations_by
    assert {cpu: 1, ahead: 1} == score.actions_by
    assert {Rule.TOO_MANY_REPLICAS: 2} == score.reconciliations_changed


@given(
    st.lists(
        st.tuples(st.integers(1, 600), st.floats(0, 50), st.floats(0, 50), st.integers(0, 40)), min_size=1, max_size=8
    )
)
def test_the_sums_are_those_of_counting_every_second(pieces):
    """A literal count at the middle of each second; a crossing can fall within one second of each piece."""
    score = booked(*((seconds / 60, first, last, ready, ready) for seconds, first, last, ready in pieces))

    short = unserved = 0.0
    for seconds, first, last, ready in pieces:
        for second in range(seconds):
            load = first + (last - first) * (second + 0.5) / seconds
            short += load > ready
            unserved += max(load - ready, 0)
    assert score.under_provisioned / SECOND == pytest.approx(short, abs=len(pieces))
    assert score.unserved / SECOND == pytest.approx(unserved, rel=1e-3, abs=50 * len(pieces))
    assert sum(span.end - span.begin for span in score.stretches) == pytest.approx(score.under_provisioned, abs=20)
