"""
The operator's ports, reached from a laptop by `kubectl port-forward`, and the tokens that are shown to them.

A token is sent to this machine alone, or by HTTPS: port-forward carries it from here within the connection to the API
server.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from cronhpa.api.identity import AUDIENCE
from cronhpa.core.model.printable import secret_of

if TYPE_CHECKING:
    from pathlib import Path

    from kubernetes.client import Configuration

_FORWARD_SECONDS = 20
_PART_BYTES = 2**16
_FORWARDING = re.compile(rb"Forwarding from (127\.0\.0\.1:[0-9]+) ")


class OperatorPortError(Exception):
    """A port of the operator cannot be reached; the text says where, what was found, what to do."""


class _TokenStatus(Struct):
    token: str


class _TokenRequest(Struct):
    status: _TokenStatus


class ForwardedPort(Struct, frozen=True):
    """A port of the operator, as this machine reaches it."""

    url: str
    """Without a path. Of a pod it begins with http://, whatever the pod speaks."""
    kubectl: asyncio.subprocess.Process | None = None
    """The kubectl that forwards it; None for a port that the caller forwards."""


def parse_operators(text: str) -> list[str]:
    """Each pod of an option --operator as NAMESPACE/POD, or the URL. Raises OperatorPortError."""
    if text.startswith(("http://", "https://")):
        return [text]
    namespace, _, pods = text.partition("/")
    names = pods.split(",")
    if not namespace or not all(names):
        raise OperatorPortError(f'--operator: "{text}" is neither NAMESPACE/POD nor a URL')
    return [f"{namespace}/{name}" for name in names]


async def account_token(account: str, configuration: Configuration, seconds: int) -> str:
    """
    A token of a ServiceAccount, good for the operator alone and for so many seconds.

    account: [NAMESPACE/]NAME. Raises ClusterError.
    """
    from cronhpa.kube.client import Client, path_of

    namespace, _, name = account.rpartition("/")
    path = path_of("api", "v1", "namespaces", namespace or "default", "serviceaccounts", name, "token")
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [AUDIENCE], "expirationSeconds": seconds},
    }
    async with Client(configuration) as client:
        return (await client.create(path, body, _TokenRequest)).status.token


def token_of(file: Path) -> str:
    """The bearer token that a file holds. Raises OperatorPortError."""
    try:
        return secret_of(file.read_text(encoding="ascii"), file)
    except UnicodeDecodeError:
        raise OperatorPortError(f"{file} holds no ASCII text: one bearer token is accepted") from None
    except (OSError, ValueError) as problem:
        raise OperatorPortError(str(problem)) from None


@asynccontextmanager
async def forwarded(
    operator: str, port: int, *, kubeconfig: str | None, context: str | None, otherwise: str
) -> AsyncIterator[ForwardedPort]:
    """
    A port of a replica, for as long as the block runs.

    operator: NAMESPACE/POD, or a URL. otherwise: what to do without kubectl, in words. Raises OperatorPortError.
    """
    if operator.startswith(("http://", "https://")):
        host = urlsplit(operator).hostname
        if not operator.startswith("https://") and host not in {"127.0.0.1", "::1", "localhost"}:
            raise OperatorPortError(
                f"{operator}: a token is sent to this machine alone, or by https: forward the operator's port"
            )
        yield ForwardedPort(operator)
        return
    namespace, _, pod = operator.partition("/")
    named = (("--kubeconfig", kubeconfig), ("--context", context))
    options = [f"{option}={value}" for option, value in named if value is not None]
    command = ["kubectl", *options, f"--namespace={namespace}", "port-forward", f"pod/{pod}", f":{port}"]
    try:
        forwarding = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except FileNotFoundError:
        raise OperatorPortError(f"kubectl is not installed: it forwards the operator's port; or {otherwise}") from None
    reading: list[asyncio.Task[None]] = []
    try:
        address = await _address(forwarding, operator)
        # It prints a line for each connection, and would wait for ever once its pipe is full.
        reading = [asyncio.create_task(_read_away(pipe)) for pipe in (forwarding.stdout, forwarding.stderr)]
        yield ForwardedPort(f"http://{address}", forwarding)
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        # Not forwarding.kill(): it takes the exit code of a kubectl that has ended from asyncio, which complains.
        with suppress(ProcessLookupError):
            os.kill(forwarding.pid, signal.SIGKILL)
        await forwarding.communicate()


async def _read_away(pipe: asyncio.StreamReader | None) -> None:
    while pipe is not None and await pipe.read(_PART_BYTES):
        pass


async def _address(forwarding: asyncio.subprocess.Process, operator: str) -> str:
    """The local address, as soon as kubectl prints it."""
    assert forwarding.stdout is not None
    assert forwarding.stderr is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(_FORWARD_SECONDS):
            async for line in forwarding.stdout:
                address = _FORWARDING.match(line)
                if address:
                    return address[1].decode()
            text = (await forwarding.stderr.read(2000)).decode(errors="replace").strip()
            if "(Forbidden)" in text:
                text += ": the chart binds who may by decisionHistory.readers"
            raise OperatorPortError(f"kubectl cannot forward the port of {operator}: {text or 'it says nothing'}")
    raise OperatorPortError(f"kubectl does not forward the port of {operator} within {_FORWARD_SECONDS} s")
