"""The file of calendars, checked as a whole. The operator's administrator writes it; no tenant's text stands in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from yarl import URL

from cronhpa.core.model.nearest import nearest
from cronhpa.history.imports.promql import QueryError
from cronhpa.sources.parse import SourcesError, line_at, loaded_yaml, refusal
from cronhpa.sources.server import ServerFields
from cronhpa.sources.source import StrictModel, text_of
from cronhpa.sources.url_template import UrlTemplate

CALENDARS_MAX = 100
"""The most calendars: each is read by itself."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_PLACES = ("file", "url", "urlFile")


def checked_url(text: str) -> URL:
    """The address of a feed. Raises ValueError for a text that is none."""
    if text.startswith("webcal://"):
        raise ValueError("write https:// in place of webcal://")
    try:
        has_placeholders = bool(UrlTemplate(text).names)
    except QueryError:
        has_placeholders = True
    if has_placeholders:
        raise ValueError("it holds a $: a calendar's address has no placeholders, write %24")
    return URL(text, encoded=True)


def _checked_name(text: str) -> None:
    if not _NAME.fullmatch(text):
        raise ValueError("a name has small letters, digits and hyphens, at most 63")


class CalendarDefinition(ServerFields):
    """Where a calendar is read."""

    file: Path | None = Field(None, description="a file of iCalendar text, such as a mounted key of a ConfigMap")
    url: Annotated[str, text_of(checked_url)] | None = Field(
        None, max_length=4096, description="http(s)://HOST:PORT/PATH?QUERY of a feed"
    )
    url_file: Path | None = Field(None, description="a file with the address of a feed, where the address is a secret")
    refresh_seconds: int = Field(
        900, ge=60, le=86_400, description="a whole number of seconds from 60 to 86400: how often a feed is read"
    )

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        places = [place for place in (self.file, self.url, self.url_file) if place is not None]
        if len(places) != 1:
            raise ValueError(f"exactly one of {', '.join(_PLACES[:-1])} and {_PLACES[-1]} is accepted")
        if self.file is not None and self.model_fields_set != {"file"}:
            other = to_camel(min(self.model_fields_set - {"file"}))
            raise ValueError(f"{other} means nothing beside file: leave it out")
        return self


class _File(StrictModel):
    calendars: dict[Annotated[str, text_of(_checked_name)], CalendarDefinition] = Field(
        max_length=CALENDARS_MAX, description="calendars by name, such as company: {file: /FILE}"
    )


def parse_calendars(text: str, where: str) -> dict[str, CalendarDefinition]:
    """
    The calendars of a settings file by name.

    where: the file's name in errors. Raises SourcesError with every problem, each with its line.
    """
    body, node, repeated = loaded_yaml(text, where)
    problems = [f"{where}:{key.line}: {key.key} stands here twice: each name once is accepted" for key in repeated]
    accepted = {one.alias or name: one.description for name, one in CalendarDefinition.model_fields.items()}
    try:
        file = _File.model_validate(body)
    except ValidationError as error:
        for found in error.errors():
            path = tuple(part for part in found["loc"] if part != "[key]")
            field = ".".join(map(str, path)) or "the file"
            problem = refusal(found, path)
            if found["type"] == "extra_forbidden":
                meant = nearest(str(path[-1]), accepted)
                problem = f"there is no such field: {f'did you mean {meant}?' if meant else ', '.join(accepted)}"
            elif path[2:] and (description := accepted.get(str(path[2]))):
                problem = f"{problem}: accepted is {description}"
            problems.append(f"{where}:{line_at(node, path)}: {field}: {problem}")
    if problems:
        raise SourcesError(tuple(problems))
    return file.calendars
