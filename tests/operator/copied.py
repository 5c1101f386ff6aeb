"""A copy of what JSON can say, ten times as fast as copy.deepcopy: simulated hours make very many."""

from __future__ import annotations

from typing import Any


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(member) for key, member in value.items()}
    return [copied(element) for element in value] if isinstance(value, list | tuple) else value
