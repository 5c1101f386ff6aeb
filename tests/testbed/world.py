"""
What a load does to pods: it is divided over those that are ready, and averaged over windows.

Pure: the pods seen, the loads and the time are arguments. plant.py feeds it from a watch and publishes what it gives.

What a pod uses
- ready: its share, load / ready pods, up to the target's limit;
- running, not ready: IDLE_CORES and IDLE_BYTES, a program that waits for its data; so does a container without load.

When a pod has a sample: once it ran for FRESH when a window closes. metrics-server needs two points of a container's
CPU counter and takes its start as the first where that is 10 s ago (freshContainerMinMetricsResolution in its
pkg/storage/pod.go).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cronhpa.core.model.instant import SECOND, Nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from testbed.loads import Load

IDLE_CORES = 0.001
IDLE_BYTES = 64 << 20
FRESH = 10 * SECOND

# A trace has a point a minute, and whoever changes the load integrates up to the change: a second is fine enough.
_INTEGRATION_STEP = SECOND


@dataclass(eq=False)
class Target:
    """Pods of one namespace that carry all of `labels`, and the load that those of them that are ready share."""

    namespace: str
    labels: Mapping[str, str]
    load: Load
    resource: str = "cpu"
    """ "cpu", the load in cores, or "memory", the load in bytes."""
    container: str | None = None
    """The container that carries the load; None: the first of the pod."""
    limit: float | None = None
    """The most that one pod can use: load beyond it is neither served nor seen. None: no limit."""
    ready: int = 0
    """Pods that share the load now."""
    _served: float = 0.0
    """What a pod that was ready all the time would have used so far: core-seconds or byte-seconds."""
    _at: Nanoseconds | None = None

    def share(self, instant: Nanoseconds) -> float:
        """What each ready pod uses at an instant; 0 where none is ready."""
        if not self.ready:
            return 0.0
        share = max(self.load.at(instant), 0.0) / self.ready
        return share if self.limit is None else min(share, self.limit)

    def advance(self, now: Nanoseconds) -> float:
        """Integrate one pod's share up to `now`, by trapezoids; gives the integral since the first call."""
        at = now if self._at is None else self._at
        while at < now:
            step = min(_INTEGRATION_STEP, now - at)
            self._served += (self.share(at) + self.share(at + step)) / 2 * step / SECOND
            at += step
        self._at = at
        return self._served


@dataclass(frozen=True)
class SeenPod:
    """What the API server says of a pod."""

    uid: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    containers: tuple[str, ...]
    running: bool
    ready: bool
    ip: str = ""


@dataclass(frozen=True)
class PodNow:
    """A pod at an instant. silent: nothing measures it."""

    seen: SeenPod
    running: bool
    ready: bool
    silent: bool


@dataclass(frozen=True)
class Sample:
    """What the containers of a pod used, averaged over `window` that ended at `instant`."""

    pod: SeenPod
    instant: Nanoseconds
    window: Nanoseconds
    usage: Mapping[str, Mapping[str, float]]
    """By container, then by resource: cores and bytes."""


@dataclass(eq=False)
class _Work:
    """What one pod does for one target in the window that is open."""

    target: Target
    base: float = 0.0
    """The target's integral when the pod last became ready, or when the window opened."""
    done: float = 0.0
    """What it had done when it last became unready."""

    def resume(self, now: Nanoseconds) -> None:
        self.base = self.target.advance(now)
        self.target.ready += 1

    def pause(self, now: Nanoseconds) -> None:
        self.done += self.target.advance(now) - self.base
        self.target.ready -= 1

    def close(self, now: Nanoseconds, *, ready: bool) -> float:
        integral = self.target.advance(now)
        total = self.done + (integral - self.base if ready else 0.0)
        self.base, self.done = integral, 0.0
        return total


@dataclass(eq=False)
class _Pod:
    seen: SeenPod
    running_since: Nanoseconds | None = None
    ready: bool = False
    ready_since: Nanoseconds = 0
    ready_time: Nanoseconds = 0
    """How long it had been ready in the open window when it last became unready."""
    works: list[_Work] = field(default_factory=list)

    def set_ready(self, now: Nanoseconds, *, ready: bool) -> None:
        if ready is self.ready:
            return
        self.ready = ready
        if ready:
            self.ready_since = now
        else:
            self.ready_time += now - self.ready_since
        for work in self.works:
            if ready:
                work.resume(now)
            else:
                work.pause(now)

    def close_window(self, opened: Nanoseconds, now: Nanoseconds) -> Sample | None:
        """The sample of the window that ends now, and the next one opened; None where the pod has none yet."""
        ready_time = self.ready_time + (now - self.ready_since if self.ready else 0)
        self.ready_since, self.ready_time = now, 0
        done = [(work.target, work.close(now, ready=self.ready)) for work in self.works]
        if self.running_since is None or now - self.running_since < min(FRESH, now - opened):
            return None
        length = now - max(opened, self.running_since)
        if length <= 0:
            return None
        idle = max(1 - ready_time / length, 0.0)
        loaded = {(target.container or self.seen.containers[0], target.resource) for target, _ in done}
        usage = {
            name: {
                resource: amount * idle if (name, resource) in loaded else amount
                for resource, amount in (("cpu", IDLE_CORES), ("memory", IDLE_BYTES))
            }
            for name in self.seen.containers
        }
        for target, total in done:
            container = target.container or self.seen.containers[0]
            if container in usage:
                usage[container][target.resource] += total * SECOND / length
        return Sample(self.seen, now, length, usage)


@dataclass(eq=False)
class World:
    """Pods under loads. Every `now` must not be before the last one."""

    opened: Nanoseconds
    """When the open window began."""
    pods: dict[str, _Pod] = field(default_factory=dict)
    silent: set[tuple[str, str]] = field(default_factory=set)
    """Namespace and name of pods that nothing measures."""
    _targets: dict[tuple[str, str, str], list[Target]] = field(default_factory=lambda: defaultdict(list))
    """By namespace and first label: 10,000 targets are not asked about every pod."""

    @property
    def targets(self) -> list[Target]:
        return [target for targets in self._targets.values() for target in targets]

    def pods_now(self) -> Iterator[PodNow]:
        for pod in self.pods.values():
            yield PodNow(
                seen=pod.seen,
                running=pod.running_since is not None,
                ready=pod.ready,
                silent=_key(pod.seen) in self.silent,
            )

    def add(self, target: Target, now: Nanoseconds) -> None:
        """Put a load on pods, from now on."""
        self._targets[_index_key(target)].append(target)
        target.advance(now)
        for pod in self.pods.values():
            if _matches(target, pod.seen):
                work = _Work(target)
                pod.works.append(work)
                if pod.ready:
                    work.resume(now)

    def remove(self, target: Target) -> None:
        """Take a load away; its pods idle."""
        self._targets[_index_key(target)].remove(target)
        for pod in self.pods.values():
            pod.works = [work for work in pod.works if work.target is not target]

    def observe(self, seen: SeenPod, now: Nanoseconds) -> None:
        """A pod was made or changed."""
        pod = self.pods.get(seen.uid)
        if not pod:
            pod = self.pods[seen.uid] = _Pod(seen, works=[_Work(target) for target in self._targets_of(seen)])
        pod.seen = seen
        if seen.running and pod.running_since is None:
            pod.running_since = now
        pod.set_ready(now, ready=seen.ready)

    def forget(self, uid: str, now: Nanoseconds) -> None:
        """A pod is gone."""
        if pod := self.pods.pop(uid, None):
            pod.set_ready(now, ready=False)

    def close_window(self, now: Nanoseconds) -> list[Sample]:
        """The samples of the window that ends now; the next one begins."""
        samples = [sample for pod in self.pods.values() if (sample := pod.close_window(self.opened, now))]
        self.opened = now
        return [sample for sample in samples if _key(sample.pod) not in self.silent]

    def _targets_of(self, pod: SeenPod) -> Iterator[Target]:
        for key, value in pod.labels.items():
            for target in self._targets.get((pod.namespace, key, value), ()):
                if _matches(target, pod):
                    yield target


def _index_key(target: Target) -> tuple[str, str, str]:
    return (target.namespace, *next(iter(target.labels.items())))


def _key(pod: SeenPod) -> tuple[str, str]:
    return (pod.namespace, pod.name)


def _matches(target: Target, pod: SeenPod) -> bool:
    return pod.namespace == target.namespace and target.labels.items() <= pod.labels.items()
