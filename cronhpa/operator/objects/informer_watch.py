"""
The watch of the CronHPA objects as that of pods and targets (`kube/informer`), for large fleets.

It decodes only what an event changes, so echoes of our own status writes are cheap: at an edge that all objects share
they are most of the events.
"""

from __future__ import annotations

import asyncio
from functools import partial

from cronhpa.kube.client import Client
from cronhpa.kube.informer import IDLE_SECONDS, watch_events
from cronhpa.operator.objects.object_watch import ObjectWatch, objects_path


class InformerWatch:
    is_by_kopf = False

    def __init__(self, client: Client) -> None:
        self._client = client

    async def run(self, objects: ObjectWatch) -> None:
        """Watches each namespace until cancelled."""
        await asyncio.gather(
            *(objects.watch_again(partial(self._watch, objects, namespace)) for namespace in objects.namespaces)
        )

    async def _watch(self, objects: ObjectWatch, namespace: str) -> None:
        """Passes on the events behind the newest list, until the connection ends."""
        path, params = objects_path(namespace), objects.scope.params()
        version = objects.versions[namespace]
        async for kind, raw in watch_events(self._client, path, version, idle_seconds=IDLE_SECONDS, params=params):
            objects.inventory.apply_event(kind, raw)
