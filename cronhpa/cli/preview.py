"""`cronhpa preview`: the bounds to come, before they come: as a table, as JSON, as a picture."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from msgspec import Struct

from cronhpa.cli.cluster import Context, Kubeconfig, Namespace, read_object
from cronhpa.cli.lines import say, show
from cronhpa.core.instant import DAY, Nanoseconds
from cronhpa.core.spec import ControllerOptions

if TYPE_CHECKING:
    from cronhpa.cli.timetable import Subject

# A calendar repeats; what is further away than this, nobody plans by the hour.
_SPAN_MAX = 10 * 366 * DAY
_WIDTH_PIPED = 160
_CONFLICT = 3


class PreviewOutput(StrEnum):
    TABLE = "table"
    JSON = "json"


def preview(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-|NAME", help="YAML or JSON with CronHPA objects, or the name of one in the cluster."
        ),
    ],
    namespace: Namespace = "default",
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Where to begin: a local date or time, or one with an offset.")
    ] = "now",
    end: Annotated[
        str, typer.Option("--to", metavar="TIME|LENGTH", help="Where to end: a time, or how long, such as 12h or 90d.")
    ] = "7d",
    zone: Annotated[str | None, typer.Option(help="IANA time zone to show times in. Absent, the object's own.")] = None,
    output: Annotated[PreviewOutput, typer.Option("--output", "-o", help="What to print.")] = PreviewOutput.TABLE,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg|.png", help="Draw it, too. Of several objects each has a file of its own."),
    ] = None,
    start_up: Annotated[
        str | None,
        typer.Option(
            "--pod-startup",
            metavar="LENGTH",
            help="How long a pod takes to be Ready, for measured leads. Absent, what the operator learned, else 1m.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Print days, too, that are as that weekday usually is.")] = False,
    fail_on_conflict: Annotated[
        bool, typer.Option("--fail-on-conflict", help="Exit with 3 where schedules contradict each other.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Show the coming bounds, when they change, and the source of each.

    Metrics and forecasts move the replicas within these bounds. Marked are the clock changes of every zone in use and
    schedules that contradict each other. A file needs no cluster. Of an object in the cluster its override counts, too,
    and what the operator has learned of its pods' start, from which measured leads follow.

    Exit codes: 0 done; 1 a file or object cannot be read, or its spec is wrong; 2 an option is; 3 --fail-on-conflict
    and a conflict.
    """
    from cronhpa.cli import timetable
    from cronhpa.cli.drawing import check_picture
    from cronhpa.core.scheduled.windows import zone_problem

    if zone is not None and (problem := zone_problem(zone)):
        raise typer.BadParameter(problem, param_hint="--zone")
    if picture is not None:
        check_picture(picture, "preview")
    is_file = _is_file(what)
    bodies = _from_file(Path(what)) if is_file else [_from_cluster(what, namespace, kubeconfig, context)]
    now = time.time_ns()
    asked = _Asked(begin, end, zone, None if start_up is None else _length(start_up), now)
    subjects = [_subject(body, asked, is_file=is_file) for body in bodies]
    if output is PreviewOutput.JSON:
        show(timetable.as_json(subjects))
    else:
        _print(subjects, every=every)
    if picture is not None:
        _draw(subjects, picture)
    if fail_on_conflict and not all(subject.timeline.is_consistent for subject in subjects):
        raise typer.Exit(_CONFLICT)


# --- what is read ------------------------------------------------------------------------------------------------


def _is_file(what: str) -> bool:
    """No object's name has a slash, and what ends so is meant as a file even where there is none."""
    return what == "-" or "/" in what or what.endswith((".yaml", ".yml", ".json")) or Path(what).is_file()


def _from_file(path: Path) -> list[Mapping[str, Any]]:
    from cronhpa.cli.documents import UnreadableFileError, read_objects

    try:
        return read_objects(path)
    except UnreadableFileError as error:
        _end(error)


def _from_cluster(name: str, namespace: str, kubeconfig: str | None, context: str | None) -> dict[str, Any]:
    import asyncio

    from cronhpa.kube.client import Client
    from cronhpa.kube.credentials import load_configuration
    from cronhpa.kube.errors import ClusterError

    async def read() -> dict[str, Any]:
        async with Client(load_configuration(kubeconfig, context)) as client:
            return await read_object(client, namespace, name)

    try:
        return asyncio.run(read())
    except ClusterError as error:
        _end(f"there is no file {name}, and no CronHPA of that name could be read from namespace {namespace}: {error}")


class _Asked(Struct, frozen=True):
    """The span as it was written, in which zone, and how long a pod takes to be Ready where that was told."""

    begin: str
    end: str
    zone: str | None
    start_up: Nanoseconds | None
    now: Nanoseconds


def _length(text: str) -> Nanoseconds:
    from cronhpa.cli.moments import parse_length

    try:
        return parse_length(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--pod-startup") from error


def _subject(body: Mapping[str, Any], asked: _Asked, *, is_file: bool) -> Subject:
    from cronhpa.api.parse import SpecError, parse_spec
    from cronhpa.api.status_memory import parse_memory
    from cronhpa.cli.documents import own_zone, written_spec
    from cronhpa.cli.timetable import Subject
    from cronhpa.core.scheduled.timeline import timeline

    namespace, name = body["metadata"].get("namespace"), body["metadata"]["name"]
    label = f"{namespace}/{name}" if namespace else str(name)
    try:
        spec = written_spec(body) if is_file else parse_spec(body["spec"], namespace or "", ControllerOptions())
    except SpecError as error:
        _refuse(label, error.problems)
    shown = asked.zone or own_zone(body["spec"], spec)
    start, stop = _span(asked, shown)
    memory = parse_memory({} if is_file else body.get("status") or {})
    start_up = memory.start_up if asked.start_up is None else asked.start_up
    line = timeline(spec, start, stop, zones=[shown], start_up=start_up, leads=memory.leads)
    return Subject(label, spec, shown, line, start_up)


def _span(asked: _Asked, zone: str) -> tuple[Nanoseconds, Nanoseconds]:
    from cronhpa.cli.moments import parse_length, parse_moment

    begin, end = asked.begin, asked.end
    try:
        start = parse_moment(begin, zone, asked.now)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from error
    try:
        stop = start + parse_length(end)
    except ValueError as no_length:
        try:
            stop = parse_moment(end, zone, start)
        except ValueError as error:
            raise typer.BadParameter(f"{error}; or a length such as 7d", param_hint="--to") from no_length
    if not start < stop <= start + _SPAN_MAX:
        raise typer.BadParameter(f'"{end}" must be after "{begin}", by ten years at most', param_hint="--to")
    return start, stop


# --- what is shown -----------------------------------------------------------------------------------------------


def _print(subjects: list[Subject], *, every: bool) -> None:
    from rich.console import Console

    from cronhpa.cli.timetable import table

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDTH_PIPED
    for number, subject in enumerate(subjects):
        with console.capture() as captured:
            console.print(*table(subject, every=every), sep="\n")
        typer.echo("\n" * bool(number) + "\n".join(line.rstrip() for line in captured.get().splitlines()))


def _draw(subjects: list[Subject], path: Path) -> None:
    from cronhpa.cli.picture import draw

    for subject in subjects:
        own = path if len(subjects) == 1 else path.with_stem(f"{path.stem}-{subject.label.replace('/', '.')}")
        try:
            draw(subject, own)
        except OSError as error:
            _end(f"{own}: {error.strerror or error}")
        say(f"drawn: {own}", err=True)


def _refuse(label: str, problems: Iterable[object]) -> NoReturn:
    for problem in problems:
        say(f"cronhpa preview: {label}: {problem}", err=True)
    raise typer.Exit(1)


def _end(problem: object) -> NoReturn:
    """One line on stderr, exit code 1."""
    say(f"cronhpa preview: {problem}", err=True)
    raise typer.Exit(1)
