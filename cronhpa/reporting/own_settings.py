"""
Is what an autoscaler has already worth it: its forecast its budget, its windows their pods, their leads long enough?

Each is left out, or changed, and the week is replayed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from cronhpa.core.model.instant import MINUTE
from cronhpa.core.model.spec import Mode, Schedule, Span, Spec
from cronhpa.core.schedules.bounds import resolve
from cronhpa.forecasting.workload import reactive_replicas
from cronhpa.reporting.cases import (
    BUDGETS,
    Case,
    Finding,
    Found,
    Json,
    Suggestion,
    SuggestionKind,
    avoids,
    least_minutes,
    value_of,
    worth,
)

# Each takes a replay of the week.
_SCHEDULES_MAX = 4
_SAVED_PERCENT_MIN = 0.5
# Of the minutes of a window before the week, all but the rarest.
_FLOOR_PERCENTILE = 95
# A window's first minutes: pods that are not Ready then were asked for too late.
_START_MINUTES = 10
_BUDGET_FACTOR_MIN = 1.1


def of_own_forecast(case: Case) -> Found:
    """Whether the forecast is worth its pods, and whether another budget is worth more."""
    manifest, today = case.target.manifest["spec"], case.today
    settings = manifest.get("forecast")
    if settings is None:
        return
    if settings.get("mode") == Mode.PREVIEW:
        yield from _of_preview(case, settings)
        return
    run = case.replays.run({key: value for key, value in manifest.items() if key != "forecast"})
    avoided = run.score.under_provisioned_minutes - today.under_provisioned_minutes
    extra = today.pod_hours - run.score.pod_hours
    did = f"avoided {avoided:,.0f} of {run.score.under_provisioned_minutes:,.0f} minutes for {extra:+,.1f} pod-hours"
    if worth(today, run.score) > 0 and extra >= _SAVED_PERCENT_MIN / 100 * today.pod_hours:
        without = {key: value for key, value in manifest.items() if key != "forecast"}
        yield Suggestion(SuggestionKind.FORECAST, "no forecast", f"its forecast {did}", without, run)
        return
    budget = settings.get("budgetPercent", 5)
    yield Finding(f"its forecast, budgetPercent {budget}, {did}")
    if today.under_provisioned_minutes < least_minutes(today):
        return
    estimates = case.replays.estimates(manifest, sorted({*BUDGETS, budget}))
    values = {one.budget_percent: value_of(today, one.avoided, one.extra_hours) for one in estimates}
    best = max(values, key=lambda percent: values[percent])
    if best == budget or values[best] < _BUDGET_FACTOR_MIN * values[budget]:
        return
    changed = {**manifest, "forecast": {**settings, "budgetPercent": best}}
    other = case.replays.run(changed)
    if worth(today, other.score) > 0:
        text = f"a forecast with budgetPercent {best} instead of {budget}"
        yield Suggestion(SuggestionKind.FORECAST, text, f"its forecast {did}", changed, other)


def _of_preview(case: Case, settings: Json) -> Found:
    """Whether a forecast that only tells what it would do is worth its pods."""
    today = case.today
    changed = {**case.target.manifest["spec"], "forecast": {**settings, "mode": str(Mode.ACTIVE)}}
    run = case.replays.run(changed)
    avoided = today.under_provisioned_minutes - run.score.under_provisioned_minutes
    extra = run.score.pod_hours - today.pod_hours
    would = (
        f"its forecast, which is in mode Preview, would have avoided {avoided:,.0f} of "
        f"{today.under_provisioned_minutes:,.0f} minutes for {extra:+,.1f} pod-hours"
    )
    if avoids(today, run.score):
        yield Suggestion(SuggestionKind.FORECAST, "its forecast in mode Active", would, changed, run)
    else:
        yield Finding(would)


def of_own_schedules(case: Case) -> Found:
    """Windows that no minute needed, floors that were too low, and leads that were too short."""
    schedules = case.target.manifest["spec"].get("schedules") or ()
    raising = [place for place, one in enumerate(schedules) if one.get("minReplicas") and not one.get("suspend")]
    if len(raising) > _SCHEDULES_MAX:
        yield Finding(f"only the first {_SCHEDULES_MAX} of its {len(raising)} schedules with minReplicas were judged")
    for place in raising[:_SCHEDULES_MAX]:
        yield from _of_schedule(case, schedules, place)


def _of_schedule(case: Case, schedules: Sequence[Json], place: int) -> Found:
    manifest, today, schedule = case.target.manifest["spec"], case.today, schedules[place]
    name = f"schedule {schedule['name']}"
    spec = case.replays.parsed(manifest)
    own = next(one for one in spec.schedules if one.name == schedule["name"])
    is_open, short = _open_minutes(spec, own, case.span), _short_minutes(case)
    if own.lead is not None:
        late = int(np.count_nonzero(short & _first_minutes(is_open)))
        changed = _with(manifest, schedules, place, {k: v for k, v in schedule.items() if k != "leadTimeSeconds"})
        led = case.replays.run(changed) if late >= least_minutes(today) / 2 else None
        if led is not None and worth(today, led.score) > 0:
            text = f"a measured lead of {name} instead of leadTimeSeconds {schedule['leadTimeSeconds']}"
            why = f"{late} of the first {_START_MINUTES} minutes of its windows were short"
            yield Suggestion(SuggestionKind.SCHEDULE, text, why, changed, led)
            return
    others = [one for other, one in enumerate(schedules) if other != place]
    rest = {key: value for key, value in schedule.items() if key != "minReplicas"}
    # What else a schedule states stays.
    remaining = [rest] if rest.get("maxReplicas") is not None or rest.get("headroomPercent") else []
    without = {**manifest, "schedules": [*others, *remaining]}
    run = case.replays.run(without)
    avoided = run.score.under_provisioned_minutes - today.under_provisioned_minutes
    extra = today.pod_hours - run.score.pod_hours
    did = f"its minReplicas {schedule['minReplicas']} avoided {avoided:,.0f} minutes for {extra:+,.1f} pod-hours"
    if avoided <= 1 and extra >= _SAVED_PERCENT_MIN / 100 * today.pod_hours:
        why = f"{did}: it was not needed"
        yield Suggestion(SuggestionKind.SCHEDULE, f"no minReplicas in {name}", why, without, run)
        return
    yield Finding(f"{name}: {did}")
    missed = int(np.count_nonzero(short & is_open))
    begin = case.span.begin - len(case.learnt) * MINUTE
    within = case.learnt[_open_minutes(spec, own, Span(begin, case.span.begin))]
    if missed < least_minutes(today) or not len(within):
        return
    needed = np.percentile(reactive_replicas(within, case.setting.model), _FLOOR_PERCENTILE)
    floor = min(int(np.ceil(needed)), int(manifest["maxReplicas"]))
    if floor > schedule["minReplicas"]:
        changed = _with(manifest, schedules, place, {**schedule, "minReplicas": floor})
        raised = case.replays.run(changed)
        if avoids(today, raised.score):
            text = f"minReplicas {floor} instead of {schedule['minReplicas']} in {name}"
            why = f"{missed} minutes of its windows were short"
            yield Suggestion(SuggestionKind.SCHEDULE, text, why, changed, raised)


def _short_minutes(case: Case) -> NDArray[np.bool_]:
    """Whether pods were too few in some part of each minute of the judged time."""
    begin = case.span.begin
    short = np.zeros((case.span.end - begin) // MINUTE, bool)
    for stretch in case.today.stretches:
        short[(stretch.begin - begin) // MINUTE : -(-(stretch.end - begin) // MINUTE)] = True
    return short


def _first_minutes(is_open: NDArray[np.bool_]) -> NDArray[np.bool_]:
    first = np.zeros(len(is_open), bool)
    for start in np.flatnonzero(np.diff(is_open.astype(np.int8), prepend=0) > 0):
        first[start : start + _START_MINUTES] = True
    return first


def _with(manifest: Json, schedules: Sequence[Json], place: int, changed: Json) -> Json:
    return {**manifest, "schedules": [changed if other == place else one for other, one in enumerate(schedules)]}


def _open_minutes(spec: Spec, schedule: Schedule, span: Span) -> NDArray[np.bool_]:
    """Whether a schedule is open in each minute of a span, without its lead."""
    alone = replace(spec, schedules=(replace(schedule, lead=0),))
    minutes = range(span.begin, span.end, MINUTE)
    return np.array([resolve(alone, at, None, (), None).timed_floor is not None for at in minutes], bool)
