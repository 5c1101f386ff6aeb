"""`cronhpa preview`: the coming bounds, as a table, as JSON, as a picture, or as a difference."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from cronhpa.cli.objects.cluster import AllNamespaces, Context, Kubeconfig, Namespace
from cronhpa.cli.objects.event_documents import EventFileError, has_events
from cronhpa.cli.objects.manifests import files_in
from cronhpa.cli.objects.named_calendars import objects_with_days
from cronhpa.cli.objects.object_inputs import (
    ObjectInput,
    ObjectInputError,
    ObjectLocation,
    find,
    is_file,
    objects_in,
)
from cronhpa.cli.objects.object_names import object_names
from cronhpa.cli.objects.stated_options import stated_options
from cronhpa.cli.terminal.console import complain, fail, say, show
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.core.model.spec import Span

if TYPE_CHECKING:
    from cronhpa.cli.commands.difference import ObjectDifference
    from cronhpa.cli.commands.event_preview import EventPreview
    from cronhpa.cli.tables.bounds_table import BoundsSubject, StyledLine
    from cronhpa.core.model.calendar import Calendar, Calendars
    from cronhpa.core.model.memory import Memory

_SPAN_DEFAULT = "7d"
# The longest span: nobody plans further ahead by the hour.
_SPAN_MAX = 10 * 366 * DAY
# The width of a pipe, of a log, and of a terminal of the usual size.
_WIDTH = 80
# A window that opened earlier may still be open, and the next edge is looked for beyond the end.
_BESIDE = 100 * DAY
_CONFLICT = 3
_TWO = 2
# Characters of an object's name that a file's name does not keep.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")
_NAME_MAX = 100


class PreviewOutput(StrEnum):
    TABLE = "table"
    JSON = "json"


def preview(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|FOLDER|-|NAME",
            help="YAML or JSON with CronHPA objects, folders of them, or names of objects in the cluster. "
            "Default: all objects of the namespace.",
            autocompletion=object_names,
        ),
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what changes from the first to the second of two: --diff OLD NEW.")
    ] = False,
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Read the folders below a folder, too.")] = False,
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Begin: a local date or time, or one with an offset.")
    ] = "now",
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TIME|LENGTH",
            help="End: a time, or a length such as 12h or 90d. Default: 7d; of a planned event its next start.",
        ),
    ] = None,
    zone: Annotated[str | None, typer.Option(help="IANA time zone of the times shown. Default: the object's.")] = None,
    output: Annotated[PreviewOutput, typer.Option("--output", "-o", help="Output format.")] = PreviewOutput.TABLE,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg|.png", help="Draw it, too; each of several objects into a file of its own."),
    ] = None,
    ics: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="A calendar that schedules name; NAME is by default the file's."),
    ] = None,
    start_up: Annotated[
        str | None,
        typer.Option(
            "--pod-startup",
            metavar="LENGTH",
            help="Time from a pod's creation to Ready, for measured leads. Default: as measured, else 1m.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also show days that are as usual for their weekday.")] = False,
    fail_on_conflict: Annotated[
        bool, typer.Option("--fail-on-conflict", help="Exit with 3 if schedules contradict each other.")
    ] = False,
    namespace: Namespace = None,
    everywhere: AllNamespaces = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Show the coming bounds, when they change, and the source of each.

    Metrics and forecasts move replicas within them. BY names the schedules that are open or lead, each with the bound
    that it sets: (min), (max), or both if nothing is added; an empty BY means the spec. Clock changes, days without a
    window and contradictions are marked. Settings are those of `cronhpa run`. Files need no cluster. Of an object in
    the cluster its override and measured start-up count, too.

        cronhpa preview shop.yaml --to 30d
        cronhpa preview deploy/ -R --fail-on-conflict
        cronhpa preview shop -n prod --picture shop.svg
        cronhpa preview shop.yaml --ics company=holidays.ics
        cronhpa preview sale.yaml     # a PlannedEvent: what it asks of each object, and of the nodes
        git show main:shop.yaml | cronhpa preview --diff - shop.yaml

    Exit codes: 0 done; 1 a file or object cannot be read, or its spec is wrong; 2 an option is wrong; 3
    --fail-on-conflict and a conflict. With --diff, as of diff: 0 no difference; 1 a difference; 2 or more an error.
    """
    from cronhpa.cli.picture.drawing import check_picture
    from cronhpa.core.schedules.wall_clock import zone_problem

    if zone is not None and (problem := zone_problem(zone)):
        raise typer.BadParameter(problem, param_hint="--zone")
    if picture is not None:
        check_picture(picture, "preview")
    arguments = _Arguments(begin, end, zone, None if start_up is None else _length(start_up), time.time_ns())
    where = ObjectLocation(namespace, everywhere, recursive, kubeconfig, context, stated_options("preview"))
    calendars = _calendars(ics or (), Span(*_span(arguments, zone or "UTC")))
    if diff and (len(what or ()) != _TWO or picture is not None):
        raise typer.BadParameter("two are compared, without a picture: --diff OLD NEW", param_hint="--diff")
    are_files = bool(what) and all(is_file(word, where) for word in what or ())
    files = [files_in([Path(word)], recursive=recursive) for word in what or ()] if are_files else []
    with_planned = has_events([file for of_word in files for file in of_word])
    if diff:
        if with_planned:
            events_differ = _print_event_differences(files[0], files[1], where, calendars, arguments, output)
            versions = [_beside_events(version, where, code=_TWO) for version in files]
        else:
            events_differ = False
            versions = [_given([word], where, code=_TWO) for word in what or ()]
        old, new = (objects_with_days(version, calendars) for version in versions)
        differences = _differences(old, new, arguments)
        _print_differences(differences, output, every=every)
        remaining = [changed.new for changed in differences if changed.new is not None]
        _end_on_conflict(remaining, is_asked=fail_on_conflict)
        raise typer.Exit(int(events_differ or any(changed.change != "Same" for changed in differences)))
    if with_planned:
        every_file = [file for of_word in files for file in of_word]
        previews = _preview_events(every_file, where, calendars, arguments, output, every=every)
        if picture is not None:
            _draw([_subject(one, arguments) for preview in previews for one in preview.picked], picture)
        if fail_on_conflict:
            _end_on_conflict_with_events(previews, every_file, where, calendars, arguments)
        return
    # In this order: events name calendars, too.
    given = objects_with_days(_with_events(_given(what or (), where, code=1), where, arguments.now), calendars)
    subjects = [_subject(one, arguments) for one in given]
    if output is PreviewOutput.JSON:
        from cronhpa.cli.tables import bounds_table

        show(bounds_table.as_json(subjects))
    else:
        _print(subjects, every=every)
    if picture is not None:
        _draw(subjects, picture)
    _end_on_conflict(subjects, is_asked=fail_on_conflict)


def _calendars(definitions: Sequence[str], span: Span) -> dict[str, Calendar]:
    """The calendars of files by their names, for the days of a span and those beside it."""
    import asyncio

    from cronhpa.calendars.ics import BYTES_MAX, IcsError
    from cronhpa.calendars.ics_process import read_in_process
    from cronhpa.core.model.calendar import Calendar

    read = Span(span.begin - _BESIDE, span.end + _BESIDE)
    calendars = {}
    for text in definitions:
        name, is_named, file = text.partition("=")
        path = Path(file if is_named else text)
        name = name if is_named else path.stem
        try:
            with path.open("rb") as content:
                events = asyncio.run(read_in_process(content.read(BYTES_MAX + 1), read))
            calendars[name] = Calendar(name, events, begin=span.begin)
        except OSError as error:
            fail("preview", f"{path}: {error.strerror or error}")
        except IcsError as error:
            fail("preview", f"{path}: {error}")
    return calendars


def _with_events(given: Sequence[ObjectInput], where: ObjectLocation, now: Nanoseconds) -> list[ObjectInput]:
    """Objects of a cluster with the schedules of the planned events that pick them, as the operator reads them."""
    if not any(one.is_live for one in given):
        return list(given)
    from cronhpa.cli.commands.event_preview import with_live_events

    return with_live_events(given, where, now)


def _events_of(
    files: Sequence[Path],
    where: ObjectLocation,
    calendars: Calendars,
    arguments: _Arguments,
    *,
    until_end: bool,
    code: int,
) -> list[EventPreview]:
    """The previews of the events of files, from --from on, in --zone. until_end: only of starts before --to."""
    from msgspec.structs import replace

    from cronhpa.cli.commands.event_preview import before, previews_of
    from cronhpa.cli.objects.event_documents import read_events

    with _readable_inputs(code):
        documents = read_events(files, where.namespace or "")
        zones = [schedule.schedule.window.zone for document in documents for schedule in document.event.schedules]
        zone = arguments.zone or next(iter(zones), "UTC")
        begin, end = _span(arguments, zone)
        # "now" is the minute in a span; an event that has opened in this minute is shown as open.
        made = previews_of(documents, files, where, calendars, arguments.now if arguments.begin == "now" else begin)
        if until_end and arguments.end is not None:
            made = before(end, made)
    return made if arguments.zone is None else [replace(one, zone=arguments.zone) for one in made]


def _preview_events(
    files: Sequence[Path],
    where: ObjectLocation,
    calendars: Calendars,
    arguments: _Arguments,
    output: PreviewOutput,
    *,
    every: bool,
) -> list[EventPreview]:
    from cronhpa.cli.commands.event_preview import as_json, as_lines

    if every:
        say("--all: the table of a planned event has no days", err=True)
    made = _events_of(files, where, calendars, arguments, until_end=True, code=1)
    if output is PreviewOutput.JSON:
        show(as_json(made))
        return made
    for number, one in enumerate(made):
        typer.echo("\n" * bool(number) + "\n".join(as_lines(one, arguments.now)))
    return made


def _print_event_differences(
    old: Sequence[Path],
    new: Sequence[Path],
    where: ObjectLocation,
    calendars: Calendars,
    arguments: _Arguments,
    output: PreviewOutput,
) -> bool:
    """
    Prints what two versions of events ask of the same objects: those of the files, else of the cluster.

    Returns whether they differ.
    """
    from cronhpa.cli.commands.event_preview import difference_lines

    if output is PreviewOutput.JSON:
        raise typer.BadParameter("the difference of planned events is text alone", param_hint="--output")
    # Whatever --to is: a start that is moved beyond it is a difference, not an event without a start.
    read = partial(_events_of, where=where, calendars=calendars, arguments=arguments, until_end=False, code=_TWO)
    lines = difference_lines(read(old), read(new))
    for line in lines:
        typer.echo(line)
    return bool(lines)


def _end_on_conflict_with_events(
    previews: Sequence[EventPreview],
    files: Sequence[Path],
    where: ObjectLocation,
    calendars: Calendars,
    arguments: _Arguments,
) -> None:
    """Tells the contradictions in the objects beside events, which have no table here, and ends the command."""
    from cronhpa.cli.commands.event_preview import objects_with_events
    from cronhpa.cli.tables.bounds_table import conflict_texts

    given = objects_with_events(files, where, calendars, arguments.now)
    subjects = [_subject(one, arguments) for one in given]
    for subject in subjects:
        for text in conflict_texts(subject.timeline):
            complain("preview", f"{subject.label}: {text}")
    if any(row.is_torn for preview in previews for row in preview.rows):
        raise typer.Exit(_CONFLICT)
    _end_on_conflict(subjects, is_asked=True)


# --- input -------------------------------------------------------------------------------------------------------


class _Arguments(Struct, frozen=True):
    """The options: the span as it was typed, the zone, the start-up time of a pod; None for an option not given."""

    begin: str
    end: str | None
    zone: str | None
    start_up: Nanoseconds | None
    now: Nanoseconds


def _given(what: Sequence[str], where: ObjectLocation, *, code: int) -> list[ObjectInput]:
    with _readable_inputs(code):
        return find(what, where)


def _beside_events(files: Sequence[Path], where: ObjectLocation, *, code: int) -> list[ObjectInput]:
    """The objects of files with events; none where they hold events alone."""
    with _readable_inputs(code):
        return objects_in(files, where)


@contextmanager
def _readable_inputs(code: int) -> Iterator[None]:
    """Ends the command with this exit code, and a line for each problem, if an input cannot be read."""
    try:
        yield
    except (EventFileError, ObjectInputError) as error:
        for problem in error.problems:
            complain("preview", problem)
        raise typer.Exit(code) from error


def _length(text: str) -> Nanoseconds:
    from cronhpa.cli.tables.time_format import parse_length

    try:
        return parse_length(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--pod-startup") from error


def _subject(given: ObjectInput, arguments: _Arguments) -> BoundsSubject:
    from cronhpa.cli.objects.manifests import own_zone
    from cronhpa.core.model.memory import Memory

    # A status in a file was copied from a cluster at some other time, so it does not count.
    memory = given.memory if given.is_live else None
    measured = None if memory is None else memory.lead_start_up(given.spec)
    start_up = measured if arguments.start_up is None else arguments.start_up
    shown = arguments.zone or own_zone(given.body["spec"], given.spec)
    return _with_timeline(given, shown, _span(arguments, shown), start_up, memory or Memory())


def _with_timeline(
    given: ObjectInput,
    zone: str,
    span: tuple[Nanoseconds, Nanoseconds],
    start_up: Nanoseconds | None,
    memory: Memory,
) -> BoundsSubject:
    from cronhpa.cli.tables.bounds_table import BoundsSubject
    from cronhpa.core.schedules.timeline import timeline

    line = timeline(given.spec, *span, zones=[zone], start_up=start_up, leads=memory.leads, crowd=memory.crowd)
    return BoundsSubject(given.label, given.spec, zone, line, start_up, memory.crowd)


def _differences(
    old: Sequence[ObjectInput], new: Sequence[ObjectInput], arguments: _Arguments
) -> list[ObjectDifference]:
    """The difference of each object: both versions over one span, in one zone, with one start-up time of the pods."""
    from cronhpa.cli.commands.difference import ObjectDifference
    from cronhpa.cli.objects.manifests import own_zone
    from cronhpa.core.model.memory import Memory

    out = []
    for pair in _pairs(old, new):
        was, becomes = _comparable(*pair)
        either = becomes or was
        assert either is not None
        zone = arguments.zone or own_zone(either.body["spec"], either.spec)
        live = [given for given in (becomes, was) if given is not None and given.is_live]
        memories = [given.memory for given in live]
        measured = next((given.memory.lead_start_up(given.spec) for given in live), None)
        start_up = measured if arguments.start_up is None else arguments.start_up
        memory = memories[0] if memories else Memory()
        one, other = (
            None if given is None else _with_timeline(given, zone, _span(arguments, zone), start_up, memory)
            for given in (was, becomes)
        )
        out.append(ObjectDifference(one, other))
    return out


def _comparable(was: ObjectInput | None, becomes: ObjectInput | None) -> tuple[ObjectInput | None, ObjectInput | None]:
    """Both versions; the new one takes from the old one what `kubectl apply` would leave in place."""
    from msgspec.structs import replace

    if was is None or becomes is None:
        return was, becomes
    namespace = was.spec.namespace or becomes.spec.namespace
    # Applying a manifest without an override leaves the live object's override in place.
    is_kept = was.is_live and not becomes.is_live and becomes.spec.override is None
    override = was.spec.override if is_kept else becomes.spec.override
    return (
        replace(was, spec=replace(was.spec, namespace=namespace)),
        replace(becomes, spec=replace(becomes.spec, namespace=namespace, override=override)),
    )


def _pairs(
    old: Sequence[ObjectInput], new: Sequence[ObjectInput]
) -> list[tuple[ObjectInput | None, ObjectInput | None]]:
    """Pairs of the old and the new version of each object, in the order of the new ones. Objects are the same if their
    names are equal, and their namespaces if both state one."""
    left = list(old)
    pairs: list[tuple[ObjectInput | None, ObjectInput | None]] = []
    for given in new:
        alike = [other for other in left if other.name == given.name]
        same = [other for other in alike if other.spec.namespace == given.spec.namespace]
        same = same or [other for other in alike if not other.spec.namespace or not given.spec.namespace]
        if len(same) > 1 or any(other is not None and other.label == given.label for _, other in pairs):
            fail("preview", f"{given.label}: it is there twice: give each object once", code=_TWO)
        pairs.append((same[0] if same else None, given))
        left = [other for other in left if other not in same]
    return [*pairs, *((removed, None) for removed in left)]


def _span(arguments: _Arguments, zone: str) -> tuple[Nanoseconds, Nanoseconds]:
    from cronhpa.cli.tables.time_format import parse_length, parse_moment

    begin, end = arguments.begin, _SPAN_DEFAULT if arguments.end is None else arguments.end
    try:
        start = parse_moment(begin, zone, arguments.now)
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


# --- output ------------------------------------------------------------------------------------------------------


def _print(subjects: Sequence[BoundsSubject], *, every: bool) -> None:
    from cronhpa.cli.tables.bounds_table import table

    for number, subject in enumerate(subjects):
        _echo(table(subject, every=every, width=_width()), is_first=not number)


def _print_differences(differences: Sequence[ObjectDifference], output: PreviewOutput, *, every: bool) -> None:
    from cronhpa.cli.commands import difference

    if output is PreviewOutput.JSON:
        show(difference.as_json(differences))
        return
    for number, changed in enumerate(one for one in differences if one.change != "Same"):
        _echo(difference.as_lines(changed, every=every, width=_width()), is_first=not number)


def _width() -> int:
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else _WIDTH


def _echo(lines: Iterable[StyledLine], *, is_first: bool) -> None:
    """Prints lines, with their styles on a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for line in lines:
            console.print(Text(line.text, style=line.style), soft_wrap=True)
    typer.echo("\n" * (not is_first) + captured.get().rstrip("\n"))


def _draw(subjects: Sequence[BoundsSubject], path: Path) -> None:
    from cronhpa.cli.picture.timeline_picture import draw

    drawn: set[Path] = set()
    for subject in subjects:
        name = _NOT_IN_NAMES.sub("-", subject.label.replace("/", "."))[:_NAME_MAX]
        own = path if len(subjects) == 1 else path.with_stem(f"{path.stem}-{name}")
        while own in drawn:
            # The names of two objects may differ only in characters that a file's name does not keep.
            own = own.with_stem(f"{own.stem}-{len(drawn) + 1}")
        drawn.add(own)
        try:
            draw(subject, own)
        except OSError as error:
            fail("preview", f"{own}: {error.strerror or error}")
        say(f"drawn: {own}", err=True)


def _end_on_conflict(subjects: Iterable[BoundsSubject], *, is_asked: bool) -> None:
    if is_asked and not all(subject.timeline.is_consistent for subject in subjects):
        raise typer.Exit(_CONFLICT)
