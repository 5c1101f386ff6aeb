"""An object's number from a Prometheus, by an instant query. Of an object checked names alone come into it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from yarl import URL

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.history.promql import Names, QueryError, QueryTemplate
from cronhpa.sources.connection import NoAnswerError, SourceConnection, refuse_status
from cronhpa.sources.definition import PrometheusSource
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.shared import SharedAnswers
from cronhpa.sources.vector import Vector, read_vector

LOG = logging.getLogger(__name__)

# 20,000 objects of one query, and more labels than they need.
_ANSWER_BYTES = 2**23
_AT_ONCE_BYTES = 2**17
_REQUESTS_AT_ONCE = 32


class PrometheusValues:
    """One Prometheus source. requests: how many were sent."""

    def __init__(self, name: str, definition: PrometheusSource, clock: Callable[[], Nanoseconds]) -> None:
        self.requests = 0
        self._name = name
        self._definition = definition
        self._clock = clock
        self._template = QueryTemplate(definition.query)
        self._labels = tuple(definition.join.values())
        self._url = URL(f"{definition.url}/api/v1/query")
        self._connection = SourceConnection(definition, connections_max=_REQUESTS_AT_ONCE)
        self._answers: SharedAnswers[Vector | NoAnswerError] = SharedAnswers(lambda: asyncio.get_running_loop().time())
        # What it said last when there was no answer, so that each trouble is logged once.
        self._trouble = ""

    async def close(self) -> None:
        await self._connection.close()

    async def value(self, measured: MeasuredObject) -> int | Absent:
        """The number of an object in milli-units, or why there is none."""
        stated = {
            "namespace": measured.namespace,
            "name": measured.name,
            "kind": measured.target.kind,
            "target": measured.target.name,
        }
        try:
            query = self._template.filled(Names.of(**stated, metric=self._name))
        except QueryError as problem:
            return Absent("BadName", str(problem))
        answer = await self._answers.ask(
            query, (measured.namespace, measured.name), measured.period / SECOND, lambda: self._ask(query)
        )
        if isinstance(answer, NoAnswerError):
            return Absent(answer.reason, answer.message)
        of = tuple(stated[name] for name in self._definition.join)
        return answer.value(of, self._clock(), self._definition.max_age_seconds)

    async def _ask(self, query: str) -> Vector | NoAnswerError:
        self.requests += 1
        try:
            vector = await self._query(query)
        except NoAnswerError as error:
            if self._trouble != error.message:
                LOG.warning("source %s: %s (%s)", self._name, error.message, error.cause or self._url.host)
            self._trouble = error.message
            return error
        if self._trouble:
            LOG.info("source %s answers again", self._name)
        self._trouble = ""
        return vector

    async def _query(self, query: str) -> Vector:
        body = bytearray()

        def take(part: bytes) -> None:
            body.extend(part)
            if len(body) > _ANSWER_BYTES:
                raise NoAnswerError("TooLarge", f"its answer is longer than {_ANSWER_BYTES} bytes")

        # Without it a series that has ended would be told for five minutes more.
        form = {"query": query, "lookback_delta": f"{self._definition.max_age_seconds}s"}
        response = await self._connection.send(
            "POST", self._url, take, headers={"Accept": "application/json"}, form=form
        )
        # Prometheus tells in the body what is wrong with a query.
        if response.status not in {400, 422}:
            refuse_status(response)
        if len(body) > _AT_ONCE_BYTES:
            return await asyncio.to_thread(read_vector, bytes(body), self._labels)
        return read_vector(bytes(body), self._labels)
