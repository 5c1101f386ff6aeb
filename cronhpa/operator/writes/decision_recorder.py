"""
Decisions on their way to the store: every change, and a point of each object every five minutes.

`note` and `note_point` are called once in each reconciliation; they compare a tuple and a number. A change is encoded
at once, because it waits as text; packing and writing happen in batches in a thread of the side job. Nothing here
waits, and the queues are bounded: what is dropped is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from cronhpa.core.forecasts.floor import forecast_source, load_of
from cronhpa.core.metrics.pod_counts import counts_ready
from cronhpa.core.model.decision import Decision, Failed, Source
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.observation import Absent, Observation
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import Spec
from cronhpa.history.past.decisions import KeptDecision
from cronhpa.history.past.past_decision import PastDecision
from cronhpa.history.past.points import POINT_STEP, Point
from cronhpa.history.past.waiting import Waiting
from cronhpa.operator.objects.object_state import BURST, ObjectState, text_of

# Of JSON: room for an edge that 9,000 objects of 7 kB share. A change of a large object has 440 kB.
_WAITING_BYTES = 64 * 10**6
# Three rounds of 10,000 objects.
_POINTS_MAX = 30_000
# After its burst an object may record one change a minute.
_REFILL: Nanoseconds = MINUTE
_ENCODER = msgspec.json.Encoder()


def _release() -> str:
    try:
        return version("cronhpa")
    except PackageNotFoundError:
        return "unknown"


RELEASE = _release()


class DecisionRecorder:
    """
    dropped: changes and points that were not stored, by cause: `rate` for an object that changes too often, `queue`
    while the store cannot be written, `unwritable` for texts that JSON cannot represent. kept: changes that were
    written.
    """

    def __init__(self, bytes_max: int = _WAITING_BYTES, points_max: int = _POINTS_MAX) -> None:
        self.dropped = {"rate": 0, "queue": 0, "unwritable": 0}
        self.kept = 0
        self._changes = Waiting[KeptDecision](bytes_max, size=_size)
        self._points: deque[tuple[str, str, Point]] = deque()
        self._points_max = points_max

    def note(self, state: ObjectState, reconciliation: Reconciliation, status: dict[str, Any]) -> None:
        """Records a decision if it differs from the last one. status: rendered from the reconciliation."""
        decision, generation = reconciliation.decision, reconciliation.generation
        failure = decision.failure
        key = (
            generation,
            decision.kind,
            decision.desired,
            decision.decided_by,
            decision.minimum,
            decision.maximum,
            isinstance(reconciliation.outcome, Failed),
            reconciliation.owner_problem is None,
            None if failure is None else failure.reason,
        )
        self._note_change(state, generation, key, reconciliation.record.now, status, reconciliation.record)

    def note_point(self, state: ObjectState, record: Record, decision: Decision) -> None:
        """Records a point of a reconciliation, if the reconciliation is the first one of its five minutes."""
        step = record.now // POINT_STEP
        if step != state.writes.change.step:
            state.writes.change.step = step
            self._points.append((state.namespace, state.name, point_of(record, decision)))
            self._bound_points()

    def note_unreadable(self, state: ObjectState, status: dict[str, Any], now: Nanoseconds) -> None:
        """Records that nothing is decided, because the spec cannot be read."""
        key = (state.served.generation, *state.served.parsed.problems)
        self._note_change(state, state.served.generation, key, now, status, None)

    def take(self, at_most: int) -> list[KeptDecision]:
        """Removes and returns waiting changes, the oldest of each namespace first."""
        return self._changes.take(at_most)

    def put_back(self, changes: Sequence[KeptDecision]) -> None:
        """Puts changes that could not be written back into the queue."""
        self.dropped["queue"] += self._changes.put_back(changes)

    def take_points(self, at_most: int) -> list[tuple[str, str, Point]]:
        return [self._points.popleft() for _ in range(min(at_most, len(self._points)))]

    def put_back_points(self, points: Sequence[tuple[str, str, Point]]) -> None:
        """Puts points that could not be written back into the queue."""
        self._points.extendleft(reversed(points))
        self._bound_points()

    def _note_change(
        self,
        state: ObjectState,
        generation: int,
        key: tuple[object, ...],
        now: Nanoseconds,
        status: dict[str, Any],
        record: Record | None,
    ) -> None:
        """Records a decision if it differs from the last one, or as soon as there is room for it."""
        noted = state.writes.change
        # After the clock was set back the decision is in force from now on as well.
        if key != noted.key or now < noted.counted_at:
            if noted.waits:
                noted.left_out += 1
                self.dropped["rate"] += 1
        elif not noted.waits:
            return
        noted.key = key
        # Zero if the clock stepped back.
        passed = max(now - noted.counted_at, 0) / _REFILL
        noted.allowed, noted.counted_at = min(noted.allowed + passed, BURST), now
        noted.waits = noted.allowed < 1
        if noted.waits:
            return
        noted.allowed -= 1
        try:
            decision = PastDecision(
                at=now,
                body=_body(state, generation, status),
                inputs=Raw(_ENCODER.encode(None if record is None else _decided_from(record))),
                release=RELEASE,
                left_out=noted.left_out,
            )
        except (TypeError, ValueError, RecursionError):  # a tenant's text may contain half a surrogate pair
            self.dropped["unwritable"] += 1
            return
        # With the uid: the first decision of an object that was deleted and created again is a new one, even if equal.
        digest = blake2b(repr((state.uid, *key)).encode(), digest_size=8).hexdigest()
        self.dropped["queue"] += self._changes.add(KeptDecision(state.namespace, state.name, digest, decision))
        noted.left_out = 0

    def _bound_points(self) -> None:
        while len(self._points) > self._points_max:
            self._points.popleft()
            self.dropped["queue"] += 1


def _size(kept: KeptDecision) -> int:
    return len(kept.decision.body) + len(kept.decision.inputs)


def _body(state: ObjectState, generation: int, status: dict[str, Any]) -> Raw:
    """The object as it was. Raises TypeError, ValueError or RecursionError if JSON cannot represent it."""
    meta = {"namespace": state.namespace, "name": state.name, "uid": state.uid, "generation": generation}
    spec = Raw(text_of(state.served.parsed.text) if state.served.parsed.text else b"{}")
    return Raw(_ENCODER.encode({"metadata": meta, "spec": spec, "status": status}))


def _decided_from(record: Record) -> Record:
    """
    The reconciliation without the forecast's loads at other costs: the budget selected one of them before the decision.
    """
    if not isinstance(record.forecast, Forecast) or not record.forecast.loads_by_budget_level:
        return record
    return replace(record, forecast=replace(record.forecast, loads_by_budget_level=()))


def point_of(record: Record, decision: Decision) -> Point:
    """The point of a reconciliation, for the timeline."""
    ready = next(
        (
            reading.ready
            for metric, reading in zip(record.spec.metrics, record.observation.readings, strict=False)
            if not isinstance(reading, Absent) and counts_ready(metric)
        ),
        None,
    )
    forecast = next((proposal.replicas for proposal in decision.proposals if proposal.source is Source.FORECAST), None)
    return Point(
        record.now,
        decision.current,
        None if isinstance(ready, Absent) else ready,
        _load(record.spec, record.observation),
        decision.minimum,
        decision.maximum,
        forecast,
    )


def _load(spec: Spec, observation: Observation) -> float | None:
    source = forecast_source(spec)
    by_metric = list(zip(spec.metrics, observation.readings, strict=False))
    chosen = [reading for metric, reading in by_metric if metric is source]
    loads = (load_of(reading) for reading in (*chosen, *(reading for _, reading in by_metric)))
    return next((load for load in loads if load is not None), None)
