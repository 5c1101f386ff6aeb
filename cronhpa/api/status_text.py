"""A status as the JSON object that the API serves, and the length of its texts."""

from __future__ import annotations

from typing import Any

from cronhpa.core.model.printable import shortened

Status = dict[str, Any]
Condition = dict[str, Any]
_TEXT_MAX = 4096


def condition_of(status: Status, kind: str) -> Condition:
    """The condition of a type; {} without it. If somebody else wrote two, the first one counts."""
    return next((condition for condition in status.get("conditions") or () if condition.get("type") == kind), {})


def clip(text: str, length: int = _TEXT_MAX) -> str:
    """The text, cut for a field of type `Sentences` (`Text` holds less): other servers' texts may be of any length."""
    return shortened(text, length)
