"""
The grid of instants at which objects are due, and the instant with which the memory keeps a decision.

The objects of a namespace share a phase, so that one LIST of pod metrics serves all of them.
"""

from __future__ import annotations

import zlib

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.memory import Memory

# What is done within a tenth of its period after an instant counts as done at it, but for so long at most: of a period
# of an hour, a tenth would be longer than the windows and policies that are measured from that instant.
_LATE_DIVISOR = 10
_LATE_MAX = 3 * SECOND // 2


def following(name: str, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """The first instant after `now` on the grid of this period for a name, such as that of a namespace."""
    # Spread over the whole period: of 100 namespaces, 12 would share one of its 15 full seconds.
    phase = zlib.crc32(name.encode()) * period >> 32
    return now - (now - phase) % period + period


def caused_at(namespace: str, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """The newest grid instant of a namespace, if it caused what is done at `now`; else `now`."""
    grid = following(namespace, period, now) - period
    return now if now - grid > min(period // _LATE_DIVISOR, _LATE_MAX) else grid


def remembered_at(memory: Memory, namespace: str, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """
    The instant with which the memory keeps a decision: the newest grid instant, if it caused the decision.

    The period of a rate policy is often a multiple of the sync period. If a step had the instant at which its metrics
    arrived, it would be slightly too young at a later reconciliation whose metrics arrive faster, and the next step
    would wait another sync period. The upstream sleeps between two reconciliations, so it does not have this problem.
    """
    at = caused_at(namespace, period, now)
    # A second decision of one grid instant has its own.
    return now if any(event.at >= at for event in (*memory.scale_ups, *memory.scale_downs)) else at


def resumed_at(memory: Memory, namespace: str, period: Nanoseconds, now: Nanoseconds) -> Nanoseconds:
    """
    The instant of a process's first reconciliation in the memory, which is also the latest possible one of the process
    before.

    The former process may have had another period, and reconciliations after this grid instant: then the newest
    recommendation is not on this grid.
    """
    grid = following(namespace, period, now)
    newest = max((entry.at for entry in memory.recommendations), default=grid)
    return now if (grid - newest) % period else remembered_at(memory, namespace, period, now)
