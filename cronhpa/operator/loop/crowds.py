"""
Crowds: which objects ask for pods at the same start, and how fast the cluster made the pods of former crowds Ready.

The pods of a thousand objects that start together are Ready later than a pod alone. `Crowd.delay` says by how much;
this file only counts and measures. What it learned survives a restart in the statuses, with each object's crowd.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from msgspec import Struct, field

from cronhpa.core.behavior import ramp
from cronhpa.core.model.decision import Decision, Window, WindowState
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.memory import START_UP_UNKNOWN, Memory
from cronhpa.core.model.observation import CROWD_GRAIN, CROWD_PODS_MIN, POD_RATE_UNKNOWN, Crowd, Pod
from cronhpa.core.model.spec import Spec
from cronhpa.core.schedules.leads import next_rise
from cronhpa.operator.objects.object_state import Key

# A new process waits so long for each object to be decided once: until then the remembered crowds count.
_COLLECTED = MINUTE
_MEASURED_FOR = HOUR
# Objects come and go until a start: a crowd of next month would be written to all statuses again and again.
_KNOWN_BEFORE = DAY
# The slowest tenth of a crowd's pods does not count: an image that cannot be pulled says nothing about the cluster.
_MEASURED_PERCENT = 90
_RATE_MAX = 1_000_000
# The rates of so many statuses count until a crowd is measured: a replica reads them at each of its terms.
_REMEMBERED = 1000


class _Start(Struct):
    """The pods that all objects ask for at one start."""

    pods: int = 0
    objects: int = 0
    crowd: Crowd | None = None
    """The newest crowd; an equal delay does not make another one."""


class _Asked(Struct, frozen=True):
    """The pods that an object asked for ahead of its start."""

    start: Nanoseconds
    pods: int
    at: Nanoseconds
    alone: Nanoseconds
    """How long it would take alone: the steps that the policies allow, and the start-up of a pod as far as known."""


class _Measured(Struct):
    """The pods that were asked for ahead of one start."""

    pods: int = 0
    objects: int = 0
    ready: int = 0
    is_measured: bool = False
    delays: list[tuple[Nanoseconds, int]] = field(default_factory=list)
    """For each object whose pods are all Ready: how much later than a pod alone the last one was, and their number."""


class Crowds:
    """The crowds of the objects that this process decides."""

    def __init__(self) -> None:
        self._since: Nanoseconds | None = None
        self._members: dict[Key, tuple[Nanoseconds, int]] = {}
        self._starts: dict[Nanoseconds, _Start] = {}
        self._asked: dict[Key, _Asked] = {}
        self._measured: dict[Nanoseconds, _Measured] = {}
        # (pods a minute, pods) of the crowds in the statuses, the slowest first.
        self._remembered: list[tuple[int, int]] = []
        self._newest: tuple[int, int] | None = None

    @property
    def pods_per_minute(self) -> int:
        """The rate of the newest crowd; of those in the statuses the median; POD_RATE_UNKNOWN without any."""
        return self._rate[0]

    @property
    def _rate(self) -> tuple[int, int]:
        if self._newest is not None:
            return self._newest
        if self._remembered:
            return self._remembered[len(self._remembered) // 2]
        return POD_RATE_UNKNOWN, 0

    def remember(self, memory: Memory) -> None:
        """Takes over the rate that an object's status holds."""
        crowd = memory.crowd
        if self._newest is not None or len(self._remembered) == _REMEMBERED:
            return
        if crowd is not None and crowd.pods_per_minute != POD_RATE_UNKNOWN:
            insort(self._remembered, (crowd.pods_per_minute, crowd.pods))

    def crowd_of(self, key: Key, now: Nanoseconds) -> Crowd | None:
        """
        The crowd at an object's next start, a day before it; None while it is not known. At the start objects leave it
        one by one.
        """
        member = self._members.get(key)
        # Before it where the clock was set back: the objects were decided all the same.
        if member is None or self._since is None or 0 <= now - self._since < _COLLECTED:
            return None
        start = member[0]
        if not now < start <= now + _KNOWN_BEFORE:
            return None
        counted = self._starts[start]
        crowd = Crowd(start, counted.pods, counted.objects, self.pods_per_minute)
        if counted.crowd is None or counted.crowd.delay(start) != crowd.delay(start):
            counted.crowd = crowd
        return counted.crowd

    def note_decision(self, key: Key, spec: Spec, decision: Decision, memory: Memory, *, scales: bool) -> None:
        """Notes an object's next start, and the pods for which it asks ahead of one. scales: whether they are asked."""
        if self._since is None:
            self._since = decision.at
        if not spec.schedules:
            self.forget(key)
            return
        member = self._members.get(key)
        if member is not None and _leads(decision.windows, member[0]):
            request = self._asked.get(key)
            if scales and decision.desired > decision.current and (request is None or request.start != member[0]):
                self._ask(key, member[0], spec, decision, memory)
            return
        rise = next_rise(spec, decision.windows, decision.minimum)
        if rise != member:
            self._leave(key)
            if rise is not None:
                self._members[key] = rise
                counted = self._starts.setdefault(rise[0], _Start())
                counted.pods += rise[1]
                counted.objects += 1

    def forget(self, key: Key) -> None:
        """Forgets an object."""
        self._leave(key)
        self._asked.pop(key, None)

    def _leave(self, key: Key) -> None:
        member = self._members.pop(key, None)
        if member is None:
            return
        start, pods = member
        counted = self._starts[start]
        counted.pods -= pods
        counted.objects -= 1
        if not counted.objects:
            del self._starts[start]

    def _ask(self, key: Key, start: Nanoseconds, spec: Spec, decision: Decision, memory: Memory) -> None:
        if start not in self._measured:
            for old in [at for at in self._measured if at < start - _MEASURED_FOR]:
                del self._measured[old]
            self._measured[start] = _Measured()
        # Not the first step alone: the policies may allow the rise in several.
        goal = max(decision.minimum, decision.desired)
        pods = goal - decision.current
        steps = ramp(spec.behavior, decision.current, goal, spec.options.sync_period)
        learnt = memory.lead_start_up(spec)
        start_up = START_UP_UNKNOWN if learnt is None else learnt
        self._asked[key] = _Asked(start, pods, decision.at, steps + start_up)
        self._measured[start].pods += pods
        self._measured[start].objects += 1

    def note_pods(self, key: Key, pods: Sequence[Pod], now: Nanoseconds) -> None:
        """Notes when the pods of an object that asked for some became Ready."""
        request = self._asked.get(key)
        if request is None:
            return
        crowd = self._measured.get(request.start)
        if crowd is None or now - request.at > _MEASURED_FOR:
            del self._asked[key]
            return
        # The API cuts instants to the second.
        new = [pod for pod in pods if pod.created > request.at - SECOND and not pod.deleting]
        ready = [pod for pod in new if pod.ready == "True"]
        if len(ready) < max(request.pods, len(new)) or now < request.start:
            return
        del self._asked[key]
        last = max(pod.ready_since if pod.first_ready is None else pod.first_ready for pod in ready)
        crowd.delays.append((last + SECOND - request.at - request.alone, request.pods))
        crowd.ready += request.pods
        is_enough = crowd.pods >= max(CROWD_PODS_MIN, self._rate[1] // 2) and crowd.objects > 1
        if is_enough and not crowd.is_measured and crowd.ready * 100 >= crowd.pods * _MEASURED_PERCENT:
            crowd.is_measured = True
            self._newest = _rate_of(crowd), crowd.pods
            self._remembered.clear()


def _leads(states: Sequence[Window], start: Nanoseconds) -> bool:
    return any(window.state is WindowState.LEADING and window.changes == start for window in states)


def _rate_of(crowd: _Measured) -> int:
    """The pods a minute of a crowd, of which most pods are Ready: they become so one after the other, at this rate."""
    ready = 0
    delay = 0
    for late, pods in sorted(crowd.delays):
        ready, delay = ready + pods, late
        if ready * 100 >= crowd.pods * _MEASURED_PERCENT:
            break
    # A start-up is only known to CROWD_GRAIN.
    return min(max(ready * MINUTE // max(delay, CROWD_GRAIN), 1), _RATE_MAX)
