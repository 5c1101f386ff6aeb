"""What is worth saying between two moments: edges, floors, scale writes, shortage. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.demo.observation import LABELS
from testbed.demo.twins import CRONHPA, TWINS, UPSTREAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.demo.observation import Moment, Proposal, Verdict


def events(before: Moment, after: Moment) -> Iterator[str]:
    """Sentences, the cause before its effect."""
    if after.verdict.is_made and not before.verdict.is_made:
        yield f"first decision of the CronHPA, by {after.verdict.decided_by or 'nobody yet: it holds what it finds'}"
    yield from _edges(before.verdict, after.verdict)
    yield from _floor(before.verdict, after.verdict)
    for name in TWINS:
        asked, asks = before.twins[name].replicas, after.twins[name].replicas
        if asks != asked:
            yield f"{LABELS[name]} scales {asked} to {asks}{_cause(name, after)}"
    for name in TWINS:
        if after.is_short(name) and not before.is_short(name):
            carries = after.twins[name].carries
            yield f"{LABELS[name]} is short of pods: {after.load:.3g} cores of load, its ready pods carry {carries:.3g}"
        elif before.is_short(name) and not after.is_short(name):
            yield f"{LABELS[name]} carries the load again"


def _edges(before: Verdict, after: Verdict) -> Iterator[str]:
    for name, state in (after.schedules or {}).items():
        if state != (before.schedules or {}).get(name, "Closed"):
            floor = after.proposal(f"Schedule/{name}")
            asks = f": at least {floor.replicas} replicas" if floor and state == "Open" else ""
            yield f"schedule {name}: {state.lower()}{asks}"


def _floor(before: Verdict, after: Verdict) -> Iterator[str]:
    was, now = before.proposal("Forecast"), after.proposal("Forecast")
    if now and (was is None or was.replicas != now.replicas):
        turn = "begins with" if was is None else f"{'rises' if now.replicas > was.replicas else 'falls'} to"
        yield f"forecast floor {turn} {now.replicas}{_because(now)}"
    elif was and now is None:
        yield "the forecast abstains"


def _because(proposal: Proposal) -> str:
    return f" ({proposal.reason})" if proposal.reason else ""


def _cause(name: str, after: Moment) -> str:
    if name == UPSTREAM:
        return f" ({after.upstream_says})" if after.upstream_says else ""
    assert name == CRONHPA
    return f", decided by {after.verdict.decided_by}" if after.verdict.decided_by else ""
