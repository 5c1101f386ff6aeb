"""HorizontalPodAutoscalers of all versions."""

import pytest
import yaml

from migration.reading import MANIFESTS, converted, only, remarks

CPU_80 = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
]


def test_v2_is_taken_as_it_is_without_what_the_cluster_wrote():
    source = yaml.safe_load((MANIFESTS / "hpa-v2.yaml").read_text())

    conversion = converted("hpa-v2.yaml")

    manifest = conversion.manifests[0]
    assert source["spec"] == manifest["spec"]
    assert {
        "name": "shop",
        "namespace": "prod",
        "labels": {"app": "shop", "tier": "web"},
        "annotations": {"team": "checkout"},
    } == manifest["metadata"]
    assert () == conversion.remarks


def test_v1_has_its_metrics_and_behavior_in_annotations():
    spec = converted("hpa-v1.yaml").manifests[0]["spec"]

    names = [next(iter(metric.keys() - {"type"})) for metric in spec["metrics"]]
    assert ["resource", "resource", "pods", "object", "external", "containerResource"] == names
    assert {"type": "Utilization", "averageUtilization": 60} == spec["metrics"][0]["resource"]["target"]
    assert {
        "metric": {"name": "queue", "selector": {"matchLabels": {"queue": "orders"}}},
        "target": {"type": "AverageValue", "averageValue": "30"},
    } == spec["metrics"][4]["external"]
    assert {
        "stabilizationWindowSeconds": 120,
        "selectPolicy": "Min",
        "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}],
    } == spec["behavior"]["scaleDown"]


def test_the_default_of_the_upstream_is_written_out():
    spec = converted("hpa-v1.yaml").manifests[1]["spec"]

    assert (1, CPU_80) == (spec["minReplicas"], spec["metrics"])


def test_v2beta1_has_its_targets_in_words_of_its_own():
    spec = converted("hpa-v1.yaml").manifests[2]["spec"]

    assert {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}} == spec["metrics"][0][
        "resource"
    ]


def test_who_owns_it_would_make_it_again():
    conversion = converted("""
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {name: shop, ownerReferences: [{apiVersion: example.com/v1, kind: App, name: shop, uid: a}]}
        spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}}
        """)

    assert "App shop owns this object" == remarks(conversion)["metadata.ownerReferences"].finding


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            "maxReplicas: 1, minReplicas: 3",
            "found maxReplicas 1 and minReplicas 3: maxReplicas must not be below minReplicas",
        ),
        ("minReplicas: 3", "there is no maxReplicas"),
        ("maxReplicas: many", "'many'"),
        ("maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu}}]", "spec.metrics[0].resource.target"),
    ],
)
def test_what_the_api_server_would_refuse_is_not_made(fields, words):
    conversion = converted(f"""
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {{name: shop}}
        spec: {{scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: shop}}, {fields}}}
        """)

    assert () == conversion.manifests
    assert words in str(conversion.remarks[0])


def test_a_field_that_nobody_knows_is_named():
    conversion = converted("""
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {name: shop}
        spec: {maxReplicas: 3, paused: true, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}}
        """)

    assert "paused" not in only(conversion)
    assert "found a field that is not known here" == remarks(conversion)["spec.paused"].finding


@pytest.mark.parametrize(
    ("annotations", "metric", "words"),
    [
        (
            "{metric-config.pods.rps.json-path/port: '9090'}",
            "rps",
            "kube-metrics-adapter serves this metric only while",
        ),
        ("{}", "datadogmetric@prod:hits", "Datadog asks for DatadogMetric prod/hits only while an HPA names it"),
    ],
)
def test_a_metric_that_goes_with_the_hpa_is_named(annotations, metric, words):
    conversion = converted(
        f"""
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {{name: shop, annotations: {annotations}}}
        spec:
          scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: shop}}
          maxReplicas: 3
          metrics: [{{type: External, external: {{metric: {{name: "{metric}"}}, target: {{type: Value, value: "5"}}}}}}]
        """
    )

    (remark,) = conversion.remarks
    assert words in remark.finding
    assert "metric source of the operator" in remark.meaning
    assert "annotations" not in conversion.manifests[0]["metadata"]


def test_fields_without_a_value_are_absent_as_for_the_api_server():
    """Found: templates leave such fields, and the conversion called an HPA that runs one that would be refused."""
    conversion = converted("""
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {name: shop}
        spec:
          scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
          minReplicas:
          maxReplicas: 10
          metrics:
          behavior: {scaleUp: , scaleDown: {selectPolicy: , policies: [{type: Pods, value: 1, periodSeconds: 60}]}}
        """)

    assert () == conversion.remarks
    assert {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}} == only(conversion)[
        "behavior"
    ]


def test_decimal_numbers_are_quantities_as_for_the_api_server():
    """Found: 0.5 without quotes, which the API server reads as a quantity, was called one that it refuses."""
    conversion = converted("""
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {name: shop}
        spec:
          scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
          maxReplicas: 10
          metrics: [{type: Pods, pods: {metric: {name: x}, target: {type: AverageValue, averageValue: 0.5}}}]
          behavior: {scaleDown: {tolerance: 0.05}}
        """)

    (metric,) = only(conversion)["metrics"]
    assert ("0.5", "0.05") == (
        metric["pods"]["target"]["averageValue"],
        only(conversion)["behavior"]["scaleDown"]["tolerance"],
    )
