"""The offline shell: the same decide, in virtual time, at every period and every edge."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import NOW, at, behavior, cpu, exactly, forecast, queue, rules, schedule, spec
from cronhpa.core.decide import decide as core_decide
from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.model.decision import Source, SourceRef
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.spec import ControllerOptions, ForecastSettings, ResourceMetric, Span
from cronhpa.simulation.forecast_effect import asking_for
from cronhpa.simulation.load import Load, Shape
from cronhpa.simulation.run import ReplicaChange, run
from cronhpa.simulation.target import Environment

# One pod carries 1 core, and 0.6 of it is its target.
ONE_CORE = Environment(capacity=1.0, requests={"cpu": 1000}, start_up=2 * MINUTE)
CPU = spec(minimum=1, metrics=(cpu(),))


def steady(value):
    return Load([(NOW - DAY, value)])


def step(before, after, clock="11:00"):
    return Load([(NOW - DAY, before), (at(clock), after)], shape=Shape.STEPS, gap_max=7 * DAY)


def ran(of, load, hours=2.0, environment=ONE_CORE, begin=NOW, **settings):
    """The run, and (observation, decision) of every reconciliation."""
    reconciliations = []
    span = Span(begin, begin + round(hours * HOUR))
    result = run(
        of, load, environment, span, watch=lambda *reconciliation: reconciliations.append(reconciliation), **settings
    )
    return result, reconciliations


def counts(result):
    """(minutes since NOW, replicas, ready) of every change."""
    return [((change.at - NOW) / MINUTE, change.replicas, change.ready) for change in result.changes]


def test_a_steady_load_keeps_the_pods_that_it_began_with():
    """6 cores / 0.6 = 10 pods for two hours: 20 pod-hours, 480 reconciliations of 15 s."""
    result, reconciliations = ran(CPU, steady(6.0))

    assert (ReplicaChange(NOW, 10, 10),) == result.changes
    assert (20, 0, 0) == (result.score.pod_hours, result.score.actions, result.score.under_provisioned)
    assert 480 == len(reconciliations) == result.score.reconciliations_by[SourceRef(Source.METRIC, "cpu")]


@settings(max_examples=25)
@given(cores=st.floats(0.3, 12.0), floor=st.integers(0, 30), replicas=st.integers(1, 40))
def test_under_a_steady_load_a_floor_and_the_metrics_settle(cores, floor, replicas):
    """
    The larger of both, never a sum: a metric asks for the current count within its tolerance, and a floor that is added
    to that is added in each period.
    """
    floored = spec(minimum=1, maximum=100, metrics=(cpu(),), schedules=(schedule("day", floor=floor),))

    result, _ = ran(floored, steady(cores), hours=0.5, replicas=replicas)

    settled = result.changes[-1].replicas
    assert max(floor, 1) <= settled
    # A tenth of tolerance below the need, and a tenth above it; a pod that is rounded up.
    assert settled <= max(floor, cores / 0.6 / 0.9 + 1)
    assert all(change.at < NOW + 15 * MINUTE for change in result.changes)


def test_a_step_is_seen_late_and_served_later_still():
    """
    From 6 to 12 cores at 11:00 with 10 pods of 1 core. The window first holds 15 s of it at 11:00:45: (45 x 6 + 15 x
    12) / 60 = 7.5, which asks for 13 pods; 15 and 18 at 60 and 75 s. Of 18 the 12 are 66 %, within the tolerance of
    60 %. The first 13 are ready two minutes after they were asked for, at 11:02:45.
    """
    result, _ = ran(CPU, step(6.0, 12.0))

    ups = [(minutes, replicas) for minutes, replicas, _ in counts(result) if replicas > 10]
    assert [(60.75, 13), (61.0, 15), (61.25, 18)] == ups[:3]
    assert 18 == result.changes[-1].replicas
    assert 2.75 == result.score.under_provisioned_minutes
    assert 2 * 2.75 == pytest.approx(result.score.unserved_hours * 60)


def test_scale_down_waits_for_the_stabilization_window():
    """
    From 12 to 6 cores at 11:00: 20 pods are wanted last at 11:00:30, when the window holds none of the fall, and that
    recommendation counts until it is older than 300 s. The first reconciliation without it is that of 11:05:45.
    """
    result, _ = ran(CPU, step(12.0, 6.0))

    first = next(change for change in result.changes if change.replicas < 20)
    assert at("11:05:45") == first.at


def test_an_edge_brings_a_reconciliation_at_once_and_the_grid_goes_on():
    """Reconciliations are at :05, :20, :35 and :50 of a minute; the window opens at 11:00:00."""
    of = spec(minimum=1, metrics=(cpu(),), schedules=(schedule("rush", "0 11 * * *", "30 11 * * *", floor=20, lead=0),))

    result, reconciliations = ran(of, steady(0.6), begin=NOW + 5 * SECOND)

    instants = [decision.at for _, decision in reconciliations]
    around = [instant for instant in instants if at("10:59:40") < instant < at("11:00:30")]
    assert [at("10:59:50"), at("11:00:00"), at("11:00:05"), at("11:00:20")] == around
    assert at("11:00") == next(change.at for change in result.changes if change.replicas > 1)
    assert result.score.actions_by[SourceRef(Source.SCHEDULE, "rush")] > 0


def test_a_forecast_has_its_pods_ready_before_the_load_comes():
    """
    From 6 to 12 cores at 11:00, forecast since ever; 12 / 0.9 = 14 pods are asked for the lead time ahead: once the
    memory has learned of 120 s to start, 135 s before 11:00.
    """
    of = spec(minimum=1, metrics=(cpu(),), forecast=ForecastSettings())

    def forecasts(now):
        start = now - now % (5 * MINUTE)
        load = tuple(12.0 if start + k * 5 * MINUTE >= at("11:00") else 6.0 for k in range(12))
        return forecast(*load, metric="cpu", issued_at=now, start=start)

    result, _ = ran(of, step(6.0, 12.0), forecasts=forecasts)

    raised = next(change for change in result.changes if change.replicas > 10)
    assert (at("10:57:45"), 14) == (raised.at, raised.replicas)
    assert 0 == result.score.under_provisioned
    assert 1 == result.score.actions_by[SourceRef(Source.FORECAST, "cpu")]


def test_a_budget_that_is_spent_lets_the_forecast_wait_as_in_the_operator():
    """
    14 pods are foreseen where 10 are needed: 40 % more. At a budget of 5 % a day ends it at 12 %: 24 h x 10 pods x 0.12
    are 28.8 pod-hours, which 4 pods more have spent after 7.2 hours.
    """
    of = spec(minimum=1, metrics=(cpu(),), forecast=ForecastSettings(budget_percent=5))

    def forecasts(now):
        return forecast(12.0, 12.0, metric="cpu", issued_at=now, start=now - HOUR, step=HOUR)

    free, _ = ran(of, steady(6.0), hours=12, forecasts=forecasts)
    metered, reconciliations = ran(of, steady(6.0), hours=12, forecasts=forecasts, budget=BudgetTracker())

    assert 12 * 14 == pytest.approx(free.score.pod_hours, rel=0.001)
    lowered = next(change for change in metered.changes if change.replicas < 14 and change.at > NOW)
    assert 7.2 == pytest.approx((lowered.at - NOW) / HOUR, abs=0.2)
    assert 10 == metered.changes[-1].replicas
    assert "BudgetSpent" in {
        abstention.reason for _, decision in reconciliations for abstention in decision.abstentions
    }


def test_a_night_at_zero_ends_with_its_window_and_asks_no_metric():
    """Zero from 10:30 to 11:30 is a real zero, though load is there: it is left at the window's end."""
    of = spec(minimum=2, metrics=(cpu(),), schedules=(exactly("night", 0, start="30 10 * * *", end="30 11 * * *"),))

    result, _ = ran(of, steady(1.2))

    assert [(0, 2, 2), (30, 0, 0), (90, 2, 0), (92, 2, 2)] == counts(result)
    assert 62 == result.score.under_provisioned_minutes


def test_a_pure_schedule_is_run_without_any_metric():
    of = spec(minimum=2, metrics=(), schedules=(schedule("rush", "0 11 * * *", "0 18 * * *", floor=8, lead=0),))

    result, _ = ran(of, steady(4.0), replicas=2)

    # 4 pods without a behavior at first, then twice as many: 2, 4, 8 at 11:00:00 and 15 s later.
    assert [(0, 2), (60, 4), (60.25, 8)] == [(m, replicas) for m, replicas, _ in counts(result)][:3]


def test_an_external_metric_states_the_whole_load():
    """A queue of 40 at 10 a pod is 4 pods, whatever pods are ready."""
    result, reconciliations = ran(
        spec(minimum=1, metrics=(queue(10),)), steady(40.0), environment=Environment(capacity=10.0)
    )

    assert (ReplicaChange(NOW, 4, 4),) == result.changes
    assert {40_000} == {observation.readings[0].value for observation, _ in reconciliations}


def test_a_metric_of_one_container_is_measured_in_it():
    of = spec(minimum=1, metrics=(ResourceMetric("cpu", cpu().target, container="web"),))

    result, _ = ran(of, steady(6.0), hours=0.25)

    assert (ReplicaChange(NOW, 10, 10),) == result.changes
    assert [SourceRef(Source.METRIC, "cpu")] == list(result.score.reconciliations_by)


def test_an_empty_queue_begins_at_zero_and_is_left_when_work_comes():
    """
    Nothing until 10:30, then 40 at 10 a pod; at zero the first reconciliation that sees some of it asks for one pod.
    """
    of = spec(minimum=0, metrics=(queue(10),))

    result, _ = ran(of, step(0.0, 40.0, clock="10:30"), environment=Environment(capacity=10.0))

    assert (0, 0, 0) == counts(result)[0]
    assert 30 < counts(result)[1][0] < 31
    assert 4 == result.changes[-1].replicas


def test_an_unknown_load_holds_what_is_there_and_is_left_out_of_the_count():
    """Known until 10:15 and from 11:15 on: one hour of two is unknown, in which nothing may move."""
    points = [(NOW + minute * MINUTE, 6.0) for minute in (*range(16), *range(75, 121))]

    result, reconciliations = ran(CPU, Load(points))

    assert (ReplicaChange(NOW, 10, 10),) == result.changes
    assert HOUR == result.score.unknown
    assert "Held" in {decision.kind for _, decision in reconciliations}


def test_an_unknown_load_of_an_external_metric_holds_what_is_there_too():
    points = [(NOW + minute * MINUTE, 40.0) for minute in (*range(16), *range(75, 121))]

    result, _ = ran(spec(minimum=1, metrics=(queue(10),)), Load(points), environment=Environment(capacity=10.0))

    assert (ReplicaChange(NOW, 4, 4),) == result.changes
    assert HOUR == result.score.unknown


def test_the_period_of_the_object_is_obeyed():
    of = replace(CPU, options=ControllerOptions(sync_period=60 * SECOND))

    _, reconciliations = ran(of, steady(6.0), hours=1)

    assert [NOW + minute * MINUTE for minute in range(60)] == [decision.at for _, decision in reconciliations]


def test_rate_policies_and_memory_are_the_operators():
    """At most 2 pods a minute from 10 on, up to 18, of which 12 cores are 66 %: within the tolerance."""
    slow = behavior(up=rules(("Pods", 2, 60), window=0))

    result, _ = ran(replace(CPU, behavior=slow), step(6.0, 12.0))

    ups = [(minutes, replicas) for minutes, replicas, _ in counts(result) if replicas > 10]
    first = {replicas: minutes for minutes, replicas in reversed(ups)}
    assert {12: 60.75, 14: 61.75, 16: 62.75, 18: 63.75} == first


loads = st.lists(st.floats(0, 30), min_size=10, max_size=10)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(loads, loads, st.integers(1, 9))
def test_nothing_that_comes_later_changes_what_was_done_before(values, noise, minute):
    """
    Both loads are equal up to a point; so are all reconciliations that could not have measured anything behind it.
    """
    first = [(NOW + 5 * i * MINUTE, value) for i, value in enumerate(values)]
    second = [
        (instant, value if i <= minute else other)
        for i, ((instant, value), other) in enumerate(zip(first, noise, strict=True))
    ]
    cut = NOW + 5 * minute * MINUTE

    reconciliations = [ran(CPU, Load(points, gap_max=HOUR), hours=0.75)[1] for points in (first, second)]

    before = [
        [decision for _, decision in reconciliation if decision.at <= cut + 30 * SECOND]
        for reconciliation in reconciliations
    ]
    assert before[0] == before[1]


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(loads)
def test_every_reconciliation_is_decided_by_decide_and_by_nothing_else(values):
    """
    What was acted is what was decided: the pods found at each reconciliation are those that the last one asked for.
    """
    points = [(NOW + 5 * i * MINUTE, value) for i, value in enumerate(values)]

    result, reconciliations = ran(CPU, Load(points, gap_max=HOUR), hours=0.75)
    again, _ = ran(CPU, Load(points, gap_max=HOUR), hours=0.75)

    assert again == result
    decided = [decision.desired for _, decision in reconciliations]
    assert decided[:-1] == [observation.scale.spec_replicas for observation, _ in reconciliations[1:]]
    assert result.score.actions == sum(decision.rescales for _, decision in reconciliations)


# By name, what a decision may rest on besides usage.
STANDING = {
    "cpu": CPU,
    "bounds that are hit": spec(minimum=3, maximum=9, metrics=(cpu(),)),
    "policies": replace(CPU, behavior=behavior(up=rules(("Pods", 2, 60), window=0), down=rules(("Percent", 50, 60)))),
    "a schedule": spec(minimum=1, metrics=(cpu(),), schedules=(schedule("day", "7 10 * * *", floor=6),)),
    "another period": replace(CPU, options=ControllerOptions(sync_period=40 * SECOND)),
    "a queue": spec(minimum=0, metrics=(queue(10),)),
    "two metrics": spec(minimum=1, metrics=(cpu(), queue(5))),
}


@pytest.mark.slow
@pytest.mark.parametrize("of", STANDING.values(), ids=STANDING)
@settings(deadline=None, max_examples=15)
@given(st.lists(st.sampled_from([0.0, 2.0, 5.9, 6.0, 6.1, 6.5, 20.0]), min_size=4, max_size=4), st.booleans())
def test_a_run_in_which_decisions_stand_is_the_run_in_which_each_is_made(of, values, has_gap):
    """A watched run decides each reconciliation; the other one only those that do not stand."""
    points = [(NOW + 10 * i * MINUTE, value) for i, value in enumerate(values)]
    load = Load(points, gap_max=5 * MINUTE if has_gap else HOUR)

    watched, _ = ran(of, load, hours=0.75)

    assert watched == run(of, load, ONE_CORE, Span(NOW, NOW + 45 * MINUTE))


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.sampled_from([0.0, 2.0, 5.9, 6.0, 6.5, 20.0]), min_size=4, max_size=4),
    st.lists(st.integers(0, 14), min_size=15, max_size=15),
    st.sampled_from([1, 20, 100]),
)
def test_with_a_forecast_too_decisions_stand_only_where_each_would_be_the_same(values, floors, percent):
    """Floors of three minutes each, below and above what the metric asks for; some budgets end."""
    of = replace(CPU, forecast=ForecastSettings(budget_percent=percent))
    load, span = Load([(NOW + 10 * i * MINUTE, value) for i, value in enumerate(values)]), Span(NOW, NOW + 45 * MINUTE)
    by_minute = [floor for floor in floors for _ in range(3)]

    def ran_with(**more):
        forecasts, budget = asking_for(by_minute, of, ONE_CORE, NOW), BudgetTracker()
        return run(of, load, ONE_CORE, span, forecasts=forecasts, budget=budget, **more), budget.hours

    assert ran_with(watch=lambda *_: None) == ran_with()


def test_most_periods_of_a_steady_load_are_not_decided(monkeypatch):
    """480 reconciliations of two hours of ten pods: a decision stands until its recommendations are to be renewed."""
    decided = []
    monkeypatch.setattr("cronhpa.simulation.run.decide", lambda *given: decided.append(given) or core_decide(*given))

    result = run(CPU, steady(6.0), ONE_CORE, Span(NOW, NOW + 2 * HOUR))

    assert 480 == sum(result.score.reconciliations_by.values())
    assert len(decided) < 48


def test_the_forecast_is_asked_for_once_a_reconciliation_in_order():
    asked = []

    def forecasts(now) -> Forecast | None:
        asked.append(now)
        return None

    _, reconciliations = ran(
        spec(metrics=(cpu(),), forecast=ForecastSettings()), steady(6.0), hours=0.5, forecasts=forecasts
    )

    assert [decision.at for _, decision in reconciliations] == asked
