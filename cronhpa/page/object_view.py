"""
One object, seven days back and seven ahead, as the page draws it. Runs in a worker process: a week of decisions and an
object with an edge every minute take seconds.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from datetime import timedelta
from math import isfinite
from typing import Any

import msgspec
import yaml

from cronhpa.api.explained.explanation import current_explanation
from cronhpa.api.explained.explanation_text import explained
from cronhpa.api.explained.object_rows import row_of
from cronhpa.api.identity import GROUP, VERSION
from cronhpa.api.parse import SpecError
from cronhpa.api.status_memory import parse_memory
from cronhpa.api.written_spec import as_written, field_order
from cronhpa.core.forecasts.floor import forecast_source, pod_capacity
from cronhpa.core.model.instant import DAY, SECOND, Nanoseconds, from_datetime, parse_instant
from cronhpa.core.model.local_time import local, local_times
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.spec import Metric, ResourceMetric, Spec, UnknownMetric
from cronhpa.core.schedules.timeline import Mark, Timeline, timeline, window_intervals
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.past.past_decision import decided_spec
from cronhpa.history.past.points import Point
from cronhpa.history.store import Store
from cronhpa.page.effective_spec import effective_spec
from cronhpa.page.objects import STATED_DEFAULTS
from cronhpa.page.past_lanes import Lane, change_rows, events_of, lanes_of, scalings_of
from cronhpa.page.questions import SPAN, DecisionQuestion, ViewQuestion
from cronhpa.page.shortages import ready_pods, short_spans

Json = dict[str, Any]

# A week of an object that changes its mind every two minutes.
CHANGES_MAX = 5_000
# The usual load is that of the same hours of so many weeks.
_WEEKS = 4
_MARKS_MAX = 500
_ENCODER = msgspec.json.Encoder()


def view_of(question: ViewQuestion) -> bytes:
    """The JSON that the page draws. Parts that cannot be read are left out, with a sentence in `problems`."""
    body: Json = msgspec.json.decode(question.body)
    row = row_of(body, current_explanation(body), question.now, question.zone)
    status: Json = body.get("status") or {}
    problems: list[str] = []
    try:
        spec = effective_spec(body["spec"], question.namespace, question.options, question.events, question.calendars)
    except SpecError as error:
        spec, problems = None, [str(problem) for problem in error.problems]
    memory = parse_memory(status)
    metric = None if spec is None else measured_metric(spec)
    past: Json = {}
    try:
        past = _past(question, metric, _capacity(spec, metric, memory), memory.start_up)
    except StoreError as problem:
        problems.append(f"the operator's store cannot be read: {problem}")
    view = {
        "namespace": question.namespace,
        "name": question.name,
        "zone": question.zone,
        "ownZone": question.own_zone,
        "now": question.now / SECOND,
        "since": (question.now - SPAN) / SECOND,
        "until": (question.now + SPAN) / SECOND,
        "status": row.word,
        "needsPerson": row.needs_person,
        "notes": row.notes,
        "current": row.current,
        "desired": row.desired,
        "min": row.minimum,
        "max": row.maximum,
        "scales": row.scales,
        "target": status.get("target") or "",
        "explained": explained(body, question.now, question.zone, spec),
        "conditions": [
            _condition(condition, question.zone, question.now) for condition in status.get("conditions") or ()
        ],
        "metric": "" if metric is None else _name(metric),
        "unit": _unit(metric),
        "capacity": _capacity(spec, metric, memory),
        "startUp": None if memory.start_up is None else memory.start_up / SECOND,
        "budget": _budget(spec, status),
        "spec": _written(body),
        "fieldOrder": {"spec": field_order(), "schedule": field_order("schedules")},
        "yaml": manifest_text(body),
        "commands": commands(question.namespace, question.name, row.current),
        "problems": problems,
        "ahead": None if spec is None else _ahead(spec, question, memory),
        **past,
    }
    return _ENCODER.encode(view)


def decision_of(question: DecisionQuestion) -> bytes:
    """The text of `cronhpa explain --at` as JSON; `null` if no decision of that instant is kept."""
    store = Store.open_to_read(question.store)
    try:
        decision = store.decisions.at(question.namespace, question.name, question.at)
        following = None if decision is None else store.decisions.after(question.namespace, question.name, question.at)
    finally:
        store.close()
    if decision is None:
        return b"null"
    # One of a time when the operator's clock was ahead ends nothing yet.
    end = following.at if following is not None and following.at <= question.now else None
    return _ENCODER.encode(
        {
            "at": decision.at / SECOND,
            "until": None if end is None else end / SECOND,
            "explained": explained(
                msgspec.json.decode(decision.body), decision.at, question.zone, decided_spec(decision)
            ),
        }
    )


def measured_metric(spec: Spec) -> Metric | None:
    """The metric whose load is recorded: the one that is forecast, else the first."""
    return forecast_source(spec) or next(iter(spec.metrics), None)


def _name(metric: Metric) -> str:
    return "" if isinstance(metric, UnknownMetric) else metric.name


def _unit(metric: Metric | None) -> str:
    """The unit of the metric's load; "" for a metric whose unit only its provider knows."""
    if not isinstance(metric, ResourceMetric):
        return ""
    return "cores" if metric.name == "cpu" else "bytes"


def _capacity(spec: Spec | None, metric: Metric | None, memory: Memory) -> float | None:
    """The load that one pod can carry."""
    if spec is None or metric is None:
        return None
    percent = spec.forecast.pod_capacity_percent if spec.forecast is not None else None
    return pod_capacity(metric, memory.request_per_pod.get(_name(metric)), percent)


def _condition(condition: Json, zone: str, now: Nanoseconds) -> Json:
    at = condition.get("lastTransitionTime")
    return {
        "type": condition.get("type", ""),
        "status": condition.get("status", ""),
        "reason": condition.get("reason", ""),
        "message": local_times(condition.get("message", ""), zone, now),
        "since": None if at is None else parse_instant(at) / SECOND,
    }


def _budget(spec: Spec | None, status: Json) -> Json | None:
    if spec is None or spec.forecast is None:
        return None
    used = (status.get("forecast") or {}).get("budgetUsedPermille")
    return {"percent": spec.forecast.budget_percent, "used": None if used is None else used / 10}


def _written(body: Json) -> Json:
    return as_written(body.get("spec") or {}, body["metadata"].get(STATED_DEFAULTS, ()))


def manifest_text(body: Json) -> str:
    """The object as a file that can be edited and applied: without the fields of the API server and the operator."""
    manifest = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "CronHPA",
        "metadata": {"name": body["metadata"]["name"], "namespace": body["metadata"]["namespace"]},
        "spec": _written(body),
    }
    text: str = yaml.safe_dump(manifest, sort_keys=False, default_flow_style=False, width=110, allow_unicode=True)
    return text


def commands(namespace: str, name: str, current: int | None) -> list[Json]:
    """Commands that a person may want next, quoted for a shell, whatever the names contain."""
    of = f"{shlex.quote(name)} -n {shlex.quote(namespace)}"
    more = max((current or 0) * 3 // 2, (current or 0) + 1, 2)
    return [
        {
            "title": "Hold more pods for two hours",
            "command": f"kubectl cronhpa override {of} --min {more} --for 2h --reason INCIDENT",
        },
        {
            "title": "Keep it from growing for an hour",
            "command": f"kubectl cronhpa override {of} --max {max(current or 1, 1)} --for 1h --reason INCIDENT",
        },
        {"title": "End the override", "command": f"kubectl cronhpa override {of} --clear"},
        {"title": "The bounds of the next 30 days", "command": f"kubectl cronhpa preview {of} --to 30d"},
        {"title": "Why it has these replicas", "command": f"kubectl cronhpa explain {of}"},
        {"title": "The last week decided again", "command": f"kubectl cronhpa backtest {of} --history STORE"},
    ]


# --- ahead -------------------------------------------------------------------------------------------------------


def _ahead(spec: Spec, question: ViewQuestion, memory: Memory) -> Json:
    line = timeline(
        spec,
        question.now,
        question.now + SPAN,
        zones=[question.zone],
        start_up=memory.lead_start_up(spec),
        leads=memory.leads,
        crowd=memory.crowd,
    )
    return {
        "isCut": line.is_cut,
        "segments": [
            [
                segment.start / SECOND,
                segment.end / SECOND,
                segment.minimum,
                segment.maximum,
                str(segment.minimum_by),
                str(segment.maximum_by),
            ]
            for segment in line.segments
        ],
        "lanes": [lane.fields() for lane in _lanes_ahead(spec, line)],
        "marks": [_mark(mark) for mark in line.marks[:_MARKS_MAX]],
    }


def _lanes_ahead(spec: Spec, line: Timeline) -> Iterator[Lane]:
    bounds_by_name = {schedule.name: (schedule.floor, schedule.cap) for schedule in spec.schedules}
    if spec.override is not None:
        bounds_by_name.setdefault("override", (spec.override.floor, spec.override.cap))
    for window in window_intervals(line):
        floor, cap = bounds_by_name.get(window.name, (None, None))
        yield Lane(window.name, window.start, window.end, leads=window.leads, floor=floor, cap=cap)


def _mark(mark: Mark) -> Json:
    return {
        "kind": str(mark.kind),
        "at": mark.start / SECOND,
        "end": None if mark.end is None else mark.end / SECOND,
        "text": mark.text,
    }


# --- past --------------------------------------------------------------------------------------------------------


def _past(question: ViewQuestion, metric: Metric | None, capacity: float | None, start_up: Nanoseconds | None) -> Json:
    since, now = question.now - SPAN, question.now
    series = None if metric is None else Series(question.namespace, question.name, _name(metric))
    store = Store.open_to_read(question.store)
    try:
        changes = store.decisions.between(question.namespace, question.name, since, now, CHANGES_MAX)
        before = store.decisions.at(question.namespace, question.name, since - 1)
        points = store.decisions.points(question.namespace, question.name, since, now)
        loads, minutes, issued, newest = [], [], [], None
        if series is not None:
            loads = store.loads.steps(series, now - _WEEKS * SPAN, now)
            minutes = minute_loads(store, series, since, now)
            issued = store.forecasts.issued_quantiles([series], now - DAY, now)[series]
            newest = store.forecasts.newest_of([series]).get(series)
    finally:
        store.close()
    decisions = [*([before] if before is not None else []), *changes]
    ready = ready_pods(points, scalings_of(decisions), start_up)
    forecast = []
    if newest is not None and newest.step > 0 and now - newest.issued_at < SPAN:
        starts = (newest.start + place * newest.step for place in range(len(newest.load)))
        forecast = [[at / SECOND, load] for at, load in zip(starts, newest.load, strict=False) if isfinite(load)]
    return {
        "points": _columns(points, dict(loads), since),
        "changes": change_rows(decisions, question.zone),
        "changesCut": len(changes) == CHANGES_MAX,
        "lanes": [lane.fields() for lane in lanes_of(decisions, since, now)],
        "events": events_of(decisions, question.zone),
        "short": [[begin / SECOND, end / SECOND] for begin, end in short_spans(ready, minutes, capacity)],
        "issued": [[quantile.start / SECOND, quantile.load, quantile.percent] for quantile in issued],
        "forecast": forecast,
        "forecastModel": "" if newest is None else newest.model,
        "usual": [[at / SECOND, low, high] for at, low, high in usual_loads(dict(loads), now, question.own_zone)],
        "usualOf": f"last {_WEEKS} weeks" if _is_weekly(dict(loads), now) else "last 7 days",
    }


def _columns(points: Iterable[Point], loads: dict[Nanoseconds, float], since: Nanoseconds) -> Json:
    """Points by column. Where a point has no load, as before the operator's start, the load history's is taken."""
    by_step = {point.at - point.at % STEP: point for point in points}
    instants = sorted({*by_step, *(at for at in loads if at >= since)})
    rows = [(by_step.get(at), loads.get(at)) for at in instants]
    return {
        "at": [at / SECOND for at in instants],
        "load": [load if point is None or point.load is None else point.load for point, load in rows],
        **{
            name: [None if point is None else getattr(point, name) for point, _ in rows]
            for name in ("replicas", "ready", "floor", "cap", "forecast")
        },
    }


def minute_loads(
    store: Store, series: Series, since: Nanoseconds, until: Nanoseconds
) -> list[tuple[Nanoseconds, float]]:
    """The largest load of each minute; nothing in a store of a release that kept no minutes. Raises StoreError."""
    try:
        return store.loads.minutes(series, since, until)
    except StoreError as problem:
        if "no such table" not in str(problem):
            raise
        return []


def usual_loads(
    loads: dict[Nanoseconds, float], now: Nanoseconds, zone: str
) -> Iterator[tuple[Nanoseconds, float, float]]:
    """
    (start of an hour, smallest, largest) of the loads at the same hour of past weeks, for each hour of the coming span.

    With less than two weeks of loads: of the same hour of past days. These are recorded loads, and no forecast.
    zone: whose clock tells the hour, also over a clock change.
    """
    if not loads:
        return
    hours: dict[int, tuple[float, float]] = {}
    for at, load in loads.items():
        hour = at // _HOUR
        low, high = hours.get(hour, (load, load))
        hours[hour] = (min(low, load), max(high, load))
    period, count = (SPAN, _WEEKS) if _is_weekly(loads, now) else (DAY, SPAN // DAY)
    first = now // _HOUR + 1
    for hour in range(first, first + SPAN // _HOUR):
        back = -(-(hour - now // _HOUR) // (period // _HOUR))
        then = local(hour * _HOUR, zone)
        past_days = ((back + earlier) * (period // DAY) for earlier in range(count))
        alike = (from_datetime(then - timedelta(days=days)) // _HOUR for days in past_days)
        ranges = [hours[past] for past in alike if past in hours]
        if ranges:
            yield hour * _HOUR, min(low for low, _ in ranges), max(high for _, high in ranges)


def _is_weekly(loads: dict[Nanoseconds, float], now: Nanoseconds) -> bool:
    """Whether there are two weeks of loads, so that the same hours of past weeks are compared instead of past days."""
    return bool(loads) and now - min(loads) >= 2 * SPAN


_HOUR = 3600 * SECOND
