"""The JSON merge patch (RFC 7386) between two states of an object: only what changed is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The patch from `before` to `after`: changed keys, null for removed ones; a list is replaced as a whole."""
    out: dict[str, Any] = {}
    for key, value in after.items():
        old = before.get(key)
        if old == value:
            continue
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            out[key] = merge_patch(old, value)
        else:
            out[key] = value
    out |= {key: None for key, value in before.items() if value is not None and key not in after}
    return out
