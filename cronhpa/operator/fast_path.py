"""
The fast path: turns that repeat the last decision are not observed, decided, rendered and compared anew.

`core/steady` tells whether a turn repeats the last decision. The shell checks in addition that spec, status, memory,
target and pods are the same objects in memory as before, that the target has no other owner, and that nothing but the
decision is due. Every other turn is observed and decided in full.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from cronhpa.core.decision import Withheld
from cronhpa.core.instant import MINUTE, Nanoseconds
from cronhpa.core.observation import Absent, Observation, Reading
from cronhpa.core.observe import Measurement, read
from cronhpa.core.predictive.floor import MILLI
from cronhpa.core.record import Record, encode
from cronhpa.core.spec import ResourceMetric, Spec
from cronhpa.core.steady import Repetition, Steady, asks_alike, repeat, usages_of
from cronhpa.history.points import POINT_STEP
from cronhpa.history.series import LoadSample, Series
from cronhpa.kube.metrics import PodMetricsByName
from cronhpa.operator.grid import caused_at, latest, remembered_at
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.object_state import ObjectState
from cronhpa.operator.pending_write import PendingWrite
from cronhpa.operator.repeatable import Repeatable
from cronhpa.operator.rest import Member, Rest
from cronhpa.operator.said import Said, about
from cronhpa.operator.writer import Writer

if TYPE_CHECKING:
    from cronhpa.operator.reconciler import Cluster

LOG = logging.getLogger(__name__)


class _Tick(Struct):
    """
    What the turns of a namespace at one instant share.

    listed: the metrics of its pods; None where no metric is asked for. changes: of owners and objects, so far.
    grid: the newest grid instant by sync period.
    """

    now: Nanoseconds
    listed: PodMetricsByName | Absent | None
    changes: int
    grid: dict[Nanoseconds, Nanoseconds] = {}


class FastPath:
    """
    loads: the loads to be stored, one sample a minute of each object, appended when the minute is over.
    checks: whether every turn is decided, too, and compared.

    repeated: the number of repeated turns; together: those of objects at rest among them. compared: the number of
    compared turns; unequal: those that differed among them.
    """

    def __init__(
        self,
        cluster: Cluster,
        inventory: Inventory,
        writer: Writer,
        loads: MutableSequence[LoadSample],
        clock: Callable[[], Nanoseconds],
        *,
        checks: bool = False,
    ) -> None:
        self.checks = checks
        self.repeated = self.together = self.compared = self.unequal = 0
        self._told: Nanoseconds = 0
        self._cluster = cluster
        self._inventory = inventory
        self._writer = writer
        self._loads = loads
        self._clock = clock

    def may_take(self, state: ObjectState) -> bool:
        """Whether the turn of an object may repeat the last one, as far as the namespace's pod metrics tell."""
        kept = None if state.said is None else state.said.repeatable
        return state.spec is not None and kept is not None and kept.is_listed and not self.checks

    def take(
        self, states: Sequence[ObjectState], listed: PodMetricsByName | Absent | None
    ) -> tuple[list[ObjectState], list[ObjectState]]:
        """
        Takes the turns that repeat the last one. Returns the objects of these turns, and the others, left unchanged.

        states: of one namespace. listed: the metrics of its pods; None where no metric is asked for.
        """
        now = self._clock()
        taken: list[ObjectState] = []
        left: list[ObjectState] = []
        if self._cluster.blindness(states[0].namespace) is not None:
            self.tell_loads(states)
            return taken, [*states]
        tick = self._tick(states[0].namespace, listed, now)
        for state in states:
            (taken if self._takes(state, tick) else left).append(state)
        self.tell_loads(left)
        return taken, left

    def take_measured(self, state: ObjectState, spec: Spec, measured: Sequence[Measurement]) -> bool:
        """
        Takes the turn of an object whose metrics were queried, if it repeats the last one; whether it does.

        If numbers of the status are due, `drifted` returns their write.
        """
        said = state.said
        kept = None if said is None else said.repeatable
        if said is None or kept is None or kept.is_listed or kept.steady.spec is not spec or self.checks:
            return False
        tick = self._tick(state.namespace, None, self._clock())
        asked = zip(spec.metrics, measured, strict=True)
        readings = [read(metric, answer, kept.steady.pods, tick.now, spec) for metric, answer in asked]
        is_taken = self._takes(state, tick, readings)
        return is_taken or (said.drifted is not None and said.drifted.memory is state.memory)

    def join(self, rest: Rest, state: ObjectState) -> None:
        """Adds an object whose turn was just repeated to a rest of its namespace."""
        rest.join(state, self._changes_in(rest.namespace))

    def take_together(self, rest: Rest, listed: PodMetricsByName | Absent | None) -> tuple[int, list[ObjectState]]:
        """
        Takes the turn of objects at rest. Returns how many repeat their last one, and the objects that do not.

        The latter are unchanged, and have left the rest.
        """
        now = self._clock()
        grid = latest(rest.namespace, rest.period, now)
        if not isinstance(listed, PodMetricsByName) or not self._may_take_together(rest, grid, now):
            return 0, rest.leave_all()
        at = caused_at(grid, rest.period, now)
        is_new_minute = now // MINUTE != rest.last[0] // MINUTE
        left: list[ObjectState] = []
        for member in rest.members.values():
            try:
                usages = self._repeated_usages(member, listed, now, at)
                if usages is None:
                    left.append(member.state)
                elif is_new_minute or usages != member.usages:
                    member.usages = usages
                    if member.kept.load is not None:
                        self._note_load(member.kept, *member.kept.load, now, usages)
            except Exception:
                LOG.exception("the turn of %s/%s could not be repeated with others", *member.state.key)
                left.append(member.state)
        rest.leave(left)
        rest.note_turn(now, at)
        self.repeated += len(rest.members)
        self.together += len(rest.members)
        return len(rest.members), left

    def _may_take_together(self, rest: Rest, grid: Nanoseconds, now: Nanoseconds) -> bool:
        """Whether nothing is due or unknown for the objects at rest. grid: the newest grid instant of their turns."""
        namespace, (oldest, newest) = rest.namespace, rest.last
        return (
            # The turn has a grid instant of its own: later than all that an object remembers.
            newest < grid
            # No point is to be noted of them.
            and now // POINT_STEP == oldest // POINT_STEP
            and rest.changes == self._changes_in(namespace)
            and self._cluster.blindness(namespace) is None
            and all(informer is not None and informer.is_current for informer in rest.informers)
            and not any(self._cluster.installations.problem(named, namespace) for named in rest.operators)
        )

    def _repeated_usages(
        self, member: Member, listed: PodMetricsByName, now: Nanoseconds, at: Nanoseconds
    ) -> tuple[int, ...] | None:
        """The usages with which an object at rest repeats its last turn; None where its turn is its own."""
        if now >= member.until or not member.is_as_before:
            return None
        usages = _usages(member.steady, member.names, listed, now)
        if usages is None or (usages != member.usages and not asks_alike(member.steady, usages)):
            return None
        if usages != member.undrifted and self._writer.may_drift(member.state, at):
            return None
        return usages

    def _tick(self, namespace: str, listed: PodMetricsByName | Absent | None, now: Nanoseconds) -> _Tick:
        return _Tick(now, listed, self._changes_in(namespace))

    def _changes_in(self, namespace: str) -> int:
        return self._cluster.owners.changes + self._inventory.changes_in(namespace)

    def _takes(self, state: ObjectState, tick: _Tick, readings: Sequence[Reading] = ()) -> bool:
        """Takes the turn of an object if that repeats the last one. readings: where its metrics are not listed."""
        try:
            is_taken = self._take(state, tick, readings)
        except Exception:
            LOG.exception("the turn of %s/%s could not be repeated, and is decided", *state.key)
            return False
        self.repeated += is_taken
        return is_taken

    def _take(self, state: ObjectState, tick: _Tick, readings: Sequence[Reading]) -> bool:
        said, now = state.said, tick.now
        if said is not None:
            said.drifted = None
        repetition = self._repetition(state, tick, readings)
        if repetition is None or said is None or said.repeatable is None:
            return False
        if repetition.usages != said.undrifted and self._writer.may_drift(state, repetition.at):
            of = repetition.of
            if said.has_drifted(repetition.metrics, of.scale, of.readings, repetition.memory):
                said.drifted = repetition
            else:
                said.undrifted = repetition.usages
        kept = said.repeatable
        if kept.load is not None:
            self._note_load(kept, *kept.load, now, repetition.usages)
        if now // POINT_STEP != state.noted.step:
            self._writer.decisions.note_point(state, _record(repetition), repetition.decision)
        state.memory = said.memory = repetition.memory
        said.at = now
        if state.newest is not None:
            state.newest.repetition = repetition
        return said.drifted is None

    def drifted(self, state: ObjectState) -> PendingWrite | None:
        """The write of a turn that repeated the last one, where its numbers are due in the status; None elsewhere."""
        said = state.said
        if said is None or said.drifted is None or self._cluster.blindness(state.namespace) is not None:
            return None
        repetition, said.drifted = said.drifted, None
        if repetition.memory is not state.memory:
            return None
        turn, decision = _record(repetition), repetition.decision
        return PendingWrite(state, state.generation, turn, decision, said.owner_problem, repetition=repetition)

    def _note_load(
        self, kept: Repeatable, index: int, series: Series, now: Nanoseconds, usages: tuple[int, ...]
    ) -> None:
        """Notes a load. The store keeps the highest load of each minute, so it gets one sample a minute."""
        load, highest = usages[index] / MILLI, kept.highest
        if highest is not None and highest.at // MINUTE != now // MINUTE:
            self._loads.append(highest)
            highest = None
        if highest is None or load > highest.value:
            kept.highest = LoadSample(series, now, load)

    def tell_loads(self, states: Iterable[ObjectState]) -> None:
        """Stores the noted loads of objects whose next turn may not repeat the last one."""
        for state in states:
            kept = None if state.said is None else state.said.repeatable
            if kept is not None and kept.highest is not None:
                self._loads.append(kept.highest)
                kept.highest = None

    def compare(self, pending: PendingWrite, listed: PodMetricsByName | Absent | None) -> None:
        """Compares a turn that was decided, before it is written, with a repetition of the last one."""
        try:
            self._compare(pending, listed)
        except Exception:
            LOG.exception("the turn of %s/%s could not be compared", *pending.state.key)
            self.unequal += 1

    def _compare(self, pending: PendingWrite, listed: PodMetricsByName | Absent | None) -> None:
        state, turn = pending.state, pending.turn
        said = state.said
        if turn.memory is not state.memory or self._cluster.blindness(state.namespace) is not None:
            return
        tick = self._tick(state.namespace, listed, turn.now)
        repetition = self._repetition(state, tick, turn.observation.readings)
        if repetition is None or said is None:
            return
        self.compared += 1
        memory = state.memory.after(pending.decision, Withheld(), turn.spec, turn.observation)
        told = (repetition.decision, repetition.readings, repetition.memory, said.about, False)
        if told != (pending.decision, turn.observation.readings, memory, pending.about, pending.acts):
            self.unequal += 1
            LOG.error("the fast path differs from what is decided: %s; it says %r", encode(turn), told)
        if turn.now - self._told >= MINUTE:
            self._told = turn.now
            LOG.info("%d turns were compared with the fast path, %d differ", self.compared, self.unequal)

    def _repetition(self, state: ObjectState, tick: _Tick, readings: Sequence[Reading]) -> Repetition | None:
        """The turn of an object at this instant, where it repeats the last one. readings: as of `_takes`."""
        said, now = state.said, tick.now
        if said is None or said.repeatable is None:
            return None
        kept = said.repeatable
        spec = kept.steady.spec
        period = spec.options.sync_period
        if (
            state.spec is not spec
            or said.status is not state.packed_status
            or said.memory is not state.memory
            or now < said.at
            # A contest ends by the count that is found at a turn.
            or (state.contest is not None and state.contest.is_open)
            # A change that its history has no room for yet is noted at a later turn.
            or state.noted.left_out
            or state.in_doubt
            or state.uncertain
            or state.checked is None
            or state.checked[1] + period <= now
            or not kept.match.is_current
            or not kept.target.is_current
            or (kept.owner_changes != tick.changes and not self._has_the_same_owner(state, said, kept, tick))
            or said.about != about(state, state.generation, said.owner_problem)
        ):
            return None
        if kept.is_listed:
            usages = _usages(kept.steady, kept.names, tick.listed, now)
        else:
            usages = usages_of(kept.steady, readings)
        if usages is None:
            return None
        grid = tick.grid.get(period)
        if grid is None:
            grid = tick.grid[period] = latest(state.namespace, period, now)
        return repeat(kept.steady, usages, state.memory, now, remembered_at(state.memory, grid, period, now))

    def _has_the_same_owner(self, state: ObjectState, said: Said, kept: Repeatable, tick: _Tick) -> bool:
        if self._cluster.owners.problem(state, self._inventory.rivals_on(kept.key)) != said.owner_problem:
            return False
        kept.owner_changes = tick.changes
        return True


def _usages(
    steady: Steady, names: tuple[str, ...], listed: PodMetricsByName | Absent | None, now: Nanoseconds
) -> tuple[int, ...] | None:
    """The usage of the pods with these names by each metric, milli-units; None where one has no sample that counts."""
    if not steady.spec.metrics:
        return ()
    if listed is None or isinstance(listed, Absent):
        return None
    usages: list[int] = []
    for metric in steady.spec.metrics:
        if not isinstance(metric, ResourceMetric) or (usage := listed.usage(metric, names)) is None:
            return None
        is_starting = now < steady.started and metric.name == "cpu"
        if is_starting and not steady.trusts(listed.samples(metric, [pod.name for pod in steady.starting])):
            return None
        usages.append(usage)
    return (*usages,)


def _record(repetition: Repetition) -> Record:
    """The part of a turn that a point shows."""
    repeated = repetition.of
    observation = Observation(repeated.scale, repetition.readings)
    return Record(repeated.spec, observation, None, repetition.memory, repetition.now)
