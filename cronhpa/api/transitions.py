"""
The changes from one status to the next as events: windows, an override, a forecast, a fallback, the target, who else
scales it.

Both statuses are ones that the API held, so each change makes one event: after a restart the status still has the
change, and a status that could not be written has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from cronhpa.api.events import Event
from cronhpa.api.range_text import range_text
from cronhpa.api.status_text import Status, condition_of
from cronhpa.core.model.instant import Nanoseconds, parse_instant
from cronhpa.core.model.local_time import format_ahead, local_times

# The reason of ForecastActive and FallbackActive in a reconciliation that asked neither.
_NOT_ASKED = "NotAsked"
_CONTESTED = "ReplicasContested"
_NORMAL, _WARNING = "Normal", "Warning"


def transition_events(before: Status, after: Status, zone: str, now: Nanoseconds) -> Iterator[Event]:
    """
    The events of the changes from one status to the next.

    zone: the object's time zone, for times in messages. now: tells an override that ended from one that was taken back.
    """
    if before is after or before == after or "conditions" not in after:
        return
    yield from _target(before, after)
    yield from _contested(before, after)
    yield from _override(before, after, zone, now)
    yield from _windows(before, after, zone, now)
    for event in (*_forecast(before, after), *_fallback(before, after)):
        yield replace(event, message=local_times(event.message, zone, now))


def _target(before: Status, after: Status) -> Iterator[Event]:
    """No event for a target that was never seen (`FailedGetScale` reports it), nor when the spec names another one."""
    was_lost, is_lost = _is_lost(before), _is_lost(after)
    if was_lost == is_lost or before.get("target") != after.get("target") or "conditions" not in before:
        return
    if is_lost:
        message = condition_of(after, "AbleToScale")["message"].removeprefix(_UPSTREAM_PREFIX)
        yield Event(_WARNING, "TargetLost", f"{after['target']} cannot be read, nothing is scaled: {message}")
    else:
        yield Event(_NORMAL, "TargetFound", f"{_count(after, 'currentReplicas')}: {after['target']} is there")


def _contested(before: Status, after: Status) -> Iterator[Event]:
    old, new = condition_of(before, "TargetOwned"), condition_of(after, "TargetOwned")
    if new.get("reason") == _CONTESTED != old.get("reason"):
        yield Event(_WARNING, _CONTESTED, new["message"])


_UPSTREAM_PREFIX = "the HPA controller was unable to get the target's current scale: "


def _is_lost(status: Status) -> bool:
    return condition_of(status, "AbleToScale").get("reason") == "FailedGetScale"


def _override(before: Status, after: Status, zone: str, now: Nanoseconds) -> Iterator[Event]:
    old, new = _stated(before, "Override"), _stated(after, "Override")
    if old == new:
        return
    if new:
        what = "override replaced," if old else "override"
        yield Event(_NORMAL, "OverrideSet", _effect(before, after, f"{what}{_until(new, zone, now)}"))
        return
    end = max((parse_instant(bound["until"]) for bound in old if "until" in bound), default=now)
    what = "override over" if end <= now else f"override taken back before {format_ahead(end, zone, now)}"
    yield Event(_NORMAL, "OverrideEnded", _effect(before, after, what))


def _windows(before: Status, after: Status, zone: str, now: Nanoseconds) -> Iterator[Event]:
    """
    Windows that opened or closed. A window that leads is not open yet.

    A schedule that cannot be read any more has neither opened nor closed: `SpecAccepted` names it.
    """
    old = {schedule["name"]: schedule["state"] for schedule in before.get("schedules", ())}
    new = {schedule["name"]: schedule["state"] for schedule in after.get("schedules", ())}
    for name in (*new, *(gone for gone in old if gone not in new)):
        was, now_is = old.get(name), new.get(name)
        if now_is == "Open" and was != "Open":
            until = _until(_stated(after, "Schedule", name), zone, now)
            yield Event(_NORMAL, "WindowOpened", _effect(before, after, f"{name} open{until}"))
        elif was == "Open" and now_is not in {"Open", "Unreadable"}:
            how = _CLOSED.get(now_is, "closed")
            yield Event(_NORMAL, "WindowClosed", _effect(before, after, f"{name} {how}"))


_CLOSED = {None: "no longer in the spec", "Suspended": "suspended"}


def _forecast(before: Status, after: Status) -> Iterator[Event]:
    old, new = condition_of(before, "ForecastActive"), condition_of(after, "ForecastActive")
    if _NOT_ASKED in {old.get("reason"), new.get("reason")}:
        return
    was, acts = old.get("status") == "True", new.get("status") == "True"
    if acts and not was:
        # Its worth, else what it asks for: the condition has the rest, and an event is read in a line.
        yield Event(_NORMAL, "ForecastOn", new["message"].partition("; ")[0])
    elif was and not acts:
        why = f"{new['reason']}: {new['message']}" if new else "no longer in the spec"
        yield Event(_NORMAL, "ForecastOff", why)


def _fallback(before: Status, after: Status) -> Iterator[Event]:
    old, new = condition_of(before, "FallbackActive"), condition_of(after, "FallbackActive")
    was, acts = old.get("status") == "True", new.get("status") == "True"
    if acts and not was:
        yield Event(_WARNING, "FallbackOn", new["message"])
    elif was and not acts and new.get("reason") != _NOT_ASKED:
        yield Event(_NORMAL, "FallbackOff", new.get("message", "no longer in the spec"))


# --- words -------------------------------------------------------------------------------------------------------


def _stated(status: Status, source: str, name: str | None = None) -> list[dict[str, Any]]:
    """The bounds that a source states, without their reasons."""
    return [
        {key: proposal[key] for key in ("role", "replicas", "until") if key in proposal}
        for proposal in status.get("decision", {}).get("proposals", ())
        if proposal["source"] == source and proposal.get("name") == name
    ]


def _until(schedules: list[dict[str, Any]], zone: str, now: Nanoseconds) -> str:
    end = next((bound["until"] for bound in schedules if "until" in bound), None)
    return "" if end is None else f" until {format_ahead(parse_instant(end), zone, now)}"


def _effect(before: Status, after: Status, what: str) -> str:
    """
    Such as `8 -> 16: day open until Mon 18:00 +01:00; 20 to 80 allowed, 2 to 120 before`.

    The numbers come first, and a line of a terminal has room for all: `kubectl get events` wraps no message.
    """
    old, new = (_allowed(status) for status in (before, after))
    allowed = f"{new} allowed" if old in {new, ""} else f"{new} allowed, {old} before"
    current, desired = after.get("currentReplicas"), after.get("desiredReplicas")
    if current is None:
        return f"{what}; {allowed}"
    counts = _count(after, "currentReplicas") if desired in {None, current} else f"{current} -> {desired}"
    return f"{counts}: {what}; {allowed}"


def _allowed(status: Status) -> str:
    return range_text(status.get("effectiveMinReplicas"), status.get("effectiveMaxReplicas"))


def _count(status: Status, key: str) -> str:
    number = status.get(key, 0)
    return f"{number} replica" if number == 1 else f"{number} replicas"
