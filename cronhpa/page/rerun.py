"""
The last week decided again, by the object as it is and by a changed one, beside the recorded past.

Runs in a worker process with a deadline. The caller's text is distrusted: it is read with limits, and only its `spec`
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from cronhpa.api.parse import SpecError, SpecProblem
from cronhpa.api.status_memory import parse_memory
from cronhpa.api.written_spec import written_spec
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.memory import START_UP_UNKNOWN, Memory
from cronhpa.core.model.prices import priced_requests
from cronhpa.core.model.spec import ControllerOptions, Mode, Span, Spec
from cronhpa.forecasting.backtest import (
    POINTS_MIN,
    NotRunnableError,
    RequestUnknownError,
    Rerun,
    load_of_points,
    loaded_metric,
    name_of,
    stated_capacity,
    with_one,
)
from cronhpa.forecasting.walk_forward import NotInstalledError
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import Series
from cronhpa.history.load.recorded import recorded_load
from cronhpa.history.past.points import POINT_STEP, Point
from cronhpa.history.store import Store
from cronhpa.kube.yaml_loader import Loader, line_at
from cronhpa.page.effective_spec import effective_spec, with_packed
from cronhpa.page.object_view import CHANGES_MAX, minute_loads
from cronhpa.page.past_lanes import scalings_of
from cronhpa.page.questions import SPAN, RerunQuestion
from cronhpa.page.shortages import ready_pods, short_spans
from cronhpa.simulation.run import ReplicaChange, Run
from cronhpa.simulation.target import Environment

Json = dict[str, Any]

_NODES_MAX = 20_000
_LEARNT_FROM: Nanoseconds = 2 * DAY
_SHORTEST: Nanoseconds = HOUR
# As those of `cronhpa backtest`.
_METRIC_DELAY, _METRIC_WINDOW = 30 * SECOND, MINUTE
_ENCODER = msgspec.json.Encoder()


class NotReadableError(Exception):
    """A text cannot be run. problems: each with what to do."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(problems))


def rerun_of(question: RerunQuestion) -> bytes:
    """JSON: `problems` where the text cannot be run, else what happened and both runs."""
    try:
        return _ENCODER.encode(_rerun(question))
    except NotReadableError as error:
        return _ENCODER.encode({"problems": error.problems})
    except (NotRunnableError, NotInstalledError, StoreError) as error:
        return _ENCODER.encode({"problems": [str(error)]})


def spec_of(text: str, namespace: str, options: ControllerOptions) -> Spec:
    """
    The spec of a manifest, or a spec alone.

    options: the operator's. Raises NotReadableError with all problems, as `preview` lists them.
    """
    document, node = _document(text)
    spec, is_alone = document.get("spec"), False
    if spec is None and "scaleTargetRef" in document:
        spec, is_alone = document, True
    if not isinstance(spec, Mapping):
        raise NotReadableError(["spec: a CronHPA, or its spec alone, is read"])
    try:
        return written_spec({"metadata": {"namespace": namespace}, "spec": spec}, options)
    except SpecError as error:
        located = [
            (line_at(node, problem.path.removeprefix("spec.") if is_alone else problem.path), problem)
            for problem in error.problems
        ]
    raise NotReadableError(
        [f"line {line}: {problem.path}: {problem.problem}" for line, problem in sorted(located, key=_by_line)]
    )


def _by_line(located: tuple[int, SpecProblem]) -> int:
    return located[0]


def _document(text: str) -> tuple[Mapping[str, Any], yaml.Node]:
    """The only document of a text, and its syntax tree."""
    try:
        loader = Loader(text, _NODES_MAX)
        try:
            node = loader.get_single_node()
            document = None if node is None else loader.construct_object(node, deep=True)
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError, AttributeError, LookupError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f"line {mark.line + 1}: "
        raise NotReadableError([f"{where}{getattr(error, 'problem', None) or error}"]) from error
    if node is None or not isinstance(document, Mapping):
        raise NotReadableError(["one object is read, with a spec"])
    return document, node


def _rerun(question: RerunQuestion) -> Json:
    options = question.options
    changed_spec = spec_of(question.text, question.namespace, options)
    wanted = _acting(with_packed(changed_spec, question.events, question.calendars))
    body: Json = msgspec.json.decode(question.body)
    try:
        live = _acting(effective_spec(body["spec"], question.namespace, options, question.events, question.calendars))
    except SpecError as error:
        raise NotRunnableError(f"the object as it is cannot be read: {error}") from error
    memory = parse_memory(body.get("status") or {})
    requests = memory.request_per_pod
    try:
        metric, changed = loaded_metric(live, requests), loaded_metric(wanted, requests)
    except RequestUnknownError as error:
        text = f"{error}; no pod of the target has been seen whose containers all state one"
        raise NotRunnableError(text) from error
    if metric is None or changed is None:
        raise NotRunnableError("without a metric there is no load to decide under: its bounds alone are its replicas")
    series = Series(question.namespace, question.name, name_of(metric))
    if name_of(changed) != series.metric:
        raise NotRunnableError(f"{name_of(changed)}: the load that is known is of {series.metric}")
    points, middles, recorded, minutes, scalings = _recorded(question, series)
    load = load_of_points(points, middles)
    begins = load.begin + (_LEARNT_FROM if wanted.forecast is not None or live.forecast is not None else 0)
    begin = max(-(-begins // MINUTE) * MINUTE, question.now - SPAN)
    end = load.end - load.end % MINUTE
    if end - begin < _SHORTEST:
        raise NotRunnableError("too little load is known yet: an hour is needed, with a forecast two days before it")
    capacity = stated_capacity(live, metric, requests)
    assert capacity is not None, "a metric with a load per pod tells it"
    environment = _environment(capacity, memory)
    again = Rerun(series, load, points, environment, Span(begin, end))
    progress = _Progress(question.progress, begin, end)
    as_it_is = again.run(with_one(live, metric), progress.passed(0))
    as_wanted = again.run(with_one(wanted, changed), progress.passed(1))
    priced = priced_requests(live, environment.requests)
    happened = [point for point in recorded if begin <= point.at < end]
    return {
        "from": begin / SECOND,
        "to": end / SECOND,
        "capacity": capacity,
        "startUp": environment.start_up / SECOND,
        "metric": series.metric,
        "podPrice": question.prices.of_pod(priced),
        "unpriced": question.prices.unknown(priced),
        "load": _thinned(zip(middles, (value for _, value in points), strict=True), begin, end),
        "happened": _happened(happened, ready_pods(happened, scalings, memory.start_up), minutes, capacity),
        "asItIs": _run(as_it_is),
        "changed": _run(as_wanted),
        "forecasts": again.summary,
        "leftOut": [name_of(other) or "?" for other in wanted.metrics if other is not changed],
    }


def _acting(spec: Spec) -> Spec:
    """The spec with both modes Active, and without its override, which was for an incident."""
    forecast = None if spec.forecast is None else replace(spec.forecast, mode=Mode.ACTIVE)
    return replace(spec, mode=Mode.ACTIVE, override=None, forecast=forecast)


def _environment(capacity: float, memory: Memory) -> Environment:
    return Environment(
        capacity=capacity,
        requests=memory.request_per_pod,
        start_up=START_UP_UNKNOWN if memory.start_up is None else memory.start_up,
        metric_delay=_METRIC_DELAY,
        metric_window=_METRIC_WINDOW,
    )


def _recorded(
    question: RerunQuestion, series: Series
) -> tuple[
    list[tuple[Nanoseconds, float]],
    list[Nanoseconds],
    list[Point],
    list[tuple[Nanoseconds, float]],
    list[tuple[Nanoseconds, int]],
]:
    """(loads, the middles of their times, recorded points, loads of single minutes, scalings)."""
    store = Store.open_to_read(question.store)
    try:
        points, middles = recorded_load(store.loads, series, question.now)
        happened = store.decisions.points(question.namespace, question.name, question.now - SPAN, question.now)
        minutes = minute_loads(store, series, question.now - SPAN, question.now)
        changes = store.decisions.between(
            question.namespace, question.name, question.now - SPAN, question.now, CHANGES_MAX
        )
    finally:
        store.close()
    if len(points) < POINTS_MIN:
        raise NotRunnableError(f"no load of {series.metric} is recorded yet")
    return points, middles, happened, minutes, scalings_of(changes)


def _happened(
    points: Sequence[Point],
    ready: Sequence[tuple[Nanoseconds, int | None]],
    minutes: Sequence[tuple[Nanoseconds, float]],
    capacity: float,
) -> Json:
    """The figures of the recorded points, each of which stands for five minutes."""
    short = short_spans(ready, minutes, capacity)
    return {
        # Without a point nothing is known, and nothing known is not 0.
        "minutes": sum(end - begin for begin, end in short) / MINUTE if points else None,
        "podHours": sum(point.replicas for point in points) * (POINT_STEP / HOUR) if points else None,
        "most": max((point.replicas for point in points), default=None),
        "hours": len(points) * (POINT_STEP / HOUR),
        "short": [[begin / SECOND, end / SECOND] for begin, end in short],
        "replicas": [[point.at / SECOND, point.replicas] for point in points],
    }


def _run(run: Run) -> Json:
    score = run.score
    return {
        "minutes": score.under_provisioned_minutes,
        "podHours": score.pod_hours,
        "most": score.most_replicas,
        "hours": (score.span - score.unknown) / HOUR,
        "unserved": score.unserved_percent,
        "actions": score.actions,
        "short": [[stretch.begin / SECOND, stretch.end / SECOND] for stretch in score.stretches],
        "replicas": _steps(run.changes),
    }


def _steps(changes: Iterable[ReplicaChange]) -> list[list[float]]:
    """[time, replicas] at each change of the count; changes of readiness alone are left out."""
    steps: list[list[float]] = []
    for change in changes:
        if not steps or steps[-1][1] != change.replicas:
            steps.append([change.at / SECOND, change.replicas])
    return steps


def _thinned(pairs: Iterable[tuple[Nanoseconds, float]], begin: Nanoseconds, end: Nanoseconds) -> list[list[float]]:
    """The largest load of each five minutes."""
    highs: dict[int, float] = {}
    for at, value in pairs:
        if begin <= at < end:
            step = at // POINT_STEP
            highs[step] = max(highs.get(step, value), value)
    return [[step * POINT_STEP / SECOND, value] for step, value in sorted(highs.items())]


class _Progress:
    """Writes the share of both runs that is done into a file, which is read while the task runs."""

    def __init__(self, path: str, begin: Nanoseconds, end: Nanoseconds) -> None:
        self._path = Path(path) if path else None
        self._begin, self._length = begin, end - begin
        self._written = -1

    def passed(self, run: int) -> Callable[[Nanoseconds], None]:
        def note(now: Nanoseconds) -> None:
            percent = (100 * run + 100 * (now - self._begin) // self._length) // 2
            if self._path is not None and percent != self._written:
                self._written = percent
                self._path.write_text(f"{percent / 100}", "ascii")

        return note
