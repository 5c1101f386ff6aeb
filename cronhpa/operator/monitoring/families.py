"""
The metric families of /metrics, each declared once, with its help. docs/reference/metrics.md is written from them.

Names follow Prometheus' conventions: base units, `_total` for counters, an instant as `_timestamp_seconds`. A family of
objects has the labels `namespace` and `name` before its own, and describes the newest decision on the object. An
unknown sample is absent, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from cronhpa.core.model.instant import SECOND
from cronhpa.operator.loop.loop_metrics import BOUNDS, LagHistogram


class FamilyKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Family(NamedTuple):
    name: str
    """The name as it is exposed."""
    kind: FamilyKind
    help: str
    labels: tuple[str, ...] = ()
    """Labels beside those that all per-object families have."""
    per_object: bool = False

    def of(self, value: float) -> Metric:
        """The family with its only sample."""
        return self.samples([((), value)])

    def samples(self, samples: Sequence[tuple[tuple[str, ...], float]]) -> Metric:
        """The family with a sample for each (label values, value)."""
        made = CounterMetricFamily if self.kind is FamilyKind.COUNTER else GaugeMetricFamily
        family = made(self.name, self.help, labels=self.labels)
        for labels, value in samples:
            family.add_metric(labels, value)
        return family

    def histogram(self, counted: LagHistogram) -> Metric:
        bounds = (*(f"{bound / SECOND:g}" for bound in BOUNDS), "+Inf")
        return HistogramMetricFamily(
            self.name,
            self.help,
            buckets=list(zip(bounds, accumulate(counted.counts), strict=True)),
            sum_value=counted.total / SECOND,
        )

    @property
    def header(self) -> str:
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n"


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(f"cronhpa_{name}", FamilyKind.GAUGE, text, labels)


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family(f"cronhpa_{name}_total", FamilyKind.COUNTER, text, labels)


def _histogram(name: str, text: str) -> Family:
    return Family(f"cronhpa_{name}", FamilyKind.HISTOGRAM, text)


def _object(name: str, text: str, *labels: str) -> Family:
    kind = FamilyKind.COUNTER if name.endswith("_total") else FamilyKind.GAUGE
    return Family(f"cronhpa_object_{name}", kind, text, labels, per_object=True)


def _event(name: str, text: str, *labels: str) -> Family:
    """Of a PlannedEvent; the namespace of a ClusterPlannedEvent is empty."""
    return _gauge(f"event_{name}", text, "namespace", "name", *labels)


# --- the operator ------------------------------------------------------------------------------------------------

BUILD_INFO = _gauge(
    "build_info", "1, with the release, the commit and the Python that run.", "version", "commit", "python"
)
LEADER = _gauge("leader", "1 on a replica that decides: on one, or with shards on each that holds any.")
SHARDS = _gauge("shards", "Shards that the namespaces are divided into; 1 without shards.")
SHARDS_SERVED = _gauge("shards_served", "Shards whose objects this replica decides.")
OBJECTS = _gauge("objects", "CronHPA objects known.")
OBJECTS_OF_OTHERS = _gauge("objects_of_other_operators", "CronHPA objects that another installation serves.")
SCALE_DOWNS_WITHHELD = _gauge(
    "scale_downs_withheld",
    "Objects whose metrics ask for fewer pods and whose scale-down is withheld now, by what withholds it.",
    "reason",
)

RECONCILIATIONS = _counter("reconciliations", "Reconciliations.")
RECONCILIATION_ERRORS = _counter("reconciliation_errors", "Reconciliations that ended with an error of ours.")
DECISION_DURATION = _histogram(
    "decision_duration_seconds",
    "From the begin of an object's reconciliation to its decision: metrics are read in between.",
)
DECISION_LAG = _histogram("decision_lag_seconds", "From the instant at which an object was due to its decision.")
WRITE_LAG = _histogram(
    "write_lag_seconds", "From the instant at which an object was due to the end of its reconciliation: all is written."
)
TICK_DURATION = _gauge("tick_duration_seconds", "Length of the last tick of a namespace that wrote.")
OLDEST_RECONCILIATION = _gauge("oldest_reconciliation_seconds", "Length of the longest reconciliation under way.")
POD_METRICS_LISTS = _counter("pod_metrics_lists", "Lists asked of metrics.k8s.io.")

STATUS_WRITES = _counter("status_writes", "Writes of a status.")
SCALE_WRITES = _counter("scale_writes", "Scale writes done.", "direction")
SCALE_FAILURES = _counter("scale_failures", "Scale writes that the API refused.")
EVENTS_DROPPED = _counter("events_dropped", "Events not written.")
API_REQUESTS = _counter(
    "api_requests",
    "Requests to the API server, by the code of the answer; error for one without an answer.",
    "verb",
    "code",
)
API_UNANSWERED = _gauge("api_unanswered_seconds", "Since the API server answered a request.")
WATCH_SILENT = _gauge("watch_silent_seconds", "Since a watch heard anything.", "resource")
WATCH_UP = _gauge("watch_up", "1 while a watch is believed; what it watches is read another way else.", "resource")
WATCH_RESTARTS = _counter("watch_restarts", "Times a watch was started again.", "resource")
CONNECTIONS_DROPPED = _counter(
    "connections_dropped",
    "Connections to a port of ours closed early: for a new one, or because they took too long.",
    "port",
)
SOURCE_REQUESTS = _counter("source_requests", "Requests to a source: queries, or scrapes of single pods.", "source")
SOURCES_BROKEN = _gauge("sources_broken", "1 while the file of sources cannot be used; the former ones stay in force.")
CALENDAR_UP = _gauge(
    "calendar_up", "1 while a calendar's newest reading was good; what was read before stays in force else.", "calendar"
)
CALENDAR_READ = _gauge(
    "calendar_last_read_timestamp_seconds", "When a calendar was last read well; absent before.", "calendar"
)
CALENDARS_BROKEN = _gauge("calendars_broken", "1 while the file of calendars cannot be used; the former ones stay.")

EVENT_OBJECTS = _event("objects", "CronHPA objects that a planned event concerns.")
EVENT_REPLICAS = _event("replicas", "Replicas that it asks for in all, at its current or next start.")
EVENT_SHORT = _event("short_replicas", "Replicas that maxReplicas of objects keeps from it.")
EVENT_CPU = _event("added_cpu_cores", "Cores that the replicas request that it adds, of objects with known requests.")
EVENT_MEMORY = _event("added_memory_bytes", "Bytes that they request.")
EVENT_READY = _event("ready_objects", "While it holds, objects whose pods are Ready at the count that it asks for.")
EVENT_ACTIVE = _event("active", "1 while a window of it is open.")
EVENT_EDGE = _event("next_edge_timestamp_seconds", "When a window of it opens or closes next.", "state")

DECISIONS_KEPT = _counter("decisions_kept", "Changes of decisions written to the store.")
DECISIONS_DROPPED = _counter("decisions_dropped", "Changes and points of decisions not kept.", "cause")
STORE_BYTES = _gauge("store_bytes", "Size of the SQLite file with its log; absent for a PostgreSQL.")
FITS = _counter("fits", "Fits of a forecast made.")
FIT_FAILURES = _counter("fit_failures", "Objects whose fit failed, with every try.")
FIT_SECONDS = _counter("fit_seconds", "Time that workers spent on fits.")
FIT_QUEUE = _gauge("fit_queue", "Objects that wait for their fit, or are being fitted.")
FORECASTS = _counter("forecasts", "Forecasts issued.")
FORECAST_FAILURES = _counter("forecast_failures", "Objects whose forecast failed, with every try.")
FORECAST_SECONDS = _counter("forecast_seconds", "Time that workers spent on forecasts.")

# --- each object -------------------------------------------------------------------------------------------------

INFO = _object(
    "info", "1, with what the object scales and whether it acts.", "target_kind", "target_name", "mode", "operator"
)
MIN_REPLICAS = _object("min_replicas", "The lower bound in force: of the spec, a schedule or an override.")
MAX_REPLICAS = _object("max_replicas", "The upper bound in force.")
SPEC_MAX_REPLICAS = _object("spec_max_replicas", "maxReplicas of the spec.")
CURRENT_REPLICAS = _object("current_replicas", "Replicas that the target was found with.")
DESIRED_REPLICAS = _object("desired_replicas", "Replicas decided upon. Absent before the first decision.")
READY_REPLICAS = _object("ready_replicas", "Ready pods of the target, where a watch of it tells them.")
CONDITION = _object("condition", "1 for the status that a condition has.", "type", "status")
DECIDED_BY = _object("decided_by", "1 for the source whose number the desired replicas are.", "source", "source_name")
PROPOSED_REPLICAS = _object(
    "proposed_replicas", "What each source asks for: a Target, a Floor or a Cap.", "source", "source_name", "role"
)
METRIC_VALUE = _object(
    "metric_value",
    "What a metric of the spec was at the newest decision: a ratio for Utilization, else in its own unit.",
    "metric",
    "type",
    "position",
)
METRIC_TARGET = _object("metric_target", "What the metric should be.", "metric", "type", "position")
METRIC_REPLICAS = _object("metric_replicas", "Replicas that the metric asks for.", "metric", "type", "position")
UNDER_PROVISIONED = _object(
    "under_provisioned_seconds_total", "Time in which the metrics asked for more pods than counted as ready."
)
SCHEDULE_OPEN = _object("schedule_open", "1 while a schedule's window is open.", "schedule")
SCHEDULE_LEADING = _object("schedule_leading", "1 while a schedule asks for its floor ahead of its start.", "schedule")
NEXT_EDGE = _object("next_edge_timestamp_seconds", "When a schedule changes next.", "schedule", "state")
OVERRIDE_END = _object("override_end_timestamp_seconds", "When the override in force ends by itself.")
FORECAST_ACTIVE = _object("forecast_active", "1 while the forecast acts.")
FORECAST_ABSTAINING = _object(
    "forecast_abstaining", "1 while the forecast asks for nothing, with the reason.", "reason"
)
FORECAST_FLOOR = _object("forecast_floor_replicas", "Replicas that the forecast asks for, in a preview too.")
FORECAST_LOAD = _object("forecast_expected_load", "The load that the forecast asks pods for, in the metric's unit.")
FORECAST_BUDGET_LEVEL = _object(
    "forecast_budget_level", "How dear a pod is to the forecast: 0 within its budget, higher as the budget is used."
)
FORECAST_BUDGET_USED = _object(
    "forecast_budget_used_ratio", "Pod-hours that the forecast added over seven days, as a part of all."
)
FORECAST_BUDGET = _object("forecast_budget_ratio", "What budgetPercent allows it to add.")
FORECAST_AVOIDED = _object(
    "forecast_avoided_ratio", "Under-provisioned minutes of past days that the forecast would have avoided, as a part."
)
FORECAST_EXTRA = _object("forecast_extra_ratio", "Pod-hours that it would have added to those days, as a part.")
FORECAST_ISSUED = _object("forecast_issued_timestamp_seconds", "When the newest forecast was made.")

FAMILIES: tuple[Family, ...] = tuple(value for value in tuple(globals().values()) if isinstance(value, Family))
OPERATOR_FAMILIES = tuple(family for family in FAMILIES if not family.per_object)
OBJECT_FAMILIES = tuple(family for family in FAMILIES if family.per_object)
