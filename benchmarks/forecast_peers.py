"""
Forecasts by others' own code beside ours: Crane's predictors and statsforecast's models, on recorded series.

`python benchmarks/forecast_peers.py FOLDER [--days N] [--publish]`. Each becomes a floor of the same vectorized
autoscaler in the same run (closed_loop.py): its forecast over the target, without a budget. What cannot be had is named
and left out. `--publish` writes the table of docs/engineering/forecasting.md from the newest figures, without a run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fingerprint
import numpy as np
import publish
import report
from closed_loop import REACTIVE, ClosedLoopScore, Scores, ours, run, run_ours, summary
from probe import first_days
from recorded import Recorded, for_each, read, read_all
from rivals import RIVALS

from cronhpa.forecasting.columns import MINUTES_PER_STEP, AutoscalerModel
from testbed import build

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cronhpa.forecasting.columns import Floats

PUBLISHED = publish.PROJECT / "docs" / "engineering" / "forecast-peers-figures.json"
BEGIN = "<!-- written by benchmarks/forecast_peers.py: begin -->"
PROBE = "k8s_app11_cpu_1m"
_FIGURES = report.FOLDER / "forecast-peers.json"
_LOCK = Path(__file__).with_name("peer_models.lock")
_MODELS = {
    "AutoETS": "statsforecast AutoETS, hours",
    "AutoTheta": "statsforecast AutoTheta",
    "MSTL": "statsforecast MSTL",
}
_CRANE = {"dsp": "Crane DSP", "percentile": "Crane percentile"}
_SHORT_WINDOW = "Crane DSP, 5 min ahead"
_HOUR, _DAY = 3600, 86_400
_REFIT_SECONDS = {"dsp": 12 * _HOUR, "percentile": _HOUR}
_HISTORY_DAYS = {"dsp": 3, "percentile": 7}


def settings(seconds: int) -> dict[str, Any]:
    """
    Crane's, for samples so many seconds apart. dsp: as docs/tutorials/using-effective-hpa-to-scaling-with-effectiveness
    has them. percentile: the defaults of pkg/prediction/percentile, but for a histogram that ends at 1000 cores
    instead of 100.
    """
    return {
        "dsp": {"sampleInterval": f"{seconds}s", "historyLength": f"{_HISTORY_DAYS['dsp']}d"},
        "percentile": {
            "aggregated": True,
            "sampleInterval": f"{seconds}s",
            "historyLength": f"{24 * _HISTORY_DAYS['percentile']}h",
            "percentile": "0.99",
            "histogram": {"maxValue": "1000", "bucketSize": "0.1", "halfLife": "24h", "epsilon": "1e-10"},
        },
    }


def crane(program: Path, series: Recorded, algorithm: str) -> list[dict[str, Any]]:
    """What Crane predicts at each update in the test: a sample a minute, else a step, by the recorded calendar."""
    samples = series.steps if series.minutes is None else series.minutes
    per_step = len(samples) // len(series.steps)
    seconds = _DAY // (series.steps_per_day * per_step)
    every = _REFIT_SECONDS[algorithm] // seconds
    first = series.first_step * per_step
    question = settings(seconds) | {
        "algorithm": algorithm,
        "begin": int(series.begin.timestamp()),
        "seconds": seconds,
        "values": _plain(samples),
        "fits": list(range(first, len(samples), every)),
        "rows": every + _HOUR // seconds + 1,
        "historyDays": _HISTORY_DAYS[algorithm],
    }
    done = subprocess.run([str(program)], input=json.dumps(question), text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Crane's {algorithm} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return [
        {"row": row // per_step, "perStep": per_step, **answer}
        for row, answer in zip(question["fits"], json.loads(done.stdout), strict=True)
    ]


def laid_crane(series: Recorded, answers: list[dict[str, Any]], ahead_seconds: int) -> Floats:
    """The largest prediction of the window that begins with each step, as Crane's external metric answers."""
    expected = np.full((len(series.steps), 2), np.nan)
    for place, answer in enumerate(answers):
        predicted, per_step = np.array(answer["predicted"]), answer["perStep"]
        window = ahead_seconds * series.steps_per_day * per_step // _DAY + 1  # both ends belong to it
        last = answers[place + 1]["row"] if place + 1 < len(answers) else len(series.steps)
        for row in range(answer["row"], last):
            future = predicted[(row - answer["row"]) * per_step :][:window]
            if len(future):
                expected[row - 1] = future.max()
    return expected


def laid(series: Recorded, answers: list[dict[str, Any]]) -> Floats:
    """The quantile of the next step, and of the one behind it."""
    expected = np.full((len(series.steps), 2), np.nan)
    for place, row in enumerate(_days(series)):
        predicted = np.array(answers[place]["predicted"])
        for h in range(2):
            future = predicted[h : h + series.steps_per_day]
            expected[row - 1 : row - 1 + len(future), h] = future[: len(series.steps) - row + 1]
    return expected


def measure(
    series: Recorded, autoscaler: AutoscalerModel, floors: Mapping[str, Mapping[str, Floats]]
) -> dict[str, ClosedLoopScore]:
    def given(expected: Floats) -> Callable[[Recorded], Floats]:
        return lambda _series: expected

    return run(series, autoscaler, {name: given(floor) for name, floor in floors[series.name].items()} | RIVALS)


def main() -> int:
    parser = argparse.ArgumentParser(description="Forecasts by others' own code on recorded series.")
    parser.add_argument("traces", type=Path, help="a folder of CSV files, `timestamp,value`, gzipped or not")
    parser.add_argument("--days", type=int, help="the first so many days of each test alone (default: all)")
    parser.add_argument("--jobs", type=int, help="how many series at once (default: one a core)")
    parser.add_argument("--publish", action="store_true", help="write the page from the newest figures")
    options = parser.parse_args()
    if options.publish:
        return _publish()
    several, left_out = read_all(options.traces)
    if options.days:
        several = [_shortened(series, options.days) for series in several]
    begun = time.monotonic()
    floors: dict[str, dict[str, Floats]] = {series.name: {} for series in several}
    cpu: dict[str, list[float]] = {}
    missing = _by_crane(several, floors, cpu) | _by_models(several, floors, cpu)
    autoscaler = AutoscalerModel()
    scores: Scores = {}
    for series, of_series in for_each(partial(measure, autoscaler=autoscaler, floors=floors), several, options.jobs):
        scores[series.name] = of_series
        _say(f"{len(scores)} of {len(several)} after {time.monotonic() - begun:.0f} s: {series.name} replayed")
    scores = {series.name: scores[series.name] for series in several}
    figures = {
        "machine": report.machine(),
        "versions": versions(),
        "settings": settings(60),
        "code": fingerprint.of_code(),
        "days": options.days,
        "tested_days": {series.name: len(_days(series)) for series in several},
        "cpu": {
            policy: {"fits": len(taken), "mean": sum(taken) / len(taken), "most": max(taken)}
            for policy, taken in cpu.items()
        },
        "scores": {name: {policy: asdict(score) for policy, score in of.items()} for name, of in scores.items()},
        "missing": missing,
        "left_out": left_out,
    }  # fmt: skip
    print(table(figures))
    print(f"figures: {report.save(_FIGURES.stem, figures)}")
    return 1 if missing else 0


def versions() -> dict[str, str]:
    """What the locks name."""
    pinned = re.search(r"^statsforecast==(\S+)", _LOCK.read_text(), re.MULTILINE)
    assert pinned
    return {"Crane": build.gocrane_version(), "statsforecast": pinned[1]}


def table(figures: Mapping[str, Any]) -> str:
    """A row a policy, the fewest stressed minutes first but for the reference; CPU seconds of a fit."""
    scores = publish.scores_of(figures["scores"])
    summaries = {policy: summary(scores, policy) for policy in next(iter(scores.values()))}
    # Without spaces at the bars: the pages' words are counted.
    lines = [
        "|policy|stressed minutes, %|pod-hours, mean / worst, %|actions x|CPU s of a fit, mean / most|",
        "|---" * 5 + "|",
    ]
    for policy, of_all in sorted(summaries.items(), key=lambda item: (item[0] == REACTIVE, -item[1].reduction)):
        fit = figures["cpu"].get(policy)
        seconds = f"{fit['mean']:.2g} / {fit['most']:.2g}" if fit else ""
        pods = f"{of_all.extra:+.1f} / {of_all.worst:+.1f}"
        lines.append(f"|{policy}|{-of_all.reduction:+.1f}|{pods}|{of_all.actions:.2f}|{seconds}|")
    lines += ["", *(f"Missing: {name}: {reason}" for name, reason in figures["missing"].items())]
    return "\n".join(lines).rstrip()


def written(page: str, figures: Mapping[str, Any]) -> str:
    """The page with these figures between its markers."""
    days = f"the first {figures['days']} days of each test" if figures["days"] else "all days"
    named = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    head = f"{named}; {len(figures['scores'])} series, {days}; Python {figures['machine']['python']}."
    return publish.between(page, BEGIN, f"{head}\n\n{table(figures)}")


def probe(days: int | None) -> dict[str, dict[str, float]]:
    """What the shipped path gives today, of one series of the figures."""
    series = read(publish.TRACES / f"{PROBE}.csv.gz")
    scores = run_ours(_shortened(series, days) if days else series, AutoscalerModel(), (5,))
    return {policy: asdict(scores[policy]) for policy in (REACTIVE, ours(5))}


def _publish() -> int:
    if not _FIGURES.exists():
        print(f"{_FIGURES}: no figures there: run make bench-forecast-peers first", file=sys.stderr)
        return 1
    figures = json.loads(_FIGURES.read_text())
    if figures["missing"]:
        print(
            f"{_FIGURES} lacks {', '.join(figures['missing'])}: a table without them is not published", file=sys.stderr
        )
        return 1
    PUBLISHED.write_text(json.dumps(figures, indent=1) + "\n")
    publish.PAGE.write_text(written(publish.PAGE.read_text(), figures))
    return 0


def _by_crane(
    several: list[Recorded], floors: dict[str, dict[str, Floats]], cpu: dict[str, list[float]]
) -> dict[str, str]:
    """Adds Crane's floors and seconds; returns what is missing, and why."""
    try:
        program = build.gocrane()
    except build.BuildError as error:
        return dict.fromkeys([*_CRANE.values(), _SHORT_WINDOW], str(error))
    try:
        for algorithm, policy in _CRANE.items():
            for series in several:
                answers = crane(program, series, algorithm)
                floors[series.name][policy] = laid_crane(series, answers, _HOUR)
                if algorithm == "dsp":
                    floors[series.name][_SHORT_WINDOW] = laid_crane(series, answers, 60 * MINUTES_PER_STEP)
                cpu.setdefault(policy, []).extend(answer["cpuSeconds"] for answer in answers)
            _say(f"{policy}: {len(cpu[policy])} fits, {sum(cpu[policy]):.0f} s of CPU")
    except RuntimeError as error:
        for of_series in floors.values():
            for policy in (*_CRANE.values(), _SHORT_WINDOW):
                of_series.pop(policy, None)
        return dict.fromkeys([*_CRANE.values(), _SHORT_WINDOW], f"{series.name}: {error}")
    return {}


def _by_models(
    several: list[Recorded], floors: dict[str, dict[str, Floats]], cpu: dict[str, list[float]]
) -> dict[str, str]:
    """Adds the floors and seconds of statsforecast's models; returns what is missing, and why."""
    try:
        python = _models_python()
    except (subprocess.CalledProcessError, OSError) as error:
        return dict.fromkeys(_MODELS.values(), f"statsforecast cannot be installed: {error}")
    question = {
        series.name: {
            "values": _plain(series.steps), "fits": _days(series), "rows": series.steps_per_day + 1,
            "samples_per_day": series.steps_per_day,
        }
        for series in several
    }  # fmt: skip

    def ask(model: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), str(Path(__file__).with_name("peer_models.py"))]
        text = json.dumps({"model": model, "series": question})
        return subprocess.run(command, input=text, text=True, capture_output=True, check=False)

    missing = {}
    with ThreadPoolExecutor(len(_MODELS)) as pool:
        for policy, done in zip(_MODELS.values(), pool.map(ask, _MODELS), strict=True):
            if done.returncode:
                missing[policy] = done.stderr.strip()[-500:]
                continue
            answers = json.loads(done.stdout)
            problems = [
                answer["problem"] for of_series in answers.values() for answer in of_series if answer["problem"]
            ]
            for series in several:
                floors[series.name][policy] = laid(series, answers[series.name])
            cpu[policy] = [answer["cpuSeconds"] for of_series in answers.values() for answer in of_series]
            failed = f"; {len(problems)} failed: {problems[0]}" if problems else ""
            _say(f"{policy}: {len(cpu[policy])} fits, {sum(cpu[policy]):.0f} s of CPU{failed}")
    return missing


def _models_python() -> Path:
    """The Python of the environment of `peer_models.lock`, made first where it does not exist yet."""
    digest = hashlib.sha256(_LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = publish.PROJECT / "build" / f"peer-models-{digest}"
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.exists():
        _say(f"installing statsforecast into {folder}: 440 MB, a minute, once")
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        subprocess.run([uv, "pip", "sync", "--quiet", "--require-hashes", "--python", python, _LOCK], check=True)
        ready.touch()
    return python


def _shortened(series: Recorded, days: int) -> Recorded:
    known = (len(series.steps) - series.first_step) // series.steps_per_day
    return first_days(series, min(days, known))


def _days(series: Recorded) -> list[int]:
    """The rows at which a model is fitted: each day of the test."""
    return list(range(series.first_step, len(series.steps), series.steps_per_day))


def _plain(samples: Floats) -> list[float | None]:
    return [None if np.isnan(sample) else round(float(sample), 6) for sample in samples]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
