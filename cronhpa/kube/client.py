"""
A thin client of the Kubernetes API: one session, typed decoding, errors as one exception.

Credentials come from the `kubernetes` package (kubeconfig with exec plugins and OIDC, or the pod's own token, re-read
as it rotates). Its typed models are not used: they take over a hundred times as long for a list of pods.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from kubernetes.client import Configuration
from msgspec import Struct
from yarl import URL

from cronhpa.core.model.printable import shortened, without_url_secrets
from cronhpa.kube.depth import decoded
from cronhpa.kube.errors import UNREADABLE, ClusterError, FieldCause
from cronhpa.kube.fence import FENCED, NOT_LEADING, Fence, FencedBody, unfenced
from cronhpa.kube.session import CONNECT_SECONDS, USER_AGENT, ApiSession
from cronhpa.kube.throttles import Throttles, retry_after
from cronhpa.ports.client_errors import error_text

LOG = logging.getLogger(__name__)

T = TypeVar("T")

FIELD_MANAGER = "cronhpa"
_PAGE = 500
_OF_PAGES = {"limit", "continue"}
# Concurrent requests, without watches: each watch has a connection of its own.
_REQUESTS_AT_ONCE = 64
_REVIEWS_AT_ONCE = 2
# Concurrent requests to each metrics API. They are servers behind the API server: one that hangs must not take the
# places of another, or of everything else. Namespaces share them out before (operator/loop/metric_apis.py).
METRIC_READS_AT_ONCE = 64
# All limits are of unpacked bytes. By default etcd stores objects of up to 1.5 MiB, whose JSON is at worst six times as
# long: one byte there can be \u0001 here.
_OBJECT_BYTES = 2**24
_LINE_BYTES = 2**24
# 500 real pods fit. A longer page is requested again in parts.
_PAGE_BYTES = 2**24
_PAGE_PARTS = 8
# A refusal of the API server fits; the page of a proxy is cut.
_ERROR_BYTES = 2**18
_MESSAGE_MAX = 4096
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,255}")
_UNQUOTED = re.compile(r"[A-Za-z0-9_.~*:-]+")
# Of a connection between the API server and a server behind it: another one each time, and the text is written to the
# status of each object that asked.
_OWN_PORT = re.compile(r"(?<=[0-9a-f\]]):[0-9]{1,5}(?=->)")
TOO_LARGE = "TooLarge"
# Only so many answers longer than this are read at once, for each metrics API and for everything else: all of them
# together would take a gigabyte. The others stay in the sender's buffers meanwhile.
_SHORT_BYTES = 2**19
_LONG_ANSWERS_AT_ONCE = 2
_ATTEMPTS = 2


class _Details(Struct):
    causes: tuple[FieldCause, ...] = ()


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
    items: list[msgspec.Raw] | None
    metadata: _ListMeta = _ListMeta()


def path_of(*segments: str) -> str:
    """
    A path of these segments, each quoted, so that a user's text stays one segment.

    Raises ClusterError for "", "." and "..", which no object can be called.
    """
    if bad := {"", ".", ".."}.intersection(segments):
        raise ClusterError(HTTPStatus.NOT_FOUND, "NotFound", f'"{bad.pop()}" is no name in the Kubernetes API')
    return "/" + "/".join(text if _UNQUOTED.fullmatch(text) else quote(text, safe="*:") for text in segments)


class Client:
    """
    One session to one API server. Open it as an async context manager.

    fence: for how many seconds from now a write to a path may be under way; 0 or less refuses it.
    agent: how the audit log of the API server names this process. traces: get an event for each request.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        timeout_seconds: float = 15.0,
        fence: Fence = unfenced,
        agent: str = USER_AGENT,
        traces: Sequence[aiohttp.TraceConfig] = (),
    ) -> None:
        self.configuration = configuration
        self._timeout_seconds = timeout_seconds
        # By verb and status code; "error" for a request without an answer.
        self.requests: Counter[tuple[str, str]] = Counter()
        self._places = _Places(_REQUESTS_AT_ONCE, fence)
        # Reviews change nothing, so a replica that does not lead sends them, too.
        self._review_places = _Places(_REVIEWS_AT_ONCE, unfenced)
        self._metric_places: dict[str, _Places] = {}
        self._host = str(configuration.host).rstrip("/")
        # The event loop's time of the last answer, errors included but no refused watch, or of the last line of a
        # watch; None until it is open.
        self.succeeded_at: float | None = None
        self._session = ApiSession(configuration, agent, traces)
        self._throttles = Throttles(timeout_seconds)

    async def __aenter__(self) -> Self:
        await self._session.open()
        self.succeeded_at = asyncio.get_running_loop().time()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str, kind: type[T], params: Mapping[str, str] | None = None) -> T:
        """The object at a path. Raises ClusterError, also for an answer of another shape."""
        return decode(await self._request("GET", path, params=params), kind, path)

    async def read(self, path: str, params: Mapping[str, str] | None = None, *, bytes_max: int = _SHORT_BYTES) -> bytes:
        """The raw answer of a metrics API. Raises ClusterError, also for an answer of more than `bytes_max`."""
        api = "/".join(path.split("/", 3)[:3])
        places = self._metric_places.get(api)
        if places is None:
            places = self._metric_places[api] = _Places(METRIC_READS_AT_ONCE, unfenced)
        return await self._request("GET", path, params=params, bytes_max=bytes_max, places=places)

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

    async def review(self, path: str, body: Mapping[str, Any], kind: type[T]) -> T:
        """The answer to a POST that changes nothing: replicas that do not lead may send it, too."""
        answer = await self._request("POST", path, body=msgspec.json.encode(body), places=self._review_places)
        return decode(answer, kind, path)

    async def post(self, path: str, body: Mapping[str, Any], params: Mapping[str, str] | None = None) -> None:
        query = {"fieldManager": FIELD_MANAGER, **(params or {})}
        await self._request("POST", path, body=msgspec.json.encode(body), params=query)

    async def create(self, path: str, body: Mapping[str, Any], kind: type[T]) -> T:
        """The object after a POST to its collection."""
        query = {"fieldManager": FIELD_MANAGER}
        return decode(await self._request("POST", path, body=msgspec.json.encode(body), params=query), kind, path)

    async def replace(self, path: str, body: Mapping[str, Any], kind: type[T]) -> T:
        """The object after a PUT; with a resource version in `body`, only if the object has it still."""
        query = {"fieldManager": FIELD_MANAGER}
        return decode(await self._request("PUT", path, body=msgspec.json.encode(body), params=query), kind, path)

    async def delete(self, path: str, options: Mapping[str, Any]) -> None:
        """options: fields of meta/v1 DeleteOptions, such as preconditions."""
        await self._request("DELETE", path, body=msgspec.json.encode(options))

    async def pages(
        self, path: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[list[msgspec.Raw], str]]:
        """
        The items of each page of a list, not decoded, with the list's resource version; 500 items a page.

        A page that is too long is requested again with fewer items: large objects of one tenant must not end the list.
        """
        going, size = "", _PAGE
        while True:
            query = {**(params or {}), "limit": str(size), **({"continue": going} if going else {})}
            try:
                answer = await self._request("GET", path, params=query, bytes_max=_PAGE_BYTES)
            except ClusterError as error:
                if error.reason != TOO_LARGE or size == 1:
                    raise
                size = max(size // _PAGE_PARTS, 1)
                continue
            page = decode(answer, _Page, path)
            yield page.items or [], page.metadata.resource_version
            going = page.metadata.cont
            if not going:
                return

    async def watch(
        self, path: str, resource_version: str, *, idle_seconds: float, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """
        The lines of a watch, bookmarks included, until the server ends it.

        Raises ClusterError when nothing arrives for `idle_seconds`: a dead connection looks like one without changes.
        """
        query = {**(params or {}), "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=idle_seconds)
        with self._throttles.request("WATCH", path):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    headers = await self._session.headers()
                # A compressed line would wait in the compressor for later lines.
                headers["Accept-Encoding"] = "identity"
                async with self._session.current.get(
                    self._url(path), params=query, headers=headers, timeout=timeout, allow_redirects=False
                ) as response:
                    self.requests["WATCH", str(response.status)] += 1
                    if _is_refusal(response):
                        raise _error(response, await _read(response, path, _ERROR_BYTES, self._places), path)
                    self.succeeded_at = asyncio.get_running_loop().time()
                    async for line in _lines(response.content, path):
                        self.succeeded_at = asyncio.get_running_loop().time()
                        yield line
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                if isinstance(error, aiohttp.ClientSSLError):
                    await self._session.follow_rotation()
                raise ClusterError(0, "Unreachable", f"watch of {path}: {error_text(error)}") from error

    def _url(self, path: str) -> URL:
        """The URL of a path that `path_of` has quoted already."""
        return URL(self._host + path, encoded=True)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        bytes_max: int = _OBJECT_BYTES,
        places: _Places | None = None,
    ) -> bytes:
        """
        The answer to a request that is sent in one of these places, and no sooner than the API server asks for.

        places: None for those of most requests.
        """
        places = places or self._places
        with self._throttles.request(method, path if params is None else _question(path, params)):
            async with places.requests:
                return await self._try(method, path, body, content_type, params, bytes_max, places)

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
        for attempt in range(_ATTEMPTS):
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    headers = await self._session.headers(fresh=attempt > 0)
                seconds, data = self._timeout_seconds, None
                if body is not None:
                    headers["Content-Type"] = content_type
                    data = FencedBody(body, places.fence, path)
                if method != "GET":
                    seconds = min(seconds, places.fence(path))
                    if seconds <= 0:
                        raise ClusterError(HTTPStatus.PRECONDITION_FAILED, NOT_LEADING, f"{method} {path}: {FENCED}")
                # A redirect would send the token and the query wherever an aggregated API points.
                async with self._session.current.request(
                    method,
                    self._url(path),
                    data=data,
                    params=params,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS),
                    allow_redirects=False,
                ) as response:
                    self.requests[method, str(response.status)] += 1
                    self.succeeded_at = asyncio.get_running_loop().time()
                    answer = await _read(response, path, bytes_max, places)
                    if response.status == HTTPStatus.UNAUTHORIZED and attempt + 1 < _ATTEMPTS:
                        continue  # the token may have been rotated
                    if _is_refusal(response):
                        raise _error(response, answer, path)
                    return answer
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if isinstance(error, aiohttp.ClientSSLError):
                    await self._session.follow_rotation()
                self.requests[method, "error"] += 1
                raise ClusterError(0, "Unreachable", f"{method} {path}: {error_text(error)}") from error
        raise AssertionError("every attempt returns or raises")


class _Places:
    """Places for concurrent requests, and for long answers among them. fence: of the writes among them."""

    def __init__(self, requests: int, fence: Fence) -> None:
        self.fence = fence
        self.requests = asyncio.Semaphore(requests)
        self.long_answers = asyncio.Semaphore(_LONG_ANSWERS_AT_ONCE)


def _question(path: str, params: Mapping[str, str]) -> str:
    """What a refusal holds for: a path with its query, and all pages of a list together."""
    asked = sorted((key, value) for key, value in params.items() if key not in _OF_PAGES)
    return f"{path}?{asked}" if asked else path


def _is_refusal(response: aiohttp.ClientResponse) -> bool:
    """Whether an answer is an error or a redirect, which is not followed."""
    return response.status >= HTTPStatus.MULTIPLE_CHOICES


async def _read(response: aiohttp.ClientResponse, path: str, bytes_max: int, places: _Places) -> bytes:
    """The unpacked body. Stops reading and raises ClusterError after `bytes_max`."""
    status = 0
    if _is_refusal(response):
        status, bytes_max = response.status, _ERROR_BYTES
    parts, size, is_long = [], 0, False
    async with AsyncExitStack() as place:
        async for part in response.content.iter_any():
            size += len(part)
            if size > bytes_max:
                raise ClusterError(status, TOO_LARGE, f"the answer of {path} is longer than {bytes_max} bytes")
            parts.append(part)
            if size > _SHORT_BYTES and not is_long:
                is_long = True
                await place.enter_async_context(places.long_answers)
        return b"".join(parts)


async def _lines(content: aiohttp.StreamReader, path: str) -> AsyncIterator[bytes]:
    """The non-empty lines of a body. Raises ClusterError for a line that is too long."""
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
    """A typed answer, without what is too deep. Raises ClusterError for one cut off, no JSON, or of another shape."""
    try:
        return decoded(lambda text: msgspec.json.decode(text, type=kind), answer)
    except UNREADABLE as error:
        raise ClusterError(0, "Malformed", f"the answer of {path} cannot be read: {error}") from error


def _error(response: aiohttp.ClientResponse, answer: bytes, path: str) -> ClusterError:
    status = response.status
    try:
        failure = msgspec.json.decode(answer, type=_Failure)
    except UNREADABLE:
        failure = _Failure()
    text = failure.message or answer[:200].decode(errors="replace").strip() or f"HTTP {status}"
    message = text if failure.message else f"{path}: {text}"
    causes = () if failure.details is None else failure.details.causes
    # It becomes the reason of a condition, and the API refuses a status with a malformed reason.
    reason = failure.reason if _REASON.fullmatch(failure.reason) else f"HTTP{status}"
    message = shortened(without_url_secrets(_OWN_PORT.sub("", message)), _MESSAGE_MAX)
    return ClusterError(status, reason, message, causes, retry_after(status, response.headers.get("Retry-After")))
