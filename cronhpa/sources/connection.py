"""
Requests to sources: who is trusted, who we are, how long and how much. No redirect is followed, no cookie is kept.

An error is told in words that fit into a condition: they are the same each time, and name no address of the operator's.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from cronhpa.core.printable import without_userinfo
from cronhpa.sources.definition import PodsSource, PrometheusSource

# Logins are rotated files; they are read again this often.
_LOGIN_SECONDS = 5.0
_AGENT = "cronhpa"
_READ_BYTES = 2**16
# Connections wait for the next period of some seconds. For a longer one none is kept: there may be 100,000 pods.
_IDLE_SECONDS = 5.0


class NoAnswerError(Exception):
    """There is no answer. reason: a word for machines. cause: what the log tells besides."""

    def __init__(self, reason: str, message: str, cause: str = "") -> None:
        self.reason, self.message, self.cause = reason, message, cause
        super().__init__(message)


class SourceConnection:
    """
    The connections of one source, opened by its first request.

    connections_max: at once; 0 is no limit.
    """

    def __init__(self, definition: PrometheusSource | PodsSource, *, connections_max: int) -> None:
        self._definition = definition
        self._connections_max = connections_max
        self._session: aiohttp.ClientSession | None = None
        self._login: dict[str, str] = {}
        self._login_at: float | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(
        self, method: str, url: URL, take: Callable[[bytes], None], *, headers: Mapping[str, str], form: Any = None
    ) -> aiohttp.ClientResponse:
        """
        The response, after `take` got its unpacked body part by part; of an error or a redirect too.

        Raises NoAnswerError, also for what `take` raises as such.
        """
        definition = self._definition
        try:
            async with asyncio.timeout(definition.timeout_seconds):
                session = self._session or await self._open()
                sent = {**headers, **await self._stated_headers()}
                async with session.request(
                    method, url, data=form, headers=sent, allow_redirects=False, server_hostname=definition.server_name
                ) as response:
                    async for part in response.content.iter_any():
                        take(part)
                    return response
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _no_answer(error, definition.timeout_seconds) from None

    async def _open(self) -> aiohttp.ClientSession:
        context = await asyncio.to_thread(_tls, self._definition)
        if self._session is None:  # else another request opened it meanwhile
            connector = aiohttp.TCPConnector(
                limit=self._connections_max, ssl=context, keepalive_timeout=_IDLE_SECONDS, ttl_dns_cache=10
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": _AGENT, "Accept-Encoding": "gzip"},
                read_bufsize=_READ_BYTES,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    async def _stated_headers(self) -> dict[str, str]:
        """The headers that the definition states, and its login."""
        definition = self._definition
        if isinstance(definition, PodsSource):
            # Whoever owns a pod would own whatever is sent to it: no login goes to pods.
            return {}
        now = asyncio.get_running_loop().time()
        if self._login_at is None or now - self._login_at > _LOGIN_SECONDS:
            self._login = await asyncio.to_thread(_login, definition)
            self._login_at = now
        return {**definition.headers, **self._login}


def _tls(definition: PrometheusSource | PodsSource) -> ssl.SSLContext | bool:
    """Raises OSError, of which SSLError is one, for files that cannot be used."""
    if not definition.files:
        return True
    authorities = definition.ca_file
    context = ssl.create_default_context(cafile=None if authorities is None else str(authorities))
    if definition.cert_file is not None:
        context.load_cert_chain(definition.cert_file, definition.key_file)
    return context


def _login(definition: PrometheusSource) -> dict[str, str]:
    if definition.token_file is not None:
        return {"Authorization": f"Bearer {_read(definition.token_file)}"}
    if definition.password_file is not None:
        pair = f"{definition.username}:{_read(definition.password_file)}"
        return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
    return {}


def _read(path: Path) -> str:
    text = path.read_text().strip()
    if not text.isprintable():
        raise ValueError(f"{path} holds more than one line")
    return text


def refuse_status(response: aiohttp.ClientResponse) -> None:
    """Raises NoAnswerError for a response that is no answer to what was asked."""
    status = response.status
    if status == HTTPStatus.OK:
        return
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        raise NoAnswerError("Redirected", f"it answered {status}, which points elsewhere and is not followed")
    raise NoAnswerError(f"HTTP{status}", f"it answered {status}")


def _no_answer(error: Exception, seconds: float) -> NoAnswerError:
    cause = without_userinfo(str(error)) or type(error).__name__
    if isinstance(error, TimeoutError):
        return NoAnswerError("Timeout", f"it gave no answer within {seconds:g} s", cause)
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return NoAnswerError("Untrusted", "TLS: its certificate, or ours, is not trusted or cannot be read", cause)
    if isinstance(error, aiohttp.ClientConnectorError):
        # asyncio's own words hold the address; numbers below 0 are those of the resolver.
        number = error.os_error.errno or 0
        said = os.strerror(number) if number > 0 else "its name has no address"
        return NoAnswerError("Unreachable", f"it cannot be reached: {said}", cause)
    if isinstance(error, aiohttp.ClientError):
        return NoAnswerError("Unreachable", "the connection broke before the answer was whole", cause)
    return NoAnswerError("Misconfigured", "a file that its login or its TLS needs cannot be read", cause)
