"""
What would change a target's week for the better: each suggestion is found on the load before a week and replayed on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.model.decision import Rule
from cronhpa.core.model.instant import DAY, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.spec import Span, Spec
from cronhpa.forecasting.backtest import name_of
from cronhpa.forecasting.workload import reactive_replicas
from cronhpa.migration.documents.manifest import unique_names
from cronhpa.reporting.cases import (
    BUDGETS,
    EXTRA_PERCENT_MAX,
    JUDGED,
    MINUTE_WORTH,
    Case,
    Finding,
    Found,
    Json,
    Replays,
    Suggestion,
    SuggestionKind,
    avoids,
    least_minutes,
    pays,
    saves,
    value_of,
    worth,
)
from cronhpa.reporting.own_settings import of_own_forecast, of_own_schedules
from cronhpa.reporting.reported_target import ReportedTarget
from cronhpa.reporting.rhythm import (
    STEP,
    DayGrid,
    FoundWindow,
    OneTimePeak,
    day_grid,
    instant_of,
    likely_zone,
    one_time_peaks,
    windows_of,
)
from cronhpa.reporting.screening import estimate, minutes_of
from cronhpa.simulation.run import Run
from cronhpa.simulation.score import Score

_LEARNT_MIN: Nanoseconds = 2 * DAY
_WINDOWS_LEARNT_MIN: Nanoseconds = 4 * DAY
_TARGET_SHARES = (1.05, 1.1, 1.15, 1.2, 1.3, 1.4)
_TARGET_REPLAYS = 2
_UTILIZATION_MAX = 95
_STABILIZATION_SECONDS = 900
_ACTIONS_PER_DAY = 20
_MAXIMUM_FACTOR = 4
_FLOOR_FACTORS = (1.0, 1.25)
_SHORT_WINDOW_MINUTES = 60
_OFTEN = 0.001
_FLOOR_PERCENTILE = 10
_DAYS_OF_DOUBT = 14
# A suggested minimum keeps a second pod.
_MINIMUM_LEAST = 2
_NAMED_DAYS = 3
_MINUTES_A_DAY = DAY // MINUTE
# Of the 20 recorded series those above it are three of the four whose next week needs 1.4 times the pods, or less.
_UNLIKE_FACTOR = 2.0
NEEDED_MINUTES = 10
_UNKNOWN_SHARE_MAX = 0.1
_UNKNOWN_SHARE_TOLD = 0.005
_SEVERAL = 2
# A replay of several changes at once must promise a tenth more than the best of them.
_TOGETHER_MIN = 1.1
# Whose clock changes a load may follow, where its zone is not stated.
ZONES = ("UTC", "Europe/London", "Europe/Berlin", "America/New_York", "America/Los_Angeles", "America/Sao_Paulo",
         "Australia/Sydney")  # fmt: skip


class HappenedWeek(Struct, frozen=True):
    """The judged week with the replicas that there really were."""

    minutes: float
    """Under-provisioned."""
    pod_hours: float


class JudgedTarget(Struct, frozen=True):
    """A target with its week as it is, and with each suggestion."""

    target: ReportedTarget
    """Without its points: hundreds of targets are held until the report is written."""
    span: Span
    """The judged time."""
    needed: tuple[float, ...]
    """The pods that the largest load of each ten minutes of the span needs at the metric's target."""
    week: Run
    """The replay of the autoscaler as it is."""
    suggestions: tuple[Suggestion, ...] = ()
    together: Suggestion | None = None
    """All suggestions at once, if there are several and they are better together than the best alone."""
    findings: tuple[str, ...] = ()
    """What the autoscaler's own forecast and schedules did."""
    peaks: tuple[OneTimePeak, ...] = ()
    happened: HappenedWeek | None = None
    doubts: tuple[str, ...] = ()

    @property
    def today(self) -> Score:
        return self.week.score

    @property
    def best(self) -> Suggestion | None:
        return self.together or (self.suggestions[0] if self.suggestions else None)


def judged_span(load_begin: Nanoseconds, load_end: Nanoseconds) -> Span | None:
    """The last seven days, or what there is after two days of load; None with less than three days."""
    end = load_end - load_end % MINUTE
    begin = max(-(-load_begin // MINUTE) * MINUTE + _LEARNT_MIN, end - JUDGED)
    return Span(begin, end) if end - begin >= DAY else None


def judge(target: ReportedTarget, span: Span, zones: Sequence[str] = ZONES, seed: int = 0) -> JudgedTarget:
    """Replays a target as it is, and with each change that an estimate on the load before the span finds worth it."""
    replays = Replays(target, span)
    week = replays.run(target.manifest["spec"])
    today = week.score
    decided = max(sum(today.reconciliations_by.values()), 1)
    rates = {rule: today.reconciliations_changed.get(rule, 0) / decided for rule in Rule}
    case = Case(target, span, replays, today, rates, zones, seed)
    makers = (_of_bounds, _of_windows, _of_forecast, of_own_forecast, of_own_schedules, _of_target, _of_behavior)
    found = [one for make in makers for one in make(case)]
    suggestions = [one for one in found if isinstance(one, Suggestion)]
    per_pod = case.setting.model.target
    ranked = tuple(sorted(suggestions, key=lambda one: -worth(today, one.score)))
    grid = day_grid(target.points, per_pod, zones[0])
    return JudgedTarget(
        target=target.without_points(),
        span=span,
        needed=tuple(
            float(case.loads[first : first + NEEDED_MINUTES].max()) / per_pod
            for first in range(0, len(case.loads), NEEDED_MINUTES)
        ),
        week=week,
        suggestions=ranked,
        together=_together(target, replays, today, ranked),
        findings=tuple(one.text for one in found if isinstance(one, Finding)),
        peaks=tuple(one_time_peaks(grid)),
        happened=happened_week(target, span),
        doubts=_doubts(case),
    )


def _of_bounds(case: Case) -> Found:
    replays, today, rates = case.replays, case.today, case.rates
    manifest = case.target.manifest["spec"]
    if rates[Rule.TOO_MANY_REPLICAS] > _OFTEN and today.under_provisioned_minutes >= least_minutes(today):
        needed = reactive_replicas(case.loads, case.setting.model).max()
        maximum = min(int(needed), manifest["maxReplicas"] * _MAXIMUM_FACTOR)
        if maximum > manifest["maxReplicas"] and case.may_avoid(replace(case.setting, maximum=maximum)):
            run = replays.run({**manifest, "maxReplicas": maximum})
            if avoids(today, run.score):
                share = 100 * rates[Rule.TOO_MANY_REPLICAS]
                yield Suggestion(
                    SuggestionKind.BOUNDS,
                    f"maxReplicas {maximum} instead of {manifest['maxReplicas']}",
                    f"the metric asked for more than the maximum in {share:.1f} % of the time",
                    {**manifest, "maxReplicas": maximum},
                    run,
                )
    minimum = int(manifest.get("minReplicas", 1))
    if minimum <= _MINIMUM_LEAST or today.under_provisioned_minutes >= least_minutes(today):
        return
    counts = reactive_replicas(case.learnt, case.setting.model)
    lower = max(_MINIMUM_LEAST, int(np.percentile(counts, _FLOOR_PERCENTILE)))
    if lower < minimum and case.may_save(replace(case.setting, minimum=lower)):
        run = replays.run({**manifest, "minReplicas": lower})
        if saves(today, run.score):
            yield Suggestion(
                SuggestionKind.BOUNDS,
                f"minReplicas {lower} instead of {minimum}",
                f"the load needed {lower} pods or fewer in a tenth of the time",
                {**manifest, "minReplicas": lower},
                run,
            )


def _of_windows(case: Case) -> Found:
    target, span, replays, today, zones = case.target, case.span, case.replays, case.today, case.zones
    learnt = [point for point in target.points if point[0] < span.begin]
    if (
        today.under_provisioned_minutes < least_minutes(today)
        or not learnt
        or span.begin - learnt[0][0] < _WINDOWS_LEARNT_MIN
    ):
        return
    per_pod = case.setting.model.target
    zone, tells = likely_zone(learnt, per_pod, zones)
    grid = day_grid(learnt, per_pod, zone)
    found = [window for window in windows_of(grid, case.seed) if window.replicas > target.spec.min_replicas]
    if not found:
        return
    manifest = target.manifest["spec"]
    chosen = _best_windows(case, grid, found)
    if not chosen:
        return
    # It may have what an earlier report suggested, by the same name.
    schedules = unique_names([*(manifest.get("schedules") or ()), *(schedule_of(window) for window in chosen)])
    changed = {**manifest, "schedules": schedules}
    run = replays.run(changed)
    if avoids(today, run.score):
        doubts = () if tells or len(zones) == 1 else (f"no clock change in the load tells its zone: {zone} is assumed",)
        yield Suggestion(
            SuggestionKind.SCHEDULE,
            " and ".join(window_text(window) for window in chosen),
            "; ".join(_support(window) for window in chosen) + _lead(run, replays.parsed(changed)),
            changed,
            run,
            doubts,
        )


def _best_windows(case: Case, grid: DayGrid, found: Sequence[FoundWindow]) -> list[FoundWindow]:
    """For each rise the window that avoids the most minutes before the span, if it is worth its pods there."""
    loads, setting = case.learnt, case.setting
    learnt = Span(case.span.begin - len(loads) * MINUTE, case.span.begin)
    base = estimate(loads, setting)
    chosen: list[FoundWindow] = []
    for window in found:
        shapes = [
            replace(window, replicas=int(np.ceil(window.replicas * factor)), end_minute=end)
            for factor in _FLOOR_FACTORS
            for end in {window.end_minute, (window.start_minute + _SHORT_WINDOW_MINUTES) % (24 * 60)}
        ]

        def gain(shape: FoundWindow) -> float:
            with_floor = estimate(loads, setting, _floor(shape, learnt, grid))
            extra = with_floor.pod_hours - base.pod_hours
            if extra > base.pod_hours * EXTRA_PERCENT_MAX / 100:
                return 0.0
            mean_pods = base.pod_hours * 60 / len(loads)
            return MINUTE_WORTH * (base.minutes - with_floor.minutes) / 60 * mean_pods - extra

        best = max(shapes, key=gain)
        if gain(best) > 0:
            chosen.append(best)
    return chosen


def _floor(window: FoundWindow, learnt: Span, grid: DayGrid) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The floor of a window in each minute of a span, on the days of its class."""
    floor = np.zeros((learnt.end - learnt.begin) // MINUTE, np.int64)
    length = (window.end_minute - window.start_minute) % (24 * 60)
    for day in (*window.support, *window.skipped):
        first = (instant_of(day, window.start_minute, grid.zone) - learnt.begin) // MINUTE
        floor[max(first, 0) : max(first + length, 0)] = window.replicas
    return floor


def schedule_of(window: FoundWindow) -> Json:
    """The schedule of a found window, as a manifest has it."""
    start, end = divmod(window.start_minute, 60), divmod(window.end_minute, 60)
    return {
        "name": f"rise-{start[0]:02}{start[1]:02}-{window.days.replace('*', 'daily').replace(',', '-')}",
        "start": f"{start[1]} {start[0]} * * {window.days}",
        "end": f"{end[1]} {end[0]} * * *",
        "timeZone": window.zone,
        "minReplicas": window.replicas,
    }


def window_text(window: FoundWindow) -> str:
    start, end = divmod(window.start_minute, 60), divmod(window.end_minute, 60)
    days = {"*": "every day", "mon-fri": "on weekdays", "sat,sun": "on weekends"}.get(window.days, f"on {window.days}")
    return (
        f"at least {window.replicas} pods {days} from {start[0]:02}:{start[1]:02} to {end[0]:02}:{end[1]:02} "
        f"({window.zone})"
    )


def _support(window: FoundWindow) -> str:
    days = len(window.support) + len(window.skipped)
    text = f"the load rose by {window.rise:g} pods then on {len(window.support)} of {days} days"
    if window.skipped:
        text += f", not on {', '.join(str(day) for day in window.skipped[:_NAMED_DAYS])}"
        text += "" if len(window.skipped) <= _NAMED_DAYS else f" and {len(window.skipped) - _NAMED_DAYS} more"
    return text


def _lead(run: Run, spec: Spec) -> str:
    """The lead of schedules that state none: the start-up time that the replay has learnt."""
    lead = run.memory.lead_start_up(spec)
    return "" if lead is None else f"; pods are made {lead / SECOND:.0f} s before, the time that they take to start"


def _of_forecast(case: Case) -> Found:
    target, replays, today = case.target, case.replays, case.today
    manifest = target.manifest["spec"]
    if today.under_provisioned_minutes < least_minutes(today) or manifest.get("forecast") is not None:
        return
    estimates = replays.estimates({**manifest, "forecast": {"budgetPercent": BUDGETS[0]}}, BUDGETS)
    worthwhile = [one for one in estimates if pays(today, one.avoided, one.extra_hours)]
    if not worthwhile:
        return
    best = max(worthwhile, key=lambda one: value_of(today, one.avoided, one.extra_hours))
    if value_of(today, best.avoided, best.extra_hours) <= 0:
        return
    changed = {**manifest, "forecast": {"budgetPercent": best.budget_percent}}
    run = replays.run(changed)
    if avoids(today, run.score):
        by_budget = ", ".join(
            f"{one.avoided:.0f} at {one.budget_percent} % ({one.extra_percent:+.1f} % pod-hours)" for one in estimates
        )
        yield Suggestion(
            SuggestionKind.FORECAST,
            f"a forecast with budgetPercent {best.budget_percent}",
            f"the load before the week predicts it; by an estimate, minutes avoided by budget: {by_budget}",
            changed,
            run,
        )


def _of_target(case: Case) -> Found:
    """A higher target that loses no minutes, by the estimate before the span and by the replay of the span."""
    least = estimate(case.learnt, case.setting).minutes
    shares = [
        share
        for share in _TARGET_SHARES
        if estimate(case.learnt, case.setting.with_target(share)).minutes <= least
        and _with_target(case.target, share) is not None
    ]
    for share in shares[: -1 - _TARGET_REPLAYS : -1]:
        if not case.may_save(case.setting.with_target(share)):
            continue
        found = _with_target(case.target, share)
        assert found is not None
        changed, text = found
        run = case.replays.run(changed)
        if saves(case.today, run.score):
            yield Suggestion(
                SuggestionKind.TARGET,
                text,
                "the load before the week would have been served as well",
                changed,
                run,
            )
            return


def _with_target(target: ReportedTarget, share: float) -> tuple[Json, str] | None:
    """The spec with a higher target of its metric; None if that target cannot be raised."""
    spec = deepcopy(dict(target.manifest["spec"]))
    for metric in spec.get("metrics") or ():
        for body in metric.values():
            if not isinstance(body, dict) or _name_in(body) != name_of(target.metric):
                continue
            target_body = body["target"]
            percent = target_body.get("averageUtilization")
            if percent is None or percent * share > _UTILIZATION_MAX:
                return None
            target_body["averageUtilization"] = int(percent * share)
            return spec, f"a target of {int(percent * share)} % instead of {percent} %"
    return None


def _name_in(body: Mapping[str, Any]) -> str:
    metric = body.get("metric")
    return str(body.get("name") or (metric.get("name") if isinstance(metric, Mapping) else ""))


def _of_behavior(case: Case) -> Found:
    span, replays, today, rates = case.span, case.replays, case.today, case.rates
    if today.under_provisioned_minutes < least_minutes(today):
        return
    manifest = case.target.manifest["spec"]
    behavior = dict(manifest.get("behavior") or {})
    if rates[Rule.SCALE_UP_LIMIT] > _OFTEN and behavior.get("scaleUp"):
        changed = {**manifest, "behavior": {key: value for key, value in behavior.items() if key != "scaleUp"}}
        run = replays.run(changed)
        if avoids(today, run.score):
            yield Suggestion(
                SuggestionKind.BEHAVIOR,
                "the default scale-up rate instead of behavior.scaleUp",
                f"its policies held back {100 * rates[Rule.SCALE_UP_LIMIT]:.1f} % of the reconciliations",
                changed,
                run,
            )
    down = dict(behavior.get("scaleDown") or {})
    days = (span.end - span.begin) / DAY
    window = down.get("stabilizationWindowSeconds", 300)
    if today.actions / days < _ACTIONS_PER_DAY or window >= _STABILIZATION_SECONDS:
        return
    longer = replace(case.setting, held_minutes=_STABILIZATION_SECONDS // 60)
    short, long = (estimate(case.learnt, setting) for setting in (case.setting, longer))
    if value_of(today, short.minutes - long.minutes, long.pod_hours - short.pod_hours) <= 0:
        return
    changed = {
        **manifest,
        "behavior": {**behavior, "scaleDown": {**down, "stabilizationWindowSeconds": _STABILIZATION_SECONDS}},
    }
    run = replays.run(changed)
    if avoids(today, run.score):
        yield Suggestion(
            SuggestionKind.BEHAVIOR,
            f"a scale-down window of {_STABILIZATION_SECONDS} s instead of {window} s",
            f"it was scaled {today.actions / days:.0f} times a day, down between two peaks",
            changed,
            run,
        )


def _together(
    target: ReportedTarget, replays: Replays, today: Score, ranked: Sequence[Suggestion]
) -> Suggestion | None:
    """The best suggestion of each kind at once."""
    kinds: dict[SuggestionKind, Suggestion] = {}
    for suggestion in ranked:
        kinds.setdefault(suggestion.kind, suggestion)
    if len(kinds) < _SEVERAL or _worth_at_most(today, tuple(kinds.values())) < _TOGETHER_MIN * worth(
        today, ranked[0].score
    ):
        return None
    stated, spec = target.manifest["spec"], dict(target.manifest["spec"])
    for suggestion in kinds.values():
        spec |= {key: value for key, value in suggestion.spec.items() if value != stated.get(key)}
        for left_out in stated.keys() - suggestion.spec.keys():
            spec.pop(left_out, None)
    run = replays.run(spec)
    if worth(today, run.score) <= worth(today, ranked[0].score):
        return None
    changes = "; ".join(suggestion.change for suggestion in kinds.values())
    doubts = tuple(dict.fromkeys(doubt for suggestion in kinds.values() for doubt in suggestion.doubts))
    return Suggestion(ranked[0].kind, changes, "each alone is worth it, and together more", spec, run, doubts)


def _worth_at_most(today: Score, suggestions: Sequence[Suggestion]) -> float:
    """
    What these suggestions are worth together at best: each in full, no more minutes avoided than there are, and as many
    pods as the dearest of them alone.
    """
    added = [one.score.pod_hours - today.pod_hours for one in suggestions]
    extra = max(*added, 0.0) + sum(hours for hours in added if hours < 0)
    every = value_of(today, today.under_provisioned_minutes, extra)
    return min(every, sum(worth(today, one.score) for one in suggestions))


def happened_week(target: ReportedTarget, span: Span) -> HappenedWeek | None:
    """The span with the recorded replicas; None if they were not recorded over most of it."""
    counts = np.full((span.end - span.begin) // MINUTE, np.nan)
    for at, value in target.replicas:
        if span.begin <= at < span.end:
            counts[(at - span.begin) // MINUTE] = value
    if np.mean(np.isnan(counts)) > _UNKNOWN_SHARE_MAX:
        return None
    known = np.maximum.accumulate(np.where(np.isnan(counts), 0, np.arange(len(counts))))
    counts = counts[known]
    # Before the first count nothing is known: no comparison with NaN holds.
    short = minutes_of(target.points, span) > counts * target.environment.capacity
    return HappenedWeek(float(short.sum()), float(np.nansum(counts)) / 60)


def _doubts(case: Case) -> tuple[str, ...]:
    target, today = case.target, case.today
    days = (target.points[-1][0] - target.points[0][0]) / DAY
    doubts = [f"{days:.0f} days of history only"] if days < _DAYS_OF_DOUBT else []
    doubts += _unlike_days(case)
    unknown = today.unknown / today.span
    if unknown > _UNKNOWN_SHARE_TOLD:
        share = f"{100 * unknown:.0f} % of the judged time"
        doubts.append(f"the load of {share} is not known: its pods count, its shortages do not")
    steps = sorted(later - earlier for (earlier, _), (later, _) in pairwise(target.points))
    usual = steps[len(steps) // 2]
    if usual > STEP:
        doubts.append(f"a value of the load every {usual / MINUTE:.0f} minutes: shorter peaks are not seen")
    if target.start_up is None:
        doubts.append("fewer than three of its pods tell their start: 60 s are assumed")
    return (*doubts, *target.remarks)


def _unlike_days(case: Case) -> list[str]:
    """A doubt about a load whose busiest day is unlike the others: the next week may be so, too."""
    loads = np.concatenate([case.learnt, case.loads])
    count = len(loads) // _MINUTES_A_DAY
    largest = loads[len(loads) - count * _MINUTES_A_DAY :].reshape(count, -1).max(axis=1)
    busiest, usual = (math.ceil(load / case.setting.model.target) for load in (largest.max(), np.median(largest)))
    if largest.max() < _UNLIKE_FACTOR * np.median(largest) or busiest <= usual:
        return []
    return [f"its busiest day needed {busiest:,} pods, a usual one {usual:,}: the next week may be unlike this one"]
