"""
Writes decisions: in which order, and when a status is worth a write.

A scale-up is done first and then written to the status. A scale-down is written to the status first: in the other
order, after a kill in between, the next process would take the next step down too early.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec

from cronhpa.api.columns import unreadable
from cronhpa.api.events import Event, events, new_conflict_events
from cronhpa.api.patch import merge_patch
from cronhpa.api.render import render
from cronhpa.api.transitions import transition_events
from cronhpa.api.turn import Status, Turn, clip
from cronhpa.core.decision import Failed, Outcome, Scaled, Withheld
from cronhpa.core.instant import MINUTE, SECOND, Nanoseconds, format_instant
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Scale
from cronhpa.kube.client import Client
from cronhpa.kube.errors import ClusterError, is_ambiguous
from cronhpa.kube.informer import resource_version
from cronhpa.kube.pods import Meta
from cronhpa.kube.scale import Targets
from cronhpa.operator.contest import Contest
from cronhpa.operator.cooperative_yield import CooperativeYield
from cronhpa.operator.decision_recorder import DecisionRecorder
from cronhpa.operator.delaying_queue import following
from cronhpa.operator.event_recorder import EventRecorder
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.object_state import ObjectState, path_to
from cronhpa.operator.pending_write import PendingWrite
from cronhpa.operator.repeatable import Repeatable, repeatable
from cronhpa.operator.said import Said, said
from cronhpa.operator.state_log import log_changes, log_event, log_scaled
from cronhpa.operator.worth_writing import has_drifted, is_worth_writing
from cronhpa.operator.write_places import WritePlaces

LOG = logging.getLogger(__name__)

# Concurrent writes: in all, and in one namespace, so that hanging writes of one leave room for the others.
_CONCURRENT = 64
_CONCURRENT_IN_NAMESPACE = 16
# Numbers that only drift lie within the tolerance, else they would change the recommendation: nobody scales for them.
_DRIFT = 5 * MINUTE
_REFUSED = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
# Kubernetes' service level objective for mutating calls assumes up to 20 a second; drifting numbers stay below that.
_WRITES_PER_SECOND = 20


class Writer:
    def __init__(self, client: Client, targets: Targets, recorder: EventRecorder, inventory: Inventory) -> None:
        self.scaled = {"up": 0, "down": 0}
        self.failed = 0
        self.status_writes = 0
        self.decisions = DecisionRecorder()
        self._client = client
        self._targets = targets
        self._events = recorder
        self._inventory = inventory
        self._yield = CooperativeYield()
        # A reconciliation without a write must not wait for a place.
        self._places = WritePlaces(_CONCURRENT, _CONCURRENT_IN_NAMESPACE)

    async def flush(self, batch: list[PendingWrite], done: Callable[[ObjectState], None]) -> None:
        """
        Writes a batch of decisions, and calls done(state) for each object at its end.

        A write that fails does not affect the others.
        """
        writes = []
        for pending in sorted(batch, key=lambda pending: pending.urgency):
            await self._yield.step()
            try:
                is_said = self._says_nothing_new(pending)
            except Exception:
                LOG.exception("the turn of %s/%s could not be recorded", *pending.state.key)
                is_said = True
            if is_said:
                done(pending.state)
            else:
                writes.append(asyncio.create_task(self._finish(pending, done), context=pending.state.context))
        await asyncio.gather(*writes)

    def _says_nothing_new(self, pending: PendingWrite) -> bool:
        """
        Takes over the memory of a decision whose status the API holds already, apart from numbers that may drift on.

        Nothing is rendered and compared then: most decisions of a fleet change nothing.
        """
        state, known = pending.state, pending.state.said
        if known is None or known.status is not state.status or known.memory is not state.memory:
            return False
        if pending.acts or state.noted.left_out or not self._is_current(pending):
            return False
        memory = state.memory.after(pending.decision, Withheld(), pending.spec, pending.observation)
        if not known.holds_for(pending.decision, pending.about, memory):
            return False
        if known.has_drifted(pending.decision.metrics, memory) and self.may_drift(state, pending.now):
            return False
        state.memory = known.memory = memory
        known.at, known.repeatable = pending.turn.now, _repeatable(pending, memory)
        return True

    async def _finish(self, pending: PendingWrite, done: Callable[[ObjectState], None]) -> None:
        try:
            if pending.acts:
                async with self._places.place(pending.state.namespace, pending.urgency):
                    await self._write(pending)
            else:
                await self._write(pending)
        except Exception:
            LOG.exception("the turn of %s/%s could not be written", *pending.state.key)
        finally:
            done(pending.state)

    async def reject(self, state: ObjectState, now: Nanoseconds) -> None:
        """Writes the problems of an unreadable spec to the object's status."""
        text = clip("; ".join(state.problems))
        stamp = {"reason": "Unreadable", "message": text, "observedGeneration": state.generation}
        conditions = {entry["type"]: entry for entry in state.status.get("conditions", [])}
        for kind in ("SpecAccepted", "Ready"):
            condition = conditions.get(kind, {})
            since = condition.get("lastTransitionTime") if condition.get("status") == "False" else format_instant(now)
            conditions[kind] = {"type": kind, "status": "False", "lastTransitionTime": since, **stamp}
        # An unreadable spec has no edges: the column NEXT must not promise one.
        kept = {key: value for key, value in state.status.items() if key not in {"nextEdge", "schedules"}}
        status = {**kept, "conditions": list(conditions.values()), "columns": unreadable(state.status)}
        self.decisions.note_unreadable(state, status, now)
        before = state.status
        if before != status:  # with the message: the next edit may be unreadable for another reason
            await self._put_status(state, status, now)
            log_changes(state, before, state.status)
            self._events.record(state, Event("Warning", "SpecUnreadable", text), now)

    async def claim(self, state: ObjectState, lease: str) -> bool:
        """
        Names this installation in an object's status before the first decision on it; whether it did.

        With the resource version that was seen: of two installations that want the same object, one is refused.
        """
        body: dict[str, Any] = {
            "metadata": {"uid": state.uid, "resourceVersion": str(state.version)},
            "status": {"operator": lease},
        }
        self.status_writes += 1
        try:
            written = await self._client.merge_patch(path_to(state, "status"), body, _Written)
        except ClusterError as error:
            state.in_doubt = is_ambiguous(error) or error.status == HTTPStatus.CONFLICT
            if error.status == HTTPStatus.NOT_FOUND:
                self._inventory.drop(state.key, state.uid)
            elif error.status != HTTPStatus.CONFLICT and state.complaint != error.message:
                LOG.warning("status of %s/%s: %s", state.namespace, state.name, error.message)
                state.complaint = error.message
            return False
        version = resource_version(written.metadata)
        if version >= state.version:
            state.status, state.version = {**state.status, "operator": lease}, version
        return True

    def tell_other_operator(self, state: ObjectState, problem: str, now: Nanoseconds) -> None:
        """Says that another installation serves an object: by an event, since the status is that installation's."""
        LOG.warning("%s/%s: %s", state.namespace, state.name, problem)
        self._events.record(state, Event("Warning", "OtherOperator", clip(problem)), now)

    async def refresh(self, state: ObjectState) -> None:
        """Reads the object anew after a status write whose answer was lost."""
        try:
            self._inventory.put(await self._client.get(path_to(state), dict))
        except ClusterError as error:
            LOG.warning("%s/%s: %s", state.namespace, state.name, error.message)
            return
        state.in_doubt = False

    def _is_current(self, pending: PendingWrite) -> bool:
        """Whether the object is still the one that was decided upon: waiting for an answer can take seconds."""
        state = pending.state
        return self._inventory.items.get(state.key) is state and state.generation == pending.generation

    async def _write(self, pending: PendingWrite) -> None:
        """Acts and records, and tells what the API's status says now and did not say before."""
        state = pending.state
        if not self._is_current(pending):
            return
        if state.told is None:
            state.told = state.status
        await self._act_and_record(pending)
        for event in transition_events(state.told, state.status, state.zone, pending.now):
            self._events.record(state, event, pending.now)
            log_event(state, event)
        log_changes(state, state.told, state.status)
        state.told = state.status

    async def _act_and_record(self, pending: PendingWrite) -> None:
        state, decision, before = pending.state, pending.decision, pending.state.status
        if state.contest is not None and state.contest.is_unnamed:
            target = pending.spec.target
            state.contest.name(await self._targets.other_manager(state.namespace, target), target)
        outcome = await self._act(pending) if pending.acts else Withheld()
        if state.spec is not None and state.spec.target != pending.spec.target:
            # The object has another target by now, and its memory must not hold anything of the old target.
            return
        if pending.acts and state.uncertain:
            memory = state.memory.intending(decision, pending.spec, pending.observation)
        else:
            memory = state.memory.after(decision, outcome, pending.spec, pending.observation)
        turn = self._turn(pending, outcome, memory)
        state.memory = memory
        status = render(state.status, turn)
        for event in (*events(turn), *new_conflict_events(before, turn)):
            self._events.record(state, event, pending.now)
        self.decisions.note(state, pending.generation, pending.turn, decision, outcome, pending.owner_problem, status)
        if not is_worth_writing(state.status, status) and (
            not self.may_drift(state, pending.now) or not has_drifted(state.status, status)
        ):
            state.said = _said(pending, memory)
            return
        if pending.acts:
            await self._put_status(state, status, pending.now)
            return
        async with self._places.place(state.namespace, pending.urgency):
            if self._is_current(pending) and await self._put_status(state, status, pending.now):
                state.said = _said(pending, memory)

    async def _act(self, pending: PendingWrite) -> Outcome:
        decision, state = pending.decision, pending.state
        assert isinstance(pending.observation.scale, Scale)
        is_down = decision.desired < decision.current
        if is_down:
            intending = state.memory.intending(decision, pending.spec, pending.observation)
            written = await self._put_status(
                state, render(state.status, self._turn(pending, Withheld(), intending)), pending.now
            )
            if not written:
                return Failed("the status could not be written, and a scale-down is written down before it is acted")
            if not self._is_current(pending):
                return Withheld()
        try:
            await self._targets.write(state.namespace, pending.spec.target, pending.observation.scale, decision.desired)
        except ClusterError as error:
            self.failed += 1
            state.uncertain = is_ambiguous(error)
            if state.contest is not None:
                state.contest.wrote(None)
            LOG.warning("scaling %s/%s to %d: %s", state.namespace, state.name, decision.desired, error.message)
            return Failed(error.message)
        self.scaled["down" if is_down else "up"] += 1
        state.contest = state.contest or Contest()
        state.contest.wrote(decision.desired)
        log_scaled(state, decision)
        return Scaled(pending.scaled_at)

    def _turn(self, pending: PendingWrite, outcome: Outcome, memory: Memory) -> Turn:
        state = pending.state
        return Turn(
            pending.spec,
            pending.decision,
            outcome,
            memory,
            pending.generation,
            pending.owner_problem,
            state.problems,
            pending.forecast,
            pending.budget_used,
            state.conflicts,
            state.zone,
            pending.observation,
            "" if state.contest is None else state.contest.problem,
        )

    async def _put_status(self, state: ObjectState, status: Status, now: Nanoseconds) -> bool:
        """Writes a status; whether the API holds it now."""
        if state.in_doubt:
            # A patch is a difference: against a status that the API may not hold, it would leave old fields behind.
            await self.refresh(state)
            if state.in_doubt:
                return False
        patch = merge_patch(state.status, status)
        if not patch:
            return True
        # The uid is a precondition: the status must not land on a later object of the same name.
        body: dict[str, Any] = {"metadata": {"uid": state.uid}, "status": patch}
        self.status_writes += 1
        try:
            written = await self._client.merge_patch(path_to(state, "status"), body, _Written)
        except ClusterError as error:
            if error.status in _REFUSED and "memory" in patch and set(patch) != {"memory"}:
                # A restart needs the memory; people can wait for the rest.
                LOG.warning("status of %s/%s is refused, its memory alone is written: %s", *state.key, error.message)
                return await self._put_status(state, {**state.status, "memory": status["memory"]}, now)
            if error.status == HTTPStatus.NOT_FOUND:
                self._inventory.drop(state.key, state.uid)
            state.in_doubt = is_ambiguous(error)
            # Once, not at every reconciliation: a right that was taken away is missing for every object.
            if state.complaint != error.message:
                LOG.warning("status of %s/%s: %s", state.namespace, state.name, error.message)
            state.complaint = error.message
            return False
        state.complaint = ""
        state.written = now
        version = resource_version(written.metadata)
        if version >= state.version:  # else somebody wrote later, and the watch has delivered that version already
            state.status, state.version = status, version
        return True

    def may_drift(self, state: ObjectState, now: Nanoseconds) -> bool:
        """
        Whether numbers that only drift may be written: an instant of the object's own grid passed since the last write.

        Statuses that are written together, after a start or at a shared edge, drift apart so.
        """
        if state.written is None:  # what was read at the start is as good as written now
            state.written = now
        interval = max(_DRIFT, len(self._inventory.items) * SECOND // _WRITES_PER_SECOND)
        # The clock may step back.
        return following(state.uid, interval, state.written) <= now or now < state.written


def _said(pending: PendingWrite, memory: Memory) -> Said | None:
    """What the status says now that a turn has left this memory."""
    decision = pending.decision
    return said(pending.state.status, pending.turn, decision, pending.about, memory, _repeatable(pending, memory))


def _repeatable(pending: PendingWrite, memory: Memory) -> Repeatable | None:
    state = pending.state
    return repeatable(pending.turn, pending.seen, pending.decision, memory, state.name, state.target)


class _Written(msgspec.Struct):
    metadata: Meta = Meta()
