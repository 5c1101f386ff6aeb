"""
The watch of the CronHPA objects.

It decodes only new parts, so echoes of our own status writes are cheap; a framework that keeps every object as a
dictionary decodes all of it. At an edge that all objects share, most events are echoes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

import msgspec

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.informer import IDLE_SECONDS, watch_events
from cronhpa.operator.sweep import Sweep

LOG = logging.getLogger(__name__)

_RESTART_SECONDS = 1.0
# After a shorter watch there is a longer pause, to avoid list after list.
_LIVED_SECONDS = 5.0
_SHORT_LIVED_RESTART_SECONDS = 5.0


class ObjectWatch:
    """
    take(type, object) is called for each event, bookmarks included.

    A watch begins at the version of the sweep's newest list. If the watch ends, or the sweep's scope changes, the sweep
    lists again and a new watch begins.
    """

    def __init__(
        self,
        client: Client,
        namespaces: tuple[str, ...],
        take: Callable[[str | None, msgspec.Raw], None],
        sweep: Sweep,
        *,
        restart_seconds: float | None = None,
    ) -> None:
        self.restarts = 0
        self._until: dict[str, asyncio.Timeout] = {}
        sweep.scope.on_change(self._on_rescope)
        self._client = client
        self._namespaces = namespaces or ("",)
        self._take = take
        self._sweep = sweep
        self._restart_seconds = restart_seconds

    async def run(self) -> None:
        """Watches until cancelled."""
        await asyncio.gather(*map(self._watch, self._namespaces))

    def _on_rescope(self) -> None:
        now = asyncio.get_running_loop().time()
        for until in self._until.values():
            until.reschedule(now)
        self._until.clear()

    async def _follow(self, path: str, version: str) -> None:
        params = self._sweep.scope.params()
        async for kind, raw in watch_events(self._client, path, version, idle_seconds=IDLE_SECONDS, params=params):
            self._take(kind, raw)

    async def _watch(self, namespace: str) -> NoReturn:
        loop = asyncio.get_running_loop()
        scope = ("namespaces", namespace) if namespace else ()
        path = path_of("apis", GROUP, VERSION, *scope, PLURAL)
        while True:
            await self._sweep.watchable.wait()
            begun = loop.time()
            try:
                async with asyncio.timeout(None) as self._until[namespace]:
                    await self._follow(path, self._sweep.versions[namespace])
            except TimeoutError:  # the scope has changed: the sweep lists the new shards
                continue
            except ClusterError as error:
                self._sweep.scope.note_refusal(error)
                LOG.warning("watch of %s: %s", path, error.message)
            except Exception:
                LOG.exception("watch of %s: it is started again", path)
            finally:
                self._until.pop(namespace, None)
            self.restarts += 1
            # List first: a deletion between two watches causes no event, and a kind that is gone needs no watch.
            self._sweep.request()
            pause = _RESTART_SECONDS if loop.time() - begun > _LIVED_SECONDS else _SHORT_LIVED_RESTART_SECONDS
            await asyncio.sleep(pause if self._restart_seconds is None else self._restart_seconds)
