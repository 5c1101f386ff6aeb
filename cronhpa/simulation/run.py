"""
A run in virtual time: observe, decide, act, remember, at every sync period and at every edge.

`observe`, `decide` and `Memory` are the operator's; only the target is simulated. As in the operator, a decision stands
until something that it rests on changes: most periods of a week cost a sample and a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from math import ceil, isnan

from msgspec import Struct

from cronhpa.core.decide import decide
from cronhpa.core.forecasts.budget_tracker import BudgetTracker
from cronhpa.core.forecasts.floor import target_load
from cronhpa.core.model.decision import Decision, Outcome, Scaled, Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import ResourceMetric, Span, Spec
from cronhpa.core.schedules.bounds import resolve
from cronhpa.core.schedules.leads import urgent_edge
from cronhpa.core.standing import Standing, standing_of
from cronhpa.simulation.load import Load
from cronhpa.simulation.observe import observe_simulated, settled_usages
from cronhpa.simulation.score import Score, ScoreAccumulator
from cronhpa.simulation.target import Environment, SimulatedTarget

Forecasts = Callable[[Nanoseconds], Forecast | Absent | None]


class ReplicaChange(Struct, frozen=True, gc=False):
    """From `at` on there are `replicas` pods, of which `ready` are ready."""

    at: Nanoseconds
    replicas: int
    ready: int


class Trajectory:
    """One course of a simulation: the target, its score so far, and the memory."""

    def __init__(self, target: SimulatedTarget, capacity: float) -> None:
        """The memory begins as that of an operator that has long watched the target: the count seeds it."""
        self.target = target
        self.accumulator = ScoreAccumulator(capacity)
        # A zero at the begin of a run is ours: a simulation has nobody else to make one.
        zero = target.replicas == 0 or None
        self.memory = Memory(request_per_pod=target.environment.requests, zero=zero)
        self._settled: Observation | None = None

    @classmethod
    def of(
        cls, spec: Spec, load: Load, environment: Environment, begin: Nanoseconds, replicas: int | None
    ) -> Trajectory:
        """replicas: ready at the begin; None: the count that the load needs then, within the bounds."""
        current = _first_replicas(spec, load, environment, begin) if replicas is None else replicas
        # Begin earlier, so that the first reconciliation finds whole windows of metrics.
        early = begin - environment.metric_window - environment.metric_delay
        target = SimulatedTarget(environment, load, current, early, container=_container(spec))
        target.advance(begin)
        return cls(target, environment.capacity)

    def fork(self) -> Trajectory:
        """An independent copy."""
        other = copy(self)
        other.target, other.accumulator = self.target.fork(), self.accumulator.fork()
        return other

    def observe(self, spec: Spec) -> Observation:
        """The observation of a reconciliation; it also settles the memory, as a reconciliation begins."""
        self.memory = self.memory.settled(self.target.replicas, self.target.now)
        observation = observe_simulated(spec, self.target, self._settled)
        self._settled = observation if self.target.is_settled else None
        return observation

    def act(self, spec: Spec, observation: Observation, decision: Decision) -> None:
        outcome: Outcome = Withheld()
        if decision.rescales:
            outcome = Scaled(self.target.now)
            self.target.scale(decision.desired)
        self.accumulator.reconciled(decision)
        self.memory = self.memory.after(decision, outcome, spec, observation)


class Run(Struct, frozen=True):
    score: Score
    changes: tuple[ReplicaChange, ...]
    """Every count, the first one at the begin."""
    memory: Memory
    """The memory at the end."""


def no_forecasts(_now: Nanoseconds) -> None:
    """The forecasts of an object without a forecast."""


def run(  # noqa: PLR0913 - the object, its environment and what watches it
    spec: Spec,
    load: Load,
    environment: Environment,
    span: Span,
    *,
    forecasts: Forecasts = no_forecasts,
    budget: BudgetTracker | None = None,
    replicas: int | None = None,
    watch: Callable[[Observation, Decision], None] | None = None,
    passed: Callable[[Nanoseconds], None] = lambda _now: None,
) -> Run:
    """
    Simulate an object over a span, with the first reconciliation at its begin.

    load: the load behind all its metrics. forecasts: the newest forecast at an instant; called once a reconciliation,
    in order. budget: tracks the pods that forecasts add, and withholds them while it is exhausted; None: no budget.
    replicas: ready at the begin; None: the count that the load needs then, within the bounds. watch: called with every
    reconciliation, each of which is decided then, whether or not the decision before it stands. passed: called with the
    instant of every reconciliation.
    """
    begin, end = span.begin, span.end
    assert begin < end, "a run must last"
    trajectory = Trajectory.of(spec, load, environment, begin, replicas)
    target = trajectory.target
    changes = [ReplicaChange(begin, target.replicas, target.ready)]
    now = begin
    standing: Standing | None = None
    last: Decision | None = None
    observation, before = trajectory.observe(spec), trajectory.memory
    while now < end:
        passed(now)
        latest = forecasts(now)
        limited = budget.limit(spec, latest, now) if budget is not None and isinstance(latest, Forecast) else latest
        usages = None if standing is None else settled_usages(spec, target)
        if (
            standing is not None
            and usages is not None
            # A counterfactual reads what the target's pods use in each period.
            and (budget is None or budget.is_met)
            and standing.covers(usages, now)
            and standing.foresees(observation, limited, before, now)
        ):
            standing.note_period(usages, now, now)
            decision = standing.decision
            trajectory.accumulator.reconciled(decision)
        else:
            if standing is not None:
                trajectory.memory = standing.newest_memory
            observation, before = trajectory.observe(spec), trajectory.memory
            decision = decide(spec, observation, limited, before, now)
            if watch is not None:
                watch(observation, decision)
            trajectory.act(spec, observation, decision)
            standing = None
        if budget is not None and isinstance(latest, Forecast):
            budget.count(spec, observation, before, decision, now)
        if (
            standing is None
            and watch is None
            and target.is_settled
            and (budget is None or budget.is_met)
            # A load that asked for another count a period ago will ask for another one in the next.
            and _asks_alike(decision, last)
        ):
            record = Record(spec, observation, limited, before, now)
            standing = standing_of(record, target.pods, decision, trajectory.memory, foreseen=True)
        last = decision
        _note(changes, target)
        now = min(next_reconciliation(spec, decision, begin, now), end)
        while (ready_at := target.next_ready) is not None and ready_at < now:
            target.advance(ready_at, trajectory.accumulator)
            _note(changes, target)
        target.advance(now, trajectory.accumulator)
        _note(changes, target)
    memory = trajectory.memory if standing is None else standing.newest_memory
    return Run(trajectory.accumulator.score(), tuple(changes), memory)


def _asks_alike(one: Decision, before: Decision | None) -> bool:
    if before is None or one.recommended is None or before.recommended is None:
        return False
    return one.recommended.replicas == before.recommended.replicas


def next_reconciliation(spec: Spec, decision: Decision, begin: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """The next instant on the grid of sync periods from `begin`, or an earlier edge that is urgent."""
    period = spec.options.sync_period
    following = now - (now - begin) % period + period
    edge = urgent_edge(spec, decision)
    return following if edge is None or edge <= now else min(following, edge)


def _container(spec: Spec) -> str:
    """The container that carries the load: the first that a metric names."""
    named = (metric.container for metric in spec.metrics if isinstance(metric, ResourceMetric))
    return next((name for name in named if name is not None), "main")


def _first_replicas(spec: Spec, load: Load, environment: Environment, begin: Nanoseconds) -> int:
    """The count that meets the metrics' targets; without such targets, the count that carries the load."""
    bounds = resolve(spec, begin)
    value = load.at(begin)
    if isnan(value):
        return bounds.minimum
    targets = (target_load(metric, environment.requests.get(getattr(metric, "name", ""))) for metric in spec.metrics)
    per_pod = min((target for target in targets if target), default=environment.capacity)
    return min(max(ceil(value / per_pod), bounds.minimum), bounds.maximum)


def _note(changes: list[ReplicaChange], target: SimulatedTarget) -> None:
    last = changes[-1]
    if (last.replicas, last.ready) == (target.replicas, target.ready):
        return
    change = ReplicaChange(target.now, target.replicas, target.ready)
    if last.at == target.now:
        changes.pop()
    changes.append(change)
