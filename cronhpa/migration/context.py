"""The input of a conversion besides its object."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds, to_datetime
from cronhpa.migration.document import FieldReader


class ConversionContext(Struct, frozen=True):
    """
    now: dates before it are past. zone: of the source's controller, None if it was not given.
    hpas: the HorizontalPodAutoscalers in the input, by (namespace, name).
    """

    now: Nanoseconds
    zone: str | None
    hpas: Mapping[tuple[str, str], FieldReader]

    def wall(self, zone: str) -> datetime:
        return to_datetime(self.now).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
