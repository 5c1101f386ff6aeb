"""Our own forecasts on a recorded series: selected every day from what was known, used on the day after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from recorded import TICKS_PER_STEP

from cronhpa.forecasting.columns import MINUTES_PER_STEP, AutoscalerModel, Counts, Floats, simulate
from cronhpa.forecasting.selection import (
    CEILING,
    DAYS,
    CandidateScores,
    Choice,
    Day,
    NothingToGain,
    WorkloadModel,
    budget_correction,
    by_minute,
    candidate_floors,
    choose,
    chosen_floors,
    jumps_of,
    origins_of,
    reactive_pods,
    screen,
    together,
    windows_of,
)
from cronhpa_models.error_mixture import ErrorMixture
from cronhpa_models.method import LAGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recorded import Recorded

# CandidateScores together: what 400 candidates do in so many steps takes 100 MB.
_STEPS_AT_ONCE = 288 * 7
_RUN_UP_STEPS = 24


def settings_of(series: Recorded, world: AutoscalerModel, budget_percent: float, carried: float = 0.9) -> WorkloadModel:
    """A pod carries 1."""
    return WorkloadModel(
        target=world.target,
        carried=max(world.target, carried),
        capacity=1.0,
        start_up_seconds=world.start_up_seconds,
        budget_percent=budget_percent,
        delay_seconds=world.delay_seconds,
        are_points=series.minutes is None,
    )


def screened_days(series: Recorded, settings: WorkloadModel) -> dict[int, CandidateScores]:
    """What every candidate would have done on each day that a selection looks at, by the day's first step."""
    day = series.steps_per_day
    days = [row for row in range(series.first_step % day, len(series.steps) - day + 1, day) if row >= 2 * day]
    days = [row for row in days if row >= series.first_step - DAYS * day]
    found: dict[int, CandidateScores] = {}
    at_once = max(1, _STEPS_AT_ONCE // day)
    for i in range(0, len(days), at_once):
        chunk = [(row, day_at(series, row, row + day)) for row in days[i : i + at_once]]
        floors = [candidate_floors(series.steps[:row], each, settings, day) for row, each in chunk]
        several = screen([each for _, each in chunk], np.concatenate(floors, axis=1), settings, day)
        found |= {
            row: CandidateScores(several.minutes[:, [k]], several.pods[:, [k]], several.actions[:, [k]])
            for k, (row, _) in enumerate(chunk)
        }
    return found


def day_at(series: Recorded, row: int, last: int) -> Day:
    if series.minutes is None:
        return Day(series.steps[row:last])
    begin = row * MINUTES_PER_STEP
    minutes = series.minutes[begin - LAGS * MINUTES_PER_STEP : last * MINUTES_PER_STEP]
    return Day(series.steps[row:last], minutes, past=series.minutes[:begin])


@dataclass
class _Ledger:
    """(steps,): replicas that the floors added, and those of reactive scaling; expected: percent, by the day."""

    extra: Floats
    base: Floats
    expected: dict[int, float]


def selected_floors(
    series: Recorded, screened: dict[int, CandidateScores], several: Sequence[WorkloadModel], world: AutoscalerModel
) -> Counts:
    """
    (settings, minutes): the floors of what was selected on each day of the test, as they would have been asked for.

    several: settings that differ in their budgets alone.
    """
    day = series.steps_per_day
    floors = np.zeros((len(several), len(series.steps) * MINUTES_PER_STEP), np.int16)
    ledgers = [_Ledger(np.zeros(len(series.steps)), reactive_pods(series.steps, several[0]), {}) for _ in several]
    for row in range(series.first_step, len(series.steps), day):
        last = min(row + day, len(series.steps))
        before = [screened[each] for each in range(row - DAYS * day, row, day) if each in screened]
        if not before:
            continue
        week, known = together(before), series.steps[row - len(before) * day : row]
        choices = []
        for settings, ledger in zip(several, ledgers, strict=True):
            planned = settings.budget_percent * _correction(ledger, row, day)
            choices.append(choose(week, msgspec.structs.replace(settings, budget_percent=planned), known))
        if all(isinstance(choice, NothingToGain) for choice in choices):
            continue
        for ledger, choice in zip(ledgers, choices, strict=True):
            ledger.expected[row] = choice.extra_percent if isinstance(choice, Choice) else 0.0
        floors[:, row * MINUTES_PER_STEP : last * MINUTES_PER_STEP] = _of_day(series, choices, row, last, several[0])
        _spend(series, floors, ledgers, several, world, row, last)
    return floors


def _correction(ledger: _Ledger, row: int, day: int) -> float:
    """How much of its budget a selection may plan with, by what the last ones cost and what they were expected to."""
    days = [each for each in ledger.expected if row - DAYS * day <= each]
    return budget_correction(
        [ledger.expected[each] for each in days],
        [100 * ledger.extra[each : each + day].sum() / ledger.base[each : each + day].sum() for each in days],
    )


def _spend(
    series: Recorded,
    floors: Counts,
    ledgers: Sequence[_Ledger],
    several: Sequence[WorkloadModel],
    world: AutoscalerModel,
    row: int,
    last: int,
) -> None:
    """Count what a day's floors add, and take away those that come when the budget is spent."""
    run_up = min(row, _RUN_UP_STEPS)
    first = row - run_up
    load = series.load[first * TICKS_PER_STEP : last * TICKS_PER_STEP : world.ticks(60)]
    rows = floors[:, first * MINUTES_PER_STEP : last * MINUTES_PER_STEP]
    every = np.concatenate([np.zeros_like(rows[:1]), rows])
    pods = simulate(load, every, replace(world, tick_seconds=60)).pods[:, run_up:].astype(np.float64)
    for number, (ledger, settings) in enumerate(zip(ledgers, several, strict=True)):
        ledger.base[row:last] = pods[0]
        extra = pods[number + 1] - pods[0]
        for step in range(row, last):
            if _is_spent(ledger, step, series.steps_per_day, settings.budget_percent / 100):
                floors[number, step * MINUTES_PER_STEP : (step + 1) * MINUTES_PER_STEP] = 0
            else:
                ledger.extra[step] = extra[step - row]


def _is_spent(ledger: _Ledger, step: int, day: int, share: float) -> bool:
    """
    Over a week, or twice over a day: cronhpa.core.predictive.budget with steps of the recorded calendar for its hours.
    """
    for span, factor in ((DAYS * day, 1), (day, 2)):
        since = max(0, step - span)
        # What lies before the record counts as ordinary.
        usual = ledger.base[since:step].sum() * span / max(step - since, 1)
        if ledger.extra[since:step].sum() > factor * share * usual:
            return True
    return False


def _of_day(
    series: Recorded, choices: Sequence[Choice | NothingToGain], row: int, last: int, settings: WorkloadModel
) -> Counts:
    """(choices, minutes of the day)"""
    day = day_at(series, row, last)
    length = (last - row) * MINUTES_PER_STEP
    windows = windows_of(day, settings)
    floors = np.zeros((len(choices), length), np.int16)
    fitted = ErrorMixture().fit(series.steps[:row], steps_per_day=series.steps_per_day, windows=windows)
    if fitted is None:
        return floors
    origins = origins_of(fitted, day)
    running = np.broadcast_to(reactive_pods(origins.recent[:, 0], settings), (len(windows), len(origins.position)))
    ceiling = CEILING * float(np.nanmax(series.steps[max(0, row - DAYS * series.steps_per_day) : row]))
    found = fitted.distribution(day.steps, origins)
    jumps = jumps_of(day, settings)
    for number, choice in enumerate(choices):
        if isinstance(choice, Choice):
            each = chosen_floors(choice, found, running, settings.carried, ceiling)
            floors[number] = by_minute(each, settings, length)
            if jumps is not None:
                also = jumps.floors([choice.price], choice.usual, ceiling, settings.carried)[0]
                floors[number] = np.maximum(floors[number], also)
    return floors
