"""
Stabilization windows and rate policies: the only owner of `spec.behavior`.

Without schedules `normalize` is the upstream's, to the letter. With schedules the policies limit each step toward a
bound, and bounds are exact: neither a stabilization window nor a Disabled policy keeps a floor from holding.
`ramp` is the time that the policies take to reach a floor; a lead must be at least as long. `resume` is here because
the policies tell which rise may have been a step of the operator.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import ceil

from msgspec import Struct

from cronhpa.core.metrics.arithmetic import INT32_MAX
from cronhpa.core.model.decision import BY_METRICS, BY_SPEC, Held, Rate, Recommendation, Rule, SourceRef, Step
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.core.model.memory import Memory, ScaleEvent, stabilization_windows
from cronhpa.core.model.spec import Behavior, ControllerOptions, ScalingRules, SelectPolicy

# The longest lead that makes sense: a slower rate was not meant for this floor.
RAMP_MAX = DAY
# Bounds the CPU time of one ramp; a pod a second for two hours needs fewer steps.
_LOOKS_MAX = 10_000


class Limits(Struct, frozen=True):
    """The bounds of a count. Each has the source that set it."""

    minimum: int
    maximum: int
    """The effective bounds, those of the spec included."""
    floor: int | None = None
    """
    The largest floor of schedules, override, forecast and fallback; None if there is none. No window keeps it from
    holding.
    """
    cap: int | None = None
    """The cap of schedules or override; None if there is none."""
    timed: bool = False
    """Whether the policies limit each step toward a bound: schedules or an override exist."""
    minimum_by: SourceRef = BY_SPEC
    maximum_by: SourceRef = BY_SPEC
    floor_by: SourceRef | None = None
    cap_by: SourceRef | None = None
    released: tuple[SourceRef, ...] = ()
    """The schedules that end at once and are closed: no window keeps the pods of their floors."""

    @property
    def bounded(self) -> bool:
        """Whether a floor or a cap is in force."""
        return self.floor is not None or self.cap is not None

    def allow(self, replicas: int) -> bool:
        """Whether a count may stay: without schedules any count, because the bounds are applied last, as upstream."""
        return not self.timed or self.minimum <= replicas <= self.maximum

    def clamp(self, replicas: int) -> tuple[int, tuple[Step, ...]]:
        """
        The count, raised to the floor, then lowered to the cap; each change as a step.

        This is how floors and caps meet the count of the metrics, and how a stabilized count is kept within them: it
        must be idempotent. `forecasting/columns` (the floor) and `reporting/screening` have the same rule for arrays.
        """
        raised = replicas if self.floor is None else max(replicas, self.floor)
        lowered = raised if self.cap is None else min(raised, self.cap)
        raising = _changed_by(Rule.FLOOR, replicas, raised, self.floor_by)
        return lowered, raising + _changed_by(Rule.CAP, raised, lowered, self.cap_by)


def normalize(
    recommended: Recommendation,
    current: int,
    limits: Limits,
    behavior: Behavior | None,
    options: ControllerOptions,
    memory: Memory,
) -> tuple[int, tuple[Step, ...]]:
    """The replicas to scale to, and each limit that changed the count, in order."""
    merged, now = recommended.replicas, recommended.at
    number, steps = merged, list[Step]()
    stable = stabilize(recommended, current, memory.recommendations, behavior, options, limits.released)
    if stable != merged:
        clamped, clamps = limits.clamp(stable)
        # If a floor or a cap undoes the change of the window, the merged count stays and there is no step to record.
        if clamped != merged:
            rule = Rule.SCALE_UP_STABILIZED if stable < merged else Rule.SCALE_DOWN_STABILIZED
            cause = _held(rule, stable, current, limits, memory, behavior, options)
            steps += [Step(rule, merged, stable, cause), *clamps]
            number = clamped
    if limits.timed:
        raised = max(number, limits.minimum)
        lowered = min(raised, limits.maximum)
        steps += _changed_by(Rule.TOO_FEW_REPLICAS, number, raised, limits.minimum_by)
        steps += _changed_by(Rule.TOO_MANY_REPLICAS, raised, lowered, limits.maximum_by)
        number = lowered
        rule, limited = approach(number, current, limits, behavior, memory, now)
    elif behavior is None:
        rule, limited = _limit_by_default(number, current, limits)
    else:
        rule, limited = _limit_by_policies(number, current, limits, behavior, memory, now)
    if limited != number:
        steps.append(Step(rule, number, limited, _cause(rule, current, limits, behavior, memory, now)))
    # A zero that cronhpa set ends at once: the policies, of percentages of zero pods, might keep it for ever.
    if not limits.timed and current == 0 and limited < limits.minimum:
        steps += _changed_by(Rule.FLOOR, limited, limits.minimum, limits.minimum_by)
        limited = limits.minimum
    return limited, tuple(steps)


def _changed_by(rule: Rule, before: int, after: int, cause: SourceRef | None) -> tuple[Step, ...]:
    """The step from one count to the next; none if they are equal."""
    return () if before == after else (Step(rule, before, after, cause),)


def _held(
    rule: Rule,
    stable: int,
    current: int,
    limits: Limits,
    memory: Memory,
    behavior: Behavior | None,
    options: ControllerOptions,
) -> Held:
    """The recommendation that holds the stabilized count: the newest of several, because it stays longest."""
    up, down = stabilization_windows(behavior, options)
    measured = [(entry.metrics, entry) for entry in memory.recommendations if entry.metrics is not None]
    if rule is Rule.SCALE_UP_STABILIZED:
        window, candidates = up, [pair for pair in measured if pair[0] <= stable]
    elif stable > current:
        # A stabilized count above the current one raises it; only recommendations of the metrics may do that.
        window, candidates = down, [pair for pair in measured if pair[0] >= stable and pair[1].asked_at is None]
    else:
        window, candidates = (
            down,
            [
                (count, entry)
                for entry in memory.recommendations
                if (count := (entry.metrics or 0) if entry.by in limits.released else entry.highest) >= stable
            ],
        )
    recommended, newest = max(candidates, key=lambda pair: pair[1].at)
    by = newest.by if recommended == newest.replicas else BY_METRICS
    asked_at = newest.at if newest.asked_at is None else newest.asked_at
    return Held(recommended, asked_at, newest.at + window, by, None if asked_at == newest.at else newest.at)


def _cause(
    rule: Rule, current: int, limits: Limits, behavior: Behavior | None, memory: Memory, now: Nanoseconds
) -> Rate | SourceRef:
    """The policy or the bound that limits the count after this step."""
    if rule is Rule.TOO_FEW_REPLICAS:
        return limits.minimum_by
    if rule is Rule.TOO_MANY_REPLICAS:
        return limits.maximum_by
    if behavior is None:
        return Rate(current)
    is_up = rule is Rule.SCALE_UP_LIMIT
    rules = behavior.scale_up if is_up else behavior.scale_down
    if rules.select_policy is SelectPolicy.DISABLED:
        return Rate(current, disabled=True)
    starts = _starts(rules, current, memory, now, is_up=is_up)
    ends = _ends_up(rules, starts) if is_up else _ends_down(rules, starts)
    # Max allows the largest change, Min the smallest: upwards those are the largest and the smallest count.
    chosen = max if (rules.select_policy is SelectPolicy.MIN) is not is_up else min
    index = ends.index(chosen(ends))
    return Rate(starts[index], rules.policies[index])


def stabilize(
    newest: Recommendation,
    current: int,
    recommendations: Iterable[Recommendation],
    behavior: Behavior | None,
    options: ControllerOptions,
    released: tuple[SourceRef, ...] = (),
) -> int:
    """
    The count that recent recommendations allow: the larger of two numbers.

    1. The counts of the metrics, stabilized as upstream. Without a behavior: the largest count within the window, which
       may raise the current one. With one: min(max(current, smallest of the up window), largest of the down window).
    2. min(current, largest merged count within the down window). So pods that a floor, an override or a forecast asked
       for are kept after it ends, and none are added for it. The same holds for counts that a restart assumes, and for
       counts above a cap.

    released: sources whose merged counts are not kept; what metrics asked for meanwhile is.

    A merged count that the metrics do not ask for is a floor: it is not noise, so it holds without stabilization.
    An entry exactly as old as the window counts without a behavior, and does not count with one.
    """
    up, down = stabilization_windows(behavior, options)
    since = newest.at - down
    if behavior is None:
        since -= 1
    since_up = newest.at - up
    merged = stabilized = newest.replicas
    measured = newest.metrics
    lowest, highest = (-1, 0) if measured is None else (measured, measured)
    for entry in recommendations:
        at, metrics = entry.at, entry.metrics
        if at > since and entry.replicas > stabilized and entry.by not in released:
            stabilized = entry.replicas
        if metrics is not None:
            if metrics < lowest and at > since_up:
                lowest = metrics
            elif metrics > highest and at > since:
                if entry.asked_at is None:
                    highest = metrics
                else:
                    stabilized = max(stabilized, metrics)
    stable = min(current, max(stabilized, highest))
    if measured is None:
        return max(stable, merged)
    stable = max(stable, highest if behavior is None else min(max(current, lowest), highest))
    return max(stable, merged) if merged > measured else stable


def approach(
    goal: int, current: int, limits: Limits, behavior: Behavior | None, memory: Memory, now: Nanoseconds
) -> tuple[Rule, int]:
    """
    The next count on the way to `goal` that the policies allow.

    Disabled stops metrics only: a floor, a cap and the effective bounds are reached at once.
    """
    if goal > current:
        if behavior is None:
            return Rule.SCALE_UP_LIMIT, min(goal, _default_ceiling(current))
        ceiling = _ceiling(current, limit_up(behavior, current, memory, now))
        if behavior.scale_up.select_policy is SelectPolicy.DISABLED:
            ceiling = max(current, limits.minimum, limits.floor or 0)
        return Rule.SCALE_UP_LIMIT, min(goal, ceiling)
    if behavior is None or goal == current:
        return Rule.SCALE_DOWN_LIMIT, goal
    bottom = min(current, limit_down(behavior, current, memory, now))
    if behavior.scale_down.select_policy is SelectPolicy.DISABLED:
        bottom = min(current, limits.maximum, limits.maximum if limits.cap is None else limits.cap)
    return Rule.SCALE_DOWN_LIMIT, max(goal, bottom)


def _ceiling(current: int, allowed: int) -> int:
    """The largest next count on the way to a floor, where the policies allow `allowed`."""
    # A percentage of 0 is 0: a Percent policy alone would keep a scheduled zero for ever.
    return max(current, 1, allowed)


def _default_ceiling(current: int) -> int:
    """The upstream's fixed rate without a behavior: double, or four."""
    return int(max(2.0 * current, 4.0))


def _limit_by_default(number: int, current: int, limits: Limits) -> tuple[Rule, int]:
    rate = _default_ceiling(current)
    ceiling, rule = (rate, Rule.SCALE_UP_LIMIT) if limits.maximum > rate else (limits.maximum, Rule.TOO_MANY_REPLICAS)
    if number < limits.minimum:
        return Rule.TOO_FEW_REPLICAS, limits.minimum
    return rule, min(number, ceiling)


def _limit_by_policies(
    number: int, current: int, limits: Limits, behavior: Behavior, memory: Memory, now: Nanoseconds
) -> tuple[Rule, int]:
    if number > current:
        limit = max(limit_up(behavior, current, memory, now), current)
        # Disabled stops metrics; the forecast's floor still holds.
        if behavior.scale_up.select_policy is SelectPolicy.DISABLED:
            limit = max(limit, limits.floor or 0)
        if limits.maximum > limit:
            return Rule.SCALE_UP_LIMIT, min(number, limit)
        return Rule.TOO_MANY_REPLICAS, min(number, limits.maximum)
    if number < current:
        limit = min(limit_down(behavior, current, memory, now), current)
        if limits.minimum < limit:
            return Rule.SCALE_DOWN_LIMIT, max(number, limit)
        return Rule.TOO_FEW_REPLICAS, max(number, limits.minimum)
    return Rule.SCALE_DOWN_LIMIT, number


def limit_up(behavior: Behavior, current: int, memory: Memory, now: Nanoseconds) -> int:
    """The largest count that the scale-up policies allow at this instant."""
    rules = behavior.scale_up
    if rules.select_policy is SelectPolicy.DISABLED:
        return current
    return _limit_up(rules, _starts(rules, current, memory, now, is_up=True))


def _limit_up(rules: ScalingRules, starts: Iterable[int]) -> int:
    """starts: for each policy the count at the beginning of its period."""
    ends = _ends_up(rules, starts)
    return min(ends) if rules.select_policy is SelectPolicy.MIN else max(ends)


def _ends_up(rules: ScalingRules, starts: Iterable[int]) -> list[int]:
    """For each policy the largest count that it allows."""
    return [
        # From 1 replica, +10 % would be 1.1 and truncation would pin it at 1 for ever: round up.
        min(
            start + policy.value if policy.type == "Pods" else ceil(float(start) * (1.0 + float(policy.value) / 100.0)),
            INT32_MAX,
        )
        for policy, start in zip(rules.policies, starts, strict=True)
    ]


def ramp(behavior: Behavior | None, start: int, goal: int, sync_period: Nanoseconds) -> Nanoseconds:
    """
    The time that the policies take from `start` to a floor of `goal`: from its first reconciliation to the one that
    reaches it.

    One reconciliation each sync period, no earlier scale events. At most RAMP_MAX. From 2 to 20 with +4 pods or +100 %
    per 15 s and a reconciliation each 15 s: 6, 12, 20 at 0, 15 and 30 s.
    """
    if goal <= start or (behavior is not None and behavior.scale_up.select_policy is SelectPolicy.DISABLED):
        return 0
    if behavior is None:
        return default_ramp(start, goal, sync_period)
    return _ramp(behavior.scale_up, start, goal, sync_period)


# 300 bytes each: three numbers and one.
@lru_cache(maxsize=4096)
def default_ramp(start: int, goal: int, sync_period: Nanoseconds) -> Nanoseconds:
    """The same for an object without a behavior."""
    periods, count = 0, start
    while count < goal:
        periods, count = periods + 1, _default_ceiling(count)
    return min((periods - 1) * sync_period, RAMP_MAX)


# 300 bytes each, beside the rules.
@lru_cache(maxsize=4096)
def _ramp(rules: ScalingRules, start: int, goal: int, sync_period: Nanoseconds) -> Nanoseconds:
    # counts[i]: the count before the event at times[i]. passed[j]: the number of events older than policy j's period.
    # Only an event that leaves a period allows more, so the reconciliations in between are skipped.
    periods = [policy.period for policy in rules.policies]
    times: list[Nanoseconds] = []
    counts, passed, at = [start], [0] * len(periods), 0
    for _ in range(_LOOKS_MAX // len(periods)):
        for index, period in enumerate(periods):
            while passed[index] < len(times) and times[passed[index]] <= at - period:
                passed[index] += 1
        ceiling = _ceiling(counts[-1], _limit_up(rules, [counts[index] for index in passed]))
        if ceiling >= goal or at > RAMP_MAX:
            return min(at, RAMP_MAX)
        if ceiling > counts[-1]:
            times.append(at)
            counts.append(ceiling)
        ages = [times[i] + period for i, period in zip(passed, periods, strict=True) if i < len(times)]
        if not ages:  # policies of value 0 never allow a pod
            return RAMP_MAX
        at = -(-min(ages) // sync_period) * sync_period
    # The step of a reconciliation never shrinks on the way up, so the mean rate so far gives an upper bound.
    return min(at * (goal - start) // (counts[-1] - start), RAMP_MAX)


def limit_down(behavior: Behavior, current: int, memory: Memory, now: Nanoseconds) -> int:
    """The smallest count that the scale-down policies allow at this instant."""
    rules = behavior.scale_down
    if rules.select_policy is SelectPolicy.DISABLED:
        return current

    ends = _ends_down(rules, _starts(rules, current, memory, now, is_up=False))
    return max(ends) if rules.select_policy is SelectPolicy.MIN else min(ends)


def _ends_down(rules: ScalingRules, starts: Iterable[int]) -> list[int]:
    """For each policy the smallest count that it allows, from the count at the beginning of its period."""
    return [
        start - policy.value if policy.type == "Pods" else int(float(start) * (1.0 - float(policy.value) / 100.0))
        for policy, start in zip(rules.policies, starts, strict=True)
    ]


def resume(
    memory: Memory,
    current: int | None,
    now: Nanoseconds,
    behavior: Behavior | None,
    assumed_until: Nanoseconds | None = None,
) -> Memory:
    """
    The memory of a new process, including a step up that the old process made and could not record.

    A rise that the memory does not contain and that the policies allowed counts as such a step, made now: the next step
    comes no earlier than without the restart, and later by at most the duration of the restart. A larger rise was made
    by somebody else and limits no step. assumed_until: as in `Memory.resumed`.
    """
    memory = memory.resumed(current, now, assumed_until)
    # After an intended scale-down: the memory as if it had been done; if it was not done, the memory before it.
    remembered = memory.replicas
    if behavior is None or remembered is None or current is None or current <= remembered:
        return memory
    if current > _ceiling(remembered, limit_up(behavior, remembered, memory, now)):
        return memory
    return memory.scaled(remembered, current, now, behavior, assumed=True)


def _starts(rules: ScalingRules, current: int, memory: Memory, now: Nanoseconds, *, is_up: bool) -> list[int]:
    """
    For each policy the count at the begin of its period: current - pods added + pods removed within the period.

    is_up: whether the policies limit scale-ups. Pods that are only assumed to be new count for scale-ups alone.
    """
    came = memory.scale_ups if is_up else tuple(event for event in memory.scale_ups if not event.assumed)
    went = memory.scale_downs
    sinces = [now - policy.period for policy in rules.policies]
    return [current - _changed(came, since) + _changed(went, since) for since in sinces]


def _changed(events: Iterable[ScaleEvent], since: Nanoseconds) -> int:
    return sum(event.change for event in events if event.at > since)
