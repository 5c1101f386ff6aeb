"""One object's decision on its way to the API."""

from __future__ import annotations

import asyncio

from cronhpa.api.turn import Turn
from cronhpa.core.decision import Decision, Outcome
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.record import Record
from cronhpa.core.spec import Mode
from cronhpa.core.steady import Repetition
from cronhpa.operator.grid import LATE
from cronhpa.operator.held_status import HeldStatus, RenderedStatus
from cronhpa.operator.installations import Claim
from cronhpa.operator.object_state import ObjectState
from cronhpa.operator.repeatable import Seen
from cronhpa.operator.said import About, about
from cronhpa.operator.write_places import Urgency


class PendingWrite:
    """
    One object's decision on its way to the API.

    claim: to be written before or with anything else of it. repetition: the turn, if it is one whose numbers alone are
    written: the memory is taken over already. rendered: the status to be written, None before it is rendered.
    """

    __slots__ = (
        "budget_used",
        "claim",
        "decision",
        "forecast",
        "generation",
        "handed_over",
        "held",
        "now",
        "observation",
        "owner_problem",
        "rendered",
        "repetition",
        "seen",
        "spec",
        "state",
        "turn",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - a turn by its parts
        self,
        state: ObjectState,
        generation: int,
        turn: Record,
        decision: Decision,
        owner_problem: str | None,
        *,
        forecast: Forecast | None = None,
        budget_used: int | None = None,
        seen: Seen | None = None,
        claim: Claim | None = None,
        repetition: Repetition | None = None,
    ) -> None:
        self.state, self.generation, self.turn, self.seen = state, generation, turn, seen
        self.spec, self.observation = turn.spec, turn.observation
        self.decision, self.forecast, self.owner_problem = decision, forecast, owner_problem
        self.budget_used = budget_used
        self.claim = claim
        self.repetition = repetition
        self.now = decision.at
        self.held = HeldStatus(state)
        self.rendered: RenderedStatus | None = None
        self.handed_over = asyncio.get_running_loop().time()

    def pack(self) -> None:
        """Keeps statuses as texts while its write waits: at a shared edge thousands wait."""
        self.held.pack()
        if self.rendered is not None:
            self.rendered.pack()

    @property
    def acts(self) -> bool:
        return self.decision.rescales and self.owner_problem is None and self.spec.mode is Mode.ACTIVE

    @property
    def scaled_at(self) -> Nanoseconds:
        """The instant of a write that ends now: one that waited for long must not let the next step come early."""
        waited = round((asyncio.get_running_loop().time() - self.handed_over) * SECOND)
        return self.now + waited if waited > self.spec.options.sync_period // LATE else self.now

    @property
    def about(self) -> About:
        return about(self.state, self.generation, self.owner_problem, self.forecast, self.budget_used)

    @property
    def urgency(self) -> Urgency:
        if not self.acts:
            return Urgency.STATUS
        return Urgency.SCALE_UP if self.decision.desired > self.decision.current else Urgency.SCALE_DOWN

    @property
    def urgency_of_status(self) -> Urgency:
        return Urgency.SCALED_STATUS if self.acts else Urgency.STATUS

    def turn_after(self, outcome: Outcome, memory: Memory) -> Turn:
        """The turn to be rendered, once it has this outcome and leaves this memory."""
        state = self.state
        return Turn(
            self.spec,
            self.decision,
            outcome,
            memory,
            self.generation,
            self.owner_problem,
            state.problems,
            self.forecast,
            self.budget_used,
            state.conflicts,
            state.zone,
            self.observation,
            "" if state.contest is None else state.contest.problem,
        )
