"""
Requests to one server: objects share answers, and namespaces share connections.

The deadline of a request begins when it has a connection, so that requests whose answers hang take no time of others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Generic, TypeVar

from cronhpa.core.instant import SECOND
from cronhpa.ports.fair_places import FairPlaces
from cronhpa.sources.connection import SourceConnection
from cronhpa.sources.definition import PrometheusSource, UrlSource
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.shared import SharedAnswers

LOG = logging.getLogger(__name__)

T = TypeVar("T")

# Connections to the server of one source, and how many of them one namespace may have.
REQUESTS_AT_ONCE = 32
_OF_ONE_NAMESPACE = REQUESTS_AT_ONCE * 3 // 4
# The part of its deadline after which an answer is slow.
_SLOW_SHARE = 1 / 5


class SharedRequests(Generic[T]):
    """host: names the server in the log where an error has no text. sent: the number of requests."""

    def __init__(self, source: str, host: str, timeout_seconds: float) -> None:
        self.sent = 0
        self._source, self._host = source, host
        self._timeout_seconds = timeout_seconds
        self._answers: SharedAnswers[T | NoAnswerError] = SharedAnswers(lambda: asyncio.get_running_loop().time())
        self._places = FairPlaces(REQUESTS_AT_ONCE, _OF_ONE_NAMESPACE, timeout_seconds * _SLOW_SHARE)
        # The messages of the errors since the last answer, so that each problem is logged once.
        self._troubles: set[str] = set()

    async def ask(
        self, question: Hashable, measured: MeasuredObject, account: str, send: Callable[[], Awaitable[T]]
    ) -> T | NoAnswerError:
        """
        The answer to a question, shared or from `send`; a NoAnswerError is returned.

        account: among which the connections are shared out.
        """
        asker = (measured.namespace, measured.name)
        return await self._answers.ask(question, asker, measured.period / SECOND, lambda: self._logged(account, send))

    async def _logged(self, account: str, send: Callable[[], Awaitable[T]]) -> T | NoAnswerError:
        try:
            answer = await self._connected(account, send)
        except NoAnswerError as error:
            if error.message not in self._troubles:
                LOG.warning("source %s: %s (%s)", self._source, error.message, error.cause or self._host)
            self._troubles.add(error.message)
            return error
        if self._troubles:
            LOG.info("source %s answers again", self._source)
        self._troubles.clear()
        return answer

    async def _connected(self, account: str, send: Callable[[], Awaitable[T]]) -> T:
        """The answer, sent once there is a connection. Raises NoAnswerError, which `send` raises for its deadline."""
        try:
            async with self._places.place(account, self._timeout_seconds):
                self.sent += 1
                return await send()
        except TimeoutError:
            problem = f"none of its connections was free within {self._timeout_seconds:g} s"
            raise NoAnswerError("NoConnection", problem) from None


class ServerSource(Generic[T]):
    """A source that asks one server, with requests that objects share."""

    def __init__(
        self, name: str, definition: PrometheusSource | UrlSource, host: str, placeholders: Collection[str]
    ) -> None:
        """host: names the server in the log. placeholders: those of the query or the URL."""
        self._connection = SourceConnection(definition, connections_max=REQUESTS_AT_ONCE)
        self._requests: SharedRequests[T] = SharedRequests(name, host, definition.timeout_seconds)
        self._is_of_a_namespace = "namespace" in placeholders

    @property
    def requests(self) -> int:
        """How many were sent."""
        return self._requests.sent

    async def ask(self, question: str, measured: MeasuredObject, send: Callable[[], Awaitable[T]]) -> T | NoAnswerError:
        """The answer to a question, by one of the connections of the object's namespace."""
        # Several namespaces share a question that names none. As a request of the first one, it would wait behind the
        # others of that namespace.
        account = measured.namespace if self._is_of_a_namespace else question
        return await self._requests.ask(question, measured, account, send)

    async def close(self) -> None:
        await self._connection.close()
