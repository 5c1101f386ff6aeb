"""
Writes decisions: in which order, and when a status is worth a write.

A scale-up is done first and then written to the status. A scale-down is written to the status first: in the other
order, after a kill in between, the next process would take the next step down too early.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from cronhpa.api.columns import unreadable
from cronhpa.api.events import Event, events, new_conflict_events
from cronhpa.api.patch import merge_patch
from cronhpa.api.render import render
from cronhpa.api.transitions import transition_events
from cronhpa.api.turn import Status, Turn, clip
from cronhpa.core.decision import Decision, Failed, Outcome, Scaled, Withheld
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import MINUTE, SECOND, Nanoseconds, format_instant
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Observation, Scale
from cronhpa.core.quantity import parse_milli
from cronhpa.core.reasons import reason
from cronhpa.core.spec import Mode, Spec
from cronhpa.kube.client import Client
from cronhpa.kube.errors import ClusterError, is_ambiguous
from cronhpa.kube.informer import resource_version
from cronhpa.kube.pods import Meta
from cronhpa.kube.scale import Targets
from cronhpa.operator.cooperative_yield import CooperativeYield
from cronhpa.operator.event_recorder import EventRecorder
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.object_state import ObjectState, path_to

LOG = logging.getLogger(__name__)

# Concurrent writes: in all, and in one namespace, so that hanging writes of one leave room for the others.
_CONCURRENT = 64
_CONCURRENT_IN_NAMESPACE = 16
_DRIFT = 30 * SECOND
# Numbers within the upstream's default tolerance of the written ones are noise: nobody would scale for them.
_NOISE_DRIFT = 5 * MINUTE
_NOISE = 0.1
_REFUSED = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
# Kubernetes' service level objective for mutating calls assumes up to 20 a second; drifting numbers stay below that.
_WRITES_PER_SECOND = 20
# Fields that change with every sample and that nobody acts on: written from time to time.
_DRIFTING = ("currentMetrics", "podStartupSeconds", "forecast")
# Texts that follow from the other fields. One that is new is written like a number that drifts: after an upgrade.
_DERIVED = "columns"
_DRIFTING_MEMORY = ("startUpSeconds", "requestPerPod")


class PendingWrite:
    """One object's decision on its way to the API."""

    __slots__ = (
        "budget_used",
        "decision",
        "forecast",
        "generation",
        "now",
        "observation",
        "owner_problem",
        "spec",
        "state",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913, PLR0917 - a value of so many parts
        self,
        state: ObjectState,
        generation: int,
        spec: Spec,
        observation: Observation,
        decision: Decision,
        owner_problem: str | None,
        forecast: Forecast | None = None,
        budget_used: int | None = None,
    ) -> None:
        self.state, self.generation, self.spec, self.observation = state, generation, spec, observation
        self.decision, self.forecast, self.owner_problem = decision, forecast, owner_problem
        self.budget_used = budget_used
        self.now = decision.at

    @property
    def acts(self) -> bool:
        return self.decision.rescales and self.owner_problem is None and self.spec.mode is Mode.ACTIVE

    @property
    def urgency(self) -> int:
        """Scale-ups first, then scale-downs, then those that only report."""
        if not self.acts:
            return 2
        return 0 if self.decision.desired > self.decision.current else 1


class Writer:
    def __init__(self, client: Client, targets: Targets, recorder: EventRecorder, inventory: Inventory) -> None:
        self.scaled = {"up": 0, "down": 0}
        self.failed = 0
        self.status_writes = 0
        self._client = client
        self._targets = targets
        self._events = recorder
        self._inventory = inventory
        self._yield = CooperativeYield()
        self._slots = asyncio.Semaphore(_CONCURRENT)
        self._namespace_slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def flush(self, batch: list[PendingWrite], done: Callable[[ObjectState], None]) -> None:
        """
        Writes a batch of decisions, and calls done(state) for each object at its end.

        A write that fails does not affect the others.
        """
        ordered = sorted(batch, key=lambda pending: pending.urgency)
        await asyncio.gather(*(self._finish(pending, done) for pending in ordered))

    async def _finish(self, pending: PendingWrite, done: Callable[[ObjectState], None]) -> None:
        try:
            await self._yield.step()
            if pending.acts:
                async with self._place(pending.state.namespace):
                    await self._write(pending)
            else:
                await self._write(pending)
        except Exception:
            LOG.exception("the turn of %s/%s could not be written", *pending.state.key)
        finally:
            done(pending.state)

    @asynccontextmanager
    async def _place(self, namespace: str) -> AsyncIterator[None]:
        """A place among the concurrent writes. A reconciliation without a write must not wait for one."""
        slots = self._namespace_slots.get(namespace)
        if slots is None:
            slots = self._namespace_slots[namespace] = asyncio.Semaphore(_CONCURRENT_IN_NAMESPACE)
        async with slots, self._slots:
            yield

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
        if state.status != status:  # with the message: the next edit may be unreadable for another reason
            await self._put_status(state, status, now)
            self._events.record(state, Event("Warning", "SpecUnreadable", text), now)

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
        state.told = state.status

    async def _act_and_record(self, pending: PendingWrite) -> None:
        state, decision, before = pending.state, pending.decision, pending.state.status
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
        if not is_worth_writing(state.status, status) and (
            abs(pending.now - state.written) < self._drift_interval(state.status, status)
            or not has_drifted(state.status, status)
        ):
            return
        if pending.acts:
            await self._put_status(state, status, pending.now)
            return
        async with self._place(state.namespace):
            if self._is_current(pending):
                await self._put_status(state, status, pending.now)

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
            LOG.warning("scaling %s/%s to %d: %s", state.namespace, state.name, decision.desired, error.message)
            return Failed(error.message)
        self.scaled["down" if is_down else "up"] += 1
        LOG.info(
            "scaled %s/%s from %d to %d: %s",
            state.namespace,
            state.name,
            decision.current,
            decision.desired,
            reason(decision),
        )
        return Scaled(pending.now)

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

    def _drift_interval(self, before: Status, after: Status) -> Nanoseconds:
        drift = _NOISE_DRIFT if is_noise(before, after) else _DRIFT
        return max(drift, len(self._inventory.items) * SECOND // _WRITES_PER_SECOND)


class _Written(msgspec.Struct):
    metadata: Meta = Meta()


def is_worth_writing(before: Status, after: Status) -> bool:
    """Whether anything changed that a person acts on, or that a restart needs."""
    return _substance(before) != _substance(after)


def has_drifted(before: Status, after: Status) -> bool:
    """Whether anything changed apart from what the passing of time changes."""
    return before != after and _enduring(before) != _enduring(after)


def is_noise(before: Status, after: Status) -> bool:
    """Whether every drifting number is within a tenth of its former value."""
    return _is_near(_drifting(before), _drifting(after))


def _drifting(status: Status) -> dict[str, Any]:
    forecast = status.get("forecast", {})
    memory = status.get("memory", {})
    return {
        # The time of a forecast says nothing about the load.
        "forecast": {key: value for key, value in forecast.items() if key not in {"issuedAt", "trainedUntil"}},
        "memory": {key: memory.get(key) for key in _DRIFTING_MEMORY},
        **{key: status.get(key) for key in _DRIFTING if key != "forecast"},
    }


def _is_near(before: Any, after: Any) -> bool:
    if before == after:
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_is_near(value, after[key]) for key, value in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_is_near, before, after))
    try:
        old, new = parse_milli(str(before)), parse_milli(str(after))
    except ValueError:
        return False
    return abs(new - old) <= _NOISE * abs(old)


def _enduring(status: Status) -> dict[str, Any]:
    return {**status, "memory": _lasting(status), _DERIVED: sorted(status.get(_DERIVED, {}))}


def _lasting(status: Status) -> dict[str, Any]:
    """The memory with its newest recommendation without a time: a restart assumes that it held until then."""
    memory = dict(status.get("memory", {}))
    recommendations = memory.get("recommendations", [])
    memory["recommendations"] = [
        *recommendations[:-1],
        *([newest.get(key) for key in ("replicas", "merged")] for newest in recommendations[-1:]),
    ]
    return memory


def _holding(recommendations: list[Any]) -> Iterator[Any]:
    """
    Without those of the metrics under a floor: a count that a later recommendation exceeds holds nothing.

    A restart that does not find it loses a rise at most, which the metrics ask for anew.
    """
    highest = -1
    for item in reversed(recommendations):
        if isinstance(item, list):
            highest = item[0]
        elif "metrics" in item and item["replicas"] <= highest:
            continue
        else:
            highest = max(highest, item["replicas"])
        yield item


def _substance(status: Status) -> dict[str, Any]:
    out = {key: value for key, value in status.items() if key not in {*_DRIFTING, _DERIVED}}
    out["conditions"] = [
        # A forecast's message has a number that always changes; other people's conditions may have no message at all.
        (*map(entry.get, ("type", "status", "reason")), entry["type"] != "ForecastActive" and entry.get("message"))
        for entry in status.get("conditions", [])
    ]
    decision = status.get("decision", {})
    out["decision"] = {
        "decidedBy": decision.get("decidedBy"),
        "steps": [step["rule"] for step in decision.get("steps", [])],
    }
    memory = _lasting(status)
    memory["recommendations"] = [*_holding(memory["recommendations"])]
    for key in (*_DRIFTING_MEMORY, "version"):
        memory.pop(key, None)
    out["memory"] = memory
    return out
