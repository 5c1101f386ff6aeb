"""What a conversion takes from outside the object that it converts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds, to_datetime
from cronhpa.migration.document import FieldReader


class ConversionContext(Struct, frozen=True):
    """
    now: an instant; past dates are behind it. zone: the zone of the source's controller, None where nobody said.
    hpas: the HorizontalPodAutoscalers beside it in the input, by (namespace, name).
    """

    now: Nanoseconds
    zone: str | None
    hpas: Mapping[tuple[str, str], FieldReader]

    def wall(self, zone: str) -> datetime:
        return to_datetime(self.now).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
