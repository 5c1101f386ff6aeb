"""Our operator on Pods, Object and External metrics of real aggregated APIs, and what it does when they are gone."""

import time

import pytest

from testbed.plant import CUSTOM, EXTERNAL, Fault
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("operator")

PODS = {"type": "Pods", "pods": {
    "metric": {"name": "job:rps:rate1m", "selector": {"matchLabels": {"verb": "GET"}}},
    "target": {"type": "AverageValue", "averageValue": "10"},
}}  # fmt: skip
SERVICE = {"type": "Object", "object": {
    "metric": {"name": "backlog"}, "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"},
    "target": {"type": "AverageValue", "averageValue": "5"},
}}  # fmt: skip
NAMESPACE = {"type": "Object", "object": {
    "metric": {"name": "sessions"}, "describedObject": {"apiVersion": "v1", "kind": "Namespace", "name": "any"},
    "target": {"type": "AverageValue", "averageValue": "100"},
}}  # fmt: skip
QUEUE = {"type": "External", "external": {
    "metric": {"name": "queue", "selector": {"matchExpressions": [
        {"key": "name", "operator": "In", "values": ["orders", "returns"]},
    ]}},
    "target": {"type": "AverageValue", "averageValue": "30"},
}}  # fmt: skip


@pytest.fixture
def web(control_plane, namespace):
    def make(metric, **settings):
        return Scaled(control_plane, namespace, metrics=[metric], **settings)

    return make


def test_a_pods_metric_scales_up_and_down(web, plant):
    """Target 10 a pod: 60 need 6 pods, 20 need 2. The series of another verb does not count."""
    shop = web(PODS, replicas=2)

    def ask(total):
        plant.set_pods_metric(shop.namespace, shop.labels, "job:rps:rate1m", total, series={"verb": "GET"})

    plant.set_pods_metric(shop.namespace, shop.labels, "job:rps:rate1m", 1000, series={"verb": "POST"})
    ask(60)
    shop.reaches(6)
    ask(20)
    shop.reaches(2)

    assert "Metric/job:rps:rate1m" == shop.decided_by


@pytest.mark.parametrize(
    ("metric", "resource", "name", "unit"),
    [(SERVICE, "services", "front", 5), (NAMESPACE, "namespaces", None, 100)],
    ids=["Service", "Namespace"],
)
def test_an_object_metric_scales_up_and_down(web, plant, metric, resource, name, unit):
    shop = web(metric, replicas=2)
    described = name or shop.namespace
    metric_name = metric["object"]["metric"]["name"]

    plant.set_object_metric(shop.namespace, resource, described, metric_name, 4 * unit)
    shop.reaches(4)
    plant.set_object_metric(shop.namespace, resource, described, metric_name, unit)
    shop.reaches(1)

    assert f"Metric/{metric_name}" == shop.decided_by


def test_an_external_metric_sums_the_series_that_are_meant(web, plant):
    """60 and 30 of the two queues that are meant, over 30 a pod: 3 pods."""
    shop = web(QUEUE, replicas=1)
    for name, length in (("orders", 60), ("returns", 30), ("mails", 3000)):
        plant.set_external_metric(shop.namespace, "queue", length, series={"name": name})

    shop.reaches(3)
    plant.set_external_metric(shop.namespace, "queue", 0, series={"name": "orders"})
    shop.reaches(1)


def test_a_workload_sleeps_while_there_is_no_work_and_wakes_for_it(web, plant):
    shop = web(QUEUE, replicas=1, minReplicas=0)
    plant.set_external_metric(shop.namespace, "queue", 0, series={"name": "orders"})

    shop.reaches(0)
    shop.says("ScaledToZero", "True", "ScaledToZero")
    plant.set_external_metric(shop.namespace, "queue", 60, series={"name": "orders"})

    shop.reaches(2)


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.EMPTY, Fault.GARBAGE])
def test_an_answer_that_says_nothing_changes_nothing(web, plant, fault):
    shop = web(QUEUE, replicas=3)
    plant.set_external_metric(shop.namespace, "queue", 90, series={"name": "orders"})
    shop.says("ScalingActive", "True", "ValidMetricFound")

    with plant.failing(fault, EXTERNAL):
        message = shop.says("ScalingActive", "False", "FailedGetExternalMetric")
        time.sleep(4)  # longer than the stabilization

        assert "external metrics API" in message
        assert 3 == shop.replicas
    shop.says("ScalingActive", "True", "ValidMetricFound")


def test_while_the_apis_are_gone_it_holds_and_says_so(web, plant):
    shop = web(PODS, replicas=4)
    plant.set_pods_metric(shop.namespace, shop.labels, "job:rps:rate1m", 40, series={"verb": "GET"})
    shop.says("ScalingActive", "True", "ValidMetricFound")

    plant.stop_serving()
    message = shop.says("ScalingActive", "False", "FailedGetPodsMetric")
    time.sleep(4)
    held = shop.replicas
    plant.start_serving()
    plant.set_pods_metric(shop.namespace, shop.labels, "job:rps:rate1m", 60, series={"verb": "GET"})

    assert "unable to fetch metrics from custom metrics API" in message
    assert 4 == held
    shop.reaches(6)


def test_of_two_series_of_an_object_none_is_chosen(web, plant, namespace):
    # Before the object is there: a reconciliation between the two would see one series, and rightly act on it.
    for path in ("/a", "/b"):
        plant.set_object_metric(namespace, "services", "front", "backlog", 100, series={"path": path})
    shop = web(SERVICE, replicas=2)

    words = "the custom metrics API server returned 2 results when we asked for exactly one"
    wait_until(lambda: shop.condition("ScalingActive").get("message", ""), lambda message: words in message)
    assert 2 == shop.replicas


def test_kubectl_reads_what_the_plant_was_told(control_plane, plant, web):
    shop = web(PODS, replicas=2)
    wait_until(lambda: shop.ready, lambda seen: seen == 2)
    plant.set_pods_metric(shop.namespace, shop.labels, "job:rps:rate1m", 25, series={"verb": "GET"})

    base = f"/apis/{CUSTOM}/v1beta2/namespaces/{shop.namespace}"
    listed = control_plane.get(f"{base}/pods/*/job:rps:rate1m?labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET")

    assert {"12500m"} == {value["value"] for value in listed["items"]}
