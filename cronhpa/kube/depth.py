"""
Makes JSON shallow enough to be parsed: a list or an object that goes too deep becomes "".

Where a CRD accepts any field, as in `status.memory`, the API server accepts ten thousand levels. A parser that gives up
on one such object gives up the whole list, with everybody's objects in it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import TypeVar

import msgspec

T = TypeVar("T")

DEPTH_MAX = 100
# A list or an object that reaches a deeper level than this is cut at DEPTH_MAX + 1. The distance between the two bounds
# the number of cuts: without it, each two bytes could be one.
_TOO_DEEP = 200
# Bytes that are scanned in one step.
_BLOCK = 2048
# By how much a byte outside of strings changes the level, as a signed byte.
_STEPS = bytes({ord("["): 1, ord("{"): 1, ord("]"): 255, ord("}"): 255}.get(byte, 0) for byte in range(256))


def decoded(decode: Callable[[bytes | msgspec.Raw], T], text: bytes | msgspec.Raw) -> T:
    """The decoded text; if it is nested deeper than `decode` can read, the decoded rest that `shallow` leaves of it."""
    try:
        return decode(text)
    except RecursionError:
        return decode(shallow(bytes(text)))


def shallow(text: bytes) -> bytes:
    """
    The same JSON, with "" for each list and object at level DEPTH_MAX + 1 that goes deeper than _TOO_DEEP.

    The text may be megabytes long, so it is scanned in blocks: in most of them it is enough to count the brackets.
    """
    # Without escapes, every quote begins or ends a string.
    plain = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    parts: list[bytes] = []
    level = copied = opening = 0
    is_in_string = is_left_out = False
    for begin in range(0, len(plain), _BLOCK):
        pieces = plain[begin : begin + _BLOCK].split(b'"')
        outside = b"".join(pieces[is_in_string::2])
        ups, downs = (outside.count(one) + outside.count(other) for one, other in ((b"[", b"{"), (b"]", b"}")))
        of_strings = slice(not is_in_string, None, 2)
        is_in_string ^= len(pieces) % 2 == 0
        if (level - downs > DEPTH_MAX and (is_left_out or level + ups <= _TOO_DEEP)) or level + ups <= DEPTH_MAX:
            level += ups - downs
            continue
        pieces[of_strings] = map(bytes, map(len, pieces[of_strings]))
        steps = memoryview(b"\0".join(pieces).translate(_STEPS)).cast("b")
        levels = [*accumulate(steps, initial=level)]  # before the first byte, and behind each
        at = 0
        while True:
            if not is_left_out:
                deep = _first(levels, _TOO_DEEP + 1, at)
                before = _last(levels, DEPTH_MAX, at, deep)
                if before is not None and (begun := _first(levels, DEPTH_MAX + 1, before)) is not None:
                    opening = begin + begun - 1
                if deep is None:
                    break
                parts += (text[copied:opening], b'""')
                is_left_out, at = True, deep
            end = _first(levels, DEPTH_MAX, at)
            if end is None:
                break
            is_left_out, at, copied = False, end, begin + end
        level = levels[-1]
    return b"".join((*parts, b"" if is_left_out else text[copied:]))


def _first(levels: list[int], level: int, begin: int) -> int | None:
    """The first place of a level, from `begin` on."""
    try:
        return levels.index(level, begin)
    except ValueError:
        return None


def _last(levels: list[int], level: int, begin: int, end: int | None) -> int | None:
    """The last place of a level, from `begin` on and before `end`."""
    backwards = levels[begin:end]
    backwards.reverse()
    place = _first(backwards, level, 0)
    return None if place is None else begin + len(backwards) - 1 - place
