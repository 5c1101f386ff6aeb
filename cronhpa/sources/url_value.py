"""An object's number from an HTTP endpoint. Only checked names of the object go into the path and the query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from yarl import URL

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.history.promql import Names, QueryError
from cronhpa.sources.definition import UrlSource
from cronhpa.sources.exposition import ACCEPT
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.no_answer import NoAnswerError, refuse_status
from cronhpa.sources.number import BYTES_MAX, read_number
from cronhpa.sources.shared_requests import ServerSource
from cronhpa.sources.url_template import UrlTemplate

# Longer answers are parsed in a thread, as they would hold up the event loop: YAML is parsed in Python.
_AT_ONCE_BYTES = {"json": 2**17, "yaml": 2**10, "text": 2**17, "prometheus": 2**13}
_ACCEPTS = {
    "json": "application/json,*/*;q=0.1",
    "yaml": "application/yaml,*/*;q=0.1",
    "text": "text/plain,*/*;q=0.1",
    "prometheus": ACCEPT,
}


class UrlValues(ServerSource[int]):
    """One source of a URL."""

    def __init__(self, name: str, definition: UrlSource, clock: Callable[[], Nanoseconds]) -> None:
        self._name = name
        self._definition = definition
        self._clock = clock
        self._template = UrlTemplate(definition.url)
        super().__init__(name, definition, URL(self._template.origin).host or "", self._template.names)

    async def value(self, measured: MeasuredObject) -> int | Absent:
        """The number of an object in milli-units, or why there is none."""
        try:
            url = self._template.filled(Names.of(**measured.texts, metric=self._name))
        except QueryError as problem:
            return Absent("BadName", str(problem))
        answer = await self.ask(str(url), measured, lambda: self._number(url))
        return Absent(answer.reason, answer.message) if isinstance(answer, NoAnswerError) else answer

    async def _number(self, url: URL) -> int:
        kind = self._definition.format
        response, body = await self._connection.read(
            "GET", url, bytes_max=BYTES_MAX[kind], headers={"Accept": _ACCEPTS[kind]}
        )
        refuse_status(response.status)
        stated = (body, response.headers.get("Content-Type", ""), self._definition, self._clock() / SECOND)
        if len(body) > _AT_ONCE_BYTES[kind]:
            return await asyncio.to_thread(read_number, *stated)
        return read_number(*stated)
