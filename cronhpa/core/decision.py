"""What was decided and why: enough to act on, to render as the upstream renders it, and to explain itself."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from cronhpa.core.instant import Nanoseconds
from cronhpa.core.observation import Absent
from cronhpa.core.reactive.replicas import MetricProposal


class DecisionKind(StrEnum):
    """Which way a decision went."""

    UNREACHABLE = "Unreachable"  # the scale could not be read
    SUSPENDED = "Suspended"  # somebody set the target to zero: it stays there
    ABOVE_MAXIMUM = "AboveMaximum"  # jump to the spec's bound
    BELOW_MINIMUM = "BelowMinimum"
    HELD = "Held"  # no evidence: the current count stays
    COMPUTED = "Computed"


class Rule(StrEnum):
    """A limit that changed the number; the first seven are the upstream's condition reasons."""

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


class Proposal(Struct, frozen=True, gc=False):
    """What one source asks for. reason: the arithmetic in words; until: when it ends by itself."""

    source: Source
    name: str
    role: Role
    replicas: int
    until: Nanoseconds | None = None
    reason: str = ""

    @property
    def label(self) -> str:
        return f"{self.source}/{self.name}" if self.name else str(self.source)


class Abstention(Struct, frozen=True):
    """A source that has nothing to say, and why."""

    source: Source
    name: str
    reason: str
    message: str


class Step(Struct, frozen=True):
    rule: Rule
    before: int
    after: int


class WindowState(StrEnum):
    OPEN = "Open"
    LEADING = "Leading"  # closed, and asked for already
    CLOSED = "Closed"
    SUSPENDED = "Suspended"
    UNREADABLE = "Unreadable"


class Edge(Struct, frozen=True, gc=False):
    """The next instant at which what a schedule asks for changes, and its state from then on."""

    at: Nanoseconds
    schedule: str
    state: WindowState


class Window(Struct, frozen=True, gc=False):
    """
    A schedule's state. changes: when it opens or closes next by itself. lead: how long before its start it is asked
    for, while it leads.
    """

    name: str
    state: WindowState
    changes: Nanoseconds | None
    lead: Nanoseconds | None = None


class Lead(Struct, frozen=True):
    """A measured lead that has begun: `schedule` opens at `start` and is asked for `length` before it."""

    schedule: str
    start: Nanoseconds
    length: Nanoseconds


class Decision(Struct, frozen=True):
    """
    One turn's answer.

    current: the replicas found; merged: after floors and caps; desired: what to scale to.
    recommended: what is remembered for stabilization, None where nothing is.
    steps: each limit that changed the number on its way from `merged` to `desired`.
    metrics: one for each of the spec's metrics, in order. failure: why no metric-driven count could be computed.
    named: the metric that the target came from, as the upstream's messages print it; reason: why a rescale happens,
    in the upstream's words where it is the upstream's decision. leads: the measured ones under way, to be remembered.
    """

    at: Nanoseconds
    kind: DecisionKind
    current: int
    desired: int
    decided_by: str = ""
    merged: int = 0
    recommended: int | None = None
    reason: str = ""
    named: str = ""
    minimum: int = 0
    maximum: int = 0
    timed: bool = False
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
        """The stabilization that changed the number."""
        return next((step.rule for step in self.steps if step.rule in _STABILIZED), None)

    @property
    def limited(self) -> Rule | None:
        """The limit that changed the number, the last one if there were several."""
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
    """Nothing was to be written: nothing changes, a preview, a target with another owner."""

    reason: str = ""


Outcome = Scaled | Failed | Withheld
