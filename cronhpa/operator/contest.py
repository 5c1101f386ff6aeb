"""
Contested replicas: another field manager sets back what this object writes, again and again.

Scaling goes on: the count that is found is taken for the current one, as upstream. A condition and an event say so:
neither of the two writers finds out by itself.
"""

from __future__ import annotations

from cronhpa.api.turn import Status
from cronhpa.core.instant import MINUTE, Nanoseconds
from cronhpa.core.spec import TargetRef

REASON = "ReplicasContested"
_REVERSALS = 3
_WITHIN = 10 * MINUTE


class Contest:
    """
    The scale writes of one object that somebody reversed.

    problem: the sentence of the condition, "" while the replicas are not contested. is_unnamed: whether the
    other manager's name is still to be looked up.
    """

    __slots__ = ("_reversals", "_written", "is_unnamed", "problem")

    def __init__(self) -> None:
        self.problem = ""
        self.is_unnamed = False
        self._written: int | None = None
        self._reversals: tuple[Nanoseconds, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether a turn may change the contest even if nobody sets the replicas back."""
        return bool(self._reversals) or self.is_unnamed

    @classmethod
    def resumed(cls, status: Status, now: Nanoseconds) -> Contest | None:
        """The contest that the status reports, written by an earlier process; None if it reports none."""
        told = [item for item in status.get("conditions", ()) if item.get("type") == "TargetOwned"]
        if not told or told[0].get("reason") != REASON:
            return None
        contest = cls()
        contest.problem = str(told[0].get("message", ""))
        contest._reversals = (now,) * _REVERSALS
        return contest

    def wrote(self, replicas: int | None) -> None:
        """Notes a count that was written; None for a write that may or may not have been done."""
        self._written = replicas

    def found(self, current: int, now: Nanoseconds) -> None:
        """
        Notes the count at the begin of a turn.

        Any other count than the one written last is a reversal of that write, whoever made it. One alone is a person
        with `kubectl scale`; three within ten minutes are a program.
        """
        reversals = tuple(at for at in self._reversals if now - _WITHIN < at <= now)
        if self._written is not None and current != self._written:
            reversals = (*reversals, now)[-_REVERSALS:]
            self._written = None
            self.is_unnamed = not self.problem and len(reversals) == _REVERSALS
        self._reversals = reversals
        if not reversals:
            self.problem, self.is_unnamed = "", False

    def name(self, manager: str, target: TargetRef) -> None:
        """Takes down who it is; "" where the API server does not tell."""
        self.is_unnamed = False
        who = f"field manager {manager}" if manager else "another field manager"
        # Without a count: a text that changes would be a status write each time.
        self.problem = (
            f"{who} has set back the replicas of {target.kind}/{target.name} {_REVERSALS} times within"
            f" {_WITHIN // MINUTE} minutes, and each turn changes them again:"
            " leave spec.replicas out of what it applies"
        )
