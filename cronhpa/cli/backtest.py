"""`cronhpa backtest`: what an object would have done under a recorded load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from cronhpa.cli.lines import say, show
from cronhpa.core.instant import DAY, HOUR, MINUTE, Nanoseconds
from cronhpa.core.spec import Metric, Span, Spec

if TYPE_CHECKING:
    from cronhpa.cli.outcome import Backtest
    from cronhpa.cli.past import Past, Query
    from cronhpa.core.decision import Decision
    from cronhpa.core.memory import Memory
    from cronhpa.core.observation import Observation
    from cronhpa.history.series import Series
    from cronhpa.simulation.load import Load
    from cronhpa.simulation.target import Environment

_SPAN: Nanoseconds = 7 * DAY
_LEARNT_FROM: Nanoseconds = 2 * DAY
_DAYS_ASKED = 28
_WIDTH_PIPED = 120


class BacktestOutput(StrEnum):
    TABLE = "table"
    JSON = "json"


def backtest(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="YAML or JSON with a CronHPA object.")],
    history: Annotated[
        str,
        typer.Option(
            metavar="FILE|URL",
            help="The load: a CSV (.gz) or Parquet file of `timestamp,value`, the total over all pods; the operator's "
            "SQLite file; or a Prometheus, asked for 28 days.",
        ),
    ],
    query: Annotated[
        str | None, typer.Option(metavar="PROMQL", help="Query for the Prometheus. It returns one series, the total.")
    ] = None,
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
        typer.Option(metavar="cpu=500m", help="Resource request of a pod; a Utilization target needs it."),
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
    zone: Annotated[str | None, typer.Option(help="IANA time zone of the times. Default: the object's.")] = None,
    output: Annotated[BacktestOutput, typer.Option("--output", "-o", help="Output format.")] = BacktestOutput.TABLE,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.svg|.png", help="Draw the result to this file.")] = None,
) -> None:
    """
    Show what an object would have done under a recorded load: metrics alone, with schedules, with the forecast.

    The operator's own code decides every reconciliation, in virtual time; pods take time to start. A forecast is fitted
    once a day on the load before it. Time counts as under-provisioned if the load is above the capacity of the ready
    pods. A pod's capacity is --pod-capacity, else podCapacityPercent of its target, else its request for a Utilization
    target and its target for others. No cluster is needed.

    Exit codes: 0 done; 1 a file is unreadable, its spec is wrong, or its load is too short; 2 an option is wrong.
    """
    from cronhpa.cli.documents import own_zone
    from cronhpa.cli.drawing import check_picture
    from cronhpa.cli.outcome import Backtest
    from cronhpa.cli.past import Query
    from cronhpa.core.scheduled.windows import zone_problem
    from cronhpa.history.series import Series

    if zone is not None and (problem := zone_problem(zone)):
        raise typer.BadParameter(problem, param_hint="--zone")
    if picture is not None:
        check_picture(picture, "backtest")
    body = _object(file, name)
    spec, memory = _spec_of(body)
    lengths = {"--metric-delay": metric_delay, "--metric-window": metric_window}
    if start_up is not None:
        lengths["--pod-startup"] = start_up
    parsed = {option: _length(text, option) for option, text in lengths.items()}
    requests = _requests(pod_request, memory)
    metric, left_out = _metric_of(spec, requests)
    environment = _environment(spec, metric, requests, pod_capacity, memory, parsed)
    label = "/".join(part for part in (spec.namespace, str(body["metadata"]["name"])) if part)
    series = Series(spec.namespace or "default", str(body["metadata"]["name"]), getattr(metric, "name", ""))
    past = _past(history, series, Query(spec.target, query, _DAYS_ASKED))
    shown = zone or own_zone(body["spec"], spec)
    span = _span(past.load, spec, begin, end, shown)

    if spec.override is not None:
        left_out.append("override: it is left out, as it was for an incident")
    for remark in left_out:
        say(f"cronhpa backtest: {label}: {remark}", err=True)
    if metric is not None:
        spec = _with_one(spec, metric)
    plan = Backtest(label, spec, past.load, environment, span, shown)
    found = _run(plan, series, past.points)
    _print(found, output)
    if picture is not None:
        from cronhpa.cli.outcome_picture import draw

        try:
            draw(found, picture)
        except OSError as error:
            _end(f"{picture}: {error.strerror or error}")
        say(f"drawn: {picture}", err=True)


def _print(found: Backtest, output: BacktestOutput) -> None:
    from rich.console import Console

    from cronhpa.cli import outcome

    console = Console()
    width = console.width if console.is_terminal else _WIDTH_PIPED
    if output is BacktestOutput.JSON:
        show(outcome.as_json(found))
    else:
        typer.echo(outcome.as_table(found, width))


# --- what is read ------------------------------------------------------------------------------------------------


def _object(file: Path, name: str | None) -> Mapping[str, Any]:
    from cronhpa.cli.documents import UnreadableFileError, read_objects

    try:
        bodies = read_objects(file)
    except UnreadableFileError as error:
        _end(error)
    named = [body for body in bodies if name is None or body["metadata"]["name"] == name]
    if len(named) != 1:
        names = ", ".join(body["metadata"]["name"] for body in bodies)
        _end(f"{file}: {len(named)} objects {'named ' + name if name else ''}: say which with --name: {names}")
    return named[0]


def _spec_of(body: Mapping[str, Any]) -> tuple[Spec, Memory]:
    """The spec, and what the status remembers where the file was taken from a cluster."""
    from cronhpa.api.parse import SpecError
    from cronhpa.api.status_memory import parse_memory
    from cronhpa.cli.documents import written_spec

    try:
        spec = written_spec(body)
    except SpecError as error:
        for problem in error.problems:
            say(f"cronhpa backtest: {body['metadata']['name']}: {problem}", err=True)
        raise typer.Exit(1) from error
    status = body.get("status")
    return spec, parse_memory(status if isinstance(status, Mapping) else {})


def _requests(pod_request: str | None, memory: Memory) -> dict[str, int]:
    """Milli-units by resource: what the status remembers, and what is stated."""
    from cronhpa.core.quantity import parse_milli

    requests = dict(memory.request_per_pod)
    for part in pod_request.split(",") if pod_request else ():
        resource, equals, quantity = part.partition("=")
        try:
            amount = parse_milli(quantity.strip()) if equals else 0
        except ValueError:
            amount = 0
        if amount <= 0:
            raise typer.BadParameter(f'"{part}": write for example cpu=500m', param_hint="--pod-request")
        requests[resource.strip()] = amount
    return requests


def _metric_of(spec: Spec, requests: Mapping[str, int]) -> tuple[Metric | None, list[str]]:
    """The metric that the history is of: the one that is forecast, else the first with a load; and who is left out."""
    from cronhpa.core.predictive.floor import forecast_metric, target_load

    wanted = forecast_metric(spec)
    ranked = sorted(spec.metrics, key=lambda metric: getattr(metric, "name", None) != wanted)
    chosen = next((metric for metric in ranked if target_load(metric, _request(metric, requests))), None)
    if chosen is None and spec.metrics:
        metric = ranked[0]
        name = getattr(metric, "name", "")
        if getattr(getattr(metric, "target", None), "average_utilization", None):
            _end(f"{name}: its Utilization target needs what a pod requests: --pod-request {name}=500m")
        _end(f"{name}: a Value target says nothing of one pod: a Utilization or AverageValue target is needed")
    name = getattr(chosen, "name", "")
    others = [f"metrics: {getattr(each, 'name', '?')} is left out: the history is of {name}" for each in spec.metrics]
    return chosen, [remark for each, remark in zip(spec.metrics, others, strict=True) if each is not chosen]


def _request(metric: Metric, requests: Mapping[str, int]) -> int | None:
    return requests.get(getattr(metric, "name", ""))


def _with_one(spec: Spec, metric: Metric) -> Spec:
    from msgspec.structs import replace

    return replace(spec, metrics=(metric,))


def _environment(
    spec: Spec,
    metric: Metric | None,
    requests: Mapping[str, int],
    stated: str | None,
    memory: Memory,
    lengths: Mapping[str, Nanoseconds],
) -> Environment:
    from cronhpa.core.memory import START_UP_UNKNOWN
    from cronhpa.core.predictive.floor import pod_capacity
    from cronhpa.core.quantity import parse_milli
    from cronhpa.simulation.target import Environment

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
        percent = spec.forecast.pod_capacity_percent if spec.forecast is not None else None
        capacity = pod_capacity(metric, _request(metric, requests), percent)
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


def _past(source: str, series: Series, query: Query) -> Past:
    from cronhpa.cli.past import PastError, read_past

    try:
        return read_past(source, series, query)
    except PastError as error:
        _end(error)


def _span(load: Load, spec: Spec, begin: str | None, end: str | None, zone: str) -> Span:
    from cronhpa.cli.moments import format_moment, parse_length, parse_moment

    def moment(text: str, now: Nanoseconds, option: str) -> Nanoseconds:
        try:
            return parse_moment(text, zone, now)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=option) from error

    # Whole minutes: turns are told by the minute.
    earliest = -(-load.begin // MINUTE) * MINUTE + (_LEARNT_FROM if spec.forecast is not None else 0)
    first = None if begin is None else moment(begin, load.begin, "--from")
    last = load.end - load.end % MINUTE
    if end is not None:
        try:
            last = (earliest if first is None else first) + parse_length(end)
        except ValueError:
            last = moment(end, load.begin, "--to")
    if first is None:
        first = max(earliest, last - _SPAN)
    if not load.begin <= first < last <= load.end:
        known = f"{format_moment(load.begin, zone)} to {format_moment(load.end, zone)}"
        asked = f"{format_moment(first, zone)} to {format_moment(last, zone)}"
        why = f", and a forecast learns from the first {_LEARNT_FROM // HOUR} h" if spec.forecast is not None else ""
        _end(f"{asked} cannot be run: the history is of {known}{why}")
    return Span(first, last)


def _length(text: str, option: str) -> Nanoseconds:
    from cronhpa.cli.moments import parse_length

    try:
        return parse_length(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


# --- what is run -------------------------------------------------------------------------------------------------


def _run(plan: Backtest, series: Series, points: list[tuple[Nanoseconds, float]]) -> Backtest:
    from dataclasses import replace

    from cronhpa.core.predictive.budget_tracker import BudgetTracker
    from cronhpa.forecasting.messages import ForecastTarget
    from cronhpa.forecasting.walk_forward import NotInstalledError, WalkForward
    from cronhpa.history.database import StoreError
    from cronhpa.simulation.compare import Variant, variants
    from cronhpa.simulation.run import Run, run

    span, environment = plan.span, plan.environment
    runs: dict[Variant, Run] = {}
    spoken = ""
    for variant, each in variants(plan.spec).items():
        with _progress(f"running {variant}") as done:

            def watch(_: Observation, decision: Decision, done: Callable[[int, int], None] = done) -> None:
                done(decision.at - span.begin, span.end - span.begin)

            if variant is not Variant.FORECAST:
                runs[variant] = run(each, plan.load, environment, span, watch=watch)
                continue
            subject = ForecastTarget(series, each, environment.start_up, environment.requests.get(series.metric))
            meter = BudgetTracker()
            try:
                with WalkForward(points, subject, span, delay=environment.metric_delay, meter=meter) as forecasts:
                    runs[variant] = run(
                        each, plan.load, environment, span, forecasts=forecasts, budget=meter, watch=watch
                    )
                    spoken = forecasts.summary
            except (NotInstalledError, StoreError, OSError) as problem:
                _end(problem)
    return replace(plan, runs=runs, forecasts=spoken)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal's stderr, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        shown = -1

        def done(count: int, of: int) -> None:
            # A bar of a hundred places: asked more often, drawing it would cost as much as a turn.
            nonlocal shown
            if 100 * count // of != shown:
                shown = 100 * count // of
                bar.update(task, completed=count, total=of)

        yield done


def _end(problem: object) -> NoReturn:
    """One line on stderr, exit code 1."""
    say(f"cronhpa backtest: {problem}", err=True)
    raise typer.Exit(1)
