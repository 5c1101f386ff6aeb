"""A fake API server in a thread, and a kubeconfig that leads to it: for commands, which have a loop of their own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from kube.fake_api import FakeApi, answering

COLLECTION = "/apis/cronhpa.io/v1alpha1/namespaces/{}/cronhpas"
EVERYWHERE = "/apis/cronhpa.io/v1alpha1/cronhpas"


class ServedApi(FakeApi):
    """`server`: its address. `kubeconfig`: a file with its contexts, the first of them current."""

    def __init__(self) -> None:
        super().__init__()
        self.server = ""

    def hold(self, *bodies: dict[str, Any]) -> None:
        """Answer with these CronHPAs: each by its name, those of a namespace, all."""
        lists: dict[str, list[dict[str, Any]]] = {EVERYWHERE: []}
        for body in bodies:
            collection = COLLECTION.format(body["metadata"]["namespace"])
            self.answers[f"{collection}/{body['metadata']['name']}"] = answering(body)
            lists.setdefault(collection, []).append(body)
            lists[EVERYWHERE].append(body)
        for path, items in lists.items():
            self.answers[path] = answering(
                {"kind": "CronHPAList", "metadata": {"resourceVersion": "7"}, "items": items}
            )

    def refuse(self, path: str, status: int, reason: str, message: str) -> None:
        failure = {"kind": "Status", "code": status, "reason": reason, "message": message}
        self.answers[path] = answering(failure, status=status)


def write_kubeconfig(path: Path, server: str, contexts: dict[str, str | None], **entry: Any) -> Path:
    """A kubeconfig of these contexts with their namespaces; None: the context states none."""
    named = [
        {"name": name, "context": {"cluster": "it", "user": "it", **({"namespace": of} if of else {})}}
        for name, of in contexts.items()
    ]
    clusters = [{"name": "it", "cluster": {"server": server}}]
    users = [{"name": "it", "user": entry}]
    current = next(iter(contexts), "")
    path.write_text(
        json.dumps({"current-context": current, "contexts": named, "clusters": clusters, "users": users}), "utf-8"
    )
    return path


@contextmanager
def serving(api: ServedApi) -> Iterator[ServedApi]:
    """Serves it on a free port of this machine until the end of the block."""
    loop = asyncio.new_event_loop()
    runner: web.AppRunner | None = None

    async def start() -> None:
        nonlocal runner
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", api.serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        api.server = f"http://127.0.0.1:{runner.addresses[0][1]}"

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
