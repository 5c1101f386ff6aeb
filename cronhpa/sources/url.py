"""
An object's number from an HTTP endpoint. Only checked names of the object go into the path and the query.

The number stands at a path of JSON or YAML, is a text alone, or a sample of a Prometheus text format. Answers are
distrusted: anything but a finite number of 0 or more is "no value" with a reason. Tenants read the reason, so it
repeats nothing of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import yaml
from pydantic import Field, model_validator
from yarl import URL

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.printable import without_url_secrets
from cronhpa.history.imports.promql import Names, QueryError
from cronhpa.kube.errors import UNREADABLE
from cronhpa.kube.yaml_loader import Loader
from cronhpa.sources.exposition import ACCEPT, PAGE_BYTES, PageReader, combined, current
from cronhpa.sources.no_answer import NoAnswerError, refuse_status
from cronhpa.sources.number import bounded_milli, stated_milli
from cronhpa.sources.server import ServerDefinition, ServerSource
from cronhpa.sources.source import (
    SAMPLE_NAME,
    SAMPLE_NAME_MAX,
    Label,
    MeasuredObject,
    SourceContext,
    requests_of,
    text_of,
)
from cronhpa.sources.url_template import UrlTemplate
from cronhpa.sources.value_path import ValuePath

# The longest answer of each format. YAML is parsed in Python, which is slow.
_ANSWER_BYTES = {"json": 2**20, "yaml": 2**16, "text": 2**10, "prometheus": PAGE_BYTES}
_NODES_MAX = 10_000
# Longer answers are parsed in a thread, as they would hold up the event loop: YAML is parsed in Python.
_AT_ONCE_BYTES = {"json": 2**17, "yaml": 2**10, "text": 2**17, "prometheus": 2**13}
_ACCEPTS = {
    "json": "application/json,*/*;q=0.1",
    "yaml": "application/yaml,*/*;q=0.1",
    "text": "text/plain,*/*;q=0.1",
    "prometheus": ACCEPT,
}


class UrlDefinition(ServerDefinition):
    """One number for each object, from an HTTP endpoint that answers with one."""

    metric_type: ClassVar = "External"
    action: ClassVar = "asks a URL"

    url: Annotated[str, text_of(UrlTemplate)] = Field(
        max_length=4096,
        description="http(s)://HOST:PORT/PATH?QUERY; $namespace, $name, $kind, $target and $metric behind the host",
    )
    format: Literal["json", "yaml", "text", "prometheus"] = Field(
        "json", description="json, yaml, text (the number alone) or prometheus (a page of a text format)"
    )
    value: Annotated[str, text_of(ValuePath)] | None = Field(
        None, description="for json and yaml: the path of the number, such as queues.0.length"
    )
    metric: str | None = Field(
        None,
        pattern=SAMPLE_NAME,
        max_length=SAMPLE_NAME_MAX,
        description="for prometheus: the name of a sample, such as queue_length",
    )
    labels: dict[Label, str] = Field(
        {}, description="for prometheus: labels with the values that a sample must have to count"
    )
    combine: Literal["sum", "average", "max"] | None = Field(
        None, description="for prometheus: sum, average or max of several samples; absent: there must be one"
    )

    @model_validator(mode="after")
    def _has_place(self) -> Self:
        wanted = {"text": set(), "prometheus": {"metric"}}.get(self.format, {"value"})
        allowed = wanted | ({"labels", "combine"} if self.format == "prometheus" else set())
        fields = {field for field in ("value", "metric", "labels", "combine") if getattr(self, field)}
        if wanted - fields:
            raise ValueError(f"format {self.format} needs {min(wanted)}: it says where the number stands")
        if fields - allowed:
            raise ValueError(f"{min(fields - allowed)} means nothing with format {self.format}: leave it out")
        return self

    def open(self, name: str, context: SourceContext) -> UrlValues:
        return UrlValues(name, self, context.clock)

    @property
    def summary(self) -> str:
        return f"{self.format} from {without_url_secrets(self.url)}, {requests_of(UrlTemplate(self.url).names)}"


class UrlValues(ServerSource[int]):
    """One source of a URL."""

    def __init__(self, name: str, definition: UrlDefinition, clock: Callable[[], Nanoseconds]) -> None:
        self._name = name
        self._definition = definition
        self._clock = clock
        self._template = UrlTemplate(definition.url)
        super().__init__(name, definition, URL(self._template.origin).host or "", self._template.names)

    async def value(self, measured: MeasuredObject) -> int | Absent:
        """The number of an object in milli-units, or why there is none."""
        try:
            url = self._template.filled(Names.of(**measured.texts, metric=self._name))
        except QueryError as problem:
            return Absent("BadName", str(problem))
        answer = await self.ask(str(url), measured, lambda: self._number(url))
        return Absent(answer.reason, answer.message) if isinstance(answer, NoAnswerError) else answer

    async def _number(self, url: URL) -> int:
        kind = self._definition.format
        response, body = await self._connection.read(
            "GET", url, bytes_max=_ANSWER_BYTES[kind], headers={"Accept": _ACCEPTS[kind]}
        )
        refuse_status(response.status)
        inputs = (body, response.headers.get("Content-Type", ""), self._definition, self._clock() / SECOND)
        return await self._connection.parsed(lambda: read_number(*inputs), is_short=len(body) <= _AT_ONCE_BYTES[kind])


def read_number(body: bytes, content_type: str, definition: UrlDefinition, now_seconds: float) -> int:
    """The number of an answer in milli-units. Raises NoAnswerError where there is none."""
    if not body.strip():
        raise NoAnswerError("NoNumber", "its answer is empty")
    match definition.format:
        case "prometheus":
            return bounded_milli(_of_page(body, content_type, definition, now_seconds))
        case "text":
            return stated_milli(_text(body).strip(), "its answer")
        case "yaml":
            return _at(definition.value or "", _yaml(body))
        case _:
            return _at(definition.value or "", _json(body))


def _at(path: str, document: object) -> int:
    try:
        value = ValuePath(path).find(document)
    except LookupError:
        raise NoAnswerError("NoSuchPath", f"its answer has no {path}") from None
    return stated_milli(value, path)


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except UNREADABLE:
        raise NoAnswerError("Malformed", "its answer is no JSON") from None


def _yaml(body: bytes) -> Any:
    try:
        loader = Loader(_text(body), _NODES_MAX)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError, AttributeError, LookupError, TypeError):
        # The last four are what PyYAML stumbles over, such as `!!int x`.
        raise NoAnswerError("Malformed", "its answer is no YAML document of a few thousand values") from None


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NoAnswerError("Malformed", "its answer is no UTF-8 text") from None


def _of_page(body: bytes, content_type: str, definition: UrlDefinition, now_seconds: float) -> float:
    metric = definition.metric or ""
    page = PageReader(metric)
    page.take(body)
    metric_samples = current(page.samples(content_type, definition.labels), now_seconds, definition.max_age_seconds)
    if metric_samples.is_cumulative:
        # Several servers may answer at one address, and the counters of two of them make no rate.
        raise NoAnswerError(
            "Counter", f"{metric} counts up from a start, and its rate alone is a load: a source of pods makes rates"
        )
    if len(metric_samples.samples) > 1 and definition.combine is None:
        raise NoAnswerError(
            "NotOne", f"its page has several samples of {metric}: name one by labels, or how to combine them"
        )
    return combined([sample.value for sample in metric_samples.samples], definition.combine or "sum")
