"""
The answer of Prometheus' instant query, and the one number of an object in it.

Answers are distrusted: anything but one finite, recent number of 0 or more for the object is "no value" with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec
from msgspec import Struct

from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.core.printable import printable, shortened
from cronhpa.core.reactive.arithmetic import INT64_MAX
from cronhpa.kube.errors import UNREADABLE
from cronhpa.sources.no_answer import NoAnswerError

_TEXT_MAX = 300
_MILLI = 1000

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
_VECTOR = msgspec.json.Decoder(list[_Series])
_SCALAR = msgspec.json.Decoder(_Point)


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
            stated = ", ".join(f'{label}="{value}"' for label, value in zip(self._labels, of, strict=True))
            return Absent("NoSeries", f"no series of its query's answer has {stated}")
        point = self._points[of]
        if point is None:
            told = "for one object" if self._labels else "where one is meant, such as a sum(...) of them"
            return Absent("NotOne", f"its query gives several series {told}")
        return milli_value(point, now, max_age_seconds)


def read_vector(body: bytes, labels: Sequence[str]) -> Vector:
    """The numbers of an answer. Raises NoAnswerError for an answer of another API, and for an error of Prometheus."""
    try:
        answer = _ANSWER.decode(body)
        if answer.status == "error" or answer.error:
            told = printable(shortened(answer.error or "no reason", _TEXT_MAX))
            raise NoAnswerError("QueryRefused", f"it refused the query: {told}")
        if answer.status != "success":
            raise NoAnswerError("Malformed", "its answer is none of Prometheus' HTTP API")
        match answer.data.result_type:
            case "scalar":
                return Vector((), {(): _SCALAR.decode(answer.data.result)})
            case "vector":
                return Vector(labels, _by_labels(_VECTOR.decode(answer.data.result), labels))
            case other:
                told = printable(shortened(other, _TEXT_MAX))
                raise NoAnswerError("NoNumbers", f"its query gives a {told}: an instant vector or a scalar is needed")
    except UNREADABLE:
        raise NoAnswerError("Malformed", "its answer is none of Prometheus' HTTP API") from None


def _by_labels(series: list[_Series], labels: Sequence[str]) -> dict[tuple[str, ...], _Point | None]:
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
        value = float(text)
    except ValueError:
        return Absent("NoNumber", f"{printable(shortened(text, _TEXT_MAX))!r} is no number")
    if not isfinite(at) or abs(now / SECOND - at) > max_age_seconds:
        # A clock that is ahead makes old numbers look new.
        return Absent("Stale", f"its number is more than {max_age_seconds} s away from the operator's clock")
    return milli_of(value)


def milli_of(value: float) -> int | Absent:
    """A load in milli-units; Absent for a number that is not finite, negative or beyond any quantity."""
    if not isfinite(value):
        return Absent("NoNumber", f"its number is {value}")
    if value < 0:
        return Absent("Negative", "its number is below zero, and no load is")
    if value * _MILLI > INT64_MAX:
        return Absent("TooLarge", "its number is larger than any quantity")
    return round(value * _MILLI)
