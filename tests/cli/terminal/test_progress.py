"""cronhpa.cli.terminal.progress: a line every ten seconds where no terminal shows a bar."""

from __future__ import annotations

from typing import Any

import pytest

from cronhpa.cli.terminal.progress import EVERY_SECONDS, Lines, progress


class Clock:
    """Ten seconds pass with each wait; `steps` happen at the beginning of each, and behind the last one all is done."""

    def __init__(self, *steps):
        self.now = 0.0
        self._steps = list(steps)

    def wait(self, seconds):
        assert EVERY_SECONDS == seconds
        if not self._steps:
            return True
        self._steps.pop(0)()
        self.now += seconds
        return False


def told(*reports):
    """What is said; None where nothing was reported in ten seconds."""
    said: list[str] = []
    lines: Any = None
    clock = Clock(*(lambda reported=report: reported and lines.report(*reported) for report in reports))
    lines = Lines(said.append, "running forecast", lambda: clock.now)
    lines.run(clock.wait)
    return said


def test_a_line_says_how_far_it_is_and_about_how_long_it_will_take():
    """A quarter in 10 s leaves 30 s; two thirds in 20 s leave 10 s."""
    assert ["running forecast: 25 %, about 30 s left", "running forecast: 66 %, about 10 s left"] == told(
        (1, 4), (2, 3)
    )


def test_a_command_that_reports_nothing_shows_that_it_works():
    assert ["running forecast: 10 s so far", "running forecast: 20 s so far"] == told(None, (0, 7))


def test_work_of_less_than_ten_seconds_shows_no_progress():
    assert [] == told()


def test_the_first_twentieth_foretells_nothing():
    assert ["running forecast: 10 s so far", "running forecast: 5 %, about 6 min 20 s left"] == told(
        (49, 1000), (50, 1000)
    )


@pytest.mark.parametrize("report", [(5, 0), (7, 4)])
def test_a_total_that_turns_out_wrong_is_no_error(report):
    assert ["running forecast: 10 s so far"] == told(report)


def test_a_pipe_gets_nothing_else_and_no_thread_is_left(capsys):
    with progress("backtest", "running reactive") as report:
        report(1, 2)

    assert ("", "") == capsys.readouterr()
    import threading

    assert ["MainThread"] == [
        thread.name for thread in threading.enumerate() if "run" in thread.name or "Main" in thread.name
    ]


def test_a_terminal_gets_a_bar_that_is_gone_afterwards(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with progress("backtest", "running [reactive]") as report:
        report(1, 2)

    assert "running [reactive]" in capsys.readouterr().err
