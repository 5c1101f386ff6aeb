"""
Contested replicas: another field manager sets back the replicas that this object writes, again and again.

Scaling goes on from the current count, as upstream. A condition and an event report the conflict, because neither of
the two writers can notice it.
"""

from __future__ import annotations

from cronhpa.api.status_text import Status, condition_of
from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.core.model.spec import TargetRef

REASON = "ReplicasContested"
_REVERSALS = 3
_WITHIN = 10 * MINUTE


class ReplicaConflict:
    """
    The scale writes of one object that another writer reversed.

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
        """Whether a reconciliation may change the conflict even if nobody sets the replicas back."""
        return bool(self._reversals) or self.is_unnamed

    @classmethod
    def resumed(cls, status: Status, now: Nanoseconds) -> ReplicaConflict:
        """The conflict that the status reports, if it reports one, written by an earlier process."""
        conflict = cls()
        condition = condition_of(status, "TargetOwned")
        if condition.get("reason") == REASON:
            conflict.problem = str(condition.get("message", ""))
            conflict._reversals = (now,) * _REVERSALS
        return conflict

    def wrote(self, replicas: int | None) -> None:
        """Records a written count; None for a write whose result is unknown."""
        self._written = replicas

    def found(self, current: int, now: Nanoseconds) -> None:
        """
        Records the count at the begin of a reconciliation.

        A count other than the one written last is a reversal of that write. A single reversal may be a person with
        `kubectl scale`; three within ten minutes are a program.
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
        """Records the name of the other manager; "" if the API server does not name it."""
        self.is_unnamed = False
        who = f"field manager {manager}" if manager else "another field manager"
        # Without a count: each change of the text would be a status write.
        self.problem = (
            f"{who} has set back the replicas of {target.kind}/{target.name} {_REVERSALS} times within"
            f" {_WITHIN // MINUTE} minutes, and each reconciliation changes them again:"
            " leave spec.replicas out of what it applies"
        )
