"""The answer of a report: what is worth doing, most worth first, in sentences with their figures; then the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from cronhpa.core.model.instant import DAY, HOUR, SECOND, format_instant
from cronhpa.core.model.prices import Prices, money
from cronhpa.reporting.cases import EXTRA_PERCENT_MAX, MINUTE_WORTH, Suggestion, worth
from cronhpa.reporting.reported_target import LeftOut
from cronhpa.reporting.rhythm import OneTimePeak
from cronhpa.reporting.screening import workload_model
from cronhpa.reporting.suggestions import JudgedTarget
from cronhpa.simulation.score import Score

Json = dict[str, Any]


class ClusterReport(Struct, frozen=True):
    """What a report says."""

    judged: tuple[JudgedTarget, ...]
    """Most worth first."""
    left_out: tuple[LeftOut, ...]
    """What was not judged, and why."""
    remarks: tuple[str, ...] = ()
    """What could not be read."""
    prices: Prices = Prices()


def report_of(
    judged: Sequence[JudgedTarget], left_out: Sequence[LeftOut], remarks: Sequence[str], prices: Prices
) -> ClusterReport:
    """Targets with a suggestion by the worth of their best one; then the others by the minutes that they are short."""

    def rank(one: JudgedTarget) -> tuple[float, float, str]:
        best = one.best
        value = worth(one.today, best.score) if best is not None else 0.0
        return -value, -one.today.under_provisioned_minutes, one.target.label

    unpriced = [f"{one.target.label}: {why}" for one in judged if (why := prices.unknown(one.target.requests))]
    return ClusterReport(tuple(sorted(judged, key=rank)), tuple(left_out), (*remarks, *unpriced), prices)


def sentence(judged: JudgedTarget, suggestion: Suggestion, prices: Prices) -> str:
    """What to do and what it changes, such as `a forecast with ...: 130 -> 27 minutes short, pod-hours +5.1 %`."""
    before, after = judged.today, suggestion.score
    text = (
        f"{suggestion.change}: {minutes(before)} -> {minutes(after)} minutes short in {days(judged)}, "
        f"{before.pod_hours:,.0f} -> {after.pod_hours:,.0f} pod-hours ({change_percent(before, after):+.1f} %)"
    )
    price = prices.of_pod(judged.target.requests)
    if price is not None:
        saved = (before.pod_hours - after.pod_hours) * price
        text += f", {'saves' if saved >= 0 else 'costs'} {money(abs(saved))}"
    return text


def doubts_of(judged: JudgedTarget, suggestion: Suggestion) -> tuple[str, ...]:
    """What speaks against a suggestion, the weightiest first."""
    more = change_percent(judged.today, suggestion.score)
    dear = (
        f"{more:.0f} % more pod-hours are many: worth it only where a minute with too few pods costs as much as "
        f"{MINUTE_WORTH} minutes of all pods"
    )
    return (*((dear,) if more > EXTRA_PERCENT_MAX else ()), *suggestion.doubts)


def nothing_to_gain(judged: JudgedTarget) -> str:
    """Why nothing is suggested."""
    today = judged.today
    if today.under_provisioned_minutes < 1:
        return f"never short in {days(judged)}, and no setting saves pods"
    return f"{minutes(today)} minutes short in {days(judged)}, and nothing tried avoids enough of them for its pods"


def minutes(score: Score) -> str:
    return f"{score.under_provisioned_minutes:,.0f}"


def days(judged: JudgedTarget) -> str:
    length = (judged.span.end - judged.span.begin) / DAY
    return "a week" if abs(length - 7) < 0.01 else f"{length:.1f} days"  # noqa: PLR2004 - the days of a week


def change_percent(before: Score, after: Score) -> float:
    return 100 * (after.pod_hours / before.pod_hours - 1) if before.pod_hours else 0.0


def idle_hours(judged: JudgedTarget) -> float:
    """Pod-hours beyond those that would carry the load at the metric's target."""
    served = (judged.today.demand - judged.today.unserved) / HOUR / workload_model(judged.target).target
    return max(judged.today.pod_hours - served, 0.0)


def peak_text(peak: OneTimePeak) -> str:
    return (
        f"{format_instant(peak.begin)}, {(peak.end - peak.begin) / (60 * SECOND):.0f} minutes: {peak.replicas} pods, "
        f"where other days need {peak.usual} at most: a candidate for a planned event, not for a schedule"
    )


def as_data(answer: ClusterReport) -> Json:
    """The answer as JSON and YAML have it."""
    return {
        "targets": [_target(one, answer.prices) for one in answer.judged],
        "leftOut": [{"autoscaler": one.autoscaler, "why": one.why} for one in answer.left_out],
        "remarks": list(answer.remarks),
    }


def _target(judged: JudgedTarget, prices: Prices) -> Json:
    target = judged.target
    out: Json = {
        "target": target.label,
        "autoscaler": target.autoscaler,
        "metric": target.series.metric,
        "from": format_instant(judged.span.begin),
        "to": format_instant(judged.span.end),
        "today": {**_score(judged.today), "idlePodHours": round(idle_hours(judged), 1)},
        "suggestions": [_suggestion(judged, one, prices) for one in judged.suggestions],
        "findings": list(judged.findings),
        "doubts": list(judged.doubts),
    }
    if judged.together is not None:
        out["together"] = _suggestion(judged, judged.together, prices)
    if judged.happened is not None:
        out["happened"] = {
            "underProvisionedMinutes": round(judged.happened.minutes, 1),
            "podHours": round(judged.happened.pod_hours, 1),
        }
    if target.start_up is not None:
        start = target.start_up
        out["startUp"] = {
            "pods": start.pods,
            "schedulingSeconds": start.scheduling / SECOND,
            "creatingSeconds": start.creating / SECOND,
            **({} if start.pulling is None else {"pullingSeconds": start.pulling / SECOND}),
            "becomingReadySeconds": start.becoming_ready / SECOND,
            "p90Seconds": start.total / SECOND,
        }
    if judged.peaks:
        out["peaks"] = [
            {"from": format_instant(one.begin), "to": format_instant(one.end), "pods": one.replicas, "usual": one.usual}
            for one in judged.peaks
        ]
    if judged.best is None:
        out["nothingToGain"] = nothing_to_gain(judged)
    return out


def _suggestion(judged: JudgedTarget, suggestion: Suggestion, prices: Prices) -> Json:
    price = prices.of_pod(judged.target.requests)
    saved = None if price is None else (judged.today.pod_hours - suggestion.score.pod_hours) * price
    return {
        "kind": str(suggestion.kind),
        "change": suggestion.change,
        "why": suggestion.why,
        **_score(suggestion.score),
        **({} if saved is None else {"saved": round(saved, 2)}),
        "doubts": list(doubts_of(judged, suggestion)),
        "spec": suggestion.spec,
    }


def _score(score: Score) -> Json:
    return {
        "underProvisionedMinutes": round(score.under_provisioned_minutes, 3),
        "unservedPercent": round(score.unserved_percent, 4),
        "podHours": round(score.pod_hours, 3),
        "mostReplicas": score.most_replicas,
        "scaleActions": score.actions,
    }
