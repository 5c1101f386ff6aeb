"""The few requests that the plant makes of an API server, as whoever a kubeconfig names."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import kubernetes.client
import kubernetes.config
import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path


class NotFound(aiohttp.ClientError):
    """The API server has no such object."""


class Expired(Exception):  # noqa: N818 - no error: the watch must begin anew, with a list
    """The watch cannot go on from its resource version."""


class Client:
    """The requests that the plant makes of the API server."""

    def __init__(self, kubeconfig: Path) -> None:
        configuration = self._configuration = kubernetes.client.Configuration()
        load: Any = kubernetes.config.load_kube_config  # it has no annotations
        load(config_file=str(kubeconfig), client_configuration=configuration)
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        # A line of a watch is a whole pod: 64 KB, the default, is too little for some.
        self._session = aiohttp.ClientSession(
            configuration.host, connector=aiohttp.TCPConnector(ssl=context), read_bufsize=1 << 20
        )

    async def close(self) -> None:
        await self._session.close()

    async def request(self, method: str, path: str) -> bytes:
        timeout = aiohttp.ClientTimeout(total=30)
        async with self._session.request(method, path, headers=self._headers(), timeout=timeout) as response:
            return await _checked(response)

    async def apply(self, path: str, document: Mapping[str, object]) -> None:
        headers = self._headers() | {"Content-Type": "application/apply-patch+yaml"}
        query = {"fieldManager": "cronhpa-testbed", "force": "true"}
        body = msgspec.json.encode(document)
        async with self._session.patch(path, params=query, data=body, headers=headers) as response:
            await _checked(response)

    async def watch(self, path: str, version: str) -> AsyncIterator[bytes]:
        query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "600"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with self._session.get(path, params=query, headers=self._headers(), timeout=timeout) as response:
            if response.status != 200:
                raise Expired
            async for line in response.content:
                yield line

    def _headers(self) -> dict[str, str]:
        token = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return {"Authorization": token} if token else {}


async def _checked(response: aiohttp.ClientResponse) -> bytes:
    body = await response.read()
    if response.status == 404:
        raise NotFound(str(response.url))
    if response.status >= 400:
        raise aiohttp.ClientResponseError(
            response.request_info, response.history, status=response.status, message=body.decode(errors="replace")
        )
    return body
