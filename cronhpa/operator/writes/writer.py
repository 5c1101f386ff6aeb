"""
Writes reconciliations: in which order, and when a status is worth a write (`written_status`).

A scale-up is done first and then written to the status. A scale-down is written to the status first: in the other
order, after a kill in between, the next process would take the next step down too early. So is a step up from a count
that the status does not name, as in an object's first reconciliation or the first one after a kill: the next process
would not know that there was a step.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec.structs import replace

from cronhpa.api.events import Event, events, new_conflict_events
from cronhpa.api.patch import altered, as_answered, merge_patch
from cronhpa.api.render import render, render_unreadable
from cronhpa.api.status_text import Status, clip
from cronhpa.api.transitions import transition_events
from cronhpa.core.model.decision import Failed, Outcome, Scaled, Withheld
from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.sync_grid import caused_at, following
from cronhpa.kube.client import Client
from cronhpa.kube.errors import ClusterError, is_ambiguous, is_missing
from cronhpa.kube.pods import ObjectMeta
from cronhpa.kube.resource_versions import version_number
from cronhpa.kube.scale import Targets
from cronhpa.operator.loop.cooperative_yield import CooperativeYield
from cronhpa.operator.loop.delaying_queue import DelayingQueue
from cronhpa.operator.objects.installations import Installations
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_state import ObjectState, path_to, unpacked
from cronhpa.operator.writes.decision_recorder import DecisionRecorder
from cronhpa.operator.writes.event_recorder import EventRecorder
from cronhpa.operator.writes.state_log import log_changes, log_event, log_scaled
from cronhpa.operator.writes.write_places import Urgency, WritePlaces
from cronhpa.operator.writes.written_status import StatusWrite, WrittenStatus, needed_between

LOG = logging.getLogger(__name__)

# Numbers that only drift lie within the tolerance, else they would change the recommendation: nobody scales for them.
_DRIFT = 5 * MINUTE
# A scale-down that has waited longer for its place is decided anew: an HPA reads its metrics just before each write.
_OLD_SECONDS = 15.0
_REFUSED = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
# Kubernetes' service level objective for mutating calls assumes up to 20 a second; drifting numbers stay below that.
_WRITES_PER_SECOND = 20
# Kinds of problems with other installations that were logged: one for each of their Leases.
_TOLD = 20
# Without these a restart would decide otherwise.
_NEEDED = {"memory", "operator"}


class Writer:
    def __init__(
        self,
        client: Client,
        targets: Targets,
        recorder: EventRecorder,
        inventory: Inventory,
        installations: Installations,
        places: WritePlaces,
        queue: DelayingQueue,
    ) -> None:
        self.scaled = {"up": 0, "down": 0}
        self.failed = 0
        self.status_writes = 0
        self.decisions = DecisionRecorder()
        self._client = client
        self._targets = targets
        self._events = recorder
        self._inventory = inventory
        self._installations = installations
        self._told: deque[str] = deque(maxlen=_TOLD)
        self._yield = CooperativeYield()
        self._places = places
        self._queue = queue
        # Fields of the status that the API drops.
        self._dropped: set[str] = set()

    async def flush(self, batch: list[tuple[ObjectState, Reconciliation]], done: Callable[[ObjectState], None]) -> None:
        """
        Writes reconciliations, scale-ups first, and calls done(state) at the end of each. One that fails does not
        affect the others.

        It empties the batch: a reconciliation that is written is not held until the last one is written.
        """
        waiting = deque(sorted(batch, key=lambda entry: _urgency(entry[1])))
        batch.clear()
        handed_over = asyncio.get_running_loop().time()
        # A group, since whoever gives the batch up while its writes still begin must end those that have begun.
        async with asyncio.TaskGroup() as writes:
            while waiting:
                await self._yield.step()
                state, reconciliation = waiting.popleft()
                write = self._finish(state, reconciliation, handed_over, done)
                writes.create_task(write, context=state.due.trace)

    def is_written(self, state: ObjectState, reconciliation: Reconciliation) -> bool:
        """
        Whether nothing of a reconciliation is to be written, by its inputs alone.

        Nothing is rendered and compared then: most reconciliations of a fleet change nothing.
        """
        written = state.writes.status
        if (
            written is None
            or written.packed is not state.served.packed_status
            or reconciliation.scales
            or state.writes.change.waits
            or state.local.replica_conflict.is_unnamed
        ):
            return False
        return not self._must_write(state, written.needed_for(reconciliation), reconciliation)

    async def _finish(
        self,
        state: ObjectState,
        reconciliation: Reconciliation,
        handed_over: float,
        done: Callable[[ObjectState], None],
    ) -> None:
        is_done = False
        try:
            is_done = await self._write(state, reconciliation, handed_over)
        except Exception:
            LOG.exception("the reconciliation of %s/%s could not be written", *state.key)
        finally:
            if not is_done:
                state.local.changed = True
            done(state)

    async def _write(self, state: ObjectState, reconciliation: Reconciliation, handed_over: float) -> bool:
        """Scales, then reports; whether all of it was done: else the next period is decided."""
        if not self._is_current(state, reconciliation):
            return False
        state.writes.own = state.served.packed_status
        if state.writes.reported is None:
            state.writes.reported = state.writes.own
        reported = state.writes.reported
        if reconciliation.scales:
            scaled = await self._scale(state, reconciliation, handed_over)
            if scaled is None:
                return False
            reconciliation = scaled
        return await self._report(state, await self._with_conflict(state, reconciliation), reported)

    async def _scale(
        self, state: ObjectState, reconciliation: Reconciliation, handed_over: float
    ) -> Reconciliation | None:
        """The reconciliation with its outcome and memory; None if the object or its load may have changed meanwhile."""
        outcome: Outcome | None = None
        decision, is_begun = reconciliation.decision, False
        try:
            if await self._claim(state, reconciliation):
                async with self._place(state, _urgency(reconciliation)):
                    is_old = decision.desired < decision.current and _since(handed_over) > _OLD_SECONDS
                    if is_old:
                        state.due.retry_after = SECOND
                    is_begun = not is_old and self._may_act(state, reconciliation)
                    if is_begun:
                        outcome = await self._act(state, reconciliation, handed_over)
            else:
                state.due.retry()
        finally:
            if is_begun and outcome is None:
                # The term ended meanwhile: it may have been done. The memory is kept if this replica leads again.
                state.writes.scale_unknown = True
            memory = _memory_after(state, reconciliation, outcome or Withheld())
            if memory is not None:
                state.local.remember(memory)
        return None if outcome is None or memory is None else replace(reconciliation, outcome=outcome, memory=memory)

    async def _act(self, state: ObjectState, reconciliation: Reconciliation, handed_over: float) -> Outcome:
        decision, spec, observation = reconciliation.decision, reconciliation.spec, reconciliation.observation
        assert isinstance(observation.scale, Scale)
        is_down = decision.desired < decision.current
        before = state.served.status
        if is_down or not _names(before, decision.current):
            intending = state.memory_after(lambda remembered: remembered.intending(decision, spec, observation))
            status = self._rendered(state, before, replace(reconciliation, memory=intending))
            written = await self._put_status(state, before, status, reconciliation.at)
            if not written and is_down:
                return Failed("the status could not be written, and a scale-down is written down before it is acted")
            if not self._may_act(state, reconciliation):
                return Withheld()
        conflict = state.local.replica_conflict
        try:
            await self._targets.write(
                state.namespace,
                spec.target,
                observation.scale,
                decision.desired,
                lambda: self._may_act(state, reconciliation),
            )
        except ClusterError as error:
            self.failed += 1
            state.writes.scale_unknown = is_ambiguous(error)
            conflict.wrote(None)
            state.due.retry(error.retry_after)
            LOG.warning("scaling %s/%s to %d: %s", state.namespace, state.name, decision.desired, error.message)
            return Failed(error.message)
        state.due.retry_after, state.due.refusals = None, 0
        self.scaled["down" if is_down else "up"] += 1
        conflict.wrote(decision.desired)
        log_scaled(state, decision)
        waited = round(_since(handed_over) * SECOND)
        # A write that waited for long must not let the next step come early.
        at = caused_at(state.namespace, spec.options.sync_period, reconciliation.at + waited)
        return Scaled(max(at, reconciliation.at))

    @asynccontextmanager
    async def _place(
        self, state: ObjectState, urgency: Urgency, on_wait: Callable[[], None] = lambda: None
    ) -> AsyncIterator[None]:
        def waits() -> None:
            self._queue.pause(state.key)
            on_wait()

        async with self._places.place(state.namespace, urgency, waits):
            self._queue.go_on(state.key)
            yield

    async def _with_conflict(self, state: ObjectState, reconciliation: Reconciliation) -> Reconciliation:
        """The reconciliation with the name of who keeps setting the replicas back, which is looked up once."""
        conflict = state.local.replica_conflict
        if not conflict.is_unnamed:
            return reconciliation
        target = reconciliation.spec.target
        conflict.name(await self._targets.other_manager(state.namespace, target), target)
        return replace(reconciliation, contested=conflict.problem)

    async def _report(self, state: ObjectState, reconciliation: Reconciliation, reported: bytes) -> bool:
        """
        Reports a reconciliation; whether all of it was done. In this order:

        1. the name of this installation, if there are events and the status does not have it yet;
        2. events of the decision, of its outcome and of new contradictions;
        3. a record of the decision, and the status if it must be written;
        4. events and lines of the log of what the status says now and did not say before.

        reported: the packed status of before, up to which events were written.
        """
        new_events = [*events(reconciliation)]
        if reconciliation.conflicts:
            new_events += new_conflict_events(unpacked(reported), reconciliation)
        if new_events and not await self._claim(state, reconciliation):
            return False
        for event in new_events:
            self._events.record(state, event, reconciliation.at)
        is_done = await self._report_status(state, reconciliation)
        self._report_changes(state, reported, reconciliation.at)
        return is_done

    async def _report_status(self, state: ObjectState, reconciliation: Reconciliation) -> bool:
        """
        Records a decision, and writes its status if that must be written; whether this was done.

        A write waits for its place: the scale writes of others go first, since who waits for them waits for pods. A
        reconciliation without a write waits for none, except while there are scale writes: then each is rendered at
        its place, because to render thousands of statuses would delay them as well.
        """
        due = None
        if not self._places.is_busy:
            due = self._due_status(state, reconciliation)
            if due is None:
                return True

        def forget() -> None:  # thousands of statuses wait at a start, and would take far more memory than their inputs
            nonlocal due
            due = None

        urgency = Urgency.SCALED_STATUS if reconciliation.scales else Urgency.STATUS
        async with self._place(state, urgency, on_wait=forget):
            if not reconciliation.scales and not self._is_current(state, reconciliation):
                return False
            if due is None:
                due = self._due_status(state, reconciliation)
            if due is None:
                return True
            before, status = due
            state.writes.status = None
            is_written = await self._put_status(state, before, status, reconciliation.at)
            if is_written and not reconciliation.scales:
                state.writes.status = WrittenStatus.of(state.writes.own, reconciliation)
            return is_written

    def _due_status(self, state: ObjectState, reconciliation: Reconciliation) -> tuple[Status, Status] | None:
        """Records a decision; the status that the API serves and the one to write, None if none must be written."""
        before = state.served.status
        status = self._rendered(state, before, reconciliation)
        self.decisions.note(state, reconciliation, status)
        needed = needed_between(before, status)
        if self._must_write(state, needed, reconciliation):
            return before, status
        has_numbers = needed is StatusWrite.NOTHING
        state.writes.status = WrittenStatus.of(state.served.packed_status, reconciliation, has_numbers=has_numbers)
        return None

    def _report_changes(self, state: ObjectState, reported: bytes, now: Nanoseconds) -> None:
        """Events and lines of the log of what has changed since the status `reported`."""
        if reported is state.writes.own:
            return
        before, after = unpacked(reported), unpacked(state.writes.own)
        for event in transition_events(before, after, state.served.parsed.zone, now):
            self._events.record(state, event, now)
            log_event(state, event)
        log_changes(state, before, after)
        state.writes.reported = state.writes.own

    async def reject(self, state: ObjectState, now: Nanoseconds) -> None:
        """Writes the problems of an unreadable spec to the object's status."""
        generation, before = state.served.generation, state.served.status
        status = self._rejected(state, before, now)
        self.decisions.note_unreadable(state, status, now)
        if before == status:  # with the message: the next edit may be unreadable for another reason
            return
        async with self._place(state, Urgency.STATUS):
            if self._inventory.items.get(state.key) is not state or state.served.generation != generation:
                return  # the edit causes its own reconciliation
            before = state.served.status
            status = self._rejected(state, before, now)
            if not await self._put_status(state, before, status, now) and self._claims(state):
                return
        log_changes(state, before, state.served.status)
        problems = "; ".join(state.served.parsed.problems)
        self._events.record(state, Event("Warning", "SpecUnreadable", clip(problems)), now)

    def _rejected(self, state: ObjectState, before: Status, now: Nanoseconds) -> Status:
        """The status of an object whose spec cannot be read. before: the status that the API serves."""
        served = state.served
        return self._claimed(state, render_unreadable(before, served.parsed.problems, served.generation, now))

    def report_other_operator(self, state: ObjectState, problem: str, now: Nanoseconds) -> None:
        """Says that another installation serves an object: by an event, since the status is that installation's."""
        if problem not in self._told:
            # Each object has an event; in the log a line for each of a thousand objects would bury the others.
            LOG.warning("%s/%s: %s; further objects have an event alone", state.namespace, state.name, problem)
            self._told.append(problem)
        self._events.record(state, Event("Warning", "OtherOperator", clip(problem)), now)

    async def refresh(self, state: ObjectState) -> bool:
        """Reads the object anew after a status write whose answer was lost; whether it is there, and still the same."""
        try:
            self._inventory.put(await self._client.get(path_to(state), dict))
        except ClusterError as error:
            LOG.warning("%s/%s: %s", state.namespace, state.name, error.message)
            self._drop_if_gone(state, error)
            return False
        state.writes.status_unknown = False
        return self._inventory.items.get(state.key) is state

    def _drop_if_gone(self, state: ObjectState, error: ClusterError) -> None:
        """Forgets an object that the API server does not find: the watch may have lost its deletion."""
        if is_missing(error):
            self._inventory.drop(state.key, state.uid)

    def _is_current(self, state: ObjectState, reconciliation: Reconciliation) -> bool:
        """Whether the object is still the one that was decided upon: waiting for an answer can take seconds."""
        return (
            self._inventory.items.get(state.key) is state
            and state.served.spec is reconciliation.spec
            and self._installations.problem(state.served.operator, state.namespace) is None
        )

    def _may_act(self, state: ObjectState, reconciliation: Reconciliation) -> bool:
        """Whether the target may be scaled still: another autoscaler of it may have come, too."""
        ownership = state.local.ownership
        return self._is_current(state, reconciliation) and (ownership is None or ownership.is_current)

    def _claims(self, state: ObjectState) -> bool:
        """Whether the object's status must name this installation first."""
        return self._installations.claim(state.served.operator, state.namespace) is not None

    async def _claim(self, state: ObjectState, reconciliation: Reconciliation) -> bool:
        """Whether the object's status names this installation; it is written if need be, before anything is done."""
        claim = self._installations.claim(state.served.operator, state.namespace)
        if claim is None:
            return True
        before = state.served.status
        return self._is_current(state, reconciliation) and await self._put_status(
            state, before, {**before, "operator": claim}, reconciliation.at
        )

    def _rendered(self, state: ObjectState, before: Status, reconciliation: Reconciliation) -> Status:
        return self._claimed(state, render(before, reconciliation))

    def _claimed(self, state: ObjectState, status: Status) -> Status:
        """A status with the name of this installation, if it must name it first."""
        claim = self._installations.claim(state.served.operator, state.namespace)
        return status if claim is None else {**status, "operator": claim}

    async def _put_status(self, state: ObjectState, before: Status, status: Status, now: Nanoseconds) -> bool:
        """Writes a status; whether the API holds it now. before: the status that the API serves."""
        if state.writes.status_unknown:
            # A patch is a difference: against a status that the API may not hold, it would leave old fields behind.
            served_by = state.served.operator
            if not await self.refresh(state) or state.served.operator != served_by:
                return False
            before = state.served.status
        patch = merge_patch(before, status)
        error = await self._patch_status(state, status, patch, now)
        needed = _NEEDED & set(patch)
        if error is not None and error.status in _REFUSED and needed and needed != set(patch):
            # A restart needs the memory; people can wait for the rest.
            LOG.warning("status of %s/%s is refused, its memory alone is written: %s", *state.key, error.message)
            status = {**before, **{key: status[key] for key in needed}}
            error = await self._patch_status(state, status, merge_patch(before, status), now)
        if error is None:
            return True
        self._drop_if_gone(state, error)
        is_conflict = _is_conditional(patch) and error.status == HTTPStatus.CONFLICT
        state.writes.status_unknown = is_ambiguous(error) or is_conflict
        # Not for every status: those of a whole fleet may be refused at once.
        if _intends(patch):
            state.due.retry(error.retry_after)
        # Once, not at every reconciliation: a right that was taken away is missing for every object.
        if not is_conflict and state.writes.failure != error.message:
            LOG.warning("status of %s/%s: %s", state.namespace, state.name, error.message)
        if not is_conflict:
            state.writes.failure = error.message
        return False

    async def _patch_status(
        self, state: ObjectState, status: Status, patch: Status, now: Nanoseconds
    ) -> ClusterError | None:
        """Sends the patch that leads to a status, and takes over the answer; the error if it is refused."""
        if not patch:
            return None
        body: dict[str, Any] = {"status": patch}
        if _is_conditional(patch):
            body["metadata"] = {"resourceVersion": str(state.served.version)}
        self.status_writes += 1
        try:
            answer = await self._client.merge_patch(path_to(state, "status"), body, StatusAnswer)
            answer.check(state.uid)
        except ClusterError as error:
            return error
        state.writes.failure, state.writes.status_at = "", now
        if self._inventory.note_written(state, version_number(answer.metadata.resource_version)):
            served, answered = state.served, answer.status or {}
            served.status = status
            state.writes.own = served.packed_status
            changed = frozenset(altered(status, patch, answered))
            self._tell_dropped(path[0] for path in changed - served.altered if path[0] not in answered)
            served.altered |= changed
            in_api = as_answered(status, patch, answered, served.altered)
            if in_api is not status:  # somebody else has written meanwhile
                served.status = dict(in_api)
                state.local.changed = True
        return None

    def _tell_dropped(self, fields: Iterable[str]) -> None:
        """Logs once which fields of the status the API drops."""
        new = set(fields) - self._dropped
        if new:
            self._dropped |= new
            names = ", ".join(f"status.{field}" for field in sorted(new))
            LOG.warning("the API drops %s: its CRDs are older than the operator: apply those of the chart", names)

    def _must_write(self, state: ObjectState, needed: StatusWrite, reconciliation: Reconciliation) -> bool:
        """Whether a status is written now of which this must be written."""
        return needed is StatusWrite.STATUS or (
            needed is StatusWrite.NUMBERS and self._numbers_are_due(state, reconciliation)
        )

    def _numbers_are_due(self, state: ObjectState, reconciliation: Reconciliation) -> bool:
        """
        Whether numbers that only drift may be written: an instant of the object's own grid passed since the last write.

        Statuses that are written together, after a start or at a shared edge, drift apart so.
        """
        now, written_at = reconciliation.at, state.writes.status_at
        if written_at is None:  # what was read at the start is as good as written now
            written_at = state.writes.status_at = now
        interval = max(_DRIFT, len(self._inventory.items) * SECOND // _WRITES_PER_SECOND)
        # The clock may step back.
        return following(state.uid, interval, written_at) <= now or now < written_at


class StatusAnswer(msgspec.Struct):
    """What the API answers to a patch of a status."""

    metadata: ObjectMeta = ObjectMeta()
    status: dict[str, Any] | None = None

    def check(self, uid: str) -> None:
        """Raises ClusterError for a later object of the name: an API server compares no uid with that of a status."""
        if self.metadata.uid not in {"", uid}:
            raise ClusterError(HTTPStatus.NOT_FOUND, "NotFound", "it is gone, and a later object of its name got it")


def _is_conditional(patch: Status) -> bool:
    """
    Whether a status is only written over the version that is known.

    Of two installations that want the same object one is refused. So is a step that was decided on a spec that the API
    does not hold any more, such as one that a restore of its store has undone.
    """
    return "operator" in patch or _intends(patch)


def _intends(patch: Status) -> bool:
    """Whether a scale waits for a status."""
    return bool((patch.get("memory") or {}).get("intent"))


def _names(status: Status, count: int) -> bool:
    """Whether a new process would find in this status that this was the count before a step."""
    memory = status.get("memory")
    return isinstance(memory, dict) and memory.get("replicas") == count and not memory.get("intent")


def _memory_after(state: ObjectState, reconciliation: Reconciliation, outcome: Outcome) -> Memory | None:
    """
    The memory after a reconciliation that scales: what was recommended counts, whether it was acted upon or not.

    None if the object has another target by now: its memory must not hold anything of the old one.
    """
    record, decision = reconciliation.record, reconciliation.decision
    if state.served.spec is not None and state.served.spec.target != record.spec.target:
        return None
    if state.writes.scale_unknown:
        return state.memory_after(lambda before: before.intending(decision, record.spec, record.observation))
    return state.memory_after(lambda before: before.after(decision, outcome, record.spec, record.observation))


def _since(instant: float) -> float:
    """Seconds since an instant of the event loop."""
    return asyncio.get_running_loop().time() - instant


def _urgency(reconciliation: Reconciliation) -> Urgency:
    if not reconciliation.scales:
        return Urgency.STATUS
    decision = reconciliation.decision
    return Urgency.SCALE_UP if decision.desired > decision.current else Urgency.SCALE_DOWN
