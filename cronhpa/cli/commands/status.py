"""`cronhpa status`: all objects in one table, the most urgent first."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from msgspec import Struct

from cronhpa.api.columns import StatusWord
from cronhpa.api.explained.object_rows import ObjectRow, rows_of
from cronhpa.cli.objects.cluster import AllNamespaces, Context, Kubeconfig, Namespace, connected, read_all
from cronhpa.cli.objects.named import ObjectName, label_of, parse_name, read_named
from cronhpa.cli.objects.object_names import object_names
from cronhpa.cli.terminal.console import aligned, complain, fail, paint, say
from cronhpa.core.model.instant import parse_instant
from cronhpa.core.model.local_time import format_length
from cronhpa.core.model.printable import printable

Json = dict[str, Any]

NEEDS_A_PERSON = 3
_REFRESH_SECONDS = 5
_CLEAR = "\x1b[2J\x1b[H"
# The least width of names, and the part of the last column that is shown.
_NAME_MIN, _TARGETS_ROOM = 24, 14
_HEADERS = ("NAME", "STATUS", "REPLICAS", "BOUNDS", "NEXT", "TARGETS")


_WIDE_HEADERS = (*_HEADERS, "TARGET", "DECIDED-BY", "MODE", "FORECAST", "AGE")
# Columns that a narrow terminal leaves out, the first one first.
_LEFT_OUT = ("TARGETS", "BOUNDS", "REPLICAS", "NEXT")
# From so many objects with the same note on, the note is printed once.
_SHARED = 3


class StatusOutput(StrEnum):
    """How the objects are printed."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


def status(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="CronHPA objects: NAME, NAMESPACE/NAME, chpa/NAME or deploy/NAME. Default: all of the namespace.",
            show_default=False,
            autocompletion=object_names,
        ),
    ] = None,
    namespace: Namespace = None,
    everywhere: AllNamespaces = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help=f"Show them again every {_REFRESH_SECONDS} seconds.")
    ] = False,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", metavar="LABELS", help="Only objects with these labels: app=shop.")
    ] = None,
    output: Annotated[
        StatusOutput, typer.Option("--output", "-o", help="name: NAMESPACE/NAME; yaml: the objects themselves.")
    ] = StatusOutput.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Show all objects in one table, those that need a person first, each with its problems.

    REPLICAS is 12 -> 20 for an object that scales, and 12 (20) for one that only would: a preview, or beside another
    owner.

    STATUS is the most urgent of: SpecUnreadable, NoTarget, NoMetrics (it needs a person after 2 minutes), OtherOwner,
    Undecided (no operator has seen it), Holding, Maxed (at its maximum; after 15 minutes), Learning, Preview, Deciding.
    `cronhpa explain NAME --verbose` shows everything about one object.

        cronhpa status -A
        cronhpa status -n prod --watch
        cronhpa status -A -l team=shop -o name | xargs -n1 cronhpa explain

    Exit codes: 0 none needs a person; 1 the API server refused or could not be reached; 2 an option is wrong; 3 at
    least one needs a person.
    """
    from cronhpa.kube.errors import ClusterError

    parsed = _parsed(names or (), namespace, selector, everywhere=everywhere)

    async def run() -> list[ObjectRow]:
        async with connected(kubeconfig, context, namespace) as cluster:
            where = None if everywhere else cluster.namespace
            is_everywhere = everywhere or any(name.namespace not in {None, cluster.namespace} for name in parsed)
            while True:
                try:
                    if parsed:
                        bodies = [await read_named(cluster, name) for name in parsed]
                    else:
                        bodies = await read_all(cluster.client, where, selector)
                    rows = rows_of(bodies, time.time_ns())
                    none = _none(where, selector)
                    _show(rows, bodies, output, is_watch=watch, is_everywhere=is_everywhere, none=none)
                except ClusterError as error:
                    if not watch:
                        raise
                    complain("status", error)  # and again in a moment: a watch outlives an API server
                if not watch:
                    return rows
                await asyncio.sleep(_REFRESH_SECONDS)

    try:
        rows = asyncio.run(run())
    except ClusterError as error:
        fail("status", error)
    except KeyboardInterrupt:
        return
    if any(row.needs_person for row in rows):
        raise typer.Exit(NEEDS_A_PERSON)


def _parsed(names: Sequence[str], namespace: str | None, selector: str | None, *, everywhere: bool) -> list[ObjectName]:
    """The names of the options. Raises BadParameter."""
    parsed = [parse_name(name, namespace) for name in names]
    if parsed and selector is not None:
        raise typer.BadParameter("names or labels, not both", param_hint="--selector")
    if everywhere and any(name.namespace is None and name.other_namespace is None for name in parsed):
        text = "name objects as NAMESPACE/NAME, or leave out the names"
        raise typer.BadParameter(text, param_hint="--all-namespaces")
    return parsed


def _none(namespace: str | None, selector: str | None) -> str:
    """The line that is shown for no objects."""
    of = "" if selector is None else f" with labels {selector}"
    return f"no CronHPA{of} in {'any namespace' if namespace is None else f'namespace {namespace}'}"


# --- the table ---------------------------------------------------------------------------------------------------


class TableLine(Struct, frozen=True):
    """A printable line and its colour; None: the terminal's own."""

    text: str
    colour: str | None = None


def _show(
    rows: Sequence[ObjectRow],
    bodies: Sequence[Json],
    output: StatusOutput,
    *,
    is_watch: bool,
    is_everywhere: bool,
    none: str,
) -> None:
    by_label = {label_of(body): body for body in bodies}
    ordered = [by_label[f"{row.namespace}/{row.name}"] for row in rows]
    if output is StatusOutput.JSON:
        typer.echo(json.dumps([_as_json(row) for row in rows], indent=None if is_watch else 2))
        return
    if output is StatusOutput.NAME:
        for body in ordered:
            say(label_of(body))
        return
    if output is StatusOutput.YAML:
        from cronhpa.cli.objects.yaml_documents import as_yaml

        typer.echo(as_yaml([_without_managers(body) for body in ordered]), nl=False)
        return
    size = shutil.get_terminal_size()
    is_terminal = sys.stdout.isatty()
    wide = ordered if output is StatusOutput.WIDE else None
    lines = table(rows, size.columns, is_cut=is_terminal and wide is None, is_everywhere=is_everywhere, wide=wide)
    if not rows:
        lines = [TableLine(none)]
    if is_watch and is_terminal:
        typer.echo(_CLEAR, nl=False)
        more = len(lines) - (size.lines - 1)
        lines = [*lines[: size.lines - 2], TableLine(f"... {more + 1} more lines")] if more > 0 else lines
    elif is_watch:
        lines = [TableLine(time.strftime("%H:%M:%S")), *lines, TableLine("")]
    for line in lines:
        paint(printable(line.text), line.colour)


def table(
    rows: Sequence[ObjectRow],
    width: int,
    *,
    is_cut: bool,
    is_everywhere: bool,
    wide: Sequence[Json] | None = None,
) -> list[TableLine]:
    """
    The table, with the notes of an object below it, and a line that counts those that need a person.

    width: notes are wrapped to it; if is_cut, columns that do not fit are left out and names are shortened.
    is_everywhere: show namespaces with the names. wide: the objects of the rows, for further columns. A note of several
    objects stands once, below the table.
    """
    headers = _HEADERS if wide is None else _WIDE_HEADERS
    further = [()] * len(rows) if wide is None else [_further(body) for body in wide]
    cells: list[tuple[str, ...]] = [
        headers,
        *((*_cells(row, is_everywhere=is_everywhere), *more) for row, more in zip(rows, further, strict=True)),
    ]
    if is_cut:
        cells = _fitting(cells, width)
    texts = aligned(cells)
    if is_cut:
        texts = [text if len(text) <= width else f"{text[: width - 3]}..." for text in texts]
    sharing = Counter(note for row in rows for note in row.notes)
    shared = {note for note, count in sharing.items() if count >= _SHARED}
    lines = [TableLine(texts[0])]
    for row, text in zip(rows, texts[1:], strict=True):
        lines.append(TableLine(text, _colour(row)))
        for note in row.notes:
            if note not in shared:
                lines += _wrapped(note, width)
    for note in sorted(shared):
        labels = [_label(row, is_everywhere=is_everywhere) for row in rows if note in row.notes]
        lines += _wrapped(f"{len(labels)} objects: {note}", width, indent="")
        lines += _wrapped(", ".join(labels), width)
    asking = sum(row.needs_person for row in rows)
    needing = f"{asking or 'none'} {'need' if asking > 1 else 'needs'} a person"
    return [*lines, TableLine(f"{len(rows)} {'object' if len(rows) == 1 else 'objects'}, {needing}")]


def _wrapped(text: str, width: int, indent: str = "  ") -> list[TableLine]:
    parts = textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=indent,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [TableLine(part) for part in parts]


def _colour(row: ObjectRow) -> str | None:
    if row.needs_person:
        return typer.colors.RED
    return None if row.word == StatusWord.DECIDING else typer.colors.YELLOW


def _fitting(cells: Sequence[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """The cells without columns that do not fit, and with names that do: one long name would push off the others."""
    headers = cells[0]
    shown = [*range(len(headers))]
    names = min(_NAME_MIN, max(len(row[0]) for row in cells))

    def rest() -> int:
        widths = [max(len(row[index]) for row in cells) for index in shown[1:]]
        if "TARGETS" in {headers[index] for index in shown}:
            widths[-1] = min(widths[-1], _TARGETS_ROOM)
        return sum(widths) + 2 * len(widths)

    for header in _LEFT_OUT:
        if names + rest() <= width:
            break
        shown.remove(headers.index(header))
    room = max(width - rest(), _NAME_MIN)
    return [(_shortened(row[0], room), *(row[index] for index in shown[1:])) for row in cells]


def _shortened(text: str, room: int) -> str:
    """A name cut in the middle to `room` characters: its begin and its end tell it from others."""
    half = (room - 3) // 2
    return text if len(text) <= room else f"{text[: room - 3 - half]}...{text[-half:]}"


def _cells(row: ObjectRow, *, is_everywhere: bool) -> tuple[str, ...]:
    if row.current is None or row.desired is None or row.current == row.desired:
        replicas = "" if row.current is None else str(row.current)
    else:
        replicas = f"{row.current} -> {row.desired}" if row.scales else f"{row.current} ({row.desired})"
    bounds = "" if row.minimum is None else f"{row.minimum}..{row.maximum}"
    name = _label(row, is_everywhere=is_everywhere)
    return tuple(printable(cell) for cell in (name, row.word, replicas, bounds, row.next, row.targets))


def _label(row: ObjectRow, *, is_everywhere: bool) -> str:
    return f"{row.namespace}/{row.name}" if is_everywhere else row.name


def _further(body: Json) -> tuple[str, ...]:
    """The columns that -o wide adds, as `kubectl get chpa -o wide` has them."""
    state, meta = body.get("status") or {}, body["metadata"]
    conditions = {condition["type"]: condition for condition in state.get("conditions") or ()}
    created = meta.get("creationTimestamp")
    age = "" if created is None else format_length(max(time.time_ns() - parse_instant(created), 0))
    cells = (
        state.get("target", ""),
        (state.get("decision") or {}).get("decidedBy", ""),
        (body.get("spec") or {}).get("mode", ""),
        conditions.get("ForecastActive", {}).get("reason", ""),
        age,
    )
    return tuple(printable(str(cell)) for cell in cells)


def _without_managers(body: Json) -> Json:
    """The object without managedFields, as kubectl prints it."""
    return {**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "managedFields"}}


def _as_json(row: ObjectRow) -> Json:
    return {
        "namespace": row.namespace,
        "name": row.name,
        "status": row.word,
        "needsPerson": row.needs_person,
        "currentReplicas": row.current,
        "desiredReplicas": row.desired,
        "minReplicas": row.minimum,
        "maxReplicas": row.maximum,
        "next": row.next or None,
        "targets": row.targets or None,
        "notes": list(row.notes),
    }
