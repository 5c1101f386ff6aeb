"""
The CRD's rules, run without an API server.

The rules are written once, in CEL, in the models of `resource`. The API server runs them on an applied object; this
file runs the same texts on a document, with the functions that Kubernetes adds to CEL. The models check types and
bounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec
from pydantic import ValidationError

from cronhpa.api.crd import CRON_HPA, Kind, crd_manifest
from cronhpa.api.resource.cel import Json
from cronhpa.core.model.quantity import parse_milli
from cronhpa.core.schedules.wall_clock import zone_problem

if TYPE_CHECKING:
    import cel


def broken_rules(text: Mapping[str, Any], of: Kind = CRON_HPA) -> Iterator[tuple[str, str]]:
    """
    Field and message of each rule that a spec of this kind breaks, in the API server's words.

    Yields nothing if the models cannot read the spec: the API server runs no rules after a wrong type either. Both fill
    in defaults before the rules run.
    """
    try:
        spec = of.spec_model.model_validate(text).model_dump(by_alias=True, exclude_none=True)
    except ValidationError:
        return
    yield from _broken(spec_schema(of), spec, "spec")


@lru_cache(maxsize=3)
def spec_schema(of: Kind = CRON_HPA) -> Json:
    """The OpenAPI schema of `spec`, as the kind's CRD has it."""
    root = crd_manifest(of)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec: Json = root["properties"]["spec"]
    return spec


def _broken(node: Json, value: Any, path: str) -> Iterator[tuple[str, str]]:
    checks = node.get("x-kubernetes-validations", ())
    if checks:
        context = _context(value)
        for check in checks:
            if not _holds(check["rule"], context):
                yield path + check.get("fieldPath", ""), _message(check, context)
    if isinstance(value, dict):
        for name, child in node.get("properties", {}).items():
            if name in value:
                yield from _broken(child, value[name], f"{path}.{name}")
    if isinstance(value, list):
        if node.get("x-kubernetes-list-type") in {"map", "set"}:
            yield from _doubled(node.get("x-kubernetes-list-map-keys", ()), value, path)
        for index, element in enumerate(value):
            yield from _broken(node["items"], element, f"{path}[{index}]")


def _doubled(keys: Sequence[str], items: list[Any], path: str) -> Iterator[tuple[str, str]]:
    """Items of a map list whose key an earlier item has; without keys, items of a set that an earlier item equals."""
    earlier: set[str] = set()
    for index, element in enumerate(items):
        key = msgspec.json.encode({name: element.get(name) for name in keys} if keys else element).decode()
        if key in earlier:
            yield f"{path}[{index}]", f"Duplicate value: {key}: one before it has the same, give each its own"
        earlier.add(key)


def _holds(rule: str, context: cel.Context) -> bool:
    """A rule that raises an error is broken, as in the API server: a date that does not exist, an unknown zone."""
    try:
        return _compiled(rule).execute(context) is True
    except (RuntimeError, ValueError, TypeError):
        return False


def _message(check: Json, context: cel.Context) -> str:
    if "messageExpression" in check:
        try:
            return str(_compiled(check["messageExpression"]).execute(context))
        except (RuntimeError, ValueError, TypeError):
            pass  # the API server falls back to the message, too
    return str(check["message"])


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Any:
    import cel  # noqa: PLC0415 - only commands that read a file need it

    return cel.compile(expression)


def _context(value: Any) -> cel.Context:
    import cel  # noqa: PLC0415 - as above

    context = cel.Context()
    for name, function in _FUNCTIONS.items():
        context.add_function(name, function)
    context.add_variable("self", value)
    return context


# --- what Kubernetes adds to CEL (library: strings, regex, quantity) and what the interpreter leaves out --------------


def _is_quantity(text: str) -> bool:
    try:
        parse_milli(text)
    except ValueError:
        return False
    return True


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _year(at: datetime, zone: str = "UTC") -> int:
    """The year in a zone; 0 for an unknown zone. Kubernetes raises an error; this interpreter would print one."""
    return 0 if zone_problem(zone) else at.astimezone(ZoneInfo(zone)).year


def _found(text: str, pattern: str) -> list[str]:
    return [match[0] for match in re.finditer(pattern, text)]


def _formatted(template: str, values: list[Any]) -> str:
    return template % tuple(values)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lowerAscii": str.lower,
    "trim": str.strip,
    "findAll": _found,
    "format": _formatted,
    "isQuantity": _is_quantity,
    "quantity": parse_milli,
    "sign": _sign,
    "getFullYear": _year,
}
