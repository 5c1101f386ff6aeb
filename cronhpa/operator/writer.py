"""
Writes decisions: in which order, and when a status is worth a write.

A scale-up is done first and then written to the status. A scale-down is written to the status first: in the other
order, after a kill in between, the next process would take the next step down too early. So is a step up from a count
that the status does not name, as in an object's first turn or the first one after a kill: the next process would not
know that there was a step.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

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
from cronhpa.core.steady import Repetition
from cronhpa.kube.client import Client
from cronhpa.kube.errors import ClusterError, is_ambiguous
from cronhpa.kube.resource_versions import version_number
from cronhpa.kube.scale import Targets
from cronhpa.operator.contest import Contest
from cronhpa.operator.cooperative_yield import CooperativeYield
from cronhpa.operator.decision_recorder import DecisionRecorder
from cronhpa.operator.delaying_queue import following
from cronhpa.operator.event_recorder import EventRecorder
from cronhpa.operator.held_status import HeldStatus, RenderedStatus, WrittenStatus
from cronhpa.operator.installations import Claim
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.object_state import ObjectState, path_to, unpacked
from cronhpa.operator.pending_write import PendingWrite
from cronhpa.operator.repeatable import Repeatable, repeatable, surplus
from cronhpa.operator.said import Said, said
from cronhpa.operator.state_log import log_changes, log_event, log_scaled
from cronhpa.operator.worth_writing import has_drifted, is_worth_writing
from cronhpa.operator.write_places import WritePlaces

LOG = logging.getLogger(__name__)

# Numbers that only drift lie within the tolerance, else they would change the recommendation: nobody scales for them.
_DRIFT = 5 * MINUTE
_REFUSED = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
# Kubernetes' service level objective for mutating calls assumes up to 20 a second; drifting numbers stay below that.
_WRITES_PER_SECOND = 20


class Writer:
    def __init__(
        self, client: Client, targets: Targets, recorder: EventRecorder, inventory: Inventory, places: WritePlaces
    ) -> None:
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
        self._places = places

    async def flush(self, batch: list[PendingWrite], done: Callable[[ObjectState], None]) -> None:
        """
        Writes decisions, and calls done(state) at the end of each. One that fails does not affect the others.

        It empties the batch: a decision that is written, with its statuses, is not held until the last one is written.
        """
        waiting = deque(sorted(batch, key=lambda pending: pending.urgency))
        batch.clear()
        # A group, since whoever gives the batch up while its writes still begin must end those that have begun.
        async with asyncio.TaskGroup() as writes:
            while waiting:
                await self._yield.step()
                self._begin(waiting.popleft(), writes, done)

    def _begin(self, pending: PendingWrite, writes: asyncio.TaskGroup, done: Callable[[ObjectState], None]) -> None:
        try:
            is_said = self._says_nothing_new(pending)
        except Exception:
            LOG.exception("the turn of %s/%s could not be recorded", *pending.state.key)
            is_said = True
        if is_said:
            done(pending.state)
        else:
            writes.create_task(self._finish(pending, done), context=pending.state.context)

    def _says_nothing_new(self, pending: PendingWrite) -> bool:
        """
        Takes over the memory of a decision whose status the API holds already, apart from numbers that may drift on.

        Nothing is rendered and compared then: most decisions of a fleet change nothing.
        """
        state, last = pending.state, pending.state.said
        if pending.repetition is not None:
            return False
        if last is None or last.status is not state.packed_status or last.memory is not state.memory:
            return False
        if pending.acts or pending.claim is not None or state.noted.left_out or not self._is_current(pending):
            return False
        memory = state.memory.after(pending.decision, Withheld(), pending.spec, pending.observation)
        if not last.holds_for(pending.decision, pending.about, memory):
            return False
        metrics, seen = pending.decision.metrics, pending.observation
        if self.may_drift(state, pending.now) and last.has_drifted(metrics, seen.scale, seen.readings, memory):
            return False
        state.memory = last.memory = memory
        last.at, last.repeatable, last.undrifted = pending.turn.now, self._repeatable(pending, memory), None
        return True

    async def _finish(self, pending: PendingWrite, done: Callable[[ObjectState], None]) -> None:
        try:
            await self._write(pending)
        except Exception:
            LOG.exception("the turn of %s/%s could not be written", *pending.state.key)
        finally:
            done(pending.state)

    async def reject(self, state: ObjectState, now: Nanoseconds, claim: Claim | None = None) -> None:
        """Writes the problems of an unreadable spec to the object's status."""
        text = clip("; ".join(state.problems))
        stamp = {"reason": "Unreadable", "message": text, "observedGeneration": state.generation}
        held = HeldStatus(state)
        before = held()
        conditions = {entry["type"]: entry for entry in before.get("conditions", [])}
        for kind in ("SpecAccepted", "Ready"):
            condition = conditions.get(kind, {})
            since = condition.get("lastTransitionTime") if condition.get("status") == "False" else format_instant(now)
            conditions[kind] = {"type": kind, "status": "False", "lastTransitionTime": since, **stamp}
        # An unreadable spec has no edges: the column NEXT must not promise one.
        kept = {key: value for key, value in before.items() if key not in {"nextEdge", "schedules"}}
        status = {**kept, "conditions": list(conditions.values()), "columns": unreadable(before)}
        if claim is not None:
            status["operator"] = claim.lease
        self.decisions.note_unreadable(state, status, now)
        if before != status:  # with the message: the next edit may be unreadable for another reason
            if not await self._put_status(held, status, now) and claim is not None:
                return
            log_changes(state, before, held())
            self._events.record(state, Event("Warning", "SpecUnreadable", text), now)

    async def _claimed(self, pending: PendingWrite) -> bool:
        """Whether the object's status names this installation; it is written if need be, before anything is done."""
        state, claim = pending.state, pending.claim
        if claim is None or state.operator == claim.lease:
            return True
        return self._is_current(pending) and await self._put_status(
            pending.held, {**pending.held(), "operator": claim.lease}, pending.now
        )

    def tell_other_operator(self, state: ObjectState, problem: str, now: Nanoseconds) -> None:
        """Says that another installation serves an object: by an event, since the status is that installation's."""
        LOG.warning("%s/%s: %s", state.namespace, state.name, problem)
        self._events.record(state, Event("Warning", "OtherOperator", clip(problem)), now)

    async def refresh(self, state: ObjectState) -> bool:
        """Reads the object anew after a status write whose answer was lost; whether it is there, and still the same."""
        try:
            self._inventory.put(await self._client.get(path_to(state), dict))
        except ClusterError as error:
            LOG.warning("%s/%s: %s", state.namespace, state.name, error.message)
            return False
        state.in_doubt = False
        return self._inventory.items.get(state.key) is state

    def _is_current(self, pending: PendingWrite) -> bool:
        """Whether the object is still the one that was decided upon: waiting for an answer can take seconds."""
        state, claim = pending.state, pending.claim
        return (
            self._inventory.items.get(state.key) is state
            and state.generation == pending.generation
            and (claim is None or state.operator in (claim.over, claim.lease))
        )

    async def _write(self, pending: PendingWrite) -> None:
        """Acts and records, and tells what the API's status says now and did not say before."""
        state = pending.state
        if not self._is_current(pending) or (pending.acts and not await self._claimed(pending)):
            return
        if state.told is None:
            state.told = state.packed_status
        told = state.told
        pending.held.pin()
        if pending.repetition is not None:
            await self._restate(pending, pending.repetition)
        else:
            await self._act_and_record(pending)
        if state.told is not pending.held.packed:
            # Decoded anew rather than kept since before the write, which may have waited with thousands of others.
            before, after = unpacked(told), pending.held.given
            for event in transition_events(before, after, state.zone, pending.now):
                self._events.record(state, event, pending.now)
                log_event(state, event)
            log_changes(state, before, after)
            state.told = pending.held.packed

    async def _restate(self, pending: PendingWrite, repetition: Repetition) -> None:
        """Writes the numbers of a turn that repeated the last one: nothing else of its status differs."""
        state, last = pending.state, pending.state.said
        if last is None or last.status is not state.packed_status:
            return  # somebody else has written
        pending.rendered = RenderedStatus(render(pending.held(), pending.turn_after(Withheld(), repetition.memory)))
        if has_drifted(pending.held(), pending.rendered()):
            async with self._places.place(state.namespace, pending.urgency_of_status, pending.pack):
                if not self._is_current(pending) or not await self._put_rendered(pending):
                    return
        state.said = last.restated(pending.held.packed, repetition)

    async def _act_and_record(self, pending: PendingWrite) -> None:
        state, decision, before = pending.state, pending.decision, pending.state.packed_status
        if state.contest is not None and state.contest.is_unnamed:
            target = pending.spec.target
            state.contest.name(await self._targets.other_manager(state.namespace, target), target)
        outcome: Outcome = Withheld()
        if pending.acts:
            async with self._places.place(state.namespace, pending.urgency, pending.pack):
                if not self._is_current(pending):
                    return
                outcome = await self._act(pending)
        if state.spec is not None and state.spec.target != pending.spec.target:
            # The object has another target by now, and its memory must not hold anything of the old target.
            return
        if pending.acts and state.uncertain:
            memory = state.memory.intending(decision, pending.spec, pending.observation)
        else:
            memory = state.memory.after(decision, outcome, pending.spec, pending.observation)
        turn = pending.turn_after(outcome, memory)
        told = (*events(turn), *(new_conflict_events(unpacked(before), turn) if turn.conflicts else ()))
        if told and not await self._claimed(pending):
            return
        state.memory = memory
        is_to_report = self._is_to_report(pending, turn)
        for event in told:
            self._events.record(state, event, pending.now)
        if is_to_report:
            await self._report(pending, memory)

    def _is_to_report(self, pending: PendingWrite, turn: Turn) -> bool:
        """Renders and records a turn; whether its status is to be written."""
        state, held = pending.state, pending.held()
        status = render(held, turn)
        if pending.claim is not None:
            status["operator"] = pending.claim.lease
        self.decisions.note(
            state, pending.generation, pending.turn, turn.decision, turn.outcome, pending.owner_problem, status
        )
        drifts = has_drifted(held, status)
        if is_worth_writing(held, status) or (self.may_drift(state, pending.now) and drifts):
            pending.rendered = RenderedStatus(status)
            return True
        state.said = self._said(pending, turn.memory)
        if state.said is not None and drifts:
            state.said.metrics = None
        return False

    async def _report(self, pending: PendingWrite, memory: Memory) -> None:
        """Writes a status in its turn: the scale writes of others go first, since who waits for them waits for pods."""
        state = pending.state
        async with self._places.place(state.namespace, pending.urgency_of_status, pending.pack):
            if pending.acts:
                await self._put_rendered(pending)
            elif self._is_current(pending) and await self._put_rendered(pending):
                state.said = self._said(pending, memory)

    async def _put_rendered(self, pending: PendingWrite) -> bool:
        assert pending.rendered is not None
        return await self._put_status(pending.held, pending.rendered(), pending.now)

    async def _act(self, pending: PendingWrite) -> Outcome:
        decision, state = pending.decision, pending.state
        assert isinstance(pending.observation.scale, Scale)
        is_down = decision.desired < decision.current
        if is_down or not pending.held.names(decision.current):
            intending = state.memory.intending(decision, pending.spec, pending.observation)
            status = render(pending.held(), pending.turn_after(Withheld(), intending))
            written = await self._put_status(pending.held, status, pending.now)
            if not written and is_down:
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
        except asyncio.CancelledError:
            # The term ended meanwhile: it may have been done. The memory is kept if this replica leads again.
            state.uncertain = True
            state.memory = state.memory.intending(decision, pending.spec, pending.observation)
            raise
        self.scaled["down" if is_down else "up"] += 1
        state.contest = state.contest or Contest()
        state.contest.wrote(decision.desired)
        log_scaled(state, decision)
        return Scaled(pending.scaled_at)

    async def _put_status(self, held: HeldStatus, status: Status, now: Nanoseconds) -> bool:
        """Writes a status; whether the API holds it now."""
        state = held.state
        if state.in_doubt:
            # A patch is a difference: against a status that the API may not hold, it would leave old fields behind.
            served_by = state.operator
            if not await self.refresh(state) or state.operator != served_by:
                return False
        patch = merge_patch(held(), status)
        if not patch:
            return True
        body: dict[str, Any] = {"status": patch}
        # Of two installations that want the same object one is refused. So is a step that was decided on a spec that
        # the API does not hold any more, such as one that a restore of its store has undone.
        is_conditional = "operator" in patch or bool((patch.get("memory") or {}).get("intent"))
        if is_conditional:
            body["metadata"] = {"resourceVersion": str(state.version)}
        self.status_writes += 1
        try:
            written = await self._client.merge_patch(path_to(state, "status"), body, WrittenStatus)
            written.check(state.uid)
        except ClusterError as error:
            needed = {"memory", "operator"} & set(patch)
            if error.status in _REFUSED and needed and needed != set(patch):
                # A restart needs the memory; people can wait for the rest.
                LOG.warning("status of %s/%s is refused, its memory alone is written: %s", *state.key, error.message)
                needed_alone = {**held(), **{key: status[key] for key in needed}}
                return await self._put_status(held, needed_alone, now)
            if error.status == HTTPStatus.NOT_FOUND:
                self._inventory.drop(state.key, state.uid)
            is_conflict = is_conditional and error.status == HTTPStatus.CONFLICT
            state.in_doubt = is_ambiguous(error) or is_conflict
            if is_conflict:
                return False
            # Once, not at every reconciliation: a right that was taken away is missing for every object.
            if state.complaint != error.message:
                LOG.warning("status of %s/%s: %s", state.namespace, state.name, error.message)
            state.complaint = error.message
            return False
        state.complaint = ""
        state.written = now
        if self._inventory.note_written(state, version_number(written.metadata.resource_version)):
            held.put(status, patch, written.status or {})
        return True

    def may_drift(self, state: ObjectState, now: Nanoseconds) -> bool:
        """
        Whether numbers that only drift may be written: an instant of the object's own grid passed since the last write.

        Statuses that are written together, after a start or at a shared edge, drift apart so.
        """
        if state.written is None:  # what was read at the start is as good as written now
            state.written = now
        interval = max(_DRIFT, len(self._inventory.items) * SECOND // _WRITES_PER_SECOND)
        written, for_interval, at = state.drifts
        if written != state.written or for_interval != interval:  # of most objects it is asked at each turn
            at = following(state.uid, interval, state.written)
            state.drifts = (state.written, interval, at)
        # The clock may step back.
        return at <= now or now < state.written

    def _said(self, pending: PendingWrite, memory: Memory) -> Said | None:
        """What the status says now that a turn has left this memory."""
        text, decision = pending.held.packed, pending.decision
        return said(text, pending.turn, decision, pending.about, memory, self._repeatable(pending, memory))

    def _repeatable(self, pending: PendingWrite, memory: Memory) -> Repeatable | None:
        state = pending.state
        key = state.target
        if key is None:
            return None
        target, seen = self._targets.watched(key), pending.seen
        if target is not None and seen is not None:
            more = surplus(target.replicas, target.status_replicas, seen.match.pods)
            if more is not None and more != state.surplus:
                return None  # the target or the pods may be outdated: the reconciler finds out
        return repeatable(pending.turn, seen, pending.decision, memory, state.name, key, target)
