"""`cronhpa history`: load history in and out of the operator's store."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from cronhpa.cli.objects.cluster import Context, Kubeconfig, Namespace
from cronhpa.cli.objects.named import split_name
from cronhpa.cli.objects.object_inputs import ObjectInputError, ObjectLocation, find_named
from cronhpa.cli.objects.object_names import object_names
from cronhpa.cli.terminal.command_classes import CommandGroup, PlainCommand
from cronhpa.cli.terminal.console import aligned, fail, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cronhpa.core.model.spec import TargetRef
    from cronhpa.history.database.address import StoreAddress
    from cronhpa.history.database.database import Fault
    from cronhpa.history.database.series import RecordedBatch, Series
    from cronhpa.history.imports.files import Backfill, Imported
    from cronhpa.history.load.load_history import LoadHistory
    from cronhpa.history.store import Store

app = typer.Typer(
    cls=CommandGroup,
    name="history",
    help="Load history, which forecasts are fitted to. The operator records it; an import adds the past at once.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


def _address(text: str) -> StoreAddress:
    """Raises typer.BadParameter, which repeats nothing of the text: it may hold a password."""
    from cronhpa.history.database.address import store_address

    try:
        return store_address(text, os.environ.get("CRONHPA_STORE_PASSWORD_FILE"))
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None


_STORES = "a SQLite file or postgresql://USER@HOST/DATABASE"
StoreOption = Annotated[
    Any,
    typer.Option(
        "--store",
        envvar="CRONHPA_STORE",
        help=f"The operator's store: {_STORES}. CRONHPA_STORE_PASSWORD_FILE names a file with its password.",
        parser=_address,
        metavar="FILE|URL",
        show_default=False,
    ),
]
Target = Annotated[
    str,
    typer.Argument(metavar="[NAMESPACE/]NAME", help="The CronHPA.", show_default=False, autocompletion=object_names),
]
Metric = Annotated[str, typer.Option(help="The metric's name as in the object's spec.")]


@app.command(cls=PlainCommand, name="import")
def import_(  # noqa: PLR0913, PLR0917 - the options of a command
    target: Target,
    store: StoreOption,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE.csv[.gz]|FILE.parquet", help="The file to read.", show_default=False),
    ] = None,
    metric: Metric = "cpu",
    shift_seconds: Annotated[
        int, typer.Option(help="Added to every timestamp: an old record can stand for the days before now.")
    ] = 0,
    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", help="Read from this Prometheus instead of a file.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="PROMQL", help="Query for it. It returns one series, the total over all pods.")
    ] = None,
    days: Annotated[float, typer.Option(min=0.01, max=28, help="How many days to ask it for.")] = 28,
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A file with a bearer token for it.")] = None,
    before_object: Annotated[
        bool,
        typer.Option("--before-object", help="Do not ask the cluster: the object will be created later, or elsewhere."),
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Add the load of past days to an object's history, from `timestamp,value` in a file or from a Prometheus.

    The value is the total over all pods in the metric's own unit (cores, bytes, requests per second), the timestamp
    RFC 3339 with an offset; an empty value is a gap. Five-minute maxima of the newest 28 days are kept; of two values
    the larger one. The command checks in the cluster that there is such an object with such a metric. Values of more
    than a day ahead are refused.

        cronhpa history import shop -n prod load.csv.gz --store history.db
        cronhpa history import prod/shop --store history.db --prometheus http://localhost:9090

    Exit codes: 0 done; 1 there is no such object, or a file, the store or the Prometheus cannot be used; 2 an option is
    wrong.
    """
    from cronhpa.core.model.instant import format_instant

    if (file is None) == (prometheus is None):
        raise typer.BadParameter("one of FILE and --prometheus URL is needed")
    of: tuple[TargetRef | None, str | None] = (None, None)
    if before_object:
        series = _series(target, metric, namespace)
    else:
        series, of = _checked(target, metric, ObjectLocation(namespace, kubeconfig=kubeconfig, context=context))
    if file is not None:
        imported = _read_file(store, series, file, shift_seconds)
    else:
        assert prometheus is not None
        imported = _ask(store, series, of, prometheus, query, days, token_file)
    say(
        f"{series}: {imported.rows} values and {imported.gaps} gaps read, {imported.steps} five-minute maxima kept, "
        f"{format_instant(imported.first)} to {format_instant(imported.last)}"
    )


def _checked(target: str, metric: str, where: ObjectLocation) -> tuple[Series, tuple[TargetRef, str | None]]:
    """The series of an object in the cluster that has this metric, its target, and the container whose usage it is."""
    from cronhpa.history.database.series import Series

    escape = "--before-object imports all the same"
    try:
        (given,) = find_named(target, where)
    except ObjectInputError as error:
        fail("history import", f"{'; '.join(error.problems)}; {escape}")
    names = [name for spec_metric in given.spec.metrics if (name := getattr(spec_metric, "name", ""))]
    if metric not in names:
        has = f"it has {', '.join(names)}" if names else "it has no metrics"
        fail("history import", f"{given.label} has no metric {metric}: {has}: name one with --metric; {escape}")
    return Series(given.spec.namespace, given.name, metric), (given.spec.target, given.spec.container_of(metric))


def _backfill(store: StoreAddress) -> Backfill:
    """Opens the store when there is something to write: none is made for a file or a server that cannot be used."""

    def backfill(series: Series, maxima: Sequence[tuple[int, float]], *, width: int) -> RecordedBatch | Fault:
        with _opened(store) as opened:
            return opened.loads.backfill(series, maxima, width=width)

    return backfill


def _read_file(store: StoreAddress, series: Series, file: Path, shift_seconds: int) -> Imported:
    import time

    from cronhpa.cli.terminal.progress import progress
    from cronhpa.core.model.instant import SECOND
    from cronhpa.history.imports.files import HistoryError, import_file

    with progress("history import", f"reading {file.name}") as report:
        try:
            return import_file(
                _backfill(store),
                series,
                file,
                now=time.time_ns(),
                shift=shift_seconds * SECOND,
                progress=report,
            )
        except ImportError as problem:
            _end(f"{file}: {problem}: install cronhpa[parquet] to read it")
        except (HistoryError, OSError) as problem:
            _end(problem)


def _ask(
    store: StoreAddress,
    series: Series,
    of: tuple[TargetRef | None, str | None],
    url: str,
    query: str | None,
    days: float,
    token_file: Path | None,
) -> Imported:
    """Imports the last days from a Prometheus. of: the target, and the container whose usage the metric is."""
    import asyncio
    import time

    from cronhpa.cli.terminal.progress import progress
    from cronhpa.core.model.spec import TargetRef
    from cronhpa.history.database.database import StoreError
    from cronhpa.history.imports.backfill import import_range, span_of
    from cronhpa.history.imports.prometheus import Prometheus, PrometheusError, prometheus_url

    async def ask() -> Imported | None:
        async with Prometheus(url, {}, token_file) as source:
            # With --before-object the target is unknown, and assumed to have the object's name.
            owner, container = of
            owner = owner or TargetRef("apps/v1", "Deployment", series.name)
            promql = query or source.query_for(series, owner, container)
            imported = await import_range(_backfill(store), source, series, promql, span_of(days, time.time_ns()))
            if imported is None:
                _end(f"{shown} knows nothing of {series} over the last {days:g} days: asked was {promql}")
            return imported

    try:
        shown = prometheus_url(url).with_user(None)
    except PrometheusError as problem:
        _end(problem)
    with progress("history import", f"asking {shown}"):
        try:
            imported = asyncio.run(ask())
        except (PrometheusError, StoreError) as problem:
            _end(problem)
    assert imported is not None
    return imported


@app.command(cls=PlainCommand, name="export")
def export(
    target: Target,
    store: StoreOption,
    file: Annotated[
        Path, typer.Argument(metavar="FILE.csv[.gz]|FILE.parquet", help="Where to write; - is the terminal.")
    ] = Path("-"),
    metric: Metric = "cpu",
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace, where NAME has none.")
    ] = None,
) -> None:
    """
    Write an object's five-minute maxima as `timestamp,value`, empty where nothing was measured.

        cronhpa history export prod/shop shop.csv.gz --store history.db
        kubectl exec -n cronhpa-system cronhpa-0 -- cronhpa history export prod/shop

    Exit codes: 0 done; 1 nothing is known of the object, or a file cannot be used; 2 an option is wrong.
    """
    from cronhpa.history.database.database import StoreError
    from cronhpa.history.imports.files import export_csv, is_parquet

    series = _series(target, metric, namespace)
    with _opened_to_read(store) as opened:
        text = io.StringIO()
        try:
            lines = (
                _export_parquet(opened.loads, series, file)
                if is_parquet(file)
                else export_csv(opened.loads, series, text)
            )
            if not lines:
                _end(f"{store}: nothing is known of {series}: `cronhpa history list` shows what there is")
            if str(file) == "-":
                sys.stdout.write(text.getvalue())
                return
            if not is_parquet(file):
                content = text.getvalue().encode()
                file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
        except ImportError as problem:
            _end(f"{file}: {problem}: install cronhpa[parquet] to write it")
        except (StoreError, OSError) as problem:
            _end(problem)
    say(f"{series}: {lines} five-minute maxima written to {file}")


def _export_parquet(loads: LoadHistory, series: Series, file: Path) -> int:
    from cronhpa.history.imports import parquet

    return parquet.export(loads, series, file)


@app.command(cls=PlainCommand, name="list")
def list_(store: StoreOption) -> None:
    """
    List the objects whose load is in the store, with the begin and the end of it.

        cronhpa history list --store history.db

    Exit codes: 0 done; 1 the store cannot be read; 2 an option is wrong.
    """
    from cronhpa.core.model.instant import to_datetime
    from cronhpa.core.model.printable import printable
    from cronhpa.history.database.database import StoreError
    from cronhpa.history.database.series import STEP

    with _opened_to_read(store) as opened:
        try:
            coverage = opened.loads.coverage()
        except StoreError as problem:
            _end(problem)
    rows = [("OBJECT", "METRIC", "FROM (UTC)", "TO (UTC)", "STEPS", "KNOWN")]
    for of_series in coverage:
        known_percent = f"{100 * of_series.steps * STEP // (of_series.last - of_series.first)} %"
        name = f"{of_series.series.namespace}/{of_series.series.name}"
        first, last = (to_datetime(at).strftime("%Y-%m-%d %H:%M") for at in (of_series.first, of_series.last))
        rows.append(
            (printable(name), printable(of_series.series.metric), first, last, str(of_series.steps), known_percent)
        )
    for line in aligned(rows):
        say(line)


@app.command(cls=PlainCommand)
def events(store: StoreOption) -> None:
    """
    Print what came of planned events in two years.

        cronhpa history events --store history.db

    Exit codes: 0 done; 1 the store cannot be read; 2 an option is wrong.
    """
    from cronhpa.core.model.instant import to_datetime
    from cronhpa.core.model.printable import printable
    from cronhpa.history.database.database import StoreError

    with _opened_to_read(store) as opened:
        try:
            reports = opened.reports.newest()
        except StoreError as problem:
            _end(problem)
    rows = [("EVENT", "OPENED (UTC)", "OBJECTS", "PEAK", "AT-MAX", "SHORT", "UNNEEDED", "REASON")]
    numbers = ("objects", "peakPods", "minutesAtMax", "minutesShort", "unneededPodMinutes")
    for one in reports:
        objects, peak, at_max, short, unneeded = (str(one.body.get(number, "")) for number in numbers)
        name = f"{one.namespace}/{one.name}" if one.namespace else one.name
        opened_at = to_datetime(one.opened).strftime("%Y-%m-%d %H:%M")
        reason = printable(str(one.body.get("reason", "")))
        rows.append((printable(name), opened_at, objects, peak, at_max, short, unneeded, reason))
    for line in aligned(rows):
        say(line)


@app.command(cls=PlainCommand, name="copy")
def copy(
    source: Annotated[
        Any,
        typer.Argument(metavar="FROM", help=f"The store to copy: {_STORES}.", parser=_address, show_default=False),
    ],
    target: Annotated[
        Any,
        typer.Argument(
            metavar="TO|-",
            help="The store to copy to, which is made; - prints a file as it is now, while the operator writes to it.",
            parser=_address,
            show_default=False,
        ),
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Copy even if TO has newer loads: FROM's rows overwrite those of TO.")
    ] = False,
) -> None:
    """
    Copy a store: loads, fits, forecasts and spend.

    It moves the files of replicas, one by one, into a PostgreSQL that they share, or back. Stop the operator first:
    what both stores have is overwritten from FROM, which is not changed; what one of them has stays. Run an interrupted
    copy again. At the end the rows of each table are counted in both.

        cronhpa history copy history.db postgresql://cronhpa@db.prod/cronhpa
        kubectl exec -n cronhpa-system cronhpa-0 -- cronhpa history copy /var/lib/cronhpa/history.db - > copy.db

    Exit codes: 0 done; 1 a store cannot be used, or TO has newer loads; 2 an option is wrong.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from cronhpa.core.model.instant import format_instant
    from cronhpa.history.database.copy import copy_store, newest_step
    from cronhpa.history.database.database import StoreError

    if target == Path("-"):
        _print_file(source)
        return
    if _is_same(source, target):
        raise typer.BadParameter(f"{source} is FROM as well: another store is needed", param_hint="TO")
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with (
        _opened_to_read(source) as read,
        _opened(target) as written,
        Progress(*columns, console=Console(stderr=True), transient=True) as bar,
    ):
        task = bar.add_task("rows", total=None)
        try:
            newest, present = newest_step(read), newest_step(written)
            if present is not None and (newest is None or present > newest) and not overwrite:
                until = "nothing" if newest is None else f"loads until {format_instant(newest)}"
                _end(
                    f"{target} has loads until {format_instant(present)}, {source} has {until}: name an older or an"
                    " empty store, or --overwrite to take FROM's of what both have"
                )
            copied = copy_store(read, written, lambda done, total: bar.update(task, completed=done, total=total))
        except StoreError as problem:
            _end(f"{problem}; run it again to finish: what was copied is overwritten with the same")
    say("\n".join(f"{part.table:<9}{part.source:>11,} rows, {part.target:>11,} in {target}" for part in copied))
    if missing := [part.table for part in copied if part.target < part.source]:
        _end(f"{target} has fewer rows of {', '.join(missing)} than {source}, which changed meanwhile: run it again")


def _is_same(source: StoreAddress, target: StoreAddress) -> bool:
    if isinstance(source, Path) and isinstance(target, Path):
        return source.exists() and target.exists() and source.samefile(target)
    return source == target


def _print_file(address: StoreAddress) -> None:
    """Prints a SQLite file as of one instant."""
    from cronhpa.history.database.copy import copy_file
    from cronhpa.history.database.database import StoreError

    if not isinstance(address, Path) or not address.exists():
        _end(f"{address}: there is no such file: - prints a SQLite file")
    with tempfile.TemporaryDirectory() as folder:
        try:
            copied = copy_file(address, Path(folder) / "copy.db")
        except StoreError as problem:
            _end(problem)
        with copied.open("rb") as file:
            shutil.copyfileobj(file, typer.get_binary_stream("stdout"))


@contextmanager
def _opened(address: StoreAddress) -> Iterator[Store]:
    """
    A store to write during a command. It is not migrated: an operator may be using it.

    Ends the command if the store cannot be opened.
    """
    from cronhpa.history.store import Store

    with _closing(address, Store.open_unmigrated) as store:
        yield store


@contextmanager
def _opened_to_read(address: StoreAddress) -> Iterator[Store]:
    """
    A store to read, left as it is: an operator of an earlier release may be using the file.

    Ends the command if the store cannot be opened.
    """
    from cronhpa.history.store import Store

    if isinstance(address, Path) and not address.exists():
        _end(f"{address}: there is no such file: name the operator's store with --store")
    with _closing(address, Store.open_to_read) as store:
        yield store


@contextmanager
def _closing(address: StoreAddress, open_store: Callable[[StoreAddress], Store]) -> Iterator[Store]:
    from cronhpa.history.database.database import StoreError

    try:
        store = open_store(address)
    except StoreError as problem:
        _end(problem)
    try:
        yield store
    finally:
        store.close()


def _series(target: str, metric: str, namespace: str | None) -> Series:
    """The series as it is named, without a look into a cluster. Raises BadParameter."""
    from cronhpa.history.database.series import Series

    of, name = split_name(target, namespace)
    if of is None:
        raise typer.BadParameter(f"{target!r}: NAMESPACE/NAME is accepted, such as shop/checkout, or NAME with -n")
    return Series(of, name, metric)


def _end(problem: object) -> NoReturn:
    """One line on stderr, exit code 1."""
    fail("history", problem)
