"""
The memory in a status becomes a Memory. Everybody who may patch the status writes it, so its text is distrusted.

What no reconciliation can have written is damaged: another type or range, more entries, or times further apart than the
longest window. A damaged memory is an empty one, which is seeded with the current count. What is well formed is
believed: a forged text that the operator could have written itself cannot be told from its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from cronhpa.core.metrics.arithmetic import INT32_MAX, INT64_MAX
from cronhpa.core.metrics.observe import START_UP_MAX
from cronhpa.core.model.decision import FOREIGN_PREFIXES, Lead, Recommendation, Source, SourceRef
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, Nanoseconds, format_instant_exact, parse_instant
from cronhpa.core.model.memory import Intent, Memory, ScaleEvent
from cronhpa.core.model.observation import Crowd, NodeStart
from cronhpa.core.model.quantity import LENGTH_MAX, format_milli, parse_milli
from cronhpa.core.model.spec import ControllerOptions

# One a second for the longest window of a behavior, an hour; and for the longest period of a policy, half an hour.
RECOMMENDATIONS_MAX = 4_000
EVENTS_MAX = 2_000
# A spec has at most 50 schedules, 50 of events, 30 of calendars, and 30 metrics.
LEADS_MAX = 200
REQUESTS_MAX = 100
# Start-up, a sync period of an hour, and the longest ramp, a day.
LEAD_MAX = DAY + 3 * HOUR
# Clocks are stepped; a window is not stretched by more.
_SLACK = 5 * MINUTE
_ANY_WINDOW = ControllerOptions(downscale_stabilization=INT64_MAX)

Replicas = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Time = Annotated[str, Meta(max_length=40)]
_Seconds = Annotated[int, Meta(ge=0, le=START_UP_MAX // SECOND)]
# `Event/cluster:`, the name of an event, `/` and that of its schedule: 14 + 253 + 1 + 63 = 331.
_NAME_MAX = 340
Name = Annotated[str, Meta(max_length=_NAME_MAX)]
Resource = Annotated[str, Meta(max_length=317, pattern=r"^[-A-Za-z0-9_./]+\Z")]
_Quantity = Annotated[str, Meta(max_length=LENGTH_MAX)]

MEMORY_VERSION = 1
# Only so many recommendations, the newest, keep their source, so that an hour of them fits into an object.
_NAMED_MAX = 100
_BY_METRIC = f"{Source.METRIC}/"
_SOURCES = frozenset(Source)


class _Recommendation(Struct, gc=False, rename="camel"):
    """One recommendation."""

    replicas: Replicas
    """
    What earlier operators read, which know no other field. They must hold it and not raise to it, so it is the merged
    count up to the count in force, or `metrics` if that is more.
    """
    time: Time
    merged: Replicas | None = None
    """The merged count; absent, it is `replicas`."""
    metrics: Replicas | None = None
    """What the metrics asked for. With `merged` and `metrics` absent and a metric in `by`, it is `replicas`."""
    by: Annotated[str, Meta(max_length=_NAME_MAX)] = ""
    """The source that asked for it."""
    kept: Replicas | None = None
    """`metrics` of a held recommendation: an operator that does not know askedAt would pursue `metrics`."""
    asked_at: Time | None = None
    """When a recommendation was made that is only held."""


class _ScaleEvent(Struct, gc=False):
    change: Annotated[int, Meta(gt=0, le=INT32_MAX)]
    time: Time
    outdated: bool = False
    assumed: bool = False


class _Intent(Struct, rename={"before": "from", "after": "to", "from_scheduled_zero": "fromScheduledZero"}):
    before: Replicas
    after: Replicas
    time: Time
    from_scheduled_zero: bool = False


class _Lead(Struct):
    schedule: Name
    start: Time
    seconds: Annotated[int, Meta(ge=0, le=LEAD_MAX // SECOND)]


class _Crowd(Struct, rename="camel"):
    start: Time
    pods: Annotated[int, Meta(gt=0, le=INT64_MAX)]
    objects: Annotated[int, Meta(gt=0, le=INT32_MAX)]
    pods_per_minute: Annotated[int, Meta(gt=0, le=INT32_MAX)]


class _NodeStart(Struct):
    seconds: _Seconds
    time: Time


class _Memory(Struct, rename="camel"):
    recommendations: Annotated[list[_Recommendation], Meta(max_length=RECOMMENDATIONS_MAX)]
    scale_up_events: Annotated[list[_ScaleEvent], Meta(max_length=EVENTS_MAX)]
    scale_down_events: Annotated[list[_ScaleEvent], Meta(max_length=EVENTS_MAX)]
    zero: bool | None = None
    scheduled_zero: bool = False
    start_up_seconds: _Seconds | None = None
    node_start: _NodeStart | None = None
    request_per_pod: Annotated[dict[Resource, _Quantity], Meta(max_length=REQUESTS_MAX)] = {}
    crowd: _Crowd | None = None
    intent: _Intent | None = None
    leads: Annotated[list[_Lead], Meta(max_length=LEADS_MAX)] = []
    replicas: Replicas | None = None
    unmeasured_since: Time | None = None


def render_memory(memory: Memory, current: int | None = None) -> dict[str, Any]:
    """
    The memory as the status stores it.

    current: the count in force, None while it is unknown. After a downgrade an earlier operator pursues the counts that
    it reads, so no count above this one is written for it, except for those that a metric asked for.
    """
    text: dict[str, Any] = {"version": MEMORY_VERSION}
    unnamed = len(memory.recommendations) - _NAMED_MAX
    text["recommendations"] = [
        _recommendation(recommendation, current, is_named=index >= unnamed)
        for index, recommendation in enumerate(memory.recommendations)
    ]
    for key, events in (("scaleUpEvents", memory.scale_ups), ("scaleDownEvents", memory.scale_downs)):
        text[key] = [
            {
                "change": event.change,
                "time": format_instant_exact(event.at),
                **({"outdated": True} if event.outdated else {}),
                **({"assumed": True} if event.assumed else {}),
            }
            for event in events
        ]
    if memory.replicas is not None:
        text["replicas"] = memory.replicas
    if memory.zero is not None:
        text["zero"] = memory.zero
    if memory.scheduled_zero:
        text["scheduledZero"] = True
    text.update(_start_ups(memory))
    if memory.request_per_pod:
        text["requestPerPod"] = {name: format_milli(milli) for name, milli in sorted(memory.request_per_pod.items())}
    if memory.crowd is not None:
        text["crowd"] = {
            "start": format_instant_exact(memory.crowd.start),
            "pods": memory.crowd.pods,
            "objects": memory.crowd.objects,
            "podsPerMinute": memory.crowd.pods_per_minute,
        }
    if memory.intent is not None:
        text["intent"] = {
            "from": memory.intent.before,
            "to": memory.intent.after,
            "time": format_instant_exact(memory.intent.at),
            **({"fromScheduledZero": True} if memory.intent.from_scheduled_zero else {}),
        }
    if memory.unmeasured_since is not None:
        text["unmeasuredSince"] = format_instant_exact(memory.unmeasured_since)
    if memory.leads:
        text["leads"] = [
            {
                "schedule": lead.schedule,
                "start": format_instant_exact(lead.start),
                "seconds": lead.length // SECOND,
            }
            for lead in memory.leads
        ]
    return text


def _start_ups(memory: Memory) -> dict[str, Any]:
    text: dict[str, Any] = {}
    if memory.start_up is not None:
        text["startUpSeconds"] = memory.start_up // SECOND
    if memory.node_start is not None:
        node = memory.node_start
        text["nodeStart"] = {"seconds": node.length // SECOND, "time": format_instant_exact(node.at)}
    return text


def _recommendation(recommendation: Recommendation, current: int | None, *, is_named: bool) -> dict[str, Any]:
    merged, metrics = recommendation.replicas, recommendation.metrics if recommendation.asked_at is None else None
    highest = merged if recommendation.asked_at is None else recommendation.highest
    highest = highest if current is None else min(highest, current)
    replicas = highest if metrics is None else max(highest, metrics)
    text: dict[str, Any] = {"replicas": replicas, "time": format_instant_exact(recommendation.at)}
    by = str(recommendation.by) if is_named and recommendation.by is not None else ""
    if len(by) > _NAME_MAX:
        by = ""
    if not (merged == metrics == replicas and by.startswith(_BY_METRIC)):
        if merged != replicas or metrics is None:
            text["merged"] = merged
        if metrics is not None:
            text["metrics"] = metrics
    if by:
        text["by"] = by
    if recommendation.asked_at is not None:
        text["askedAt"] = format_instant_exact(recommendation.asked_at)
        if recommendation.metrics is not None:
            text["kept"] = recommendation.metrics
    return text


class Remembered(Struct, frozen=True):
    memory: Memory
    problem: str | None = None
    """Where the memory in a status is damaged, and what was found there; None if it is not damaged."""


def read_memory(status: Mapping[str, Any], options: ControllerOptions | None = None) -> Remembered:
    """
    The memory in a status. A memory that is absent, damaged or of another version becomes an empty one.

    An empty memory is seeded with the current count, so losing it can delay a scale-down and never hasten it.
    options: the operator's settings, whose stabilization window may be longer than the longest of a spec.
    """
    text = status.get("memory")
    if text is None:
        return Remembered(_empty(status))
    version = text.get("version") if isinstance(text, Mapping) else None
    if isinstance(text, Mapping) and version != MEMORY_VERSION:
        return Remembered(_empty(status), f"version: found {version!r:.40}: {MEMORY_VERSION} is read")
    try:
        memory = _converted(msgspec.convert(text, _Memory))
        _check_ages(memory, max(HOUR, (options or ControllerOptions()).downscale_stabilization) + _SLACK)
    except (ValueError, RecursionError) as error:  # msgspec's own is a ValueError
        return Remembered(_empty(status), str(error))
    return Remembered(memory)


def parse_memory(status: Mapping[str, Any]) -> Memory:
    """The memory of `read_memory`, for callers that report no problem, nor know the operator's window."""
    return read_memory(status, _ANY_WINDOW).memory


def _empty(status: Mapping[str, Any]) -> Memory:
    """An empty memory, except for `zero`: an object that was observed before must not take a zero for scheduled."""
    conditions = status.get("conditions")
    if not isinstance(conditions, list) or not conditions:
        return Memory()
    stated = [
        condition
        for condition in conditions
        if isinstance(condition, Mapping) and condition.get("type") == "ScaledToZero"
    ]
    return Memory(zero=any(condition.get("status") == "True" for condition in stated))


def _converted(text: _Memory) -> Memory:
    """Raises ValueError for a text that is no time or no quantity."""
    intent, start_up, crowd, node = text.intent, text.start_up_seconds, text.crowd, text.node_start
    return Memory(
        recommendations=tuple(_read_recommendation(recommendation) for recommendation in text.recommendations),
        scale_ups=_scale_events(text.scale_up_events),
        scale_downs=_scale_events(text.scale_down_events),
        zero=text.zero,
        scheduled_zero=text.scheduled_zero,
        start_up=None if start_up is None else start_up * SECOND,
        node_start=None if node is None else NodeStart(node.seconds * SECOND, parse_instant(node.time)),
        request_per_pod={name: _request(quantity) for name, quantity in text.request_per_pod.items()},
        crowd=None
        if crowd is None
        else Crowd(parse_instant(crowd.start), crowd.pods, crowd.objects, crowd.pods_per_minute),
        intent=None
        if intent is None
        else Intent(intent.before, intent.after, parse_instant(intent.time), intent.from_scheduled_zero),
        leads=tuple(Lead(lead.schedule, parse_instant(lead.start), lead.seconds * SECOND) for lead in text.leads),
        replicas=text.replicas,
        unmeasured_since=None if text.unmeasured_since is None else parse_instant(text.unmeasured_since),
    )


def _read_recommendation(text: _Recommendation) -> Recommendation:
    is_one = text.metrics is None and text.merged is None and text.by.startswith(_BY_METRIC)
    metrics = text.replicas if is_one else text.metrics if text.asked_at is None else text.kept
    at, merged = parse_instant(text.time), text.replicas if text.merged is None else text.merged
    asked_at = None if text.asked_at is None else min(parse_instant(text.asked_at), at)
    source, _, name = text.by.partition("/")
    # A later operator may know other sources. A recommendation of an unknown source is held, and never pursued.
    by = SourceRef(Source(source), name) if source in _SOURCES else None
    if text.by.startswith(FOREIGN_PREFIXES):
        by = SourceRef(Source.SCHEDULE, text.by)
    return Recommendation(merged, at, metrics, by, asked_at)


def _scale_events(items: list[_ScaleEvent]) -> tuple[ScaleEvent, ...]:
    return tuple(ScaleEvent(event.change, parse_instant(event.time), event.outdated, event.assumed) for event in items)


def _request(text: str) -> int:
    milli = parse_milli(text)
    if not 0 <= milli <= INT64_MAX:
        raise ValueError(f"requestPerPod: found {text}: a quantity from 0 to {INT64_MAX}m is read")
    return milli


def _check_ages(memory: Memory, longest: Nanoseconds) -> None:
    """
    Raises ValueError where entries are further apart than a reconciliation leaves them.

    A reconciliation writes what can still win: entries of the last window and the last period, and the newest
    recommendation, which may be of any age where no metric was read since.
    """
    times = sorted(recommendation.at for recommendation in memory.recommendations)
    events = [event.at for event in (*memory.scale_ups, *memory.scale_downs)]
    newest = max([*times, *events], default=0)
    oldest = min([*times[:-1], *events], default=newest)
    if newest - oldest > longest:
        raise ValueError(
            f"recommendations and scale events lie {(newest - oldest) // SECOND} s apart, "
            f"at most {longest // SECOND} s are remembered"
        )
