"""A decision and its reasons: enough to act on it, to render it as the upstream does, and to explain it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.observation import Absent, Crowd
from cronhpa.core.model.spec import Policy


class DecisionKind(StrEnum):
    """How a decision was made."""

    UNREACHABLE = "Unreachable"  # the scale could not be read
    SUSPENDED = "Suspended"  # a person set the target to zero
    ABOVE_MAXIMUM = "AboveMaximum"  # the count jumps to the spec's bound
    BELOW_MINIMUM = "BelowMinimum"
    HELD = "Held"  # no evidence: the current count stays
    COMPUTED = "Computed"


class Rule(StrEnum):
    """A limit that changed the count; the first seven are the upstream's condition reasons."""

    SCALE_UP_STABILIZED = "ScaleUpStabilized"
    SCALE_DOWN_STABILIZED = "ScaleDownStabilized"
    SCALE_UP_LIMIT = "ScaleUpLimit"
    SCALE_DOWN_LIMIT = "ScaleDownLimit"
    TOO_MANY_REPLICAS = "TooManyReplicas"
    TOO_FEW_REPLICAS = "TooFewReplicas"
    NO_EVIDENCE = "NoEvidence"
    FLOOR = "Floor"
    CAP = "Cap"


class Role(StrEnum):
    TARGET = "Target"
    FLOOR = "Floor"
    CAP = "Cap"


class Source(StrEnum):
    METRIC = "Metric"
    FORECAST = "Forecast"
    SCHEDULE = "Schedule"
    OVERRIDE = "Override"
    FALLBACK = "Fallback"
    SPEC = "Spec"
    CURRENT = "CurrentReplicas"  # no source has a proposal: the current count stays


EVENT_PREFIX = "Event/"
"""Begins the names of schedules that come from planned events; no schedule of a spec may have such a name."""
CLUSTER_EVENT_PREFIX = f"{EVENT_PREFIX}cluster:"
CALENDAR_PREFIX = "Calendar/"
"""Begins the names of schedules that come from calendars; likewise."""
FOREIGN_PREFIXES = (EVENT_PREFIX, CALENDAR_PREFIX)


def event_of(schedule: str) -> str:
    """The planned event that a schedule is of, such as `Event/sale` of `Event/sale/doors`; else the schedule itself."""
    return "/".join(schedule.split("/", 2)[:2]) if schedule.startswith(EVENT_PREFIX) else schedule


class SourceRef(Struct, frozen=True, gc=False):
    """
    One source by name: a metric, a schedule, the forecast of a metric. An override and the spec have no name.

    As text, for status, commands and logs: `Schedule/working-hours`, `Override`. A schedule of a planned event is named
    after it: `Event/black-friday`; one of a calendar: `Calendar/marketing/Sale/2026-11-27`.
    """

    source: Source
    name: str = ""

    def __str__(self) -> str:
        if self.name.startswith(FOREIGN_PREFIXES) and self.source is Source.SCHEDULE:
            return self.name
        # Concatenation: formatting an enumeration costs a microsecond, and a status has many of these.
        return self.source + "/" + self.name if self.name else str(self.source)


BY_SPEC = SourceRef(Source.SPEC)
BY_NOBODY = SourceRef(Source.CURRENT)
BY_METRICS = SourceRef(Source.METRIC)


class Recommendation(Struct, frozen=True, gc=False, omit_defaults=True):
    """The count of one reconciliation before stabilization. The memory keeps it for later ones."""

    replicas: int
    """The merged count, after floors and caps."""
    at: Nanoseconds
    metrics: int | None = None
    """The count that the metrics asked for; None if they had no proposal."""
    by: SourceRef | None = None
    """The source of the merged count; None if that was not recorded."""
    asked_at: Nanoseconds | None = None
    """
    The original time of a recommendation that was carried over to `at`: by a restart, or because a cap took its count
    away. It delays scale-down and scale-up and never causes a scale-up.
    """

    @property
    def highest(self) -> int:
        """The count that it can hold: the larger of the two."""
        return self.replicas if self.metrics is None else max(self.replicas, self.metrics)


class FloorLimit(StrEnum):
    """What keeps a forecast's floor from being larger."""

    COST = "Cost"  # more pods would not be worth their cost
    BUDGET = "Budget"  # budgetPercent is nearly used, so pods count as dearer
    CEILING = "Ceiling"  # 1.1 times the largest load of the last seven days
    MAX_FLOOR = "MaxFloorReplicas"


class ExpectedLoad(Struct, frozen=True, gc=False):
    """The load that a forecast expects, and what its floor is made of."""

    load: float
    """In the metric's unit, without headroom."""
    at: Nanoseconds
    """From when on it is expected."""
    carried: float
    """The part of it that one pod is planned to carry."""
    limit: FloorLimit
    """What keeps the floor from being larger."""
    percent: int | None = None
    """How likely it is that at least this load comes; None if not known."""
    headroom_percent: int = 0


class Ahead(Struct, frozen=True, gc=False):
    """A schedule leads: its floor counts `length` before it opens at `start`."""

    start: Nanoseconds
    length: Nanoseconds
    stated: int | None = None
    """The floor of the schedule, if another bound allows less at the start."""
    crowd: Crowd | None = None
    """The crowd that makes the lead longer; None if none does."""


class Yielding(Struct, frozen=True, gc=False):
    """A cap of `stated` is raised to the floor of a schedule that opens at the end of the cap's window."""

    stated: int


class Unmeasured(Struct, frozen=True, gc=False):
    """Not all metrics are known, and a fallback has waited long enough."""

    since: Nanoseconds
    """Since when."""
    wait: Nanoseconds
    """How long the fallback waits."""


class MetricProposal(Struct, frozen=True):
    """The count that one metric asks for."""

    name: str
    """As the upstream's messages print it."""
    replicas: int
    value: int | None = None
    """Milli-units, for `status.currentMetrics`."""
    average_value: int | None = None
    """Milli-units, for `status.currentMetrics`."""
    average_utilization: int | None = None
    """Percent, for `status.currentMetrics`."""


class Proposal(Struct, frozen=True, gc=False):
    """The count that one source asks for."""

    source: Source
    name: str
    role: Role
    replicas: int
    until: Nanoseconds | None = None
    """The end of the proposal."""
    basis: ExpectedLoad | Ahead | Yielding | Unmeasured | None = None
    """The numbers behind the count."""

    @property
    def by(self) -> SourceRef:
        return SourceRef(self.source, self.name)


class Abstention(Struct, frozen=True):
    """A source that proposes nothing, and why."""

    source: Source
    name: str
    reason: str
    message: str


class Held(Struct, frozen=True, gc=False):
    """The recommendation that a stabilization window keeps."""

    asked: int
    """The count that was recommended."""
    at: Nanoseconds
    """When it was recommended."""
    until: Nanoseconds
    """Until when the window keeps it."""
    by: SourceRef | None = None
    """Its source; None if not recorded."""
    assumed: Nanoseconds | None = None
    """The restart until which it is assumed to have been made; None if it is not assumed."""


class Rate(Struct, frozen=True, gc=False):
    """The scaling policy that limits a step."""

    start: int
    """The count at the begin of the policy's period."""
    policy: Policy | None = None
    """None: without a behavior, twice the count or four."""
    disabled: bool = False
    """selectPolicy Disabled, which has no policy."""


class Step(Struct, frozen=True):
    """A limit that changed the count."""

    rule: Rule
    before: int
    after: int
    cause: Held | Rate | SourceRef | None = None
    """The recommendation that a window held, the policy that allowed no more, or the source of the bound."""


class WindowState(StrEnum):
    OPEN = "Open"
    LEADING = "Leading"  # closed; its floor and headroom count already
    CLOSED = "Closed"
    SUSPENDED = "Suspended"
    UNREADABLE = "Unreadable"


class Edge(Struct, frozen=True, gc=False):
    """The next instant at which a schedule changes its state, and the new state."""

    at: Nanoseconds
    schedule: str
    state: WindowState


class Window(Struct, frozen=True, gc=False):
    """A schedule's state."""

    name: str
    state: WindowState
    changes: Nanoseconds | None
    """When its window opens or closes next."""
    lead: Nanoseconds | None = None
    """While it leads, the time before the start from which its bounds count."""


class Lead(Struct, frozen=True):
    """A measured lead that has begun."""

    schedule: str
    """The name of the schedule."""
    start: Nanoseconds
    """When it opens."""
    length: Nanoseconds
    """How much earlier its bounds count."""


class Decision(Struct, frozen=True):
    """
    The result of one reconciliation.

    `core/reasons` turns a decision into sentences.
    """

    at: Nanoseconds
    kind: DecisionKind
    current: int
    """The replicas of the target."""
    desired: int
    """The count to scale to."""
    decided_by: SourceRef | None = None
    """The source of `desired`, or of the count that a policy delays; CURRENT if the current count stays."""
    merged: int = 0
    """The count after floors and caps."""
    recommended: Recommendation | None = None
    """The recommendation to remember for stabilization; None if there is none."""
    named: str = ""
    """The metric that set the target, as the upstream's messages print it."""
    minimum: int = 0
    maximum: int = 0
    """The effective bounds."""
    minimum_by: SourceRef = BY_SPEC
    maximum_by: SourceRef = BY_SPEC
    timed: bool = False
    """Whether schedules or an override may move the bounds."""
    bounded: bool = False
    """Whether a floor or a cap of a schedule, an override, the forecast or the fallback is in force."""
    proposals: tuple[Proposal, ...] = ()
    abstentions: tuple[Abstention, ...] = ()
    steps: tuple[Step, ...] = ()
    """Each limit that changed the number on its way from `merged` to `desired`."""
    metrics: tuple[MetricProposal | Absent, ...] = ()
    """One for each of the spec's metrics, in order; empty if none was measured."""
    failure: Absent | None = None
    """Why no metric-driven count could be computed."""
    windows: tuple[Window, ...] = ()
    leads: tuple[Lead, ...] = ()
    """The measured leads that have begun, to be remembered."""
    next_edge: Edge | None = None
    unmeasured_since: Nanoseconds | None = None
    """Since when not all metrics are known, to be remembered; None if all are, or without a fallback."""

    @property
    def rescales(self) -> bool:
        return self.desired != self.current and self.kind is not DecisionKind.UNREACHABLE

    @property
    def stabilized(self) -> Rule | None:
        """The stabilization that changed the count."""
        return next((step.rule for step in self.steps if step.rule in _STABILIZED), None)

    @property
    def limited(self) -> Rule | None:
        """The last limit that changed the count."""
        return next((step.rule for step in reversed(self.steps) if step.rule in _LIMITED), None)


_STABILIZED = {Rule.SCALE_UP_STABILIZED, Rule.SCALE_DOWN_STABILIZED}
_LIMITED = {Rule.SCALE_UP_LIMIT, Rule.SCALE_DOWN_LIMIT, Rule.TOO_MANY_REPLICAS, Rule.TOO_FEW_REPLICAS}


class Scaled(Struct, frozen=True, tag=True):
    """The scale was written, at `at`."""

    at: Nanoseconds


class Failed(Struct, frozen=True, tag=True):
    """The API refused or could not be reached."""

    message: str


class Withheld(Struct, frozen=True, tag=True):
    """Nothing was written: no change, a preview, or a target that something else scales."""


Outcome = Scaled | Failed | Withheld
