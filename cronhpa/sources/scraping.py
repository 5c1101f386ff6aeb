"""
The number of each pod of a target, read from the pods themselves.

This file owns which addresses may be asked: the IP of a ready pod of the target, as its status states it, at the port
that the source names. Never a node's, a loopback or a link-local address: a cloud's metadata service has the last.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from weakref import WeakValueDictionary

from yarl import URL

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Absent, Pod, Sample
from cronhpa.sources.connection import NoAnswerError, SourceConnection, no_answer_within, refuse_status
from cronhpa.sources.definition import PodsSource
from cronhpa.sources.exposition import ACCEPT, PageReader, combined, current
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.pod_sample import UNKNOWN_VARIATION, chosen, extended, sample_size, variation_of
from cronhpa.sources.rates import PodRates
from cronhpa.sources.shared import SharedAnswers
from cronhpa.sources.vector import milli_of

# Concurrent requests of one source: each has a socket.
_REQUESTS_AT_ONCE = 256
# The share of one namespace, whose pods may all hang: the other namespaces have the rest.
_OF_ONE_NAMESPACE = _REQUESTS_AT_ONCE * 3 // 4
# How long an object's last scrapes are remembered.
_KEPT_SECONDS = 600.0
FIRST_SCRAPE = "its rate is known from the second scrape on"

Address = IPv4Address | IPv6Address


class _LastScrapes:
    """The variation of an object's pods, and their counters, at the last scrapes."""

    def __init__(self) -> None:
        self.variation = UNKNOWN_VARIATION
        self.rates: dict[tuple[str, Nanoseconds], PodRates] = {}
        self.at = 0.0


class PodScrapes:
    """One source of pods. requests: how many were sent."""

    def __init__(self, name: str, definition: PodsSource, clock: Callable[[], Nanoseconds]) -> None:
        self.requests = 0
        self._name = name
        self._definition = definition
        self._clock = clock
        self._salt = secrets.token_hex(16)
        self._connection = SourceConnection(definition, connections_max=_REQUESTS_AT_ONCE)
        self._scrapes: dict[tuple[str, str], _LastScrapes] = {}
        # For the namespaces whose pods are being asked.
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._answers: SharedAnswers[dict[str, Sample] | Absent] = SharedAnswers(self._seconds)
        self._headers = {"Accept": ACCEPT, "X-Prometheus-Scrape-Timeout-Seconds": f"{definition.timeout_seconds:g}"}

    @staticmethod
    def _seconds() -> float:
        return asyncio.get_running_loop().time()

    async def close(self) -> None:
        await self._connection.close()

    async def samples(self, measured: MeasuredObject) -> dict[str, Sample] | Absent:
        """The samples by pod name, those that are assumed included; or why there is none."""
        key = (measured.namespace, measured.name)
        return await self._answers.ask(
            (key, measured.target), key, measured.period / SECOND, lambda: self._scraped(key, measured)
        )

    async def _scraped(self, key: tuple[str, str], measured: MeasuredObject) -> dict[str, Sample] | Absent:
        ready = [pod for pod in measured.pods if pod.ready == "True" and pod.phase == "Running" and not pod.deleting]
        if not ready:
            return Absent("NoReadyPod", "none of the target's pods is ready, and only ready pods are asked")
        last = self._last_scrapes(key)
        asked = chosen(ready, sample_size(len(ready), last.variation), self._salt)
        places = self._places.setdefault(measured.namespace, asyncio.Semaphore(_OF_ONE_NAMESPACE))
        answers = await asyncio.gather(*(self._read(pod, last, places) for pod in asked))
        now = self._clock()
        last.rates = {(pod.name, pod.created): last.rates[pod.name, pod.created] for pod in measured.pods
                      if (pod.name, pod.created) in last.rates}  # fmt: skip
        values = {
            pod.name: answer[0] for pod, answer in zip(asked, answers, strict=True) if not isinstance(answer, str)
        }
        if not values:
            # Of several problems the most frequent. Its text names no pod, so the condition does not change each time.
            problem = Counter(answer for answer in answers if isinstance(answer, str)).most_common(1)[0][0]
            return Absent("NoPodAnswered", f"no pod that was asked has a number: {problem}")
        if len(values) > 1:
            last.variation = variation_of(list(values.values()))
        window = max(round(answer[1] * SECOND) for answer in answers if not isinstance(answer, str))
        names = {pod.name for pod in asked}
        everyone = extended(values, len(asked), (pod.name for pod in ready if pod.name not in names))
        return {name: Sample(round(value * 1000), now, window) for name, value in everyone.items()}

    def _last_scrapes(self, key: tuple[str, str]) -> _LastScrapes:
        now = self._seconds()
        if key not in self._scrapes:
            self._scrapes = {name: last for name, last in self._scrapes.items() if now - last.at < _KEPT_SECONDS}
            self._scrapes[key] = _LastScrapes()
        last = self._scrapes[key]
        last.at = now
        return last

    async def _read(self, pod: Pod, last: _LastScrapes, places: asyncio.Semaphore) -> tuple[float, float] | str:
        """A pod's number and the seconds that its rate covers, 0 for a gauge; or why there is none."""
        definition = self._definition
        try:
            url = address_of(pod, definition)
            page = PageReader(definition.metric)
            async with asyncio.timeout(definition.timeout_seconds), places:
                self.requests += 1
                response = await self._connection.send("GET", url, page.take, headers=self._headers)
            refuse_status(response)
            kind = response.headers.get("Content-Type", "")
            if page.is_long:
                read = await asyncio.to_thread(page.samples, kind, definition.labels)
            else:
                read = page.samples(kind, definition.labels)
            samples = current(read, self._clock() / SECOND, definition.max_age_seconds)
        except TimeoutError:
            return no_answer_within(definition.timeout_seconds)
        except NoAnswerError as error:
            return error.message
        if not samples.is_cumulative:
            return _bounded(combined([sample.value for sample in samples.samples], definition.combine), 0.0)
        rates = last.rates.setdefault((pod.name, pod.created), PodRates()).rates(samples.samples, self._seconds())
        if rates is None:
            return FIRST_SCRAPE
        return _bounded(combined(rates[0], definition.combine), rates[1])


def _bounded(value: float, seconds: float) -> tuple[float, float] | str:
    problem = milli_of(value)
    return problem.message if isinstance(problem, Absent) else (value, seconds)


def address_of(pod: Pod, definition: PodsSource) -> URL:
    """The URL of a pod. Raises NoAnswerError for a pod without an address of its own, or without the port."""
    port = definition.port if isinstance(definition.port, int) else _port_named(pod, definition.port)
    if pod.on_host_network:
        # The pod's IP is its node's, where the kubelet listens, and a tenant names the port.
        raise NoAnswerError("NotAsked", "it runs in its node's network, and no node is asked")
    try:
        address = _plain(ip_address(pod.ip))
    except ValueError:
        raise NoAnswerError("NotAsked", "it has no IP yet") from None
    if not _may_be_asked(address, definition):
        where = "podNetworks of the source" if definition.pod_networks else "the addresses that pods have"
        raise NoAnswerError("NotAsked", f"its IP is none of {where}")
    host = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
    return URL(f"{definition.scheme}://{host}:{port}{definition.path}", encoded=True)


def _port_named(pod: Pod, name: str) -> int:
    for container in pod.containers:
        if name in container.ports:
            return container.ports[name]
    raise NoAnswerError("NoPort", f"it has no container with a TCP port named {name}")


def _plain(address: Address) -> Address:
    """::ffff:127.0.0.1 is 127.0.0.1."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _may_be_asked(address: Address, definition: PodsSource) -> bool:
    if definition.pod_networks:
        return any(address in network for network in definition.pod_networks)
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)
