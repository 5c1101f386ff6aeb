"""
Every alert fires once: the real operator on a real control plane, scraped by a real Prometheus as the chart says.

The rules are those of deploy/monitoring with waits of seconds. What a forecast needs weeks for (a budget that is spent,
an evaluation that it fails) stands in the operator's store before it starts.
"""

import signal
import time

import pytest

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.forecast import Forecast, TrackRecord
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, format_instant, to_datetime
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.forecasting.messages import MODEL, digest
from cronhpa.history.database.series import Series
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.load.spend import Spend
from cronhpa.history.store import Store
from testbed.control_plane import rendered_chart
from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.prometheus import running
from testbed.wait import wait_until

pytestmark = pytest.mark.long

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
NO_SUCH = {"type": "External", "external": {"metric": {"name": "none"}, "target": {"type": "Value", "value": 1}}}
# Cores of all pods of a target together: each asks for one core and is full at half of it.
LOADS = {"maxed": 9.0, "mismatch": 2.0, "two": 0.5, "override": 0.5, "full": 0.5, "spent": 0.5, "blurred": 0.5}
FORECAST = {"forecast": {"budgetPercent": 5}}
FIRED = {
    ("CronHPAMaxedOut", "maxed"),
    ("CronHPAReplicasMismatch", "mismatch"),
    ("CronHPANotReady", "lost"),
    # Its scale cannot be written, and its condition says so.
    ("CronHPANotReady", "mismatch"),
    ("CronHPANoMetrics", "blind"),
    ("CronHPAFallbackActive", "fallen"),
    ("CronHPANoMetrics", "fallen"),
    ("CronHPATwoOwners", "two"),
    ("CronHPAWindowNotReadyAtStart", "window"),
    ("CronHPAEventShort", "sale"),
    ("CronHPAOverrideEndsSoon", "override"),
    ("CronHPAOverrideEndsSoon", "full"),
    ("CronHPAForecastBudgetSpent", "spent"),
    ("CronHPAForecastWorseThanReactive", "blurred"),
}


def wall(instant):
    return f"{to_datetime(instant):%Y-%m-%dT%H:%M}"


def specs(now):
    """By name. The window opens with the next minute, or the one after it."""
    opens = (now + 20 * SECOND) // MINUTE * MINUTE + MINUTE
    window = {"name": "rush", "from": wall(opens), "to": wall(opens + HOUR), "minReplicas": 3, "leadTimeSeconds": 0}
    day = {"name": "day", "start": "0 0 * * *", "end": "59 23 * * *", "maxReplicas": 9}
    override = {"minReplicas": 2, "until": format_instant(now + 10 * MINUTE), "reason": "INC-4711"}
    return {
        "maxed": {"metrics": [CPU], "maxReplicas": 3},
        "mismatch": {"metrics": [CPU]},
        "lost": {"metrics": [CPU]},
        "blind": {"metrics": [NO_SUCH]},
        "fallen": {"metrics": [NO_SUCH], "fallback": {"replicas": 3, "afterSeconds": 0}},
        "two": {"metrics": [CPU]},
        "window": {"schedules": [window]},
        "override": {"metrics": [CPU], "override": override},
        "full": {"metrics": [CPU], "schedules": [day], "override": override, **FORECAST},
        "spent": {"metrics": [CPU], **FORECAST},
        "blurred": {"metrics": [CPU], **FORECAST},
    }


def cronhpa(name, namespace, spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    usual = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "syncPeriodSeconds": 1}
    return {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "CronHPA",
        "metadata": {"name": name, "namespace": namespace},
        "spec": usual | spec,
    }


def sale(namespace, now):
    """An event that starts in less than ten minutes and asks `maxed` for more than its maximum of 3."""
    start = now + 8 * MINUTE
    window = {"name": "doors", "from": wall(start), "to": wall(start + HOUR), "minReplicas": 12, "leadTimeSeconds": 0}
    return {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "PlannedEvent",
        "metadata": {"name": "sale", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"event": "sale"}}, "reason": "a sale", "schedules": [window]},
    }


def refusing(name, namespace):
    """A policy that lets nobody scale a Deployment of this name."""
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments/scale"]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {"expression": f"request.name != '{name}' || request.namespace != '{namespace}'", "message": "no"}
            ],
        },
    }
    binding = {
        "apiVersion": policy["apiVersion"],
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {"policyName": namespace, "validationActions": ["Deny"]},
    }
    return policy, binding


def learn(path, objects, now):
    """
    What weeks have taught: a forecast of each, one whose budget is spent, one whose quantiles do not hold.

    Their fit is of this day and cannot be read, so that the forecasts stay.
    """
    store = Store(path)
    for name in ("full", "spent", "blurred"):
        body = objects[name]
        series = Series(body["metadata"]["namespace"], name, "cpu")
        options = ControllerOptions(sync_period=SECOND)
        fit_info = FitInfo(now, digest(parse_spec(body["spec"], series.namespace, options)))
        assert store.fits.save(Fit(MODEL, now - SECOND, now - HOUR, b"no fit"), {series: fit_info}) is None
        forecast = Forecast(
            metric="cpu", issued_at=now + 5 * MINUTE, start=now - HOUR, step=5 * MINUTE, load=(1.0,) * 72, ceiling=9.0,
            model="made", quantile_percent=90, trained_until=now, track_record=TrackRecord(30, 60, 4.0, 7),
            coverage_percent=40 if name == "blurred" else None,
        )  # fmt: skip
        assert store.forecasts.save([(series, forecast)]) is None
    spent = Series(series.namespace, "spent", "cpu")
    hour = now // HOUR
    # A pod more than without the forecast in each hour of a day: of a week of one pod a seventh.
    assert store.spend.add([Spend(spent, hour - back, 3600.0, 3600.0) for back in range(1, 25)]) is None
    store.close()


def scraping(operator, rules):
    """Prometheus as the chart's ServiceMonitor and PrometheusRule set it up."""
    rendered = rendered_chart(values={"serviceMonitor": {"enabled": True}})
    monitor = next(manifest for manifest in rendered if manifest["kind"] == "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    targets = {"targets": [f"127.0.0.1:{operator.ports[0]}"], "labels": {"namespace": NAMESPACE}}
    job = {"job_name": "cronhpa", "metrics_path": endpoint["path"], "static_configs": [targets]}
    job["honor_labels"] = endpoint["honorLabels"]
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [job],
    }


@pytest.fixture(scope="module")
def made(control_plane, _lasting_plant, scripts, tmp_path_factory):
    """The objects, the operator and the Prometheus: one of each for all tests of this file."""
    folder, namespace, now = tmp_path_factory.mktemp("alerts"), "alerts", time.time_ns()
    objects = {name: cronhpa(name, namespace, spec) for name, spec in specs(now).items()}
    objects["maxed"]["metadata"]["labels"] = {"event": "sale"}
    learn(folder / "history.db", objects, now)
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    control_plane.apply(*refusing("mismatch", namespace))
    targets = [deployment(name, namespace=namespace, replicas=2) for name in objects if name != "lost"]
    for target in targets:
        if target["metadata"]["name"] == "window":  # no node is like that, so no pod is ready
            target["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/os": "none"}
    control_plane.apply(*targets, horizontal_pod_autoscaler("two", namespace=namespace), *objects.values())
    control_plane.apply(sale(namespace, now))
    for name, load in LOADS.items():
        _lasting_plant.add_target(namespace, {"app": name}, load)
    waits = scripts["rules"].Waits(
        object="2s", maxed="2s", owner="2s", fallback="2s", opened="20s", window="2s", forecast="2s", budget="2s",
        operator="2s", lag="0s", rate="10s", lag_seconds=2.0, keep="1m",
    )  # fmt: skip
    rules = folder / "rules.yaml"
    rules.write_text(scripts["generate"].rules_text(waits))
    account = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    with Operator(account, folder, namespaces=namespace, leader_elect="false") as operator:
        with running(folder, scraping(operator, rules)) as prometheus:
            yield prometheus, operator, namespace
        control_plane.kubectl("delete", "namespace", namespace, "--wait=false")
        control_plane.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", namespace)


def test_every_alert_on_an_object_fires_and_of_no_other_object(made, record_property):
    """At the start pods have no metrics for some seconds, and a step takes a second: only lasting alerts count."""
    prometheus, _, _ = made

    def firing():
        return {alert for alert in prometheus.firing() if "Operator" not in alert[0]}

    wait_until(firing, lambda alerts: alerts == FIRED, within_s=240, every_s=1)
    record_property("told", "\n".join(f"fired: {alert} of {name}" for alert, name in sorted(FIRED)))


def test_a_namespace_is_that_of_the_object_and_of_the_operator_where_it_is_about_none(made):
    prometheus, _, namespace = made
    wait_until(lambda: prometheus.query("cronhpa_object_info"))

    namespaces = {sample["metric"]["namespace"] for sample in prometheus.query("cronhpa_object_info")}
    assert {namespace} == namespaces
    assert [NAMESPACE] == [sample["metric"]["namespace"] for sample in prometheus.query("cronhpa_leader")]
    assert [] == prometheus.query('{exported_namespace!=""}')


def test_every_panel_of_both_dashboards_has_data(made, scripts):
    prometheus, _, namespace = made
    dashboards = scripts["dashboards"]

    def empty():
        return [
            (title, query)
            for rows in (dashboards.FLEET, dashboards.OBJECT)
            for title, query in dashboards.queries(rows)
            if not any(prometheus.query(filled(query, namespace, name)) for name in ("full", "blurred"))
        ]

    assert [] == wait_until(empty, lambda missing: not missing, within_s=60, every_s=2)


def filled(query, namespace, name):
    """As Grafana fills in its variables."""
    return query.replace("$__rate_interval", "10s").replace("$namespace", namespace).replace("$name", name)


def test_an_operator_that_stands_still_lags_and_one_that_is_gone_decides_nothing(made, record_property):
    prometheus, operator, _ = made
    operator.signal(signal.SIGSTOP)
    time.sleep(6)
    operator.signal(signal.SIGCONT)
    wait_until(prometheus.firing, lambda alerts: ("CronHPAOperatorLagging", "") in alerts, within_s=30)

    operator.kill()
    wait_until(prometheus.firing, lambda alerts: ("CronHPAOperatorNotDeciding", "") in alerts, within_s=30)
    record_property("told", "fired: CronHPAOperatorLagging\nfired: CronHPAOperatorNotDeciding")
