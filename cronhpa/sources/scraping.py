"""
The number of each pod of a target, read from the pods themselves.

Owns which addresses may be asked: the IP of a ready pod of the target, as its status states it, at the port that the
source names. Never a node's address, the operator's own machine, or a link-local one as a cloud's metadata service has.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

from yarl import URL

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Absent, Pod, Sample
from cronhpa.sources.connection import NoAnswerError, SourceConnection, refuse_status
from cronhpa.sources.definition import PodsSource
from cronhpa.sources.exposition import ACCEPT, PageReader, combined, current
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.pod_sample import UNKNOWN_VARIATION, chosen, extended, sample_size, variation_of
from cronhpa.sources.rates import PodRates
from cronhpa.sources.shared import SharedAnswers
from cronhpa.sources.vector import milli_of

# Requests of one source under way: each has a socket.
_REQUESTS_AT_ONCE = 256
# What is remembered of an object that asks no more.
_KEPT_SECONDS = 600.0
FIRST_SCRAPE = "its rate is known from the second scrape on"

Address = IPv4Address | IPv6Address


class _Seen:
    """What the last scrapes of an object's pods found."""

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
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._answers: SharedAnswers[dict[str, Sample] | Absent] = SharedAnswers(self._seconds)
        self._headers = {"Accept": ACCEPT, "X-Prometheus-Scrape-Timeout-Seconds": f"{definition.timeout_seconds:g}"}

    @staticmethod
    def _seconds() -> float:
        return asyncio.get_running_loop().time()

    async def close(self) -> None:
        await self._connection.close()

    async def samples(self, measured: MeasuredObject) -> dict[str, Sample] | Absent:
        """A sample for each pod that is known of, by the pod's name; or why there is none."""
        key = (measured.namespace, measured.name)
        return await self._answers.ask(
            (key, measured.target), key, measured.period / SECOND, lambda: self._scraped(key, measured)
        )

    async def _scraped(self, key: tuple[str, str], measured: MeasuredObject) -> dict[str, Sample] | Absent:
        ready = [pod for pod in measured.pods if pod.ready == "True" and pod.phase == "Running" and not pod.deleting]
        if not ready:
            return Absent("NoReadyPod", "none of the target's pods is ready, and only ready pods are asked")
        seen = self._seen_of(key)
        asked = chosen(ready, sample_size(len(ready), seen.variation), self._salt)
        found = await asyncio.gather(*(self._read(pod, seen) for pod in asked))
        now = self._clock()
        seen.rates = {(pod.name, pod.created): seen.rates[pod.name, pod.created] for pod in measured.pods
                      if (pod.name, pod.created) in seen.rates}  # fmt: skip
        values = {pod.name: each[0] for pod, each in zip(asked, found, strict=True) if not isinstance(each, str)}
        if not values:
            # Of several problems the most frequent; its words name no pod, so the condition stays as it is.
            problem = Counter(each for each in found if isinstance(each, str)).most_common(1)[0][0]
            return Absent("NoPodAnswered", f"no pod that was asked has a number: {problem}")
        if len(values) > 1:
            seen.variation = variation_of(list(values.values()))
        window = max(round(each[1] * SECOND) for each in found if not isinstance(each, str))
        names = {pod.name for pod in asked}
        everyone = extended(values, len(asked), (pod.name for pod in ready if pod.name not in names))
        return {name: Sample(round(value * 1000), now, window) for name, value in everyone.items()}

    def _seen_of(self, key: tuple[str, str]) -> _Seen:
        now = self._seconds()
        if key not in self._seen:
            self._seen = {each: seen for each, seen in self._seen.items() if now - seen.at < _KEPT_SECONDS}
            self._seen[key] = _Seen()
        seen = self._seen[key]
        seen.at = now
        return seen

    async def _read(self, pod: Pod, seen: _Seen) -> tuple[float, float] | str:
        """A pod's number and the seconds that it is of, 0 for a gauge; or why there is none."""
        definition = self._definition
        try:
            url = address_of(pod, definition)
            self.requests += 1
            page = PageReader(definition.metric)
            response = await self._connection.send("GET", url, page.take, headers=self._headers)
            refuse_status(response)
            kind = response.headers.get("Content-Type", "")
            if page.is_long:
                read = await asyncio.to_thread(page.samples, kind, definition.labels)
            else:
                read = page.samples(kind, definition.labels)
            samples = current(read, self._clock() / SECOND, definition.max_age_seconds)
        except NoAnswerError as error:
            return error.message
        if not samples.is_cumulative:
            return _bounded(combined([sample.value for sample in samples.samples], definition.combine), 0.0)
        rates = seen.rates.setdefault((pod.name, pod.created), PodRates()).rates(samples.samples, self._seconds())
        if rates is None:
            return FIRST_SCRAPE
        return _bounded(combined(rates[0], definition.combine), rates[1])


def _bounded(value: float, seconds: float) -> tuple[float, float] | str:
    problem = milli_of(value)
    return problem.message if isinstance(problem, Absent) else (value, seconds)


def address_of(pod: Pod, definition: PodsSource) -> URL:
    """Where a pod is asked. Raises NoAnswerError for a pod without an address of its own, or without the port."""
    port = definition.port if isinstance(definition.port, int) else _port_named(pod, definition.port)
    if pod.on_host_network:
        # Its IP is the node's, where the kubelet listens, and a tenant names the port.
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
