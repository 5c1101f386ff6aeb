"""The spec by which the operator decides: the written one, with the schedules of planned events that pick it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.spec import ControllerOptions, Schedule, Spec

_SCHEDULES = msgspec.msgpack.Decoder(tuple[Schedule, ...])


def effective_spec(text: Any, namespace: str, events: bytes) -> Spec:
    """The spec of a written one, with events packed as in `LiveObject`. Raises SpecError."""
    return with_packed(parse_spec(text, namespace, ControllerOptions()), events)


def with_packed(spec: Spec, events: bytes) -> Spec:
    """The spec with packed schedules of events."""
    return replace(spec, schedules=(*spec.schedules, *_SCHEDULES.decode(events))) if events else spec
