"""Starts the process that reads pods' pages, and exchanges requests and answers with it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import msgspec
from msgspec.structs import replace

from cronhpa.sources.no_answer import no_answer_within
from cronhpa.sources.page_worker import PodNumber, ScrapeAnswer, ScrapeRequest, framed

# The process answers at a request's deadline. One that does not in so much more is stuck, and is replaced.
_GRACE_SECONDS = 10.0
_START_SECONDS = 30.0
_ENDED = "the operator's process that reads pods' pages ended, and is started again"
_NOT_STARTED = "the operator's process that reads pods' pages cannot be started"


class PageProcess:
    """One process, started by the first scrape, and again after its end. pid: None while there is none."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self._lock = asyncio.Lock()
        self._connection: _Connection | None = None
        self._requests = 0

    async def scrape(self, request: ScrapeRequest) -> ScrapeAnswer:
        """The answer to a request, whose id is set here. Its deadline begins when the process has started."""
        try:
            async with self._lock:
                if self._connection is None or self._connection.is_closed:
                    self._connection = await _started()
                    self.pid = self._connection.pid
        except (OSError, TimeoutError, EOFError):
            return _failed(request, _NOT_STARTED)
        connection = self._connection
        self._requests += 1
        try:
            async with asyncio.timeout(request.source.timeout_seconds + _GRACE_SECONDS):
                return await connection.ask(replace(request, id=self._requests))
        except TimeoutError:
            await connection.close()
            return _failed(request, no_answer_within(request.source.timeout_seconds))
        except (ConnectionError, EOFError):
            await connection.close()
            return _failed(request, _ENDED)

    async def close(self) -> None:
        """Ends the process."""
        if self._connection is not None:
            await self._connection.close()


class _Connection:
    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid = process.pid
        self.is_closed = False
        self._process, self._reader, self._writer = process, reader, writer
        self._answers: dict[int, asyncio.Future[ScrapeAnswer]] = {}
        self._reading = asyncio.create_task(self._read())

    async def ask(self, request: ScrapeRequest) -> ScrapeAnswer:
        answer: asyncio.Future[ScrapeAnswer] = asyncio.get_running_loop().create_future()
        self._answers[request.id] = answer
        try:
            if self.is_closed:
                raise ConnectionResetError
            self._writer.write(framed(request))
            return await answer
        finally:
            del self._answers[request.id]

    async def close(self) -> None:
        self.is_closed = True
        self._reading.cancel()
        self._end_answers()
        self._writer.close()
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    async def _read(self) -> None:
        try:
            while True:
                answer = await _answer(self._reader)
                waiting = self._answers.get(answer.id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except (OSError, EOFError, msgspec.DecodeError):
            self.is_closed = True
            self._end_answers()

    def _end_answers(self) -> None:
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError())


async def _started() -> _Connection:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "cronhpa.sources.page_worker", str(theirs.fileno())]
    with theirs:
        process = await asyncio.to_thread(
            subprocess.Popen, command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL
        )
    try:
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        async with asyncio.timeout(_START_SECONDS):
            await _answer(reader)
    except BaseException:
        ours.close()
        process.kill()
        await asyncio.to_thread(process.wait)
        raise
    return _Connection(process, reader, writer)


async def _answer(reader: asyncio.StreamReader) -> ScrapeAnswer:
    length = int.from_bytes(await reader.readexactly(4), "big")
    answer: ScrapeAnswer = msgspec.msgpack.decode(await reader.readexactly(length), type=ScrapeAnswer)
    return answer


def _failed(request: ScrapeRequest, problem: str) -> ScrapeAnswer:
    return ScrapeAnswer(0, [PodNumber(problem=problem)] * len(request.pods))
