"""A bounded number of things among those who ask for them: nobody gets more by asking for more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

_Name = TypeVar("_Name", str, tuple[str, str])


def levelled(asked: Mapping[_Name, int], most: int) -> dict[_Name, int]:
    """What each gets, together at most `most`: who asks for little gets all of it, the others get equal shares."""
    left, given = most, dict[_Name, int]()
    # The smallest first: what they leave is shared by the others.
    for rest, key in zip(range(len(asked), 0, -1), sorted(asked, key=lambda key: (asked[key], key)), strict=True):
        given[key] = min(asked[key], left // rest)
        left -= given[key]
    return given
