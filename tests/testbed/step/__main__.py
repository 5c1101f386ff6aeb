"""
`make demo-step`, six minutes on a machine that has nothing else to do.

STEP_COPIES   copies of each autoscaler, each with another phase of its periods (4)
STEP_SECONDS  how long they are watched after the step (150)
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from cronhpa.core.model.instant import MINUTE, SECOND
from testbed.control_plane import ControlPlane
from testbed.demo.api import Api
from testbed.operator import NAMESPACE as SYSTEM
from testbed.operator import SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.pod_pages import PodPages
from testbed.step.picture import draw
from testbed.step.scenario import NAMESPACE, PODS_BEFORE, Copy, copies, sources
from testbed.step.score import Seen, as_json, as_text, outcome, table
from testbed.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULT, PICTURE = Path("build/demo-step.json"), Path("build/demo-step.svg")
# Metrics-server asks every 15 s, and what it answers is some 10 s old by then: the plant's own defaults.
_LOOK_S = 0.1
# Time enough before the step: CPU samples of the first pods count by then, and the lead of the schedule has not begun.
_SETTLED_NS = 150 * SECOND
_BEFORE_S = 30.0
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


def main() -> int:
    count, seconds = int(os.environ.get("STEP_COPIES") or 4), int(os.environ.get("STEP_SECONDS") or 150)
    network = "127.64.0.0/10"
    _say("starting a control plane: etcd, API server, controllers, the upstream HPA, simulated nodes")
    with (
        tempfile.TemporaryDirectory(prefix="cronhpa-step-") as folder,
        ControlPlane(hpa=True, pod_network=network) as plane,
        Plant(plane.admin_kubeconfig) as plant,
        PodPages(plant) as pages,
    ):
        plane.install_chart()
        file = Path(folder) / "sources.yaml"
        file.write_text(yaml.safe_dump(sources(pages.port)))
        kubeconfig = plane.service_account_kubeconfig(SYSTEM, SERVICE_ACCOUNT)
        with Operator(kubeconfig, Path(folder), sources=str(file)):
            edge = -(-(time.time_ns() + _SETTLED_NS) // MINUTE) * MINUTE
            made = copies(edge, count)
            seen = _run(plane, plant, pages, made, edge, seconds)
    outcomes = {name: [outcome(timeline) for timeline in timelines] for name, timelines in seen.items()}
    rows = table(outcomes)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(as_json(seen, outcomes)) + "\n")
    draw(seen, outcomes, PICTURE)
    _say(f"\n{as_text(rows)}\n\nThe picture is {PICTURE.absolute()}, the timelines are in {RESULT.absolute()}")
    return 0


def _run(
    plane: ControlPlane, plant: Plant, pages: PodPages, made: Sequence[Copy], edge: int, seconds: int
) -> dict[str, list[list[Seen]]]:
    """The timeline of each copy by autoscaler, from some seconds before its step."""
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    plane.apply(*(copy.deployment for copy in made))
    for copy in made:
        plant.add_target(NAMESPACE, {"app": copy.name}, copy.cores)
        pages.loads[NAMESPACE, copy.name] = copy.in_flight
    api = Api(plane.admin_kubeconfig)
    wait_until(
        lambda: _looked(api), lambda looked: all(ready == PODS_BEFORE for _, ready in looked.values()), within_s=90
    )
    plane.apply(*(copy.document(edge) for copy in made))
    _say(
        f"{len(made)} Deployments of {PODS_BEFORE} pods stand; the step comes in {(edge - time.time_ns()) // SECOND} s"
    )
    # The schedule is early on purpose: what it did is to be seen too.
    begin = edge - round(_BEFORE_S * 4) * SECOND
    time.sleep(max(0.0, (begin - time.time_ns()) / SECOND))
    timelines: dict[str, list[Seen]] = defaultdict(list)
    told = False
    while (now := time.time_ns()) < max(copy.step for copy in made) + seconds * SECOND:
        if now >= edge and not told:
            _say("the step")
            told = True
        looked = _looked(api)
        for copy in made:
            replicas, ready = looked[copy.name]
            timelines[copy.name].append(Seen((now - copy.step) / SECOND, replicas, ready))
        time.sleep(_LOOK_S)
    grouped: dict[str, list[list[Seen]]] = defaultdict(list)
    for copy in made:
        grouped[copy.autoscaler].append(timelines[copy.name])
    return grouped


def _looked(api: Api) -> dict[str, tuple[int, int]]:
    """Replicas asked for and Ready of each Deployment."""
    return {
        listed_item["metadata"]["name"]: (
            listed_item["spec"]["replicas"],
            listed_item.get("status", {}).get("readyReplicas", 0),
        )
        for listed_item in api.get(_DEPLOYMENTS)["items"]
    }


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
