"""
What a turn writes, in which order, and when a status is worth a write.

A scale-up acts first and is written down then. A scale-down is written down first: killed in between the other way
round, the next process would take the next step down too early.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from cronhpa.api.patch import merge_patch
from cronhpa.api.render import Status, Turn, events, render
from cronhpa.core.decision import Decision, Failed, Outcome, Scaled, Withheld
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import SECOND, Nanoseconds, format_instant
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Observation, Scale
from cronhpa.core.spec import Mode, Spec
from cronhpa.kube.client import Client, ClusterError
from cronhpa.kube.scale import Targets
from cronhpa.operator.inventory import GROUP, PLURAL, VERSION, Inventory, Item
from cronhpa.operator.recorder import Recorder

LOG = logging.getLogger(__name__)

_CONCURRENT = 16
_NOT_FOUND = 404
_DRIFT = 30 * SECOND
# The platform's objective for mutations is written for 20 a second; numbers that only drift stay below it.
_WRITES_PER_SECOND = 20
# What nobody acts on: it changes with every sample and is refreshed now and again.
_DRIFTING = ("currentMetrics", "podStartupSeconds", "forecast")


class Judged:
    """One object's decision on its way to the API."""

    __slots__ = ("decision", "forecast", "item", "now", "observation", "owner_problem", "spec")

    def __init__(
        self,
        item: Item,
        spec: Spec,
        observation: Observation,
        decision: Decision,
        forecast: Forecast | None,
        owner_problem: str | None,
    ) -> None:
        self.item, self.spec, self.observation = item, spec, observation
        self.decision, self.forecast, self.owner_problem = decision, forecast, owner_problem
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
    def __init__(self, client: Client, targets: Targets, recorder: Recorder, inventory: Inventory) -> None:
        self.scaled = {"up": 0, "down": 0}
        self.failed = 0
        self.status_writes = 0
        self._client = client
        self._targets = targets
        self._recorder = recorder
        self._inventory = inventory
        self._slots = asyncio.Semaphore(_CONCURRENT)

    async def flush(self, batch: list[Judged]) -> None:
        """Writes what a batch of decisions asks for; one that fails costs the others nothing."""
        ordered = sorted(batch, key=lambda judged: judged.urgency)
        await asyncio.gather(*(self._write(judged) for judged in ordered))

    async def reject(self, item: Item, now: Nanoseconds) -> None:
        """Says on an object whose spec cannot be read as a whole what is wrong with it."""
        text = "; ".join(item.problems)
        stamp = {"reason": "Unreadable", "message": text, "observedGeneration": item.generation}
        conditions = {entry["type"]: entry for entry in item.status.get("conditions", [])}
        for kind in ("SpecAccepted", "Ready"):
            known = conditions.get(kind, {})
            since = known.get("lastTransitionTime") if known.get("status") == "False" else format_instant(now)
            conditions[kind] = {"type": kind, "status": "False", "lastTransitionTime": since, **stamp}
        await self._put_status(item, {**item.status, "conditions": list(conditions.values())}, now)

    async def _write(self, judged: Judged) -> None:
        item, decision = judged.item, judged.decision
        try:
            async with self._slots:
                outcome = await self._act(judged) if judged.acts else Withheld()
                memory = item.memory.after(decision, outcome, judged.spec, judged.observation)
                turn = self._turn(judged, outcome, memory)
                item.memory = memory
                status = render(item.status, turn)
                if is_worth_writing(item.status, status) or (
                    judged.now - item.written >= self._drift_interval() and has_drifted(item.status, status)
                ):
                    await self._put_status(item, status, judged.now)
                for event in events(turn):
                    await self._recorder.record(item, event, judged.now)
        except Exception:
            LOG.exception("the turn of %s/%s could not be written", item.namespace, item.name)

    async def _act(self, judged: Judged) -> Outcome:
        decision, item = judged.decision, judged.item
        assert isinstance(judged.observation.scale, Scale)
        is_down = decision.desired < decision.current
        if is_down:
            intending = item.memory.intending(decision, judged.spec, judged.observation)
            written = await self._put_status(
                item, render(item.status, self._turn(judged, Withheld(), intending)), judged.now
            )
            if not written:
                return Failed("the status could not be written, and a scale-down is written down before it is acted")
        try:
            await self._targets.write(item.namespace, judged.spec.target, judged.observation.scale, decision.desired)
        except ClusterError as error:
            self.failed += 1
            LOG.warning("scaling %s/%s to %d: %s", item.namespace, item.name, decision.desired, error.message)
            return Failed(error.message)
        self.scaled["down" if is_down else "up"] += 1
        LOG.info(
            "scaled %s/%s from %d to %d: %s",
            item.namespace,
            item.name,
            decision.current,
            decision.desired,
            decision.reason or decision.decided_by,
        )
        return Scaled(judged.now)

    def _turn(self, judged: Judged, outcome: Outcome, memory: Memory) -> Turn:
        item = judged.item
        return Turn(
            judged.spec,
            judged.decision,
            outcome,
            memory,
            item.generation,
            judged.owner_problem,
            item.problems,
            judged.forecast,
        )

    async def _put_status(self, item: Item, status: Status, now: Nanoseconds) -> bool:
        """Whether the API holds this status now."""
        patch = merge_patch(item.status, status)
        if not patch:
            return True
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{item.namespace}/{PLURAL}/{item.name}/status"
        # The uid is a precondition: a status must not land on an object of the same name that came since.
        body: dict[str, Any] = {"metadata": {"uid": item.uid}, "status": patch}
        self.status_writes += 1
        try:
            await self._client.merge_patch(path, body, msgspec.Raw)
        except ClusterError as error:
            if error.status == _NOT_FOUND:
                self._inventory.drop(item.key, item.uid)
            LOG.warning("status of %s/%s: %s", item.namespace, item.name, error.message)
            return False
        item.status, item.written = status, now
        return True

    def _drift_interval(self) -> Nanoseconds:
        return max(_DRIFT, len(self._inventory.items) * SECOND // _WRITES_PER_SECOND)


def is_worth_writing(before: Status, after: Status) -> bool:
    """Whether something changed that a person acts on, or that a restart must find."""
    return _substance(before) != _substance(after)


def has_drifted(before: Status, after: Status) -> bool:
    """Whether anything is different but what time alone moves on: where nothing changes, nothing is written."""
    return before != after and {**before, "memory": _lasting(before)} != {**after, "memory": _lasting(after)}


def _lasting(status: Status) -> dict[str, Any]:
    """The memory, its newest recommendation without a time: a restart takes it to have held until then anyway."""
    memory = dict(status.get("memory", {}))
    recommendations = memory.get("recommendations", [])
    memory["recommendations"] = [*recommendations[:-1], *(item["replicas"] for item in recommendations[-1:])]
    return memory


def _substance(status: Status) -> dict[str, Any]:
    out = {key: value for key, value in status.items() if key not in _DRIFTING}
    out["conditions"] = [(item["type"], item["status"], item["reason"]) for item in status.get("conditions", [])]
    decision = status.get("decision", {})
    out["decision"] = {
        "decidedBy": decision.get("decidedBy"),
        "steps": [step["rule"] for step in decision.get("steps", [])],
    }
    memory = _lasting(status)
    for key in ("startUpSeconds", "requestPerPod", "version"):
        memory.pop(key, None)
    out["memory"] = memory
    return out
