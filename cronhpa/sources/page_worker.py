"""
The process that reads pods' pages: `python -m cronhpa.sources.page_worker FD`, with one end of a pair of sockets.

Tenants write what it reads. The operator's event loop exchanges one request and one answer with it for each scrape of
an object, whatever the pods send. Requests and answers are frames: 4 bytes of length, then msgpack.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import sys
import threading
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from time import monotonic  # noqa: TID251 - this process makes its own clock

import msgspec
from msgspec import Struct

from cronhpa.sources.exposition import PageSample, combined, current
from cronhpa.sources.namespace_shares import (
    FairQueue,
    NamespaceShare,
    Reading,
    TooCostlyError,
    scrape_budget,
)
from cronhpa.sources.no_answer import NoAnswerError, no_answer_within
from cronhpa.sources.pod_page import PageSource, PodPages

# Concurrent requests of all sources: each has a socket and a thread, which takes some 40 kB.
_REQUESTS_AT_ONCE = 384
_STACK_BYTES = 2**18
# The process takes some 30 MB; the stacks, of 96 MiB, count as well.
_MEMORY_MAX = 384 * 2**20
# For the counters of all objects: those of 100,000 pods take 75 MB at ten a pod.
_REMEMBERED_BYTES = 96 * 2**20
# An object, or a pod, without its counters; and a counter.
_ENTRY_BYTES = 600
_COUNTER_BYTES = 16
# Other threads get the interpreter after so long, and a read of the network is a request for it.
_SWITCH_SECONDS = 0.0005
# Less urgent than the event loop, more so than forecasts.
_NICENESS = 5
# How much longer than its period an object's last scrapes are remembered, and a namespace's share.
_REMEMBERED_SECONDS = 600.0
_TICK_SECONDS = 1.0
# Pages that are read in so long add some 30 MB to what is remembered. To weigh 100,000 pods takes 12 ms.
_SWEEP_SECONDS = 15.0
_LENGTH_BYTES = 4
# A rate over a shorter span is noise.
_SPAN_SECONDS = 0.2
FIRST_SCRAPE = "its rate is known from the second scrape on"


class PageAddress(Struct, frozen=True, array_like=True):
    """Where a pod is asked."""

    name: str
    created: int
    """Tells the pod from a former pod of the same name."""
    host: str
    port: int


class ScrapeRequest(Struct, frozen=True):
    """One scrape of an object's pods."""

    id: int
    source: PageSource
    combine: str
    max_age_seconds: int
    namespace: str
    name: str
    period_seconds: float
    now_seconds: float
    """Seconds since the epoch, for samples that state their instant."""
    pods: list[PageAddress]


class PodNumber(Struct, frozen=True, array_like=True):
    """A pod's number, and the seconds that its rate covers, 0 for a gauge; or why there is none."""

    value: float = 0.0
    seconds: float = 0.0
    problem: str = ""


class ScrapeAnswer(Struct, frozen=True):
    id: int
    numbers: list[PodNumber]
    """One number for each pod of the request."""
    refusal: str = ""
    """Why the scrape was given up; empty if it was not."""


def framed(message: Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


class _Counts(Struct, frozen=True):
    """The counters of one scrape."""

    at: float
    """The instant of the scrape, seconds."""
    keys: array[int]
    """
    A 64-bit hash of each counter's labels. A pod may have thousands of counters and a tenant thousands of pods: with
    labels as texts these could fill the operator's memory.
    """
    values: array[float]


class PodRates:
    """
    The counters of one pod at its last scrape.

    They become rates from one scrape to the next, as Prometheus' rate() does without extrapolation.
    """

    def __init__(self) -> None:
        self._before: _Counts | None = None

    @property
    def counters(self) -> int:
        return 0 if self._before is None else len(self._before.keys)

    def rates(self, samples: tuple[PageSample, ...], at: float) -> tuple[list[float], float] | None:
        """
        The rate of each counter per second, and the seconds between the two scrapes; None at the first scrape.

        A counter that went down, or is new, began at 0.
        at: seconds of a clock that never goes back.
        """
        before = self._before
        if before is not None and at - before.at < _SPAN_SECONDS:
            return None
        keys = array("q", [hash(sample.labels) for sample in samples])
        self._before = _Counts(at, keys, array("d", [sample.value for sample in samples]))
        if before is None:
            return None
        seconds = at - before.at
        values = dict(zip(before.keys, before.values, strict=True))
        return [
            _increase(values.get(key, 0.0), sample.value) / seconds for key, sample in zip(keys, samples, strict=True)
        ], seconds


def _increase(before: float, value: float) -> float:
    return value if value < before else value - before


class _Remembered:
    """The counters of an object's pods at their last scrapes."""

    def __init__(self) -> None:
        self.rates: dict[tuple[str, int], PodRates] = {}
        self.until = 0.0

    @property
    def bytes(self) -> int:
        # A list is made at once; threads add pods meanwhile.
        pods = list(self.rates.values())
        return _ENTRY_BYTES * (1 + len(pods)) + _COUNTER_BYTES * sum(pod.counters for pod in pods)

    def of(self, pod: PageAddress, pods_max: int) -> PodRates:
        """Remembers at most so many pods, those that were asked last."""
        key = (pod.name, pod.created)
        rates = self.rates[key] = self.rates.pop(key, PodRates())
        while len(self.rates) > pods_max:
            del self.rates[next(iter(self.rates))]
        return rates


class _Namespace:
    """Its share, and what is remembered of its objects."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.share = NamespaceShare(clock)
        self.until = 0.0
        self.objects: dict[tuple[int, str], _Remembered] = {}
        """By source and name, in the order in which they came."""


class _Scrape:
    """A request under way. Its threads fill in the numbers; whoever fills in the last one sends the answer."""

    def __init__(
        self, request: ScrapeRequest, share: NamespaceShare, remembered: _Remembered, clock: Callable[[], float]
    ) -> None:
        self.request, self.share, self.remembered = request, share, remembered
        self.begun = clock()
        self.deadline = self.begun + request.source.timeout_seconds
        self.budget = scrape_budget(request.period_seconds, len(request.pods), clock)
        self.numbers: list[PodNumber | None] = [None] * len(request.pods)
        self.missing = len(request.pods)
        self.refusal = ""
        self.is_sent = False


class ScrapeServer:
    """
    Answers requests that come as bytes.

    connected: the socket to the operator. clock: seconds. remembered_bytes: of the counters of all objects.
    """

    def __init__(
        self, connected: socket.socket, clock: Callable[[], float], remembered_bytes: int = _REMEMBERED_BYTES
    ) -> None:
        self._connected = connected
        self._clock = clock
        self._remembered_bytes = remembered_bytes
        self._pages = PodPages(clock)
        self._queue: FairQueue[tuple[_Scrape, int]] = FairQueue(_REQUESTS_AT_ONCE)
        self._threads = 0
        self._lock = threading.Lock()
        self._scrapes: list[_Scrape] = []
        self._namespaces: dict[str, _Namespace] = {}

    def run(self) -> None:
        """Until the operator ends."""
        read = bytearray()
        swept = self._clock()
        poll = select.poll()
        poll.register(self._connected, select.POLLIN)
        self._connected.sendall(framed(ScrapeAnswer(0, [])))
        while True:
            if poll.poll(self._seconds_to_wait() * 1000):
                part = self._connected.recv(2**18)
                if not part:
                    return
                read += part
            while (body := _frame(read)) is not None:
                self._begin(msgspec.msgpack.decode(body, type=ScrapeRequest))
            self._end_late()
            self._pages.close_idle()
            if self._clock() - swept > _SWEEP_SECONDS:
                swept = self._clock()
                self._forget_old()
                self._forget_most()

    def _seconds_to_wait(self) -> float:
        with self._lock:
            deadlines = [scrape.deadline - self._clock() for scrape in self._scrapes]
        return max(0.001, min([*deadlines, _TICK_SECONDS]))

    def _begin(self, request: ScrapeRequest) -> None:
        namespace = self._namespaces.setdefault(request.namespace, _Namespace(self._clock))
        remembered = namespace.objects.setdefault((request.source.id, request.name), _Remembered())
        namespace.until = self._clock() + _REMEMBERED_SECONDS
        remembered.until = namespace.until + request.period_seconds
        scrape = _Scrape(request, namespace.share, remembered, self._clock)
        with self._lock:
            self._scrapes.append(scrape)
        if not request.pods:
            self._send(scrape)
        self._queue.put(request.namespace, [(scrape, number) for number in range(len(request.pods))])
        self._start_threads()

    def _start_threads(self) -> None:
        while self._threads < min(_REQUESTS_AT_ONCE, self._queue.unfinished):
            threading.Thread(target=self._work, daemon=True).start()
            self._threads += 1

    def _forget_old(self) -> None:
        """A namespace's share is forgotten when its budget has long been full again."""
        now = self._clock()
        for namespace in self._namespaces.values():
            namespace.objects = {key: kept for key, kept in namespace.objects.items() if kept.until > now}
        self._namespaces = {
            name: namespace
            for name, namespace in self._namespaces.items()
            if namespace.objects or namespace.until > now
        }

    def _forget_most(self) -> None:
        """
        Where there is too much, the namespace with most loses what came last.

        To lose what it asked longest ago would cost all its objects their rates: each comes again after all others.
        """
        sizes = {
            name: {key: remembered.bytes for key, remembered in namespace.objects.items()}
            for name, namespace in self._namespaces.items()
        }
        totals = Counter({name: sum(of.values()) for name, of in sizes.items()})
        while totals.total() > self._remembered_bytes:
            ((most, _),) = totals.most_common(1)
            newest, size = sizes[most].popitem()
            totals[most] -= size
            del self._namespaces[most].objects[newest]

    def _work(self) -> None:
        while True:
            namespace, (scrape, number) = self._queue.get()
            try:
                answer = self._number(scrape, scrape.request.pods[number])
            finally:
                self._queue.done(namespace)
            with self._lock:
                scrape.numbers[number] = answer
                scrape.missing -= 1
                is_last = scrape.missing == 0
            if is_last:
                self._send(scrape)

    def _number(self, scrape: _Scrape, pod: PageAddress) -> PodNumber:
        request = scrape.request
        try:
            with Reading(scrape.share, scrape.budget, scrape.deadline, self._clock) as work:
                samples = self._pages.read(request.source, pod.host, pod.port, work)
                now = self._clock()
                samples = current(samples, request.now_seconds + now - scrape.begun, request.max_age_seconds)
                if not samples.is_cumulative:
                    return PodNumber(combined([sample.value for sample in samples.samples], request.combine))
                rates = scrape.remembered.of(pod, 2 * len(request.pods)).rates(samples.samples, now)
                return (
                    PodNumber(problem=FIRST_SCRAPE)
                    if rates is None
                    else PodNumber(combined(rates[0], request.combine), rates[1])
                )
        except TimeoutError:
            return PodNumber(problem=no_answer_within(request.source.timeout_seconds))
        except TooCostlyError as error:
            scrape.refusal = error.message
            return PodNumber(problem=error.message)
        except NoAnswerError as error:
            return PodNumber(problem=error.message)
        except Exception:  # noqa: BLE001 - an answer that a library stumbles over costs its pod's number, and no more
            return PodNumber(problem="its answer is no HTTP")

    def _end_late(self) -> None:
        """Answers the scrapes whose deadline has passed."""
        now = self._clock()
        with self._lock:
            late = [scrape for scrape in self._scrapes if scrape.deadline < now]
        for scrape in late:
            self._send(scrape)

    def _send(self, scrape: _Scrape) -> None:
        with self._lock:
            if scrape.is_sent:
                return
            scrape.is_sent = True
            self._scrapes.remove(scrape)
            none = PodNumber(problem=no_answer_within(scrape.request.source.timeout_seconds))
            numbers = [none if number is None else number for number in scrape.numbers]
            answer = framed(ScrapeAnswer(scrape.request.id, numbers, scrape.refusal))
            # Within the lock: two answers must not mix. The operator reads at once.
            self._connected.sendall(answer)


def _frame(read: bytearray) -> bytes | None:
    """Takes the first frame from what was read; None if it is not whole."""
    end = _LENGTH_BYTES + int.from_bytes(read[:_LENGTH_BYTES], "big")
    if len(read) < max(end, _LENGTH_BYTES):
        return None
    body = bytes(read[_LENGTH_BYTES:end])
    del read[:end]
    return body


def main() -> None:
    os.nice(_NICENESS)
    with suppress(OSError, ValueError):  # a system that has no such limit, or a lower one
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_MAX, _MEMORY_MAX))
    # Ctrl-C reaches the whole process group; the operator ends this process by closing its socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.stack_size(_STACK_BYTES)
    sys.setswitchinterval(_SWITCH_SECONDS)
    with suppress(ConnectionError):
        ScrapeServer(socket.socket(fileno=int(sys.argv[1])), monotonic).run()
    # Threads may still wait for pods.
    os._exit(0)


if __name__ == "__main__":
    main()
