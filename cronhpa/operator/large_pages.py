"""
Large pages for long-lived memory.

The objects of a fleet are read once a period, scattered over some hundred megabytes: with pages of 4 KiB most of these
reads also miss the processor's translation lookaside buffer.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
_MAPS = Path("/proc/self/maps")
# madvise(2): since Linux 6.1.
_MADV_COLLAPSE = 25
# A large page is used if this share of it is in use already, so memory grows by a third at most.
_USED_PERCENT = 75


def use_large_pages(settings: Path = _SETTINGS, maps: Path = _MAPS) -> int:
    """
    Moves memory that is in use to large pages; returns the bytes moved, 0 if the system has no large pages.

    It takes a few seconds of CPU for each gigabyte. If an administrator has turned large pages off, none are used.
    """
    moved = 0
    with suppress(OSError, AttributeError, ValueError):  # not Linux, or no large pages
        if "[never]" in (settings / "enabled").read_text():
            return 0
        size = int((settings / "hpage_pmd_size").read_text())
        library = ctypes.CDLL(None, use_errno=True)
        pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
        for at in whole(maps.read_text(), size):
            place, length = ctypes.c_void_p(at), ctypes.c_size_t(size)
            if library.mincore(place, length, pages) != 0:
                continue  # the memory was returned meanwhile
            used = sum(page & 1 for page in pages)
            if used * 100 >= len(pages) * _USED_PERCENT and library.madvise(place, length, _MADV_COLLAPSE) == 0:
                moved += size
    return moved


def whole(maps: str, size: int) -> Iterator[int]:
    """The addresses of whole large pages in anonymous, writable memory of the process."""
    for line in maps.splitlines():
        span, rights, _, _, inode, *path = line.split(maxsplit=5)
        if rights != "rw-p" or inode != "0" or path not in ([], ["[heap]"]):
            continue
        begin, end = (int(text, 16) for text in span.split("-"))
        yield from range(-(-begin // size) * size, end - size + 1, size)
