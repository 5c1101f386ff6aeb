"""
The fallback: a stated floor while not all metrics are known.

A metric that is unknown never lowers the count, so without a fallback the count stays at what it was. That is too few
if the source is lost at night and the load comes in the morning. The fallback is a floor: it raises the count, never
lowers it, and the metrics that are known may ask for more. It counts from the first reconciliation without a break in
which a metric was unknown; the memory keeps that instant over a restart.
"""

from __future__ import annotations

from cronhpa.core.model.decision import Abstention, Proposal, Role, Source, Unmeasured
from cronhpa.core.model.instant import Nanoseconds, format_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.spec import Spec


def unmeasured_since(spec: Spec, memory: Memory, now: Nanoseconds) -> Nanoseconds | None:
    """Since when not all metrics are known, if one is unknown now; None without a fallback."""
    if spec.fallback is None:
        return None
    return now if memory.unmeasured_since is None else min(memory.unmeasured_since, now)


def fall_back(spec: Spec, since: Nanoseconds | None, now: Nanoseconds) -> Proposal | Abstention | None:
    """
    The floor of the fallback, or that it waits; None if all metrics are known, or without a fallback.

    since: since when not all metrics are known.
    """
    fallback = spec.fallback
    if fallback is None or since is None:
        return None
    begins = since + fallback.after
    if now < begins:
        text = (
            f"not all metrics are known since {format_instant(since)}: "
            f"at least {fallback.replicas} are kept from {format_instant(begins)} on"
        )
        return Abstention(Source.FALLBACK, "", "Waiting", text)
    return Proposal(Source.FALLBACK, "", Role.FLOOR, fallback.replicas, basis=Unmeasured(since, fallback.after))
