"""The parts of Kubernetes objects that a report reads, and whether an object of a file has their shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert

_MISMATCH = re.compile(r"Expected `(.+?)(?: \| null)?`, got `(.+)` - at `\$\.(.+)`")


class _Owner(Struct):
    kind: str
    name: str


class _Metadata(Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    labels: dict[Any, Any] | None = None
    owner_references: list[_Owner] | None = None


class _Object(Struct, rename="camel"):
    metadata: _Metadata
    kind: str
    involved_object: dict[Any, Any] | None = None


class _Resources(Struct):
    requests: dict[Any, Any] | None = None
    limits: dict[Any, Any] | None = None


class _Container(Struct):
    name: str | None = None
    resources: _Resources | None = None


class _PodSpec(Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    resources: _Resources | None = None


class _Condition(Struct):
    type: str | None = None


class _PodStatus(Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    container_statuses: list[dict[Any, Any]] | None = None


class _Pod(_Object):
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Template(Struct):
    spec: _PodSpec | None = None


class _Templated(Struct):
    template: _Template | None = None


class _Other(_Object):
    spec: _Templated | None = None


def shape_problem(body: Mapping[str, Any]) -> str:
    """Which field of an object is of another type than in the API, and what is accepted; "" if it can be read."""
    try:
        convert(body, _Pod if body.get("kind") == "Pod" else _Other)
    except ValidationError as error:
        return _MISMATCH.sub(r"\3: found \2: \1 is accepted", str(error))
    return ""
