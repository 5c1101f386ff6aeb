"""Whatever the policies, the start-up and the grid of reconciliations: a window's floor is Ready at its start."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from core.situations import at, cpu, rises, schedule, spec
from cronhpa.core.behavior import ramp
from cronhpa.core.model.decision import WindowState
from cronhpa.core.model.instant import DAY, MINUTE, SECOND
from cronhpa.core.model.spec import ControllerOptions, Span
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import run
from cronhpa.simulation.target import Environment

START = at("11:00")

rising = rises(60)
periods = st.sampled_from([7, 15, 30]).map(lambda seconds: seconds * SECOND)


def ready_at(result, instant):
    return next(change.ready for change in reversed(result.changes) if change.at <= instant)


@settings(max_examples=40)
@given(
    st.none() | rising,
    st.integers(0, 300).map(lambda seconds: seconds * SECOND),
    st.integers(1, 20),
    st.integers(1, 30),
    periods,
    st.integers(0, 59).map(lambda seconds: seconds * SECOND),
    st.sampled_from([(), (cpu(),)]),
)
def test_a_floor_is_ready_at_its_start_and_asked_for_no_earlier_than_its_lead(
    of, start_up, minimum, rise, period, offset, metrics
):
    """Half a core of load asks for one pod. Start-up is known, by clocks of whole seconds and in steps of five."""
    floor = minimum + rise
    day = schedule("day", "0 11 * * *", "0 18 * * *", floor=floor)
    told = spec(minimum, metrics=metrics, behavior=of, schedules=(day,), options=ControllerOptions(sync_period=period))
    ramped = ramp(of, minimum, floor, period)
    lead = -(-(start_up + SECOND) // (5 * SECOND)) * 5 * SECOND + period + ramped
    begin = START - lead - 3 * MINUTE - offset
    target = Environment(capacity=1.0, requests={"cpu": 1000}, start_up=start_up)
    leads = set()

    result = run(
        told,
        Load([(begin - DAY, 0.5)], gap_max=9 * DAY),
        target,
        Span(begin, START + period + SECOND),
        replicas=minimum,
        watch=lambda _, decision: leads.add(decision.windows[0].lead),
    )

    assert {None, lead} == leads
    assert next(change.at for change in result.changes if change.replicas > minimum) == START - lead
    assert ready_at(result, START) == floor


@settings(max_examples=20)
@given(rising, st.integers(0, 60).map(lambda seconds: seconds * SECOND), st.integers(1, 30), periods)
def test_a_night_at_zero_is_over_when_the_day_begins(of, start_up, floor, period):
    """Nothing is known of pods that there are none of: within 60 s they are taken to be Ready."""
    night = schedule("night", "0 22 * * *", "0 11 * * *", floor=0, cap=0)
    day = schedule("day", "0 11 * * *", "0 18 * * *", floor=floor)
    told = spec(1, metrics=(), behavior=of, schedules=(night, day), options=ControllerOptions(sync_period=period))
    begin = START - 60 * SECOND - period - ramp(of, 0, floor, period) - MINUTE
    states = []

    result = run(
        told,
        Load([(begin - DAY, 0.5)], gap_max=9 * DAY),
        Environment(capacity=1.0, start_up=start_up),
        Span(begin, START + period),
        replicas=0,
        watch=lambda _, decision: states.append(decision.windows[1].state),
    )

    order = [states[0], *(new for old, new in pairwise(states) if old != new)]
    assert [WindowState.CLOSED, WindowState.LEADING, WindowState.OPEN] == order
    assert ready_at(result, START) == floor
