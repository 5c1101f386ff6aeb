"""The JSON merge patch (RFC 7386) between two states of an object: only what changed is sent."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

# The keys on the way to a value.
Path = tuple[str, ...]


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


def altered(
    ours: Mapping[str, Any], patch: Mapping[str, Any], answered: Mapping[str, Any], path: Path = ()
) -> Iterator[Path]:
    """The keys of `patch`, which leads to `ours`, that the API answered otherwise: it dropped or changed them."""
    for key, part in patch.items():
        own, theirs = ours.get(key), answered.get(key)
        if own == theirs:
            continue
        if isinstance(own, Mapping) and isinstance(theirs, Mapping) and isinstance(part, Mapping):
            yield from altered(own, part, theirs, (*path, key))
        else:
            yield (*path, key)


def as_answered(
    ours: Mapping[str, Any],
    patch: Mapping[str, Any],
    answered: Mapping[str, Any],
    but: Container[Path] = (),
    path: Path = (),
) -> Mapping[str, Any]:
    """
    The state that the API holds after it answered `patch`, which leads to `ours`: `ours` itself unless they differ.

    Keys in the patch count as written, whatever the answer says, and so do those in `but`, which an earlier answer
    `altered`: an API server that drops an unknown field would else get it again at each reconciliation. All other keys
    are as in the answer: somebody else may have written them meanwhile.
    """
    values = ours
    for key in {**ours, **answered}:
        own, theirs, part = ours.get(key), answered.get(key), patch.get(key)
        if own == theirs or (*path, key) in but:
            continue
        if isinstance(own, Mapping) and isinstance(theirs, Mapping) and isinstance(part or {}, Mapping):
            value: Any = as_answered(own, part or {}, theirs, but, (*path, key))
        else:
            value = own if key in patch else theirs
        if value is None:
            values = {other: value_of_other for other, value_of_other in values.items() if other != key}
        elif value is not own:
            values = {**values, key: value}
    return values
