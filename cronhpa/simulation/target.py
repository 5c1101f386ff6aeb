"""
Pods that take time to start, under a load that those of them that are ready share equally.

- A pod that is created runs and uses nothing until it turns Ready, `start_up` later, and costs from its creation.
- Of pods that must go, those that are not ready go first, then the youngest, as a ReplicaSet does; a pod that goes
  serves nothing from that instant on.
- A pod is measured over `metric_window`, or since its creation where that is shorter, as it was `metric_delay` ago. It
  has no sample while it had been there for less than `FRESH` by then: metrics-server needs two readings of a counter.
- What a pod uses is its share of the load, also beyond what it can carry: a load is what is asked for.

Pods made together behave alike: they are kept in cohorts, and what is measured of one is measured once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import copy
from math import isnan

from msgspec import Struct

from cronhpa.core.instant import MINUTE, SECOND, Nanoseconds
from cronhpa.core.observation import Container, Pod, Sample
from cronhpa.simulation.load import Load
from cronhpa.simulation.score import ScoreAccumulator

# As in metrics-server, freshContainerMinMetricsResolution (pkg/storage/pod.go).
FRESH: Nanoseconds = 10 * SECOND
MILLI = 1000
# Older than any rule about pods that start looks at.
_LONG_AGO = 24 * 60 * MINUTE


class Environment(Struct, frozen=True):
    """
    What the world is like.

    capacity: the load that one ready pod can carry, in the load's unit.
    requests: what a pod asks for, milli-units by resource name; a Utilization target needs it.
    """

    capacity: float
    requests: Mapping[str, int] = {}
    start_up: Nanoseconds = 60 * SECOND
    metric_window: Nanoseconds = 60 * SECOND
    metric_delay: Nanoseconds = 30 * SECOND


class _Cohort:
    """Pods that were created together, oldest cohorts first in every list."""

    __slots__ = ("pods", "ready_at")

    def __init__(self, pods: list[Pod], ready_at: Nanoseconds) -> None:
        self.pods, self.ready_at = pods, ready_at


class PodGroup(Struct, frozen=True, gc=False):
    """Pods that are alike: one of them, how many there are, and what the metrics API says of each; None: nothing."""

    pod: Pod
    count: int
    sample: Sample | None


class _Share(Struct, frozen=True, gc=False):
    """The load of each ready pod from `begin` on, and what one that was always ready had served by then."""

    begin: Nanoseconds
    served: float
    load: float
    slope: float


class SimulatedTarget:
    """
    The world at `now`, which only `advance` moves, and only forward.

    It begins with `replicas` pods that have been ready for long.
    """

    def __init__(
        self, environment: Environment, load: Load, replicas: int, now: Nanoseconds, *, container: str = "main"
    ) -> None:
        self.environment = environment
        self.now = now
        self._load = load
        self._container = (Container(container, environment.requests),)
        self._made = 0
        old = [self._pod(now - _LONG_AGO, ready=True) for _ in range(replicas)]
        self._ready: list[_Cohort] = [_Cohort(old, now - _LONG_AGO + environment.start_up)] if replicas else []
        self._starting: deque[_Cohort] = deque()
        self.ready = self.replicas = replicas
        self._pods: tuple[Pod, ...] | None = None
        self._shares: deque[_Share] = deque([_Share(now, 0.0, 0.0, 0.0)])

    def fork(self) -> SimulatedTarget:
        """Another world that is as this one is now, and goes its own way."""
        other = copy(self)
        # What time changes in place; all else is replaced.
        other.__dict__ |= {
            "_ready": [_Cohort(list(each.pods), each.ready_at) for each in self._ready],
            "_starting": deque(_Cohort(list(each.pods), each.ready_at) for each in self._starting),
            "_shares": deque(self._shares),
        }
        return other

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All of them, oldest first."""
        if self._pods is None:
            self._pods = tuple(pod for cohort in (*self._ready, *self._starting) for pod in cohort.pods)
        return self._pods

    @property
    def next_ready(self) -> Nanoseconds | None:
        """When the next pods turn ready, None where none are starting."""
        return self._starting[0].ready_at if self._starting else None

    @property
    def is_settled(self) -> bool:
        """Whether all pods are Ready, and have been for longer than any window of metrics looks back."""
        earliest = self.now - self.environment.metric_delay - self.environment.metric_window
        return not self._starting and (not self._ready or self._ready[-1].ready_at <= earliest)

    def advance(self, now: Nanoseconds, accumulator: ScoreAccumulator | None = None) -> None:
        """Let the time go on to `now`, and enter what happened on the way into the accumulator."""
        at = self.now
        while at < now:
            piece = self._load.piece(at)
            end = min(now, piece.end)
            if self._starting and self._starting[0].ready_at < end:
                end = self._starting[0].ready_at
            if end > at:
                self._serve(at, end, piece.value, piece.slope)
                if accumulator is not None:
                    accumulator.book(at, end, piece.value, piece.slope, self.ready, self.replicas)
                at = end
            self._make_ready(at)
        self.now = now

    def scale(self, replicas: int) -> None:
        """Create or delete pods, at `now`."""
        if replicas > self.replicas:
            pods = [self._pod(self.now, ready=False) for _ in range(replicas - self.replicas)]
            self._starting.append(_Cohort(pods, self.now + self.environment.start_up))
        going = self.replicas - replicas
        while going > 0:
            youngest = self._starting or self._ready
            cohort = youngest[-1]
            gone = min(going, len(cohort.pods))
            going -= gone
            if youngest is self._ready:
                self.ready -= gone
            del cohort.pods[len(cohort.pods) - gone :]
            if not cohort.pods:
                youngest.pop()
        self.replicas = replicas
        self._pods = None
        self._make_ready(self.now)

    def groups(self) -> tuple[PodGroup, ...]:
        """All pods, oldest first, with what the metrics API says of them now."""
        end = self.now - self.environment.metric_delay
        earliest = end - self.environment.metric_window
        self._merge_old(earliest)
        return tuple(
            PodGroup(cohort.pods[0], len(cohort.pods), self._sample(cohort, max(earliest, self._created(cohort)), end))
            for cohort in (*self._ready, *self._starting)
        )

    def samples(self) -> dict[str, Sample]:
        """What the metrics API says of each pod now, by name."""
        found: dict[str, Sample] = {}
        for group, cohort in zip(self.groups(), (*self._ready, *self._starting), strict=True):
            if group.sample is not None:
                found.update(dict.fromkeys((pod.name for pod in cohort.pods), group.sample))
        return found

    def total(self) -> int | None:
        """The whole load averaged over the window, milli-units, as an external metric states it; None if unknown."""
        end = self.now - self.environment.metric_delay
        at = begin = end - self.environment.metric_window
        area = 0.0
        while at < end:
            piece = self._load.piece(at)
            length = min(piece.end, end) - at
            area += (piece.value + piece.slope * length / 2) * length
            at += length
        return None if isnan(area) else round(area / (end - begin) * MILLI)

    def _created(self, cohort: _Cohort) -> Nanoseconds:
        return cohort.ready_at - self.environment.start_up

    def _sample(self, cohort: _Cohort, begin: Nanoseconds, end: Nanoseconds) -> Sample | None:
        """What each pod of a cohort did over [begin, end)."""
        if end - begin < FRESH:
            return None
        done = self._done(max(begin, cohort.ready_at), end)
        return None if done is None else Sample(round(done / (end - begin) * MILLI), end, end - begin)

    def _serve(self, begin: Nanoseconds, end: Nanoseconds, value: float, slope: float) -> None:
        """Note what each ready pod does in [begin, end), in which nothing changes."""
        share, rise = (value / self.ready, slope / self.ready) if self.ready else (0.0, 0.0)
        shares = self._shares
        newest = shares[-1]
        served = newest.served + _area(newest, begin)
        shares.append(_Share(begin, 0.0 if isnan(served) else served, share, rise))
        oldest = end - self.environment.metric_window - self.environment.metric_delay
        while len(shares) > 1 and shares[1].begin <= oldest:
            shares.popleft()

    def _done(self, begin: Nanoseconds, end: Nanoseconds) -> float | None:
        """Load times nanoseconds of a pod that was ready over [begin, end]; None where a part of it is unknown."""
        if begin >= end:
            return 0.0
        first = last = self._shares[0]
        for each in self._shares:
            if each.begin >= end:
                break
            last = each
            if each.begin <= begin:
                first = each
            elif isnan(each.load):
                return None
        if isnan(first.load):
            return None
        return max(last.served + _area(last, end) - first.served - _area(first, begin), 0.0)

    def _make_ready(self, now: Nanoseconds) -> None:
        while self._starting and self._starting[0].ready_at <= now:
            cohort = self._starting.popleft()
            cohort.pods = [_made_ready(pod, cohort.ready_at) for pod in cohort.pods]
            self._ready.append(cohort)
            self.ready += len(cohort.pods)
            self._pods = None

    def _merge_old(self, earliest: Nanoseconds) -> None:
        """Cohorts that were ready before any window that is still looked at are measured alike from now on."""
        while len(self._ready) > 1 and self._ready[1].ready_at <= earliest:
            self._ready[0].pods += self._ready.pop(1).pods

    def _pod(self, created: Nanoseconds, *, ready: bool) -> Pod:
        self._made += 1
        pod = Pod(
            name=f"pod-{self._made}",
            phase="Running",
            deleting=False,
            ready="False",
            ready_since=created,
            start_time=created,
            created=created,
            containers=self._container,
        )
        return _made_ready(pod, created + self.environment.start_up) if ready else pod


def _area(share: _Share, until: Nanoseconds) -> float:
    """Load times nanoseconds of a share from its begin on."""
    length = until - share.begin
    return (share.load + share.slope * length / 2) * length


def _made_ready(pod: Pod, at: Nanoseconds) -> Pod:
    return Pod(
        name=pod.name,
        phase="Running",
        deleting=False,
        ready="True",
        ready_since=at,
        start_time=pod.start_time,
        created=pod.created,
        containers=pod.containers,
    )
