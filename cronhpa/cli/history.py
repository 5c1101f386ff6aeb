"""`cronhpa history`: load history as CSV in and out of the operator's store."""

from __future__ import annotations

import gzip
import io
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cronhpa.learning.store import Series, Store

app = typer.Typer(
    name="history",
    help="Load history: what forecasts are learnt from. The operator fills it; a CSV file fills it at once.",
    no_args_is_help=True,
)

StorePath = Annotated[
    Path,
    typer.Option("--store", envvar="CRONHPA_STORE", help="The operator's SQLite file.", show_default=False),
]
Target = Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The CronHPA object.", show_default=False)]
Metric = Annotated[str, typer.Option(help="The metric's name as in the object's spec.")]


@app.command("import")
def import_(
    target: Target,
    file: Annotated[Path, typer.Argument(metavar="FILE.csv[.gz]", help="The file to read.", show_default=False)],
    store: StorePath,
    metric: Metric = "cpu",
    shift_seconds: Annotated[
        int, typer.Option(help="Added to every timestamp: an old record can stand for the days before now.")
    ] = 0,
) -> None:
    """
    Add the load of past days to an object's history, from `timestamp,value`.

    The value is the total over all pods in the metric's own unit (cores, bytes, requests per second), the timestamp
    RFC 3339 with an offset; an empty value is a gap. Five-minute maxima of the newest 28 days are kept. The larger
    value wins where something is known already, so importing a file twice changes nothing.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from cronhpa.core.instant import SECOND, format_instant
    from cronhpa.learning.history import CsvError, import_csv

    series = _series(target, metric)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with _opened(store) as opened, Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(file.name, total=None)
        try:
            found = import_csv(
                opened,
                series,
                file,
                shift=shift_seconds * SECOND,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        except (CsvError, OSError) as problem:
            _end(problem)
    typer.echo(
        f"{series}: {found.rows} values and {found.gaps} gaps read, {found.steps} five-minute maxima kept, "
        f"{format_instant(found.first)} to {format_instant(found.last)}"
    )


@app.command("export")
def export(
    target: Target,
    store: StorePath,
    file: Annotated[Path, typer.Argument(metavar="[FILE.csv[.gz]]", help="Where to write; - is the terminal.")] = Path(
        "-"
    ),
    metric: Metric = "cpu",
) -> None:
    """Write an object's five-minute maxima as `timestamp,value`, empty where nothing was measured."""
    from cronhpa.learning.history import export_csv
    from cronhpa.learning.store import StoreError

    series = _series(target, metric)
    with _opened(store, must_exist=True) as opened:
        text = io.StringIO()
        try:
            lines = export_csv(opened, series, text)
            if not lines:
                _end(f"{store}: nothing is known of {series}: `cronhpa history list` shows what there is")
            if str(file) == "-":
                sys.stdout.write(text.getvalue())
                return
            content = text.getvalue().encode()
            file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
        except (StoreError, OSError) as problem:
            _end(problem)
    typer.echo(f"{series}: {lines} five-minute maxima written to {file}")


@app.command("list")
def list_(store: StorePath) -> None:
    """Show what is known of which object."""
    from rich.console import Console
    from rich.table import Table

    from cronhpa.core.instant import to_datetime
    from cronhpa.learning.store import STEP, StoreError

    with _opened(store, must_exist=True) as opened:
        try:
            extents = opened.extents()
        except StoreError as problem:
            _end(problem)
    table = Table("object", "metric", "from (UTC)", "to (UTC)", "steps", "known")
    for each in extents:
        known = f"{100 * each.steps * STEP // (each.last - each.first)} %"
        name = f"{each.series.namespace}/{each.series.name}"
        first, last = (to_datetime(at).strftime("%Y-%m-%d %H:%M") for at in (each.first, each.last))
        table.add_row(name, each.series.metric, first, last, str(each.steps), known)
    Console().print(table)


@contextmanager
def _opened(path: Path, *, must_exist: bool = False) -> Iterator[Store]:
    """The store for the length of a command; ends the command where it cannot be opened."""
    from cronhpa.learning.store import Store, StoreError

    if must_exist and not path.exists():
        _end(f"{path}: there is no such file: name the operator's store with --store")
    try:
        store = Store(path)
    except StoreError as problem:
        _end(problem)
    try:
        yield store
    finally:
        store.close()


def _series(target: str, metric: str) -> Series:
    from cronhpa.learning.store import Series

    namespace, slash, name = target.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise typer.BadParameter(f"{target!r}: NAMESPACE/NAME is accepted, such as shop/checkout")
    return Series(namespace, name, metric)


def _end(problem: object) -> NoReturn:
    """One line on stderr, exit code 1."""
    typer.echo(f"cronhpa history: {problem}", err=True)
    raise typer.Exit(1)
