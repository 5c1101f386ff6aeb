"""Waiting for what a cluster does in its own time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait_until(
    read: Callable[[], T],
    accept: Callable[[T], object] = bool,
    *,
    within_s: float = 30,
    every_s: float = 0.1,
) -> T:
    """The first value of `read` that `accept` says yes to. Raises AssertionError with the last one when time is up."""
    deadline = time.monotonic() + within_s
    while not accept(value := read()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s} s in vain; last seen: {value!r}")
        time.sleep(every_s)
    return value
