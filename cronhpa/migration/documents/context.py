"""The input of a conversion besides its object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct, field

from cronhpa.core.model.instant import Nanoseconds, to_datetime
from cronhpa.migration.documents.document import FieldReader
from cronhpa.migration.documents.sources import NamedSources

ObjectKey = tuple[str, str]
"""Namespace and name."""


class ConversionContext(Struct, frozen=True):
    now: Nanoseconds
    """Dates before it are past."""
    zone: str | None
    """The time zone of the source's controller, None if it was not given."""
    hpas: Mapping[ObjectKey, FieldReader] = {}
    """The HorizontalPodAutoscalers in the input."""
    objects: Mapping[tuple[str, str], Sequence[FieldReader]] = {}
    """All objects of the input, by group and kind."""
    prometheus: str | None = None
    """URL of the Prometheus that exporters are scraped into, None if it is not known."""
    sources: NamedSources = field(default_factory=NamedSources)
    """Takes the metric sources that a conversion needs."""

    def wall(self, zone: str) -> datetime:
        return to_datetime(self.now).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def key_of(document: FieldReader) -> ObjectKey:
    metadata = document.mapping("metadata")
    return metadata.text("namespace"), metadata.text("name")
