"""
A decision as the store keeps it, and several of them as one blob.

A kept decision is JSON from end to end: what is a field of a spec, an observation or a status tomorrow is kept
tomorrow, and what an older release wrote can be shown by a later one, even where it cannot be decided again.

A blob begins with a byte for its form; zlib packs the rest. Decisions of one object are alike but for their numbers.
So each text is taken apart into its skeleton, written once, and its numbers, each of which is written as the difference
to the number in the same place before it: the instants of one turn then differ by the same from those of the turn
before. zlib begins with a dictionary of skeletons as they often are (`decision_dictionary`), without which a single
decision would take three times as much. What is not in it costs space and nothing else, but a dictionary belongs to its
form: a blob can be read with no other. `tests/history/decision_dictionary.py` wrote them; another one is another form.
All forms are read, and the newest is written.

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
# A digit more would not be written back as it was read: 00, 2^63.
_DIGITS_MAX = 19
NOTHING = Raw(b"null")


class PastDecision(Struct, frozen=True):
    """
    One decision of one object.

    at: the instant of the turn. body: the object as `kubectl get -o json` would have shown it after the turn: its name,
    spec and status. turn: the inputs of the decision (`core.record`), `null` for a spec that
    could not be read. release: of the operator. left_out: changes since the decision before that were too many to be
    kept.
    """

    at: Nanoseconds
    body: Raw
    turn: Raw = NOTHING
    release: str = ""
    left_out: int = 0


class _Chunk(Struct, array_like=True):
    """
    skeletons: with _PLACE for each number. columns: for each skeleton, for each of its numbers: the first number, then
    the differences; the first alone where all are equal.

    rows: (nanoseconds since the row before, skeleton of the body, skeleton of the turn, release, left_out) of each.
    """

    skeletons: list[str]
    columns: list[list[str]]
    rows: list[tuple[int, int, int, str, int]]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Chunk)


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

    befores = (0, *(each.at for each in decisions))
    rows = [
        (each.at - before, take_apart(each.body), take_apart(each.turn), each.release, each.left_out)
        for before, each in zip(befores, decisions, strict=False)
    ]
    columns = [[_written(column) for column in zip(*of, strict=True)] for of in numbers]
    packing = zlib.compressobj(zdict=_DICTIONARIES[_FORM])
    return _FORM + packing.compress(_ENCODER.encode(_Chunk(list(skeletons), columns, rows))) + packing.flush()


def skeletons_of(blob: bytes) -> list[str]:
    """What a dictionary for such blobs is made of."""
    return _chunk(blob).skeletons


def _written(column: tuple[str, ...]) -> str:
    """The numbers of one place. One that would not be read as it was written stands as it is, behind `=`."""
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
    """The numbers of one place, without an end where all are equal. Raises ValueError."""
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
        texts = [_texts(*each) for each in zip(chunk.skeletons, chunk.columns, strict=True)]
        instants = accumulate(since for since, *_ in chunk.rows)
        found = [
            PastDecision(at, next(texts[body]), next(texts[turn]), release, left_out)
            for at, (_, body, turn, release, left_out) in zip(instants, chunk.rows, strict=True)
        ]
    except (IndexError, StopIteration) as problem:
        raise ValueError(f"decisions are damaged: {type(problem).__name__}") from None
    if not found:
        raise ValueError("decisions are damaged: there is none")
    return found


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
    """The texts of a skeleton, one after the other; without an end where they are equal. Raises ValueError."""
    fixed = skeleton.split(_PLACE)
    if len(fixed) != len(columns) + 1:
        raise ValueError(f"decisions are damaged: {len(columns)} columns for {len(fixed) - 1} numbers")
    parts = [""] * (2 * len(columns) + 1)
    parts[::2] = fixed
    # Without a number there is one text, as often as it is asked for.
    for numbers in zip(*map(_read, columns), strict=False) if columns else repeat(()):
        parts[1::2] = numbers
        yield Raw("".join(parts).encode())
