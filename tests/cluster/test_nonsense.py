"""Nonsense that gets as far as the operator: a store's forecasts, and specs and statuses out of a fuzzer's bytes."""

import json
import math
import random
import time

import pytest

from conformance.specs import Server, objects
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import MINUTE
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.store import Store
from fuzz import specs
from fuzz.draw import Draw
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_operator")]

QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
PATCH = "application/merge-patch+json"


@pytest.fixture
def kubeconfig(control_plane):
    return control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)


def test_an_absurd_forecast_of_the_store_moves_nothing_and_says_so(
    control_plane, namespace, plant, kubeconfig, tmp_path
):
    """Two pods are the minimum. A load of 1e308 below a ceiling of as much is a forecast: the maximum holds it."""
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "500m"}}}
    loads = {"nan": math.nan, "infinite": math.inf, "negative": -1.0, "huge": 1e308}
    now = time.time_ns()
    store = Store(tmp_path / "history.db")
    for name, load in loads.items():
        told = Forecast(
            metric="cpu", issued_at=now, start=now // STEP * STEP, step=STEP, load=(load, *(0.5,) * 11), ceiling=1e308,
            model="nonsense", quantile_percent=95, trained_until=now - 5 * MINUTE,
        )  # fmt: skip
        assert store.forecasts.save([(Series(namespace, name, "cpu"), told)]) is None
    store.close()
    shops = {}
    for name in loads:
        shop = shops[name] = Scaled(
            control_plane,
            namespace,
            name,
            replicas=2,
            minReplicas=2,
            maxReplicas=6,
            metrics=[cpu],
            forecast={"mode": "Active"},
        )
        plant.add_target(namespace, shop.labels, 1.0)

    with Operator(kubeconfig, tmp_path) as operator:
        shops["huge"].reaches(6, within_s=180)
        for shop in shops.values():
            shop.says("Ready", "True", "Deciding", within_s=180)
        counts = {name: shop.replicas for name, shop in shops.items()}
        # Until the first fit finds no history; what was decided is stored after five seconds.
        wait_until(lambda: "Learning" in operator.log.read_text(), within_s=60)
        time.sleep(6)
        assert "Traceback" not in operator.log.read_text()

    store = Store.open_to_read(tmp_path / "history.db")
    reasons = {name: first_reason(store, namespace, name) for name in loads}
    store.close()
    assert {"nan": "Absurd", "infinite": "Absurd", "negative": "Absurd", "huge": "Acting"} == reasons
    assert {"nan": 2, "infinite": 2, "negative": 2} == {name: counts[name] for name in counts if name != "huge"}


def first_reason(store, namespace, name):
    """Why the forecast was used or not in the first decision on an object."""
    first, *_ = store.decisions.between(namespace, name, 0, 2**62, 1)
    conditions = json.loads(bytes(first.body))["status"]["conditions"]
    return next(one["reason"] for one in conditions if one["type"] == "ForecastActive")


def test_what_the_server_takes_of_a_fuzzer_costs_the_operator_nothing(control_plane, namespace, kubeconfig, tmp_path):
    """500 specs with slips, and a status out of bytes for each that is taken: a neighbour is decided, no traceback."""
    server, dice = Server(control_plane), random.Random(25)
    taken = []
    for number in range(500):
        draw = Draw(dice.randbytes(600))
        spec = specs.with_slips(draw, specs.spec(draw))
        body = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": {"name": f"drawn-{number}"}}
        code, _ = server.request("POST", objects(namespace), body | {"spec": spec})
        if code == 201:
            taken.append(f"drawn-{number}")
            status = {"memory": specs.with_slips(draw, specs.memory(draw)), "schedules": draw.json()}
            server.request("PATCH", f"{objects(namespace)}/{taken[-1]}/status", {"status": status}, PATCH)
    assert len(taken) > 50

    with Operator(kubeconfig, tmp_path) as operator:
        neighbour = Scaled(
            control_plane, namespace, "neighbour", metrics=None, schedules=[
                {"name": "always", "start": "0 0 * * *", "durationMinutes": 1440, "minReplicas": 3}
            ],
        )  # fmt: skip
        neighbour.reaches(3, within_s=60)
        path = objects(namespace)
        wait_until(
            lambda: [one for one in control_plane.get(path)["items"] if not one.get("status", {}).get("conditions")],
            lambda silent: not silent,
            within_s=60,
        )
        assert operator.probe() == "ok\n"
        assert "Traceback" not in operator.log.read_text()
