"""
One page of one pod, by HTTP, in a thread of the process that reads pods' pages.

The thread checks its budgets of CPU time before each read of the network, of 64 KiB at most and by TLS of 8 KiB, and at
each 64 KiB of unpacked page. So no form of TLS, headers, chunks, packing or lines costs more than the budgets and a few
milliseconds.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from msgspec import Struct

from cronhpa.sources.exposition import ACCEPT, PAGE_BYTES, MetricSamples, PageReader
from cronhpa.sources.namespace_shares import Reading
from cronhpa.sources.no_answer import BROKEN, FILE_UNREADABLE, UNTRUSTED, NoAnswerError, refuse_status, unreachable
from cronhpa.sources.tls import client_context

# Status line and headers, those of 100 Continue included, as received. Proxies allow some 8 KiB.
HEAD_BYTES = 2**14
# The body as received: a page that is not packed and, for each of its lines, a chunk's head and 22 to 29 bytes of TLS.
_BODY_BYTES = 2 * PAGE_BYTES
_PART_BYTES = 2**16
# What TLS may add to a head. OpenSSL takes certificates of 100 KiB; tickets and records' heads are less.
_TLS_BYTES = 2**17
# OpenSSL works through so much of the shortest messages in 6 ms at most: 300 updates of keys.
_TLS_PART_BYTES = 2**13
# Connections are kept for a period of some seconds. For a longer one none is kept: there may be 100,000 pods.
_IDLE_SECONDS = 5.0
_IDLE_MAX = 512
_CONTEXTS_MAX = 64
_GZIP = 16 + zlib.MAX_WBITS


class PageSource(Struct, frozen=True):
    """What a source of kind `pods` says of each page."""

    id: int
    """Identifies its connections, which no other source uses."""
    metric: str
    path: str
    labels: dict[str, str]
    timeout_seconds: float
    is_tls: bool = False
    server_name: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class _Bounds:
    """What a socket may still read. work: of the page that is read now, None between two pages."""

    def __init__(self, tls_bytes: int) -> None:
        self.work: Reading | None = None
        self._tls_bytes = tls_bytes
        self.bytes_left = 0
        self.too_large = NoAnswerError("TooLarge", f"its headers are longer than {HEAD_BYTES} bytes")

    def begin_head(self, work: Reading) -> None:
        self.work, self.bytes_left = work, HEAD_BYTES + self._tls_bytes
        self.too_large = NoAnswerError("TooLarge", f"its headers are longer than {HEAD_BYTES} bytes")

    def begin_body(self) -> None:
        self.bytes_left = _BODY_BYTES
        self.too_large = NoAnswerError("TooLarge", f"its answer is longer than {_BODY_BYTES} bytes")


class _Socket(socket.socket):
    """http.client reads by `recv_into` alone, and writes by `sendall`."""

    def __init__(self, family: socket.AddressFamily, tls_bytes: int = 0) -> None:
        super().__init__(family)
        self.bounds = _Bounds(tls_bytes)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        if self.bounds.bytes_left <= 0:
            raise self.bounds.too_large
        with self._waiting():
            count = super().recv_into(buffer, nbytes, flags)
        self.bounds.bytes_left -= count
        return count

    def sendall(self, data: Any, flags: int = 0) -> None:
        with self._waiting():
            super().sendall(data, flags)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        assert self.bounds.work is not None, "nobody reads between two pages"
        with self.bounds.work.waits() as seconds:
            self.settimeout(seconds)
            yield


class _TlsSocket(_Socket):
    """
    TLS above reads that are counted. The first `sendall` shakes hands.

    An ssl.SSLSocket reads within OpenSSL, for as long as a pod sends messages of TLS and nothing else.
    """

    def __init__(self, family: socket.AddressFamily, context: ssl.SSLContext, server_name: str) -> None:
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=server_name)
        super().__init__(family, _TLS_BYTES)

    def recv_into(self, buffer: Any, nbytes: int = 0, _flags: int = 0) -> int:
        try:
            count: int = self._run(lambda: self._tls.read(nbytes or len(buffer), buffer))
        except ssl.SSLEOFError:  # many servers close without saying so by TLS
            return 0
        return count

    def sendall(self, data: Any, _flags: int = 0) -> None:
        self._run(lambda: self._tls.write(data))

    def _run(self, step: Callable[[], Any]) -> Any:
        """Repeats the step until OpenSSL has received what it needs."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                pass
            finally:
                # After an error this is the alert that tells the pod why.
                if waiting := self._to_send.read():
                    super().sendall(waiting)
            part = bytearray(_TLS_PART_BYTES)
            if count := super().recv_into(part):
                self._received.write(memoryview(part)[:count])
            else:
                self._received.write_eof()


class _Connection(HTTPConnection):
    """A connection to a pod that is open, and is not opened again."""

    def __init__(self, host: str, port: int, connected: _Socket) -> None:
        super().__init__(host, port)
        self.auto_open = 0
        self.sock = connected
        self.bounds = connected.bounds


class PodPages:
    """Reads pages, and keeps connections for the next ones. Threads share it. clock: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: dict[tuple[int, str, int], tuple[float, _Connection]] = {}
        self._contexts: dict[int, ssl.SSLContext] = {}

    def read(self, source: PageSource, host: str, port: int, work: Reading) -> MetricSamples:
        """The samples of the source's metric. Raises NoAnswerError, and TimeoutError after the deadline."""
        try:
            connected = self._kept(source.id, host, port)
            if connected is not None:
                try:
                    return self._read(source, connected, host, port, work)
                except ConnectionError:
                    pass  # the pod closed it meanwhile
            return self._read(source, self._connected(source, host, port, work), host, port, work)
        except ssl.SSLError as error:
            raise NoAnswerError("Untrusted", UNTRUSTED, str(error)) from None
        except TimeoutError:
            raise
        except (OSError, HTTPException, ValueError, EOFError) as error:
            # ValueError: http.client's own, for numbers that are none.
            raise NoAnswerError("Unreachable", BROKEN, str(error)) from None

    def close_idle(self) -> None:
        """Closes the connections that nobody used for a while."""
        with self._lock:
            old = [key for key, (at, _) in self._idle.items() if self._clock() - at > _IDLE_SECONDS]
            closing = [self._idle.pop(key)[1] for key in old]
        for connection in closing:
            connection.close()

    def _kept(self, source: int, host: str, port: int) -> _Connection | None:
        with self._lock:
            at, connection = self._idle.pop((source, host, port), (0.0, None))
        if connection is not None and self._clock() - at > _IDLE_SECONDS:
            connection.close()
            return None
        return connection

    def _keep(self, source: int, host: str, port: int, connection: _Connection) -> None:
        with self._lock:
            former = self._idle.pop((source, host, port), None)
            if former is None and len(self._idle) >= _IDLE_MAX:
                former = self._idle.pop(next(iter(self._idle)))
            self._idle[source, host, port] = (self._clock(), connection)
        if former is not None:
            former[1].close()

    def _connected(self, source: PageSource, host: str, port: int, work: Reading) -> _Connection:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        connected = (
            _TlsSocket(family, self._context(source), source.server_name or host) if source.is_tls else _Socket(family)
        )
        try:
            with work.waits() as seconds:
                connected.settimeout(seconds)
                try:
                    connected.connect((host, port))
                except TimeoutError:
                    raise
                except OSError as error:
                    raise NoAnswerError("Unreachable", unreachable(os.strerror(error.errno or 0)), str(error)) from None
        except BaseException:
            connected.close()
            raise
        return _Connection(host, port, connected)

    def _context(self, source: PageSource) -> ssl.SSLContext:
        with self._lock:
            context = self._contexts.get(source.id)
            if context is None:
                files = (Path(file) if file else None for file in (source.ca_file, source.cert_file, source.key_file))
                try:
                    context = client_context(*files)
                except ssl.SSLError:
                    raise
                except OSError as error:
                    raise NoAnswerError("Misconfigured", FILE_UNREADABLE, str(error)) from None
                if len(self._contexts) >= _CONTEXTS_MAX:
                    self._contexts.clear()
                self._contexts[source.id] = context
            return context

    def _read(self, source: PageSource, connection: _Connection, host: str, port: int, work: Reading) -> MetricSamples:
        is_kept = False
        try:
            connection.bounds.begin_head(work)
            connection.request("GET", source.path, headers=_headers(source.timeout_seconds))
            # Where the pod says that it closes, the socket is the response's, and ends with it alone.
            with closing(connection.getresponse()) as response:
                refuse_status(response.status)
                connection.bounds.begin_body()
                page = PageReader(source.metric)
                for part in _unpacked(response, work):
                    page.take(part)
            samples = page.samples(response.headers.get("Content-Type", ""), source.labels)
            connection.bounds.work = None
            is_kept = connection.sock is not None  # http.client drops it where the pod says that it closes
        finally:
            if is_kept:
                self._keep(source.id, host, port, connection)
            else:
                connection.close()
        return samples


def _headers(timeout_seconds: float) -> dict[str, str]:
    # The owner of a pod reads everything that is sent to it: no login goes to pods.
    return {
        "Accept": ACCEPT,
        "Accept-Encoding": "gzip",
        "User-Agent": "cronhpa",
        "X-Prometheus-Scrape-Timeout-Seconds": f"{timeout_seconds:g}",
    }


def _unpacked(response: HTTPResponse, work: Reading) -> Iterator[bytes]:
    """The body in parts of 64 KiB at most."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    match encoding:
        case "identity":
            yield from _received_parts(response, work)
        case "gzip" | "x-gzip":
            yield from _gunzipped(_received_parts(response, work), work)
        case _:
            raise NoAnswerError("Malformed", "its page is packed by something other than gzip")


def _received_parts(response: HTTPResponse, work: Reading) -> Iterator[bytes]:
    missing = response.length
    while part := response.read(_PART_BYTES):
        if missing is not None:
            missing -= len(part)
        work.check()
        yield part
    if missing:
        raise NoAnswerError("Unreachable", BROKEN)


def _gunzipped(parts: Iterator[bytes], work: Reading) -> Iterator[bytes]:
    """A body may be several members of gzip, one behind the other."""
    unzip = zlib.decompressobj(_GZIP)
    is_begun = False
    try:
        for part in parts:
            rest = part
            while rest:
                if unzip.eof:
                    unzip = zlib.decompressobj(_GZIP)
                is_begun = True
                unpacked = unzip.decompress(rest, _PART_BYTES)
                rest = unzip.unused_data if unzip.eof else unzip.unconsumed_tail
                work.check()
                yield unpacked
    except zlib.error:
        raise NoAnswerError("Malformed", "its page is packed by something other than gzip") from None
    if is_begun and not unzip.eof:
        raise NoAnswerError("Unreachable", BROKEN)
