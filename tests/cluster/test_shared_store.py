"""Two replicas on one PostgreSQL: the next leader uses the fits and forecasts of the former one."""

import signal
import subprocess
import sys
import time

import pytest

from cluster import test_handover
from cluster.test_handover import decided_since
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, format_instant
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("no_operator")

replicas = test_handover.replicas

_STEP = 5 * MINUTE


@pytest.mark.long
def test_the_successor_of_a_killed_leader_has_its_forecast_at_the_first_decision(
    control_plane,
    namespace,
    plant,
    replicas,
    new_schema,
    tmp_path,
    record_property,
):
    """
    Each day there are ten cores around this hour, and one core else. The leader is killed. A replica that had not read
    what the leader learnt would say Learning.
    """
    store = new_schema().url
    shop = Scaled(control_plane, namespace, replicas=4, maxReplicas=60, forecast={})
    load = plant.add_target(shop.namespace, shop.labels, 10.0)
    now = time.time_ns()
    now -= now % _STEP
    first, second = (replicas.start(store=store, forecast_interval="2s") for _ in range(2))
    leader = replicas.leader()
    successor = second if leader == first else first
    wait_until(lambda: shop.condition("ForecastActive").get("reason") == "Learning", within_s=30)
    past = range(now - 9 * DAY, now, _STEP)
    bring(store, shop, tmp_path, [(at, 10.0 if (at - now) % DAY // HOUR in {0, 8, 16, 23} else 1.0) for at in past])
    told = shop.says("ForecastActive", "True", "BeatsReactive", within_s=120)
    wait_until(lambda: shop.status["desiredReplicas"] >= 20, within_s=60)
    time.sleep(5)  # the other replica reads what the leader forecasts every two seconds

    killed = time.time()
    replicas.running[leader].signal(signal.SIGKILL)
    plant.set_load(load, 1.0)
    wrote = wait_until(lambda: decided_since(control_plane, successor, killed), within_s=60)
    seen = []
    until = time.time() + 6
    while time.time() < until:
        status = shop.status
        seen.append(
            (status["desiredReplicas"], shop.condition("ForecastActive").get("reason"), status["decision"]["decidedBy"])
        )
        time.sleep(0.2)
    record_property("told", f"decided {wrote - killed:.1f} s after the kill: {sorted(set(seen))}; {told}")

    assert successor == replicas.leader()
    assert "Learning" not in {reason for _, reason, _ in seen}


def bring(store, shop, folder, rows):
    file = folder / "past.csv"
    file.write_text("\n".join(["timestamp,value", *(f"{format_instant(at)},{value}" for at, value in rows)]))
    command = [
        sys.executable,
        "-m",
        "cronhpa.cli",
        "history",
        "import",
        f"{shop.namespace}/{shop.name}",
        str(file),
        "--before-object",
    ]
    subprocess.run([*command, "--store", store], check=True, capture_output=True)
