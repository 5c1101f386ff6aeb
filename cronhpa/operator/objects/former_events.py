"""
The planned events that were in force in an object when the process before left it, as its status says.

A right that is missing after a restart is no evidence that an event is over: what it kept up stays up until it would
have closed, at most for a day.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from cronhpa.api.status_text import Status
from cronhpa.core.model.decision import CLUSTER_EVENT_PREFIX, EVENT_PREFIX, WindowState
from cronhpa.core.model.instant import DAY, Nanoseconds, parse_instant
from cronhpa.operator.objects.object_state import Key, ObjectState

_IN_FORCE = {WindowState.OPEN, WindowState.LEADING, WindowState.UNREADABLE}


class FormerEvents:
    def __init__(self, now: Callable[[], Nanoseconds]) -> None:
        self._now = now
        # Until when each object that was looked at stays up, for events of its namespace and of the cluster.
        self._until: dict[tuple[Key, bool], Nanoseconds] = {}

    def was_in_force(self, state: ObjectState, *, of_cluster: bool) -> bool:
        """Whether an event was in force in an object when it was looked at first, and would not have closed yet."""
        looked_at = state.key, of_cluster
        until = self._until.get(looked_at)
        if until is None:
            until = _until(state.served.status, self._now(), of_cluster=of_cluster)
        is_in_force = self._now() < until
        self._until[looked_at] = until if is_in_force else 0
        return is_in_force

    def any_in_force(self, among: Container[Key]) -> bool:
        """Whether an event was in force in one of these objects, as far as each was looked at. Forgets the others."""
        self._until = {looked_at: until for looked_at, until in self._until.items() if looked_at[0] in among}
        return any(self._until.values())


def _until(status: Status, now: Nanoseconds, *, of_cluster: bool) -> Nanoseconds:
    """When the last event that this status has in force closes, at most in a day; 0 without one."""
    schedules = status.get("schedules")
    rows = schedules if isinstance(schedules, list) else ()
    return max((_closes(row, now) for row in rows if _is_in_force(row, of_cluster=of_cluster)), default=0)


def _is_in_force(row: Any, *, of_cluster: bool) -> bool:
    name = row.get("name") if isinstance(row, dict) else None
    if not isinstance(name, str) or not name.startswith(EVENT_PREFIX) or row.get("state") not in _IN_FORCE:
        return False
    return name.startswith(CLUSTER_EVENT_PREFIX) == of_cluster


def _closes(row: Any, now: Nanoseconds) -> Nanoseconds:
    """When an event that was in force would have closed: one that leads, or cannot be read, does not say it."""
    try:
        return min(parse_instant(row["closes"]), now + DAY)
    except (KeyError, TypeError, ValueError):
        return now + DAY
