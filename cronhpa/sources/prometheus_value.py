"""An object's number from a Prometheus, by an instant query. Only checked names of the object go into the query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from yarl import URL

from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.history.promql import Names, QueryError, QueryTemplate
from cronhpa.sources.definition import PrometheusSource
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.no_answer import NoAnswerError, refuse_status
from cronhpa.sources.shared_requests import ServerSource
from cronhpa.sources.vector import Vector, read_vector

# 20,000 objects of one query, and more labels than they need.
_ANSWER_BYTES = 2**23
_AT_ONCE_BYTES = 2**17


class PrometheusValues(ServerSource[Vector]):
    """One Prometheus source."""

    def __init__(self, name: str, definition: PrometheusSource, clock: Callable[[], Nanoseconds]) -> None:
        self._name = name
        self._definition = definition
        self._clock = clock
        self._template = QueryTemplate(definition.query)
        self._labels = tuple(definition.join.values())
        self._url = URL(f"{definition.url}/api/v1/query")
        super().__init__(name, definition, self._url.host or "", self._template.names)

    async def value(self, measured: MeasuredObject) -> int | Absent:
        """The number of an object in milli-units, or why there is none."""
        stated = measured.texts
        try:
            query = self._template.filled(Names.of(**stated, metric=self._name))
        except QueryError as problem:
            return Absent("BadName", str(problem))
        answer = await self.ask(query, measured, lambda: self._query(query))
        if isinstance(answer, NoAnswerError):
            return Absent(answer.reason, answer.message)
        of = tuple(stated[name] for name in self._definition.join)
        return answer.value(of, self._clock(), self._definition.max_age_seconds)

    async def _query(self, query: str) -> Vector:
        # By default Prometheus would return a series for five minutes after its end.
        form = {"query": query, "lookback_delta": f"{self._definition.max_age_seconds}s"}
        response, answer = await self._connection.read(
            "POST", self._url, bytes_max=_ANSWER_BYTES, headers={"Accept": "application/json"}, form=form
        )
        # With these two, Prometheus states in the body what is wrong with the query.
        if response.status not in {400, 422}:
            refuse_status(response.status)
        if len(answer) > _AT_ONCE_BYTES:
            return await asyncio.to_thread(read_vector, answer, self._labels)
        return read_vector(answer, self._labels)
