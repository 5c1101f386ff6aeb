"""
A decision as the store keeps it, and blocks of decisions: JSON lines under gzip, which `zcat` reads.

New fields of specs, observations and statuses are kept without a change here, and a later release can show an older
decision even if it cannot decide it again.

Pure: no database, no clock.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.record import decode
from cronhpa.history.past.json_lines import packed_lines, unpacked_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cronhpa.core.model.spec import Spec

NOTHING = Raw(b"null")
# A block of about 16 decisions of 7 kB. More of them would hardly be smaller (deflate looks back 32 kB), and a block is
# packed anew with each decision that is added to it.
_FULL_BYTES = 2**17


class PastDecision(Struct, frozen=True):
    """One decision of one object."""

    at: Nanoseconds
    """The instant of the reconciliation."""
    body: Raw
    """The object as `kubectl get -o json` would have shown it afterwards: its name, spec and status."""
    inputs: Raw = NOTHING
    """The inputs of the decision (`core.record`), `null` for a spec that could not be read."""
    release: str = ""
    """The operator's release."""
    left_out: int = 0
    """How many changes between the last kept decision and this one were not kept, because there were too many."""


_DECODER = msgspec.json.Decoder(PastDecision)


def decided_spec(decision: PastDecision) -> Spec | None:
    """
    The spec by which it was decided: with the operator's settings, its calendars and planned events of that time.

    None where there is none that this release can read.
    """
    with suppress(ValueError):
        return decode(bytes(decision.inputs)).spec
    return None


def pack(decisions: Sequence[PastDecision]) -> bytes:
    """One block of decisions in order."""
    return packed_lines(decisions)


def unpack(block: bytes) -> list[PastDecision]:
    """The decisions of a block, one at least. Raises ValueError for a block that is damaged or too long."""
    return unpacked_lines(block, _DECODER, "decisions")


def is_full(decisions: Sequence[PastDecision]) -> bool:
    """Whether the next decision begins another block."""
    return sum(len(decision.body) + len(decision.inputs) for decision in decisions) >= _FULL_BYTES
