"""The recorded load of an object, from a file, the operator, its store or a Prometheus."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from cronhpa.cli.past.past_of_replicas import PastSourceError
from cronhpa.cli.past.past_source import PastLocation, opened
from cronhpa.core.model.instant import DAY, Nanoseconds
from cronhpa.core.model.spec import TargetRef
from cronhpa.history.database.address import StoreAddress, file_of, store_address
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import Series, is_load
from cronhpa.history.imports.files import ENOUGH, TEXT_MAX, HistoryError, read_points
from cronhpa.history.imports.prometheus import Prometheus, PrometheusError, prometheus_url
from cronhpa.history.load.recorded import recorded_load
from cronhpa.history.past.past_answers import LoadAnswer
from cronhpa.history.store import Store
from cronhpa.simulation.load import Load

_SQLITE = b"SQLite format 3\0"
_PART_BYTES = 2**20


class PastError(Exception):
    """There is no past; the text says where, what was found, what to do."""


class Past(Struct, frozen=True):
    points: list[tuple[Nanoseconds, float]]
    """The recorded loads, in order, at least two."""
    load: Load
    """The line through them."""


class PrometheusRequest(Struct, frozen=True):
    """A query for a Prometheus."""

    target: TargetRef
    """The owner of the pods."""
    promql: str | None
    """None for the default query of the series."""
    days: float
    queries: Mapping[str, str] = {}
    """PromQL by metric, as the operator's setting has it."""
    token_file: Path | None = None
    """The file of a bearer token."""
    container: str | None = None
    """The container whose usage the metric is; None: that of whole pods."""


def read_past(source: str, series: Series, query: PrometheusRequest) -> Past:
    """
    The load of a series.

    source: a CSV or Parquet file, the operator's SQLite file or PostgreSQL, the address of a Prometheus, or `-` for CSV
    on standard input. Raises PastError.
    """
    middles: list[Nanoseconds] | None = None
    shown = source
    try:
        if source.startswith(("http://", "https://")):
            shown = str(prometheus_url(source).with_user(None))
            points = asyncio.run(_asked(source, shown, series, query))
        elif source == "-":
            points = _piped()
        elif (file := file_of(address := _address(source))) is None or _is_store(file):
            shown = str(address)
            points, middles = _stored(address, series)
        else:
            points = read_points(Path(source))
    except ImportError as problem:
        raise PastError(f"{shown}: {problem}: install cronhpa[parquet] to read it") from problem
    except (HistoryError, StoreError, PrometheusError) as problem:
        raise PastError(str(problem)) from problem
    except OSError as problem:
        raise PastError(f"{shown}: {problem.strerror or problem}") from problem
    return _line(points, middles, shown, series)


def operator_past(where: PastLocation, series: Series) -> Past:
    """The load of a series as the replicas of the operator recorded it. Raises PastError."""
    from cronhpa.kube.errors import ClusterError

    async def ask() -> LoadAnswer | None:
        async with opened(where) as source:
            return await source.load(series)

    try:
        answer = asyncio.run(ask())
    except (PastSourceError, ClusterError) as problem:
        raise PastError(str(problem)) from problem
    if answer is None:
        raise PastError(
            f"the operator recorded no load of {series}, or none for you: check the object's name, your right to get "
            "the object, and whether its metric has had a value; or name a file or a Prometheus with --history"
        )
    points = [(maximum.end, maximum.value) for maximum in answer.maxima]
    return _line(points, [maximum.middle for maximum in answer.maxima], "the operator", series)


def _line(
    points: list[tuple[Nanoseconds, float]], middles: list[Nanoseconds] | None, shown: str, series: Series
) -> Past:
    from cronhpa.forecasting.backtest import POINTS_MIN, load_of_points

    if len(points) < POINTS_MIN:
        found = "one value" if points else "no value"
        raise PastError(f"{shown}: {found} of {series}: at least two are needed")
    try:
        return Past(points, load_of_points(points, middles))
    except ValueError as problem:
        raise PastError(f"{shown}: {problem}") from problem


def _address(source: str) -> StoreAddress:
    try:
        return store_address(source, os.environ.get("CRONHPA_STORE_PASSWORD_FILE"))
    except ValueError as problem:
        raise PastError(f"--history: {problem}") from None


def _piped() -> list[tuple[Nanoseconds, float]]:
    """The points on standard input, in the format of `cronhpa history export`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as file:
            for part in iter(lambda: sys.stdin.buffer.read(_PART_BYTES), b""):
                if file.tell() + len(part) > TEXT_MAX:
                    raise PastError(f"standard input: more than {TEXT_MAX // 2**20:,} MiB: {ENOUGH}")
                file.write(part)
        try:
            return read_points(path)
        except HistoryError as problem:
            raise PastError(str(problem).replace(str(path), "standard input")) from problem


def _is_store(path: Path) -> bool:
    with path.open("rb") as opened:
        return opened.read(len(_SQLITE)) == _SQLITE


def _stored(path: StoreAddress, series: Series) -> tuple[list[tuple[Nanoseconds, float]], list[Nanoseconds]]:
    """The maxima of minutes, and of five minutes where no minutes are kept; and the middle of each interval."""
    store = Store.open_to_read(path)
    try:
        points, middles = recorded_load(store.loads, series)
    finally:
        store.close()
    if not points:
        raise PastError(f"{path}: nothing is known of {series}: `cronhpa history list` shows what there is")
    return points, middles


async def _asked(url: str, shown: str, series: Series, query: PrometheusRequest) -> list[tuple[Nanoseconds, float]]:
    """shown: the URL without its password."""
    now = time.time_ns()
    points: list[tuple[Nanoseconds, float]] = []
    async with Prometheus(url, query.queries, query.token_file) as source:
        promql = query.promql or source.query_for(series, query.target, query.container)
        async for part in source.load(promql, now - round(query.days * DAY), now):
            points += [(at, value) for at, value in part if is_load(at, value)]
    if not points:
        raise PastError(f"{shown} knows nothing of {series} over the last {query.days:g} days: asked was {promql}")
    return points
