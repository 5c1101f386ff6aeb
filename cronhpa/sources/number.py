"""
The number in the answer of a URL: at a path of JSON or YAML, a text alone, or a sample of a Prometheus text format.

Answers are distrusted: anything but a finite number of 0 or more is "no value" with a reason. Tenants read the reason,
so it repeats nothing of the answer.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from cronhpa.core.observation import Absent
from cronhpa.core.quantity import parse_milli
from cronhpa.kube.errors import UNREADABLE
from cronhpa.kube.yaml_loader import Loader
from cronhpa.sources.definition import UrlSource
from cronhpa.sources.exposition import PAGE_BYTES, PageReader, combined, current
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.value_path import ValuePath
from cronhpa.sources.vector import milli_of

# The longest answer of each format. YAML is parsed in Python, which is slow.
BYTES_MAX = {"json": 2**20, "yaml": 2**16, "text": 2**10, "prometheus": PAGE_BYTES}
_NODES_MAX = 10_000
_KINDS = {bool: "true or false", str: "a text", list: "an array", dict: "an object", type(None): "null"}


def read_number(body: bytes, content_type: str, definition: UrlSource, now_seconds: float) -> int:
    """The number of an answer in milli-units. Raises NoAnswerError where there is none."""
    if not body.strip():
        raise NoAnswerError("NoNumber", "its answer is empty")
    match definition.format:
        case "prometheus":
            return _bounded(_of_page(body, content_type, definition, now_seconds))
        case "text":
            return _milli(_text(body).strip(), "its answer")
        case "yaml":
            return _at(definition.value or "", _yaml(body))
        case _:
            return _at(definition.value or "", _json(body))


def _at(path: str, document: object) -> int:
    try:
        value = ValuePath(path).find(document)
    except LookupError:
        raise NoAnswerError("NoSuchPath", f"its answer has no {path}") from None
    return _milli(value, path)


def _milli(value: object, what: str) -> int:
    """A number in milli-units. A text counts as a quantity of Kubernetes: "64", "1k", "250m"."""
    if isinstance(value, str):
        try:
            milli = parse_milli(value)
        except ValueError:
            raise NoAnswerError("NoNumber", f"{what} is a text that is no number and no quantity") from None
        if milli < 0:
            _bounded(-1.0)
        return milli
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NoAnswerError("NoNumber", f"{what} is {_KINDS.get(type(value), 'something else')}, and no number")
    try:
        return _bounded(float(value))
    except OverflowError:
        return _bounded(1e300)


def _bounded(value: float) -> int:
    milli = milli_of(value)
    if isinstance(milli, Absent):
        raise NoAnswerError(milli.reason, milli.message)
    return milli


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


def _of_page(body: bytes, content_type: str, definition: UrlSource, now_seconds: float) -> float:
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
