"""
The Grafana dashboards: the fleet, and one object. Every query uses families of /metrics or the recording rules.

grafana-foundation-sdk makes the JSON. A test runs every query against a real Prometheus; each must return data.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import GraphDrawStyle, LineInterpolation, StackingMode, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT = 24, 8
_FLEET = 'namespace=~"$namespace"'
_ONE = 'namespace="$namespace", name="$name"'
FLEET_UID, OBJECT_UID = "cronhpa-fleet", "cronhpa-object"


class Query(NamedTuple):
    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """kind: lines, stack, steps, stat or table. A table has a row for each series of its last values."""

    title: str
    kind: str
    queries: tuple[Query, ...]
    about: str
    unit: str = "short"
    span: int = 8


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]


def _max(family: str, *labels: str, where: str = _ONE, matcher: str = "") -> str:
    by = ", ".join(("namespace", "name", *labels))
    return f"max by ({by}) (cronhpa_object_{family}{{{where}{', ' if matcher else ''}{matcher}}})"


def _c(kind: str, status: str) -> str:
    return f'type="{kind}", status="{status}"'


FLEET: tuple[Row, ...] = (
    Row(
        "What needs a person",
        (
            Panel("Objects", "stat", (Query("sum(cronhpa_objects * on (instance) cronhpa_leader)"),), "Objects served.", span=3),
            Panel(
                "Not ready", "stat",
                (Query(f'count({_max("condition", where=_FLEET, matcher=_c("Ready", "False"))}) or vector(0)'),),
                "Objects whose condition Ready is False.", span=3,
            ),
            Panel(
                "At their maximum", "stat",
                (Query(f'count({_max("condition", where=_FLEET, matcher=_c("MaxedOut", "True"))}) or vector(0)'),),
                "Objects that want all that their maximum in force allows, and may have fewer.", span=3,
            ),
            Panel(
                "Without metrics", "stat",
                (Query(f'count({_max("condition", where=_FLEET, matcher=_c("ScalingActive", "False"))}) or vector(0)'),),
                "Objects whose metrics cannot be read.", span=3,
            ),
            Panel(
                "Short of pods", "stat",
                (Query(f"count(namespace_name:cronhpa_object_under_provisioned:ratio_rate{{{_FLEET}}} > 0) or vector(0)"),),
                "Objects whose metrics asked for more pods than were ready within the last minutes.", span=3,
            ),
            Panel(
                "Windows open", "stat", (Query(f"sum({_max('schedule_open', 'schedule', where=_FLEET)}) or vector(0)"),),
                "Windows that are open now.", span=3,
            ),
            Panel(
                "Overrides", "stat", (Query(f"count({_max('override_end_timestamp_seconds', where=_FLEET)}) or vector(0)"),),
                "Objects with an override in force.", span=3,
            ),
            Panel(
                "Forecasts acting", "stat", (Query(f"sum({_max('forecast_active', where=_FLEET)}) or vector(0)"),),
                "Objects whose forecast asks for pods now.", span=3,
            ),
        ),
    ),
    Row(
        "Replicas",
        (
            Panel(
                "Replicas by namespace", "stack",
                (Query(f"namespace:cronhpa_object_current_replicas:sum{{{_FLEET}}}", "{{namespace}}"),),
                "Replicas of all targets.", span=12,
            ),
            Panel(
                "Nearest to their maximum", "lines",
                (
                    Query(
                        f"topk(10, namespace_name:cronhpa_object_saturation:ratio{{{_FLEET}}} and "
                        f"{_max('max_replicas', where=_FLEET)} > {_max('min_replicas', where=_FLEET)})",
                        "{{namespace}}/{{name}}",
                    ),
                ),
                "Desired replicas as a part of the maximum in force: the ten largest.", unit="percentunit", span=12,
            ),
            Panel(
                "What decides", "stack",
                (Query(f"count by (source) (max by (namespace, name, source) (cronhpa_object_decided_by{{{_FLEET}}}))", "{{source}}"),),
                "Objects by the source whose number they have.",
            ),
            Panel(
                "Scale-downs withheld", "stack",
                (Query("sum by (reason) (cronhpa_scale_downs_withheld)", "{{reason}}"),),
                "Objects whose metrics ask for fewer pods, by what withholds it.",
            ),
            Panel(
                "Replicas written", "lines",
                (Query("sum by (direction) (rate(cronhpa_scale_writes_total[$__rate_interval]))", "{{direction}}"),),
                "Scale writes a second.", unit="ops",
            ),
            Panel(
                "Objects", "table",
                (
                    Query(_max("desired_replicas", where=_FLEET), "desired"),
                    Query(_max("current_replicas", where=_FLEET), "current"),
                    Query(_max("min_replicas", where=_FLEET), "minimum"),
                    Query(_max("max_replicas", where=_FLEET), "maximum"),
                ),
                "Every object now.", span=24,
            ),
        ),
    ),
    Row(
        "The operator",
        (
            Panel(
                "Decisions are late by", "lines",
                (
                    Query("job_namespace:cronhpa_decision_lag_seconds:p99_rate", "decided, 99 %"),
                    Query("histogram_quantile(0.99, sum by (le) (rate(cronhpa_write_lag_seconds_bucket[$__rate_interval])))", "written, 99 %"),
                    Query("histogram_quantile(0.99, sum by (le) (rate(cronhpa_decision_duration_seconds_bucket[$__rate_interval])))", "one decision, 99 %"),
                ),
                "From the instant at which an object was due.", unit="s",
            ),
            Panel(
                "Decisions", "lines",
                (
                    Query("sum(rate(cronhpa_reconciliations_total[$__rate_interval]))", "decisions"),
                    Query("sum(rate(cronhpa_reconciliation_errors_total[$__rate_interval]))", "errors of ours"),
                ),
                "Decisions a second.", unit="ops",
            ),
            Panel(
                "Requests to the API server", "stack",
                (Query("sum by (verb, code) (rate(cronhpa_api_requests_total[$__rate_interval]))", "{{verb}} {{code}}"),),
                "By verb and code of the answer.", unit="reqps",
            ),
            Panel(
                "Leaders", "steps", (Query("cronhpa_shards_served", "{{instance}}"),),
                "Shards that each replica decides; without shards, 1 on the replica that decides.",
            ),
            Panel(
                "Watches", "steps", (Query("min by (resource) (cronhpa_watch_up)", "{{resource}}"),),
                "1 while what is watched is believed.",
            ),
            Panel(
                "Fits and forecasts", "lines",
                (
                    Query("sum(rate(cronhpa_fit_seconds_total[$__rate_interval]))", "workers busy with fits"),
                    Query("sum(rate(cronhpa_forecast_seconds_total[$__rate_interval]))", "workers busy with forecasts"),
                    Query("sum(cronhpa_fit_queue)", "objects that wait for a fit"),
                ),
                "Busy workers, and the queue.",
            ),
        ),
    ),
)  # fmt: skip

OBJECT: tuple[Row, ...] = (
    Row(
        "Replicas",
        (
            Panel(
                "Replicas", "steps",
                (
                    Query(_max("desired_replicas"), "desired"),
                    Query(_max("current_replicas"), "current"),
                    Query(_max("ready_replicas"), "ready"),
                    Query(_max("min_replicas"), "minimum in force"),
                    Query(_max("max_replicas"), "maximum in force"),
                ),
                "What is decided, what is there, and between which bounds.", span=24,
            ),
            Panel(
                "Who asks for what", "steps",
                (Query(_max("proposed_replicas", "source", "source_name", "role"), "{{source}} {{source_name}} {{role}}"),),
                "Each source's proposal: a target to go to, a floor or a cap.", span=12,
            ),
            Panel(
                "What decides", "steps",
                (Query(_max("decided_by", "source", "source_name"), "{{source}} {{source_name}}"),),
                "1 for the source whose number it is.", span=12,
            ),
        ),
    ),
    Row(
        "Load",
        (
            Panel(
                "Metrics, as a part of their target", "lines",
                (Query(f"{_max('metric_value', 'metric', 'position')} / {_max('metric_target', 'metric', 'position')}", "{{metric}}"),),
                "1 is on target; the tolerance is a tenth around it.", unit="percentunit", span=12,
            ),
            Panel(
                "Replicas that each metric asks for", "steps",
                (Query(_max("metric_replicas", "metric", "position"), "{{metric}}"),),
                "Before schedules, the forecast, stabilization and rates.", span=12,
            ),
            Panel(
                "Short of pods", "lines",
                (Query(f"namespace_name:cronhpa_object_under_provisioned:ratio_rate{{{_ONE}}}", "part of the time"),),
                "The part of the time in which the metrics asked for more pods than were ready.", unit="percentunit", span=12,
            ),
            Panel(
                "Conditions", "steps", (Query(_max("condition", "type", "status"), "{{type}} {{status}}"),),
                "1 for the status that each condition has.", span=12,
            ),
        ),
    ),
    Row(
        "Schedules, override, forecast",
        (
            Panel(
                "Windows", "steps",
                (
                    Query(_max("schedule_open", "schedule"), "{{schedule}} open"),
                    Query(_max("schedule_leading", "schedule"), "{{schedule}} asked for ahead"),
                ),
                "1 while a window is open.", span=12,
            ),
            Panel(
                "Next", "stat",
                (
                    Query(f"{_max('next_edge_timestamp_seconds', 'schedule', 'state')} - time()", "{{schedule}} {{state}} in"),
                    Query(f"{_max('override_end_timestamp_seconds')} - time()", "override ends in"),
                ),
                "Until a schedule changes next, and until the override ends.", unit="dtdurations", span=12,
            ),
            Panel(
                "Forecast", "steps",
                (
                    Query(_max("forecast_active"), "acts"),
                    Query(_max("forecast_floor_replicas"), "asks for at least"),
                    Query(_max("forecast_abstaining", "reason"), "abstains: {{reason}}"),
                ),
                "Whether it acts, and the replicas that it asks for.",
            ),
            Panel(
                "Load that the forecast plans for", "lines", (Query(_max("forecast_expected_load"), "expected load"),),
                "In the metric's unit.",
            ),
            Panel(
                "Forecast's budget", "lines",
                (
                    Query(_max("forecast_budget_used_ratio"), "used"),
                    Query(_max("forecast_budget_ratio"), "allowed"),
                    Query(_max("forecast_avoided_ratio"), "minutes avoided on past days"),
                ),
                "Pod-hours that it added over seven days, and what it is worth.", unit="percentunit",
            ),
        ),
    ),
)  # fmt: skip


def texts() -> dict[str, str]:
    """JSON by file name."""
    fleet = _dashboard("CronHPA fleet", FLEET_UID, FLEET, [_namespaces(multi=True)])
    one = _dashboard("CronHPA object", OBJECT_UID, OBJECT, [_namespaces(multi=False), _names()])
    return {"fleet.json": _json(fleet), "object.json": _json(one)}


def queries(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(panel, expression) of every query."""
    return [(panel.title, query.expr) for row in rows for panel in row.panels for query in panel.queries]


def _dashboard(
    title: str, uid: str, rows: Sequence[Row], variables: Sequence[dashboard.QueryVariable]
) -> dashboard.Dashboard:
    made = (
        dashboard.Dashboard(title).uid(uid).tags(["cronhpa"]).refresh("30s").time("now-6h", "now").readonly()
        .link(dashboard.DashboardLink("CronHPA").type(DashboardLinkType.DASHBOARDS).tags(["cronhpa"]).include_vars(True))
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )  # fmt: skip
    for variable in variables:
        made.with_variable(variable)
    for row in rows:
        made.with_row(dashboard.Row(row.title))
        for panel in row.panels:
            made.with_panel(_panel(panel))
    return made


def _panel(panel: Panel) -> stat.Panel | table.Panel | timeseries.Panel:
    made: stat.Panel | table.Panel | timeseries.Panel
    if panel.kind == "stat":
        made = stat.Panel()
    elif panel.kind == "table":
        names = {f"Value #{letter}": query.legend for letter, query in zip("ABCDEFGH", panel.queries, strict=False)}
        # A click on the name of an object opens its dashboard.
        target = f"/d/{OBJECT_UID}?var-namespace=${{__data.fields.namespace}}&var-name=${{__value.raw}}"
        link = DynamicConfigValue(id_val="links", value=[{"title": "Show the object", "url": target}])
        made = (
            table.Panel()
            .show_header(True)
            .override_by_name("name", [link])
            .transformations(
                [
                    DataTransformerConfig(id_val="merge", options={}),
                    DataTransformerConfig(
                        id_val="organize", options={"excludeByName": {"Time": True}, "renameByName": names}
                    ),
                ]
            )
        )
    else:
        made = timeseries.Panel().fill_opacity(10).legend(common.VizLegendOptions().show_legend(True))
        made.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        if panel.kind == "steps":
            made.line_interpolation(LineInterpolation.STEP_AFTER)
        if panel.kind == "stack":
            made.draw_style(GraphDrawStyle.LINE).fill_opacity(40)
            made.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    made.title(panel.title).description(panel.about).datasource(_SOURCE).unit(panel.unit)
    made.span(panel.span).height(_HEIGHT if panel.kind != "stat" else _HEIGHT // 2)
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        asked = prometheus.Dataquery().ref_id(letter).expr(query.expr).legend_format(query.legend).datasource(_SOURCE)
        if panel.kind == "table":
            asked.format(PromQueryFormat.TABLE)
        made.with_target(asked.instant() if panel.kind in {"stat", "table"} else asked.range())
    return made


def _namespaces(*, multi: bool) -> dashboard.QueryVariable:
    made = _variable("namespace", "Namespace", "label_values(cronhpa_object_info, namespace)")
    if not multi:
        return made
    everything = VariableOption(selected=True, text="All", value="$__all")
    return made.multi(True).include_all(True).all_value(".*").current(everything)


def _names() -> dashboard.QueryVariable:
    return _variable("name", "Object", 'label_values(cronhpa_object_info{namespace="$namespace"}, name)')


def _variable(name: str, label: str, query: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(_SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def _json(made: dashboard.Dashboard) -> str:
    return json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(made.build())), indent=1, sort_keys=True) + "\n"
