"""
An explanation in sentences, as of a given time.

Times are local times of the object's zone, each with its distance from now. Each problem is named once.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from cronhpa.api.columns import StatusWord
from cronhpa.api.explained.advice import Problem
from cronhpa.api.explained.explanation import ExplainedMetric, Explanation, explanation
from cronhpa.api.range_text import range_text
from cronhpa.core.model.decision import Source
from cronhpa.core.model.instant import MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.local_time import format_length, format_near, local_times
from cronhpa.core.model.spec import Spec

# Of a line, where a terminal is wider: longer lines are hard to read.
_WIDTH_MAX = 80
# A narrower terminal breaks the lines itself: names and times are hardly shorter.
_WIDTH_MIN = 30
# `decidedBy` where no source asks for a count, and the current one stays.
_NOBODY = "CurrentReplicas"
# A line is not broken within a number with its unit, a clock time with its offset, nor within the distance of a time.
_WHOLE = re.compile(
    r"\((?:in )?\d+ (?:d|h|min|s)(?: \d+ (?:h|min|s))?(?: ago)?\)|\d+ (?:d|h|min|s|%)(?!\w)|:\d\d [+-]\d\d:\d\d"
)
# No text has this character.
_JOINT = "\ue000"


def explained(
    body: dict[str, Any],
    now: Nanoseconds,
    zone: str | None = None,
    spec: Spec | None = None,
    ready: int | None = None,
) -> list[str]:
    """
    The lines that explain an object at `now`.

    zone: of its times; None: that of the object. spec: with calendars and planned events, where they are known. ready:
    the Ready pods of its target, where they are known.
    """
    it = replace(explanation(body, spec), ready=ready)
    return [*_lines(it if zone is None else replace(it, zone=zone), now)]


def summary(body: dict[str, Any], now: Nanoseconds, ready: int | None = None) -> list[str]:
    """The first lines of `explained`: how many replicas, why, and until when."""
    it = replace(explanation(body), ready=ready)
    return [*_lines(it, now, ("", "Next"))]


def folded(line: str, width: int = _WIDTH_MAX) -> list[str]:
    """
    A line wrapped at `width` characters, or at 80 if that is wider; its words stay whole.

    Further lines are indented, so that none looks like a line of our own: a message may contain line ends.
    """
    indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
    first, *rest = _WHOLE.sub(lambda match: match[0].replace(" ", _JOINT), line).split("\n")
    pieces = [first, *(f"{indent}{piece}" for piece in rest)]
    return [
        part.replace(_JOINT, " ")
        for piece in pieces
        for part in textwrap.wrap(
            piece,
            min(max(width, _WIDTH_MIN), _WIDTH_MAX),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
    ]


def _lines(it: Explanation, now: Nanoseconds, titles: Collection[str] | None = None) -> Iterator[str]:
    """titles: of the paragraphs, None for all."""
    label = f"{it.namespace}/{it.name}"
    if not it.decided:
        yield f"{label} has not been decided upon yet: is the operator running, and does it watch this namespace?"
        return
    yield _headline(it, label)
    paragraphs = (
        ("", _why(it, now)),
        ("Metrics", _metrics(it)),
        (f"Bounds now: {range_text(it.minimum, it.maximum)}", _bounds(it, now)),
    )
    for title, lines in (*paragraphs, ("Forecast", _forecast(it)), ("Next", _next(it, now))):
        if titles is not None and title not in titles:
            continue
        indented = [f"  {local_times(line, it.zone, now)}" for line in lines]
        if title and indented:
            yield title
        yield from indented


def _why(it: Explanation, now: Nanoseconds) -> Iterator[str]:
    """The problems, the reason for the count unless a problem tells it, and the limits that changed the count."""
    if it.is_stale:
        yield "its last edit has not been decided upon yet: is the operator running? This is what was before it."
    for problem in it.problems:
        yield from _problem(problem)
    yield from _standing(it)
    is_told = any(problem.message and problem.message in it.reason for problem in it.problems)
    if it.reason and not is_told and it.word != StatusWord.NO_TARGET:
        yield f"{it.reason}{_of_override(it)}"
    # Where it decides, the reason says so.
    if it.fallback and it.decided_by != Source.FALLBACK.value:
        yield f"fallback: {it.fallback}"
    for step in it.steps:
        yield step.message or _step(step.rule, step.before, step.after)
    if it.last_scaled is not None:
        yield f"scaled last {_when(it.last_scaled, it.zone, now)}"


def _standing(it: Explanation) -> Iterator[str]:
    """What holds for longer than one decision: the maximum, pods that are not Ready, the mode, a zero."""
    if it.maxed_since is not None:
        yield f"! {it.at_maximum}"
        yield f"  {_to_rise(it)}"
    if it.ready is not None and it.current is not None and it.ready < it.current:
        yield f"{it.ready} of the {it.current} pods are Ready: kubectl get pods -n {it.namespace} shows the others"
    if it.preview:
        yield "mode is Preview: it decides and reports, and scales nothing"
    if it.beside:
        yield f"{it.beside}, and may until mode is Active"
    if it.by_hand:
        yield it.by_hand
    if it.asleep:
        yield "it was scaled to zero by this object, and wakes when something asks for more"


def _to_rise(it: Explanation) -> str:
    """What asks for most of an object at its maximum, and which number would have to rise."""
    of = next((bound.by for bound in it.bounds if bound.role == "Cap" and bound.holds), Source.SPEC.value)
    do = f"if more pods are meant to run, raise {'maxReplicas' if of == Source.SPEC.value else f'the maximum of {of}'}"
    most = max((metric for metric in it.metrics if metric.replicas is not None), key=_asked, default=None)
    return do if most is None else f"{most.name} is at {_value(most)}: {do}"


def _asked(metric: ExplainedMetric) -> int:
    return metric.replicas or 0


def _of_override(it: Explanation) -> str:
    """What a person gave as the reason of the override that decides: the second fact of three in the summary."""
    if it.decided_by != Source.OVERRIDE.value:
        return ""
    why = next((bound.why for bound in it.bounds if bound.by == it.decided_by and bound.why), "")
    return f": {why}" if why else ""


def _headline(it: Explanation, label: str) -> str:
    if it.current is None:
        return f"{label}: {it.target} was never seen"
    replicas = f"{it.current} {'replica' if it.current == 1 else 'replicas'} of {it.target}"
    by = f", decided by {it.decided_by}" if it.decided_by not in {"", _NOBODY} else ""
    if it.desired is None:
        return f"{label}: {replicas}; nothing was decided yet"
    if it.desired == it.current:
        return f"{label}: {replicas}{by or ', no change'}"
    if it.scales:
        return f"{label}: from {it.current} to {it.desired} replicas of {it.target}{by}"
    return f"{label}: {replicas}; it would be {it.desired}{by}"


def _problem(problem: Problem) -> Iterator[str]:
    yield f"! {problem.what or problem.message}"
    if problem.do:
        yield f"  {problem.do}"
    if problem.what and problem.message:
        yield f"  ({problem.message})"


# Texts of limits, for the status of an earlier operator, which stated no message.
_STEPS = {
    "ScaleUpStabilized": "held by stabilization: {before} are asked for, {after} for now",
    "ScaleDownStabilized": "held by stabilization: {before} are asked for, {after} for now",
    "ScaleUpLimit": "the policies of behavior.scaleUp allow {after} of {before} for now",
    "ScaleDownLimit": "the policies of behavior.scaleDown allow {after} for now, on the way to {before}",
    "TooManyReplicas": "{before} are asked for, and at most {after} are allowed",
    "TooFewReplicas": "{before} are asked for, and at least {after} are kept",
    "NoEvidence": "a schedule that cannot be read may ask for more: {after} in place of {before}",
    "Floor": "raised from {before} to the floor of {after}",
    "Cap": "lowered from {before} to the cap of {after}",
}


def _step(rule: str, before: int, after: int) -> str:
    return _STEPS.get(rule, rule + ": {before} became {after}").format(before=before, after=after)


def _metrics(it: Explanation) -> Iterator[str]:
    for metric in it.metrics:
        yield _metric(metric, it)


def _metric(metric: ExplainedMetric, it: Explanation) -> str:
    if metric.problem is not None:
        if metric.problem in it.problems:
            return f"{metric.name}: not known, as said above"
        why = "; ".join(part for part in (metric.problem.what, metric.problem.do) if part)
        return f"{metric.name}: not known: {why}" + (f" ({metric.problem.message})" if metric.problem.message else "")
    asks = f"; asks for {metric.replicas}"
    return f"{metric.name}: {_value(metric)}{_over(metric)}{asks}"


def _value(metric: ExplainedMetric) -> str:
    """Such as `33 % of 60 %`, `12 of 10 a pod`, `7 of 100`."""
    if metric.type == "Utilization":
        return f"{metric.current.removesuffix('%')} % of {metric.target.removesuffix('%')} %"
    return f"{metric.current} of {metric.target}" + (" a pod" if metric.type == "AverageValue" else "")


def _over(metric: ExplainedMetric) -> str:
    if metric.pods is None:
        return ""
    text = f" over {metric.pods} {'pod' if metric.pods == 1 else 'pods'}"
    if metric.not_ready:
        text += f", {metric.not_ready} of them not ready"
    if metric.without_sample:
        text += f", {metric.without_sample} of them without a sample{_assumed(metric)}"
    return text


def _assumed(metric: ExplainedMetric) -> str:
    """What pods without a sample count as, by the upstream's rule; only Utilization has a number that says it all."""
    current, target = metric.current.removesuffix("%"), metric.target.removesuffix("%")
    if metric.type != "Utilization" or not (current.isdigit() and target.isdigit()) or current == target:
        return ""
    return f" (counted at {max(100, int(target)) if int(current) < int(target) else 0} %)"


def _bounds(it: Explanation, now: Nanoseconds) -> Iterator[str]:
    """Both bounds of one source on one line where they have everything else in common."""
    for _, group in groupby(it.bounds, key=lambda bound: (bound.by, bound.until, bound.holds, bound.why)):
        first, *_ = bounds = [*group]
        numbers = {bound.role: bound.replicas for bound in bounds}
        until = "" if first.until is None else f" until {_when(first.until, it.zone, now)}"
        why = f": {first.why}" if first.why else ""
        rank = "" if first.holds else " - outranked"
        yield f"{range_text(numbers.get('Floor'), numbers.get('Cap'))} by {first.by}{until}{why}{rank}"


def _forecast(it: Explanation) -> Iterator[str]:
    forecast = it.forecast
    if forecast is None:
        return
    if forecast.floor is not None:
        asks = "asks" if forecast.acts else "would ask"
        yield f"{asks} for at least {forecast.floor}" if forecast.floor else f"{asks} for nothing now"
    yield f"{forecast.reason}: {forecast.message}"
    if forecast.used is not None:
        yield f"costs {forecast.used:.1f} % more pod-hours over seven days, of a budget of {forecast.budget} %"


def _next(it: Explanation, now: Nanoseconds) -> Iterator[str]:
    if it.edge is None:
        yield "nothing changes the bounds by itself"
        return
    then = f"; then {it.edge.then} are allowed" if it.edge.then else ""
    then += f"; {it.edge.unknown}" if it.edge.unknown else ""
    yield f"{_when(it.edge.at, it.zone, now)}: {it.edge.what}{then}"


def _when(at: Nanoseconds, zone: str, now: Nanoseconds) -> str:
    """Such as `18:00 +01:00 (in 7 h)`, `Tue 2026-11-24 08:00 +01:00 (in 21 h)`, `09:59:45 +01:00 (15 s ago)`."""
    moment = format_near(at, zone, now)
    if at == now:
        return f"{moment} (now)"
    away = abs(at - now)
    away -= away % (MINUTE if away >= MINUTE else SECOND)
    return f"{moment} ({f'in {format_length(away)}' if at >= now else f'{format_length(away)} ago'})"
