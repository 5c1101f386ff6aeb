"""
What a turn writes, in which order, and when a status is worth a write.

A scale-up acts first and is written down then. A scale-down is written down first: killed in between the other way
round, the next process would take the next step down too early.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from cronhpa.api.events import Event, events, new_conflict_events
from cronhpa.api.patch import merge_patch
from cronhpa.api.render import render
from cronhpa.api.turn import Status, Turn, clip
from cronhpa.core.decision import Decision, Failed, Outcome, Scaled, Withheld
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import MINUTE, SECOND, Nanoseconds, format_instant
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Observation, Scale
from cronhpa.core.quantity import parse_milli
from cronhpa.core.spec import Mode, Spec
from cronhpa.kube.client import Client, ClusterError, is_ambiguous
from cronhpa.kube.informer import resource_version
from cronhpa.kube.pods import Meta
from cronhpa.kube.scale import Targets
from cronhpa.operator.cooperative_yield import CooperativeYield
from cronhpa.operator.event_recorder import EventRecorder
from cronhpa.operator.inventory import Inventory
from cronhpa.operator.object_state import ObjectState, path_to

LOG = logging.getLogger(__name__)

# Writes at once: in all, and in one namespace, so that one whose writes hang leaves room for the others.
_CONCURRENT = 64
_CONCURRENT_IN_NAMESPACE = 16
_DRIFT = 30 * SECOND
# For numbers that differ by no more than noise: the upstream's default tolerance, within which nobody would scale.
_NOISE_DRIFT = 5 * MINUTE
_NOISE = 0.1
_REFUSED = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
# The platform's objective for mutations is written for 20 a second; numbers that only drift stay below it.
_WRITES_PER_SECOND = 20
# What nobody acts on: it changes with every sample and is refreshed now and again.
_DRIFTING = ("currentMetrics", "podStartupSeconds", "forecast")
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
        Writes what a batch of decisions asks for, and calls done(state) for each when it is over.

        One that fails costs the others nothing.
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
        """One of the places for writes. Who has nothing to write must not wait for one."""
        slots = self._namespace_slots.get(namespace)
        if slots is None:
            slots = self._namespace_slots[namespace] = asyncio.Semaphore(_CONCURRENT_IN_NAMESPACE)
        async with slots, self._slots:
            yield

    async def reject(self, state: ObjectState, now: Nanoseconds) -> None:
        """Says on an object whose spec cannot be read as a whole what is wrong with it."""
        text = clip("; ".join(state.problems))
        stamp = {"reason": "Unreadable", "message": text, "observedGeneration": state.generation}
        conditions = {entry["type"]: entry for entry in state.status.get("conditions", [])}
        for kind in ("SpecAccepted", "Ready"):
            known = conditions.get(kind, {})
            since = known.get("lastTransitionTime") if known.get("status") == "False" else format_instant(now)
            conditions[kind] = {"type": kind, "status": "False", "lastTransitionTime": since, **stamp}
        # No edge of a spec that is gone comes any more: the column NEXT would promise what does not happen.
        kept = {key: value for key, value in state.status.items() if key not in {"nextEdge", "schedules"}}
        status = {**kept, "conditions": list(conditions.values())}
        if state.status != status:  # the message too: another edit may be as unreadable for another reason
            await self._put_status(state, status, now)
            self._events.record(state, Event("Warning", "SpecUnreadable", text), now)

    async def refresh(self, state: ObjectState) -> None:
        """Reads the object anew after a status write that may have been done or not."""
        try:
            self._inventory.put(await self._client.get(path_to(state), dict))
        except ClusterError as error:
            LOG.warning("%s/%s: %s", state.namespace, state.name, error.message)
            return
        state.in_doubt = False

    def _is_current(self, pending: PendingWrite) -> bool:
        """Whether the object is still what was decided upon: what it waits for takes seconds at times."""
        state = pending.state
        return self._inventory.items.get(state.key) is state and state.generation == pending.generation

    async def _write(self, pending: PendingWrite) -> None:
        state, decision = pending.state, pending.decision
        if not self._is_current(pending):
            return
        before = state.status
        outcome = await self._act(pending) if pending.acts else Withheld()
        if state.spec is not None and state.spec.target != pending.spec.target:
            # Pointed at another target meanwhile: nothing of the old one may be remembered for the new one.
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
            decision.reason or decision.decided_by,
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
        )

    async def _put_status(self, state: ObjectState, status: Status, now: Nanoseconds) -> bool:
        """Whether the API holds this status now."""
        if state.in_doubt:
            # A patch against what the API may not hold would leave behind what was to be taken back.
            await self.refresh(state)
            if state.in_doubt:
                return False
        patch = merge_patch(state.status, status)
        if not patch:
            return True
        # The uid is a precondition: a status must not land on an object of the same name that came since.
        body: dict[str, Any] = {"metadata": {"uid": state.uid}, "status": patch}
        self.status_writes += 1
        try:
            written = await self._client.merge_patch(path_to(state, "status"), body, _Written)
        except ClusterError as error:
            if error.status in _REFUSED and "memory" in patch and set(patch) != {"memory"}:
                # What people read can wait; what a restart must find cannot.
                LOG.warning("status of %s/%s is refused, its memory alone is written: %s", *state.key, error.message)
                return await self._put_status(state, {**state.status, "memory": status["memory"]}, now)
            if error.status == HTTPStatus.NOT_FOUND:
                self._inventory.drop(state.key, state.uid)
            state.in_doubt = is_ambiguous(error)
            # Once a trouble, not once a turn: a right that is taken away is taken away for every object.
            if state.complaint != error.message:
                LOG.warning("status of %s/%s: %s", state.namespace, state.name, error.message)
            state.complaint = error.message
            return False
        state.complaint = ""
        state.written = now
        version = resource_version(written.metadata)
        if version >= state.version:  # else somebody wrote after us, and the watch has told of it already
            state.status, state.version = status, version
        return True

    def _drift_interval(self, before: Status, after: Status) -> Nanoseconds:
        drift = _NOISE_DRIFT if is_noise(before, after) else _DRIFT
        return max(drift, len(self._inventory.items) * SECOND // _WRITES_PER_SECOND)


class _Written(msgspec.Struct):
    metadata: Meta = Meta()


def is_worth_writing(before: Status, after: Status) -> bool:
    """Whether something changed that a person acts on, or that a restart must find."""
    return _substance(before) != _substance(after)


def has_drifted(before: Status, after: Status) -> bool:
    """Whether anything is different but what time alone moves on: where nothing changes, nothing is written."""
    return before != after and {**before, "memory": _lasting(before)} != {**after, "memory": _lasting(after)}


def is_noise(before: Status, after: Status) -> bool:
    """Whether no number that drifts is further than a tenth from what it was."""
    return _is_near(_drifting(before), _drifting(after))


def _drifting(status: Status) -> dict[str, Any]:
    forecast = status.get("forecast", {})
    memory = status.get("memory", {})
    return {
        # When a forecast was made says nothing about the load.
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


def _lasting(status: Status) -> dict[str, Any]:
    """The memory, its newest recommendation without a time: a restart takes it to have held until then anyway."""
    memory = dict(status.get("memory", {}))
    recommendations = memory.get("recommendations", [])
    memory["recommendations"] = [*recommendations[:-1], *(newest["replicas"] for newest in recommendations[-1:])]
    return memory


def _substance(status: Status) -> dict[str, Any]:
    out = {key: value for key, value in status.items() if key not in _DRIFTING}
    out["conditions"] = [
        # What a forecast says in words has a new number in it at every turn.
        (entry["type"], entry["status"], entry["reason"], "" if entry["type"] == "ForecastActive" else entry["message"])
        for entry in status.get("conditions", [])
    ]
    decision = status.get("decision", {})
    out["decision"] = {
        "decidedBy": decision.get("decidedBy"),
        "steps": [step["rule"] for step in decision.get("steps", [])],
    }
    memory = _lasting(status)
    for key in (*_DRIFTING_MEMORY, "version"):
        memory.pop(key, None)
    out["memory"] = memory
    return out
