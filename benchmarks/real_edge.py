"""
Edges that all objects share, on a real API server: is each object's floor Ready when its window opens?

500 Deployments of 2 pods in 10 namespaces ask for 4 pods at the same minute, twice: at the second edge the operator
has measured the crowd of the first one. Pods are Ready 5 s after they run; controller manager and scheduler are the
real ones (tests/testbed). A pod counts as Ready by the time in its own condition, of whole seconds: at the edge or
later is late.

Settings: BENCH_OBJECTS (500), BENCH_NAMESPACES (10), BENCH_EDGES (2: 1 takes 12 minutes, each further one 9).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from typing import Any

from idle_fleet import CONSOLE, Wrong, by_namespace, reach, say
from report import calibration_line, machine, save

from cronhpa.core.model.instant import SECOND, parse_instant
from testbed.control_plane import ControlPlane
from testbed.objects import deployment, plain_cron_hpa
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator

OBJECTS = int(os.environ.get("BENCH_OBJECTS", "500"))
EDGES = int(os.environ.get("BENCH_EDGES", "2"))
PODS, FLOOR = 2, 4
START_UP = "5s"
_OPEN_MINUTES = 2
# An object sees its crowd within five minutes; before it a minute in which all objects are decided, behind it the lead.
_AHEAD_MINUTES, _APART_MINUTES = 8, 9
_CRON_HPAS = "/apis/cronhpa.io/v1alpha1/{}cronhpas"


def main() -> int:
    calibration = machine()
    CONSOLE.print(calibration_line(calibration))
    rows = []
    try:
        with ControlPlane() as plane:
            plane.install_chart()
            set_up(plane)
            first = (int(time.time()) // 60 + _AHEAD_MINUTES) * 60
            edges = [first + number * _APART_MINUTES * 60 for number in range(EDGES)]
            for namespace, documents in by_namespace(lambda space, name: cron_hpa(space, name, edges)).items():
                plane.create(_CRON_HPAS.format(f"namespaces/{namespace}/"), documents)
            kubeconfig = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
            with tempfile.TemporaryDirectory() as folder, Operator(kubeconfig, Path(folder)) as operator:
                rows += [at_edge(plane, edge) for edge in edges]
                assert operator.is_running
    except (Wrong, AssertionError) as error:
        CONSOLE.print(f"[red]not measured:[/red] {error}", highlight=False)
        return 1
    finally:
        path = save(
            "real_edge", {"objects": OBJECTS, "pods": PODS, "floor": FLOOR, "machine": calibration, "rows": rows}
        )
        say(f"figures: {path}")
    return 0


def set_up(plane: ControlPlane) -> None:
    spaces = by_namespace(lambda space, name: deployment(name, namespace=space, replicas=PODS, start_up_time=START_UP))
    plane.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in spaces))
    for namespace, documents in spaces.items():
        plane.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", documents)
    reach("objects have their pods Ready", OBJECTS, lambda: sum(len(at) == PODS for at in ready_at(plane).values()))


def cron_hpa(namespace: str, name: str, edges: list[int]) -> dict[str, Any]:
    """Without metrics: the floors alone decide, and a window's end scales down at once."""
    schedules = [
        {
            "name": f"window-{number}",
            "start": time.strftime("%M %H * * *", time.gmtime(edge)),
            "durationMinutes": _OPEN_MINUTES,
            "minReplicas": FLOOR,
        }
        for number, edge in enumerate(edges)
    ]
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    return plain_cron_hpa(name, namespace=namespace, bounds=(PODS, 10), behavior=behavior, schedules=schedules)


def ready_at(plane: ControlPlane) -> dict[tuple[str, str], list[float]]:
    """For each object when its Ready pods became so, seconds since the epoch."""
    out = defaultdict(list)
    for pod in listed(plane, "/api/v1/pods"):
        for condition in pod["status"].get("conditions", ()):
            if condition["type"] == "Ready" and condition["status"] == "True" and "app" in pod["metadata"]["labels"]:
                key = pod["metadata"]["namespace"], pod["metadata"]["labels"]["app"]
                out[key].append(parse_instant(condition["lastTransitionTime"]) / SECOND)
    return out


def listed(plane: ControlPlane, path: str) -> list[dict[str, Any]]:
    """The objects at a path; a busy API server takes more than ten seconds for a list of some thousands."""
    for _ in range(5):
        with suppress(TimeoutError):
            return list(plane.get(path)["items"])
    raise Wrong(f"{path} is not answered")


def at_edge(plane: ControlPlane, edge: int) -> dict[str, Any]:
    """The figures of one edge: seconds from it to the last Ready pod of each object."""
    while time.time() < edge + 75:
        time.sleep(1)
    last = sorted(max(at) - edge for at in ready_at(plane).values() if len(at) == FLOOR)
    if len(last) < OBJECTS:
        raise Wrong(f"{len(last)} of {OBJECTS} objects have {FLOOR} Ready pods 75 s after the edge")
    memories = [body.get("status", {}).get("memory", {}) for body in listed(plane, _CRON_HPAS.format(""))]
    crowds = Counter(str(memory.get("crowd")) for memory in memories)
    row = {
        "ready_at_start": sum(seconds < 0 for seconds in last),
        "seconds": {"min": last[0], "p50": quantiles(last)[1], "p99": quantiles(last, n=100)[98], "max": last[-1]},
        "crowds": dict(crowds.most_common(5)),
        "load": os.getloadavg()[0],
    }
    say(f"{row['ready_at_start']} of {OBJECTS} Ready at their start: {row}")
    return row


if __name__ == "__main__":
    sys.exit(main())
