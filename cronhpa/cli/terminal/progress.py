"""The progress of a long command on stderr: a bar on a terminal, a line every ten seconds on a pipe or in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cronhpa.cli.tables.time_format import format_length
from cronhpa.cli.terminal.console import complain
from cronhpa.core.model.instant import SECOND

EVERY_SECONDS = 10.0

Report = Callable[[int, int], None]
"""Called with (done, total)."""


@contextmanager
def progress(command: str, what: str) -> Iterator[Report]:
    """Shows the progress of `what` until the end of the block; the block calls the Report."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with _bar(console, what) as report:
            yield report
        return
    ended = threading.Event()
    lines = Lines(lambda text: complain(command, text), what, time.monotonic)
    thread = threading.Thread(target=lines.run, args=(ended.wait,), daemon=True)
    thread.start()
    try:
        yield lines.report
    finally:
        ended.set()
        thread.join()


class Lines:
    """A line now and then, whether or not anything was reported in between: silence looks like a hang."""

    def __init__(self, tell: Callable[[str], None], what: str, elapsed: Callable[[], float]) -> None:
        self._tell = tell
        self._what = what
        self._elapsed = elapsed
        self._begun = elapsed()
        self._done = (0, 0)

    def report(self, count: int, of: int) -> None:
        self._done = (count, of)

    def run(self, wait: Callable[[float], bool]) -> None:
        """wait: for so many seconds; True when all is done."""
        while not wait(EVERY_SECONDS):
            count, of = self._done
            seconds = self._elapsed() - self._begun
            # The first five percent begin slowly: "about 2 h 44 min left" of what then took a minute.
            if not 0 < of <= 20 * count <= 20 * of:
                self._tell(f"{self._what}: {_length(seconds)} so far")
            else:
                left = seconds * (of - count) / count
                self._tell(f"{self._what}: {100 * count // of} %, about {_length(left)} left")


def _length(seconds: float) -> str:
    return format_length(round(seconds) * SECOND)


@contextmanager
def _bar(console: object, what: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    assert isinstance(console, Console)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        shown = -1

        def report(count: int, of: int) -> None:
            # Only at each percent: drawing the bar at each reconciliation would cost as much as the reconciliation.
            nonlocal shown
            percent = 100 * count // max(of, 1)
            if percent != shown:
                shown = percent
                bar.update(task, completed=count, total=of)

        yield report
