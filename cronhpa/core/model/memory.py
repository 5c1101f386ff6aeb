"""
The memory between reconciliations. The upstream keeps it in its process and loses it on a restart; ours is in the
status.

Memory is a value: `after` returns the next one. Slots are the upstream's: a new entry overwrites an outdated one in
place, so a window that was edited sees the entries that the upstream would see. Only the copy in the status is pruned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.metrics.arithmetic import INT32_MAX
from cronhpa.core.model.decision import (
    BY_NOBODY,
    Decision,
    DecisionKind,
    Lead,
    Outcome,
    Recommendation,
    Scaled,
)
from cronhpa.core.model.instant import DAY, FOR_EVER, SECOND, Nanoseconds
from cronhpa.core.model.observation import Crowd, NodeStart, Observation
from cronhpa.core.model.spec import Behavior, ControllerOptions, ScalingRules, Spec

T = TypeVar("T")

# The start-up time assumed until a pod of the target has been watched.
START_UP_UNKNOWN = 60 * SECOND
_NODE_START_KEPT = 8 * DAY


class ScaleEvent(Struct, frozen=True, gc=False, omit_defaults=True):
    """A change of the replica count, for the policies that limit further changes."""

    change: int
    """The number of pods that came or went, positive."""
    at: Nanoseconds
    outdated: bool = False
    """A new event may take its slot."""
    assumed: bool = False
    """It is not known that the operator added these pods, or when. They count for scale-up policies, and not for
    scale-down policies, which let a scale-down undo recent additions: these pods may be old."""


class Intent(Struct, frozen=True):
    """A change that was recorded before it was acted on, or whose result is not known."""

    before: int
    after: int
    at: Nanoseconds
    from_scheduled_zero: bool = False


class Memory(Struct, frozen=True):
    """The memory after a reconciliation, or before the first."""

    recommendations: tuple[Recommendation, ...] = ()
    scale_ups: tuple[ScaleEvent, ...] = ()
    scale_downs: tuple[ScaleEvent, ...] = ()
    zero: bool | None = None
    """Whether cronhpa scaled the target to zero (the ScaledToZero condition); None while that is not known."""
    scheduled_zero: bool = False
    """Whether a schedule or an override did, so that no metric is needed to leave zero."""
    start_up: Nanoseconds | None = None
    """How long the target's pods took to become Ready; remembered, because a target at zero has no pods."""
    node_start: NodeStart | None = None
    """That of pods which had to wait for a node; remembered, because those are the first to go in the evening."""
    request_per_pod: Mapping[str, int] = {}
    """Milli-units that a pod requests, by resource; remembered for the same reason."""
    crowd: Crowd | None = None
    """The crowd at the object's next start; remembered, because after a restart all objects must be seen first."""
    intent: Intent | None = None
    """The change that is being made or may not have been made."""
    leads: tuple[Lead, ...] = ()
    """Leads that have begun; a new start-up time does not move them."""
    replicas: int | None = None
    """The count in force after the last reconciliation; None before the first."""
    unmeasured_since: Nanoseconds | None = None
    """Since when not all metrics are known; None if all are, or without a fallback."""

    def seeded(self, current: int, now: Nanoseconds, *, bounded: bool) -> Memory:
        """
        The memory with the current count as its first recommendation if it has none, as upstream.

        The upstream's stabilization can raise the count to this recommendation again. From the first reconciliation on
        at which a floor or a cap is in force (bounded) it only holds pods: after the end of a cap the count does not
        return to it.
        """
        if not self.recommendations:
            seed = Recommendation(current, now, current, BY_NOBODY)
            return replace(self, recommendations=(_held(seed) if bounded else seed,))
        # A call for each entry was a twentieth of a decision.
        if not bounded or not any(entry.by == BY_NOBODY and _is_seed(entry) for entry in self.recommendations):
            return self
        return replace(
            self,
            recommendations=tuple(_held(entry) if _is_seed(entry) else entry for entry in self.recommendations),
        )

    def settled(self, current: int | None, now: Nanoseconds) -> Memory:
        """
        The memory at the begin of a reconciliation, once the current count is known.

        If the count is still the one before the intended change, the change was not made: its event is dropped. Entries
        in the future (the clock stepped back) move to now. Of pods that may not have come, or long ago, the event is
        `assumed`.
        """
        memory = self
        intent = self.intent
        if intent is not None and current is not None:
            memory = replace(memory, intent=None)
            if current == intent.before:
                memory = replace(
                    memory,
                    scale_ups=tuple(entry for entry in self.scale_ups if entry.at != intent.at),
                    scale_downs=tuple(entry for entry in self.scale_downs if entry.at != intent.at),
                    replicas=current,
                    zero=True if intent.before == 0 else False if self.zero else self.zero,
                    scheduled_zero=intent.from_scheduled_zero,
                )
            elif current != intent.after:  # somebody else has scaled meanwhile
                memory = replace(memory, scale_ups=tuple(_doubted(entry, intent.at) for entry in self.scale_ups))
        if memory.unmeasured_since is not None and memory.unmeasured_since > now:
            memory = replace(memory, unmeasured_since=now)
        events = (*memory.scale_ups, *memory.scale_downs)
        if all(entry.at <= now for entry in memory.recommendations) and all(entry.at <= now for entry in events):
            return memory
        return replace(
            memory,
            recommendations=tuple(_at_most(entry, now) for entry in memory.recommendations),
            scale_ups=tuple(
                entry if entry.at <= now else replace(entry, at=now, assumed=True) for entry in memory.scale_ups
            ),
            scale_downs=tuple(replace(entry, at=min(entry.at, now)) for entry in memory.scale_downs),
        )

    def shifted(self, step: Nanoseconds) -> Memory:
        """
        The memory after the clock was set by `step`: all entries keep their age.

        The leads keep their instants, because a schedule's start is a time of day.
        """
        intent = self.intent
        return replace(
            self,
            recommendations=tuple(
                replace(entry, at=entry.at + step, asked_at=None if entry.asked_at is None else entry.asked_at + step)
                for entry in self.recommendations
            ),
            scale_ups=tuple(replace(entry, at=entry.at + step) for entry in self.scale_ups),
            scale_downs=tuple(replace(entry, at=entry.at + step) for entry in self.scale_downs),
            intent=None if intent is None else replace(intent, at=intent.at + step),
            unmeasured_since=None if self.unmeasured_since is None else self.unmeasured_since + step,
            node_start=None if self.node_start is None else replace(self.node_start, at=self.node_start.at + step),
        )

    def resumed(self, current: int | None, now: Nanoseconds, assumed_until: Nanoseconds | None = None) -> Memory:
        """
        The memory of a new process; `behavior.resume` adds a step that is not in this memory.

        The newest recommendation held until the old process ended, at an unknown time. It and all others of the same
        instant are assumed to hold until now: a restart may delay a scale-down, never hasten it, and raises no count.
        If the memory does not explain the current count (it may come from a backup), the current count is assumed to be
        recommended now: otherwise nothing would hold the present pods.
        assumed_until: the latest instant at which the old process can have remembered a reconciliation, None for now.
        """
        memory = self.settled(current, now)
        if not memory.recommendations:
            return memory
        last = max(entry.at for entry in memory.recommendations)
        # Several reconciliations can have the same instant, in any slots: the last one of them is not known.
        newest = tuple(entry for entry in memory.recommendations if entry.at == last)
        if current is not None and not self._explains(current):
            newest = (Recommendation(current, now, current, BY_NOBODY),)
        at = now if assumed_until is None else assumed_until
        held = (replace(_held(_measured(entry)), at=max(entry.at, at)) for entry in newest)
        return replace(memory, recommendations=(*memory.recommendations, *held))

    def _explains(self, current: int) -> bool:
        """Whether the count was recommended, was on its way down by the policies, or was about to be changed."""
        return (
            any(entry.highest >= current for entry in self.recommendations)
            or bool(self.scale_downs)
            or (self.intent is not None and current in {self.intent.before, self.intent.after})
        )

    def recommending(self, window: Nanoseconds, *recommended: Recommendation) -> Memory:
        """
        With the recommendations of reconciliations, the oldest first: each in the last outdated slot or appended.

        window: the longest stabilization window.
        """
        return replace(self, recommendations=overwritten(self.recommendations, window, recommended))

    def scaled(
        self, before: int, after: int, now: Nanoseconds, behavior: Behavior | None, *, assumed: bool = False
    ) -> Memory:
        """The memory with the event of a scale write. Without a behavior no policy reads events, so none is kept."""
        if behavior is None or before == after:
            return self
        event = ScaleEvent(abs(after - before), now, assumed=assumed)
        if after > before:
            return replace(self, scale_ups=_with_event(self.scale_ups, event, behavior.scale_up))
        return replace(self, scale_downs=_with_event(self.scale_downs, event, behavior.scale_down))

    def after(self, decision: Decision, outcome: Outcome, spec: Spec, observation: Observation) -> Memory:
        """The memory after a reconciliation."""
        if decision.kind is DecisionKind.UNREACHABLE:
            return replace(self, leads=decision.leads, crowd=self.crowd_after(observation))
        memory = self.seeded(decision.current, decision.at, bounded=decision.bounded)
        if decision.recommended is not None:
            recommended = decision.recommended
            if recommended.at != decision.at:  # the caller moved the decision to the instant that caused it
                recommended = replace(recommended, at=decision.at)
            if recommended.replicas < 0 or (recommended.metrics or 0) < 0:
                # A negative metric asks for a negative count, which the memory does not keep.
                metrics = None if recommended.metrics is None else max(recommended.metrics, 0)
                recommended = replace(recommended, replicas=max(recommended.replicas, 0), metrics=metrics)
            memory = memory.recommending(longest_window(spec.behavior, spec.options), recommended)
        if isinstance(outcome, Scaled):
            memory = memory.scaled(decision.current, decision.desired, outcome.at, spec.behavior)
            is_zero = makes_zero(decision, spec)
            memory = replace(memory, zero=is_zero, scheduled_zero=is_zero and spec.is_timed)
        elif memory.zero is None and decision.current == 0 and decision.kind is not DecisionKind.SUSPENDED:
            # In this reconciliation the zero counted as a scheduled one: record that, so that later reconciliations can
            # leave zero.
            memory = replace(memory, zero=True, scheduled_zero=True)
        return replace(
            memory,
            intent=None,
            leads=decision.leads,
            replicas=decision.desired if isinstance(outcome, Scaled) else decision.current,
            unmeasured_since=decision.unmeasured_since,
            start_up=self.start_up_after(observation),
            node_start=self.node_start_after(observation, decision.at),
            request_per_pod={**self.request_per_pod, **observation.request_per_pod},
            crowd=self.crowd_after(observation),
        )

    def start_up_after(self, observation: Observation) -> Nanoseconds | None:
        """The start-up time of the target's pods: the observed one, else the remembered one."""
        return self.start_up if observation.start_up is None else observation.start_up

    def node_start_after(self, observation: Observation, now: Nanoseconds) -> NodeStart | None:
        """The start of pods that waited for a node: the newest one, for eight days, so that weekly rises know it."""
        known = [one for one in (self.node_start, observation.node_start) if one is not None]
        newest = max(known, key=lambda one: one.at, default=None)
        if newest is None or newest.at <= now - _NODE_START_KEPT:
            return None
        return replace(newest, at=min(newest.at, now))

    def lead_start_up(self, spec: Spec) -> Nanoseconds | None:
        """
        The start-up time that leads go by: with the wait for a node, if pods had to wait of late.

        Not with placeholders: these find the nodes before the lead begins.
        """
        return _of_leads(self.start_up, self.node_start, spec)

    def lead_start_up_after(self, observation: Observation, spec: Spec, now: Nanoseconds) -> Nanoseconds | None:
        """`lead_start_up` of the memory after an observation."""
        return _of_leads(self.start_up_after(observation), self.node_start_after(observation, now), spec)

    def crowd_after(self, observation: Observation) -> Crowd | None:
        """The crowd at the next start: the observed one, else the remembered one; None if it delays no pod."""
        crowd = self.crowd if observation.crowd is None else observation.crowd
        return crowd if crowd is not None and crowd.delay(crowd.start) else None

    def intending(self, decision: Decision, spec: Spec, observation: Observation) -> Memory:
        """
        The memory while a change may or may not have been made: as if it were made, and marked as intended.

        A scale-down is recorded before the write: recorded after it, a process that dies in between would take the next
        step down too early. `settled` finds out whether the change was made.
        """
        done = self.after(decision, Scaled(decision.at), spec, observation)
        intent = Intent(decision.current, decision.desired, decision.at, self.scheduled_zero)
        return replace(done, intent=intent)

    def alike_until(
        self,
        recommended: Recommendation | None,
        behavior: Behavior | None,
        options: ControllerOptions,
        now: Nanoseconds,
    ) -> Nanoseconds:
        """
        The instant until which this memory has the same effect on decisions and status, if each reconciliation
        recommends the same: then another recommendation leaves a window, or a scale event a policy's period. FOR_EVER
        if neither does.

        recommended, now: of the newest reconciliation. Returns `now` if the next reconciliation must be decided. Of the
        recommendations of one count only the newest matters: it leaves the windows last.
        """
        newest: dict[object, Nanoseconds] = {}
        for entry in self.recommendations:
            kind, at = (entry.replicas, entry.metrics, entry.asked_at), entry.at
            if at > newest.get(kind, -1):
                newest[kind] = at
        if recommended is not None:
            newest.pop((recommended.replicas, recommended.metrics, recommended.asked_at), None)
        # Of two recommendations of one instant the slots tell the newest.
        if self.intent is not None or any(at >= now for at in newest.values()):
            return now
        # An entry exactly as old as its window still counts in the status, and without a behavior in decisions.
        ages = [(at, window) for at in newest.values() for window in stabilization_windows(behavior, options)]
        ends = [at + window + later for at, window in ages for later in (0, 1)]
        events = (*self.scale_ups, *self.scale_downs)
        if events:
            periods = {policy.period for rules in _directions(behavior) for policy in rules.policies}
            ends += [event.at + period for event in events for period in periods]
        return min((end for end in ends if end > now), default=FOR_EVER)

    def pruned(self, behavior: Behavior | None, options: ControllerOptions, now: Nanoseconds) -> Memory:
        """The part that can still change a decision; the status keeps only this."""
        period = _longest_period(behavior)
        return replace(
            self,
            recommendations=_contenders(self.recommendations, behavior, options, now),
            scale_ups=tuple(entry for entry in self.scale_ups if entry.at > now - period),
            scale_downs=tuple(entry for entry in self.scale_downs if entry.at > now - period),
        )


def _of_leads(start_up: Nanoseconds | None, node_start: NodeStart | None, spec: Spec) -> Nanoseconds | None:
    if node_start is None or spec.room_of_rises is not None:
        return start_up
    return node_start.length if start_up is None else max(start_up, node_start.length)


def lead_time(start_up: Nanoseconds | None, options: ControllerOptions) -> Nanoseconds:
    """
    The time from the need for a pod to its readiness: start-up time + sync period, the longest wait for the next
    reconciliation.

    start_up: the measured time, None while it is not known.
    """
    return (START_UP_UNKNOWN if start_up is None else start_up) + options.sync_period


def makes_zero(decision: Decision, spec: Spec) -> bool:
    """Whether a decision scales to a zero that a schedule or a metric can end."""
    is_down_to_zero = decision.current > 0 and decision.desired == 0
    return is_down_to_zero and (spec.is_timed or (spec.min_replicas == 0 and spec.scales_to_zero))


def longest_window(behavior: Behavior | None, options: ControllerOptions) -> Nanoseconds:
    """The age up to which a recommendation can change a decision."""
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


def _longest_period(behavior: Behavior | None) -> Nanoseconds:
    """The age from which on a scale event changes no decision."""
    return max((rules.longest_period for rules in _directions(behavior)), default=0)


def _with_event(events: tuple[ScaleEvent, ...], event: ScaleEvent, rules: ScalingRules) -> tuple[ScaleEvent, ...]:
    oldest = event.at - rules.longest_period
    marked = tuple(replace(entry, outdated=True) if entry.at < oldest else entry for entry in events)
    slot = None
    for index, entry in enumerate(marked):
        if entry.outdated:
            slot = index
    return _put(marked, slot, event)


def _put(entries: tuple[T, ...], slot: int | None, entry: T) -> tuple[T, ...]:
    return (*entries, entry) if slot is None else (*entries[:slot], entry, *entries[slot + 1 :])


def _doubted(entry: ScaleEvent, at: Nanoseconds) -> ScaleEvent:
    return replace(entry, assumed=True) if entry.at == at else entry


def _is_seed(entry: Recommendation) -> bool:
    return entry.metrics == entry.replicas and entry.by == BY_NOBODY and entry.asked_at is None


def _measured(entry: Recommendation) -> Recommendation:
    """Earlier versions stored neither the source nor the metrics' count: the count may then hold back a scale-up."""
    return replace(entry, metrics=entry.replicas) if entry.metrics is None and entry.by is None else entry


def _held(entry: Recommendation) -> Recommendation:
    """The recommendation as one that only holds pods: under no behavior it raises the count."""
    return entry if entry.asked_at is not None else replace(entry, asked_at=entry.at)


def _at_most(entry: Recommendation, now: Nanoseconds) -> Recommendation:
    asked_at = None if entry.asked_at is None else min(entry.asked_at, now)
    return replace(entry, at=min(entry.at, now), asked_at=asked_at)


def _contenders(
    entries: tuple[Recommendation, ...], behavior: Behavior | None, options: ControllerOptions, now: Nanoseconds
) -> tuple[Recommendation, ...]:
    """
    The recommendations that can still decide a count: going back in time, each new largest merged count, and each new
    largest and each new smallest count of the metrics.

    Of equal recommendations the latest stays in the window longest, so the earlier ones never decide.
    """
    up, down = stabilization_windows(behavior, options)
    since_up, since_down = now - up, now - down
    contenders: list[Recommendation] = []
    merged, highest, lowest = -1, -1, INT32_MAX + 1
    # Entries of one instant: real recommendations before assumed ones, then later entries before earlier ones. So an
    # assumed recommendation is dropped if the first reconciliation after the restart makes an equal one, in whichever
    # slot.
    for entry in sorted(reversed(entries), key=_precedence, reverse=True):  # noqa: C414 - it turns around what is equal
        metrics, at, is_pursued = entry.metrics, entry.at, entry.asked_at is None
        replicas = entry.replicas if is_pursued else entry.highest
        wins = not contenders
        if replicas > merged:
            merged = replicas
            wins = wins or at >= since_down
        if metrics is not None:
            if is_pursued and metrics > highest:
                highest = metrics
                wins = wins or at >= since_down
            if metrics < lowest:
                lowest = metrics
                wins = wins or at >= since_up
        if wins:
            contenders.append(entry)
    contenders.reverse()
    return tuple(contenders)


def _precedence(entry: Recommendation) -> tuple[Nanoseconds, bool]:
    return entry.at, entry.asked_at is None


def overwritten(
    entries: tuple[Recommendation, ...], window: Nanoseconds, recommendations: Sequence[Recommendation]
) -> tuple[Recommendation, ...]:
    """The slots after some reconciliations, the oldest first. window: the age up to which an entry is not outdated."""
    slots = [*entries]
    if len(recommendations) == 1:
        slot, oldest = len(slots) - 1, recommendations[0].at - window
        while slot >= 0 and slots[slot].at >= oldest:
            slot -= 1
        _put_slot(slots, slot, recommendations[0])
    elif recommendations:
        _put_slots(slots, window, recommendations)
    return (*slots,)


def _put_slots(slots: list[Recommendation], window: Nanoseconds, recommendations: Sequence[Recommendation]) -> None:
    """
    Puts the recommendations of several reconciliations, one after another.

    Searching all slots at each of hundreds of reconciliations would be slow, so outdated slots are tracked.
    ageing: entries that become outdated meanwhile, the oldest first. outdated: outdated slots, the last one first.
    """
    last = recommendations[-1].at - window
    ageing = [(entry.at, slot) for slot, entry in enumerate(slots) if entry.at < last]
    heapify(ageing)
    outdated: list[int] = []
    for newest in recommendations:
        while ageing and ageing[0][0] < newest.at - window:
            heappush(outdated, -heappop(ageing)[1])
        slot = _put_slot(slots, -heappop(outdated) if outdated else -1, newest)
        if newest.at < last:
            heappush(ageing, (newest.at, slot))


def _put_slot(slots: list[Recommendation], slot: int, newest: Recommendation) -> int:
    """Puts a recommendation and returns its slot. slot: that of an outdated entry, negative if there is none."""
    if slot < 0:
        slots.append(newest)
        return len(slots) - 1
    slots[slot] = newest
    return slot
