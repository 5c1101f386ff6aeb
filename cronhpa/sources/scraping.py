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
from itertools import count
from pathlib import Path

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Absent, Pod, Sample
from cronhpa.sources.definition import PodsSource
from cronhpa.sources.measured_object import MeasuredObject
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.page_process import PageProcess
from cronhpa.sources.page_worker import PageAddress, ScrapeRequest
from cronhpa.sources.pod_page import PageSource
from cronhpa.sources.pod_sample import UNKNOWN_VARIATION, chosen, extended, sample_size, variation_of
from cronhpa.sources.shared import SharedAnswers
from cronhpa.sources.vector import milli_of

# How long an object's last scrape is remembered.
_KEPT_SECONDS = 600.0
# A replaced source shares neither connections nor counters with the one before it.
_IDS = count()

Address = IPv4Address | IPv6Address


class _LastScrape:
    """variation: of the numbers of an object's pods."""

    def __init__(self) -> None:
        self.variation = UNKNOWN_VARIATION
        self.at = 0.0


class PodScrapes:
    """One source of pods. requests: how many were sent."""

    def __init__(
        self, name: str, definition: PodsSource, clock: Callable[[], Nanoseconds], process: PageProcess
    ) -> None:
        self.requests = 0
        self._name = name
        self._definition = definition
        self._clock = clock
        self._salt = secrets.token_hex(16)
        self.process = process
        self._source = PageSource(
            id=next(_IDS),
            metric=definition.metric,
            path=definition.path,
            labels=definition.labels,
            timeout_seconds=definition.timeout_seconds,
            is_tls=definition.scheme == "https",
            server_name=definition.server_name,
            ca_file=_text(definition.ca_file),
            cert_file=_text(definition.cert_file),
            key_file=_text(definition.key_file),
        )
        self._scrapes: dict[tuple[str, str], _LastScrape] = {}
        self._answers: SharedAnswers[dict[str, Sample] | Absent] = SharedAnswers(self._seconds)

    @staticmethod
    def _seconds() -> float:
        return asyncio.get_running_loop().time()

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
        last = self._last_scrape(key)
        asked = chosen(ready, sample_size(len(ready), last.variation), self._salt)
        pods: list[PageAddress] = []
        problems: Counter[str] = Counter()
        for pod in asked:
            try:
                pods.append(PageAddress(pod.name, pod.created, *address_of(pod, self._definition)))
            except NoAnswerError as error:
                problems[error.message] += 1
        self.requests += len(pods)
        answer = await self.process.scrape(
            ScrapeRequest(
                id=0,
                source=self._source,
                combine=self._definition.combine,
                max_age_seconds=self._definition.max_age_seconds,
                namespace=measured.namespace,
                name=measured.name,
                period_seconds=measured.period / SECOND,
                now_seconds=self._clock() / SECOND,
                pods=pods,
            )
        )
        if answer.refusal:
            return Absent("PagesTooCostly", answer.refusal)
        now = self._clock()
        values: dict[str, float] = {}
        for address, number in zip(pods, answer.numbers, strict=True):
            problem = number.problem or _problem_of(number.value)
            if problem:
                problems[problem] += 1
            else:
                values[address.name] = number.value
        if not values:
            # Of several problems the most frequent. Its text names no pod, so the condition does not change each time.
            return Absent("NoPodAnswered", f"no pod that was asked has a number: {problems.most_common(1)[0][0]}")
        if len(values) > 1:
            last.variation = variation_of(list(values.values()))
        window = round(max(number.seconds for number in answer.numbers) * SECOND)
        names = {pod.name for pod in asked}
        everyone = extended(values, len(asked), (pod.name for pod in ready if pod.name not in names))
        return {name: Sample(round(value * 1000), now, window) for name, value in everyone.items()}

    def _last_scrape(self, key: tuple[str, str]) -> _LastScrape:
        now = self._seconds()
        if key not in self._scrapes:
            self._scrapes = {name: last for name, last in self._scrapes.items() if now - last.at < _KEPT_SECONDS}
            self._scrapes[key] = _LastScrape()
        last = self._scrapes[key]
        last.at = now
        return last


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _problem_of(value: float) -> str:
    milli = milli_of(value)
    return milli.message if isinstance(milli, Absent) else ""


def address_of(pod: Pod, definition: PodsSource) -> tuple[str, int]:
    """A pod's IP, and the port. Raises NoAnswerError for a pod without an address of its own, or without the port."""
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
    return str(address), port


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
