"""The difference of two versions of an object: the fields that differ, and the bounds that differ over a span."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct
from pydantic.alias_generators import to_camel

from cronhpa.cli.tables.bounds_table import (
    BoundsRow,
    BoundsSubject,
    StyledLine,
    conflict_texts,
    rows_as_lines,
    span,
    table,
    told_conflicts,
    who,
    wrapped,
)
from cronhpa.cli.tables.time_format import local
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.spec import Spec
from cronhpa.core.schedules.timeline import BoundsInterval


class Change(StrEnum):
    """How an object differs between two versions."""

    SAME = "Same"
    CHANGED = "Changed"
    ADDED = "Added"
    REMOVED = "Removed"


class BoundsChange(Struct, frozen=True):
    """An interval in which the bounds differ, with the bounds of both versions."""

    start: Nanoseconds
    end: Nanoseconds
    old: BoundsInterval
    new: BoundsInterval


class ObjectDifference(Struct, frozen=True):
    """
    One object in two versions; None if a version does not have it.

    Both timelines have the same span and zone. fields: the fields of the spec that differ.
    """

    old: BoundsSubject | None
    new: BoundsSubject | None

    @property
    def label(self) -> str:
        return self.subject.label

    @property
    def subject(self) -> BoundsSubject:
        """The version that is shown: the new one, if there is one."""
        subject = self.new or self.old
        assert subject is not None, "an object is in one version at least"
        return subject

    @property
    def change(self) -> Change:
        if self.old is None or self.new is None:
            return Change.ADDED if self.old is None else Change.REMOVED
        return Change.CHANGED if self.fields else Change.SAME

    @property
    def fields(self) -> list[str]:
        """The fields of the spec that differ, by their names in the manifest."""
        if self.old is None or self.new is None:
            return []
        old, new = self.old.spec, self.new.spec
        return [_name_of(field) for field in Spec.__struct_fields__ if getattr(old, field) != getattr(new, field)]

    def bounds(self) -> list[BoundsChange]:
        """The intervals in which the bounds or the headroom differ, up to the end of the shorter timeline."""
        if self.old is None or self.new is None:
            return []
        return list(_bounds(self.old.timeline.segments, self.new.timeline.segments))


_NAMES = {"target": "scaleTargetRef", "options": "syncPeriodSeconds and the like", "namespace": "metadata.namespace"}


def _name_of(field: str) -> str:
    return _NAMES.get(field) or to_camel(field)


def _bounds(old: Sequence[BoundsInterval], new: Sequence[BoundsInterval]) -> Iterator[BoundsChange]:
    """Walks both timelines from edge to edge and joins consecutive intervals with the same change."""
    one = other = 0
    last: BoundsChange | None = None
    while one < len(old) and other < len(new):
        before, after = old[one], new[other]
        start, end = max(before.start, after.start), min(before.end, after.end)
        if _numbers(before) != _numbers(after):
            if last is not None and last.end == start and (last.old, last.new) == (before, after):
                last = msgspec.structs.replace(last, end=end)
            else:
                if last is not None:
                    yield last
                last = BoundsChange(start, end, before, after)
        one, other = one + (before.end == end), other + (after.end == end)
    if last is not None:
        yield last


def _numbers(interval: BoundsInterval) -> tuple[int, int, int]:
    return interval.minimum, interval.maximum, interval.headroom_percent


# --- text and JSON -----------------------------------------------------------------------------------------------


def as_lines(difference: ObjectDifference, *, every: bool, width: int) -> Iterator[StyledLine]:
    """The changes of an object, for people; no line if there are none."""
    spec = difference.subject.spec
    head = f"{difference.label}: {spec.target.kind}/{spec.target.name}"
    match difference.change:
        case Change.SAME:
            return
        case Change.REMOVED:
            yield from wrapped(
                f"{head}: removed: its replicas stay as they are, and nothing scales it", width, style="bold"
            )
        case Change.ADDED:
            yield from wrapped(f"{head}: added", width, style="bold")
            yield from table(difference.subject, every=every, width=width)
        case Change.CHANGED:
            yield from wrapped(f"{head}: changed: {', '.join(difference.fields)}", width, style="bold")
            yield from _changed(difference, every=every, width=width)


def _changed(difference: ObjectDifference, *, every: bool, width: int) -> Iterator[StyledLine]:
    assert difference.old is not None
    assert difference.new is not None
    yield from span(difference.new, width)
    rows = [_row(change, difference.old, difference.new) for change in difference.bounds()]
    if rows:
        yield from rows_as_lines(rows, difference.new, every=every, width=width)
    else:
        yield StyledLine("the bounds stay as they are")
    old_conflicts = conflict_texts(difference.old.timeline)
    new = [text for text in conflict_texts(difference.new.timeline) if text not in old_conflicts]
    yield from told_conflicts(difference.new, new, width)


def _row(change: BoundsChange, old: BoundsSubject, new: BoundsSubject) -> BoundsRow:
    was, becomes = who(change.old, old.spec), who(change.new, new.spec)
    headroom = change.old.headroom_percent, change.new.headroom_percent
    notes = [f"headroom {_arrow(*headroom)} %"] if headroom[0] != headroom[1] else []
    if was and was != becomes:
        notes.append(f"was {was}")
    numbers = (change.old.minimum, change.new.minimum, change.old.maximum, change.new.maximum)
    return BoundsRow(
        start=change.start,
        end=change.end,
        minimum=_arrow(*numbers[:2]),
        maximum=_arrow(*numbers[2:]),
        by=becomes,
        notes=tuple(notes),
        pattern=(local(change.start, new.zone).time(), change.end - change.start, numbers, headroom, was, becomes),
    )


def _arrow(old: int, new: int) -> str:
    return str(new) if old == new else f"{old} -> {new}"


def as_json(difference: Iterable[ObjectDifference]) -> str:
    """A list with an object for each object; times are RFC 3339 with the offset of the zone shown."""
    return msgspec.json.format(
        msgspec.json.encode([_object(object_difference) for object_difference in difference]), indent=2
    ).decode()


def _object(difference: ObjectDifference) -> dict[str, object]:
    zone = difference.subject.zone

    def told(bounds: BoundsInterval) -> dict[str, object]:
        return {
            "minReplicas": bounds.minimum,
            "minReplicasBy": str(bounds.minimum_by),
            "maxReplicas": bounds.maximum,
            "maxReplicasBy": str(bounds.maximum_by),
            "headroomPercent": bounds.headroom_percent,
        }

    return {
        "name": difference.label,
        "change": difference.change.value,
        "fields": difference.fields,
        "timeZone": zone,
        "bounds": [
            {
                "from": local(change.start, zone).isoformat(timespec="seconds"),
                "to": local(change.end, zone).isoformat(timespec="seconds"),
                "old": told(change.old),
                "new": told(change.new),
            }
            for change in difference.bounds()
        ],
    }
