"""The types of single fields that several models share: quantities, instants, local times, time zones, cron texts."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from cronhpa.api.resource.cel import QUANTITY, quoted, rule, rules
from cronhpa.core.model.instant import parse_instant
from cronhpa.core.schedules import cron

INT32_MAX = 2**31 - 1


class Model(BaseModel):
    """The base of all models: camelCase in the resource, snake_case in Python."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, frozen=True)


Replicas = Annotated[int, Field(ge=0, le=INT32_MAX)]
Name = Annotated[str, Field(min_length=1, max_length=63)]


def _as_quantity(value: int | str) -> int | str:
    if isinstance(value, str) and (not re.search(QUANTITY, value) or not value.strip()):
        raise ValueError(f"{value!r} is no quantity: write for example 250m, 1.5, 2k or 512Mi")
    return value


# Strict: otherwise a text that is too long for one branch would be read as a number by the other.
Quantity = Annotated[
    Annotated[int, Field(strict=True)] | Annotated[str, StringConstraints(max_length=40)], AfterValidator(_as_quantity)
]


def _as_instant(value: str) -> str:
    parse_instant(value)
    return value


RFC3339 = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
_INSTANT = 'write a date and time that exist, with the offset, such as "2026-11-23T18:00:00Z"'
# Not `format: date-time`: its error does not say what to write.
Instant = Annotated[
    str,
    AfterValidator(_as_instant),
    Field(
        max_length=64,
        json_schema_extra=rules(
            rule(f"self.matches({quoted(RFC3339)})", _INSTANT, finding=('found "%s"', "self")),
            rule(f"!self.matches({quoted(RFC3339)}) || timestamp(self).getFullYear() > 0", _INSTANT),
        ),
    ),
]
Timestamp = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]

LOCAL_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$"
LocalTime = Annotated[
    str,
    Field(
        max_length=64,
        json_schema_extra=rules(
            rule(
                f"self.matches({quoted(LOCAL_TIME)})",
                'write a local date and time to the minute, such as "2026-11-27T00:00", without an offset: '
                "the offset follows from timeZone",
                finding=('found "%s"', "self"),
            ),
            rule(
                # A date that does not exist makes the rule fail with an error; the API server then reports this
                # message.
                f"!self.matches({quoted(LOCAL_TIME)}) || timestamp(self + ':00Z').getFullYear() > 0",
                'write a date and time that exist, such as "2026-11-27T00:00"',
            ),
        ),
    ),
]

DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DATE = 'write a date that exists, such as "2026-12-27"'
Date = Annotated[
    str,
    Field(
        max_length=64,
        json_schema_extra=rules(
            rule(f"self.matches({quoted(DATE)})", _DATE, finding=('found "%s"', "self")),
            rule(f"!self.matches({quoted(DATE)}) || timestamp(self + 'T00:00:00Z').getFullYear() > 0", _DATE),
        ),
    ),
]

ZONE = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$"
TimeZone = Annotated[
    str,
    Field(
        max_length=64,
        json_schema_extra=rules(
            rule(
                f"self.matches({quoted(ZONE)}) && self != 'Local'",
                'a time zone is an IANA name such as "Europe/Berlin" or "UTC"',
                finding=('found "%s"', "self"),
            ),
            rule(
                # An unknown zone makes the rule fail with an error; the API server then reports this message.
                f"!self.matches({quoted(ZONE)}) || timestamp('2000-01-01T00:00:00Z').getFullYear(self) > 0",
                'a time zone is an IANA name such as "Europe/Berlin" or "UTC"',
            ),
        ),
    ),
]

# --- cron texts --------------------------------------------------------------------------------------------------

_FIELDS = r"self.lowerAscii().findAll('[^ \t]+')".replace("\t", "\\t")
_MACROS = f"{', '.join(list(cron.SHORTHANDS)[:-1])} and {list(cron.SHORTHANDS)[-1]}"

Cron = Annotated[
    str,
    Field(
        max_length=cron.LENGTH_MAX,
        json_schema_extra=rules(
            rule("!self.contains('TZ=')", "name the zone in timeZone, not in the cron text", finding=("found TZ=",)),
            rule(
                f"!self.startsWith('@') || self in {list(cron.SHORTHANDS)}",
                f"the names accepted are {_MACROS}; @every and @reboot have no place in a calendar",
                finding=('found "%s"', "self"),
            ),
            rule(
                f"self.startsWith('@') || self.contains('TZ=') || size({_FIELDS}) == 5",
                "five fields are accepted: minute, hour, day of the month, month, day of the week; no seconds, no year",
                finding=('found "%s"', "self"),
            ),
            *(
                rule(
                    f"self.startsWith('@') || size({_FIELDS}) != 5 || {_FIELDS}[{index}].matches("
                    f"{quoted(field.pattern)})",
                    f"{field.meaning}; {cron.ACCEPTED}",
                    finding=('found "%s"', f"{_FIELDS}[{index}]"),
                )
                for index, field in enumerate(cron.FIELDS)
            ),
        ),
    ),
]
