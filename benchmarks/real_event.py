"""
A sale on a real API server: one ClusterPlannedEvent over 30 of 40 Deployments, in six minutes.

40 Deployments in 4 namespaces run under recorded loads, with weeks of history in the operator's store. The event
expects 250 % of the usual load, and that is what comes at its start. Measured: for each of the 30 when the last of the
pods that the event asks for was Ready, before or after the start, by the time in its condition, of whole seconds. While
it runs, the event is edited to 300 %, and deleted. Then a second event, and an operator that is killed six seconds
before its start and comes back after it: no scale write may be a scale-down.

Takes 18 minutes. Beside the figures it prints what `kubectl get`, the status and the Kubernetes events say.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from idle_fleet import CONSOLE, Wrong, reach, say
from real_edge import ready_at
from report import calibration_line, machine, save

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, Nanoseconds
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.history.store import Store
from testbed.control_plane import ControlPlane
from testbed.loads import LOADS, Load, Trace
from testbed.objects import deployment, plain_cron_hpa
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.twin import CPU_50

OBJECTS, PICKED, NAMESPACES = 40, 30, 4
TRACES = ("k8s_app01_cpu_1m", "k8s_app06_cpu_1m", "k8s_app11_cpu_1m", "k8s_app12_cpu_1m", "tweets_aapl_5m")
AHEAD_SECONDS = 360
START_UP = "5s"
# Cores of all pods of an object together, on the average over its trace: three pods of one core at 50 %.
_MEAN_CORES = 1.2
_KIND = "/apis/cronhpa.io/v1alpha1/{}clusterplannedevents"
_NAMES = [(f"shop-{number % NAMESPACES}", f"app-{number:02d}") for number in range(OBJECTS)]
_KEYS = _NAMES[:PICKED]


class Surge:
    """A recorded load that is so many times as large from an instant on."""

    def __init__(self, trace: Load) -> None:
        self._trace, self.since, self.factor = trace, 0, 1.0

    def at(self, instant: Nanoseconds, /) -> float:
        load = self._trace.at(instant)
        return load * self.factor if self.since and instant >= self.since else load


def main() -> int:
    calibration = machine()
    CONSOLE.print(calibration_line(calibration))
    figures: dict[str, Any] = {"machine": calibration, "objects": OBJECTS, "picked": PICKED}
    try:
        with (
            ControlPlane(audit=True) as plane,
            Plant(plane.admin_kubeconfig, window=SECOND, delay=SECOND // 5) as plant,
            tempfile.TemporaryDirectory() as folder,
        ):
            plane.install_chart()
            surges = set_up(plane, plant, Path(folder))
            kubeconfig = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
            with Operator(kubeconfig, Path(folder)) as operator:
                reach("objects have decided", OBJECTS, lambda: sum(map(_has_decided, objects(plane).values())))
                figures["first"] = first_event(plane, surges)
                figures["second"] = second_event(plane, surges, operator)
                assert operator.is_running, operator.tail()
    except (Wrong, AssertionError) as error:
        CONSOLE.print(f"[red]not measured:[/red] {error}", highlight=False)
        return 1
    finally:
        say(f"figures: {save('real_event', figures)}")
    return 0


def set_up(plane: ControlPlane, plant: Plant, folder: Path) -> list[Surge]:
    """Targets with their pods under their loads, objects, and a store with the past of each; the loads."""
    now = time.time_ns()
    traces = [Trace.read(LOADS / f"{name}.csv.gz") for name in TRACES]
    loads = []
    for number in range(OBJECTS):
        trace = traces[number % len(traces)]
        # Its last hours are yet to come; each object is at another one.
        shifted = trace.shifted(now - trace.end + (6 + number % 12) * HOUR)
        loads.append(shifted.scaled(_MEAN_CORES * len(trace.values) / sum(trace.values)))
    store = Store(folder / "history.db")
    for (namespace, name), load in zip(_NAMES, loads, strict=True):
        series = Series(namespace, name, "cpu")
        first = max(now - 28 * DAY, load.start)
        points = [(at, load.at(at)) for at in range(first - first % (5 * MINUTE), now - DAY, 5 * MINUTE)]
        store.loads.backfill(series, points)
        store.loads.record([LoadSample(series, at, load.at(at)) for at in range(now - DAY, now, MINUTE)])
    store.close()
    for namespace in {namespace for namespace, _ in _NAMES}:
        labels = {"team": "shops"}
        plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})
    surges = []
    for number, ((namespace, name), load) in enumerate(zip(_NAMES, loads, strict=True)):
        replicas = max(-(-int(load.at(now) * 1000) // 500), 2)
        plane.apply(deployment(name, namespace=namespace, replicas=replicas, start_up_time=START_UP))
        surge = Surge(load)
        surges.append(surge)
        plant.add_target(namespace, {"app": name}, surge)
        body = plain_cron_hpa(
            name, namespace=namespace, bounds=(2, 40), metrics=[CPU_50],
            behavior={"scaleDown": {"stabilizationWindowSeconds": 30}},
        )  # fmt: skip
        body["metadata"]["labels"] = {"sale": "yes" if number < PICKED else "no"}
        plane.apply(body)
    return surges


def sale(name: str, start: int, minutes: int, percent: int) -> dict[str, Any]:
    window = {"from": _wall(start), "to": _wall(start + 60 * minutes)}
    return {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "ClusterPlannedEvent",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"sale": "yes"}},
            "namespaceSelector": {"matchLabels": {"team": "shops"}},
            "reason": "a sale",
            "schedules": [{"name": "doors", **window, "minReplicas": 2, "expectedLoadPercent": percent}],
        },
    }


def first_event(plane: ControlPlane, surges: list[Surge]) -> dict[str, Any]:
    start = (int(time.time()) + AHEAD_SECONDS) // 60 * 60
    plane.apply(sale("sale", start, 30, 250))
    _come(surges, start, 2.5)
    _sleep_until(start - 120)
    say(plane.kubectl("get", "clusterplannedevents"))
    beforehand = status(plane, "sale")
    ready = at_start(plane, "sale", start)
    _sleep_until(start + 90)
    say(plane.kubectl("get", "clusterplannedevents"))
    running = status(plane, "sale")
    plane.apply(sale("sale", start, 30, 300))
    edited = time.time()
    before = running["pods"]
    reach("of 1: the edited event asks for more", 1, lambda: int(status(plane, "sale")["pods"] > before), 120)
    asked = status(plane, "sale")["pods"]
    _come(surges, int(time.time()), 2.5)
    reach(
        "objects have what the edited event asks for", PICKED,
        lambda: sum(_decided(one) >= _floor(one) for one in _picked(plane)), 120,
    )  # fmt: skip
    edit_seconds = time.time() - edited
    plane.apply(sale("sale", start, (int(time.time()) - start) // 60 + 2, 300))
    ended = start + ((int(time.time()) - start) // 60 + 2) * 60
    _sleep_until(ended + 75)
    report = status(plane, "sale").get("report", {})
    heard = plane.kubectl("get", "events", "-n", "default", "--field-selector", "involvedObject.name=sale")
    say(f"report: {json.dumps(report)}\n{heard}")
    plane.kubectl("delete", "clusterplannedevent", "sale")
    _calm(surges)
    reach(
        "objects know of no event any more",
        OBJECTS,
        lambda: sum(not _floor(one) for one in objects(plane).values()),
        120,
    )
    return {
        "beforehand": beforehand,
        "ready": ready,
        "running": running,
        "edited": {"pods": asked, "seconds": edit_seconds},
        "report": report,
    }


def second_event(plane: ControlPlane, surges: list[Surge], operator: Operator) -> dict[str, Any]:
    """The operator is killed six seconds before the start, and comes back eight seconds later."""
    start = (int(time.time()) + 240) // 60 * 60
    plane.apply(sale("again", start, 4, 250))
    _come(surges, start, 2.5)
    _sleep_until(start - 6)
    operator.kill()
    _sleep_until(start + 2)
    operator.start()
    ready = at_start(plane, "again", start)
    counts = defaultdict(list)
    for write in plane.writes():
        is_asked = (write.namespace, write.name) in _KEYS and start - 60 <= write.began <= start + 120
        if is_asked and write.replicas is not None:
            counts[write.namespace, write.name].append(write.replicas)
    # Above what the event asks for, an object follows its metric.
    floors = {key: _floor(one) for key, one in objects(plane).items()}
    downs = sum(
        later < earlier and later < floors[key]
        for key, written in counts.items()
        for earlier, later in pairwise(written)
    )
    return {"ready": ready, "scale_downs_below_the_event": downs}


def at_start(plane: ControlPlane, name: str, start: int) -> dict[str, Any]:
    """Seconds from the start to the last Ready pod of those that the event asks of each object."""
    _sleep_until(start + 45)
    floors = {key: _floor(one) for key, one in objects(plane).items() if key in _KEYS}
    became = ready_at(plane)
    late = {}
    for key, floor in floors.items():
        at = sorted(became.get(key, ()))
        if not floor or len(at) < floor:
            raise Wrong(f"{key} has {len(at)} Ready pods, and {name} asks for {floor}")
        late[key] = at[floor - 1] - start
    seconds = sorted(late.values())
    row = {
        "ready_at_start": sum(second <= 0 for second in seconds),
        "seconds": {"min": seconds[0], "p50": median(seconds), "max": seconds[-1]},
        "pods": sum(floors.values()),
    }
    say(f"{row['ready_at_start']} of {PICKED} Ready at the start of {name}: {row}")
    return row


def objects(plane: ControlPlane) -> dict[tuple[str, str], dict[str, Any]]:
    items = plane.get("/apis/cronhpa.io/v1alpha1/cronhpas")["items"]
    return {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in items}


def status(plane: ControlPlane, name: str) -> dict[str, Any]:
    told: dict[str, Any] = plane.get(f"{_KIND.format('')}/{name}").get("status", {})
    return {"pods": 0} | told


def _picked(plane: ControlPlane) -> list[dict[str, Any]]:
    return [one for key, one in objects(plane).items() if key in _KEYS]


def _has_decided(one: dict[str, Any]) -> bool:
    return "desiredReplicas" in one.get("status", {})


def _decided(one: dict[str, Any]) -> int:
    return int(one.get("status", {}).get("desiredReplicas", 0))


def _floor(one: dict[str, Any]) -> int:
    """What an event asks of an object; 0 without one."""
    proposals = one.get("status", {}).get("decision", {}).get("proposals", [])
    return max((int(each["replicas"]) for each in proposals if "Event/" in str(each)), default=0)


def _come(surges: list[Surge], start: int, factor: float) -> None:
    for surge in surges[:PICKED]:
        surge.since, surge.factor = start * SECOND, factor


def _calm(surges: list[Surge]) -> None:
    for surge in surges:
        surge.since = 0


def _wall(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.gmtime(at))


def _sleep_until(at: float) -> None:
    while time.time() < at:
        time.sleep(min(1, at - time.time()) if at > time.time() else 0)


if __name__ == "__main__":
    sys.exit(main())
