"""KEDA ScaledObjects: the same bounds at every time, and no zero that KEDA would not have."""

from datetime import UTC, datetime

import pytest

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.instant import from_datetime
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules.bounds import resolve
from migration.reading import converted, only, remarks


def scaled_object(triggers, *, annotations="", status="", **fields):
    lines = "".join(f"\n  {key}: {value}" for key, value in fields.items())
    metadata = f"{{name: shop, namespace: prod, annotations: {{{annotations}}}}}"
    return (
        f"apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {metadata}\n"
        f"spec:\n  scaleTargetRef: {{name: shop}}{lines}\n  triggers: [{triggers}]\n{status}"
    )


def cron(start="0 8 * * *", end="0 18 * * *", replicas=10):
    return f'{{type: cron, metadata: {{timezone: UTC, start: {start}, end: {end}, desiredReplicas: "{replicas}"}}}}'


CPU = '{type: cpu, metricType: Utilization, metadata: {value: "60"}}'
PROMETHEUS = '{type: prometheus, metadata: {query: up, serverAddress: "http://p.monitoring", threshold: "5"}}'
MYSQL = '{type: mysql, metadata: {query: SELECT 1, queryValue: "5"}}'


BEHAVIOR = (
    "{restoreToOriginalReplicaCount: true, "
    "horizontalPodAutoscalerConfig: {name: own, behavior: {scaleUp: {selectPolicy: Min}}}}"
)


def bounds(manifest, hour):
    """The bounds that hold on 2 October 2026 at an hour of UTC."""
    spec = parse_spec(manifest["spec"], "prod", ControllerOptions())
    resolved = resolve(spec, from_datetime(datetime(2026, 10, 2, hour, tzinfo=UTC)))
    return resolved.minimum, resolved.maximum


def test_a_cron_trigger_is_a_window_whose_floor_lies_within_the_bounds():
    """KEDA's floor is a metric: minReplicaCount raises it, maxReplicaCount clips it."""
    triggers = ", ".join([CPU, cron(), cron("0 20 * * *", "0 6 * * *", 50), cron("0 6 * * *", "0 7 * * *", 1)])

    conversion = converted(scaled_object(triggers, minReplicaCount=2, maxReplicaCount=30))

    assert [10, 30, 2] == [schedule["minReplicas"] for schedule in only(conversion)["schedules"]]
    assert {12: (10, 30), 19: (2, 30), 5: (30, 30), 6: (2, 30)} == {
        hour: bounds(conversion.manifests[0], hour) for hour in (12, 19, 5, 6)
    }
    assert () == conversion.remarks


def test_a_window_of_no_pods_keeps_one_as_keda_does_and_says_so():
    """Found: two crons, one with desiredReplicas "0" at night, became at least 1 without a word."""
    night = cron("0 18 * * *", "0 8 * * *", 0)

    conversion = converted(scaled_object(f"{cron()}, {night}"))

    assert {12: (10, 100), 19: (1, 100)} == {hour: bounds(conversion.manifests[0], hour) for hour in (12, 19)}
    assert "write replicas: 0" in remarks(conversion)["spec.triggers[1].metadata.desiredReplicas"].meaning


def test_cron_alone_sleeps_outside_of_its_windows():
    conversion = converted(scaled_object(cron()))

    assert "metrics" not in only(conversion)
    assert {12: (10, 100), 19: (0, 100)} == {hour: bounds(conversion.manifests[0], hour) for hour in (12, 19)}


def test_cpu_does_not_keep_it_awake_outside_of_the_windows():
    """KEDA does not take cpu for activity: outside of cron it is 0, however busy the pods are."""
    conversion = converted(scaled_object(f"{CPU}, {cron()}", maxReplicaCount=20))

    assert {12: (10, 20), 19: (0, 0)} == {hour: bounds(conversion.manifests[0], hour) for hour in (12, 19)}
    assert () == conversion.remarks


def test_an_idle_count_is_what_holds_outside_of_the_windows():
    conversion = converted(scaled_object(cron(replicas=1), idleReplicaCount=0, minReplicaCount=4))

    assert {12: (4, 100), 19: (0, 100)} == {hour: bounds(conversion.manifests[0], hour) for hour in (12, 19)}


def test_another_idle_count_than_zero_is_named():
    conversion = converted(scaled_object(cron(), idleReplicaCount=1, minReplicaCount=4))

    assert 4 == only(conversion)["minReplicas"]
    assert "minReplicas holds" in remarks(conversion)["spec.idleReplicaCount"].meaning


def test_without_a_threshold_it_is_kedas_default():
    lag = "{type: kafka, metadata: {topic: t}}"

    spec = only(converted(scaled_object(lag, status="status: {externalMetricNames: [s0-kafka-t]}")))

    assert {"type": "AverageValue", "averageValue": "10"} == spec["metrics"][0]["external"]["target"]


def test_cpu_alone_never_sleeps():
    assert 1 == only(converted(scaled_object(CPU)))["minReplicas"]


def test_an_external_metric_wakes_from_zero():
    spec = only(converted(scaled_object(PROMETHEUS)))

    assert 0 == spec["minReplicas"]
    assert {
        "metric": {"name": "prod-shop-prometheus"},
        "target": {"type": "AverageValue", "averageValue": "5"},
    } == spec["metrics"][0]["external"]


def test_without_the_metric_that_would_wake_it_it_does_not_sleep():
    conversion = converted(scaled_object(f"{MYSQL}, {cron()}, {CPU}"))

    assert {12: (10, 100), 19: (1, 100)} == {hour: bounds(conversion.manifests[0], hour) for hour in (12, 19)}
    assert "kubectl get scaledobject,hpa" in remarks(conversion)["spec.triggers[0]"].meaning
    assert "minReplicas is 1" in remarks(conversion)["spec.minReplicaCount"].meaning


@pytest.mark.parametrize("load", [MYSQL, '{type: cpu, metadata: {value: "60"}}'], ids=["mysql", "cpu of no type"])
def test_windows_are_not_all_that_is_left_of_an_object_that_followed_a_load(load):
    """Found: outside of the windows the count was minReplicaCount, whatever the load."""
    conversion = converted(scaled_object(f"{load}, {cron()}", minReplicaCount=2))

    assert () == conversion.manifests
    assert "windows alone would follow no load" in remarks(conversion)["spec.triggers"].meaning
    assert any(path.startswith("spec.triggers[0]") for path in remarks(conversion))


def test_windows_are_all_that_is_left_of_an_object_of_windows():
    """Of which one cannot be read."""
    conversion = converted(scaled_object(f"{cron(end='0 25 * * *')}, {cron()}"))

    assert {12: (10, 100), 19: (1, 100)} == {hour: bounds(conversion.manifests[0], hour) for hour in (12, 19)}


def test_the_status_says_how_a_metric_is_named():
    spec = only(converted(scaled_object(MYSQL, status="status: {externalMetricNames: [s0-mysql-orders]}")))

    assert "s0-mysql-orders" == spec["metrics"][0]["external"]["metric"]["name"]


def test_the_hpa_that_keda_made_says_it_all_and_is_not_converted_itself():
    conversion = converted(
        scaled_object("{type: kafka, metadata: {topic: t}}")
        + """
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: keda-hpa-shop
  namespace: prod
  ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: shop, uid: a}]
spec:
  maxReplicas: 100
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  metrics: [{type: External, external: {metric: {name: s0-kafka-t}, target: {type: AverageValue, averageValue: "7"}}}]
"""
    )

    external = only(conversion)["metrics"][0]["external"]
    assert ("s0-kafka-t", "7") == (external["metric"]["name"], external["target"]["averageValue"])


def test_a_formula_needs_the_hpa_that_keda_made():
    conversion = converted(
        scaled_object(f"{PROMETHEUS}, {cron()}", advanced="{scalingModifiers: {formula: a + b, target: '2'}}")
    )

    assert () == conversion.manifests
    assert (
        "the formula makes one metric of the triggers"
        == remarks(conversion)["spec.advanced.scalingModifiers.formula"].finding
    )


def test_an_end_on_other_days_than_the_start_is_told_with_dates():
    conversion = converted(scaled_object(cron("0 8 * * 1-5", "0 18 * * *"), minReplicaCount=1))

    remark = remarks(conversion)["spec.triggers[0].metadata.end"]
    assert (
        "between Fri 2026-10-02 18:00 and Sat 2026-10-03 18:00 KEDA is active, because the next edge is an end"
        == remark.finding
    )
    assert "here the window is closed" in remark.meaning
    assert "0 18 * * *" == only(conversion)["schedules"][0]["end"]


@pytest.mark.parametrize(
    ("metadata", "field", "words"),
    [
        ("start: 0 8 * * *, end: 0 9 * * *, desiredReplicas: '2'", "timezone", "there is no timezone"),
        ("timezone: Mars/Base, start: 0 8 * * *, end: 0 9 * * *, desiredReplicas: '2'", "timezone", "Mars/Base"),
        ("timezone: UTC, start: 0 8 * * *, end: 0 25 * * *, desiredReplicas: '2'", "end", "0 25 * * *"),
        ("timezone: UTC, start: 0 8 * * *, end: 0 8 * * *, desiredReplicas: '2'", "end", "both"),
        ("timezone: UTC, start: 0 8 * * *, end: 0 9 * * *", "desiredReplicas", "there is no desiredReplicas"),
    ],
)
def test_a_cron_trigger_that_cannot_be_read_is_left_out_and_its_field_is_named(metadata, field, words):
    """Found: the remark named the trigger alone."""
    conversion = converted(scaled_object(f"{CPU}, {{type: cron, metadata: {{{metadata}}}}}", minReplicaCount=1))

    assert "schedules" not in only(conversion)
    assert words in remarks(conversion)[f"spec.triggers[1].metadata.{field}"].finding


def test_pauses_are_carried_over():
    paused = 'autoscaling.keda.sh/paused: "true"'
    scale_in = 'autoscaling.keda.sh/paused-scale-in: "true"'

    assert "Preview" == only(converted(scaled_object(CPU, annotations=paused)))["mode"]
    assert {"scaleDown": {"selectPolicy": "Disabled"}} == only(converted(scaled_object(CPU, annotations=scale_in)))[
        "behavior"
    ]


def test_what_has_no_counterpart_is_named_field_by_field():
    conversion = converted(
        scaled_object(
            PROMETHEUS,
            annotations='autoscaling.keda.sh/paused-replicas: "3"',
            pollingInterval=10,
            cooldownPeriod=60,
            fallback="{failureThreshold: 3, replicas: 6}",
            advanced=BEHAVIOR,
        )
    )

    assert {
        "metadata.annotations[autoscaling.keda.sh/paused-replicas]",
        "spec.advanced.restoreToOriginalReplicaCount",
        "spec.pollingInterval",
        "spec.cooldownPeriod",
        "spec.fallback",  # KEDA would also scale down to it
        "spec.triggers[0].metadata.ignoreNullValues",
    } == set(remarks(conversion))
    assert {"scaleUp": {"selectPolicy": "Min"}} == only(conversion)["behavior"]


def test_an_object_without_a_target_makes_no_manifest():
    """Found: scaleTargetRef.deploymentName, of KEDA 1, became a CronHPA of the target ""."""
    conversion = converted(
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: shop}\n"
        "spec: {scaleTargetRef: {deploymentName: shop}, "
        "triggers: [{type: cpu, metadata: {type: Utilization, value: '50'}}]}\n"
    )

    assert () == conversion.manifests
    assert "name the target" in str(conversion.remarks[0])


@pytest.mark.parametrize(
    ("fallback", "polls", "expected", "is_told"),
    [
        ("{failureThreshold: 3, replicas: 6}", 10, {"replicas": 6, "afterSeconds": 30}, True),  # KEDA also lowers
        (
            "{failureThreshold: 3, replicas: 6, behavior: currentReplicasIfHigher}",
            None,  # every 30 s
            {"replicas": 6, "afterSeconds": 90},
            False,
        ),
        ("{failureThreshold: 3, replicas: 6, behavior: currentReplicas}", None, None, False),
        ("{failureThreshold: 3, replicas: 6, behavior: currentReplicasIfLower}", None, None, True),
        ("{failureThreshold: 3, replicas: 0}", None, None, True),
        ("{failureThreshold: 100000, replicas: 5000}", None, {"replicas": 100, "afterSeconds": 86_400}, True),
    ],
)
def test_a_fallback_becomes_a_floor_where_it_means_one(fallback, polls, expected, is_told):
    conversion = converted(
        scaled_object(PROMETHEUS, fallback=fallback, **({"pollingInterval": polls} if polls else {}))
    )

    assert expected == only(conversion).get("fallback")
    assert is_told is ("spec.fallback" in remarks(conversion))


def test_a_fallback_of_cpu_alone_is_left_out():
    conversion = converted(scaled_object(CPU, fallback="{failureThreshold: 3, replicas: 6}"))

    assert "fallback" not in only(conversion)
    assert "spec.fallback" in remarks(conversion)
