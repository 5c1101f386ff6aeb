"""The methods that a spec names: the installed ones, and a sentence about those that cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import Spec
from cronhpa.forecasting.deadline import Deadlines
from cronhpa_models import catalog
from cronhpa_models.catalog import FoundMethods

# Loading another package's method imports that package.
_LOADING_SECONDS = 30.0
# The condition's message has other sentences, too.
_REASONS_LENGTH_MAX = 600


def methods_of(spec: Spec) -> FoundMethods:
    """The methods that a forecast for this spec may choose from."""
    names = spec.forecast.methods if spec.forecast is not None else ()
    return find_methods(names or catalog.DEFAULT)


@lru_cache(maxsize=64)
def find_methods(names: tuple[str, ...]) -> FoundMethods:
    """
    As catalog.find; a method that hangs during loading counts as unavailable.

    Cached: installed packages do not change while a process runs, and a search takes milliseconds.
    """
    attempt = Deadlines(_LOADING_SECONDS).attempts()
    loaded = [name for name in names if attempt(name, partial(catalog.find, (name,))) is not None]
    methods = catalog.find(loaded)
    return FoundMethods(methods.chosen, methods.unavailable | attempt.failures)


def unusable(methods: FoundMethods, failures: Mapping[str, str]) -> str:
    """
    A sentence about the methods that cannot be used, with reasons; empty if there are none.

    failures: by the name of a method, or of a variant that is not installed. Reasons share a bounded length.
    """
    if not failures:
        return ""
    most = _REASONS_LENGTH_MAX // len(failures)
    reasons = ", ".join(f"{name} ({_cut(why, most)})" for name, why in failures.items())
    if all(chosen.method.name in failures for chosen in methods.chosen):
        return f"no method can be used, constant floors and the spike hazard remain: {reasons}"
    return f"not used: {reasons}"


def noted(absent: Absent, lost: str) -> Absent:
    """The absence, with the sentence of `unusable` added to its message."""
    return Absent(absent.reason, f"{absent.message}; {lost}") if lost else absent


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
