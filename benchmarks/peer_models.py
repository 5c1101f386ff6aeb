"""
What statsforecast's models say of a recorded series: JSON on standard input, JSON on standard output.

Run by the Python of a virtual environment of its own (`benchmarks/peer_models.lock`, 440 MB): nothing else of the
project needs these packages. As a practitioner sets the models up: fitted once a day on fourteen days, a day ahead, the
0.9 quantile, which is the upper bound of the 80 % interval. Gaps are filled from the sample before. AutoETS drops a
season of more than 24 samples, without which it is a straight line: it is given the maximum of each hour.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from typing import Any

import numpy as np

_LEVEL = 80  # percent; its upper bound is the 0.9 quantile
_HISTORY_DAYS = 14


def model_of(name: str, day: int, rows: int) -> Any:
    """day: samples in a day. MSTL has a week as its second season as soon as two weeks are known."""
    models = importlib.import_module("statsforecast.models")
    if name == "AutoETS":
        return models.AutoETS(season_length=day)
    if name == "AutoTheta":
        return models.AutoTheta(season_length=day)
    seasons = [day, 7 * day] if rows >= _HISTORY_DAYS * day else [day]
    return models.MSTL(season_length=seasons, trend_forecaster=models.AutoETS(model="ZZN"))


def main() -> None:
    """A question has the values of each series, the rows before which it is fitted and how many rows each predicts."""
    warnings.simplefilter("ignore")
    question = json.load(sys.stdin)
    # The first fit compiles the model, which takes 5 to 10 s of CPU once: it is none of the fits that are timed.
    day = 24
    made = 10 + np.sin(np.arange(15 * day) * 2 * np.pi / day) + np.random.default_rng(1).normal(size=15 * day)
    fitted(question["model"], made, day, day)
    answers = {name: of_series(question["model"], **series) for name, series in question["series"].items()}
    json.dump(answers, sys.stdout)


def of_series(
    model: str, values: list[float | None], fits: list[int], rows: int, samples_per_day: int
) -> list[dict[str, Any]]:
    load = np.array([np.nan if value is None else value for value in values])
    known = np.maximum.accumulate(np.where(np.isnan(load), 0, np.arange(len(load))))
    load = np.nan_to_num(load[known])
    every = samples_per_day // 24 if model == "AutoETS" else 1
    answers = []
    for row in fits:
        past = load[max(0, row - _HISTORY_DAYS * samples_per_day) : row]
        past = past[len(past) % every :].reshape(-1, every).max(axis=1)
        begun = time.process_time()
        try:
            predicted = np.repeat(fitted(model, past, samples_per_day // every, -(-rows // every)), every)[:rows]
            found, problem = predicted.tolist(), ""
        except Exception as error:  # noqa: BLE001 - statsforecast raises Exception itself where no model fits
            found, problem = [], f"{type(error).__name__}: {error}"
        answers.append({"predicted": found, "cpuSeconds": time.process_time() - begun, "problem": problem})
    return answers


def fitted(model: str, past: Any, day: int, rows: int) -> Any:
    """The quantile of each row that follows."""
    return model_of(model, day, len(past)).forecast(y=past, h=rows, level=[_LEVEL])[f"hi-{_LEVEL}"]


if __name__ == "__main__":
    main()
