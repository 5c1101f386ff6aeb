"""
A simulated scale target: pods that take time to start. The ready pods share the load equally.

- A new pod becomes Ready after `start_up`. Until then it uses nothing; it costs from its creation on.
- Scale-down removes pods that are not ready first, then the youngest, as a ReplicaSet does. A removed pod serves
  nothing from that instant on.
- A sample is the mean over `metric_window` (or since creation, if that is shorter), and `metric_delay` old. A pod that
  was younger than `FRESH` then has no sample: metrics-server needs two readings of a counter.
- A pod uses its share of the load, even beyond its capacity: a load is demand.

Pods made together behave alike, so they form a cohort that is measured once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import copy
from math import isnan

from msgspec import Struct

from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.observation import Container, Pod, Sample
from cronhpa.simulation.load import Load
from cronhpa.simulation.score import ScoreAccumulator

# As in metrics-server, freshContainerMinMetricsResolution (pkg/storage/pod.go).
FRESH: Nanoseconds = 10 * SECOND
MILLI = 1000
# An age at which no rule about starting pods applies.
_LONG_AGO = 24 * 60 * MINUTE


class Environment(Struct, frozen=True):
    """The constants of a simulation."""

    capacity: float
    """The load that one ready pod can carry, in the load's unit."""
    requests: Mapping[str, int] = {}
    """Requests of a pod, milli-units by resource name; a Utilization target needs them."""
    start_up: Nanoseconds = 60 * SECOND
    metric_window: Nanoseconds = 60 * SECOND
    metric_delay: Nanoseconds = 30 * SECOND


class _Cohort:
    """Pods that were created together. Lists of cohorts are in order of age, the oldest first."""

    __slots__ = ("pods", "ready_at")

    def __init__(self, pods: list[Pod], ready_at: Nanoseconds) -> None:
        self.pods, self.ready_at = pods, ready_at


class PodGroup(Struct, frozen=True, gc=False):
    """Pods that are alike: one of them, their number, and the sample of each, None if there is none."""

    pod: Pod
    count: int
    sample: Sample | None


class _Share(Struct, frozen=True, gc=False):
    """The load of each ready pod from `begin` on."""

    begin: Nanoseconds
    served: float
    """Load x time of an always ready pod up to `begin`."""
    load: float
    slope: float


class SimulatedTarget:
    """
    The target at `now`, which only `advance` moves, and only forward.

    It begins with `replicas` pods that have long been ready.
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
        """An independent copy."""
        other = copy(self)
        # Copies of what is mutated in place; the other attributes are replaced, never mutated.
        other.__dict__ |= {
            "_ready": [_Cohort(list(cohort.pods), cohort.ready_at) for cohort in self._ready],
            "_starting": deque(_Cohort(list(cohort.pods), cohort.ready_at) for cohort in self._starting),
            "_shares": deque(self._shares),
        }
        return other

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods, oldest first."""
        if self._pods is None:
            self._pods = tuple(pod for cohort in (*self._ready, *self._starting) for pod in cohort.pods)
        return self._pods

    @property
    def next_ready(self) -> Nanoseconds | None:
        """When the next pods become ready, None if none are starting."""
        return self._starting[0].ready_at if self._starting else None

    @property
    def is_settled(self) -> bool:
        """Whether all pods were Ready before the window of the oldest sample."""
        earliest = self.now - self.environment.metric_delay - self.environment.metric_window
        return not self._starting and (not self._ready or self._ready[-1].ready_at <= earliest)

    def advance(self, now: Nanoseconds, accumulator: ScoreAccumulator | None = None) -> None:
        """Advance to `now`, and book the time in between."""
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
        """All pods, oldest first, with their current samples."""
        end = self.now - self.environment.metric_delay
        earliest = end - self.environment.metric_window
        self._merge_old(earliest)
        return tuple(
            PodGroup(cohort.pods[0], len(cohort.pods), self._sample(cohort, max(earliest, self._created(cohort)), end))
            for cohort in (*self._ready, *self._starting)
        )

    def samples(self) -> dict[str, Sample]:
        """The current sample of each pod, by name."""
        samples: dict[str, Sample] = {}
        for group, cohort in zip(self.groups(), (*self._ready, *self._starting), strict=True):
            if group.sample is not None:
                samples.update(dict.fromkeys((pod.name for pod in cohort.pods), group.sample))
        return samples

    def total(self) -> int | None:
        """The mean load over the window, milli-units, as an external metric; None if unknown."""
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
        """The sample of each pod of a cohort over [begin, end)."""
        if end - begin < FRESH:
            return None
        done = self._done(max(begin, cohort.ready_at), end)
        return None if done is None else Sample(round(done / (end - begin) * MILLI), end, end - begin)

    def _serve(self, begin: Nanoseconds, end: Nanoseconds, value: float, slope: float) -> None:
        """Record the share of each ready pod in [begin, end), in which nothing changes."""
        share, rise = (value / self.ready, slope / self.ready) if self.ready else (0.0, 0.0)
        shares = self._shares
        newest = shares[-1]
        served = newest.served + _area(newest, begin)
        shares.append(_Share(begin, 0.0 if isnan(served) else served, share, rise))
        oldest = end - self.environment.metric_window - self.environment.metric_delay
        while len(shares) > 1 and shares[1].begin <= oldest:
            shares.popleft()

    def _done(self, begin: Nanoseconds, end: Nanoseconds) -> float | None:
        """Load x nanoseconds of a pod that was ready over [begin, end]; None if a part is unknown."""
        if begin >= end:
            return 0.0
        first = last = self._shares[0]
        for share in self._shares:
            if share.begin >= end:
                break
            last = share
            if share.begin <= begin:
                first = share
            elif isnan(share.load):
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
        """Merge cohorts that were ready before `earliest`: their samples are equal from now on."""
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
    """Load x nanoseconds of a share from its begin on."""
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
