"""
JSON lines under gzip: the form of past decisions and points in the store. `zcat` reads it.

Pure: no database, no clock.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

# Unpacked. The API server takes objects of 1.5 MiB; a block from elsewhere must not unpack to gigabytes.
BYTES_MAX = 2**24
# zlib's number for the header of gzip, with the largest window.
_GZIP = 16 + zlib.MAX_WBITS
_ENCODER = msgspec.json.Encoder()


def packed_lines(values: Iterable[object]) -> bytes:
    return zlib.compress(_ENCODER.encode_lines(values), wbits=_GZIP)


def unpacked_lines(block: bytes, decoder: msgspec.json.Decoder[T], what: str) -> list[T]:
    """
    The values of a block, one at least.

    what: a plural for errors, such as `decisions`. Raises ValueError for a block that is damaged or too long.
    """
    unpacking = zlib.decompressobj(wbits=_GZIP)
    try:
        text = unpacking.decompress(block, BYTES_MAX)
        if not unpacking.eof:
            raise ValueError(f"{what} are cut off, or unpack to more than {BYTES_MAX} bytes")
        values = decoder.decode_lines(text)
    except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise ValueError(f"{what} are damaged: {problem}") from None
    if not values:
        raise ValueError(f"{what} are damaged: there is none")
    return values
