"""A decision and its reasons: enough to act on it, to render it as the upstream does, and to explain it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.core.reactive.replicas import MetricProposal
from cronhpa.core.spec import Policy


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
    SPEC = "Spec"
    CURRENT = "CurrentReplicas"  # no source has a proposal: the current count stays


class SourceRef(Struct, frozen=True, gc=False):
    """
    One source by name: a metric, a schedule, the forecast of a metric. An override and the spec have no name.

    As text, for status, commands and logs: `Schedule/working-hours`, `Override`.
    """

    source: Source
    name: str = ""

    def __str__(self) -> str:
        # Concatenation: formatting an enumeration costs a microsecond, and a status has many of these.
        return self.source + "/" + self.name if self.name else str(self.source)


BY_SPEC = SourceRef(Source.SPEC)
BY_NOBODY = SourceRef(Source.CURRENT)
BY_METRICS = SourceRef(Source.METRIC)


class Recommendation(Struct, frozen=True, gc=False, omit_defaults=True):
    """
    The count of one turn before stabilization. The memory keeps it for later turns.

    replicas: the merged count, after floors and caps. metrics: the count that the metrics asked for, None if they had
    no proposal. by: the source of the merged count, None if that was not recorded.
    asked_at: set on a recommendation that nobody makes at `at`; when it was made. Such a one holds pods and keeps back
    a rise, and is never pursued: a restart assumes that it was made until `at`, or a cap took its count away.
    """

    replicas: int
    at: Nanoseconds
    metrics: int | None = None
    by: SourceRef | None = None
    asked_at: Nanoseconds | None = None

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
    """
    What a forecast expects, and what its floor is made of.

    load: in the metric's unit, without headroom; carried: what one pod is planned to carry of it. at: from when on it
    is expected. percent: how likely it is that at least this load comes, None if not known. limit: what keeps the floor
    from being larger.
    """

    load: float
    at: Nanoseconds
    carried: float
    limit: FloorLimit
    percent: int | None = None
    headroom_percent: int = 0


class Ahead(Struct, frozen=True, gc=False):
    """
    A schedule leads: its floor counts `length` before it opens at `start`.

    stated: the floor of the schedule, if another bound allows less at the start.
    """

    start: Nanoseconds
    length: Nanoseconds
    stated: int | None = None


class Yielding(Struct, frozen=True, gc=False):
    """A cap of `stated` is raised to the floor of a schedule that opens at the end of the cap's window."""

    stated: int


class Proposal(Struct, frozen=True, gc=False):
    """The count that one source asks for. until: when the proposal ends. basis: the numbers behind the count."""

    source: Source
    name: str
    role: Role
    replicas: int
    until: Nanoseconds | None = None
    basis: ExpectedLoad | Ahead | Yielding | None = None

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
    """
    The recommendation that a stabilization window keeps: `asked` for by `by` (None if not recorded), at `at`.

    assumed: the restart until which the recommendation is assumed to have been made; None if it is not assumed.
    """

    asked: int
    at: Nanoseconds
    until: Nanoseconds
    by: SourceRef | None = None
    assumed: Nanoseconds | None = None


class Rate(Struct, frozen=True, gc=False):
    """
    The scaling policy that limits a step, from the count at the begin of its period.

    policy None: without a behavior, twice the count or four. disabled: selectPolicy Disabled, which has no policy.
    """

    start: int
    policy: Policy | None = None
    disabled: bool = False


class Step(Struct, frozen=True):
    """
    A limit that changed the count.

    cause: the recommendation that a window held, the policy that allowed no more, or the source of the bound.
    """

    rule: Rule
    before: int
    after: int
    cause: Held | Rate | SourceRef | None = None


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
    """
    A schedule's state. changes: when its window opens or closes next. lead: while it leads, the time before the start
    from which its bounds count.
    """

    name: str
    state: WindowState
    changes: Nanoseconds | None
    lead: Nanoseconds | None = None


class Lead(Struct, frozen=True):
    """A measured lead that has begun: `schedule` opens at `start`, and its bounds count `length` earlier."""

    schedule: str
    start: Nanoseconds
    length: Nanoseconds


class Decision(Struct, frozen=True):
    """
    The result of one turn.

    current: the replicas of the target; merged: after floors and caps; desired: the count to scale to.
    decided_by: the source of `desired`, or of the count that a policy delays; CURRENT if the current count stays.
    bounded: whether a floor or a cap of a schedule, an override or the forecast is in force.
    recommended: the recommendation to remember for stabilization, None if there is none.
    steps: each limit that changed the number on its way from `merged` to `desired`.
    minimum_by, maximum_by: the sources of the effective bounds.
    metrics: one for each of the spec's metrics, in order. failure: why no metric-driven count could be computed.
    named: the metric that set the target, as the upstream's messages print it. leads: the measured leads that have
    begun, to be remembered.

    `core/reasons` turns a decision into sentences.
    """

    at: Nanoseconds
    kind: DecisionKind
    current: int
    desired: int
    decided_by: SourceRef | None = None
    merged: int = 0
    recommended: Recommendation | None = None
    named: str = ""
    minimum: int = 0
    maximum: int = 0
    minimum_by: SourceRef = BY_SPEC
    maximum_by: SourceRef = BY_SPEC
    timed: bool = False
    bounded: bool = False
    proposals: tuple[Proposal, ...] = ()
    abstentions: tuple[Abstention, ...] = ()
    steps: tuple[Step, ...] = ()
    metrics: tuple[MetricProposal | Absent, ...] = ()
    failure: Absent | None = None
    windows: tuple[Window, ...] = ()
    leads: tuple[Lead, ...] = ()
    next_edge: Edge | None = None

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

    reason: str = ""


Outcome = Scaled | Failed | Withheld
