"""Lives of the operator on the model API, in virtual time: started, killed, started again from what the API holds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

from model_api import START, ModelApi, ModelClient

from cronhpa.core.instant import SECOND
from cronhpa.operator.app import Operator
from cronhpa.operator.settings import Settings

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


def external(name: str, value: int = 10) -> dict[str, Any]:
    return {"type": "External", "external": {"metric": {"name": name}, "target": {"type": "Value", "value": value}}}


def one_pod_each(seconds: int, *, window: int = 0) -> dict[str, Any]:
    """A direction's rules: one pod per period."""
    policy = {"type": "Pods", "value": 1, "periodSeconds": seconds}
    return {"stabilizationWindowSeconds": window, "policies": [policy], "selectPolicy": "Max"}


def rules(up: dict[str, Any], down: dict[str, Any]) -> dict[str, Any]:
    return {"scaleUp": up, "scaleDown": down}


class Life:
    """The operator as a process: `async with` kills it at the end without any farewell."""

    def __init__(self, api: ModelApi) -> None:
        self.api = api
        self.client = ModelClient(api)
        self.operator = Operator(Settings(store=Path("/nowhere/history.db")), self.client)
        self.cycle = self.operator._cycle
        self.cycle._clock = api.now
        self.inventory = self.operator._inventory
        self._tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Self:
        operator = self.operator
        works = [informer.run() for informers in operator._informers.values() for informer in informers]
        works += [self._hear(), self.inventory.sweep(self.client, ()), operator._events.run(), self._turn()]
        self._tasks = [asyncio.create_task(work) for work in works]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.dead = True
        tasks = [*self._tasks, *self.cycle._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.operator._targets.close()

    async def _hear(self) -> None:
        """What kopf's thread tells of the CronHPA objects."""
        queue = self.api.subscribe("cronhpas")
        while True:
            self.inventory._take(*await queue.get())

    async def _turn(self) -> None:
        while not self.operator._is_ready():  # noqa: ASYNC110 - informers tell of it one by one
            await asyncio.sleep(0.01)
        await self.cycle.run()

    def memory(self, name: str = "shop", namespace: str = "prod") -> Any:
        return self.inventory.items[namespace, name].memory


def deployment(api: ModelApi, name: str = "shop", replicas: int = 2, namespace: str = "prod") -> None:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
    api.create("deployments", namespace, name, spec=spec)


def cronhpa(api: ModelApi, name: str = "shop", namespace: str = "prod", **spec: Any) -> None:
    """An object on the Deployment of its name, with these fields of its spec besides the usual ones."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    usual = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [CPU]}
    stated = {key: value for key, value in {**usual, **spec}.items() if value is not None}
    api.create("cronhpas", namespace, name, spec=stated)


def status(api: ModelApi, name: str = "shop", namespace: str = "prod") -> dict[str, Any]:
    return api.objects["cronhpas"][namespace, name].get("status", {})


def condition(api: ModelApi, kind: str, name: str = "shop") -> dict[str, Any]:
    return next((item for item in status(api, name).get("conditions", []) if item["type"] == kind), {})


async def until(seconds: float) -> None:
    """Lets time pass to so many seconds after the start."""
    await asyncio.sleep(max(0.0, seconds - asyncio.get_running_loop().time()))


def timeline(api: ModelApi, name: str = "prod/shop") -> list[tuple[int, int, int]]:
    """(second, from, to) of each change of a target's replicas."""
    return [((at - START) // SECOND, old, new) for at, target, old, new in api.scalings if target == name]
