"""Lives of the operator on the model API, in virtual time: started, killed, started again from what the API holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from model_api import START, ModelApi, ModelClient

from cronhpa.core.decide import decide
from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.history.database.series import LoadSample
from cronhpa.kube.clock import Clock
from cronhpa.kube.lease import LeaseName
from cronhpa.operator.controller import Controller
from cronhpa.operator.leader.replica import OnlyReplica
from cronhpa.operator.objects.object_watch import ObjectWatch
from cronhpa.operator.writes.placeholder_settings import NO_PLACEHOLDERS, PlaceholderSettings

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


def external(name: str, value: int = 10) -> dict[str, Any]:
    return {"type": "External", "external": {"metric": {"name": name}, "target": {"type": "Value", "value": value}}}


def one_pod_each(seconds: int, *, window: int = 0) -> dict[str, Any]:
    """A direction's rules: one pod per period."""
    policy = {"type": "Pods", "value": 1, "periodSeconds": seconds}
    return {"stabilizationWindowSeconds": window, "policies": [policy], "selectPolicy": "Max"}


def rules(up: dict[str, Any], down: dict[str, Any]) -> dict[str, Any]:
    return {"scaleUp": up, "scaleDown": down}


class StubForecasts:
    """`forecast` makes the newest forecast of a series; `forgotten` are the series that nobody asks for any more."""

    def __init__(self) -> None:
        self.forecast: Callable[[Any], Any] = lambda series: Absent("Learning", f"{series.metric} has no forecast yet")
        self.forgotten: list[Any] = []

    def latest(self, series: Any) -> Any:
        return self.forecast(series)

    def forget(self, series: Any) -> None:
        self.forgotten.append(series)


class ModelWatch:
    """A watch of the CronHPA objects of the model."""

    is_by_kopf = False

    def __init__(self, api: ModelApi) -> None:
        self._api = api

    async def run(self, objects: ObjectWatch) -> None:
        queue = self._api.subscribe("cronhpas")
        while True:
            objects.inventory.apply_event(*await queue.get())


def clock_of(api: ModelApi) -> Clock:
    return Clock(api.now, lambda: asyncio.get_running_loop().time())


class Named(OnlyReplica):
    """The one replica of an installation, which objects name by its Lease."""

    def __init__(self, lease: LeaseName) -> None:
        self.lease = lease


class Life:
    """
    The controller as a process: `async with` kills it at the end without any farewell.

    check_standing: decisions that stand are made anew in each period and compared, so that each life tests it.
    """

    def __init__(
        self,
        api: ModelApi,
        *,
        timeout_seconds: float = 15.0,
        decide: Any = decide,
        replica: Any = None,
        namespaces: tuple[str, ...] = (),
        sources: Any = None,
        check_standing: bool = True,
        placeholders: PlaceholderSettings = NO_PLACEHOLDERS,
    ) -> None:
        self.api = api
        self.client = ModelClient(api, timeout_seconds=timeout_seconds)
        self.forecasts = StubForecasts()
        self.controller = Controller(
            self.client,
            clock_of(api),
            self.forecasts,
            options=ControllerOptions(),
            namespaces=namespaces,
            watch=ModelWatch(api),
            decide=decide,
            replica=replica,
            sources=sources,
            check_standing=check_standing,
            placeholders=placeholders,
        )
        self.control_loop = self.controller.control_loop
        self.inventory = self.controller.inventory
        self._tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Self:
        works = [work for _, work in self.controller.watching()]
        self._tasks = [asyncio.create_task(work) for work in (*works, self._scale())]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.dead = True
        for task in self._tasks:
            task.cancel()
        await self.control_loop.close(0)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.controller.targets.close()
        assert not self.controller.reconciler.standing.differed, (
            "a decision that stood differs from what is decided: see the log"
        )

    async def _scale(self) -> None:
        await self.controller.handover.synced()
        await self.controller.handover.run()

    def loads(self) -> list[LoadSample]:
        """The observed loads, with those of the minute under way."""
        reconciler = self.controller.reconciler
        for state in self.inventory:
            reconciler.loads.flush(state)
        return [*reconciler.loads.unstored]

    def memory(self, name: str = "shop", namespace: str = "prod") -> Any:
        return self.inventory.items[namespace, name].local.memory


def deployment(api: ModelApi, name: str = "shop", replicas: int = 2, namespace: str = "prod") -> None:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
    api.create("deployments", namespace, name, spec=spec)


def cronhpa(api: ModelApi, name: str = "shop", namespace: str = "prod", **spec: Any) -> None:
    """An object on the Deployment of its name, with these fields of its spec besides the usual ones."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    usual = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [CPU]}
    stated = {key: value for key, value in {**usual, **spec}.items() if value is not None}
    api.create("cronhpas", namespace, name, spec=stated)


# Objects that are at rest unless something happens to them.
NEIGHBOURS = ("rest-0", "rest-1", "rest-2", "rest-3")


def shop(replicas: int = 2, load: int = 1000, **spec: Any) -> ModelApi:
    """An API with a Deployment under a load, milli-cores of all its pods, and its CronHPA."""
    api = ModelApi()
    deployment(api, replicas=replicas)
    api.load["prod", "shop"] = load
    cronhpa(api, **spec)
    return api


def at_rest(api: ModelApi, name: str) -> None:
    """An object with two pods at 50 %, which is what it asks for."""
    deployment(api, name, replicas=2)
    api.load["prod", name] = 1000
    cronhpa(api, name, behavior=rules(one_pod_each(15), one_pod_each(30)) if name == "rest-3" else None)


def status(api: ModelApi, name: str = "shop", namespace: str = "prod") -> dict[str, Any]:
    return api.objects["cronhpas"][namespace, name].get("status", {})


def condition(api: ModelApi, kind: str, name: str = "shop") -> dict[str, Any]:
    return next(
        (
            status_condition
            for status_condition in status(api, name).get("conditions", [])
            if status_condition["type"] == kind
        ),
        {},
    )


async def until(seconds: float) -> None:
    """Lets time pass until `seconds` after the start."""
    await asyncio.sleep(max(0.0, seconds - asyncio.get_running_loop().time()))


def timeline(api: ModelApi, name: str = "prod/shop") -> list[tuple[int, int, int]]:
    """(second, from, to) of each change of a target's replicas."""
    return [((at - START) // SECOND, old, new) for at, target, old, new in api.scalings if target == name]
