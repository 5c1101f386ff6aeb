"""The number of an answer in milli-units: finite, 0 or more, and no larger than a quantity of Kubernetes."""

from __future__ import annotations

from math import isfinite

from cronhpa.core.metrics.arithmetic import INT64_MAX
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.quantity import parse_milli
from cronhpa.sources.no_answer import NoAnswerError

_MILLI = 1000
_KINDS = {bool: "true or false", str: "a text", list: "an array", dict: "an object", type(None): "null"}


def milli_of(value: float) -> int | Absent:
    """A load in milli-units; Absent for a number that is not finite, negative or beyond any quantity."""
    if not isfinite(value):
        return Absent("NoNumber", f"its number is {value}")
    if value < 0:
        return Absent("Negative", "its number is below zero, and no load is")
    if value * _MILLI > INT64_MAX:
        return Absent("TooLarge", "its number is larger than any quantity")
    return round(value * _MILLI)


def stated_milli(value: object, what: str) -> int:
    """
    A value of JSON or YAML in milli-units. A text counts as a quantity of Kubernetes: "64", "1k", "250m".

    what: names the value in an error. Raises NoAnswerError if it is no load.
    """
    if isinstance(value, str):
        try:
            milli = parse_milli(value)
        except ValueError:
            raise NoAnswerError("NoNumber", f"{what} is a text that is no number and no quantity") from None
        if milli < 0:
            bounded_milli(-1.0)
        return milli
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NoAnswerError("NoNumber", f"{what} is {_KINDS.get(type(value), 'something else')}, and no number")
    try:
        return bounded_milli(float(value))
    except OverflowError:
        return bounded_milli(1e300)


def bounded_milli(value: float) -> int:
    """`milli_of`, which raises NoAnswerError where that is Absent."""
    milli = milli_of(value)
    if isinstance(milli, Absent):
        raise NoAnswerError(milli.reason, milli.message)
    return milli
