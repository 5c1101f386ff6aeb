"""
What was decided, on its way to the store: every change, and a point of each object every five minutes.

`note` and `note_point` are called once a turn and compare a tuple and a number; the status of a change is encoded at
once, since it waits as text. All else (encoding, packing, writing) happens in batches in a thread of the side job.
Nothing here waits and nothing grows: what does not fit is dropped, the oldest first, and counted.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from cronhpa.core.decision import Decision, Failed, Outcome, Source
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import MINUTE, Nanoseconds
from cronhpa.core.observation import Absent, Observation
from cronhpa.core.predictive.floor import forecast_source, load_of
from cronhpa.core.reactive.pod_counts import counts_ready
from cronhpa.core.record import Record
from cronhpa.core.spec import Spec
from cronhpa.history.decisions import KeptDecision
from cronhpa.history.past_decision import PastDecision
from cronhpa.history.points import POINT_STEP, Point
from cronhpa.operator.noted import BURST
from cronhpa.operator.object_state import ObjectState

# An edge that 10,000 objects share is one change of each; in memory a change is some 3 kB.
_DECISIONS_MAX = 10_000
# Three rounds of 10,000 objects.
_POINTS_MAX = 30_000
# Beyond its burst an object keeps one change a minute.
_REFILL: Nanoseconds = MINUTE
# Text that a person reads once is kept packed for as long as the object is not edited.
_LEVEL = 1
_ENCODER = msgspec.json.Encoder()


def _release() -> str:
    try:
        return version("cronhpa")
    except PackageNotFoundError:
        return "unknown"


RELEASE = _release()


class _Change(NamedTuple):
    """
    A change as it waits. The turn is encoded when it is written. status: as JSON, a third of what it takes as dicts;
    empty where no JSON can hold it.
    """

    state: ObjectState
    generation: int
    spec_text: bytes
    key: tuple[object, ...]
    at: Nanoseconds
    status: bytes
    turn: Record | None
    left_out: int


class DecisionRecorder:
    """
    dropped: changes and points that were not kept, by cause: `rate` of an object that changes too often, `queue` while
    the store takes nothing, `unwritable` for texts that no JSON can hold. kept: changes that were written.
    """

    def __init__(self, decisions_max: int = _DECISIONS_MAX, points_max: int = _POINTS_MAX) -> None:
        self.dropped = {"rate": 0, "queue": 0, "unwritable": 0}
        self.kept = 0
        self._changes: deque[_Change] = deque()
        self._points: deque[tuple[str, str, Point]] = deque()
        self._changes_max, self._points_max = decisions_max, points_max

    def note(
        self,
        state: ObjectState,
        generation: int,
        turn: Record,
        decision: Decision,
        outcome: Outcome,
        owner_problem: str | None,
        status: dict[str, Any],
    ) -> None:
        """Notes the decision of a turn where it is another one than before."""
        noted = state.noted
        failure = decision.failure
        key = (
            generation,
            decision.kind,
            decision.desired,
            decision.decided_by,
            decision.minimum,
            decision.maximum,
            isinstance(outcome, Failed),
            owner_problem is None,
            None if failure is None else failure.reason,
        )
        if key != noted.key:
            self._note_change(state, generation, key, turn.now, status, turn)

    def note_point(self, state: ObjectState, turn: Record, decision: Decision) -> None:
        """Notes what holds at a turn, if it is the first one of its five minutes."""
        step = turn.now // POINT_STEP
        if step != state.noted.step:
            state.noted.step = step
            self._points.append((state.namespace, state.name, point_of(turn, decision)))
            if len(self._points) > self._points_max:
                self._points.popleft()
                self.dropped["queue"] += 1

    def note_unreadable(self, state: ObjectState, status: dict[str, Any], now: Nanoseconds) -> None:
        """Notes that nothing is decided, because the spec cannot be read."""
        key = (state.generation, *state.problems)
        if key != state.noted.key:
            self._note_change(state, state.generation, key, now, status, None)

    def take(self, at_most: int) -> list[_Change]:
        """The oldest changes that wait, which do not wait any more."""
        return [self._changes.popleft() for _ in range(min(at_most, len(self._changes)))]

    def put_back(self, changes: Sequence[_Change]) -> None:
        """Changes that could not be written wait again."""
        self._changes.extendleft(reversed(changes))
        self._bound()

    def take_points(self, at_most: int) -> list[tuple[str, str, Point]]:
        return [self._points.popleft() for _ in range(min(at_most, len(self._points)))]

    def _note_change(
        self,
        state: ObjectState,
        generation: int,
        key: tuple[object, ...],
        now: Nanoseconds,
        status: dict[str, Any],
        turn: Record | None,
    ) -> None:
        noted = state.noted
        # After a clock stepped back no time has passed.
        passed = max(now - noted.counted_at, 0) / _REFILL
        noted.allowed, noted.counted_at = min(noted.allowed + passed, BURST), now
        if noted.allowed < 1:
            noted.left_out += 1
            self.dropped["rate"] += 1
            return
        noted.allowed -= 1
        noted.key = key
        try:
            text = _ENCODER.encode(status)
        except (TypeError, ValueError, RecursionError):  # a tenant's text may hold half a surrogate pair
            text = b""
        self._changes.append(_Change(state, generation, state.spec_text, key, now, text, turn, noted.left_out))
        noted.left_out = 0
        self._bound()

    def _bound(self) -> None:
        while len(self._changes) > self._changes_max:
            self._changes.popleft()
            self.dropped["queue"] += 1


def encoded(changes: Sequence[_Change]) -> list[KeptDecision]:
    """
    Changes as the store keeps them, without those that cannot be written.

    For a thread, as it takes a tenth of a millisecond each.
    """
    kept = []
    for each in changes:
        with suppress(TypeError, ValueError, RecursionError):
            if each.status:
                kept.append(_encoded(each))
    return kept


def _encoded(change: _Change) -> KeptDecision:
    decision = PastDecision(
        at=change.at,
        body=_body(change),
        turn=Raw(_ENCODER.encode(None if change.turn is None else _decided_from(change.turn))),
        release=RELEASE,
        left_out=change.left_out,
    )
    # With the uid: an object that was deleted and made anew decides anew, even if the same.
    digest = blake2b(repr((change.state.uid, *change.key)).encode(), digest_size=8).hexdigest()
    return KeptDecision(change.state.namespace, change.state.name, digest, decision)


def _decided_from(turn: Record) -> Record:
    """The turn without the forecast's loads at other prices: the budget has chosen among them before the decision."""
    if not isinstance(turn.forecast, Forecast) or not turn.forecast.thrifty:
        return turn
    return replace(turn, forecast=replace(turn.forecast, thrifty=()))


def spec_text(spec: Any) -> bytes:
    """A spec as a person wrote it, as packed JSON; nothing where that cannot be."""
    try:
        return zlib.compress(_ENCODER.encode(spec), _LEVEL)
    except (TypeError, ValueError, RecursionError):
        return b""


def point_of(turn: Record, decision: Decision) -> Point:
    """What holds at a turn, for the timeline."""
    ready = next(
        (
            reading.ready
            for metric, reading in zip(turn.spec.metrics, turn.observation.readings, strict=False)
            if not isinstance(reading, Absent) and counts_ready(metric)
        ),
        None,
    )
    forecast = next((each.replicas for each in decision.proposals if each.source is Source.FORECAST), None)
    return Point(
        turn.now,
        decision.current,
        None if isinstance(ready, Absent) else ready,
        _load(turn.spec, turn.observation),
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


def _body(change: _Change) -> Raw:
    state = change.state
    meta = {"namespace": state.namespace, "name": state.name, "uid": state.uid, "generation": change.generation}
    spec = Raw(zlib.decompress(change.spec_text) if change.spec_text else b"{}")
    return Raw(_ENCODER.encode({"metadata": meta, "spec": spec, "status": Raw(change.status)}))
