"""`cronhpa backtest`: what an object would have done under a recorded load."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cronhpa.cli.objects.cluster import Context, Kubeconfig, Namespace, NotAllNamespaces
from cronhpa.cli.objects.object_inputs import ObjectInput, ObjectInputError, ObjectLocation, find
from cronhpa.cli.objects.object_names import object_names
from cronhpa.cli.objects.stated_options import stated_options
from cronhpa.cli.past.past_source import OPERATOR, Operator, PastLocation, ServiceAccount
from cronhpa.cli.terminal.console import complain, fail, say, show
from cronhpa.cli.terminal.price_options import CorePrice, GibPrice, PodPrice
from cronhpa.cli.terminal.progress import progress
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.spec import Metric, PodsMetric, ResourceMetric, Span, Spec

if TYPE_CHECKING:
    from cronhpa.cli.past.past import Past, PrometheusRequest
    from cronhpa.cli.tables.backtest_table import Backtest
    from cronhpa.core.model.memory import Memory
    from cronhpa.history.database.series import Series
    from cronhpa.simulation.load import Load
    from cronhpa.simulation.target import Environment

_SPAN: Nanoseconds = 7 * DAY
_LEARNT_FROM: Nanoseconds = 2 * DAY
_DAYS_ASKED = 28
_WIDTH_PIPED = 80
# The operator's own environment variables: in its pod they name the history.
_STORE, _PROMETHEUS = "CRONHPA_STORE", "CRONHPA_PROMETHEUS_URL"
_QUERIES, _TOKEN_FILE = "CRONHPA_PROMETHEUS_QUERIES", "CRONHPA_PROMETHEUS_TOKEN_FILE"


class BacktestOutput(StrEnum):
    TABLE = "table"
    JSON = "json"


def backtest(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-|NAME",
            help="YAML or JSON with a CronHPA object, or the name of one in the cluster.",
            autocompletion=object_names,
        ),
    ],
    history: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL|-",
            envvar=[_STORE, _PROMETHEUS],
            help="The load: CSV (.gz) or Parquet of `timestamp,value`, the total of all pods; the operator's SQLite "
            "file; a Prometheus, for 28 days; - for CSV on standard input. Default in a cluster: what the operator "
            "recorded.",
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="PROMQL", help="Query for the Prometheus. It returns one series, the total.")
    ] = None,
    operator: Operator = OPERATOR,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with a bearer token for the Prometheus or the operator.")
    ] = None,
    service_account: ServiceAccount = None,
    name: Annotated[str | None, typer.Option(help="Name of the object, if the file has several.")] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Begin. Default: seven days before the end."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME|LENGTH", help="End: a time or a length. Default: the last value."),
    ] = None,
    pod_request: Annotated[
        str | None,
        typer.Option(
            metavar="cpu=500m",
            help="Request of a pod, for a Utilization target. Default: that of the object's pods.",
        ),
    ] = None,
    pod_capacity: Annotated[
        str | None,
        typer.Option(metavar="LOAD", help="Load that one pod can carry. Default: from the object."),
    ] = None,
    start_up: Annotated[
        str | None,
        typer.Option(
            "--pod-startup",
            metavar="LENGTH",
            help="Time from a pod's creation to Ready. Default: as measured, else 60s.",
        ),
    ] = None,
    metric_delay: Annotated[str, typer.Option(metavar="LENGTH", help="Age of a metric when it is read.")] = "30s",
    metric_window: Annotated[str, typer.Option(metavar="LENGTH", help="Time that a metric is averaged over.")] = "60s",
    pod_price: PodPrice = None,
    core_price: CorePrice = None,
    gib_price: GibPrice = None,
    zone: Annotated[str | None, typer.Option(help="IANA time zone of the times. Default: the object's.")] = None,
    output: Annotated[BacktestOutput, typer.Option("--output", "-o", help="Output format.")] = BacktestOutput.TABLE,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.svg|.png", help="Draw the result to this file.")] = None,
    namespace: Namespace = None,
    _everywhere: NotAllNamespaces = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Show what an object would have done under a recorded load: metrics alone, with schedules, with the forecast.

    The operator's own code decides, in virtual time. Settings are those of `cronhpa run`. A forecast is fitted daily on
    the load before it. Time counts as under-provisioned if the load exceeds the capacity of ready pods:
    --pod-capacity, else podCapacityPercent of the target, else the request for a Utilization target and the target for
    others. Of an object in the cluster, request, start-up and recorded load are read.

        cronhpa backtest shop -n prod
        cronhpa backtest shop -n prod --history http://localhost:9090
        cronhpa backtest shop.yaml --history load.csv.gz --pod-request cpu=500m
        kubectl exec -n cronhpa-system cronhpa-0 -- \\
          cronhpa history export prod/shop | cronhpa backtest shop.yaml --history -

    Exit codes: 0 done; 1 a file or object is unreadable, its spec is wrong, or its load is too short; 2 an option is
    wrong.
    """
    from cronhpa.cli.objects.manifests import own_zone
    from cronhpa.cli.picture.drawing import check_picture
    from cronhpa.cli.tables.backtest_table import Backtest
    from cronhpa.core.model.prices import Prices, priced_requests
    from cronhpa.core.schedules.wall_clock import zone_problem
    from cronhpa.forecasting.backtest import with_one
    from cronhpa.forecasting.pool import use_one_thread
    from cronhpa.history.database.series import Series

    use_one_thread()
    if zone is not None and (problem := zone_problem(zone)):
        raise typer.BadParameter(problem, param_hint="--zone")
    if picture is not None:
        check_picture(picture, "backtest")
    if what == history == "-":
        raise typer.BadParameter("the object is read from standard input already", param_hint="--history")
    given = _object(
        what,
        name,
        ObjectLocation(namespace, kubeconfig=kubeconfig, context=context, options=stated_options("backtest")),
    )
    spec, memory = given.spec, given.memory
    lengths = {"--metric-delay": metric_delay, "--metric-window": metric_window}
    if start_up is not None:
        lengths["--pod-startup"] = start_up
    parsed = {option: _length(text, option) for option, text in lengths.items()}
    requests = _requests(pod_request, memory)
    if given.is_live:
        requests = _of_pods(spec, requests, kubeconfig, context)
    metric, left_out = _metric_of(spec, requests)
    environment = _environment(spec, metric, requests, pod_capacity, memory, parsed)
    series = Series(spec.namespace or "default", given.name, getattr(metric, "name", ""))
    if history is None and given.is_live:
        where_recorded = PastLocation(None, operator, token_file, service_account, kubeconfig, context, "--history")
        past = _recorded(where_recorded, series)
    else:
        past = _past(history, series, _query(history, spec, series.metric, query, token_file))
    shown = zone or own_zone(given.body["spec"], spec)
    span = _span(past.load, spec, begin, end, shown)

    spec, unused = _without_unknown(spec, given.body.get("status"))
    left_out += unused
    prices, priced = Prices(pod_price, core_price, gib_price), priced_requests(spec, environment.requests)
    for remark in (*left_out, *filter(None, [prices.unknown(priced)])):
        complain("backtest", f"{given.label}: {remark}")
    spec = with_one(spec, metric)
    plan = Backtest(given.label, spec, past.load, environment, span, shown, price=prices.of_pod(priced))
    finished = _run(plan, series, past.points)
    _print(finished, output)
    if picture is not None:
        from cronhpa.cli.picture.backtest_picture import draw

        try:
            draw(finished, picture)
        except OSError as error:
            _end(f"{picture}: {error.strerror or error}")
        say(f"drawn: {picture}", err=True)


def _without_unknown(spec: Spec, status: object) -> tuple[Spec, list[str]]:
    """The spec without what is not known here, and what is left out of it."""
    from cronhpa.api.explained.explanation import hidden_sources
    from cronhpa.core.schedules.calendar_days import without_calendars

    hidden = hidden_sources(spec, status)
    left_out = [f"{hidden}: left out, as the operator alone knows them"] if hidden else []
    if spec.override is not None:
        left_out.append("override: it is left out, as it was for an incident")
    return without_calendars(spec), left_out


def _print(backtest: Backtest, output: BacktestOutput) -> None:
    from rich.console import Console

    from cronhpa.cli.tables import backtest_table

    console = Console()
    width = console.width if console.is_terminal else _WIDTH_PIPED
    if output is BacktestOutput.JSON:
        show(backtest_table.as_json(backtest))
    else:
        typer.echo(backtest_table.as_table(backtest, width))


# --- input -------------------------------------------------------------------------------------------------------


def _object(what: str, name: str | None, where: ObjectLocation) -> ObjectInput:
    try:
        given = find([what], where)
    except ObjectInputError as error:
        for problem in error.problems:
            complain("backtest", problem)
        raise typer.Exit(1) from error
    named = [one for one in given if name is None or one.name == name]
    if len(named) != 1:
        names = ", ".join(one.name for one in given)
        of = "" if name is None else f" named {name}"
        _end(f"{what}: {len(named)} objects{of}: say which with --name: {names}")
    return named[0]


def _query(
    history: str | None, spec: Spec, metric: str, promql: str | None, token_file: Path | None
) -> PrometheusRequest:
    """The query for a Prometheus. The operator's queries and token are for the operator's Prometheus alone."""
    from cronhpa.cli.past.past import PrometheusRequest

    queries: dict[str, str] = {}
    if history is not None and history == os.environ.get(_PROMETHEUS):
        import msgspec

        try:
            queries = msgspec.json.decode(os.environ.get(_QUERIES) or "{}", type=dict[str, str])
        except msgspec.DecodeError as error:
            _end(f"{_QUERIES}: {error}: PromQL by metric, as JSON, is accepted")
        own = os.environ.get(_TOKEN_FILE)
        token_file = token_file or (Path(own) if own else None)
    return PrometheusRequest(spec.target, promql, _DAYS_ASKED, queries, token_file, spec.container_of(metric))


def _requests(pod_request: str | None, memory: Memory) -> dict[str, int]:
    """Milli-units by resource: those in the memory of the status, overridden by those of the option."""
    from cronhpa.core.model.quantity import parse_milli

    requests = dict(memory.request_per_pod)
    for part in pod_request.split(",") if pod_request else ():
        resource, equals, quantity = part.partition("=")
        try:
            amount = parse_milli(quantity.strip()) if equals else 0
        except ValueError:
            amount = 0
        if amount <= 0:
            raise typer.BadParameter(f'"{part}": write for example cpu=500m or memory=1Gi', param_hint="--pod-request")
        requests[resource.strip()] = amount
    return requests


def _of_pods(spec: Spec, requests: dict[str, int], kubeconfig: str | None, context: str | None) -> dict[str, int]:
    from cronhpa.cli.objects.live_pods import completed_requests
    from cronhpa.kube.errors import ClusterError

    try:
        return completed_requests(spec, requests, kubeconfig, context)
    except ClusterError as problem:
        complain("backtest", f"what its pods request cannot be read: {problem}")
        return requests


def _metric_of(spec: Spec, requests: Mapping[str, int]) -> tuple[Metric | None, list[str]]:
    """The metric whose load the history is, and remarks on the other metrics, which are left out."""
    from cronhpa.forecasting.backtest import NotRunnableError, RequestUnknownError, loaded_metric, name_of

    try:
        chosen = loaded_metric(spec, requests)
    except RequestUnknownError as problem:
        _end(f"{problem}: --pod-request {problem.metric}={'1Gi' if problem.metric == 'memory' else '500m'}")
    except NotRunnableError as problem:
        _end(problem)
    of = "" if chosen is None else name_of(chosen)
    left_out = [metric for metric in spec.metrics if metric is not chosen]
    return chosen, [f"metrics: {name_of(metric) or '?'} is left out: the history is of {of}" for metric in left_out]


def _environment(
    spec: Spec,
    metric: Metric | None,
    requests: Mapping[str, int],
    stated: str | None,
    memory: Memory,
    lengths: Mapping[str, Nanoseconds],
) -> Environment:
    from cronhpa.core.model.memory import START_UP_UNKNOWN
    from cronhpa.core.model.quantity import parse_milli
    from cronhpa.forecasting.backtest import stated_capacity
    from cronhpa.simulation.target import FRESH, Environment

    if isinstance(metric, ResourceMetric | PodsMetric) and lengths["--metric-window"] < FRESH:
        text = f"a pod has a sample of {FRESH // SECOND} s at least"
        raise typer.BadParameter(text, param_hint="--metric-window")
    capacity: float | None = None
    if stated is not None:
        try:
            capacity = parse_milli(stated) / 1000
        except ValueError:
            capacity = 0.0
        if capacity <= 0:
            example = "write a load above zero such as 0.5, 500m or 2Gi"
            raise typer.BadParameter(f'"{stated}": {example}', param_hint="--pod-capacity")
    elif metric is not None:
        capacity = stated_capacity(spec, metric, requests)
    if capacity is None:
        _end("the object has no metric to tell what one pod can carry: say it with --pod-capacity")
    learnt = START_UP_UNKNOWN if memory.start_up is None else memory.start_up
    return Environment(
        capacity=capacity,
        requests=requests,
        start_up=lengths.get("--pod-startup", learnt),
        metric_delay=lengths["--metric-delay"],
        metric_window=lengths["--metric-window"],
    )


def _past(source: str | None, series: Series, query: PrometheusRequest) -> Past:
    from cronhpa.cli.past.past import PastError, read_past

    if source is None:
        export = f"kubectl exec -n cronhpa-system cronhpa-0 -- cronhpa history export {series.namespace}/{series.name}"
        _end(
            "where is the load? Name a file, a copy of the operator's store or a Prometheus with --history, "
            f"or pipe what the operator recorded: {export} --metric {series.metric} | ... --history -"
        )
    try:
        return read_past(source, series, query)
    except PastError as error:
        _end(error)


def _recorded(where: PastLocation, series: Series) -> Past:
    from cronhpa.cli.past.past import PastError, operator_past

    try:
        return operator_past(where, series)
    except PastError as error:
        _end(error)


def _span(load: Load, spec: Spec, begin: str | None, end: str | None, zone: str) -> Span:
    from cronhpa.cli.tables.time_format import format_moment, parse_length, parse_moment

    def moment(text: str, option: str) -> Nanoseconds:
        try:
            # A time of day is the first one of the history, and its end is now.
            return parse_moment(text, zone, load.end if text == "now" else load.begin)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=option) from error

    # Whole minutes: the output names reconciliations by the minute.
    earliest = -(-load.begin // MINUTE) * MINUTE + (_LEARNT_FROM if spec.forecast is not None else 0)
    first = None if begin is None else moment(begin, "--from")
    last = load.end - load.end % MINUTE
    if end is not None:
        try:
            last = (earliest if first is None else first) + parse_length(end)
        except ValueError:
            last = moment(end, "--to")
    if first is None:
        first = max(earliest, last - _SPAN)
    if not load.begin <= first < last <= load.end:
        history = f"{format_moment(load.begin, zone)} to {format_moment(load.end, zone)}"
        learning = f"a forecast learns from the first {_LEARNT_FROM // HOUR} h"
        if begin is end is None and spec.forecast is not None:
            _end(f"the history of {history} is too short: {learning}, and what comes behind them is run")
        span_text = f"{format_moment(first, zone)} to {format_moment(last, zone)}"
        why = f", and {learning}" if spec.forecast is not None else ""
        _end(f"{span_text} cannot be run: the history is of {history}{why}")
    return Span(first, last)


def _length(text: str, option: str) -> Nanoseconds:
    from cronhpa.cli.tables.time_format import parse_length

    try:
        return parse_length(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


# --- runs --------------------------------------------------------------------------------------------------------


def _run(plan: Backtest, series: Series, points: list[tuple[Nanoseconds, float]]) -> Backtest:
    from dataclasses import replace

    from cronhpa.forecasting.backtest import Rerun
    from cronhpa.forecasting.walk_forward import NotInstalledError
    from cronhpa.simulation.compare import Variant, variants
    from cronhpa.simulation.run import Run

    span = plan.span
    again = Rerun(series, plan.load, points, plan.environment, span)
    runs: dict[Variant, Run] = {}
    for variant, spec in variants(plan.spec).items():
        with progress("backtest", f"running {variant}") as done:

            def passed(now: Nanoseconds, done: Callable[[int, int], None] = done) -> None:
                done(now - span.begin, span.end - span.begin)

            try:
                runs[variant] = again.run(spec, passed)
            except NotInstalledError as problem:
                _end(problem)
    return replace(plan, runs=runs, forecasts=again.summary)


def _end(problem: object) -> NoReturn:
    """One line on stderr, exit code 1."""
    fail("backtest", problem)
