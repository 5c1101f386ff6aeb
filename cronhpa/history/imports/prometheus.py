"""
Load history from a Prometheus: range queries over the HTTP API, also from before an object existed.

The query is the operator's setting and never the object's: a tenant's query under the operator's credentials would be a
leak. Of an object only checked names go into the query (`promql`). An answer is distrusted: its length, its duration
and its instants. A gap stays a gap.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from base64 import b64encode
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Self

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from cronhpa.core.model.instant import DAY, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.printable import secret_of, shortened, without_secrets
from cronhpa.core.model.spec import TargetRef
from cronhpa.history.imports.promql import ContainerName, Names, QueryError, QueryTemplate
from cronhpa.ports.client_errors import error_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from cronhpa.history.database.series import Series

# cAdvisor's own names, as the metrics API reads them. container!="" leaves out the sum over a pod that cAdvisor adds,
# POD the container that holds its network.
_ANY_POD = 'pod=~"$target-.+"'
_ALL_CONTAINERS = 'container!="", container!="POD"'
_OF_PODS = f'namespace="$namespace", {_ANY_POD}, {_ALL_CONTAINERS}'
# By a target's kind, so that pods of web-admin do not count for web. Other kinds name their pods as they like.
_PODS_OF_KIND = {
    "Deployment": 'pod=~"$target-[a-z0-9]+-[a-z0-9]{5}"',
    "ReplicaSet": 'pod=~"$target-[a-z0-9]{5}"',
    "StatefulSet": 'pod=~"$target-[0-9]+"',
}
_WARNINGS_MAX = 10
RESOLUTION: Nanoseconds = MINUTE
# A Prometheus refuses more than 11,000 points in one answer; seven days of minutes are 10,080.
_SPAN: Nanoseconds = 7 * DAY
_POINTS_MAX = _SPAN // RESOLUTION + 1
# Seven days of minutes are 400 kB with every digit of a number.
_ANSWER_BYTES = 2 * 2**20
# For a whole answer, however slowly it arrives.
_TIMEOUT_SECONDS = 60
_TEXT_MAX = 300


def default_queries(matcher: str = "") -> dict[str, str]:
    """
    The PromQL templates of cpu and memory.

    matcher: further label matchers, such as `cluster="prod"` where a Prometheus has several clusters.
    """
    of_pods = selector(_OF_PODS, matcher)
    return {
        "cpu": f"sum(rate(container_cpu_usage_seconds_total{of_pods}[2m]))",
        "memory": f"sum(container_memory_working_set_bytes{of_pods})",
    }


def selector(matchers: str, further: str = "") -> str:
    """Label matchers as PromQL has them behind a metric's name."""
    return f"{{{matchers}, {further}}}" if further else f"{{{matchers}}}"


class PrometheusError(Exception):
    """There is no history; the text states the Prometheus, the query, its answer and what is needed."""


class PrometheusUnusableError(PrometheusError):
    """The Prometheus is of no use whatever the query is: the next query would fail alike."""


class _Line(Struct, frozen=True):
    values: list[tuple[float, str]] = []
    """(seconds since the epoch, number as text)."""


class _Data(Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: list[msgspec.Raw] = []


class _Answer(Struct, frozen=True):
    status: str = ""
    data: _Data = _Data()
    error: str = ""
    warnings: list[str] = []


_ANSWER = msgspec.json.Decoder(_Answer)
_LINE = msgspec.json.Decoder(_Line)


class Prometheus:
    """One Prometheus, and the templates of its queries. `async with` keeps its connections."""

    def __init__(
        self,
        url: str,
        queries: Mapping[str, str] | None = None,
        token_file: Path | None = None,
        *,
        matcher: str = "",
        tenant: str | None = None,
        ca_file: Path | None = None,
    ) -> None:
        """
        queries: a PromQL template for each metric, beside those for cpu and memory. $namespace, $name, $kind, $target
            and $metric stand for the object's and its target's; `$$` is a dollar sign.
        token_file: holds a bearer token, and is read at every query, as such tokens are renewed. It takes the place of
            a user and a password in the URL.
        matcher: of the queries for cpu and memory, see `default_queries`.
        tenant: the value of X-Scope-OrgID, by which Mimir, Thanos and others choose whose series they answer.
        ca_file: certificates to trust in place of the system's.
        Raises PrometheusError for a text that is no URL.
        """
        address = prometheus_url(url)
        # From here on the password is in the header alone.
        self._url = str(address.with_user(None)).rstrip("/")
        self._login: str | None = None
        # The parts of the login that no text may show, even if an answer repeats them.
        self._secrets: tuple[str, ...] = ()
        if address.user is not None and token_file is None:
            pair = b64encode(f"{address.user}:{address.password or ''}".encode()).decode()
            self._login, self._secrets = f"Basic {pair}", (pair, address.password or "")
        self._queries = {**default_queries(matcher), **(queries or {})}
        self._stated = frozenset(queries or {})
        self._token_file = token_file
        self._tenant = tenant
        self._ca_file = ca_file
        self._session: aiohttp.ClientSession | None = None
        self.warnings: list[str] = []
        """What the server said beside its answers, the newest last: Thanos and others answer in part."""

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        connector = None
        if self._ca_file is not None:
            try:
                connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(self._ca_file)))
            except (OSError, ssl.SSLError) as problem:
                raise PrometheusError(f"{self._ca_file}: {problem}: a file of PEM certificates is needed") from None
        self._session = aiohttp.ClientSession(timeout=timeout, connector=connector)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def query_for(self, series: Series, target: TargetRef, container: str | None = None) -> str:
        """
        The PromQL of an object's load. Raises PrometheusError if no query is stated for its metric.

        container: whose usage the metric is; None: that of whole pods. A query that is stated does not ask for it.
        """
        template = self._queries.get(series.metric)
        if template is None:
            metrics = ", ".join(sorted(self._queries))
            raise PrometheusError(f"there is no query for {series.metric}, only for {metrics}: add one for this metric")
        if series.metric not in self._stated:
            template = template.replace(_ANY_POD, _PODS_OF_KIND.get(target.kind, _ANY_POD))
            if container is not None:
                try:
                    template = template.replace(_ALL_CONTAINERS, f'container="{ContainerName(container).text}"')
                except QueryError as problem:
                    raise PrometheusError(f"the query for {series.metric}: {problem}") from None
        return self.filled(template, series, target)

    def filled(self, template: str, series: Series, target: TargetRef) -> str:
        """A query for the names of an object and its target. Raises PrometheusError."""
        try:
            names = Names.of(
                namespace=series.namespace,
                name=series.name,
                kind=target.kind,
                target=target.name,
                metric=series.metric,
            )
            return QueryTemplate(template).filled(names)
        except QueryError as problem:
            raise PrometheusError(f"the query for {series.metric}: {problem}") from None

    async def load(
        self, query: str, begin: Nanoseconds, end: Nanoseconds
    ) -> AsyncIterator[list[tuple[Nanoseconds, float]]]:
        """
        (instant, value) of every minute in [begin, end) that has one, in order, some days at a time.

        Raises PrometheusError.
        """
        first = -(-begin // RESOLUTION) * RESOLUTION
        while first < end:
            last = min(first + _SPAN, end) - 1
            yield await self._range(query, first, last - last % RESOLUTION)
            first += _SPAN

    async def _range(self, query: str, first: Nanoseconds, last: Nanoseconds) -> list[tuple[Nanoseconds, float]]:
        form = {
            "query": query,
            "start": str(first // SECOND),
            "end": str(last // SECOND),
            "step": str(RESOLUTION // SECOND),
        }
        status, body = await self._ask(form)
        # In a thread: decoding ten thousand points would hold up the event loop, where a decision may be due.
        return await asyncio.to_thread(self._points, query, status, body, range(first // SECOND, last // SECOND + 1))

    def _points(self, query: str, status: int, body: bytes, instants: range) -> list[tuple[Nanoseconds, float]]:
        """The numbers of an answer at the seconds that were asked for. Raises PrometheusError."""
        try:
            answer = _ANSWER.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            text = body[:_TEXT_MAX].decode(errors="replace")
            message = f"{self._url}: {status}: {text!r}: an answer of Prometheus' HTTP API is needed"
            raise PrometheusUnusableError(message) from None
        if status != HTTPStatus.OK or answer.status != "success" or answer.data.result_type != "matrix":
            reason = answer.error or answer.data.result_type or answer.status
            raise PrometheusError(f"{self._url}: {status}: {shortened(reason, _TEXT_MAX)}: asked was {query}")
        self.warnings = [*self.warnings, *(shortened(text, _TEXT_MAX) for text in answer.warnings)][-_WARNINGS_MAX:]
        if len(answer.data.result) > 1:
            raise PrometheusError(
                f"{self._url}: {query} gives {len(answer.data.result)} series: "
                "one is needed, such as a sum(...) of them"
            )
        try:
            line = _LINE.decode(answer.data.result[0]) if answer.data.result else _Line()
            points = [(round(at), float(text)) for at, text in line.values]
        except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError) as problem:
            raise PrometheusError(
                f"{self._url}: {query} gives no numbers over time: {shortened(str(problem), _TEXT_MAX)}"
            ) from None
        if len(points) > _POINTS_MAX:
            raise PrometheusError(
                f"{self._url}: {query} gives {len(points)} points: {_POINTS_MAX} at most were asked for"
            )
        # Instants that were not asked for are left out.
        return [(at * SECOND, value) for at, value in points if at in instants and not math.isnan(value)]

    async def _ask(self, form: dict[str, str]) -> tuple[int, bytes]:
        """The status and the body of an answer. Raises PrometheusUnusableError."""
        assert self._session is not None, "opened by `async with`"
        where = f"{self._url}/api/v1/query_range"
        try:
            headers = {} if self._login is None else {"Authorization": self._login}
            if self._tenant is not None:
                headers["X-Scope-OrgID"] = self._tenant
            if self._token_file is not None:
                token = await asyncio.to_thread(_token, self._token_file)
                headers["Authorization"], self._secrets = f"Bearer {token}", (token,)
            # A redirect would send the credentials and the query to wherever it points.
            async with self._session.post(where, data=form, headers=headers, allow_redirects=False) as response:
                status = response.status
                if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
                    raise PrometheusUnusableError(
                        f"{where}: {status}: it points elsewhere, which is not followed: name the address that answers"
                    )
                if status == HTTPStatus.UNAUTHORIZED:
                    refused = "these credentials" if headers.get("Authorization") else "requests without credentials"
                    raise PrometheusUnusableError(
                        f"{where}: {status}: it refuses {refused}: a file with a bearer token, or a user and a "
                        "password in its URL, are accepted"
                    )
                return status, without_secrets(await _bounded(response, where), self._secrets)
        except TimeoutError:
            told = f"{where}: no whole answer within {_TIMEOUT_SECONDS} s: one that answers sooner is needed"
            raise PrometheusUnusableError(told) from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            text = shortened(error_text(problem, self._secrets), _TEXT_MAX)
            raise PrometheusUnusableError(f"{where}: {text}: is that a Prometheus?") from None


def prometheus_url(text: str) -> URL:
    """The URL of a Prometheus. Raises PrometheusError for any other text; its message shows no password."""
    problem = ""
    try:
        url = URL(text)
    except ValueError:
        url, problem = URL(), "it cannot be read"
    if not problem and (url.scheme not in {"http", "https"} or not url.host):
        problem = "it is no http or https URL with a host"
    if not problem and (url.query_string or url.fragment or "@" in url.path):
        problem = "it holds more than a host, a port and a path, or a password that is not percent-encoded"
    if problem:
        raise PrometheusError(f"the URL of Prometheus: {problem}: http://prometheus.monitoring:9090 is accepted")
    return url


def _token(file: Path) -> str:
    """Raises PrometheusUnusableError."""
    try:
        return secret_of(file.read_text(), file)
    except (OSError, ValueError) as problem:
        raise PrometheusUnusableError(f"the bearer token for Prometheus: {problem}") from None


async def _bounded(response: aiohttp.ClientResponse, where: str) -> bytes:
    """The unpacked answer. Raises PrometheusUnusableError as soon as it is too long."""
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > _ANSWER_BYTES:
            raise PrometheusUnusableError(
                f"{where}: its answer is longer than {_ANSWER_BYTES} bytes, and seven days of one series are a fifth "
                "of that: is that a Prometheus?"
            )
    return bytes(body)
