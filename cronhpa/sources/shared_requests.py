"""Requests to one server that objects share: counts them, and logs each new problem once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from cronhpa.core.instant import SECOND
from cronhpa.sources.connection import SourceConnection
from cronhpa.sources.definition import PrometheusSource, UrlSource
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.shared import SharedAnswers

LOG = logging.getLogger(__name__)

T = TypeVar("T")

# Connections to the server of one source.
REQUESTS_AT_ONCE = 32


class SharedRequests(Generic[T]):
    """host: names the server in the log where an error has no text. sent: the number of requests."""

    def __init__(self, source: str, host: str) -> None:
        self.sent = 0
        self._source, self._host = source, host
        self._answers: SharedAnswers[T | NoAnswerError] = SharedAnswers(lambda: asyncio.get_running_loop().time())
        # The message of the last error, so that each problem is logged once.
        self._trouble = ""

    async def ask(
        self, question: Hashable, measured: MeasuredObject, send: Callable[[], Awaitable[T]]
    ) -> T | NoAnswerError:
        """The answer to a question, shared or from `send`; a NoAnswerError is returned."""
        asker = (measured.namespace, measured.name)
        return await self._answers.ask(question, asker, measured.period / SECOND, lambda: self._logged(send))

    async def _logged(self, send: Callable[[], Awaitable[T]]) -> T | NoAnswerError:
        self.sent += 1
        try:
            answer = await send()
        except NoAnswerError as error:
            if self._trouble != error.message:
                LOG.warning("source %s: %s (%s)", self._source, error.message, error.cause or self._host)
            self._trouble = error.message
            return error
        if self._trouble:
            LOG.info("source %s answers again", self._source)
        self._trouble = ""
        return answer


class ServerSource(Generic[T]):
    """A source that asks one server, with requests that objects share. host: names the server in the log."""

    def __init__(self, name: str, definition: PrometheusSource | UrlSource, host: str) -> None:
        self._connection = SourceConnection(definition, connections_max=REQUESTS_AT_ONCE)
        self._requests: SharedRequests[T] = SharedRequests(name, host)

    @property
    def requests(self) -> int:
        """How many were sent."""
        return self._requests.sent

    async def close(self) -> None:
        await self._connection.close()
