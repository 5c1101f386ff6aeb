"""
The methods that a policy may choose, by the names that users write: those of this package and of other packages.

A package adds a method by an entry point in the group `cronhpa.methods`. The name of the entry point is the name that
users write: one of the `variants` of the method. A method is loaded when a user names it; if it fails, the others go
on. Importing the catalog imports numpy, but neither pandas nor the packages of single methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata, util
from typing import Any, cast

from cronhpa_models.clock_increments import ClockIncrements
from cronhpa_models.decomposed import Decomposed
from cronhpa_models.error_mixture import ErrorMixture
from cronhpa_models.exponential_smoothing import ExponentialSmoothing
from cronhpa_models.hourly_profile import HOURLY_PROFILE
from cronhpa_models.last_value import LastValue
from cronhpa_models.method import Method
from cronhpa_models.periodic_autoregression import PeriodicAutoregression
from cronhpa_models.seasonal_naive import SEASONAL_NAIVE
from cronhpa_models.time_of_week import TimeOfWeek

ENTRY_POINTS = "cronhpa.methods"
# The set with the largest gain on recorded series: docs/engineering/forecasting.md.
DEFAULT = ErrorMixture.variants

# Baselines first, the operator's own last.
_BUILT_IN: tuple[Method, ...] = (
    LastValue(),
    SEASONAL_NAIVE,
    HOURLY_PROFILE,
    TimeOfWeek(is_corrected=False),
    TimeOfWeek(is_corrected=True),
    ClockIncrements(),
    PeriodicAutoregression(),
    ExponentialSmoothing(),
    Decomposed(),
    ErrorMixture(),
)


@dataclass(frozen=True)
class ChosenMethod:
    """A method and its requested variants, in the method's order."""

    method: Method
    variants: tuple[str, ...]


@dataclass(frozen=True)
class FoundMethods:
    chosen: tuple[ChosenMethod, ...]
    unavailable: dict[str, str]
    """Why a method is not available, by requested name."""


def built_in() -> tuple[ChosenMethod, ...]:
    """Every method of this package with all of its variants, whether its packages are installed or not."""
    return tuple(ChosenMethod(method, method.variants) for method in _BUILT_IN)


def default() -> tuple[ChosenMethod, ...]:
    """The methods for a spec that names none."""
    return find(DEFAULT).chosen


def find(names: Sequence[str]) -> FoundMethods:
    """The methods with these names, in the order of their first name; variants of one method are joined."""
    built_in_by_variant = {variant: method for method in _BUILT_IN for variant in method.variants}
    methods: list[Method] = []
    unavailable: dict[str, str] = {}
    for name in dict.fromkeys(names):
        method = built_in_by_variant.get(name) or _added(name)
        reason = method if isinstance(method, str) else _missing(method)
        if isinstance(method, str) or reason:
            unavailable[name] = reason
        elif not any(method is other for other in methods):
            methods.append(method)
    wanted = set(names) - set(unavailable)
    chosen = (ChosenMethod(method, tuple(name for name in method.variants if name in wanted)) for method in methods)
    return FoundMethods(tuple(chosen), unavailable)


def _missing(method: Method) -> str:
    """A sentence about required packages that are not installed; empty if all are."""
    absent = [package for package in method.needs if util.find_spec(package.partition(".")[0]) is None]
    return f"it needs {' and '.join(absent)}, not installed here" if absent else ""


def _added(name: str) -> Method | str:
    """The method that another package adds under a name, or why there is none."""
    points = list(metadata.entry_points(group=ENTRY_POINTS, name=name))
    if not points:
        return f"no method has this name: {', '.join(_names())} are known"
    if len(points) > 1:
        packages = ", ".join(sorted(point.dist.name if point.dist else point.value for point in points))
        return f"several packages add a method of this name: {packages}; uninstall all but one"
    point = points[0]
    try:
        loaded = point.load()
        problem = _misshapen(loaded, name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others may raise anything, and other methods must go on
        return f"{point.value} cannot be loaded: {type(error).__name__}: {error}"
    return f"{point.value} is no method: {problem}" if problem else cast("Method", loaded)


def _misshapen(loaded: Any, name: str) -> str:
    """Why an object is not a Method with this variant; empty if it is one."""
    if isinstance(loaded, type):
        return f"it is the class {loaded.__name__}: an object is needed, {loaded.__name__}() for example"
    if not isinstance(getattr(loaded, "name", None), str):
        return "its `name` is no text"
    for attribute in ("variants", "needs"):
        values = getattr(loaded, attribute, None)
        if not isinstance(values, tuple) or not all(isinstance(value, str) and value for value in values):
            return f"its `{attribute}` is no tuple of names"
    absent = [verb for verb in ("fit", "decode") if not callable(getattr(loaded, verb, None))]
    if absent:
        return f"it has no `{absent[0]}`: cronhpa_models.method.Method says what is needed"
    if name not in loaded.variants:
        return f"its variants are {', '.join(loaded.variants)}: the entry point's name must be one of them"
    return ""


def _names() -> list[str]:
    added = {point.name for point in metadata.entry_points(group=ENTRY_POINTS)}
    own = [variant for method in _BUILT_IN for variant in method.variants]
    return own + sorted(added - set(own))
