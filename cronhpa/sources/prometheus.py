"""
An object's number from a Prometheus, by an instant query. Only checked names of the object go into the query.

Answers are distrusted: anything but one finite, recent number of 0 or more for the object is "no value" with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Annotated, ClassVar, Literal, Self

import msgspec
from msgspec import Struct
from pydantic import AfterValidator, Field, model_validator
from yarl import URL

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.printable import printable, shortened
from cronhpa.history.imports.prometheus import PrometheusError, prometheus_url
from cronhpa.history.imports.promql import Names, QueryError, QueryTemplate
from cronhpa.kube.errors import UNREADABLE
from cronhpa.sources.no_answer import NoAnswerError, refuse_status
from cronhpa.sources.number import milli_of
from cronhpa.sources.server import ServerDefinition, ServerSource
from cronhpa.sources.source import Label, MeasuredObject, SourceContext, requests_of, text_of

# 20,000 objects of one query, and more labels than they need.
_ANSWER_BYTES = 2**23
# A dozen labels each. Eight mebibytes of nothing but commas would be 300 MB once decoded.
_COMMAS_MAX = 300_000
_AT_ONCE_BYTES = 2**17
_TOO_MANY = "its answer has more series or labels than 20,000 objects need: sum by (namespace, deployment), for example"
_TEXT_MAX = 300

# (seconds since the epoch, number as text).
_Point = tuple[float, str]


class _Series(Struct, frozen=True, gc=False):
    metric: dict[str, str] = {}
    value: _Point | None = None


class _Data(Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(Struct, frozen=True, rename="camel"):
    status: str = ""
    data: _Data = _Data()
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)
# msgspec keeps the interpreter until it has decoded a text: series are decoded one by one.
_VECTOR = msgspec.json.Decoder(list[msgspec.Raw])
_ONE_SERIES = msgspec.json.Decoder(_Series)
_SCALAR = msgspec.json.Decoder(_Point)


def _as_url(text: str) -> str:
    try:
        url = prometheus_url(text)
    except PrometheusError as problem:
        raise ValueError(str(problem)) from None
    if url.user is not None or url.password is not None:
        raise ValueError("it holds a user or a password: username and passwordFile are for that")
    return text.rstrip("/")


class PrometheusDefinition(ServerDefinition):
    """One number for each object, by an instant query."""

    metric_type: ClassVar = "External"
    action: ClassVar = "asks a Prometheus"

    query: Annotated[str, text_of(QueryTemplate)] = Field(
        min_length=1,
        max_length=16_384,
        description="PromQL; $namespace, $name, $kind, $target and $metric within the quotes of label matchers",
    )
    url: Annotated[str, AfterValidator(_as_url)] | None = Field(
        None, description="http(s)://HOST:PORT/PATH of a Prometheus; absent: CRONHPA_PROMETHEUS_URL"
    )
    join: dict[Literal["namespace", "name", "kind", "target"], Label] = Field(
        {}, description="a label of the answer's series for namespace, name, kind or target of the object"
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.join and "namespace" not in self.join and "namespace" not in QueryTemplate(self.query).names:
            raise ValueError(
                "join names no label of the namespace: objects of one name in two namespaces would get each other's "
                'numbers; add namespace: LABEL, or namespace="$namespace" to the query'
            )
        return self

    def open(self, name: str, context: SourceContext) -> PrometheusValues:
        return PrometheusValues(name, self, context.clock)

    @property
    def summary(self) -> str:
        joined = ", ".join(f"{label} is the {what}" for what, label in self.join.items())
        told = f": {joined}" if joined else ""
        return f"from {self.url}, {requests_of(QueryTemplate(self.query).names)}{told}"

    def with_defaults(self, prometheus_url: str | None) -> Self:
        if self.url is not None:
            return self
        if prometheus_url is None:
            raise ValueError("it has no url, and CRONHPA_PROMETHEUS_URL names none either: state one of them")
        return self.model_copy(update={"url": prometheus_url.rstrip("/")})

    def past_query(self, url: str) -> str | None:
        return self.query if self.url == url.rstrip("/") and not self.join else None


class Vector:
    """
    The numbers of one answer by the values of their labels.

    labels: the labels that tell objects apart; without any the answer is one number, for the object that asked.
    """

    def __init__(self, labels: Sequence[str], points: Mapping[tuple[str, ...], _Point | None]) -> None:
        self._labels = labels
        self._points = points

    def value(self, of: tuple[str, ...], now: Nanoseconds, max_age_seconds: int) -> int | Absent:
        """The number of those label values in milli-units, or why there is none."""
        if of not in self._points:
            if not self._labels:
                return Absent("NoSeries", "its query gives no series")
            labels = ", ".join(f'{label}="{value}"' for label, value in zip(self._labels, of, strict=True))
            return Absent("NoSeries", f"no series of its query's answer has {labels}")
        point = self._points[of]
        if point is None:
            expected = "for one object" if self._labels else "where one is meant, such as a sum(...) of them"
            return Absent("NotOne", f"its query gives several series {expected}")
        return milli_value(point, now, max_age_seconds)


class PrometheusValues(ServerSource[Vector]):
    """One Prometheus source."""

    def __init__(self, name: str, definition: PrometheusDefinition, clock: Callable[[], Nanoseconds]) -> None:
        self._name = name
        self._definition = definition
        self._clock = clock
        self._template = QueryTemplate(definition.query)
        self._labels = tuple(definition.join.values())
        self._url = URL(f"{definition.url}/api/v1/query")
        super().__init__(name, definition, self._url.host or "", self._template.names)

    async def value(self, measured: MeasuredObject) -> int | Absent:
        """The number of an object in milli-units, or why there is none."""
        texts = measured.texts
        try:
            query = self._template.filled(Names.of(**texts, metric=self._name))
        except QueryError as problem:
            return Absent("BadName", str(problem))
        answer = await self.ask(query, measured, lambda: self._query(query))
        if isinstance(answer, NoAnswerError):
            return Absent(answer.reason, answer.message)
        of = tuple(texts[name] for name in self._definition.join)
        return answer.value(of, self._clock(), self._definition.max_age_seconds)

    async def _query(self, query: str) -> Vector:
        # By default Prometheus would return a series for five minutes after its end.
        form = {"query": query, "lookback_delta": f"{self._definition.max_age_seconds}s"}
        response, answer = await self._connection.read(
            "POST", self._url, bytes_max=_ANSWER_BYTES, headers={"Accept": "application/json"}, form=form
        )
        # With these two, Prometheus states in the body what is wrong with the query.
        if response.status not in {400, 422}:
            refuse_status(response.status)
        return await self._connection.parsed(
            lambda: read_vector(answer, self._labels), is_short=len(answer) <= _AT_ONCE_BYTES
        )


def read_vector(body: bytes, labels: Sequence[str]) -> Vector:
    """The numbers of an answer. Raises NoAnswerError for an answer of another API, and for an error of Prometheus."""
    if body.count(b",") > _COMMAS_MAX:
        raise NoAnswerError("TooLarge", _TOO_MANY)
    try:
        answer = _ANSWER.decode(body)
        if answer.status == "error" or answer.error:
            reason = printable(shortened(answer.error or "no reason", _TEXT_MAX))
            raise NoAnswerError("QueryRefused", f"it refused the query: {reason}")
        if answer.status != "success":
            raise NoAnswerError("Malformed", "its answer is none of Prometheus' HTTP API")
        match answer.data.result_type:
            case "scalar":
                return Vector((), {(): _SCALAR.decode(answer.data.result)})
            case "vector":
                return Vector(labels, _by_labels(map(_ONE_SERIES.decode, _VECTOR.decode(answer.data.result)), labels))
            case other:
                reason = printable(shortened(other, _TEXT_MAX))
                raise NoAnswerError("NoNumbers", f"its query gives a {reason}: an instant vector or a scalar is needed")
    except UNREADABLE:
        raise NoAnswerError("Malformed", "its answer is none of Prometheus' HTTP API") from None


def _by_labels(series: Iterable[_Series], labels: Sequence[str]) -> dict[tuple[str, ...], _Point | None]:
    """A point for each combination of label values, None where several series have it. A histogram's is no number."""
    points: dict[tuple[str, ...], _Point | None] = {}
    for one in series:
        of = tuple([one.metric.get(label, "") for label in labels])
        point = one.value if one.value is not None else (0.0, "a histogram")
        points[of] = None if of in points else point
    return points


def milli_value(point: _Point, now: Nanoseconds, max_age_seconds: int) -> int | Absent:
    """A number with its instant in milli-units, or why it is no value."""
    at, text = point
    try:
        # Python reads 1_000, too, and the digits of every script.
        value = float(text if text.isascii() and "_" not in text else "")
    except ValueError:
        return Absent("NoNumber", f"{printable(shortened(text, _TEXT_MAX))!r} is no number")
    if not isfinite(at) or abs(now / SECOND - at) > max_age_seconds:
        # A clock that is ahead makes old numbers look new.
        return Absent("Stale", f"its number is more than {max_age_seconds} s away from the operator's clock")
    return milli_of(value)
