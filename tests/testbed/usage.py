"""CPU time and memory of a process, from /proc: what the benchmarks count."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """CPU seconds, user and system, of all threads of a process since its start."""
    # The second field is the program's name in parentheses and may hold spaces: count from behind it (proc(5)).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; pages shared with other processes count in full."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
