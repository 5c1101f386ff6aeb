"""One reconciliation of an object: what was decided from which inputs, what came of it, and what is remembered."""

from __future__ import annotations

from msgspec import Struct

from cronhpa.core.model.decision import Decision, Outcome, Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Observation
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import Mode, Spec
from cronhpa.core.schedules.conflicts import Conflict


class PlaceholderProblem(Struct, frozen=True):
    """What keeps an object's placeholders from holding room for its next rise."""

    reason: str
    message: str
    """With what to do."""


class Reconciliation(Struct, frozen=True):
    """The inputs of a decision, the decision, its outcome, and the facts about the object that its status states."""

    record: Record
    """The inputs of the decision: a line of JSON that `cronhpa replay` decides again."""
    decision: Decision
    """What was decided."""
    memory: Memory
    """The memory after the reconciliation."""
    generation: int
    """The generation of the spec."""
    outcome: Outcome = Withheld()
    """What came of the decision."""
    owner_problem: str | None = None
    """Names another owner of the target; the object holds then."""
    forecast: Forecast | None = None
    """The newest forecast, which may be beyond its budget."""
    budget_used: int | None = None
    """The pod-hours that the forecast added over seven days, in permille of those without it."""
    conflicts: tuple[Conflict, ...] = ()
    """Schedules that contradict each other."""
    zone: str = "UTC"
    """The object's time zone."""
    contested: str = ""
    """Who keeps setting the replicas back; "" for nobody."""
    requests_changed: str = ""
    """Who changes the requests that a utilization is divided by; "" for nobody."""
    placeholder_problem: PlaceholderProblem | None = None
    """None while its placeholders hold room, and without placeholders."""

    @property
    def spec(self) -> Spec:
        return self.record.spec

    @property
    def observation(self) -> Observation:
        return self.record.observation

    @property
    def at(self) -> Nanoseconds:
        """The instant with which the memory keeps the reconciliation."""
        return self.decision.at

    @property
    def scales(self) -> bool:
        """Whether the target is to be scaled."""
        return self.decision.rescales and self.owner_problem is None and self.spec.mode is Mode.ACTIVE
