"""
The watch of the CronHPA objects by kopf, which only this file uses.

kopf logs in and watches. It has an `on.event` handler only, so it writes nothing: no finalizer, no annotation. If its
watch fails for good, scaling goes on with the known objects, and another watch is started.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import kopf
from kubernetes.client import Configuration

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.kube.credentials import bearer_token
from cronhpa.operator.sweep import Sweep
from cronhpa.operator.thread_loop import run_in_thread

LOG = logging.getLogger(__name__)

_RESTART_SECONDS = 5.0
_RECONNECT_SECONDS = 2.0


class KopfWatch:
    """
    take(type, object) is called in the caller's event loop for each event.

    run_kopf: `kopf.operator`, or a test's replacement.
    """

    def __init__(
        self,
        configuration: Configuration,
        namespaces: tuple[str, ...],
        take: Callable[[str | None, Mapping[str, Any]], None],
        sweep: Sweep,
        *,
        restart_seconds: float = _RESTART_SECONDS,
        run_kopf: Callable[..., Coroutine[Any, Any, None]] = kopf.operator,
    ) -> None:
        self.restarts = 0
        self._configuration = configuration
        self._namespaces = namespaces
        self._take = take
        self._sweep = sweep
        self._restart_seconds = restart_seconds
        self._run_kopf = run_kopf
        # Whether kopf has delivered changes since its last list.
        self._follows = False

    async def run(self) -> None:
        """
        Watches until cancelled.

        kopf looks for the kind once, at its start: without the CRD it would never watch anything. So it is started
        after a list succeeded and discovery names the kind, and ended when a list finds the kind gone.

        kopf goes on behind the last version that it has seen. Once the API's store was restored from a backup, this is
        a version of the future: kopf would hear nothing until the store has counted up to it, so it is ended as well.
        """
        while True:
            await self._sweep.watchable.wait()
            try:
                await self._watch_once()
                LOG.warning("the watch of CronHPA objects ended; it is started again")
            except asyncio.CancelledError:
                raise
            except Exception:
                LOG.exception("the watch of CronHPA objects failed; scaling goes on, the watch is started again")
            self.restarts += 1
            # List first: a deletion between two watches causes no event, and a kind that is gone needs no watch.
            self._sweep.request()
            await asyncio.sleep(self._restart_seconds)

    def _apply(self, kind: str | None, body: Mapping[str, Any]) -> None:
        """
        Applies an event; None is the type of an object in a list of kopf's.

        kopf lists anew after each end of its own watch. Its list does not say what was deleted meanwhile, nor of which
        version it is, so that a store that was restored would not be noticed: our own list says both.
        """
        if kind is None and self._follows:
            self._sweep.request()
        self._follows = kind is not None
        self._take(kind, body)

    async def _watch_once(self) -> None:
        self._follows = False
        self._sweep.restored.clear()
        registry = kopf.OperatorRegistry()
        loop = asyncio.get_running_loop()

        @kopf.on.login(registry=registry)
        def login(**_: Any) -> kopf.ConnectionInfo:
            return connection(self._configuration)

        @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
        async def event(event: kopf.RawEvent, **_: Any) -> None:  # async, because kopf runs other handlers in threads
            loop.call_soon_threadsafe(self._apply, event["type"], event["object"])

        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.networking.error_backoffs = [1, 2, 3, 5, 8, *[10] * 500]
        settings.networking.request_timeout = 30
        # By default kopf restarts a watch that ends after 0.1 s, with a list of all objects.
        settings.watching.reconnect_backoff = _RECONNECT_SECONDS
        stop = threading.Event()
        operator = self._run_kopf(
            registry=registry,
            settings=settings,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            standalone=True,
            stop_flag=stop,
        )

        # In a thread of its own: its first list of many objects takes seconds of CPU, which would delay decisions; and
        # in the main thread it would take over the signals that end the process.
        async def watching() -> None:
            try:
                await operator
            finally:
                # kopf waits for the flag in a thread, and asyncio.run waits for that thread: without the flag it would
                # wait for ever after a failure.
                stop.set()

        ended = run_in_thread("kopf", watching, called="kopf")
        unserved = asyncio.ensure_future(self._sweep.unserved.wait())
        restored = asyncio.ensure_future(self._sweep.restored.wait())
        try:
            await asyncio.wait((ended, unserved, restored), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                ended.result()
        finally:
            unserved.cancel()
            restored.cancel()
            ended.cancel()
            stop.set()


def connection(configuration: Configuration) -> kopf.ConnectionInfo:
    """The credentials for kopf, read again at each login."""
    token = bearer_token(configuration)
    return kopf.ConnectionInfo(
        server=str(configuration.host),
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        scheme="Bearer" if token else None,
        token=token.removeprefix("Bearer ") if token else None,
    )
