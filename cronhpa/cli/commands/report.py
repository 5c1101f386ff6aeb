"""`cronhpa report`: what cronhpa would do for the autoscalers of a cluster, read-only."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cronhpa.cli.objects.cluster import AllNamespaces, Context, Kubeconfig, Namespace, connected
from cronhpa.cli.objects.yaml_documents import UnreadableFileError, as_yaml, read_documents
from cronhpa.cli.terminal.console import complain, fail, say, show
from cronhpa.cli.terminal.price_options import CorePrice, GibPrice, PodPrice
from cronhpa.cli.terminal.progress import progress
from cronhpa.core.model.instant import DAY, SECOND

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from cronhpa.forecasting.messages import DaskCluster
    from cronhpa.history.imports.prometheus import Prometheus
    from cronhpa.reporting.cluster_report import ClusterReport
    from cronhpa.reporting.objects import Autoscaler
    from cronhpa.reporting.reported_target import LeftOut, ReportedTarget
    from cronhpa.reporting.suggestions import JudgedTarget

_WIDTH_PIPED = 100
_PANEL_READ, _PANEL_SHOWN = "What is read", "What is shown"
_HOUR = 3600 * SECOND


class ReportOutput(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def report(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE|-", help="Offline: what `kubectl get ... -o yaml` printed. Default: the cluster."),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            rich_help_panel=_PANEL_READ,
            help="A Prometheus, Thanos, Mimir or VictoriaMetrics with the metrics of cAdvisor and kube-state-metrics.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=_PANEL_READ,
            help="Loads as NAMESPACE/NAME[.METRIC].csv[.gz] or .parquet; what --prometheus gave is kept there, and not "
            "asked again.",
        ),
    ] = None,
    namespace: Namespace = None,
    everywhere: AllNamespaces = False,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", metavar="app=shop", help="Only autoscalers with these labels.")
    ] = None,
    weeks: Annotated[
        float, typer.Option(min=0.43, max=4, rich_help_panel=_PANEL_READ, help="How much load to read, in weeks.")
    ] = 4,
    query: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=PROMQL",
            rich_help_panel=_PANEL_READ,
            help="The query for a metric, with $namespace, $name, $target within label matchers. Repeatable.",
        ),
    ] = None,
    matcher: Annotated[
        str,
        typer.Option(
            metavar="'cluster=\"prod\"'",
            rich_help_panel=_PANEL_READ,
            help="Label matchers for default queries, where a Prometheus has several clusters.",
        ),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_PANEL_READ, help="A file with a bearer token for the server."),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_PANEL_READ, help="Certificates to trust for the server."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", rich_help_panel=_PANEL_READ, help="X-Scope-OrgID, as Mimir needs it.")
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="IANA zone of found schedules. Default: the one whose clock the load follows."
        ),
    ] = None,
    pod_price: PodPrice = None,
    core_price: CorePrice = None,
    gib_price: GibPrice = None,
    output: Annotated[
        ReportOutput, typer.Option("--output", "-o", rich_help_panel=_PANEL_SHOWN, help="Output format.")
    ] = ReportOutput.TABLE,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_PANEL_SHOWN, help="Write one page that loads nothing else."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", rich_help_panel=_PANEL_SHOWN, help="Write a manifest for each target worth it."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Processes. Default: one for each core.")] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Replay on this dask cluster, with the operator's `CRONHPA_DASK_` certificates.",
        ),
    ] = None,
    print_rbac: Annotated[
        bool, typer.Option("--print-rbac", help="Print the ClusterRole that this command needs, and end.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Report what cronhpa would do for the autoscalers of a cluster. Nothing is installed, and nothing is written there.

    HPAs, ScaledObjects, cron scalers and CronHPAs are read with their targets, pods and ReplicaSets, and up to four
    weeks of their loads. The last week is replayed as by `cronhpa backtest`: as it is, and with what the weeks before
    suggest: a forecast, schedules, another target, behavior or bounds. What is worth doing comes first: a minute with
    too few pods counts as twenty minutes of all pods.

        cronhpa report --prometheus http://localhost:9090 -A
        cronhpa report --prometheus http://localhost:9090 -n shop --html report.html --write proposals/
        kubectl get hpa,deploy,pods -n shop -o yaml | cronhpa report - --history loads/

    Exit codes: 0 done; 1 nothing could be judged; 2 an option is wrong; 130 interrupted, what was judged is shown.
    """
    from cronhpa.cli.report.histories import Histories
    from cronhpa.cli.report.live import cluster_role, read_objects
    from cronhpa.core.model.prices import Prices
    from cronhpa.core.schedules.wall_clock import zone_problem
    from cronhpa.kube.errors import ClusterError
    from cronhpa.reporting.cluster_report import report_of
    from cronhpa.reporting.objects import autoscalers_of

    if print_rbac:
        show(as_yaml([cluster_role()]).rstrip())
        return
    if prometheus is None and history is None:
        raise typer.BadParameter("where is the load? Name a server with --prometheus, or a folder with --history")
    _refuse_choice_of_files(files, is_chosen=everywhere or bool(namespace or selector))
    if time_zone is not None and (problem := zone_problem(time_zone)):
        raise typer.BadParameter(problem, param_hint="--time-zone")
    queries = _queries(query or [])
    server = _server(prometheus, queries, matcher, token_file, tenant, ca_file)
    cluster = _cluster(dask)
    _require_numpy()
    remarks: list[str] = []
    if files:
        bodies = [body for path in files for body in _documents(path)]
    else:

        async def read() -> tuple[list[dict[str, Any]], list[str]]:
            async with connected(kubeconfig, context, namespace) as kube:
                return await read_objects(kube, None if everywhere else kube.namespace, selector)

        try:
            bodies, remarks = asyncio.run(read())
        except ClusterError as error:
            fail("report", error)
    now = time.time_ns()
    autoscalers, left_out = autoscalers_of(bodies, now)
    histories = Histories(server, history, now - round(weeks * 7 * DAY), now, matcher)
    targets, without = _gather(autoscalers, bodies, histories, server)
    zones = None if time_zone is None else (time_zone,)
    judged, unjudged, is_whole = _judge(targets, zones, jobs or os.cpu_count() or 1, cluster)
    prices = Prices(pod_price, core_price, gib_price)
    answer = report_of(judged, [*left_out, *without, *unjudged], remarks, prices)
    _show(answer, output)
    if html is not None:
        from cronhpa.cli.report.html import as_html

        _written(html, as_html(answer))
    if write is not None:
        _write_manifests(write, answer)
    if not is_whole:
        complain("report", f"interrupted: {len(judged)} of {len(targets)} targets were judged")
        raise typer.Exit(130)
    if not judged:
        complain("report", "no target could be judged" + ("" if autoscalers else ": there is no autoscaler"))
        raise typer.Exit(1)


def _refuse_choice_of_files(files: Sequence[Path] | None, *, is_chosen: bool) -> None:
    if files and is_chosen:
        raise typer.BadParameter("-n, -A and -l choose objects of a cluster: a file is read as a whole")


def _queries(texts: Sequence[str]) -> dict[str, str]:
    queries: dict[str, str] = {}
    for text in texts:
        metric, equals, promql = text.partition("=")
        if not equals or not metric.strip() or not promql.strip():
            raise typer.BadParameter(f'"{text}": write METRIC=PROMQL, such as rps=sum(rate(...))', param_hint="--query")
        queries[metric.strip()] = promql.strip()
    return queries


def _require_numpy() -> None:
    import importlib.util

    if importlib.util.find_spec("numpy") is None:
        fail("report", "numpy is not installed: pip install 'cronhpa[forecast]'")


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file, those of its lists too; one that cannot be read is told."""
    from cronhpa.reporting.shapes import shape_problem

    try:
        documents = list(read_documents(path))
    except UnreadableFileError as error:
        fail("report", error)
    for document in documents:
        for body in _objects(document):
            problem = shape_problem(body)
            if problem:
                of = f"{body.get('kind') or 'object'}/{body['metadata'].get('name')}"
                complain("report", f"{path}: {of} is left out: {problem}")
            else:
                yield body


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(document, Mapping):
        return
    items = document.get("items")
    if isinstance(items, list):
        for item in items:
            yield from _objects(item)
    elif isinstance(document.get("metadata"), Mapping):
        yield dict(document)


def _server(
    url: str | None,
    queries: Mapping[str, str],
    matcher: str,
    token_file: Path | None,
    tenant: str | None,
    ca_file: Path | None,
) -> Prometheus | None:
    from cronhpa.history.imports.prometheus import Prometheus, PrometheusError

    if url is None:
        return None
    try:
        return Prometheus(url, queries, token_file, matcher=matcher, tenant=tenant, ca_file=ca_file)
    except PrometheusError as problem:
        raise typer.BadParameter(str(problem), param_hint="--prometheus") from None


def _gather(
    autoscalers: Sequence[Autoscaler], bodies: Sequence[dict[str, Any]], histories: Any, server: Prometheus | None
) -> tuple[list[ReportedTarget], list[LeftOut]]:
    from contextlib import nullcontext

    from cronhpa.history.imports.prometheus import PrometheusError, PrometheusUnusableError
    from cronhpa.reporting.gathering import metric_of, reported_target
    from cronhpa.reporting.objects import PodRequests, requests_of, start_ups_of
    from cronhpa.reporting.reported_target import LeftOut

    requests, start_ups = requests_of(bodies), start_ups_of(bodies)
    targets: list[ReportedTarget] = []
    left_out: list[LeftOut] = []

    async def gather(done: Any) -> None:
        async with server if server is not None else nullcontext():
            if problem := await histories.several_clusters():
                fail("report", f"--prometheus: {problem}", code=2)
            unusable = ""
            for number, autoscaler in enumerate(autoscalers):
                done(number, len(autoscalers))
                of_pod = requests.get(autoscaler.target, PodRequests())
                metric = metric_of(autoscaler, of_pod)
                if isinstance(metric, LeftOut):
                    left_out.append(metric)
                    continue
                label = f"{autoscaler.namespace}/{autoscaler.label}"
                if unusable:
                    left_out.append(LeftOut(label, unusable))
                    continue
                try:
                    history = await histories.of(autoscaler, getattr(metric, "name", ""))
                except PrometheusUnusableError as problem:
                    # What was read is worth judging; the next report goes on from --history.
                    unusable = f"its load was not read: {problem}"
                    left_out.append(LeftOut(label, unusable))
                    continue
                if history.problem:
                    left_out.append(LeftOut(label, history.problem))
                    continue
                start_up = start_ups.get(autoscaler.target)
                target = reported_target(
                    autoscaler, metric, of_pod, history.load, history.replicas, start_up, history.remarks
                )
                (left_out if isinstance(target, LeftOut) else targets).append(target)  # type: ignore[arg-type]

    with progress("report", "reading loads") as done:
        try:
            asyncio.run(gather(done))
        except PrometheusError as problem:
            fail("report", problem)
    return targets, left_out


def _judge(
    targets: Sequence[ReportedTarget], zones: tuple[str, ...] | None, jobs: int, cluster: DaskCluster | None
) -> tuple[list[JudgedTarget], list[LeftOut], bool]:
    """The judged targets, the others with the reason, and whether nobody interrupted it."""
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool
    from zlib import crc32

    from cronhpa.reporting.reported_target import LeftOut

    judged: list[JudgedTarget] = []
    # By place: two autoscalers may have one target.
    why = dict.fromkeys(range(len(targets)), "the report was interrupted before it was judged")
    is_whole = True
    executor = _processes(min(jobs, max(len(targets), 1))) if cluster is None else _dask(cluster)
    try:
        with progress("report", f"replaying {len(targets)} targets") as done, executor as pool:
            # By no order of names, in which the spiky ones of one team come together: progress is even, and what an
            # interrupt leaves is a sample of all.
            shuffled = sorted(why, key=lambda place: crc32(targets[place].label.encode()))
            futures = {pool.submit(_judged, targets[place], zones): place for place in shuffled}
            for number, future in enumerate(as_completed(futures), 1):
                place = futures[future]
                try:
                    result = future.result()
                except BrokenProcessPool:
                    result = "the process of a replay was killed, perhaps for its memory: try --jobs 1"
                except Exception as problem:  # noqa: BLE001 - one target's defect is not the others'
                    result = f"its replay failed: {type(problem).__name__}: {problem}"
                if isinstance(result, str):
                    why[place] = result
                else:
                    judged.append(result)
                    del why[place]
                done(number, len(targets))
    except KeyboardInterrupt:
        is_whole = False
    return judged, [LeftOut(targets[place].label, text) for place, text in why.items()], is_whole


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    """Processes of this machine, which an interrupt ends at once."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in active_children():
            worker.terminate()
        raise
    pool.shutdown()


@contextmanager
def _dask(cluster: DaskCluster) -> Iterator[Executor]:
    """A dask cluster's workers, whose tasks end with the connection."""
    try:
        from cronhpa.forecasting.dask import connected
    except ModuleNotFoundError:
        fail("report", "dask is not installed: pip install 'cronhpa[forecast,dask]'")
    try:
        with connected(cluster) as pool:
            yield pool
    except OSError as problem:
        fail("report", f"--dask {cluster.scheduler}: {problem}")


def _cluster(address: str | None) -> DaskCluster | None:
    """By the operator's rule and its settings: without certificates nobody knows whose scheduler it is."""
    from pydantic import ValidationError

    from cronhpa.operator.settings import Settings

    if address is None:
        return None
    try:
        return Settings(dask_scheduler=address).dask
    except ValidationError as refused:
        text = "; ".join(str(error["msg"]).removeprefix("Value error, ") for error in refused.errors())
        raise typer.BadParameter(text, param_hint="--dask") from None


def _start_worker() -> None:
    """Runs first in a process of replays."""
    import gc
    import signal

    from cronhpa.forecasting.pool import use_one_thread

    # The parent ends the report; a worker that prints its own traceback helps nobody.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    use_one_thread()
    # A replay makes no cycles: collections took a seventh of its time.
    gc.set_threshold(100_000, 20, 20)


def _judged(target: ReportedTarget, zones: tuple[str, ...] | None) -> JudgedTarget | str:
    """In a process of its own: the judged target, or why it cannot be judged."""
    from cronhpa.reporting.suggestions import ZONES, judge, judged_span

    begin, end = target.recorded.instants[0], target.recorded.instants[-1]
    span = judged_span(begin, end)
    if span is None:
        hours = (end - begin) / _HOUR
        return f"{hours:.0f} h of load are too short: a day is replayed after two days of load at least"
    return judge(target, span, zones or ZONES)


def _show(answer: ClusterReport, output: ReportOutput) -> None:
    import json

    from rich.console import Console

    from cronhpa.cli.report.text import as_text
    from cronhpa.reporting.cluster_report import as_data

    if output is ReportOutput.JSON:
        show(json.dumps(as_data(answer), indent=2))
    elif output is ReportOutput.YAML:
        show(as_yaml([as_data(answer)]).rstrip())
    else:
        console = Console()
        width = console.width if console.is_terminal else _WIDTH_PIPED
        typer.echo(as_text(answer, width, is_wide=output is ReportOutput.WIDE))


def _written(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        fail("report", f"{path}: {error.strerror or error}")
    say(f"written: {path}", err=True)


def _write_manifests(folder: Path, answer: ClusterReport) -> None:
    """A manifest for each target with a suggestion, below a comment with the sentence that justifies it."""
    from cronhpa.cli.report.histories import as_file_name
    from cronhpa.cli.report.manifests import manifest_text

    written: set[Path] = set()
    for judged in answer.judged:
        if judged.best is not None:
            target = judged.target
            # With a dot, which no namespace has: team-a/shop and team/a-shop are two.
            path = folder / f"{as_file_name(f'{target.series.namespace}.{target.series.name}')}.yaml"
            if path in written:
                complain("report", f"{path} has what is worth more of that name: {target.autoscaler} is not written")
                continue
            written.add(path)
            _written(path, manifest_text(judged, answer.prices))
