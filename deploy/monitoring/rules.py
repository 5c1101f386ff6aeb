"""
Alerts and recording rules over the families of /metrics: the source of rules.yaml and of the chart's PrometheusRule.

A rule is a value; `Waits` holds every duration and threshold, so that a test can have the same rules with short ones.
Only the replica that decides exposes objects. During a handover two replicas may, so objects are aggregated by
namespace and name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cronhpa.api.maxed import MAXED_OUT, PATIENCE
from cronhpa.core.model.instant import MINUTE
from cronhpa.operator.monitoring import families as of
from cronhpa.operator.monitoring.families import Family

# Of kube-state-metrics. Where it is not scraped the alert never fires.
_ALLOCATABLE = 'kube_node_status_allocatable{resource="cpu"}'
_REQUESTED = 'kube_pod_container_resource_requests{resource="cpu"}'
RUNBOOKS = "https://github.com/cronhpa/cronhpa/blob/main/docs/runbooks"
_OBJECT = "{{ $labels.namespace }}/{{ $labels.name }}"


class Waits(NamedTuple):
    """Durations as PromQL writes them. lag_seconds: the 99th percentile from which on decisions are late."""

    object: str = "15m"
    maxed: str = f"{PATIENCE // MINUTE}m"
    owner: str = "5m"
    fallback: str = "1m"
    window: str = "1m"
    opened: str = "5m"
    forecast: str = "1d"
    budget: str = "15m"
    operator: str = "5m"
    lag: str = "10m"
    rate: str = "5m"
    override: str = "15m"
    event: str = "10m"
    calendar: str = "30m"
    lag_seconds: float = 5.0
    keep: str = "10m"


class Alert(NamedTuple):
    """wait: the rule's `for`. keep: its `keep_firing_for`, "" for none."""

    name: str
    expr: str
    wait: str
    severity: str
    summary: str
    description: str
    keep: str = ""


def alerts(waits: Waits | None = None) -> tuple[Alert, ...]:
    waits = waits or Waits()
    active = f"{_by(of.INFO, mode='Active')} == 1"
    return (
        Alert(
            "CronHPAMaxedOut",
            f"{_by(of.DESIRED_REPLICAS)}\nand {_condition(MAXED_OUT, 'True')}",
            waits.maxed,
            "warning",
            f"{_OBJECT} runs at its maximum.",
            "It asks for all {{ $value }} replicas of its maximum in force. If the load rises, no pods are added.",
        ),
        Alert(
            "CronHPAReplicasMismatch",
            f"{_by(of.DESIRED_REPLICAS)} != {_by(of.CURRENT_REPLICAS)}\nand {active}",
            waits.object,
            "warning",
            f"The target of {_OBJECT} does not have the decided replicas.",
            "{{ $value }} replicas are decided, and the target has another number.",
        ),
        Alert(
            "CronHPANotReady",
            f"{_condition('Ready', 'False')}\n"
            f"unless {_condition('TargetOwned', 'False')}\n"
            f"unless {_condition('ScalingActive', 'False')}",
            waits.object,
            "warning",
            f"{_OBJECT} is not ready.",
            "Its condition Ready is False: kubectl cronhpa explain shows the reason.",
        ),
        Alert(
            "CronHPANoMetrics",
            f"{_condition('ScalingActive', 'False')}\nunless {_by(of.CURRENT_REPLICAS)} == 0",
            waits.object,
            "warning",
            f"{_OBJECT} has no metrics.",
            "Its metrics cannot be read. Schedules still act; missing metrics cause no scale-down.",
        ),
        Alert(
            "CronHPAFallbackActive",
            f"{_condition('FallbackActive', 'True')}\nand {active}",
            waits.fallback,
            "warning",
            f"{_OBJECT} is held by its fallback.",
            "A metric has been unknown for longer than fallback.afterSeconds, so fallback.replicas is its least count.",
        ),
        Alert(
            "CronHPATwoOwners",
            f"{_condition('TargetOwned', 'False')}\nand {active}",
            waits.owner,
            "warning",
            f"Something else scales the target of {_OBJECT}.",
            "An HPA or an older CronHPA has the same target, so this object scales nothing.",
        ),
        Alert(
            "CronHPAWindowNotReadyAtStart",
            f"{_by(of.SCHEDULE_OPEN, 'schedule')} == 1\n"
            f"unless {_by(of.SCHEDULE_OPEN, 'schedule', offset=waits.opened)} == 1\n"
            f"and on (namespace, name) ({_by(of.READY_REPLICAS)} < {_by(of.MIN_REPLICAS)})\n"
            # An object in Preview asks for no pods.
            f"and on (namespace, name) ({active})",
            waits.window,
            "warning",
            f"The window {{{{ $labels.schedule }}}} of {_OBJECT} is open, and its pods are not ready.",
            "Minutes after the window opened, fewer pods are ready than the minimum in force.",
            keep=waits.keep,
        ),
        Alert(
            "CronHPAEventShort",
            f"{_by(of.EVENT_SHORT)} > 0\n"
            f"and {_by(of.EVENT_EDGE, state='Open')} - time() < {_seconds(waits.event)}",
            "0s",
            "warning",
            "The planned event {{ $labels.name }} starts within ten minutes, and its pods do not fit.",
            "maxReplicas of objects keeps {{ $value }} replicas from it.",
        ),
        Alert(
            "CronHPAEventLacksNodes",
            f"{_by(of.EVENT_CPU)} > on () group_left ()\n"
            f"(sum({_ALLOCATABLE}) - sum({_REQUESTED}))\n"
            f"and {_by(of.EVENT_EDGE, state='Open')} - time() < {_seconds(waits.event)}",
            "0s",
            "warning",
            "The planned event {{ $labels.name }} starts within ten minutes, and the nodes lack room for its pods.",
            "Its pods request {{ $value }} cores more, and less is free on all nodes together.",
        ),
        Alert(
            "CronHPAOverrideEndsSoon",
            f"{_by(of.OVERRIDE_END)} - time() < {_seconds(waits.override)}",
            "0s",
            "info",
            f"The override of {_OBJECT} ends in {{{{ $value | humanizeDuration }}}}.",
            "After that, schedules, metrics and the spec decide again.",
        ),
        Alert(
            "CronHPAForecastBudgetSpent",
            f'{_by(of.FORECAST_ABSTAINING, reason="BudgetSpent")} == 1',
            waits.budget,
            "info",
            f"The forecast of {_OBJECT} has spent its budget and asks for no pods.",
            "It added more pod-hours than budgetPercent allows. Metrics and schedules go on.",
        ),
        Alert(
            "CronHPAForecastWorseThanReactive",
            f'{_by(of.FORECAST_ABSTAINING, "reason", reason=("CoverageLost", "NothingToGain"))} == 1',
            waits.forecast,
            "info",
            f"The forecast of {_OBJECT} is no better than scaling by its metrics alone ({{{{ $labels.reason }}}}).",
            "It asks for no pods, because its evaluation on past days shows no benefit.",
        ),
        Alert(
            "CronHPACalendarStale",
            f'min by (job, namespace, calendar) ({of.CALENDAR_UP.name}) == 0\n'
            f'or label_replace(max by (job, namespace) ({of.CALENDARS_BROKEN.name}) == 1, "calendar", "all", "", "")',
            waits.calendar,
            "warning",
            "The calendar {{ $labels.calendar }} cannot be read.",
            "Objects that name it go by what was read last; if it was never read, nothing but a cap scales them down.",
        ),
        Alert(
            "CronHPAOperatorNotDeciding",
            f"sum by (job, namespace) ({of.LEADER.name}) == 0\n"
            f"or absent({of.LEADER.name}) == 1\n"
            f"or sum by (job, namespace) ({of.SHARDS_SERVED.name}) < max by (job, namespace) ({of.SHARDS.name})\n"
            f"or (sum by (job, namespace) (rate({of.RECONCILIATIONS.name}[{waits.rate}])) == 0\n"
            f"and sum by (job, namespace) ({of.OBJECTS.name}) > 0)",
            waits.operator,
            "critical",
            "Nobody decides for CronHPA objects.",
            "No replica leads, no replica serves one of the shards, none is scraped, or no decision is made.",
        ),
        Alert(
            "CronHPAOperatorLagging",
            f"{_lag_quantile(waits.rate)} > {waits.lag_seconds:g}",
            waits.lag,
            "warning",
            "Decisions come {{ $value | humanizeDuration }} late.",
            "One in a hundred decisions is at least this late. No decision is lost.",
        ),
    )  # fmt: skip


def recordings(waits: Waits | None = None) -> tuple[tuple[str, str], ...]:
    """(name, expression): level:metric:operation, as Prometheus recommends."""
    rate = (waits or Waits()).rate
    return (
        ("job_namespace:cronhpa_decision_lag_seconds:p99_rate", _lag_quantile(rate)),
        ("namespace:cronhpa_object_desired_replicas:sum", f"sum by (namespace) ({_by(of.DESIRED_REPLICAS)})"),
        ("namespace:cronhpa_object_current_replicas:sum", f"sum by (namespace) ({_by(of.CURRENT_REPLICAS)})"),
        (
            "namespace_name:cronhpa_object_under_provisioned:ratio_rate",
            f"max by (namespace, name) (rate({of.UNDER_PROVISIONED.name}[{rate}]))",
        ),
        (
            "namespace_name:cronhpa_object_saturation:ratio",
            f"{_by(of.DESIRED_REPLICAS)} / {_by(of.MAX_REPLICAS)}",
        ),
    )


def groups(waits: Waits | None = None) -> dict[str, Any]:
    """The rule groups of a rule file."""
    recorded = [{"record": name, "expr": expr} for name, expr in recordings(waits)]
    return {
        "groups": [
            {"name": "cronhpa.recordings", "rules": recorded},
            {"name": "cronhpa.alerts", "rules": [_rule(alert) for alert in alerts(waits)]},
        ]
    }


def _rule(alert: Alert) -> dict[str, Any]:
    kept = {"keep_firing_for": alert.keep} if alert.keep else {}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.wait,
        **kept,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{RUNBOOKS}/{alert.name}.md",
        },
    }


def _by(family: Family, *labels: str, offset: str = "", **wanted: str | tuple[str, ...]) -> str:
    """The largest value of an object's family, by namespace, name and these labels."""
    matchers = ", ".join(
        f'{key}="{value}"' if isinstance(value, str) else f'{key}=~"{"|".join(value)}"' for key, value in wanted.items()
    )
    selected = family.name + (f"{{{matchers}}}" if matchers else "") + (f" offset {offset}" if offset else "")
    return f"max by ({', '.join(('namespace', 'name', *labels))}) ({selected})"


def _condition(kind: str, status: str) -> str:
    return f"{_by(of.CONDITION, type=kind, status=status)} == 1"


def _lag_quantile(rate: str) -> str:
    name = f"{of.DECISION_LAG.name}_bucket"
    return f"histogram_quantile(0.99, sum by (job, namespace, le) (rate({name}[{rate}])))"


def _seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[duration[-1]]
