"""
The explanation of an object's replicas as a value, from its spec and its status alone.

`explain` prints it; scripts read it as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.api.columns import StatusWord
from cronhpa.api.explained.advice import Problem, about_bounds, about_metric, about_scale, about_target, own_words
from cronhpa.api.maxed import MAXED_OUT, maxed_since
from cronhpa.api.range_text import range_text
from cronhpa.core.model.decision import EVENT_PREFIX, WindowState
from cronhpa.core.model.instant import Nanoseconds, format_instant, parse_instant
from cronhpa.core.model.spec import Spec
from cronhpa.core.schedules.wall_clock import known_zone

Json = dict[str, Any]

_BY_HAND = "ScaledToZeroByHand"
# Conditions that other parts of the explanation cover: the limits, the bounds, forecast and fallback.
_COVERED = {"ScalingLimited", "ScaledToZero", "ForecastActive", "FallbackActive", MAXED_OUT}


class ExplainedMetric(Struct, frozen=True):
    name: str
    type: str
    current: str
    target: str
    """Current and target value as kubectl prints them, "" if not known."""
    replicas: int | None
    pods: int | None
    not_ready: int
    without_sample: int
    problem: Problem | None
    """Why it is absent, None if it is not."""


class ExplainedStep(Struct, frozen=True):
    """A limit that changed the count."""

    rule: str
    before: int
    after: int
    message: str
    """The reason, "" if the operator of an earlier release wrote none."""


class ExplainedBound(Struct, frozen=True):
    """A bound and who states it."""

    role: str
    replicas: int
    by: str
    until: Nanoseconds | None
    holds: bool
    """Whether the bound is in force."""
    why: str
    """The reason of an override, or of a lead."""


class ExplainedForecast(Struct, frozen=True):
    acts: bool
    reason: str
    message: str
    floor: int | None
    """The minimum that the forecast asks for, None if it asks for none."""
    used: float | None
    budget: int
    """Extra pod-hours used, and the budget for them; percent."""


class ExplainedEdge(Struct, frozen=True):
    """The next change."""

    at: Nanoseconds
    what: str
    then: str
    """The bounds after it, "" if they cannot be computed."""
    unknown: str = ""
    """Why they are not known here, "" if they are, or if the spec cannot be read."""


class Explanation(Struct, frozen=True):
    namespace: str
    name: str
    zone: str
    decided: bool
    """Whether there was a decision yet; without one the rest is empty."""
    is_stale: bool = False
    """Whether the newest edit is not decided yet."""
    preview: bool = False
    scales: bool = False
    """Whether the object acts."""
    beside: str = ""
    """The other scaler of a preview's target, "" if there is none."""
    word: str = ""
    target: str = ""
    current: int | None = None
    desired: int | None = None
    decided_by: str = ""
    reason: str = ""
    asleep: bool = False
    """Whether the object itself scaled the target to zero."""
    by_hand: str = ""
    """What to do about a zero that a person made, "" if there is none."""
    last_scaled: Nanoseconds | None = None
    problems: tuple[Problem, ...] = ()
    metrics: tuple[ExplainedMetric, ...] = ()
    steps: tuple[ExplainedStep, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    bounds: tuple[ExplainedBound, ...] = ()
    forecast: ExplainedForecast | None = None
    edge: ExplainedEdge | None = None
    fallback: str = ""
    """What the fallback does, or for what it waits; "" if all metrics are known, or without a fallback."""
    maxed_since: Nanoseconds | None = None
    """Since when the object, which acts, runs at its maximum; None if it does not."""
    ready: int | None = None
    """The Ready pods of the target, which no status has; None if they are not known."""

    @property
    def at_maximum(self) -> str:
        """What the maximum withholds, in words, with an instant as RFC 3339; "" if it withholds nothing."""
        since = "" if self.maxed_since is None else f", since {format_instant(self.maxed_since)}"
        cut = next((step for step in self.steps if step.rule == "TooManyReplicas"), None)
        if cut is not None:
            return f"{cut.before} replicas are asked for, and {cut.after} are allowed{since}"
        return f"all {self.maximum} replicas of its maximum are in use{since}" if since else ""


def explanation(body: Json, spec: Spec | None = None) -> Explanation:
    """
    The explanation that follows from an object's spec and status.

    spec: with its calendars and planned events, where they are known.
    """
    it = current_explanation(body)
    edge = next_change(body) if it.decided else None
    return it if edge is None else replace(it, edge=ExplainedEdge(*edge, *_bounds_at(body, edge[0], spec)))


def current_explanation(body: Json) -> Explanation:
    """As `explanation` without the next edge: to compute the bounds after it takes far longer than everything else."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
    zone = known_zone(spec.get("timeZone"))
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    if not conditions:
        return Explanation(namespace, name, zone, decided=False)
    decision = status.get("decision") or {}
    ready, owned = conditions.get("Ready", {}), conditions.get("TargetOwned", {})
    preview = spec.get("mode") == "Preview"
    beside = owned.get("message", "").partition(": ")[0] if preview and owned.get("status") == "False" else ""
    if beside:
        del conditions["TargetOwned"]
    word = (status.get("columns") or {}).get("status") or ready.get("reason", "")
    metrics = tuple(_metrics(decision))
    bounds = tuple(_bounds(spec, status, decision))
    scales = not preview and owned.get("status") != "False"
    return Explanation(
        namespace=namespace,
        name=name,
        zone=zone,
        decided=True,
        is_stale=ready.get("observedGeneration", 0) < body["metadata"].get("generation", 0),
        preview=preview,
        scales=scales,
        beside=beside,
        word=word,
        target=status.get("target", ""),
        current=status.get("currentReplicas"),
        desired=status.get("desiredReplicas"),
        decided_by=decision.get("decidedBy", ""),
        reason=_without_steps(decision),
        asleep=conditions.get("ScaledToZero", {}).get("status") == "True",
        by_hand=ready.get("message", "") if ready.get("reason") == _BY_HAND else "",
        last_scaled=_instant(status.get("lastScaleTime")),
        problems=tuple(_problems(word, status.get("target", ""), conditions, metrics)),
        metrics=metrics,
        steps=tuple(
            ExplainedStep(step["rule"], step["from"], step["to"], step.get("message", ""))
            for step in decision.get("steps") or ()
        ),
        minimum=status.get("effectiveMinReplicas"),
        maximum=status.get("effectiveMaxReplicas"),
        bounds=bounds,
        forecast=_forecast(spec, status, decision, conditions),
        fallback=_fallback(conditions),
        maxed_since=maxed_since(conditions.values()) if scales else None,
    )


# --- problems ----------------------------------------------------------------------------------------------------


def _problems(word: str, target: str, conditions: Json, metrics: tuple[ExplainedMetric, ...]) -> Iterator[Problem]:
    """The problems of an object; each problem once, even if several conditions name it."""
    covered: list[str] = []
    ready = conditions.get("Ready", {})
    if ready.get("reason") == _BY_HAND:  # a person's will is no problem
        covered.append(conditions.get("ScalingActive", {}).get("message", ""))
    if ready.get("status") == "False":
        message = ready.get("message", "")
        covered.append(message)
        measured = about_metric(message)
        if word == StatusWord.NO_TARGET:
            yield about_target(target, message)
        elif ready.get("reason") == "FailedUpdateScale":
            yield about_scale(target, message)
        elif word == StatusWord.NO_METRICS or any(metric.problem == measured for metric in metrics):
            yield measured
        else:
            yield Problem(message)
    for kind, condition in conditions.items():
        message = condition.get("message", "")
        is_covered = kind in _COVERED or any(part and part in message for part in covered)
        if condition.get("status") != "False" or is_covered:
            continue
        covered.append(message)
        if kind == "BoundsConsistent":
            yield about_bounds(condition.get("reason", ""), message)
        elif kind == "ScalingActive" and own_words(message) != message:
            yield about_metric(own_words(message))
        elif kind == "AbleToScale":
            about = about_scale if condition.get("reason") == "FailedUpdateScale" else about_target
            yield about(target, own_words(message))
        else:
            yield Problem(message)


def _without_steps(decision: Json) -> str:
    """The first part of the reason, without the limits, which have lines of their own."""
    reason: str = decision.get("reason", "")
    for step in reversed(decision.get("steps") or ()):
        reason = reason.removesuffix(f"; {step.get('message', '')}")
    return reason


# --- metrics, bounds and the forecast ----------------------------------------------------------------------------


def _metrics(decision: Json) -> Iterator[ExplainedMetric]:
    for metric in decision.get("metrics") or ():
        yield ExplainedMetric(
            name="/".join(part for part in (metric.get("name"), metric.get("container")) if part),
            type=metric.get("type", ""),
            current=metric.get("current", ""),
            target=metric.get("target", ""),
            replicas=metric.get("replicas"),
            pods=metric.get("pods"),
            not_ready=metric.get("notReady", 0),
            without_sample=metric.get("withoutSample", 0),
            problem=about_metric(metric.get("message", "")) if "reason" in metric else None,
        )


def _bounds(spec: Json, status: Json, decision: Json) -> Iterator[ExplainedBound]:
    """The bounds that override, schedules and spec state. The first minimum and maximum that match are in force."""
    stated = [
        proposal for proposal in decision.get("proposals") or () if proposal["source"] in {"Override", "Schedule"}
    ]
    # An override outranks the schedules. The two bounds of one source stand together.
    stated.sort(key=lambda proposal: proposal["source"] != "Override")
    own = [
        {"source": "Spec", "role": "Floor", "replicas": spec.get("minReplicas", 1)},
        {"source": "Spec", "role": "Cap", "replicas": spec.get("maxReplicas", 0)},
    ]
    in_force = {"Floor": status.get("effectiveMinReplicas"), "Cap": status.get("effectiveMaxReplicas")}
    for bound in (*stated, *own):
        role = bound["role"]
        holds = bound["replicas"] == in_force.get(role)
        if holds:
            in_force[role] = None
        why = bound.get("reason", "")
        if bound["source"] == "Override":
            why = (spec.get("override") or {}).get("reason", "")
        yield ExplainedBound(
            role=role,
            replicas=bound["replicas"],
            by=_by(bound),
            until=_instant(bound.get("until")),
            holds=holds,
            why=why,
        )


def _by(bound: Json) -> str:
    return "/".join(part for part in (bound["source"], bound.get("name")) if part)


def _forecast(spec: Json, status: Json, decision: Json, conditions: Json) -> ExplainedForecast | None:
    condition = conditions.get("ForecastActive")
    if condition is None or spec.get("forecast") is None:
        return None
    used = (status.get("forecast") or {}).get("budgetUsedPermille")
    floor = next(
        (proposal["replicas"] for proposal in decision.get("proposals") or () if proposal["source"] == "Forecast"), None
    )
    return ExplainedForecast(
        acts=condition["status"] == "True",
        reason=condition.get("reason", ""),
        message=condition.get("message", ""),
        floor=floor,
        used=None if used is None else used / 10,
        budget=spec["forecast"].get("budgetPercent", 5),
    )


def _fallback(conditions: Json) -> str:
    condition = conditions.get("FallbackActive", {})
    acts, waits = condition.get("status") == "True", condition.get("reason") == "Waiting"
    return str(condition.get("message", "")) if acts or waits else ""


def next_change(body: Json) -> tuple[Nanoseconds, str] | None:
    """(instant of the next change of the bounds, its cause in words); None if no change is due."""
    edge = (body.get("status") or {}).get("nextEdge")
    if not edge:
        return None
    at = parse_instant(edge["time"])
    if edge["schedule"] == "override" and not any(
        schedule["name"] == "override" for schedule in body["spec"].get("schedules") or ()
    ):
        what = "the override ends"
    else:
        what = f"{edge['schedule']} {_EDGES.get(edge['state'], edge['state'])}"
    return at, what


_EDGES = {"Open": "opens", "Closed": "closes", "Leading": "is asked for, ahead of its start"}


def _bounds_at(body: Json, at: Nanoseconds, spec: Spec | None) -> tuple[str, str]:
    """The bounds from an instant on, from spec and memory, "" if they are not known; and why the spec hides them."""
    from cronhpa.api.parse import SpecError, parse_spec
    from cronhpa.api.status_memory import parse_memory
    from cronhpa.core.model.spec import ControllerOptions
    from cronhpa.core.schedules.bounds import resolve
    from cronhpa.core.schedules.leads import beginning

    status = body.get("status") or {}
    if spec is None:
        try:
            spec = parse_spec(body["spec"], body["metadata"]["namespace"], ControllerOptions())
        except SpecError:
            return "", ""
        if hidden := hidden_sources(spec, status):
            return "", f"the bounds then rest on {hidden}, which the operator knows: see its page"
    memory = parse_memory(status)
    leads = memory.leads
    if status["nextEdge"]["state"] == WindowState.LEADING:
        # As long as the operator has computed it: its period is a setting, which is not known here.
        leads = (*leads, *beginning(spec, status["nextEdge"]["schedule"], at))
    bounds = resolve(spec, at, memory.lead_start_up(spec), leads, memory.crowd)
    return range_text(bounds.minimum, bounds.maximum), ""


def hidden_sources(spec: Spec, status: object) -> str:
    """
    What the operator decides by beside a spec as it was written, in words; "" if there is nothing.

    status: as in a file or from the API; what has not the form of a status tells of nothing.
    """
    from cronhpa.core.schedules.calendar_days import calendars_of

    schedules = status.get("schedules") if isinstance(status, dict) else None
    listed = schedules if isinstance(schedules, list) else []
    names = [str(schedule.get("name", "")) for schedule in listed if isinstance(schedule, dict)]
    parts = ["calendars"] if calendars_of(spec) else []
    parts += ["planned events"] if any(name.startswith(EVENT_PREFIX) for name in names) else []
    return " and ".join(parts)


def _instant(text: str | None) -> Nanoseconds | None:
    return None if text is None else parse_instant(text)


# --- JSON --------------------------------------------------------------------------------------------------------


def as_json(it: Explanation) -> dict[str, Any]:
    """The explanation for scripts: names in camelCase, instants as RFC 3339."""
    if not it.decided:
        return {"namespace": it.namespace, "name": it.name, "decided": False}
    return {
        "namespace": it.namespace,
        "name": it.name,
        "decided": True,
        "lastEditDecided": not it.is_stale,
        "mode": "Preview" if it.preview else "Active",
        "status": it.word,
        "target": it.target,
        "currentReplicas": it.current,
        "desiredReplicas": it.desired,
        "readyReplicas": it.ready,
        "decidedBy": it.decided_by or None,
        "reason": it.reason or None,
        "scaledToZero": it.asleep,
        "scaledToZeroByHand": bool(it.by_hand),
        "lastScaleTime": _stamp(it.last_scaled),
        "maxedSince": _stamp(it.maxed_since),
        "problems": [msgspec.to_builtins(problem) for problem in it.problems],
        "metrics": [
            {
                "name": metric.name,
                "type": metric.type,
                "current": metric.current or None,
                "target": metric.target or None,
                "replicas": metric.replicas,
                "pods": metric.pods,
                "notReady": metric.not_ready,
                "withoutSample": metric.without_sample,
                "problem": None if metric.problem is None else msgspec.to_builtins(metric.problem),
            }
            for metric in it.metrics
        ],
        "steps": [
            {"rule": step.rule, "from": step.before, "to": step.after, "message": step.message or None}
            for step in it.steps
        ],
        "minReplicas": it.minimum,
        "maxReplicas": it.maximum,
        "bounds": [
            {
                "role": bound.role,
                "replicas": bound.replicas,
                "by": bound.by,
                "until": _stamp(bound.until),
                "inForce": bound.holds,
                "reason": bound.why or None,
            }
            for bound in it.bounds
        ],
        "forecast": None
        if it.forecast is None
        else {
            "acts": it.forecast.acts,
            "reason": it.forecast.reason,
            "message": it.forecast.message,
            "floor": it.forecast.floor,
            "usedPercent": it.forecast.used,
            "budgetPercent": it.forecast.budget,
        },
        "fallback": it.fallback or None,
        "next": None
        if it.edge is None
        else {"time": _stamp(it.edge.at), "change": it.edge.what, "bounds": it.edge.then or None},
    }


def _stamp(at: Nanoseconds | None) -> str | None:
    return None if at is None else format_instant(at)
