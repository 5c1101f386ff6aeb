"""`cronhpa status`: all objects in one table, those that need a person first."""

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
from msgspec import Struct

from cronhpa.api.columns import StatusWord
from cronhpa.cli.cluster import AllNamespaces, Context, Kubeconfig, Namespace, connected, read_all
from cronhpa.cli.explanation import explanation
from cronhpa.cli.lines import fail, say
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.local_time import local_times
from cronhpa.core.printable import printable

if TYPE_CHECKING:
    from cronhpa.kube.client import Client

Json = dict[str, Any]

NEEDS_A_PERSON = 3
_REFRESH_SECONDS = 5
_CLEAR = "\x1b[2J\x1b[H"
_UNDECIDED = "Undecided"
# The most urgent first.
_ORDER = (
    StatusWord.SPEC_UNREADABLE,
    StatusWord.NO_TARGET,
    StatusWord.NO_METRICS,
    StatusWord.OTHER_OWNER,
    _UNDECIDED,
    StatusWord.HOLDING,
    StatusWord.LEARNING,
    StatusWord.PREVIEW,
    StatusWord.DECIDING,
)
_HEADERS = ("NAME", "STATUS", "REPLICAS", "BOUNDS", "NEXT", "TARGETS")


class StatusOutput(StrEnum):
    """How the objects are printed."""

    TABLE = "table"
    JSON = "json"


class ObjectRow(Struct, frozen=True):
    """
    One object as the table shows it. urgency: 0 for what needs a person most.

    scales: whether it acts, so that `desired` is what is on its way and not what would be. notes: what is the matter,
    and what to do about it.
    """

    namespace: str
    name: str
    word: str
    urgency: int
    needs_person: bool
    scales: bool
    current: int | None
    desired: int | None
    minimum: int | None
    maximum: int | None
    next: str
    targets: str
    notes: tuple[str, ...]


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
    Show all objects in one table, those that need a person first, each with what is the matter.

    REPLICAS is 12 -> 20 where it scales, and 12 (20) where it would, in a preview or beside another owner.

    STATUS is the most urgent of: SpecUnreadable, NoTarget, NoMetrics, OtherOwner, Undecided (no operator has seen it),
    Holding, Learning, Preview, Deciding. `cronhpa explain NAME` tells all of one object.

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
                    found = await _read(cluster.client, where)
                    _show(found, where, output, is_watch=watch)
                except ClusterError as error:
                    if not watch:
                        raise
                    say(f"cronhpa status: {error}", err=True)  # and again in a moment: a watch outlives an API server
                if not watch:
                    return found
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


def rows_of(bodies: Sequence[Json], now: Nanoseconds) -> list[ObjectRow]:
    """A row for each object of the API, the most urgent first."""
    return sorted((_row(body, now) for body in bodies), key=lambda row: (row.urgency, row.namespace, row.name))


# --- one object --------------------------------------------------------------------------------------------------


def _row(body: Json, now: Nanoseconds) -> ObjectRow:
    meta, state = body["metadata"], body.get("status") or {}
    conditions = {item["type"]: item for item in state.get("conditions") or ()}
    texts = state.get("columns") or {}
    ready = conditions.get("Ready")
    it = explanation(body)
    word = _UNDECIDED if ready is None else texts.get("status") or ready.get("reason", "")
    notes: list[str] = []
    urgency = _urgency(word)
    needs_person = ready is None or ready.get("status") != "True"
    if ready is None:
        notes.append("nothing was decided yet: is the operator running, and does it watch this namespace?")
    elif it.by_hand:
        notes.append(it.by_hand)
    elif it.is_stale:
        needs_person, urgency = True, min(urgency, _urgency(_UNDECIDED))
        notes.append("its last edit has not been decided upon yet: is the operator running?")
    for problem in it.problems:
        needs_person, urgency = True, min(urgency, _urgency(StatusWord.HOLDING))
        notes.append("; ".join(part for part in (problem.what or problem.message, problem.do) if part))
    for step in (state.get("decision") or {}).get("steps") or ():
        if step["rule"] == "TooManyReplicas":
            urgency = min(urgency, _urgency(StatusWord.LEARNING))
            notes.append(f"{step['from']} replicas are asked for, and {step['to']} are allowed")
    return ObjectRow(
        namespace=meta["namespace"],
        name=meta["name"],
        word=word,
        urgency=urgency,
        needs_person=needs_person,
        scales=it.scales,
        current=it.current,
        desired=it.desired,
        minimum=state.get("effectiveMinReplicas"),
        maximum=state.get("effectiveMaxReplicas"),
        next=texts.get("next", ""),
        targets=texts.get("targets", ""),
        notes=tuple(local_times(note, it.zone, now) for note in notes if note),
    )


def _urgency(word: str) -> int:
    """The place of a word among the others; a word that is not known comes with what was not decided."""
    return _ORDER.index(word if word in _ORDER else _UNDECIDED)


# --- all of them -------------------------------------------------------------------------------------------------


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

    width: notes are folded to it, and rows cut to it if is_cut, as the last column may be long. is_everywhere: show
    namespaces with the names.
    """
    cells = [_HEADERS, *(_cells(row, is_everywhere=is_everywhere) for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(_HEADERS))]
    texts = ["  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip() for line in cells]
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
