"""
cronhpa.kube.throttles, cronhpa.kube.client: faults between the operator and a real API server.

The operator asks the API server through a proxy that breaks requests. All tests share one operator; each has a target
of its own. 3 cores need 6 pods, 4 cores 8.
"""

import time

import pytest

from testbed.fault_proxy import FaultProxy, Trouble
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("no_operator")

# A fault lasts several reconciliations of a second each, and longer than the stabilization of 3 s.
_FAULT_S = 5.0
SCALE, STATUS = "/scale$", "/cronhpas/.*/status$"
METRICS = "^/apis/metrics.k8s.io/v1beta1/namespaces"


@pytest.fixture(scope="module")
def proxy(control_plane):
    with FaultProxy(control_plane.url, control_plane.ca_file) as opened:
        yield opened


@pytest.fixture(scope="module")
def behind(control_plane, proxy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("behind")
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    with Operator(proxy.kubeconfig(kubeconfig, folder), folder) as operator:
        yield operator


@pytest.fixture
def shop(control_plane, namespace, plant, behind):
    """A target with the six pods that its load needs, looked after by an operator behind the proxy."""
    if not behind.is_running:
        behind.start()
    made = Scaled(control_plane, namespace, replicas=6)
    made.load = plant.add_target(namespace, made.labels, 3.0)
    made.says("ScalingActive", "True", "ValidMetricFound", within_s=40)
    made.settles(6)
    yield made
    assert behind.is_running, behind.tail()
    assert "Traceback" not in behind.log.read_text()


def watched(shop, seconds):
    """The counts of the target during `seconds`."""
    seen, until = set(), time.monotonic() + seconds
    while time.monotonic() < until:
        seen.add(shop.replicas)
        time.sleep(0.1)
    return seen


def status(code, **headers):
    return {"end": "status", "status": code, "headers": headers}


PAGE = {"end": "status", "status": 200, "headers": {"Content-Type": "text/html"}, "body": "<html>sorry</html>"}
EMPTY = {"end": "status", "status": 200, "headers": {"Content-Type": "application/json"}, "body": '{"items": []}'}
HELD = {
    "500 on everything": [Trouble(**status(500), watches=None)],
    "503 on everything": [Trouble(**status(503), watches=None)],
    "401 on everything": [Trouble(**status(401), watches=None)],
    "an HTML page on everything": [Trouble(**PAGE, watches=None)],
    "half of each answer": [Trouble(end="half", watches=None)],
    "each connection is cut": [Trouble(end="reset", watches=None)],
    "no answer to anything": [Trouble(end="hang", watches=None)],
    "half of the metrics": [Trouble(path=METRICS, end="half")],
    "no metrics with 200": [Trouble(path=METRICS, **EMPTY)],
    "a second for each request": [Trouble(delay=1.0)],
}
# The most telling ones, and cheap: the others are for `make test-faults`.
QUICK = {"500 on everything", "no metrics with 200", "each connection is cut"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "troubles",
    [pytest.param(fault, id=name, marks=[] if name in QUICK else pytest.mark.faults) for name, fault in HELD.items()],
)
def test_nothing_falls_while_requests_fail_and_a_step_is_followed_after_it(shop, plant, proxy, troubles):
    """What fell to one core behind a fault is not believed before it is seen; 4 cores are, soon after its end."""
    with proxy.failing(*troubles):
        seen = watched(shop, _FAULT_S)
        plant.set_load(shop.load, 4.0)
    shop.reaches(8, within_s=30)

    assert {6} == seen or ({6, 8} >= seen and troubles[0].end == "")
    assert all(trouble.met for trouble in troubles)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "how"),
    [
        pytest.param(SCALE, status(429, **{"Retry-After": "2"}), id="429 with Retry-After"),
        pytest.param(SCALE, status(429), id="429 without", marks=pytest.mark.faults),
        pytest.param(SCALE, status(403), id="no right to scale", marks=pytest.mark.faults),
        pytest.param(STATUS, status(409), id="a conflict at each status", marks=pytest.mark.faults),
        pytest.param(STATUS, status(500), id="an error at each status", marks=pytest.mark.faults),
    ],
)
def test_a_write_that_is_refused_is_made_after_it(shop, plant, proxy, path, how):
    refused = Trouble(method="PATCH", path=path, **how)
    with proxy.failing(refused):
        plant.set_load(shop.load, 4.0)
        wait_until(lambda: refused.met)
        time.sleep(_FAULT_S)
    shop.reaches(8, within_s=30)


@pytest.mark.slow
def test_a_throttled_write_is_sent_no_sooner_than_asked_and_another_object_does_not_wait(
    control_plane, plant, proxy, shop
):
    """Retry-After: 2 for six seconds: at most four writes, where a reconciliation a second would make six and more."""
    other = Scaled(control_plane, shop.namespace, "other", replicas=2)
    plant.add_target(shop.namespace, other.labels, 1.0)
    other.says("ScalingActive", "True", "ValidMetricFound", within_s=40)
    throttled = Trouble(method="PATCH", path="/deployments/web/scale$", **status(429, **{"Retry-After": "2"}))
    with proxy.failing(throttled):
        plant.set_load(shop.load, 4.0)
        wait_until(lambda: throttled.met, within_s=20)
        begun = time.monotonic()
        other.patch(minReplicas=3)
        other.reaches(3, within_s=20)
        time.sleep(max(6 - (time.monotonic() - begun), 0))
        met, took = throttled.met, time.monotonic() - begun

    assert met <= took / 2 + 2
    shop.reaches(8, within_s=30)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, pytest.param(3, marks=pytest.mark.faults)])
def test_a_lost_answer_of_a_scale_write_doubles_no_step(control_plane, shop, plant, proxy, lost):
    """Two pods in 60 s: the write succeeds and its answer is lost, several times. One step is made, not two."""
    policy = {"type": "Pods", "value": 2, "periodSeconds": 60}
    shop.patch(behavior={"scaleUp": {"policies": [policy], "stabilizationWindowSeconds": 0}})
    trouble = Trouble(method="PATCH", path=SCALE, end="reset", passed_on=True, times=lost)
    with proxy.failing(trouble):
        plant.set_load(shop.load, 8.0)
        shop.reaches(8)
        seen = watched(shop, _FAULT_S)

    assert trouble.met
    assert {8} == seen


@pytest.mark.faults
def test_a_conflict_is_read_anew_and_a_persons_count_is_not_overwritten(shop, plant, proxy):
    """Each second write is refused as if somebody had written meanwhile; then somebody really does."""
    with proxy.failing(*(Trouble(method="PATCH", path=SCALE, **status(409), times=1) for _ in range(2))):
        plant.set_load(shop.load, 4.0)
        shop.reaches(8, within_s=30)
    shop.scale_by_hand(7)

    shop.reaches(8, within_s=30)


@pytest.mark.faults
def test_a_partition_of_20_s_lowers_nothing_and_a_step_is_followed_after_it(shop, plant, proxy):
    proxy.cut()
    seen = watched(shop, 20)
    plant.set_load(shop.load, 4.0)
    proxy.mend()

    assert {6} == seen
    shop.reaches(8, within_s=80)


# What is done behind a watch that is silent, and the count that follows from it: eight pods were made behind it before.
BEHIND = {
    "/api/v1/pods": (lambda shop, plant: plant.set_load(shop.load, 1.0), 2),
    "/apis/apps/v1/deployments": (lambda shop, _: shop.scale_by_hand(5), 8),
    "/apis/cronhpa.io/v1alpha1/cronhpas": (lambda shop, _: shop.patch(maxReplicas=7), 7),
}


@pytest.mark.faults
@pytest.mark.parametrize("path", BEHIND)
def test_a_watch_that_falls_silent_is_followed_within_135_s(shop, plant, proxy, path):
    """
    Not a byte comes, bookmarks neither, and the connection stays open. The informer lists again; kopf, which watches
    the CronHPA objects, goes on behind the last version that it has seen.
    """
    do, replicas = BEHIND[path]
    with proxy.frozen_watches(f"{path}$"):
        time.sleep(2)
        plant.set_load(shop.load, 4.0)
        wait_until(lambda: shop.ready, lambda seen: seen == 8, within_s=100)
        requests_before = len(proxy.asked)
        do(shop, plant)
        if not path.endswith("cronhpas"):
            wait_until(lambda: path in {asked for _, _, asked, _ in proxy.asked[requests_before:]}, within_s=145)
        shop.reaches(replicas, within_s=145)


@pytest.mark.faults
def test_the_api_server_is_away_for_a_while(control_plane, shop, plant, behind):
    """Ten seconds, in which the load rises: nothing falls, nothing ends, and the step is followed after it."""
    control_plane.components["kube-apiserver"].kill()
    plant.set_load(shop.load, 4.0)
    time.sleep(10)
    control_plane.restart("kube-apiserver")

    shop.reaches(8, within_s=40)
    assert "ok\n" == behind.probe()


NARROW = 20_000


@pytest.mark.faults
def test_over_a_line_of_20_kilobytes_a_second_nothing_falls_and_a_step_is_followed(shop, plant, proxy):
    """A pod is 2 kB of a list and 0.3 kB of the metrics of each second; an event of the watch of pods is 3 kB."""
    before = proxy.carried_seconds
    with proxy.narrow(NARROW):
        assert {6} == watched(shop, 10)
        plant.set_load(shop.load, 4.0)
        shop.reaches(8, within_s=150)
        plant.set_load(shop.load, 1.0)
        shop.reaches(2, within_s=150)
    assert proxy.carried_seconds - before > 3


@pytest.mark.faults
def test_over_a_narrow_line_it_starts_lists_again_and_follows(control_plane, shop, plant, proxy, behind):
    """Sixty pods in the namespace, whose list alone takes six seconds; connections are cut while it is under way."""
    crowd = Scaled(control_plane, shop.namespace, "crowd", replicas=60, maxReplicas=60, minReplicas=60)
    wait_until(lambda: crowd.ready, lambda ready: ready == 60, within_s=150)
    behind.kill()
    before = proxy.carried_seconds
    with proxy.narrow(NARROW):
        behind.start()
        proxy.reset_all()
        assert {6} == watched(shop, 5)
        plant.set_load(shop.load, 4.0)
        shop.reaches(8, within_s=120)
        assert "ok\n" == behind.probe()
    assert proxy.carried_seconds - before > 6
    assert 60 == crowd.replicas
