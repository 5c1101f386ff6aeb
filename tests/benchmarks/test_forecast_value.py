"""The forecast bench reads the named files, and its rivals use no later loads."""

import gzip
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.made_series import write

pytestmark = pytest.mark.usefixtures("benchmark_scripts")


def daily(days, steps_per_day):
    clock = np.arange(days * steps_per_day) / steps_per_day * 2 * np.pi
    return 10 + 5 * np.sin(clock)


def test_minutes_become_maxima_of_five_and_the_mean_load_what_20_pods_carry_at_60_percent(tmp_path):
    import recorded

    series = recorded.read(write(tmp_path / "a.csv", daily(10, 1440), 60))

    assert (10 * 288, 288, 7 * 288) == (len(series.steps), series.steps_per_day, series.first_step)
    assert pytest.approx(12.0) == series.minutes.mean()
    assert series.minutes[:5].max() == series.steps[0]
    assert len(series.load) == 20 * len(series.steps)


def test_an_hourly_series_is_replayed_with_a_point_a_step(tmp_path):
    import recorded

    series = recorded.read(write(tmp_path / "a.csv", daily(40, 24), 3600))

    assert (40 * 24, 24, 28 * 24) == (len(series.steps), series.steps_per_day, series.first_step)
    assert series.minutes is None
    assert series.steps[0] == series.load[20]


def test_a_few_gaps_are_gaps_and_many_are_zero(tmp_path):
    import recorded

    some, most = daily(8, 288), daily(8, 288)
    some[100:110] = np.nan
    most[np.arange(len(most)) % 288 < 144] = np.nan

    assert 10 == np.isnan(recorded.read(write(tmp_path / "a.csv", some, 300)).steps).sum()
    assert 0 == np.isnan(recorded.read(write(tmp_path / "b.csv", most, 300)).steps).sum()


STAMPS = [f"2026-03-{1 + i // 24:02}T{i % 24:02}:00:00Z" for i in range(9 * 24 + 1)]
LOADS = [10.0 + i % 24 for i in range(9 * 24 + 1)]
LINES = [f"{stamp},{load}" for stamp, load in zip(STAMPS, LOADS, strict=True)]
SECONDS = [str(1_772_323_200 + 3600 * i) for i in range(9 * 24 + 1)]


@pytest.mark.parametrize(
    "lines",
    [
        ["timestamp,value", *LINES],
        ["timestamp,value\r", *(line + "\r" for line in LINES)],
        ["Time, CPU cores", *LINES],
        ["timestamp,object,value", *(line.replace(",", ",web,") for line in LINES)],
        LINES,
        ["timestamp,value", *reversed(LINES)],
        ["timestamp,value", *LINES, LINES[7], LINES[7]],
        ["timestamp,value", *(line.replace("T", " ").replace("Z", "") for line in LINES)],
        ["timestamp,value", *(line.replace("Z", "+00:00") for line in LINES)],
        ["ts,value", *(f"{second},{load}" for second, load in zip(SECONDS, LOADS, strict=True))],
        [f"{second}000,{load}" for second, load in zip(SECONDS, LOADS, strict=True)],
        ["timestamp,value", *(line.replace(":00Z", f":{i % 20:02}Z") for i, line in enumerate(LINES))],
    ],
    ids=[
        "plain",
        "CRLF",
        "header",
        "columns",
        "no header",
        "backwards",
        "twice",
        "spaces",
        "offset",
        "unix",
        "ms",
        "late",
    ],
)
def test_a_series_is_read_however_it_is_written(tmp_path, lines):
    import recorded

    path = tmp_path / "web.csv"
    path.write_bytes("\n".join(lines).encode())

    series = recorded.read(path)

    assert ("web", 9 * 24, 24) == (series.name, len(series.steps), series.steps_per_day)
    np.testing.assert_allclose(series.steps * (np.mean(LOADS) / 12), LOADS[1:])
    assert "2026-03-01 00:00:00+00:00" == str(series.begin)


def test_points_of_seconds_are_means_of_a_minute_and_points_of_two_minutes_are_joined_by_lines(tmp_path):
    import recorded

    seconds = np.append(np.tile([1.0, 3.0], 8 * 1440 + 1)[1:], 2.0)  # every 30 s, from the second on
    halves = recorded.read(write(tmp_path / "a.csv", seconds, 30))
    doubles = recorded.read(write(tmp_path / "b.csv", np.tile([3.0, 1.0], 8 * 360 + 1), 120))

    assert (12.0, 12.0) == pytest.approx((halves.minutes.min(), halves.minutes.max()), rel=1e-3)
    assert [18.0, 18.0, 12.0, 6.0, 12.0, 18.0] == pytest.approx(doubles.minutes[:6].tolist(), rel=1e-3)


def test_what_is_no_load_is_a_gap_and_said(tmp_path):
    import recorded

    load = daily(8, 288)
    load[[5, 9]] = -1.0
    series = recorded.read(write(tmp_path / "a.csv", load, 300))

    assert ("2 negative or infinite loads are taken for gaps",) == series.remarks
    assert [5, 9] == np.flatnonzero(np.isnan(series.steps)).tolist()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "No columns"),
        (b"timestamp,value\n", "no load is above zero"),
        (b"value\n1\n2\n", "1 column: an instant and a load are needed"),
        (b"timestamp,value\n2026-03-01T00:00:00Z,4\n", "1 instant: two make a grid"),
        (b"timestamp,value\n01/03/2026 00:00,4\n", "row 1: '01/03/2026 00:00' is no instant"),
        (b"timestamp,value\n2026-03-01T00:00:00Z,four\n", "row 1: 'four' is no load"),
        (b"timestamp,value\n2026-03-01T00:00:00Z,0\n2026-03-01T01:00:00Z,0\n", "no load is above zero"),
        (b"timestamp,value\n2026-03-01T00:00:00Z,4\n2026-03-02T00:00:00Z,4\n", "a point every 86400 s"),
        (
            "\n".join(["timestamp,value", *LINES[: 3 * 24 + 1]]).encode(),
            "3.0 days: 7 are warm-up, and one more is the least",
        ),
    ],
    ids=["empty", "header", "column", "row", "date", "word", "zeros", "daily", "short"],
)
def test_a_file_that_is_no_series_is_left_out_with_its_reason(tmp_path, content, reason):
    import recorded

    (tmp_path / "bad.csv").write_bytes(content)
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(b"timestamp,value\n")[:-9])
    # A block of the third kind; the format knows three, 0 to 2.
    (tmp_path / "wrong.csv.gz").write_bytes(gzip.compress(b"")[:10] + b"\x07" * 30)
    (tmp_path / "notes.txt").write_text("nothing")
    write(tmp_path / "good.csv", daily(8, 288), 300)

    series_read, left_out = recorded.read_all(tmp_path)

    assert ["good"] == [series.name for series in series_read]
    assert ["bad.csv", "torn.csv.gz", "wrong.csv.gz"] == list(left_out)
    assert left_out["bad.csv"].startswith(str(tmp_path / "bad.csv"))
    assert reason in left_out["bad.csv"]


@pytest.mark.parametrize(
    ("folder", "says"), [(".", "no file ends with .csv"), ("nowhere", "nowhere is no folder: a folder of CSV files")]
)
def test_a_folder_without_series_is_refused(tmp_path, folder, says):
    import recorded

    with pytest.raises(SystemExit, match=says):
        recorded.read_all(tmp_path / folder)


def test_a_folder_whose_series_are_all_unusable_is_refused_with_the_reasons(tmp_path):
    import recorded

    write(tmp_path / "a.csv", np.zeros(3000), 300)

    with pytest.raises(SystemExit, match=r"no series can be used:\n.*a.csv: no load is above zero"):
        recorded.read_all(tmp_path)


def test_a_grid_of_other_seconds_is_refused_by_name(tmp_path):
    import recorded

    with pytest.raises(
        ValueError, match=r"odd.csv: a point every 70 s: a part of a minute, minutes or a multiple of 300 s"
    ):
        recorded.read(write(tmp_path / "odd.csv", daily(2, 100), 70))


@pytest.mark.parametrize("name", ["PHPA-like .3/.05/.3", "AWS-like", "seasonal naive"])
def test_rivals_look_at_nothing_that_comes_later(tmp_path, name):
    import recorded
    import rivals

    load = daily(9, 288)
    changed = np.concatenate([load[: 7 * 288], np.random.default_rng(1).gamma(2.0, 9.0, 2 * 288)])
    one, two = (recorded.read(write(tmp_path / "a.csv", loads, 300)) for loads in (load, changed))
    # Both are scaled to the same mean; the comparison is in the unit of the file.
    floors = [rivals.RIVALS[name](series) * scale.mean() for series, scale in ((one, load), (two, changed))]

    np.testing.assert_allclose(floors[0][: 7 * 288], floors[1][: 7 * 288], rtol=0.02)


@pytest.mark.slow
def test_a_forecast_beats_plain_scaling_on_a_daily_jump_within_its_budget(tmp_path):
    """The whole bench on a made series: ten days of one jump a day."""
    import closed_loop
    import recorded

    from cronhpa.forecasting.columns import AutoscalerModel

    load = np.where(np.arange(10 * 288) % 288 < 72, 3.0, 15.0)
    series = recorded.read(write(tmp_path / "jump.csv", load, 300))

    scores = closed_loop.run(series, AutoscalerModel())

    plain, five = scores["reactive"], scores["ours, budget 5 %"]
    assert plain.minutes > 1.0
    assert five.minutes < 0.5 * plain.minutes
    assert five.pod_hours <= 1.05 * plain.pod_hours
    assert scores["oracle"].minutes <= five.minutes


@pytest.mark.slow
def test_the_whole_bench_on_a_folder_says_who_was_left_out_and_ends_with_one_line(tmp_path, monkeypatch, capsys):
    import forecast_value
    import report

    monkeypatch.setattr(report, "FOLDER", tmp_path)
    monkeypatch.setattr(forecast_value, "machine", dict)  # seconds of work that say how fast this machine is
    folder = tmp_path / "traces"
    folder.mkdir()
    load = np.where(np.arange(9 * 96) % 96 < 24, 3.0, 15.0)
    write(folder / "jump.csv", load, 900)
    write(folder / "short.csv", load[:96], 900)
    monkeypatch.setattr(sys, "argv", ["forecast_value.py", str(folder)])

    assert 0 == forecast_value.main()

    lines = capsys.readouterr().out.splitlines()
    assert "left out: " in lines[-2]
    assert "short.csv: 1.0 days: 7 are warm-up" in lines[-2]
    assert lines[-1].startswith("stressed minutes -")
    figures = json.loads((tmp_path / "forecast-value.json").read_text())
    assert ["short.csv"] == list(figures["left_out"])
    assert figures["quality"]["jump"]["PeriodicAutoregression"]["coverage"] > 0.9


def scores(**by_series):
    """(minutes, pod-hours, actions) of plain reactive scaling and of ours at a budget of 5 %, by series."""
    import closed_loop

    return {
        name: {
            policy: closed_loop.ClosedLoopScore(minutes, minutes / 100, pods, actions)
            for policy, (minutes, pods, actions) in zip(("reactive", closed_loop.ours(5)), of_policies, strict=True)
        }
        for name, of_policies in by_series.items()
    }


def test_a_summary_takes_minutes_of_stressed_series_and_pod_hours_of_all():
    """10 to 5 and 20 to 8 minutes are half and three fifths fewer: 55 %. 2 % and 6 % and 1 % more pods: 3 %."""
    import closed_loop

    of_all = closed_loop.summary(
        scores(
            a=((10.0, 100.0, 10.0), (5.0, 102.0, 11.0)),
            b=((20.0, 100.0, 10.0), (8.0, 106.0, 9.0)),
            smooth=((0.2, 100.0, 10.0), (0.21, 101.0, 13.0)),
        ),
        closed_loop.ours(5),
    )

    assert (55.0, 3.0, 6.0, 1.0) == pytest.approx((of_all.reduction, of_all.extra, of_all.worst, of_all.smooth))
    assert (1.1, 1.3) == pytest.approx((of_all.actions, of_all.actions_most))
    assert pytest.approx(4.0) == of_all.harm  # 0.01 min of the 0.25 that count as stressed


def test_halves_are_the_even_and_the_odd_places_in_alphabetical_order():
    import closed_loop

    even, odd = closed_loop.halves({name: {} for name in "cabd"})

    assert (["a", "c"], ["b", "d"]) == (list(even), list(odd))


def test_a_higher_target_is_compared_where_its_minutes_are_equal():
    """
    Of 10 minutes with 100 pods: at 80 % there are 14 with 70 pods at a budget of 5 % and 6 with 80 at one of 10 %; half
    way there are as many, with 75. Without a forecast there are 30: where 40 were to be met, its 60 pods suffice.
    """
    from closed_loop import ClosedLoopScore, ours, traded

    high = {
        "a": {
            "reactive": ClosedLoopScore(30.0, 0.1, 60.0, 1.0),
            ours(5): ClosedLoopScore(14.0, 0.1, 70.0, 1.0),
            ours(10): ClosedLoopScore(6.0, 0.1, 80.0, 1.0),
        }
    }
    extra = [
        traded({"a": {"reactive": ClosedLoopScore(minutes, 0.1, 100.0, 1.0)}}, high, ["a"])
        for minutes in (40.0, 10.0, 5.0)
    ]

    assert [pytest.approx(-40.0), pytest.approx(-25.0), None] == extra


@pytest.mark.long
def test_the_grid_says_what_was_asked_beside_what_was_reached_and_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    import forecast_grid
    import forecast_methods
    import learning_cost
    import recorded
    import report
    from closed_loop import run
    from rich.console import Console

    from cronhpa.forecasting.columns import AutoscalerModel

    asked = []

    async def cost(_count):
        return {"ordinary_day_seconds": 0.12, "first_day_seconds": 0.7, "worker_mb": 160.0}

    def for_each(task, several, jobs=None):
        asked.append(([series.name for series in several], jobs))
        return recorded.for_each(task, several, jobs)

    monkeypatch.setattr(report, "FOLDER", tmp_path)
    monkeypatch.setattr(forecast_grid, "for_each", for_each)
    monkeypatch.setattr(learning_cost, "run", cost)
    monkeypatch.setattr(
        forecast_grid, "_SETTINGS", {name: AutoscalerModel() for name in ("start-up 240 s", "target 80 %")}
    )
    load = np.where(np.arange(8 * 96) % 96 < 24, 3.0, 15.0)  # a week of warm-up, and the day that is replayed
    series = recorded.read(write(tmp_path / "jump.csv", load, 900))
    quality = {"jump": forecast_methods.qualities(series)}

    base = {"jump": run(series, AutoscalerModel())}

    grid = forecast_grid.run_grid([series], base, quality, Console(width=140), jobs=1)

    reached = {row["goal"]: row["reached"] for row in grid["asked"]}
    assert "10 min" == reached["10,000 workloads on 2 cores"]  # 0.12 s * 10,000 / 60 / 2
    assert reached["stressed minutes, budget 5 %"] == reached["start-up 240 s, budget 5 %"]
    assert {"3 pods", "start-up 240 s", "target 80 %"} == set(grid["scores"])
    assert "What was asked for, and what was reached" in capsys.readouterr().out

    assert [(["jump"], 1)] * 3 == asked
    asked.clear()
    torn = tmp_path / "forecast-grid" / "target-80" / "jump.json"
    torn.write_text(torn.read_text()[:99])

    again = forecast_grid.run_grid([series], base, quality, Console(width=140), jobs=1)
    halved = replace(series, load=series.load / 2)
    changed = forecast_grid.run_grid([halved], base, quality, Console(width=140), jobs=1)

    assert [[], [], ["jump"], *[["jump"]] * 3] == [names for names, _ in asked]
    assert grid["scores"] == again["scores"] != changed["scores"]
