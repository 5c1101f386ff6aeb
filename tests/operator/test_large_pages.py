"""cronhpa.operator.large_pages: memory is moved where the system has large pages, and holds what it held."""

from __future__ import annotations

import pytest

from cronhpa.operator.large_pages import use_large_pages, whole

MIB = 2**20
MAPS = """\
00400000-01000000 r-xp 00000000 fe:00 123    /usr/bin/python3.11
55d0c0100000-55d0c0900000 rw-p 00000000 00:00 0    [heap]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0
7f1000000000-7f1000400000 rw-p 00000000 00:00 0
7f2000000000-7f2000800000 rw-s 00000000 00:01 77    /dev/shm/shared (deleted)
7f3000000000-7f3000800000 ---p 00000000 00:00 0
7ffc00000000-7ffc00800000 rw-p 00000000 00:00 0    [stack]
"""


def test_large_pages_have_room_in_whole_parts_of_memory_of_our_own():
    """The heap from the next whole 2 MiB on: three of its 8 MiB's four begin in it; a mapping of 1 MiB has none."""
    heap = [0x55D0C0200000, 0x55D0C0400000, 0x55D0C0600000]

    assert [*heap, 0x7F1000000000, 0x7F1000200000] == list(whole(MAPS, 2 * MIB))


def test_what_was_moved_is_what_it_was():
    blocks = [bytes([number]) * MIB for number in range(64)]

    moved = use_large_pages()

    assert moved % MIB == 0
    assert [bytes([number]) * MIB for number in range(64)] == blocks


@pytest.mark.parametrize("enabled", [None, "always madvise [never]\n"])
def test_without_large_pages_nothing_is_moved(tmp_path, enabled):
    if enabled is not None:
        (tmp_path / "enabled").write_text(enabled)
        (tmp_path / "hpage_pmd_size").write_text("2097152")

    assert 0 == use_large_pages(tmp_path)
