"""The API server gives the operator a priority level of one request at a time: it waits or is refused, and follows."""

import pytest

from testbed.operator import NAMESPACE, SERVICE_ACCOUNT
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("operator")]

_API = "flowcontrol.apiserver.k8s.io/v1"
_PATH = f"/apis/{_API}"
MANY = 20
RESPONSES = {
    # Fifty wait for their turn; or none does, and all but one are answered 429.
    "queued": {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 50}},
    "refused": {"type": "Reject"},
}


def level(name, shares, response):
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": 0, "borrowingLimitPercent": 0,
               "limitResponse": response}  # fmt: skip
    spec = {"type": "Limited", "limited": limited}
    return {"apiVersion": _API, "kind": "PriorityLevelConfiguration", "metadata": {"name": name}, "spec": spec}


def schema():
    subject = {"kind": "ServiceAccount", "serviceAccount": {"namespace": NAMESPACE, "name": SERVICE_ACCOUNT}}
    every = ["*"]
    of = {"verbs": every, "apiGroups": every, "resources": every, "namespaces": every, "clusterScope": True}
    rule = {
        "subjects": [subject],
        "resourceRules": [of],
        "nonResourceRules": [{"verbs": every, "nonResourceURLs": every}],
    }
    spec = {"matchingPrecedence": 50, "priorityLevelConfiguration": {"name": "one-seat"}, "rules": [rule],
            "distinguisherMethod": {"type": "ByUser"}}  # fmt: skip
    return {"apiVersion": _API, "kind": "FlowSchema", "metadata": {"name": "one-seat"}, "spec": spec}


@pytest.fixture
def seat(control_plane):
    """Sets up the level. Of 3000 places of the testbed one share of some thousands is one place, rounded up."""

    def make(response):
        control_plane.apply(level("wide", 5000, RESPONSES["refused"]), level("one-seat", 1, response), schema())

    yield make
    control_plane.kubectl("delete", "flowschema", "one-seat", "--ignore-not-found")
    control_plane.kubectl("delete", "prioritylevelconfiguration", "one-seat", "wide", "--ignore-not-found")


def told(control_plane, family):
    """The sum of a family of the API server's own metrics, of the level."""
    text = control_plane.kubectl("get", "--raw", "/metrics")
    lines = [
        line for line in text.splitlines() if line.startswith(f"{family}{{") and 'priority_level="one-seat"' in line
    ]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


@pytest.mark.parametrize("response", RESPONSES)
def test_with_one_request_at_a_time_nothing_falls_and_a_step_of_twenty_is_followed(
    control_plane, namespace, plant, operator, seat, response
):
    """
    Three pods each; the loads of all rise at once to what five need: forty writes, one after the other. Refused, they
    took 51 s and 164 refusals.
    """
    shops = [Scaled(control_plane, namespace, f"shop-{number:02d}", replicas=3) for number in range(MANY)]
    for shop in shops:
        shop.load = plant.add_target(namespace, shop.labels, 1.5)
    for shop in shops:
        shop.says("ScalingActive", "True", "ValidMetricFound", within_s=60)
    shops[0].settles(3)
    wait_until(lambda: {shop.replicas for shop in shops}, lambda seen: seen == {3}, within_s=60)
    seat(RESPONSES[response])
    wait_until(lambda: told(control_plane, "apiserver_flowcontrol_dispatched_requests_total") > 0, within_s=30)
    assert 1 == told(control_plane, "apiserver_flowcontrol_nominal_limit_seats")

    assert {3} == {shop.replicas for shop in shops}
    for shop in shops:
        plant.set_load(shop.load, 2.5)
    for shop in shops:
        shop.reaches(5, within_s=150)
    for shop in shops:
        wait_until(lambda shop=shop: shop.status.get("desiredReplicas"), lambda seen: seen == 5, within_s=150)

    assert "ok\n" == operator.probe()
    if response == "refused":
        assert told(control_plane, "apiserver_flowcontrol_rejected_requests_total") > 0
    assert "Traceback" not in operator.log.read_text()


@pytest.mark.parametrize("response", RESPONSES)
def test_it_starts_with_one_request_at_a_time(control_plane, namespace, plant, operator, seat, response):
    """Its lists and watches come one after the other; it is ready within a minute, and follows."""
    shop = Scaled(control_plane, namespace, replicas=6)
    shop.load = plant.add_target(namespace, shop.labels, 3.0)
    shop.says("ScalingActive", "True", "ValidMetricFound", within_s=60)
    operator.kill()
    seat(RESPONSES[response])

    operator.start()

    plant.set_load(shop.load, 4.0)
    shop.reaches(8, within_s=60)
    assert "Traceback" not in operator.log.read_text()
