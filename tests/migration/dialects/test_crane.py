"""Crane EffectiveHorizontalPodAutoscalers."""

from migration.reading import converted, only, remarks

OBJECT = """
    apiVersion: autoscaling.crane.io/v1alpha1
    kind: EffectiveHorizontalPodAutoscaler
    metadata: {name: shop, namespace: prod}
    spec:
      scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
      maxReplicas: 8
"""


def test_metrics_behavior_and_crons_are_carried_over():
    spec = converted("crane.yaml", zone="Europe/Berlin").manifests[0]["spec"]

    assert {"scaleDown": {"stabilizationWindowSeconds": 600}} == spec["behavior"]
    assert [
        {"name": "day", "start": "0 9 * * *", "end": "0 21 * * *", "timeZone": "Asia/Shanghai", "minReplicas": 20},
        {"name": "night", "start": "0 22 * * *", "end": "0 4 * * *", "timeZone": "Europe/Berlin", "minReplicas": 2},
    ] == spec["schedules"]


def test_a_prediction_is_a_forecast_whose_settings_are_named_as_lost():
    conversion = converted("crane.yaml")

    assert {"mode": "Active"} == conversion.manifests[0]["spec"]["forecast"]
    assert {
        "spec.prediction",
        "metadata.annotations[metric-query.autoscaling.crane.io/http_requests]",
        "spec.crons",
    } <= set(remarks(conversion))


def test_a_prediction_without_a_load_is_no_forecast():
    metric = "{type: External, external: {metric: {name: queue}, target: {type: Value, value: '5'}}}"

    conversion = converted(f"{OBJECT}      metrics: [{metric}]\n      prediction: {{predictionWindowSeconds: 60}}\n")

    assert "forecast" not in only(conversion)
    assert "no metric has a target per pod" == remarks(conversion)["spec.prediction"].finding


def test_preview_with_a_count_leaves_the_count_to_the_user():
    conversion = converted("crane.yaml")

    assert "Preview" == conversion.manifests[1]["spec"]["mode"]
    assert "found 3" == remarks(conversion)["spec.specificReplicas"].finding


def test_without_metrics_and_crons_it_is_the_upstreams_default():
    assert 80 == only(converted(OBJECT))["metrics"][0]["resource"]["target"]["averageUtilization"]


def test_crons_alone_have_no_metric_and_say_what_holds_in_between():
    conversion = converted(
        f"{OBJECT}      crons: [{{name: a, timezone: UTC, start: 0 8 * * *, end: 0 9 * * *, targetReplicas: 5}}]\n"
    )

    assert "metrics" not in only(conversion)
    assert "minReplicas (1) holds" in remarks(conversion)["spec.crons"].meaning


def test_a_cron_that_cannot_be_read_is_left_out_and_named():
    conversion = converted(
        f"{OBJECT}      crons: [{{name: a, timezone: UTC, start: '@every 1h', end: 0 9 * * *, targetReplicas: 5}}]\n"
    )

    assert "schedules" not in only(conversion)
    assert "@every 1h" in remarks(conversion)["spec.crons[0]"].finding
