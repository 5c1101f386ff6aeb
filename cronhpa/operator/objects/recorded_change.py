"""The last recorded change of an object's decision, and how many more changes may be recorded."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.model.instant import Nanoseconds

# Enough for a quarter of an hour in which every reconciliation of 15 s is a change.
BURST = 60


class RecordedChange(Struct):
    key: tuple[object, ...] = ()
    """The parts by which the change differs from a repetition of the one before."""
    step: int = -1
    """The step of the last recorded point."""
    allowed: float = BURST
    """How many changes may be recorded at once."""
    counted_at: Nanoseconds = 0
    """When `allowed` was computed."""
    left_out: int = 0
    """The changes that were not recorded since."""
