"""
A decision as the store keeps it, and several of them as one blob.

A kept decision is JSON: new fields of specs, observations and statuses are kept without a change here, and a later
release can show an older decision even if it cannot decide it again.

A blob begins with a byte for its form; zlib packs the rest.
- Decisions of one object are alike but for their numbers. So each text is split into a skeleton, written once, and its
  numbers, each written as the difference to the number in the same place of the text before. Most instants of a turn
  then have the same difference.
- zlib starts with a dictionary of frequent skeletons (`decision_dictionary`), which makes a single decision much
  smaller. A skeleton that is not in it only takes more space.
- A blob can be read with the dictionary of its form alone, so another dictionary needs another form.
  `tests/history/decision_dictionary.py` writes dictionaries. All forms are read, and the newest is written.

Pure: no database, no clock.
"""

from __future__ import annotations

import re
import zlib
from importlib.resources import files
from itertools import accumulate, repeat
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from cronhpa.core.instant import Nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FORM = b"\2"
_DICTIONARIES = {
    form: files("cronhpa.history").joinpath(name).read_bytes()
    for form, name in ((b"\1", "decision_dictionary.txt"), (_FORM, "decision_dictionary_2.txt"))
}
# Unpacked. The API server takes objects of 1.5 MiB; a blob from elsewhere must not unpack to gigabytes.
BLOB_BYTES_MAX = 2**24
_NUMBER = re.compile("([0-9]+)", re.ASCII)
_PLACE = "\0"
# Only numbers of so many digits, without a leading zero, become differences: int() would not give back `00`, for one.
_DIGITS_MAX = 19
NOTHING = Raw(b"null")


class PastDecision(Struct, frozen=True):
    """
    One decision of one object.

    at: the instant of the turn. body: the object as `kubectl get -o json` would have shown it after the turn: its name,
    spec and status. turn: the inputs of the decision (`core.record`), `null` for a spec that could not be read.
    release: of the operator. left_out: how many changes between the last kept decision and this one were not kept,
    because there were too many.
    """

    at: Nanoseconds
    body: Raw
    turn: Raw = NOTHING
    release: str = ""
    left_out: int = 0


class _Chunk(Struct, array_like=True):
    """
    skeletons: texts with _PLACE for each number. columns: for each number of each skeleton, the first value and then
    the differences; the first value alone if all are equal.

    rows: for each decision (nanoseconds since the one before, skeleton of the body, of the turn, release, left_out).
    """

    skeletons: list[str]
    columns: list[list[str]]
    rows: list[tuple[int, int, int, str, int]]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Chunk)


# Copied for each blob: reading the dictionary anew would take longer than packing a decision.
_PACKING = zlib.compressobj(zdict=_DICTIONARIES[_FORM])


def pack(decisions: Sequence[PastDecision]) -> bytes:
    """One blob of decisions in order. Raises ValueError for a text that is no UTF-8."""
    skeletons: dict[str, int] = {}
    numbers: list[list[list[str]]] = []

    def take_apart(text: Raw) -> int:
        parts = _NUMBER.split(bytes(text).decode())
        skeleton = skeletons.setdefault(_PLACE.join(parts[::2]), len(skeletons))
        if skeleton == len(numbers):
            numbers.append([])
        numbers[skeleton].append(parts[1::2])
        return skeleton

    befores = (0, *(decision.at for decision in decisions))
    rows = [
        (
            decision.at - before,
            take_apart(decision.body),
            take_apart(decision.turn),
            decision.release,
            decision.left_out,
        )
        for before, decision in zip(befores, decisions, strict=False)
    ]
    columns = [[_written(column) for column in zip(*of, strict=True)] for of in numbers]
    packing = _PACKING.copy()
    return _FORM + packing.compress(_ENCODER.encode(_Chunk(list(skeletons), columns, rows))) + packing.flush()


def skeletons_of(blob: bytes) -> list[str]:
    """The skeletons of a blob, of which a dictionary is made."""
    return _chunk(blob).skeletons


def _written(column: tuple[str, ...]) -> str:
    """The numbers of one place. A number that int() would not give back unchanged is written as it is, after `=`."""
    if column.count(column[0]) == len(column):
        return f"={column[0]}"
    texts, last = [], 0
    for number in column:
        if len(number) > _DIGITS_MAX or (number[0] == "0" and number != "0"):
            texts.append(f"={number}")
        else:
            value = int(number)
            texts.append(str(value - last))
            last = value
    return ",".join(texts)


def _read(column: str) -> Iterator[str]:
    """The numbers of one place; an endless iterator if all are equal. Raises ValueError."""
    if column.startswith("=") and "," not in column:
        yield from repeat(column[1:])
    last = 0
    for text in column.split(","):
        if text.startswith("="):
            yield text[1:]
        else:
            last += int(text)
            yield str(last)


def unpack(blob: bytes) -> list[PastDecision]:
    """The decisions of a blob, one at least. Raises ValueError for a blob of another form, damaged or too long."""
    chunk = _chunk(blob)
    try:
        texts = [_texts(*parts) for parts in zip(chunk.skeletons, chunk.columns, strict=True)]
        instants = accumulate(since for since, *_ in chunk.rows)
        decisions = [
            PastDecision(at, next(texts[body]), next(texts[turn]), release, left_out)
            for at, (_, body, turn, release, left_out) in zip(instants, chunk.rows, strict=True)
        ]
    except (IndexError, StopIteration) as problem:
        raise ValueError(f"decisions are damaged: {type(problem).__name__}") from None
    if not decisions:
        raise ValueError("decisions are damaged: there is none")
    return decisions


def _chunk(blob: bytes) -> _Chunk:
    dictionary = _DICTIONARIES.get(blob[:1])
    if dictionary is None:
        raise ValueError(f"decisions are written in form {blob[:1]!r}: this release reads forms up to {_FORM!r}")
    unpacking = zlib.decompressobj(zdict=dictionary)
    try:
        plain = unpacking.decompress(blob[1:], BLOB_BYTES_MAX)
        if not unpacking.eof:
            raise ValueError(f"decisions are cut off, or unpack to more than {BLOB_BYTES_MAX} bytes")
        return _DECODER.decode(plain)
    except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise ValueError(f"decisions are damaged: {problem}") from None


def _texts(skeleton: str, columns: list[str]) -> Iterator[Raw]:
    """The texts of a skeleton, one after the other; an endless iterator if all are equal. Raises ValueError."""
    fixed = skeleton.split(_PLACE)
    if len(fixed) != len(columns) + 1:
        raise ValueError(f"decisions are damaged: {len(columns)} columns for {len(fixed) - 1} numbers")
    parts = [""] * (2 * len(columns) + 1)
    parts[::2] = fixed
    # A skeleton without a number is one text, repeated.
    for numbers in zip(*map(_read, columns), strict=False) if columns else repeat(()):
        parts[1::2] = numbers
        yield Raw("".join(parts).encode())
