"""`cronhpa explain --at` and `--from`: a past decision, and a timeline, as text, JSON and picture."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import typer
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.cli.objects.cluster import connected
from cronhpa.cli.objects.named import ObjectName, place_of, read_named
from cronhpa.cli.past import past_text
from cronhpa.cli.past.past_of_replicas import PastSource, PastSourceError, whole_timeline
from cronhpa.cli.past.past_source import PastLocation, opened
from cronhpa.cli.past.past_text import body_of, zone_of
from cronhpa.cli.past.relative_time import check_past_moment, parse_past_moment
from cronhpa.cli.tables.time_format import format_moment, parse_length
from cronhpa.cli.terminal.console import fail, say, show
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.history.past.past_answers import DecisionAnswer


class PastRequest(Struct, frozen=True):
    """The requested past: the decision of one moment, or a span; times as they were typed."""

    at: str | None = None
    begin: str | None = None
    end: str | None = None
    output: str = "text"
    picture: Path | None = None


class PastObject(Struct, frozen=True):
    """The object whose past is requested."""

    namespace: str
    name: str
    zone: str | None = None
    """Its time zone; None if the cluster does not have the object, or was not asked."""
    problem: str = ""
    """Why the cluster does not have it; "" if it has, or was not asked."""

    @property
    def label(self) -> str:
        return f"{self.namespace}/{self.name}"


def explain_at(named: ObjectName, request: PastRequest, where: PastLocation, now: Nanoseconds) -> None:
    """Prints the requested past. Ends the command with 1 if it cannot be read."""
    from cronhpa.kube.errors import ClusterError

    if request.at is not None and (request.begin, request.end, request.picture) != (None, None, None):
        raise typer.BadParameter("the decision of one moment, or a span with --from and --to", param_hint="--at")
    if request.output not in {"text", "json"}:
        raise typer.BadParameter(f'"{request.output}" is neither text nor json', param_hint="--output")
    if request.picture is not None:
        from cronhpa.cli.picture.drawing import check_picture

        check_picture(request.picture, "explain")
    check_past(request, now)
    try:
        asyncio.run(_explain(find_past_object(named, where), request, where, now))
    except (PastSourceError, ClusterError) as problem:
        fail("explain", problem)


def check_past(request: PastRequest, now: Nanoseconds) -> None:
    """Raises BadParameter for times that are none, before a cluster or an operator is asked."""
    for option, text in (("--at", request.at), ("--from", request.begin), ("--to", request.end)):
        if text is None or (option == "--to" and _is_length(text)):
            continue
        try:
            check_past_moment(text, now)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=option) from error


def find_past_object(named: ObjectName, where: PastLocation) -> PastObject:
    """
    The object that a name means. An object that was deleted, or that the cluster does not show, may have a past.

    Raises ClusterError if only the cluster can tell which object is meant.
    """
    from cronhpa.kube.errors import ClusterError

    async def read() -> dict[str, Any]:
        async with connected(where.kubeconfig, where.context, named.namespace) as cluster:
            return await read_named(cluster, named)

    problem = ""
    if where.store is None or named.target:
        try:
            body = asyncio.run(read())
        except ClusterError as error:
            if named.target:
                raise
            problem = str(error)
        else:
            return PastObject(body["metadata"]["namespace"], body["metadata"]["name"], zone_of(body))
    return PastObject(*place_of(named, where.kubeconfig, where.context), None, problem)


async def newest_decision(source: PastSource, found: PastObject, now: Nanoseconds) -> DecisionAnswer:
    """The newest decision, whose spec has the object's time zone. Raises PastSourceError."""
    newest = await source.decision(found.namespace, found.name, now)
    if newest is None and found.problem:
        raise PastSourceError(f"{found.problem}; and the operator kept no decision of it for you")
    if newest is None:
        raise PastSourceError(
            f"{found.label}: no decision is kept of it, or not for you: is its name right, may you get it, and "
            "does the operator keep its history? A replica has what it decided while it led: if --operator names one, "
            "name all"
        )
    return newest


async def decision_at(source: PastSource, found: PastObject, text: str, now: Nanoseconds) -> tuple[DecisionAnswer, str]:
    """(the decision of a moment, the zone of its object). Raises PastSourceError, BadParameter."""
    zone = zone_of(body_of(await newest_decision(source, found, now)))
    instant = moment("--at", text, zone, now)
    decision = await source.decision(found.namespace, found.name, instant)
    if decision is not None and decision.until is not None and decision.until > now:
        # Of a time when the operator's clock was ahead.
        return replace(decision, until=None), zone
    if decision is None:
        following = await source.timeline(found.namespace, found.name, instant, now)
        first_text = "" if following is None or following.first is None else format_moment(following.first, zone)
        raise PastSourceError(
            f"{found.label}: nothing is kept of {format_moment(instant, zone)}: kept from {first_text}"
        )
    return decision, zone


def moment(option: str, text: str, zone: str, now: Nanoseconds, *, is_end: bool = False) -> Nanoseconds:
    try:
        return parse_past_moment(text, zone, now, is_end=is_end)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


async def _explain(found: PastObject, request: PastRequest, where: PastLocation, now: Nanoseconds) -> None:
    label = found.label
    if found.zone is not None:  # known before an operator is reached
        if request.at is not None:
            moment("--at", request.at, found.zone, now)
        else:
            _span(request, found.zone, now)
    async with opened(where) as source:
        if request.at is not None:
            decision, zone = await decision_at(source, found, request.at, now)
            if request.output == "json":
                show(past_text.decision_json(decision))
                return
            for line in past_text.decision_lines(decision, zone, shutil.get_terminal_size().columns):
                say(line)
            return
        newest = await newest_decision(source, found, now)
        zone = past_text.zone_of(past_text.body_of(newest))
        begin, end = _span(request, zone, now)
        timeline = await whole_timeline(source, found.namespace, found.name, begin, end)
    if timeline is None:
        raise PastSourceError(f"{label}: nothing is kept of it, or not for you")
    if request.output == "json":
        show(past_text.timeline_json(label, timeline, begin, end))
    else:
        columns = shutil.get_terminal_size().columns
        for line in past_text.timeline_lines(label, timeline, begin, end, zone, columns):
            say(line)
    if request.picture is not None:
        from cronhpa.cli.picture.history_picture import draw

        try:
            draw(label, timeline, begin, end, zone, request.picture)
        except OSError as error:
            raise PastSourceError(f"{request.picture}: {error.strerror or error}") from error
        say(f"drawn: {request.picture}", err=True)


def _span(request: PastRequest, zone: str, now: Nanoseconds) -> tuple[Nanoseconds, Nanoseconds]:
    begin = now - DAY if request.begin is None else moment("--from", request.begin, zone, now)
    if request.end is None:
        return begin, now
    if _is_length(request.end):
        end = min(begin + parse_length(request.end), now)
    else:
        end = moment("--to", request.end, zone, now, is_end=True)
    if end <= begin:
        raise typer.BadParameter(f'"{request.end}" must be after the begin', param_hint="--to")
    return begin, end


def _is_length(text: str) -> bool:
    try:
        parse_length(text)
    except ValueError:
        return False
    return True
