"""
Load history from a Prometheus: range queries over the HTTP API, also from before an object existed.

The query is the operator's setting and never the object's: a tenant's query under the operator's credentials would be a
leak. A gap stays a gap.
"""

from __future__ import annotations

import asyncio
import math
from http import HTTPStatus
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Self

import aiohttp
import msgspec
from msgspec import Struct

from cronhpa.core.instant import DAY, MINUTE, SECOND, Nanoseconds
from cronhpa.core.spec import TargetRef

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from cronhpa.history.series import Series

# cAdvisor's own names, as the metrics API reads them. container!="" leaves out the sum over a pod that cAdvisor adds,
# POD the container that holds its network.
_OF_PODS = '{namespace="$namespace", pod=~"$target-.+", container!="", container!="POD"}'
QUERIES = {
    "cpu": f"sum(rate(container_cpu_usage_seconds_total{_OF_PODS}[2m]))",
    "memory": f"sum(container_memory_working_set_bytes{_OF_PODS})",
}
RESOLUTION: Nanoseconds = MINUTE
# A Prometheus refuses more than 11,000 points in one answer; seven days of minutes are 10,080.
_SPAN: Nanoseconds = 7 * DAY
_TIMEOUT_SECONDS = 60
_TEXT_MAX = 300


class PrometheusError(Exception):
    """No history came: which Prometheus, what was asked, what it said, what is needed."""


class _Line(Struct, frozen=True):
    """values: (seconds since the epoch, number as text)."""

    values: list[tuple[float, str]] = []


class _Data(Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: list[msgspec.Raw] = []


class _Answer(Struct, frozen=True):
    status: str = ""
    data: _Data = _Data()
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)
_LINE = msgspec.json.Decoder(_Line)


class Prometheus:
    """One Prometheus, and what is asked of it. `async with` keeps its connections."""

    def __init__(self, url: str, queries: Mapping[str, str] | None = None, token_file: Path | None = None) -> None:
        """
        queries: a PromQL template for each metric, beside those for cpu and memory. $namespace, $name, $kind, $target
            and $metric stand for the object's and its target's; `$$` is a dollar sign.
        token_file: holds a bearer token, and is read at every query, as such tokens are renewed.
        """
        self._url = url.rstrip("/")
        self._queries = {**QUERIES, **(queries or {})}
        self._token_file = token_file
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        self._session = aiohttp.ClientSession(timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def query_for(self, series: Series, target: TargetRef) -> str:
        """The PromQL of an object's load. Raises PrometheusError where there is none for its metric."""
        template = self._queries.get(series.metric)
        if template is None:
            known = ", ".join(sorted(self._queries))
            raise PrometheusError(f"there is no query for {series.metric}, only for {known}: add one for this metric")
        names = {
            "namespace": series.namespace,
            "name": series.name,
            "kind": target.kind,
            "target": target.name,
            "metric": series.metric,
        }
        try:
            return Template(template).substitute(names)
        except (KeyError, ValueError) as problem:
            accepted = ", ".join(f"${name}" for name in names)
            raise PrometheusError(
                f"the query for {series.metric} holds a {problem}: {accepted} are known, and $$ for a dollar sign"
            ) from None

    async def load(
        self, query: str, begin: Nanoseconds, end: Nanoseconds
    ) -> AsyncIterator[list[tuple[Nanoseconds, float]]]:
        """
        (instant, value) of every known minute in [begin, end), in order, some days at a time.

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
        answer = await self._ask(form)
        if len(answer.data.result) > 1:
            raise PrometheusError(
                f"{self._url}: {query} gives {len(answer.data.result)} series: "
                "one is needed, such as a sum(...) of them"
            )
        if not answer.data.result:
            return []
        try:
            line = _LINE.decode(answer.data.result[0])
        except msgspec.MsgspecError as problem:
            raise PrometheusError(f"{self._url}: {query} gives no numbers over time: {problem}") from None
        numbers = ((round(seconds) * SECOND, float(text)) for seconds, text in line.values)
        return [(at, value) for at, value in numbers if not math.isnan(value)]

    async def _ask(self, form: dict[str, str]) -> _Answer:
        assert self._session is not None, "opened by `async with`"
        where = f"{self._url}/api/v1/query_range"
        try:
            headers = {}
            if self._token_file is not None:
                token = await asyncio.to_thread(self._token_file.read_text)
                headers = {"Authorization": f"Bearer {token.strip()}"}
            async with self._session.post(where, data=form, headers=headers) as response:
                body, status = await response.read(), response.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
            raise PrometheusError(f"{where}: {problem or type(problem).__name__}: is that a Prometheus?") from None
        try:
            answer = _ANSWER.decode(body)
        except msgspec.MsgspecError:
            text = body.decode(errors="replace")[:_TEXT_MAX]
            raise PrometheusError(f"{where}: {status}: {text!r}: an answer of Prometheus' HTTP API is needed") from None
        if status != HTTPStatus.OK or answer.status != "success" or answer.data.result_type != "matrix":
            said = answer.error or answer.data.result_type or answer.status
            raise PrometheusError(f"{where}: {status}: {said[:_TEXT_MAX]}: asked was {form['query']}")
        return answer
