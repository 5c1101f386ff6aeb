"""
The watch of the CronHPA objects by kopf, which only this file uses.

kopf logs in and watches. It has an `on.event` handler only, so it writes nothing: no finalizer, no annotation.

kopf goes on behind the last version that it has seen, and looks for the kind once. So `object_watch` ends it when a
list finds the kind gone or the API's store restored from a backup: there the last version is one of the future.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import kopf
from kubernetes.client import Configuration

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.kube.credentials import bearer_token
from cronhpa.kube.errors import ClusterError
from cronhpa.operator.leader.thread_loop import run_in_thread
from cronhpa.operator.objects.object_watch import ObjectWatch

_RECONNECT_SECONDS = 2.0


class KopfWatch:
    is_by_kopf = True

    def __init__(
        self, configuration: Configuration, run_kopf: Callable[..., Coroutine[Any, Any, None]] = kopf.operator
    ) -> None:
        """run_kopf: `kopf.operator`, or a test's replacement."""
        self._configuration = configuration
        self._run_kopf = run_kopf

    async def run(self, objects: ObjectWatch) -> None:
        """Watches all namespaces until cancelled."""
        await objects.watch_again(partial(self._watch, objects))

    async def _watch(self, objects: ObjectWatch) -> None:
        """Passes on what kopf delivers, until kopf ends."""
        registry = kopf.OperatorRegistry()
        loop = asyncio.get_running_loop()
        has_changes = False  # since kopf's last list

        def apply(event: kopf.RawEvent) -> None:
            nonlocal has_changes
            # The type of an object in a list of kopf's is None. kopf lists anew after each end of its own watch. Its
            # list does not say what was deleted meanwhile, nor of which version it is: our own list says both.
            if event["type"] is None and has_changes:
                objects.request()
            has_changes = event["type"] is not None
            objects.inventory.apply_event(event["type"], event["object"])

        @kopf.on.login(registry=registry)
        def login(**_: Any) -> kopf.ConnectionInfo:
            return connection(self._configuration)

        @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
        async def event(event: kopf.RawEvent, **_: Any) -> None:  # async, because kopf runs other handlers in threads
            loop.call_soon_threadsafe(apply, event)

        stop = threading.Event()
        operator = self._run_kopf(
            registry=registry,
            settings=_settings(),
            clusterwide=objects.namespaces == ("",),
            namespaces=tuple(filter(None, objects.namespaces)),
            standalone=True,
            stop_flag=stop,
        )

        async def watching() -> None:
            try:
                await operator
            finally:
                # kopf waits for the flag in a thread, and asyncio.run waits for that thread: without the flag it would
                # wait for ever after a failure.
                stop.set()

        # In a thread of its own: its first list of many objects takes seconds of CPU, which would delay decisions; and
        # in the main thread it would take over the signals that end the process.
        try:
            await run_in_thread("kopf", watching, called="kopf")
        except RuntimeError as error:
            # Its errors of answers have the status. The API's refusal is no error of ours.
            status = getattr(error.__cause__, "status", None)
            if isinstance(status, int):
                raise ClusterError(status, type(error.__cause__).__name__, str(error.__cause__)) from error
            raise
        finally:
            stop.set()


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.networking.error_backoffs = [1, 2, 3, 5, 8, *[10] * 500]
    settings.networking.request_timeout = 30
    # By default kopf restarts a watch that ends after 0.1 s, with a list of all objects.
    settings.watching.reconnect_backoff = _RECONNECT_SECONDS
    return settings


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
