"""What the demo prints: a live picture on a terminal, plain lines anywhere else, a table at the end."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cronhpa.core.model.instant import to_datetime
from testbed.demo.observation import LABELS
from testbed.demo.score import table
from testbed.demo.twins import CRONHPA, TWINS, UPSTREAM

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from rich.console import RenderableType

    from testbed.demo.observation import Moment, Twin, Verdict
    from testbed.demo.scenario import Scenario
    from testbed.demo.score import Score

# What stands beside the bars, and above and below the events, in columns and lines.
_BESIDE, _BAR_MAX = 60, 48
_AROUND, _EVENTS_MAX = 22, 12
_PLAIN_EVERY_S = 5


class Screen(Protocol):
    """Where moments and events are shown; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def tell(self, second: float, text: str) -> None:
        """An event."""

    def show(self, moment: Moment, scores: Mapping[str, Score]) -> None: ...


def screen_for(console: Console, scenario: Scenario, seconds: int) -> Screen:
    """Live where the console is a terminal, else plain lines."""
    return Picture(console, scenario, seconds) if console.is_terminal else Lines(console)


def clock(second: float) -> str:
    """1:05; -0:03 before the start."""
    whole = int(second // 1)
    return f"{'-' if whole < 0 else ''}{abs(whole) // 60}:{abs(whole) % 60:02d}"


class Lines:
    """A line every few seconds, and one for each event: for pipes and logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left open."""

    def tell(self, second: float, text: str) -> None:
        self._print(f"{clock(second)}  * {text}")

    def show(self, moment: Moment, scores: Mapping[str, Score]) -> None:
        if moment.second < self._next:
            return
        self._next = moment.second // _PLAIN_EVERY_S * _PLAIN_EVERY_S + _PLAIN_EVERY_S
        twins = " | ".join(
            f"{LABELS[name]} {twin.ready}/{twin.replicas} ready, {_state(moment, name).plain}"
            f" ({scores[name].under_provisioned_seconds:.0f} s short so far)"
            for name, twin in moment.twins.items()
        )
        verdict = moment.verdict
        self._print(
            f"{clock(moment.second)}  load {moment.load:.3g} cores | {twins} | {_decision(verdict)}: {_why(verdict)}"
        )

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Picture:
    """The live picture of a terminal."""

    def __init__(self, console: Console, scenario: Scenario, seconds: int) -> None:
        self._scenario, self._seconds = scenario, seconds
        self._top = max(scenario.load.at(scenario.start + second * 10**9) for second in range(seconds)) * 1.4
        self._bar_width = max(8, min(_BAR_MAX, console.width - _BESIDE))
        self._events: deque[tuple[float, str]] = deque(maxlen=max(3, min(_EVENTS_MAX, console.height - _AROUND)))
        self._live = Live(console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def tell(self, second: float, text: str) -> None:
        self._events.append((second, text))

    def show(self, moment: Moment, scores: Mapping[str, Score]) -> None:
        self._live.update(self.drawn(moment, scores))

    def drawn(self, moment: Moment, scores: Mapping[str, Score]) -> RenderableType:
        recorded = to_datetime(self._scenario.recorded_at(moment.at)).strftime("%Y-%m-%d %H:%M:%S UTC")
        head = Text.assemble(
            (clock(moment.second), "bold"),
            f" of {clock(self._seconds)}   load ",
            (f"{moment.load:.3g} cores", "bold"),
            f"   recorded {recorded}",
        )
        grid = Table.grid(padding=(0, 2))
        for _ in range(5):
            grid.add_column()
        grid.add_row("load", self._bar(moment.load, moment.load, "cyan"), "", "", "")
        for name, twin in moment.twins.items():
            starting = max(twin.pods - twin.ready, 0) * self._scenario.request
            grid.add_row(
                Text(LABELS[name], "bold"),
                self._bar(twin.carries, twin.carries + starting, "red" if moment.is_short(name) else "green"),
                f"{twin.ready} of {twin.replicas} ready",
                f"carries {twin.carries:.3g}",
                _state(moment, name),
            )
        so_far = Text(
            f"so far  {'; '.join(f'{LABELS[name]} {_so_far(scores[name])}' for name in (UPSTREAM, CRONHPA))}", "dim"
        )
        told = [Text(f"{clock(second):>5}  {text}") for second, text in self._events]
        return Group(
            Panel(Group(head, Text(), grid, Text(), so_far), title="upstream HPA and CronHPA under one recorded load"),
            Panel(_decided(moment.verdict), title="why the CronHPA asks for what it asks for"),
            Panel(Group(*told) if told else Text("nothing yet"), title="what happened"),
        )

    def _bar(self, solid: float, total: float, colour: str) -> Text:
        """Cores as a bar: ready in full, starting in outline."""
        width = self._bar_width
        whole = min(round(solid / self._top * width), width)
        outline = min(round(total / self._top * width), width) - whole
        return Text.assemble(("█" * whole, colour), ("░" * outline, colour), " " * (width - whole - outline))


def closing_table(scores: Mapping[str, Score]) -> Table:
    made = Table("", *(LABELS[name] for name in TWINS), title="Result")
    for column in made.columns[1:]:
        column.justify = "right"
    for row in table(scores):
        made.add_row(*row)
    return made


def _decided(verdict: Verdict) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_row("", Text(_decision(verdict), "bold"), "")
    for proposal in verdict.proposals:
        is_winner = proposal.source == verdict.decided_by
        grid.add_row(
            Text("▶" if is_winner else " ", "green"),
            Text(f"{proposal.source} {_WORDS[proposal.role]} {proposal.replicas}", "green" if is_winner else ""),
            Text(proposal.reason, "dim"),
        )
    for text in verdict.abstentions:
        grid.add_row("", Text("abstains", "dim"), Text(text, "dim"))
    return grid


_WORDS = {"Target": "asks for", "Floor": "at least", "Cap": "at most"}


def _decision(verdict: Verdict) -> str:
    if not verdict.is_made:
        return "no decision yet"
    if not verdict.decided_by:
        return "the replicas are held"
    return f"{verdict.desired} by {verdict.decided_by}"


def _why(verdict: Verdict) -> str:
    """The winner's arithmetic, or the decision's own words, or those of who abstains."""
    if not verdict.decided_by:
        return "; ".join(verdict.abstentions)
    won = verdict.proposal(verdict.decided_by)
    if won and won.reason:
        return won.reason
    return verdict.reason or (f"{_WORDS[won.role]} {won.replicas}" if won else "")


def _state(moment: Moment, name: str) -> Text:
    twin: Twin = moment.twins[name]
    if moment.is_short(name):
        return Text(f"SHORT by {moment.load - twin.carries:.3g}", "bold red")
    return Text("ok", "green")


def _so_far(scored: Score) -> str:
    return f"short {scored.under_provisioned_seconds:.0f} s, {scored.pod_seconds:.0f} pod-s"
