"""
What must be remembered from turn to turn. The upstream keeps it in the process and loses it; ours is in the status.

Memory is a value: `after` gives the next one. Slots are the upstream's: an outdated entry is overwritten in place, so
an edited window sees what the upstream would see. Only the copy in the status is pruned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.decision import Decision, Lead, Outcome, DecisionKind, Scaled
from cronhpa.core.instant import SECOND, Nanoseconds
from cronhpa.core.observation import Observation
from cronhpa.core.spec import Behavior, ScalingRules, Spec, ControllerOptions

T = TypeVar("T")

# What a pod takes to become Ready while none of the target's own has been watched.
START_UP_UNKNOWN = 60 * SECOND


class Recommendation(Struct, frozen=True, gc=False):
    replicas: int
    at: Nanoseconds


class ScaleEvent(Struct, frozen=True, gc=False):
    """change: how many pods came or went, positive. outdated: its slot may be taken."""

    change: int
    at: Nanoseconds
    outdated: bool = False


class Intent(Struct, frozen=True):
    """A change that was written down before it was acted, or of which nobody knows whether it was done."""

    before: int
    after: int
    at: Nanoseconds
    from_scheduled_zero: bool = False


class Memory(Struct, frozen=True):
    """
    zero: whether the target's zero was our doing (the ScaledToZero condition), None while nothing was said about it.
    scheduled_zero: whether a schedule or an override made it, so that no metric is needed to leave it.
    start_up: how long the target's pods took to become Ready, request_per_pod: what each asked for: at zero there is
    no pod to ask. leads: those under way, so that what is learned meanwhile does not move their begin.
    """

    recommendations: tuple[Recommendation, ...] = ()
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()
    zero: bool | None = None
    scheduled_zero: bool = False
    start_up: Nanoseconds | None = None
    request_per_pod: Mapping[str, int] = {}
    intent: Intent | None = None
    leads: tuple[Lead, ...] = ()

    def seeded(self, current: int, now: Nanoseconds) -> Memory:
        """With the current count as the first recommendation where there is none, as the upstream starts."""
        if self.recommendations:
            return self
        return replace(self, recommendations=(Recommendation(current, now),))

    def settled(self, current: int | None, now: Nanoseconds) -> Memory:
        """
        As a turn begins with it, once the count is found.

        A change that was intended and is not there was never done and is forgotten. What lies in the future, after a
        clock that stepped back, is moved to now.
        """
        memory = self
        intent = self.intent
        if intent is not None and current is not None:
            memory = replace(memory, intent=None)
            if current == intent.before:
                memory = replace(
                    memory,
                    scale_ups=tuple(item for item in self.scale_ups if item.at != intent.at),
                    scale_downs=tuple(item for item in self.scale_downs if item.at != intent.at),
                    zero=True if intent.before == 0 else False if self.zero else self.zero,
                    scheduled_zero=intent.from_scheduled_zero,
                )
        events = (*memory.scale_ups, *memory.scale_downs)
        if all(item.at <= now for item in memory.recommendations) and all(item.at <= now for item in events):
            return memory
        return replace(
            memory,
            recommendations=tuple(Recommendation(item.replicas, min(item.at, now)) for item in memory.recommendations),
            scale_ups=tuple(replace(item, at=min(item.at, now)) for item in memory.scale_ups),
            scale_downs=tuple(replace(item, at=min(item.at, now)) for item in memory.scale_downs),
        )

    def resumed(self, current: int | None, now: Nanoseconds) -> Memory:
        """
        As read back by a new process.

        The newest recommendation held until the old process ended, and nobody knows when that was: it is taken to
        hold until now, so a restart can delay a scale-down and never hasten it.
        """
        memory = self.settled(current, now)
        if not memory.recommendations:
            return memory
        newest = max(memory.recommendations, key=lambda item: item.at)
        return replace(memory, recommendations=(*memory.recommendations, Recommendation(newest.replicas, now)))

    def recommending(self, replicas: int, now: Nanoseconds, behavior: Behavior | None, options: ControllerOptions) -> Memory:
        """With this turn's unstabilized recommendation in the last outdated slot, or behind the others."""
        oldest = now - longest_window(behavior, options)
        slot = None
        for index, item in enumerate(self.recommendations):
            if item.at < oldest:
                slot = index
        return replace(self, recommendations=_put(self.recommendations, slot, Recommendation(replicas, now)))

    def scaled(self, before: int, after: int, now: Nanoseconds, behavior: Behavior | None) -> Memory:
        """With the change that was made; without a behavior nothing asks for it, and nothing is kept."""
        if behavior is None or before == after:
            return self
        if after > before:
            return replace(self, scale_ups=_with_event(self.scale_ups, after - before, now, behavior.scale_up))
        return replace(self, scale_downs=_with_event(self.scale_downs, before - after, now, behavior.scale_down))

    def after(self, decision: Decision, outcome: Outcome, spec: Spec, observation: Observation) -> Memory:
        """What is remembered once a turn is over."""
        if decision.kind is DecisionKind.UNREACHABLE:
            return replace(self, leads=decision.leads)
        memory = self.seeded(decision.current, decision.at)
        if decision.recommended is not None:
            memory = memory.recommending(decision.recommended, decision.at, spec.behavior, spec.options)
        if isinstance(outcome, Scaled):
            memory = memory.scaled(decision.current, decision.desired, outcome.at, spec.behavior)
            is_zero = makes_zero(decision, spec)
            memory = replace(memory, zero=is_zero, scheduled_zero=is_zero and spec.is_timed)
        elif memory.zero is None and decision.current == 0 and decision.kind is not DecisionKind.SUSPENDED:
            # A zero that was found and taken as scheduled is ours: the next turns must wake it.
            memory = replace(memory, zero=True, scheduled_zero=True)
        return replace(
            memory,
            intent=None,
            leads=decision.leads,
            start_up=self.start_up_after(observation),
            request_per_pod={**self.request_per_pod, **observation.request_per_pod},
        )

    def start_up_after(self, observation: Observation) -> Nanoseconds | None:
        """How long the target's pods take to become Ready: as seen now, else as remembered."""
        return self.start_up if observation.start_up is None else observation.start_up

    def intending(self, decision: Decision, spec: Spec, observation: Observation) -> Memory:
        """
        What is remembered while a change may be done or not: as if it were, and marked as intended.

        A scale-down is written down so before it is acted. Written after it instead, a process that dies in between
        would take the next step down too early. `settled` finds out.
        """
        done = self.after(decision, Scaled(decision.at), spec, observation)
        intent = Intent(decision.current, decision.desired, decision.at, self.scheduled_zero)
        return replace(done, intent=intent)

    def pruned(self, behavior: Behavior | None, options: ControllerOptions, now: Nanoseconds) -> Memory:
        """The part that can still change a decision: what the status keeps."""
        period = max((rules.longest_period for rules in _directions(behavior)), default=0)
        return replace(
            self,
            recommendations=_contenders(self.recommendations, behavior, options, now),
            scale_ups=tuple(item for item in self.scale_ups if item.at > now - period),
            scale_downs=tuple(item for item in self.scale_downs if item.at > now - period),
        )


def lead_time(start_up: Nanoseconds | None, options: ControllerOptions) -> Nanoseconds:
    """
    How long it takes from asking for a pod to having it Ready, with the turn that asks for it.

    start_up: as learned, None while it is not.
    """
    return (START_UP_UNKNOWN if start_up is None else start_up) + options.sync_period


def makes_zero(decision: Decision, spec: Spec) -> bool:
    """Whether a rescale takes the target to a zero that something is left to wake it from."""
    is_down_to_zero = decision.current > 0 and decision.desired == 0
    return is_down_to_zero and (spec.is_timed or (spec.min_replicas == 0 and spec.scales_to_zero))


def longest_window(behavior: Behavior | None, options: ControllerOptions) -> Nanoseconds:
    """How far back a recommendation can still matter."""
    return max(stabilization_windows(behavior, options))


def stabilization_windows(behavior: Behavior | None, options: ControllerOptions) -> tuple[Nanoseconds, Nanoseconds]:
    """The stabilization windows up and down."""
    if behavior is None:
        return 0, options.downscale_stabilization
    down = behavior.scale_down.stabilization_window
    # The upstream counts its flag in whole seconds where a behavior leaves the window unset.
    whole = options.downscale_stabilization // 10**9 * 10**9
    return behavior.scale_up.stabilization_window or 0, whole if down is None else down


def _directions(behavior: Behavior | None) -> tuple[ScalingRules, ...]:
    return () if behavior is None else (behavior.scale_up, behavior.scale_down)


def _with_event(events: tuple[ScaleEvent, ...], change: int, now: Nanoseconds, rules: ScalingRules) -> tuple[ScaleEvent, ...]:
    oldest = now - rules.longest_period
    marked = tuple(replace(item, outdated=True) if item.at < oldest else item for item in events)
    slot = None
    for index, item in enumerate(marked):
        if item.outdated:
            slot = index
    return _put(marked, slot, ScaleEvent(change, now))


def _put(items: tuple[T, ...], slot: int | None, item: T) -> tuple[T, ...]:
    return (*items, item) if slot is None else (*items[:slot], item, *items[slot + 1 :])


def _contenders(
    items: tuple[Recommendation, ...], behavior: Behavior | None, options: ControllerOptions, now: Nanoseconds
) -> tuple[Recommendation, ...]:
    """
    The recommendations that no later one outdoes: going back in time, each new largest and each new smallest.

    A later recommendation that is as large stays in the window longer, so the earlier one can never be the largest.
    """
    up, down = stabilization_windows(behavior, options)
    kept: list[Recommendation] = []
    highest, lowest = None, None
    for item in sorted(items, key=lambda entry: entry.at, reverse=True):
        is_highest = item.at >= now - down and (highest is None or item.replicas > highest)
        is_lowest = item.at >= now - up and (lowest is None or item.replicas < lowest)
        if is_highest or is_lowest or not kept:
            kept.append(item)
        highest = item.replicas if highest is None else max(highest, item.replicas)
        lowest = item.replicas if lowest is None else min(lowest, item.replicas)
    return tuple(reversed(kept))
