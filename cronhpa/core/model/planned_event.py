"""A planned event: schedules that hold for many objects at once."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.model.decision import CLUSTER_EVENT_PREFIX, EVENT_PREFIX
from cronhpa.core.model.spec import LabelSelector, Placeholders, Schedule


class EventSchedule(Struct, frozen=True):
    """A schedule of an event, before it is written into an object."""

    schedule: Schedule
    """Its name is that within the event."""
    expected_load_percent: int | None = None
    """The load to be ready for, in percent of the object's usual load at that hour; None: none is stated."""


class PlannedEvent(Struct, frozen=True):
    """A PlannedEvent, or a ClusterPlannedEvent."""

    name: str
    namespace: str = ""
    """The namespace whose objects it concerns; "" for a ClusterPlannedEvent."""
    selector: LabelSelector = LabelSelector()
    """Of the labels of CronHPA objects."""
    namespace_selector: LabelSelector | None = None
    """Of the labels of namespaces; None: all of them. Only a ClusterPlannedEvent has one."""
    schedules: tuple[EventSchedule, ...] = ()
    reason: str = ""
    suspend: bool = False
    placeholders: Placeholders | None = None
    """Room on nodes ahead of its schedules, in objects that ask for none."""
    problems: tuple[str, ...] = ()
    """Why it cannot be read: then it has no schedules, and holds for no object."""

    @property
    def title(self) -> str:
        """
        What it is called among the schedules of an object, and in texts: `Event/black-friday`.

        A ClusterPlannedEvent may have the name of a namespace's event, and is told from it:
        `Event/cluster:black-friday`.
        """
        return f"{EVENT_PREFIX if self.namespace else CLUSTER_EVENT_PREFIX}{self.name}"

    @property
    def unsuspended(self) -> tuple[EventSchedule, ...]:
        """Its schedules that hold in their windows, unless the whole event is suspended."""
        return tuple(one for one in self.schedules if not one.schedule.suspend)

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)
