"""Named sources with real components: a Prometheus that scrapes, and HTTP servers at the IPs of the cluster's pods."""

import pytest
import yaml

from testbed.control_plane import ControlPlane
from testbed.loads import Constant
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.pod_pages import INGRESS_METRIC, METRIC, PodPages
from testbed.prometheus_server import PrometheusServer
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = pytest.mark.long  # a control plane of its own, and its first run builds Prometheus

NETWORK = "127.64.0.0/10"
IN_FLIGHT = {"type": "Pods", "pods": {
    "metric": {"name": "inflight"}, "target": {"type": "AverageValue", "averageValue": "10"},
}}  # fmt: skip
REQUESTS = {"type": "External", "external": {
    "metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "10"},
}}  # fmt: skip


@pytest.fixture(scope="module")
def plane():
    with ControlPlane(pod_network=NETWORK) as made:
        made.install_chart()
        yield made


@pytest.fixture(scope="module")
def pages(plane):
    with Plant(plane.admin_kubeconfig) as plant, PodPages(plant) as made:
        yield made


@pytest.fixture(scope="module")
def prometheus(pages):
    with PrometheusServer({"ingress": f"127.0.0.1:{pages.port}"}) as made:
        yield made


@pytest.fixture(scope="module")
def file(tmp_path_factory, pages, prometheus):
    path = tmp_path_factory.mktemp("sources") / "sources.yaml"
    write(path, pages, prometheus.url)
    return path


def write(path, pages, url, query=INGRESS_METRIC):
    joined = {"namespace": "namespace", "target": "deployment"}
    stated = {
        "inflight": {"pods": {"port": pages.port, "metric": METRIC, "podNetworks": [NETWORK]}},
        "requests": {"prometheus": {"url": url, "query": query, "join": joined, "maxAgeSeconds": 10}},
    }
    path.write_text(yaml.safe_dump({"sources": stated}))


@pytest.fixture(scope="module")
def operator(plane, file, tmp_path_factory):
    kubeconfig = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    with Operator(kubeconfig, tmp_path_factory.mktemp("operator"), sources=str(file)) as made:
        yield made


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("metric", [IN_FLIGHT, REQUESTS], ids=["pods", "prometheus"])
def test_a_source_scales_up_and_down(plane, pages, metric, request):
    """10 a pod: 58 need 6 pods, 18 need 2."""
    name = f"web-{request.node.callspec.id}"
    pages.loads["default", name] = Constant(58)
    shop = Scaled(plane, "default", name, replicas=2, metrics=[metric])

    shop.reaches(6)
    wait_until(lambda: shop.ready, lambda ready: ready == 6)
    pages.loads["default", name] = Constant(18)
    shop.reaches(2)


@pytest.mark.usefixtures("operator")
def test_a_file_that_changes_is_followed_and_a_broken_one_changes_nothing(plane, pages, file, prometheus, operator):
    pages.loads["default", "changed"] = Constant(38)
    shop = Scaled(plane, "default", "changed", replicas=2, metrics=[REQUESTS])
    shop.reaches(4)

    file.write_text("sources: {requests: {prometheus: {query: 'up{a=$b}'}}}")
    wait_until(lambda: "cronhpa_sources_broken 1.0" in operator.get("/metrics"))
    pages.loads["default", "changed"] = Constant(58)
    shop.reaches(6)

    # Twice as much as the ingress says.
    write(file, pages, prometheus.url, f"{INGRESS_METRIC} * 2")
    shop.reaches(12)
    assert "the former ones stay in force" in operator.log.read_text()


@pytest.mark.usefixtures("operator")
def test_a_prometheus_that_is_gone_holds_the_count_and_is_told_of(plane, pages, file, prometheus):
    write(file, pages, prometheus.url)
    pages.loads["default", "held"] = Constant(38)
    shop = Scaled(plane, "default", "held", replicas=2, metrics=[REQUESTS])
    shop.reaches(4)

    write(file, pages, "http://127.0.0.1:9")
    message = shop.says("ScalingActive", "False", "FailedGetExternalMetric")

    assert "source requests: it cannot be reached: Connection refused" in message
    assert 4 == shop.replicas
