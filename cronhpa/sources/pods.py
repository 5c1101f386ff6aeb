"""
The number of each pod of a target, read from the pods themselves.

This file owns which addresses may be asked: the IP of a ready pod of the target, as its status states it, at the port
that the source names. Never a node's, a loopback or a link-local address, nor that of a cloud's metadata service.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import count
from math import ceil, sqrt
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent, Pod, Sample
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.number import milli_of
from cronhpa.sources.page_process import PageProcess
from cronhpa.sources.page_worker import PageAddress, ScrapeRequest
from cronhpa.sources.pod_page import PageSource
from cronhpa.sources.shared import SharedAnswers
from cronhpa.sources.source import (
    SAMPLE_NAME,
    SAMPLE_NAME_MAX,
    Label,
    MeasuredObject,
    SourceContext,
    TlsDefinition,
    text_of,
)
from cronhpa.sources.url_template import checked_path

# How long an object's last scrape is remembered.
_KEPT_SECONDS = 600.0
# A replaced source shares neither connections nor counters with the one before it.
_IDS = count()

Address = IPv4Address | IPv6Address
# Metadata services whose address is not link-local: AWS and Google by IPv6, Alibaba, Azure, Oracle. And NAT64
# (RFC 6052, RFC 8215), behind which any address of IPv4 is.
_NO_PODS = tuple(
    ip_network(text)
    for text in (
        "fd00:ec2::/32",
        "fd20:ce::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.0/24",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
    )
)
_Z, _ERROR = 1.96, 0.05
POPULATION_MIN = 30
# The variation itself is measured on a sample, and is inexact.
_MARGIN = 1.25
UNKNOWN_VARIATION = 1.0
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_PORT_MAX = 65535


def _as_port(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("it is no port")  # noqa: TRY004 - pydantic tells of ValueErrors
    if isinstance(value, int) and 1 <= value <= _PORT_MAX:
        return value
    if isinstance(value, str) and _PORT_NAME.fullmatch(value):
        return value
    raise ValueError("it is no port")


class PodsDefinition(TlsDefinition):
    """One number for each ready pod of the target, read from the pods themselves."""

    metric_type: ClassVar = "Pods"
    action: ClassVar = "reads pods"

    port: Annotated[int | str, BeforeValidator(_as_port)] = Field(
        description="a number from 1 to 65535, or the name of a container's port"
    )
    metric: str = Field(
        pattern=SAMPLE_NAME,
        max_length=SAMPLE_NAME_MAX,
        description="the name of a sample, such as requests_total",
    )
    path: Annotated[str, text_of(checked_path)] = Field("/metrics", description="a path that begins with /")
    scheme: Literal["http", "https"] = Field("http", description="http or https")
    labels: dict[Label, str] = Field({}, description="labels with the values that a sample must have to count")
    combine: Literal["sum", "average", "max"] = Field(
        "sum", description="sum, average or max: how the samples of one pod become its number"
    )
    timeout_seconds: float = Field(1, gt=0, le=10, description="a number of seconds, more than 0, at most 10")
    max_age_seconds: int = Field(120, ge=1, le=3600, description="a whole number of seconds from 1 to 3600")
    pod_networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        (), description="networks such as 10.0.0.0/8 in which every pod's IP must lie"
    )

    def open(self, name: str, context: SourceContext) -> PodScrapes:
        return PodScrapes(name, self, context.clock, context.page_process)

    @property
    def summary(self) -> str:
        return f"{self.metric} at port {self.port}{self.path} of each pod"


class _LastScrape:
    """variation: of the numbers of an object's pods."""

    def __init__(self) -> None:
        self.variation = UNKNOWN_VARIATION
        self.at = 0.0


class PodScrapes:
    """One source of pods. requests: how many were sent."""

    def __init__(
        self, name: str, definition: PodsDefinition, clock: Callable[[], Nanoseconds], process: PageProcess
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

    async def value(self, measured: MeasuredObject) -> dict[str, Sample] | Absent:
        """The samples by pod name, those that are assumed included; or why there is none."""
        key = (measured.namespace, measured.name)
        return await self._answers.ask(
            (key, measured.target), key, measured.period / SECOND, lambda: self._scraped(key, measured)
        )

    async def close(self) -> None:
        """Connections are those of the process that reads the pages of all sources."""

    async def _scraped(self, key: tuple[str, str], measured: MeasuredObject) -> dict[str, Sample] | Absent:
        ready = [pod for pod in measured.pods if pod.ready == "True" and pod.phase == "Running" and not pod.deleting]
        if not ready:
            return Absent("NoReadyPod", "none of the target's pods is ready, and only ready pods are asked")
        last = self._last_scrape(key)
        sample = chosen(ready, sample_size(len(ready), last.variation), self._salt)
        pods: list[PageAddress] = []
        problems: Counter[str] = Counter()
        for pod in sample:
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
        names = {pod.name for pod in sample}
        everyone = extended(values, len(sample), (pod.name for pod in ready if pod.name not in names))
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


def address_of(pod: Pod, definition: PodsDefinition) -> tuple[str, int]:
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


def _may_be_asked(address: Address, definition: PodsDefinition) -> bool:
    if definition.pod_networks:
        return any(address in network for network in definition.pod_networks)
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        return False
    return not any(address in network for network in _NO_PODS)


def sample_size(population: int, variation: float) -> int:
    """
    How many of so many pods are asked.

    The mean of n of N pods is within 5 % of the mean of all of them at 95 % confidence where

        n >= n0 / (1 + (n0 - 1) / N),    n0 = (1.96 c / 0.05)^2

    with c the coefficient of variation: the standard deviation of the pods' numbers over their mean (Cochran, Sampling
    Techniques, 1977, chapter 4). c is that of the object's last scrape plus a quarter of it; before the first one 1. At
    least 30 pods are asked, or all of them: with fewer the normal distribution does not hold.
    """
    if population <= POPULATION_MIN:
        return population
    unbounded = (_Z * variation * _MARGIN / _ERROR) ** 2
    # The correction for a finite population is only one for n0 > 1.
    needed = ceil(unbounded / (1 + max(unbounded - 1, 0.0) / population))
    return min(population, max(POPULATION_MIN, needed))


def variation_of(values: Sequence[float]) -> float:
    """The coefficient of variation of at least two values; 0 if all are 0."""
    mean = sum(values) / len(values)
    if mean <= 0:
        return 0.0
    return sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1)) / mean


def chosen(pods: Sequence[Pod], count: int, salt: str) -> list[Pod]:
    """
    `count` of the pods, drawn by a hash of their names, so that the next draw takes the same: a rate needs two scrapes.

    salt: a secret of the operator, so that nobody can choose names that are in the sample, or out of it.
    """
    if count >= len(pods):
        return list(pods)
    return sorted(pods, key=lambda pod: zlib.crc32(f"{salt}/{pod.name}".encode()))[:count]


def extended(answered: Mapping[str, float], sample_size: int, others: Iterable[str]) -> dict[str, float]:
    """
    The numbers of the pods that answered, and their mean for those that were not asked.

    Of the pods that were not asked, the same share gets no number as of those that were asked: a pod without an answer
    is a missing pod, and the sample must not lower the share of missing pods.
    """
    names = sorted(others)
    if not answered or not names:
        return dict(answered)
    silent = round(len(names) * (sample_size - len(answered)) / sample_size)
    mean = sum(answered.values()) / len(answered)
    return {**answered, **dict.fromkeys(names[: len(names) - silent], mean)}
