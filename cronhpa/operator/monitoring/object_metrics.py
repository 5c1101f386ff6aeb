"""
The per-object families, as text, from the newest decisions: reconciliations count and store nothing for them.

The text is written without a client library and in slices, so that a scrape of many objects neither delays a decision
nor creates a Python object for each sample.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Struct

from cronhpa.core.model.decision import (
    Decision,
    DecisionKind,
    ExpectedLoad,
    MetricProposal,
    Proposal,
    Source,
    WindowState,
)
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.spec import Metric, Mode, Spec, TargetRef, UnknownMetric
from cronhpa.operator.monitoring import families as of
from cronhpa.operator.monitoring.families import Family
from cronhpa.operator.objects.object_state import ObjectState, text_of

LOG = logging.getLogger(__name__)

# Some ten milliseconds, or megabytes. At an edge that all share each pass of the event loop takes tens of milliseconds,
# and a scrape in many small slices waited for so many passes that it missed its time.
_OBJECTS_PER_PASS = 500
_FAMILIES_PER_PASS = 8
_MILLI = 1000
_UNASKED = frozenset({DecisionKind.UNREACHABLE, DecisionKind.HELD})


class _Condition(Struct, gc=False):
    type: str
    status: str


class _Shown(Struct, gc=False):
    """The fields of a status that a scrape reads."""

    conditions: tuple[_Condition, ...] = ()


_SHOWN = msgspec.json.Decoder(_Shown)

Lines = defaultdict[str, list[str]]
ReadyReplicas = Callable[[str, TargetRef], int | None]


class ObjectMetrics:
    """
    objects: returns all objects. ready: the ready pods of a target, None if the target is not watched.
    namespaces: of the objects with metrics; empty: all. is_told: False for no per-object families.
    """

    def __init__(
        self,
        objects: Iterable[ObjectState],
        ready: ReadyReplicas,
        *,
        namespaces: Iterable[str] = (),
        is_told: bool = True,
    ) -> None:
        self._objects = objects
        self._ready = ready
        self._namespaces = frozenset(namespaces)
        self._is_told = is_told

    async def parts(self, now: Nanoseconds) -> list[bytes]:
        """The exposition: a part for each family that has a sample. Other tasks run between two slices of objects."""
        slices: defaultdict[str, list[bytes]] = defaultdict(list)
        lines: Lines = defaultdict(list)
        withheld: Counter[str] = Counter()
        written = 0
        for state in self._objects:
            if state.local.latest is not None:
                withheld.update(_withheld(state.local.latest))
            if self._is_told and (not self._namespaces or state.namespace in self._namespaces):
                try:
                    write(state, self._ready, now, lines)
                except Exception:
                    # A forged status may contain anything: only this object's metrics are left out.
                    LOG.exception("the metrics of %s/%s cannot be told", *state.key)
                written += 1
                if written % _OBJECTS_PER_PASS == 0:
                    _move(lines, slices)
                    await asyncio.sleep(0)
        _move(lines, slices)
        family = of.SCALE_DOWNS_WITHHELD
        counts = "".join(f'{family.name}{{reason="{key}"}} {n}\n' for key, n in sorted(withheld.items()))
        parts = [_encoded(family.header + counts)]
        for family in of.OBJECT_FAMILIES:
            if family.name in slices:
                parts.append(b"".join((_encoded(family.header), *slices.pop(family.name))))
                if len(parts) % _FAMILIES_PER_PASS == 0:
                    await asyncio.sleep(0)
        return parts


def _move(lines: Lines, slices: defaultdict[str, list[bytes]]) -> None:
    for name, samples in lines.items():
        slices[name].append(_encoded("".join(samples)))
    lines.clear()


def _encoded(text: str) -> bytes:
    """The text as UTF-8; a name may contain half a surrogate pair, which is replaced."""
    return text.encode(errors="replace")


def write(state: ObjectState, ready: ReadyReplicas, now: Nanoseconds, lines: Lines) -> None:
    """Adds the samples of an object, by the name of their family. Namespace and name need no escaping."""
    labels = f'{{namespace="{state.namespace}",name="{state.name}"'
    plain = labels + "} "

    def put(family: Family, value: float) -> None:
        lines[family.name].append(f"{family.name}{plain}{value}\n")

    _write_status(state, labels, lines)
    spec, latest, decision = state.served.spec, state.local.latest, state.local.latest_decision
    if spec is not None:
        operator = escaped(state.served.operator or "")
        lines[of.INFO.name].append(
            f'{of.INFO.name}{labels},target_kind="{escaped(spec.target.kind)}",target_name="{escaped(spec.target.name)}"'
            f',mode="{spec.mode}",operator="{operator}"}} 1\n'
        )
        put(of.SPEC_MAX_REPLICAS, spec.max_replicas)
        pods = ready(state.namespace, spec.target)
        if pods is not None:
            put(of.READY_REPLICAS, pods)
        if spec.forecast is not None:
            put(of.FORECAST_BUDGET, spec.forecast.budget_percent / 100)
    if spec is None or latest is None or decision is None:
        _put_kept(state, put)
        return
    if decision.kind in _UNASKED:
        _put_kept(state, put, bounds=False)
    else:
        put(of.CURRENT_REPLICAS, decision.current)
        put(of.DESIRED_REPLICAS, decision.desired)
    put(of.MIN_REPLICAS, decision.minimum)
    put(of.MAX_REPLICAS, decision.maximum)
    put(of.UNDER_PROVISIONED, state.local.under_provisioned.seconds(now))
    if decision.decided_by is not None:
        by = decision.decided_by
        lines[of.DECIDED_BY.name].append(
            f'{of.DECIDED_BY.name}{labels},source="{by.source}",source_name="{escaped(by.name)}"}} 1\n'
        )
    _write_proposals(decision, labels, lines)
    _write_metrics(spec, decision, labels, lines)
    if decision.windows:
        _write_windows(decision, labels, lines)
    if spec.override is not None:
        put(of.OVERRIDE_END, spec.override.until // SECOND) if now < spec.override.until else None
    if spec.forecast is not None:
        _write_forecast(latest, labels, put, lines)


def _put_kept(state: ObjectState, put: Callable[[Family, float], None], *, bounds: bool = True) -> None:
    """Adds samples from the status, for an object that this process has not decided."""
    status = state.served.status
    for family, key in _KEPT if bounds else _KEPT[:2]:
        value = status.get(key)
        if isinstance(value, int):
            put(family, value)


_KEPT = (
    (of.CURRENT_REPLICAS, "currentReplicas"),
    (of.DESIRED_REPLICAS, "desiredReplicas"),
    (of.MIN_REPLICAS, "effectiveMinReplicas"),
    (of.MAX_REPLICAS, "effectiveMaxReplicas"),
)


def _write_status(state: ObjectState, labels: str, lines: Lines) -> None:
    samples = lines[of.CONDITION.name]
    for condition in _SHOWN.decode(text_of(state.served.packed_status)).conditions:
        kind, status = escaped(condition.type), escaped(condition.status)
        samples.append(f'{of.CONDITION.name}{labels},type="{kind}",status="{status}"}} 1\n')


def _write_proposals(decision: Decision, labels: str, lines: Lines) -> None:
    # A schedule can be open while its next window leads: two floors of one source.
    largest: dict[str, int] = {}
    for proposal in decision.proposals:
        key = f',source="{proposal.source}",source_name="{escaped(proposal.name)}",role="{proposal.role}"'
        largest[key] = max(proposal.replicas, largest.get(key, 0))
    samples = lines[of.PROPOSED_REPLICAS.name]
    samples += [f"{of.PROPOSED_REPLICAS.name}{labels}{key}}} {value}\n" for key, value in largest.items()]


def _write_metrics(spec: Spec, decision: Decision, labels: str, lines: Lines) -> None:
    results = decision.metrics
    for position, metric in enumerate(spec.metrics):
        if isinstance(metric, UnknownMetric):
            continue
        name, kind, target = _target(metric)
        own = f'{labels},metric="{escaped(name)}",type="{kind}",position="{position}"}} '
        lines[of.METRIC_TARGET.name].append(f"{of.METRIC_TARGET.name}{own}{target}\n")
        result = results[position] if position < len(results) else None
        if isinstance(result, MetricProposal):
            value = _measured(kind, result)
            if value is not None:
                lines[of.METRIC_VALUE.name].append(f"{of.METRIC_VALUE.name}{own}{value}\n")
            lines[of.METRIC_REPLICAS.name].append(f"{of.METRIC_REPLICAS.name}{own}{result.replicas}\n")


def _target(metric: Metric) -> tuple[str, str, float]:
    """Name, type and target: a ratio for Utilization, else in the metric's own unit."""
    assert not isinstance(metric, UnknownMetric)
    target = metric.target
    if target.average_value is not None:
        return metric.name, "AverageValue", target.average_value / _MILLI
    if target.average_utilization is not None:
        return metric.name, "Utilization", target.average_utilization / 100
    return metric.name, "Value", (target.value or 0) / _MILLI


def _measured(kind: str, result: MetricProposal) -> float | None:
    if kind == "Utilization":
        return None if result.average_utilization is None else result.average_utilization / 100
    value = result.average_value if kind == "AverageValue" else result.value
    return None if value is None else value / _MILLI


def _write_windows(decision: Decision, labels: str, lines: Lines) -> None:
    for window in decision.windows:
        own = f'{labels},schedule="{escaped(window.name)}"}} '
        is_open, leads = window.state is WindowState.OPEN, window.state is WindowState.LEADING
        lines[of.SCHEDULE_OPEN.name].append(f"{of.SCHEDULE_OPEN.name}{own}{is_open:d}\n")
        lines[of.SCHEDULE_LEADING.name].append(f"{of.SCHEDULE_LEADING.name}{own}{leads:d}\n")
    edge = decision.next_edge
    if edge is not None:
        lines[of.NEXT_EDGE.name].append(
            f'{of.NEXT_EDGE.name}{labels},schedule="{escaped(edge.schedule)}",state="{edge.state}"}}'
            f" {edge.at // SECOND}\n"
        )


def _write_forecast(latest: Reconciliation, labels: str, put: Callable[[Family, float], None], lines: Lines) -> None:
    spec, decision, forecast = latest.spec, latest.decision, latest.forecast
    proposal = _of_forecast(decision.proposals)
    is_active = spec.forecast is not None and spec.forecast.mode is Mode.ACTIVE
    put(of.FORECAST_ACTIVE, int(proposal is not None and is_active))
    for abstention in decision.abstentions:
        if abstention.source is Source.FORECAST:
            lines[of.FORECAST_ABSTAINING.name].append(
                f'{of.FORECAST_ABSTAINING.name}{labels},reason="{escaped(abstention.reason)}"}} 1\n'
            )
    if proposal is not None:
        put(of.FORECAST_FLOOR, proposal.replicas)
        if isinstance(proposal.basis, ExpectedLoad):
            put(of.FORECAST_LOAD, proposal.basis.load)
    if latest.budget_used is not None:
        put(of.FORECAST_BUDGET_USED, latest.budget_used / 1000)
    if forecast is not None:
        _put_issued(forecast, latest.record.forecast, put)


def _put_issued(forecast: Forecast, limited: Forecast | Absent | None, put: Callable[[Family, float], None]) -> None:
    put(of.FORECAST_ISSUED, forecast.issued_at // SECOND)
    put(of.FORECAST_BUDGET_LEVEL, limited.budget_level if isinstance(limited, Forecast) else 0)
    record = forecast.track_record
    if record is not None:
        put(of.FORECAST_EXTRA, record.extra_percent / 100)
        if record.of:
            put(of.FORECAST_AVOIDED, record.avoided / record.of)


def _of_forecast(proposals: Iterable[Proposal]) -> Proposal | None:
    return next((proposal for proposal in proposals if proposal.source is Source.FORECAST), None)


def escaped(text: str) -> str:
    """The text as a label's value, with backslashes, quotes and line feeds escaped."""
    if "\\" in text or '"' in text or "\n" in text:
        text = text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return text


def _withheld(latest: Reconciliation) -> Iterator[str]:
    """The causes that withhold a scale-down for which the metrics of an object ask; empty if they ask for none."""
    decision = latest.decision
    requested_replicas = [proposal.replicas for proposal in decision.metrics if isinstance(proposal, MetricProposal)]
    if not requested_replicas or max(requested_replicas) >= decision.current:
        return
    if decision.desired < decision.current:
        if latest.owner_problem is not None:
            yield "OtherOwner"
        elif latest.spec.mode is Mode.PREVIEW:
            yield "Preview"
    yield from {str(step.rule) for step in decision.steps if step.after > step.before}
    if decision.failure is not None:
        yield escaped(decision.failure.reason)
