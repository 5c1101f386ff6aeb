"""`cronhpa explain --at` and `--from`: a past decision, and a timeline, as text, JSON and picture."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer
from msgspec import Struct

from cronhpa.cli.past.past_moments import parse_past_moment
from cronhpa.cli.past.past_of_replicas import PastSource, PastSourceError, whole_timeline
from cronhpa.cli.past.past_source import PastWhere, opened
from cronhpa.cli.tables.lines import say, show
from cronhpa.cli.tables.moments import format_moment, parse_length
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.history.past.past_answers import DecisionAnswer

_WIDTH_PIPED = 80


class AskedPast(Struct, frozen=True):
    """The requested past: the decision of one moment, or a span; times as they were typed."""

    at: str | None = None
    begin: str | None = None
    end: str | None = None
    output: str = "text"
    picture: Path | None = None


def explain_past(namespace: str, name: str, asked: AskedPast, where: PastWhere, now: Nanoseconds) -> None:
    """Prints the requested past. Ends the command with 1 if it cannot be read."""
    from cronhpa.kube.errors import ClusterError

    if asked.at is not None and (asked.begin, asked.end, asked.picture) != (None, None, None):
        raise typer.BadParameter("the decision of one moment, or a span with --from and --to", param_hint="--at")
    if asked.output not in {"text", "json"}:
        raise typer.BadParameter(f'"{asked.output}" is neither text nor json', param_hint="--output")
    if asked.picture is not None:
        from cronhpa.cli.picture.drawing import check_picture

        check_picture(asked.picture, "explain")
    try:
        asyncio.run(_explain(namespace, name, asked, where, now))
    except (PastSourceError, ClusterError) as problem:
        say(f"cronhpa explain: {problem}", err=True)
        raise typer.Exit(1) from problem


async def newest_decision(source: PastSource, namespace: str, name: str, now: Nanoseconds) -> DecisionAnswer:
    """The newest decision, whose spec has the object's time zone. Raises PastSourceError."""
    newest = await source.decision(namespace, name, now)
    if newest is None:
        raise PastSourceError(
            f"{namespace}/{name}: no decision is kept of it, or not for you: is its name right, may you get it, and "
            "does the operator keep its history?"
        )
    return newest


async def decision_at(
    source: PastSource, namespace: str, name: str, text: str, now: Nanoseconds
) -> tuple[DecisionAnswer, str]:
    """(the decision of a moment, the zone of its object). Raises PastSourceError, BadParameter."""
    from cronhpa.cli.past.past_explained import body_of, zone_of

    zone = zone_of(body_of(await newest_decision(source, namespace, name, now)))
    instant = moment("--at", text, zone, now)
    decision = await source.decision(namespace, name, instant)
    if decision is None:
        following = await source.timeline(namespace, name, instant, now)
        kept = "" if following is None or following.first is None else format_moment(following.first, zone)
        raise PastSourceError(
            f"{namespace}/{name}: nothing is kept of {format_moment(instant, zone)}: kept from {kept}"
        )
    return decision, zone


def moment(option: str, text: str, zone: str, now: Nanoseconds, *, is_end: bool = False) -> Nanoseconds:
    try:
        return parse_past_moment(text, zone, now, is_end=is_end)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


async def _explain(namespace: str, name: str, asked: AskedPast, where: PastWhere, now: Nanoseconds) -> None:
    from cronhpa.cli.past import past_explained

    label = f"{namespace}/{name}"
    async with opened(where) as source:
        if asked.at is not None:
            decision, zone = await decision_at(source, namespace, name, asked.at, now)
            if asked.output == "json":
                show(past_explained.decision_json(decision))
                return
            for line in past_explained.decision_lines(decision, zone):
                say(line)
            return
        newest = await newest_decision(source, namespace, name, now)
        zone = past_explained.zone_of(past_explained.body_of(newest))
        begin, end = _span(asked, zone, now)
        timeline = await whole_timeline(source, namespace, name, begin, end)
    if timeline is None:
        raise PastSourceError(f"{label}: nothing is kept of it, or not for you")
    if asked.output == "json":
        show(past_explained.timeline_json(label, timeline, begin, end))
    else:
        for line in past_explained.timeline_lines(label, timeline, begin, end, zone, _width()):
            say(line)
    if asked.picture is not None:
        from cronhpa.cli.picture.history_picture import draw

        try:
            draw(label, timeline, begin, end, zone, asked.picture)
        except OSError as error:
            raise PastSourceError(f"{asked.picture}: {error.strerror or error}") from error
        say(f"drawn: {asked.picture}", err=True)


def _span(asked: AskedPast, zone: str, now: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
    begin = now - DAY if asked.begin is None else moment("--from", asked.begin, zone, now)
    if asked.end is None:
        return begin, now
    try:
        end = min(begin + parse_length(asked.end), now)
    except ValueError:
        end = moment("--to", asked.end, zone, now, is_end=True)
    if end <= begin:
        raise typer.BadParameter(f'"{asked.end}" must be after the begin', param_hint="--to")
    return begin, end


def _width() -> int:
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else _WIDTH_PIPED
