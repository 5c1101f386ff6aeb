"""
The model of the API server (tests/operator/model_api.py) beside the real one: one trace of requests is played to both.

What is compared: the code and reason of each refusal; of each object its spec, status and generation, whether its
version is another one than before, and whether it is another object; pages of lists; the events of a watch.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from model_api import ModelApi, ModelClient

from cronhpa.kube.client import Client
from cronhpa.kube.credentials import load_configuration
from cronhpa.kube.errors import ClusterError
from testbed.wait import wait_until

WIDGETS = "widgets.example.com"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# A kind that no controller of the testbed looks after, with both subresources.
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": WIDGETS},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}},
            "subresources": {
                "status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            },
        }],
    },
}  # fmt: skip


@pytest.fixture
def widgets(control_plane):
    control_plane.apply(DEFINITION)
    wait_until(lambda: control_plane.kubectl("get", "--raw", "/apis/example.com/v1"))
    yield
    control_plane.kubectl("delete", "crd", WIDGETS)


class Trace:
    """What a client was answered; `told` has an entry for each request."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.told: list[Any] = []
        self.events: list[Any] = []
        self._client, self._namespace = client, namespace
        self._versions: dict[str, str] = {}
        self._uids: dict[str, str] = {}

    def path(self, *names: str, api: str = "/apis/example.com/v1", plural: str = "widgets") -> str:
        return "/".join((f"{api}/namespaces/{self._namespace}/{plural}", *names))

    async def ask(self, what: str, answer: Any) -> Any:
        try:
            body = await answer
        except ClusterError as error:
            self.told.append((what, error.status, error.reason))
            return {}
        self.told.append((what, "done" if body is None else self.seen(body)))
        return body

    def seen(self, body: dict[str, Any]) -> dict[str, Any]:
        meta = body["metadata"]
        name, version, uid = meta["name"], meta["resourceVersion"], meta["uid"]
        has_changed, is_other = self._versions.get(name) != version, self._uids.get(name, uid) != uid
        self._versions[name], self._uids[name] = version, uid
        if "generation" not in meta:  # a scale, whose other parts are of no kind that has pods
            return {"replicas": body["spec"].get("replicas"), "has changed": has_changed}
        parts = {key: body[key] for key in ("spec", "status") if key in body}
        return {**parts, "generation": meta["generation"], "has changed": has_changed, "is other": is_other}

    async def get(self, what: str, *names: str) -> Any:
        return await self.ask(what, self._client.get(self.path(*names), dict))

    async def create(self, what: str, name: str, **body: Any) -> Any:
        meta = {"name": name, "namespace": self._namespace}
        whole = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta, **body}
        return await self.ask(what, self._client.create(self.path(), whole, dict))

    async def patch(self, what: str, body: dict[str, Any], *names: str) -> Any:
        return await self.ask(what, self._client.merge_patch(self.path(*names), body, dict))

    async def replace(self, what: str, body: dict[str, Any], name: str) -> Any:
        return await self.ask(what, self._client.replace(self.path(name), body, dict))

    async def delete(self, what: str, name: str, **options: Any) -> None:
        await self.ask(what, self._client.delete(self.path(name), options))

    async def watch(self, version: str) -> None:
        async for line in self._client.watch(self.path(), version, idle_seconds=60):
            event = msgspec.json.decode(line)
            body = event["object"]
            if event["type"] != "BOOKMARK":
                parts = {key: body[key] for key in ("spec", "status") if key in body}
                self.events.append((event["type"], body["metadata"]["name"], body["metadata"]["generation"], parts))

    async def play(self) -> None:
        await self.get("one that is not there", "shop")
        await self.get("the scale of one that is not there", "shop", "scale")
        await self.patch("a status of one that is not there", {"status": {"a": 1}}, "shop", "status")
        await self.patch("a scale of one that is not there", {"spec": {"replicas": 1}}, "shop", "scale")
        await self.delete("one that is not there is deleted", "shop")
        first = await self.create("made, with a status", "shop", spec={"replicas": 2, "x": {"y": 1}}, status={"a": 0})
        watching = asyncio.create_task(self.watch(first["metadata"]["resourceVersion"]))
        await asyncio.sleep(0.5)
        await self.create("made twice", "shop", spec={"replicas": 1})
        await self.get("read", "shop")
        stale = await self.get("its scale", "shop", "scale")
        await self.patch("scaled", {"spec": {"replicas": 3}}, "shop", "scale")
        await self.patch("scaled to what it is", {"spec": {"replicas": 3}}, "shop", "scale")
        old = {"metadata": {"resourceVersion": stale["metadata"]["resourceVersion"]}}
        await self.patch("scaled by an old version", {**old, "spec": {"replicas": 4}}, "shop", "scale")
        now = await self.get("its scale by now", "shop", "scale")
        new = {"metadata": {"resourceVersion": now["metadata"]["resourceVersion"]}}
        await self.patch("scaled by its version", {**new, "spec": {"replicas": 4}}, "shop", "scale")
        await self.patch("a status", {"status": {"replicas": 4, "a": {"b": 1, "c": [1, 2]}}}, "shop", "status")
        await self.patch("the same status", {"status": {"replicas": 4}}, "shop", "status")
        await self.patch("a part is removed", {"status": {"a": {"b": None}}}, "shop", "status")
        await self.patch("a list is another one", {"status": {"a": {"c": [3]}}}, "shop", "status")
        await self.patch("a spec beside a status", {"spec": {"replicas": 9}, "status": {"z": 1}}, "shop", "status")
        await self.patch("a status by an old version", {**old, "status": {"z": 2}}, "shop", "status")
        await self.patch("a status of another uid", {"metadata": {"uid": "x"}, "status": {"z": 3}}, "shop", "status")
        await self.patch("a spec", {"spec": {"replicas": 5, "x": {"y": None, "z": 2}}}, "shop")
        await self.patch("the same spec", {"spec": {"replicas": 5}}, "shop")
        await self.patch("a status beside a spec", {"spec": {"replicas": 6}, "status": {"z": 9}}, "shop")
        await self.patch("a spec by an old version", {**old, "spec": {"replicas": 7}}, "shop")
        whole = await self.get("the whole", "shop")
        await self.replace("replaced", {**whole, "spec": {"replicas": 1}}, "shop")
        await self.replace("replaced by an old version", {**whole, "spec": {"replicas": 2}}, "shop")
        missing = {**whole, "metadata": {**whole.get("metadata", {}), "name": "none"}}
        await self.replace("one that is not there is replaced", missing, "none")
        for name in ("one", "two", "three"):
            await self.create("more", name, spec={"replicas": 1})
        await self.pages()
        await self.delete("deleted by another uid", "shop", preconditions={"uid": "x"})
        await self.delete("deleted", "shop")
        await self.get("deleted, and read", "shop")
        await self.patch("deleted, and told a status", {"status": {"z": 4}}, "shop", "status")
        await self.create("made anew", "shop", spec={"replicas": 8})
        await self.patch("by the version of the former one", {**new, "spec": {"replicas": 9}}, "shop", "scale")
        await self.ask("no such kind", self._client.get(self.path(plural="gadgets"), dict))
        await self.ask("no such API", self._client.get(self.path(api="/apis/nowhere.io/v1"), dict))
        await asyncio.sleep(0.5)
        watching.cancel()

    async def pages(self) -> None:
        going = ""
        for _ in range(3):
            query = {"limit": "2", **({"continue": going} if going else {})}
            page = await self._client.get(self.path(), dict, query)
            going = page["metadata"].get("continue", "")
            self.told.append(("page", [one["metadata"]["name"] for one in page["items"]], bool(going)))
            if not going:
                break
        items = [item async for page, _ in self._client.pages(self.path()) for item in page]
        self.told.append(("all", sorted(msgspec.json.decode(item)["metadata"]["name"] for item in items)))


async def played(client: Client, namespace: str) -> Trace:
    trace = Trace(client, namespace)
    await trace.play()
    return trace


@pytest.mark.usefixtures("widgets")
async def test_a_trace_of_requests_is_answered_by_the_model_as_by_the_real_api_server(control_plane, namespace):
    model = await played(ModelClient(ModelApi()), namespace)
    async with Client(load_configuration(str(control_plane.admin_kubeconfig))) as client:
        real = await played(client, namespace)

    assert real.told == model.told
    assert real.events == model.events


LEASE = {"holderIdentity": "one", "leaseDurationSeconds": 15}


async def of_leases_and_events(client: Client, namespace: str) -> list[Any]:
    trace = Trace(client, namespace)
    leases = trace.path(api="/apis/coordination.k8s.io/v1", plural="leases")
    lease = {"metadata": {"name": "lead", "namespace": namespace}, "spec": LEASE}
    told = []

    async def ask(what: str, answer: Any) -> Any:
        try:
            body = await answer
        except ClusterError as error:
            told.append((what, error.status, error.reason))
            return {}
        told.append((what, body.get("spec", {}).get("holderIdentity"), body.get("count")))
        return body

    await ask("no Lease", client.get(f"{leases}/lead", dict))
    first = await ask("made", client.create(leases, msgspec.to_builtins(lease), dict))
    await ask("made twice", client.create(leases, msgspec.to_builtins(lease), dict))
    taken = {**first, "spec": {**LEASE, "holderIdentity": "two"}}
    await ask("taken", client.replace(f"{leases}/lead", taken, dict))
    await ask("renewed by who lost it", client.replace(f"{leases}/lead", first, dict))
    await ask("read", client.get(f"{leases}/lead", dict))
    events = trace.path(api="/api/v1", plural="events")
    involved = {"kind": "Widget", "name": "shop", "namespace": namespace}
    event = {"metadata": {"name": "told.1", "namespace": namespace}, "involvedObject": involved, "reason": "A",
             "message": "b", "type": "Normal", "count": 1}  # fmt: skip
    await ask("an event", client.create(events, msgspec.to_builtins(event), dict))
    await ask("counted", client.merge_patch(f"{events}/told.1", {"count": 2}, dict))
    await ask("counted, and gone", client.merge_patch(f"{events}/told.2", {"count": 2}, dict))
    return told


async def test_leases_and_events_are_answered_as_by_the_real_api_server(control_plane, namespace):
    model = await of_leases_and_events(ModelClient(ModelApi()), namespace)
    async with Client(load_configuration(str(control_plane.admin_kubeconfig))) as client:
        real = await of_leases_and_events(client, namespace)

    assert real == model
