"""`cronhpa status`: all objects in one table, the most urgent first."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cronhpa.cli.objects.cluster import AllNamespaces, Context, Kubeconfig, Namespace, connected, read_all
from cronhpa.cli.tables.lines import aligned, fail, say
from cronhpa.core.model.printable import printable
from cronhpa.explained.object_rows import ObjectRow, rows_of

if TYPE_CHECKING:
    from cronhpa.kube.client import Client

Json = dict[str, Any]

NEEDS_A_PERSON = 3
_REFRESH_SECONDS = 5
_CLEAR = "\x1b[2J\x1b[H"
# The least width of names, and the part of the last column that is shown.
_NAME_MIN, _TARGETS_ROOM = 24, 14
_HEADERS = ("NAME", "STATUS", "REPLICAS", "BOUNDS", "NEXT", "TARGETS")


class StatusOutput(StrEnum):
    """How the objects are printed."""

    TABLE = "table"
    JSON = "json"


def status(
    namespace: Namespace = None,
    everywhere: AllNamespaces = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help=f"Show them again every {_REFRESH_SECONDS} seconds.")
    ] = False,
    output: Annotated[StatusOutput, typer.Option("--output", "-o", help="table or json.")] = StatusOutput.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Show all objects in one table, those that need a person first, each with its problems.

    REPLICAS is 12 -> 20 for an object that scales, and 12 (20) for one that only would: a preview, or beside another
    owner.

    STATUS is the most urgent of: SpecUnreadable, NoTarget, NoMetrics, OtherOwner, Undecided (no operator has seen it),
    Holding, Learning, Preview, Deciding. `cronhpa explain NAME` shows everything about one object.

        cronhpa status -A
        cronhpa status -n prod --watch

    Exit codes: 0 none needs a person; 1 the API server refused or could not be reached; 2 an option is wrong; 3 at
    least one needs a person.
    """
    from cronhpa.kube.errors import ClusterError

    async def run() -> list[ObjectRow]:
        async with connected(kubeconfig, context, namespace) as cluster:
            where = None if everywhere else cluster.namespace
            while True:
                try:
                    rows = await _read(cluster.client, where)
                    _show(rows, where, output, is_watch=watch)
                except ClusterError as error:
                    if not watch:
                        raise
                    say(f"cronhpa status: {error}", err=True)  # and again in a moment: a watch outlives an API server
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


async def _read(client: Client, namespace: str | None) -> list[ObjectRow]:
    return rows_of(await read_all(client, namespace), time.time_ns())


# --- the table ---------------------------------------------------------------------------------------------------


def _show(rows: Sequence[ObjectRow], namespace: str | None, output: StatusOutput, *, is_watch: bool) -> None:
    if output is StatusOutput.JSON:
        typer.echo(json.dumps([_as_json(row) for row in rows], indent=None if is_watch else 2))
        return
    size = shutil.get_terminal_size()
    is_terminal = sys.stdout.isatty()
    lines = table(rows, size.columns, is_cut=is_terminal, is_everywhere=namespace is None)
    if not rows:
        lines = [f"no CronHPA in {'any namespace' if namespace is None else f'namespace {namespace}'}"]
    if is_watch and is_terminal:
        typer.echo(_CLEAR, nl=False)
        more = len(lines) - (size.lines - 1)
        lines = [*lines[: size.lines - 2], f"... {more + 1} more lines"] if more > 0 else lines
    elif is_watch:
        lines = [time.strftime("%H:%M:%S"), *lines, ""]
    for line in lines:
        typer.echo(printable(line))


def table(rows: Sequence[ObjectRow], width: int, *, is_cut: bool, is_everywhere: bool) -> list[str]:
    """
    The table, with the notes of an object below it, and a line that counts those that need a person.

    width: notes are wrapped to it; rows are cut to it if is_cut, as the last column may be long. is_everywhere: show
    namespaces with the names.
    """
    cells = [_HEADERS, *(_cells(row, is_everywhere=is_everywhere) for row in rows)]
    if is_cut:
        # Else one long name would push the columns of all objects off the screen.
        between = sum(max(map(len, column)) + 2 for column in list(zip(*cells, strict=True))[1:-1])
        room = max(width - between - 2 - _TARGETS_ROOM, _NAME_MIN)
        cells = [(_shortened(cell[0], room), *cell[1:]) for cell in cells]
    texts = aligned(cells)
    if is_cut:
        texts = [text if len(text) <= width else f"{text[: width - 3]}..." for text in texts]
    lines = texts[:1]
    for row, text in zip(rows, texts[1:], strict=True):
        lines.append(text)
        for note in row.notes:
            lines += textwrap.wrap(note, max(width, 40), initial_indent="  ", subsequent_indent="  ")
    asking = sum(row.needs_person for row in rows)
    needing = f"{asking or 'none'} {'need' if asking > 1 else 'needs'} a person"
    return [*lines, f"{len(rows)} {'object' if len(rows) == 1 else 'objects'}, {needing}"]


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
    name = f"{row.namespace}/{row.name}" if is_everywhere else row.name
    return tuple(printable(cell) for cell in (name, row.word, replicas, bounds, row.next, row.targets))


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
