"""
A thin client of the Kubernetes API: one session, typed decoding, errors as one exception.

Credentials come from the `kubernetes` package (kubeconfig with exec plugins and OIDC, or the pod's own token, re-read
as it rotates). Its typed models are left out on purpose: a list of 1,000 pods takes them 620 ms, and 4 ms here.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
import kubernetes.config
import msgspec
from kubernetes.client import Configuration
from msgspec import Struct
from yarl import URL

from cronhpa.core.printable import shortened, without_userinfo

LOG = logging.getLogger(__name__)

T = TypeVar("T")

USER_AGENT = "cronhpa"
FIELD_MANAGER = "cronhpa"
_PAGE = 500
# Requests under way at once. Watches are not among them: each holds a connection for as long as it lives.
_REQUESTS_AT_ONCE = 64
# Metrics come from servers behind the API server, each with places of its own: one that hangs must not take those of
# another, nor of everything else.
_METRIC_READS_AT_ONCE = 32
# asyncio reads each TLS connection into a buffer of 256 KiB, kept while it is open: at a first start 72 of them were
# 19 MB. A TLS record holds 16 KiB at most.
_READ_BYTES = 2**16
_CONNECT_SECONDS = 10.0
# All bounds are of what is unpacked. Default etcd keeps objects of 1.5 MiB, whose JSON is six times as long at worst:
# what is one byte there is \u0001 here. So any object passes, and no answer is longer than it has to be.
_OBJECT_BYTES = 2**24
_LINE_BYTES = 2**24
# 500 pods with all that people put into them are 5 to 15 MiB. A longer page is asked for again in parts.
_PAGE_BYTES = 2**24
_PAGE_PARTS = 8
# A server that refuses says why; a page of a proxy that does not is cut.
_ERROR_BYTES = 2**18
_MESSAGE_MAX = 4096
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,255}")
TOO_LARGE = "TooLarge"
# Of answers longer than this only so many are read at once, of each metrics API and of all the rest: 32 of 32 MiB each
# would be a gigabyte. The others wait, which costs nothing: what is sent waits with them.
_SHORT_BYTES = 2**19
_LONG_ANSWERS_AT_ONCE = 2
_ATTEMPTS = 2
# A projected token is rotated long before it ends; client-go looks for a new one as often.
_TOKEN_SECONDS = 60.0


class Cause(Struct, frozen=True):
    """One field that the API server refused, and why."""

    field: str = ""
    message: str = ""


# What decoding an answer of others raises. msgspec's own errors are ValueErrors, one for a text that is no UTF-8 is as
# well; lists in lists in lists end in a RecursionError.
UNREADABLE = (ValueError, RecursionError)


class ClusterError(Exception):
    """
    What the API refused, or that it could not be reached.

    status is the HTTP status, 0 where there was no answer; causes are the fields of an object that was refused.
    """

    def __init__(self, status: int, reason: str, message: str, causes: tuple[Cause, ...] = ()) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        super().__init__(message)


def is_ambiguous(error: ClusterError) -> bool:
    """Whether a write that ended so may have been done: no answer, or one of a server in trouble."""
    return error.status == 0 or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR


class _Details(Struct):
    causes: tuple[Cause, ...] = ()


class _Failure(Struct):
    """The Status object that the API answers an error with."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


class _ListMeta(Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    cont: str = msgspec.field(default="", name="continue")


class _Page(Struct):
    metadata: _ListMeta = _ListMeta()


def load_configuration(kubeconfig: str | None = None, context: str | None = None) -> Configuration:
    """
    How to reach the API: the named kubeconfig, else the pod's own account, else the default kubeconfig.

    Raises ClusterError where none of them can be read.
    """
    configuration = Configuration()
    try:
        if kubeconfig is not None:
            load_kube_config(kubeconfig, context, configuration)
            return configuration
        try:
            kubernetes.config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # kubernetes is untyped here
        except kubernetes.config.ConfigException:
            load_kube_config(None, context, configuration)
    # A file that is no kubeconfig ends in whatever the package's reading of it ends in: TypeError, YAMLError, ...
    except Exception as error:
        found = " ".join(f"{kubeconfig or 'the default kubeconfig'}: {_told(error)}".split())
        message = f"no way to the Kubernetes API: {found}; run in a cluster, or name a kubeconfig with --kubeconfig"
        raise ClusterError(0, "NoConfiguration", message) from error
    return configuration


def load_kube_config(path: str | None, context: str | None, configuration: Configuration) -> None:
    kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]  # kubernetes is untyped here
        config_file=path, context=context, client_configuration=configuration, persist_config=False
    )


def bearer_token(configuration: Configuration) -> str | None:
    """The credentials header's value as it is now; may read a file or run an exec plugin."""
    hook = getattr(configuration, "refresh_api_key_hook", None)
    if hook is not None:
        hook(configuration)
    for key in ("BearerToken", "authorization"):
        value = configuration.api_key.get(key)
        if value:
            scheme, _, token = str(value).partition(" ")
            return f"Bearer {token}" if token else f"Bearer {scheme}"
    return None


def tls_context(configuration: Configuration) -> ssl.SSLContext | bool:
    """The TLS settings that a configuration means; False where it asks for no verification."""
    if not str(configuration.host).startswith("https"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _socket_that_notices(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that asks a silent peer after 30 s whether it is still there: the system's default is two hours."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # Linux and macOS know different ones
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def path_of(*segments: str) -> str:
    """
    A path of these segments, each quoted: what a user wrote into a name or a version stays one segment.

    Raises ClusterError for a segment that would climb, as no object can have such a name.
    """
    for segment in segments:
        if segment in {"", ".", ".."}:
            raise ClusterError(HTTPStatus.NOT_FOUND, "NotFound", f'"{segment}" is no name in the Kubernetes API')
    return "/" + "/".join(quote(segment, safe="*:") for segment in segments)


class Client:
    """One session to one API server. Open it as an async context manager."""

    def __init__(self, configuration: Configuration, *, timeout_seconds: float = 15.0) -> None:
        self.configuration = configuration
        self.requests: Counter[str] = Counter()
        self._places = _Places(_REQUESTS_AT_ONCE)
        self._metric_places: dict[str, _Places] = {}
        self._host = str(configuration.host).rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=_CONNECT_SECONDS)
        self._token: str | None = None
        self._token_age = 0.0
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # For all of the process: there is no way to say it for one connection.
        asyncio.sslproto.SSLProtocol.max_size = _READ_BYTES
        self._token = await asyncio.to_thread(bearer_token, self.configuration)
        connector = aiohttp.TCPConnector(
            limit=0, ssl=tls_context(self.configuration), socket_factory=_socket_that_notices
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            read_bufsize=_READ_BYTES,
            headers={"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": "gzip"},
        )
        self._token_age = asyncio.get_running_loop().time()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, kind: type[T], params: Mapping[str, str] | None = None) -> T:
        """The object at a path. Raises ClusterError, also for an answer that is not what it should be."""
        return decode(await self._request("GET", path, params=params), kind, path)

    async def read(self, path: str, params: Mapping[str, str] | None = None, *, bytes_max: int = _SHORT_BYTES) -> bytes:
        """What a metrics API answers, as it came. Raises ClusterError, also for an answer of more than `bytes_max`."""
        api = "/".join(path.split("/", 3)[:3])
        places = self._metric_places.setdefault(api, _Places(_METRIC_READS_AT_ONCE))
        async with places.requests:
            return await self._try("GET", path, None, "", params, bytes_max, places)

    async def merge_patch(
        self, path: str, body: Mapping[str, Any], kind: type[T], params: Mapping[str, str] | None = None
    ) -> T:
        """The object after a JSON merge patch."""
        answer = await self._request(
            "PATCH",
            path,
            body=msgspec.json.encode(body),
            content_type="application/merge-patch+json",
            params={"fieldManager": FIELD_MANAGER, **(params or {})},
        )
        return decode(answer, kind, path)

    async def post(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> None:
        asked = {"fieldManager": FIELD_MANAGER, **(params or {})}
        await self._request("POST", path, body=msgspec.json.encode(body), params=asked)

    async def delete(self, path: str, options: Mapping[str, Any]) -> None:
        """options: fields of meta/v1 DeleteOptions, such as preconditions."""
        await self._request("DELETE", path, body=msgspec.json.encode(options))

    async def pages(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[tuple[bytes, str]]:
        """
        The pages of a list with the list's resource version, 500 items each.

        Fewer where they would be too long: large objects of one tenant must not end the list of all.
        """
        going, size = "", _PAGE
        while True:
            asked = {**(params or {}), "limit": str(size), **({"continue": going} if going else {})}
            try:
                answer = await self._request("GET", path, params=asked, bytes_max=_PAGE_BYTES)
            except ClusterError as error:
                if error.reason != TOO_LARGE or size == 1:
                    raise
                size = max(size // _PAGE_PARTS, 1)
                continue
            meta = decode(answer, _Page, path).metadata
            yield answer, meta.resource_version
            going = meta.cont
            if not going:
                return

    async def watch(
        self, path: str, resource_version: str, *, idle_seconds: float, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """
        The lines of a watch, bookmarks included, until the server ends it.

        Raises ClusterError when nothing arrives for `idle_seconds`: a connection that died silently looks like peace.
        """
        asked = {**(params or {}), "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle_seconds)
        self.requests["WATCH"] += 1
        try:
            headers = await self._headers()
            # A packed line would wait for those behind it.
            headers["Accept-Encoding"] = "identity"
            async with self._open.get(
                self._url(path), params=asked, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                if _is_refusal(response):
                    raise _error(response, await _read(response, path, _ERROR_BYTES, self._places), path)
                async for line in _lines(response.content, path):
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ClusterError(0, "Unreachable", f"watch of {path}: {_told(error)}") from error

    def _url(self, path: str) -> URL:
        """Paths come quoted from `path_of`; quoting them again would change them."""
        return URL(self._host + path, encoded=True)

    @property
    def _open(self) -> aiohttp.ClientSession:
        assert self._session is not None, "open the client with `async with`"
        return self._session

    async def _headers(self, *, fresh: bool = False) -> dict[str, str]:
        now = asyncio.get_running_loop().time()
        if fresh or now - self._token_age > _TOKEN_SECONDS:
            self._token_age = now
            try:
                self._token = await asyncio.to_thread(bearer_token, self.configuration)
            except (kubernetes.config.ConfigException, OSError) as error:
                # A file that is just being rotated: the token that we have may do, and the next minute tries again.
                LOG.warning("the API token cannot be read: %s", error)
        return {"Authorization": self._token} if self._token else {}

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        bytes_max: int = _OBJECT_BYTES,
    ) -> bytes:
        async with self._places.requests:
            return await self._try(method, path, body, content_type, params, bytes_max, self._places)

    async def _try(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        params: Mapping[str, str] | None,
        bytes_max: int,
        places: _Places,
    ) -> bytes:
        self.requests[method] += 1
        for attempt in range(_ATTEMPTS):
            try:
                headers = await self._headers(fresh=attempt > 0)
                if body is not None:
                    headers["Content-Type"] = content_type
                # A redirect would take the token, or what is asked, wherever an aggregated API points.
                async with self._open.request(
                    method,
                    self._url(path),
                    data=body,
                    params=params,
                    headers=headers,
                    timeout=self._timeout,
                    allow_redirects=False,
                ) as response:
                    answer = await _read(response, path, bytes_max, places)
                    if response.status == HTTPStatus.UNAUTHORIZED and attempt + 1 < _ATTEMPTS:
                        continue  # the token may have been rotated
                    if _is_refusal(response):
                        raise _error(response, answer, path)
                    return answer
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise ClusterError(0, "Unreachable", f"{method} {path}: {_told(error)}") from error
        raise AssertionError("every attempt returns or raises")


class _Places:
    """How many requests may be under way, and how many of them with a long answer."""

    def __init__(self, requests: int) -> None:
        self.requests = asyncio.Semaphore(requests)
        self.long_answers = asyncio.Semaphore(_LONG_ANSWERS_AT_ONCE)


def _is_refusal(response: aiohttp.ClientResponse) -> bool:
    """A redirect is one, too: it is not followed."""
    return response.status >= HTTPStatus.MULTIPLE_CHOICES


async def _read(response: aiohttp.ClientResponse, path: str, bytes_max: int, places: _Places) -> bytes:
    """The body, unpacked. Raises ClusterError for one of more than `bytes_max`, of which no more is read."""
    status = 0
    if _is_refusal(response):
        status, bytes_max = response.status, _ERROR_BYTES
    parts, size, is_long = [], 0, False
    async with AsyncExitStack() as held:
        async for part in response.content.iter_any():
            size += len(part)
            if size > bytes_max:
                raise ClusterError(status, TOO_LARGE, f"the answer of {path} is longer than {bytes_max} bytes")
            parts.append(part)
            if size > _SHORT_BYTES and not is_long:
                is_long = True
                await held.enter_async_context(places.long_answers)
        return b"".join(parts)


async def _lines(content: aiohttp.StreamReader, path: str) -> AsyncIterator[bytes]:
    """The lines of a body that are not empty. Raises ClusterError for one that is too long."""
    begun: list[bytes] = []
    size = 0
    async for part in content.iter_any():
        *ended, rest = part.split(b"\n")
        for end in ended:
            line = b"".join((*begun, end))
            begun.clear()
            size = 0
            if line:
                yield line
        begun.append(rest)
        size += len(rest)
        if size > _LINE_BYTES:
            raise ClusterError(0, TOO_LARGE, f"a line of the watch of {path} is longer than {_LINE_BYTES} bytes")
    if size:
        yield b"".join(begun)


def decode(answer: bytes, kind: type[T], path: str) -> T:
    """A typed answer. Raises ClusterError when it is truncated, no JSON, too deep, or of another shape."""
    try:
        return msgspec.json.decode(answer, type=kind)
    except UNREADABLE as error:
        raise ClusterError(0, "Malformed", f"the answer of {path} cannot be read: {error}") from error


def _error(response: aiohttp.ClientResponse, answer: bytes, path: str) -> ClusterError:
    status = response.status
    try:
        failure = msgspec.json.decode(answer, type=_Failure)
    except UNREADABLE:
        failure = _Failure()
    text = failure.message or answer[:200].decode(errors="replace").strip() or f"HTTP {status}"
    told = text if failure.message else f"{path}: {text}"
    causes = () if failure.details is None else failure.details.causes
    # It becomes that of a condition, where another one would cost the whole status.
    reason = failure.reason if _REASON.fullmatch(failure.reason) else f"HTTP{status}"
    return ClusterError(status, reason, shortened(without_userinfo(told), _MESSAGE_MAX), causes)


def _told(error: BaseException) -> str:
    """A timeout has no text of its own; that of another may hold a URL."""
    return without_userinfo(str(error)) or type(error).__name__
