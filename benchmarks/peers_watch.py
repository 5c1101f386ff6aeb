"""
Writes when .spec.replicas of a Deployment and the number of its Ready pods change, as JSON lines.

Each line has `at`, `kind`, `key` and `number`. It is a process of its own: what it sees at an edge does not wait for a
thread of the bench. Usage: KUBECONFIG FILE.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from testbed.client import Client, Expired

_AGAIN_S = 0.2
_DEPLOYMENTS, _PODS = "/apis/apps/v1/deployments", "/api/v1/pods"


class Changes:
    """The numbers of all Deployments, and the file to which their changes go."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=1 << 16)
        self._replicas: dict[str, int] = {}
        self._is_ready: dict[str, bool] = {}
        self._ready: Counter[str] = Counter()

    def deployment(self, body: dict[str, Any], *, is_gone: bool) -> None:
        number = 0 if is_gone else body.get("spec", {}).get("replicas", 0)
        key = _key(body, body["metadata"]["name"])
        if self._replicas.get(key) != number:
            self._replicas[key] = number
            self.write("replicas", key, number)

    def pod(self, body: dict[str, Any], *, is_gone: bool) -> None:
        meta = body["metadata"]
        is_ready = not is_gone and not meta.get("deletionTimestamp") and _is_ready(body.get("status", {}))
        if self._is_ready.get(meta["uid"], False) != is_ready:
            self._is_ready[meta["uid"]] = is_ready
            key = _key(body, meta.get("labels", {}).get("app", ""))
            self._ready[key] += 1 if is_ready else -1
            self.write("ready", key, self._ready[key])

    def write(self, kind: str, key: str, number: int) -> None:
        line = {"at": time.time(), "kind": kind, "key": key, "number": number}
        self._file.write(msgspec.json.encode(line) + b"\n")

    async def flush(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._file.flush()


def _key(body: dict[str, Any], name: str) -> str:
    return f"{body['metadata']['namespace']}/{name}"


def _is_ready(status: dict[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


async def follow(client: Client, path: str, note: Callable[..., None], changes: Changes) -> None:
    """Lists and watches a kind for ever; a watch that is lost begins anew, with a line that says so."""
    known: dict[str, dict[str, Any]] = {}
    while True:
        try:
            listed = msgspec.json.decode(await client.request("GET", path))
            now = {item["metadata"]["uid"] for item in listed["items"]}
            for uid in known.keys() - now:
                note(known.pop(uid), is_gone=True)
            for item in listed["items"]:
                known[item["metadata"]["uid"]] = {"metadata": item["metadata"]}
                note(item, is_gone=False)
            version = listed["metadata"]["resourceVersion"]
            while True:
                async for line in client.watch(path, version):
                    version = _take(msgspec.json.decode(line), known, note)
        except (aiohttp.ClientError, TimeoutError, Expired):
            changes.write("lost", path, 0)
            await asyncio.sleep(_AGAIN_S)


def _take(event: dict[str, Any], known: dict[str, dict[str, Any]], note: Callable[..., None]) -> str:
    """Notes an event of a watch; returns its resource version. Raises Expired."""
    if event["type"] == "ERROR":
        raise Expired
    body = event["object"]
    if event["type"] != "BOOKMARK":
        is_gone = event["type"] == "DELETED"
        known[body["metadata"]["uid"]] = {"metadata": body["metadata"]}
        if is_gone:
            del known[body["metadata"]["uid"]]
        note(body, is_gone=is_gone)
    version: str = body["metadata"]["resourceVersion"]
    return version


async def main() -> None:
    client, changes = Client(Path(sys.argv[1])), Changes(Path(sys.argv[2]))
    await asyncio.gather(
        follow(client, _DEPLOYMENTS, changes.deployment, changes),
        follow(client, _PODS, changes.pod, changes),
        changes.flush(),
    )


if __name__ == "__main__":
    asyncio.run(main())
