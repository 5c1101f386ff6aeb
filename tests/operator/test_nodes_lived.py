"""Nodes that take 90 s, in virtual time: when the pods of a window have room, with placeholders and without."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Any, NamedTuple

import pytest
from lives import Life, cronhpa, until
from model_api import ModelApi
from virtual_time import live

from cronhpa.operator.writes.placeholder_settings import PlaceholderSettings

NODE_SECONDS, SCAN_SECONDS, CORES = 90, 10, 4
# 12 pods of a core from 07:20 on, asked for 30 s before it, because a pod takes 20 s to be Ready; two before that.
START, LEAD, POD_SECONDS = 20 * 60, 30, 20
OWN = "operator"
TEMPLATE = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}


class Seen(NamedTuple):
    """late: seconds from the window's start until its last pod is Ready. node_seconds: up to ten minutes after it."""

    late: float
    nodes: int
    node_seconds: int


class Pool:
    """
    A node autoscaler: each ten seconds it orders nodes for the pods without room, placeholders as others, and a node is
    there 90 s later. Pods preempt placeholders. The first node is there.
    """

    def __init__(self, api: ModelApi) -> None:
        self._api = api
        self._coming: list[float] = []
        self.nodes, self.node_seconds = 1, 0
        self.fit_at: int | None = None

    async def run(self) -> None:
        for second in range(START + 600):
            await until(second)
            while self._coming and self._coming[0] <= second:
                self._coming.pop(0)
                self.nodes += 1
            pods, room = self._api.replicas("prod", "shop"), self.nodes * CORES
            if pods == 12 and room >= pods and self.fit_at is None:
                self.fit_at = second
            made = [one for (where, _), one in self._api.objects["deployments"].items() if where == OWN]
            wanted = pods + sum(one["spec"]["replicas"] for one in made)
            for one in made:
                ready = {"readyReplicas": min(one["spec"]["replicas"], max(room - pods, 0))}
                self._api.edit("deployments", OWN, one["metadata"]["name"], status=ready)
            if second % SCAN_SECONDS == 0:
                missing = ceil(max(wanted - room, 0) / CORES) - len(self._coming)
                self._coming += [second + NODE_SECONDS] * missing
            self.node_seconds += self.nodes


def lived(**spec: Any) -> Seen:
    api = ModelApi()

    async def scenario() -> Seen:
        labels = {"matchLabels": {"app": "shop"}}
        api.create("deployments", "prod", "shop", spec={"replicas": 2, "selector": labels, "template": TEMPLATE})
        window = {"start": "20 7 * * *", "end": "0 18 * * *", "minReplicas": 12, "leadTimeSeconds": LEAD}
        at_once = {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}}
        cronhpa(api, metrics=None, maxReplicas=20, schedules=[{"name": "day", **window}], behavior=at_once,
                minReplicas=2, **spec)  # fmt: skip
        pool = Pool(api)
        async with Life(api, placeholders=PlaceholderSettings("Deployment", OWN, "placeholder", "pause:1", 100)):
            await asyncio.create_task(pool.run())
        assert pool.fit_at is not None
        return Seen(pool.fit_at + POD_SECONDS - START, pool.nodes, pool.node_seconds)

    return live(scenario)


def test_pods_are_late_by_a_node_without_placeholders_and_ready_at_the_start_with_them(caplog):
    """
    Asked for at 07:19:30, the next scan 0 to 10 s later, 90 s for the nodes, 20 s for the pods: 80 to 90 s late. With
    placeholders from 07:17:30 on the nodes are there at 07:19: no pod is late, for two nodes of two minutes more.
    """
    without, early = lived(), lived(placeholders={"maxReplicas": 20, "nodeStartupSeconds": 120})

    assert 80 <= without.late <= 90
    assert early.late <= 0
    assert without.nodes == early.nodes == 3
    assert early.node_seconds - without.node_seconds == pytest.approx(2 * 120, abs=2 * SCAN_SECONDS)
    assert "had no node" not in caplog.text


def test_nodes_that_take_longer_than_stated_are_late_by_the_difference_and_told(caplog):
    """Placeholders a minute before the lead: 30 s earlier than without them is too late, and the log says so."""
    without, short = lived(), lived(placeholders={"maxReplicas": 20, "nodeStartupSeconds": 60})

    assert 60 - SCAN_SECONDS <= without.late - short.late <= 60 + SCAN_SECONDS
    assert 1 == caplog.text.count("8 of 10 had no node when the pods came")
