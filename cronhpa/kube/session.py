"""The connections to an API server, and credentials that are rotated while they are open: token, CA, certificate."""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import logging
import math
from collections.abc import Sequence

import aiohttp
import kubernetes.config
from kubernetes.client import Configuration

from cronhpa.kube.credentials import bearer_token, keepalive_socket, tls_context, tls_files

LOG = logging.getLogger(__name__)

USER_AGENT = "cronhpa"
CONNECT_SECONDS = 10.0
# asyncio keeps a buffer of 256 KiB for each open TLS connection by default. A TLS record holds 16 KiB at most.
_READ_BYTES = 2**16
# A projected token is rotated long before it expires; client-go reads it anew as often.
_TOKEN_SECONDS = 60.0
# The files of the certificates are read no more often than this, however many connections TLS refuses.
_TLS_SECONDS = 10.0


class ApiSession:
    """agent: how the audit log of the API server names this process."""

    def __init__(self, configuration: Configuration, agent: str, traces: Sequence[aiohttp.TraceConfig] = ()) -> None:
        self._configuration = configuration
        self._agent = agent
        self._traces = list(traces)
        self._current: aiohttp.ClientSession | None = None
        # Before the last rotation of certificates.
        self._former: aiohttp.ClientSession | None = None
        self._token: str | None = None
        self._token_age = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._tls_age = -math.inf
        self._tls_files = b""

    @property
    def current(self) -> aiohttp.ClientSession:
        assert self._current is not None, "open the client with `async with`"
        return self._current

    async def open(self) -> None:
        # For the whole process: asyncio has no such setting for one connection.
        asyncio.sslproto.SSLProtocol.max_size = _READ_BYTES
        self._token = await asyncio.to_thread(bearer_token, self._configuration)
        self._tls_files = await asyncio.to_thread(tls_files, self._configuration)
        self._current = self._connect()
        self._token_age = asyncio.get_running_loop().time()

    async def close(self) -> None:
        for session in (self._former, self._current):
            if session is not None:
                await session.close()

    async def headers(self, *, fresh: bool = False) -> dict[str, str]:
        now = asyncio.get_running_loop().time()
        if fresh or now - self._token_age > _TOKEN_SECONDS:
            self._token_age = now
            await self.follow_rotation()
            # One read at a time, however many requests want it: a plugin of the kubeconfig may hang, and each read
            # takes a thread. A request that is given up leaves it running.
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read_token(), name="API token")
            await asyncio.shield(self._reading)
        return {"Authorization": self._token} if self._token else {}

    async def _read_token(self) -> None:
        try:
            self._token = await asyncio.to_thread(bearer_token, self._configuration)
        except (kubernetes.config.ConfigException, OSError) as error:
            # The file may be just being rotated: keep the present token, and try again in a minute.
            LOG.warning("the API token cannot be read: %s", error)

    def _connect(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, ssl=tls_context(self._configuration), socket_factory=keepalive_socket)
        return aiohttp.ClientSession(
            connector=connector,
            read_bufsize=_READ_BYTES,
            trace_configs=self._traces,
            headers={"User-Agent": self._agent, "Accept": "application/json", "Accept-Encoding": "gzip"},
        )

    async def follow_rotation(self) -> None:
        """
        Connects anew where the files of the CA or of the client certificate changed.

        Requests and watches under way end on their connections; these are closed at the next rotation.
        """
        now = asyncio.get_running_loop().time()
        if now - self._tls_age < _TLS_SECONDS:
            return
        self._tls_age = now
        try:
            files = await asyncio.to_thread(tls_files, self._configuration)
            if files == self._tls_files:
                return
            session = self._connect()
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            # The files may be just being written: keep the present ones, and look again.
            LOG.warning("the certificates of the API cannot be read: %s", error)
            return
        LOG.info("the certificates of the API were rotated: new connections use the new ones")
        former, self._former, self._current = self._former, self._current, session
        self._tls_files = files
        if former is not None:
            await former.close()
