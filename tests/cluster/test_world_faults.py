"""
cronhpa.operator.writes.writer, cronhpa.kube.session: faults around an API server, and the operator killed at each
write.

`make test-faults` runs these. Each test has an operator and a target of its own.
"""

import resource
import signal
import time

import pytest
import trustme
import yaml

from testbed.fault_proxy import FaultProxy, Link, Trouble
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Changes, Scaled
from testbed.wait import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("no_operator")]


@pytest.fixture
def kubeconfig(control_plane):
    return control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)


@pytest.fixture
def shop(control_plane, namespace, plant):
    made = Scaled(control_plane, namespace, replicas=6)
    made.load = plant.add_target(namespace, made.labels, 3.0)
    return made


def is_settled(shop):
    shop.says("ScalingActive", "True", "ValidMetricFound", within_s=60)


def test_an_etcd_that_stands_still_lowers_nothing_and_is_followed_after_it(
    control_plane, plant, shop, kubeconfig, tmp_path
):
    """Half a minute: the API server answers nothing, or errors after ten seconds."""
    etcd = control_plane.components["etcd"].process
    with Operator(kubeconfig, tmp_path) as operator:
        is_settled(shop)
        etcd.send_signal(signal.SIGSTOP)
        try:
            plant.set_load(shop.load, 4.0)
            time.sleep(30)
        finally:
            etcd.send_signal(signal.SIGCONT)
        shop.reaches(8, within_s=60)

        assert operator.is_running
        assert "Traceback" not in operator.log.read_text()


def test_a_rotated_authority_is_followed_without_a_restart(control_plane, plant, shop, kubeconfig, tmp_path):
    """The file of the CA is written anew, and the server proves itself with a certificate of the new one."""
    first, second = trustme.CA(), trustme.CA()
    ca_file = tmp_path / "ca.crt"
    first.cert_pem.write_to_path(str(ca_file))
    with (
        FaultProxy(control_plane.url, control_plane.ca_file, first.issue_cert("127.0.0.1")) as proxy,
        Operator(proxy.kubeconfig(kubeconfig, tmp_path, ca_file), tmp_path) as operator,
    ):
        is_settled(shop)
        second.cert_pem.write_to_path(str(ca_file))
        proxy.rotate(second.issue_cert("127.0.0.1"))
        plant.set_load(shop.load, 4.0)

        shop.reaches(8, within_s=75)
        assert operator.is_running


def test_a_disk_that_is_full_costs_no_decision(plant, shop, kubeconfig, tmp_path):
    """No file of the process may grow: neither the store nor the log can be written."""
    with Operator(kubeconfig, tmp_path, namespaces=shop.namespace) as operator:
        is_settled(shop)
        _, hard = resource.prlimit(operator.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(operator.pid, resource.RLIMIT_FSIZE, (0, hard))
        plant.set_load(shop.load, 4.0)
        shop.reaches(8)
        time.sleep(8)  # the store is written every 5 s
        plant.set_load(shop.load, 2.0)
        shop.reaches(4)

        assert "ok\n" == operator.probe()
        assert operator.is_running


@pytest.fixture
def spread(control_plane, kubeconfig, tmp_path):
    """(an operator, the way of the second API server to etcd, the proxy through which it asks two of them in turn)"""
    with (
        Link(control_plane.etcd_port) as link,
        control_plane.second_api_server(link.port) as second,
        FaultProxy(control_plane.url, control_plane.ca_file) as proxy,
    ):
        proxy.spread(second, control_plane.url)
        with Operator(proxy.kubeconfig(kubeconfig, tmp_path), tmp_path) as operator:
            yield operator, link, proxy


def test_an_api_server_that_is_behind_lowers_nothing_and_is_followed_once_it_is_not(plant, shop, spread):
    """
    Half of the watches and half of the reads are those of a server that hears nothing of etcd for twenty seconds.

    What it knows is old, and its answers are old or late. Without evidence nothing falls, and no step is doubled.
    """
    operator, link, _ = spread
    is_settled(shop)
    with Changes(shop) as changes:
        with link.frozen():
            plant.set_load(shop.load, 4.0)
            time.sleep(20)
        shop.reaches(8, within_s=60)
        time.sleep(5)

    assert [6, 8] == [count for _, count in changes.seen]
    assert operator.is_running
    assert "Traceback" not in operator.log.read_text()


def test_of_two_api_servers_one_may_go(control_plane, plant, shop, spread):
    """For ten seconds each second request and watch is refused; then the load balancer leaves the dead one out."""
    operator, _, proxy = spread
    is_settled(shop)
    with Changes(shop) as changes:
        control_plane.components["second-kube-apiserver"].kill()
        plant.set_load(shop.load, 4.0)
        time.sleep(10)
        proxy.spread(control_plane.url)
        shop.reaches(8, within_s=40)

    assert [6, 8] == [count for _, count in changes.seen]
    assert operator.is_running
    assert "Traceback" not in operator.log.read_text()


# What is killed: (method, path, how often it is let pass before): each kind of write of a life that goes up and down.
WRITES = {
    "the claim": ("PATCH", "/cronhpas/web/status$", 0),
    "the first status": ("PATCH", "/cronhpas/web/status$", 1),
    "the scale-up": ("PATCH", "/deployments/web/scale$", 0),
    "the status of the scale-up": ("PATCH", "/cronhpas/web/status$", 2),
    "an event": ("POST", "/events$", 0),
    "the intent of the scale-down": ("PATCH", "/cronhpas/web/status$", 4),
    "the scale-down": ("PATCH", "/deployments/web/scale$", 1),
    "the lease": ("PUT", "/leases/cronhpa$", 3),
}


@pytest.fixture
def crash(request):
    (method, path, number), passed_on = request.param
    skipped = [Trouble(method=method, path=path, times=1) for _ in range(number)]
    return [*skipped, Trouble(method=method, path=path, end="reset", passed_on=passed_on, times=1)]


@pytest.mark.parametrize(
    "crash",
    [(write, passed_on) for write in WRITES.values() for passed_on in (False, True)],
    ids=[f"{when} {name}" for name in WRITES for when in ("before", "after")],
    indirect=True,
)
def test_killed_at_a_write_the_next_process_goes_on_as_if_nothing_were(
    control_plane, namespace, plant, kubeconfig, tmp_path, crash
):
    """From 2 to 6 pods for three cores, and to 2 again for one, at most two pods down in five seconds."""
    policy = {"type": "Pods", "value": 2, "periodSeconds": 5}
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 3, "policies": [policy]}}
    shop = Scaled(control_plane, namespace, replicas=2, behavior=behavior)
    load = plant.add_target(namespace, shop.labels, 3.0)
    with FaultProxy(control_plane.url, control_plane.ca_file) as proxy:
        operator = Operator(proxy.kubeconfig(kubeconfig, tmp_path), tmp_path, namespaces=namespace)
        crash[-1].call = lambda: operator.signal(signal.SIGKILL)

        def going_on():
            if not operator.is_running:
                operator.start()
            return shop.replicas

        with operator, Changes(shop) as changes, proxy.failing(*crash):
            wait_until(going_on, lambda seen: seen == 6, within_s=120)
            # What came within a period may go within it, as upstream.
            time.sleep(6)
            plant.set_load(load, 1.0)
            wait_until(going_on, lambda seen: seen == 2, within_s=120)
            wait_until(lambda: going_on() and "intent" not in shop.status["memory"], within_s=20)

    assert crash[-1].met == 1
    counts = [count for _, count in changes.seen]
    # A sample in which the load changed may ask for a count in between: up to 6 first, and only down from there.
    top = counts.index(6)
    assert (2, 6) == (counts[0], max(counts))
    assert sorted(counts[: top + 1]) == counts[: top + 1]
    assert sorted(counts[top:], reverse=True) == counts[top:]
    assert changes.most_lost_within(4) <= 2


def test_no_password_and_no_token_is_written_anywhere(control_plane, plant, shop, kubeconfig, tmp_path):
    """S9: with a database that nobody serves and a metrics API that fails, so that there is much to complain about."""
    password = "planted-in-the-url-of-the-store"
    token = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    store = f"postgresql://cronhpa:{password}@127.0.0.1:1/history"
    with Operator(kubeconfig, tmp_path, store=store) as operator:
        is_settled(shop)
        plant.stop_serving()
        wait_until(lambda: shop.condition("ScalingActive").get("status") == "False", within_s=60)
        plant.start_serving()
        is_settled(shop)
        wait_until(lambda: "127.0.0.1:1/history" in operator.log.read_text(), within_s=60)
        written = {
            "log": operator.log.read_text(),
            "objects": control_plane.kubectl("get", "chpa,leases,deployments", "-A", "-o", "json"),
            "events": control_plane.kubectl("get", "events", "-A", "-o", "json"),
            **{path: operator.get(path) for path in ("/metrics", "/readyz")},
        }

    assert [] == [where for where, text in written.items() if password in text or token in text]
    assert all(written.values())
