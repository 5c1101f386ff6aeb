"""The time for which the pods of an object were too few."""

from __future__ import annotations

from cronhpa.core.model.decision import Decision, MetricProposal
from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent, Observation, PodCounts, ScalarReading, Scale


class UnderProvisioned:
    """The time for which the metrics of an object asked for more pods than count as ready."""

    __slots__ = ("_since", "_total")

    def __init__(self) -> None:
        self._total: Nanoseconds = 0
        self._since: Nanoseconds | None = None

    def note(self, observation: Observation, decision: Decision, now: Nanoseconds) -> None:
        """Records one reconciliation, whose result is in force until the next one."""
        is_short = _is_short(observation, decision)
        if is_short is (self._since is not None):
            return
        if self._since is not None:
            self._total += max(now - self._since, 0)
        self._since = now if is_short else None

    def follow_clock(self, step: Nanoseconds) -> None:
        """The clock was set by `step`, in which no time has passed."""
        if self._since is not None:
            self._since += step

    @property
    def is_short(self) -> bool:
        """Whether the pods are too few since the newest reconciliation."""
        return self._since is not None

    def seconds(self, now: Nanoseconds) -> float:
        running = 0 if self._since is None else max(now - self._since, 0)
        return (self._total + running) / SECOND


def _is_short(observation: Observation, decision: Decision) -> bool:
    for reading, proposal in zip(observation.readings, decision.metrics, strict=False):
        if isinstance(proposal, MetricProposal) and proposal.replicas > _ready(observation, reading, proposal):
            return True
    return False


def _ready(observation: Observation, reading: PodCounts | ScalarReading | Absent, proposal: MetricProposal) -> int:
    """The pods that carry the load of a reading; for an average of one value all pods of the target."""
    if isinstance(reading, PodCounts):
        return reading.ready
    if isinstance(reading, ScalarReading) and isinstance(reading.ready, int) and proposal.value is not None:
        return reading.ready
    return observation.scale.status_replicas if isinstance(observation.scale, Scale) else 0
