"""
Every object as a row of the table: built once for each version, and sent again only if it changed.

A row is an array, encoded when it is built: an answer about 10,000 objects joins bytes.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from cronhpa.api.explained.explanation import current_explanation, next_change
from cronhpa.api.explained.object_rows import row_of
from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.printable import shortened
from cronhpa.page.loop_time import in_slices
from cronhpa.page.objects import LiveObject, Objects
from cronhpa.page.rights import Scope

LOG = logging.getLogger(__name__)

Key = tuple[str, str]

# The order of a row's fields; the page's script reads the names from the answer.
COLUMNS = (
    "namespace", "name", "status", "urgency", "needsPerson", "scales", "current", "desired", "min", "max", "decidedBy",
    "nextAt", "nextWhat", "forecast", "forecastActs", "used", "budget", "target", "targets", "notes", "worth", "mode",
)  # fmt: skip

_TEXT_MAX = 400
_NOTES_MAX = 6
_ENCODER = msgspec.json.Encoder()
# How many deleted objects are remembered, for callers that ask for changes.
_GONE_MAX = 10_000


class _Row(Struct, frozen=True, gc=False):
    """An encoded row."""

    version: tuple[int, int, str]
    """Status version, generation and uid of the object."""
    sequence: int
    """Sequence number of the last change of the row."""
    until: Nanoseconds | None
    """When the object will need a person if nothing changes: the row differs from then on."""
    encoded: bytes


class FleetRows:
    """The rows of all objects. instance: identifies this process, as each process counts sequences from the start."""

    def __init__(self, objects: Objects, now: Callable[[], Nanoseconds]) -> None:
        self.instance = secrets.token_hex(4)
        self._objects, self._now = objects, now
        self._rows: dict[Key, _Row] = {}
        self._gone: dict[Key, int] = {}
        self._sequence = 0

    async def refresh(self) -> None:
        """Builds the rows of the objects that changed. It runs once at a time."""
        now, sequence = self._now(), self._sequence + 1
        keys: set[Key] = set()
        is_changed = False
        async for mark in in_slices(self._objects.marks()):
            keys.add(mark.key)
            row = self._rows.get(mark.key)
            version = (mark.version, mark.generation, mark.uid)
            if row is not None and row.version == version and (row.until is None or now < row.until):
                continue
            live = self._objects.get(*mark.key)
            if live is None:  # deleted meanwhile: the next refresh misses it
                continue
            version = (live.version, live.generation, live.uid)
            self._rows[mark.key] = _Row(version, sequence, *encoded_row(live, now))
            self._gone.pop(mark.key, None)
            is_changed = True
        for key in [key for key in self._rows if key not in keys]:
            del self._rows[key]
            self._gone[key] = sequence
            is_changed = True
        while len(self._gone) > _GONE_MAX:
            del self._gone[next(iter(self._gone))]
        if is_changed:
            self._sequence = sequence

    def answer(self, scope: Scope, since: int | None) -> bytes:
        """
        The rows of a scope, as JSON. since: the sequence of an earlier answer; only later changes are sent.
        """
        leader = self._objects.leader()
        after = since if since is not None and 0 <= since <= self._sequence else None
        rows = [
            row.encoded
            for (namespace, _), row in self._rows.items()
            if (after is None or row.sequence > after) and namespace in scope
        ]
        gone = [] if after is None else list(self._gone_since(after, scope))
        head = {
            "instance": self.instance,
            "sequence": self._sequence,
            "scope": scope.digest,
            "whole": after is None,
            "pending": scope.pending,
            "now": self._now() / SECOND,
            "leads": leader.leads,
            "leader": leader.holder,
            "part": leader.part,
            "columns": COLUMNS,
            "gone": gone,
        }
        return b"%s,%s%s]}" % (_ENCODER.encode(head)[:-1], b'"rows":[', b",".join(rows))

    def is_known(self, since: int, scope: Scope, instance: str, scope_digest: str) -> bool:
        """Whether a caller that has this sequence may get the changes since then alone."""
        oldest_gone = next(iter(self._gone.values()), 0) if len(self._gone) >= _GONE_MAX else 0
        return instance == self.instance and scope_digest == scope.digest and since >= oldest_gone

    def _gone_since(self, since: int, scope: Scope) -> Iterator[Key]:
        return (key for key, sequence in self._gone.items() if sequence > since and key[0] in scope)


def encoded_row(live: LiveObject, now: Nanoseconds) -> tuple[Nanoseconds | None, bytes]:
    """
    When the row differs although the object does not change, and the row.

    For an unreadable status the row says so, and the other rows are not affected.
    """
    try:
        until, fields = _fields(live, now)
        return until, _ENCODER.encode(fields)
    except Exception:
        LOG.exception("the page cannot show %s/%s", live.namespace, live.name)
        note = "its status cannot be read: the operator's log says why"
        unknown: list[Any] = [None] * len(COLUMNS)
        unknown[:6] = [live.namespace, live.name, "Undecided", 0, True, False]
        unknown[COLUMNS.index("notes")] = [note]
        return None, _ENCODER.encode(unknown)


def _fields(live: LiveObject, now: Nanoseconds) -> tuple[Nanoseconds | None, list[Any]]:
    body = live.body()
    it = current_explanation(body)
    row = row_of(body, it, now, None)
    edge, forecast = next_change(body), it.forecast
    return row.needs_person_from, [
        row.namespace,
        row.name,
        row.word,
        row.urgency,
        row.needs_person,
        row.scales,
        row.current,
        row.desired,
        row.minimum,
        row.maximum,
        it.decided_by,
        None if edge is None else edge[0] / SECOND,
        "" if edge is None else edge[1],
        "" if forecast is None else forecast.reason,
        forecast is not None and forecast.acts,
        None if forecast is None else forecast.used,
        None if forecast is None else forecast.budget,
        it.target,
        shortened(row.targets, _TEXT_MAX),
        [shortened(note, _TEXT_MAX) for note in row.notes[:_NOTES_MAX]],
        "" if forecast is None else shortened(forecast.message, _TEXT_MAX),
        "Preview" if it.preview else "Active",
    ]


def etag_of(body: bytes) -> str:
    return f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
