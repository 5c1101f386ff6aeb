"""
Sources from which commands read past decisions: the operator, through `kubectl port-forward`, or a copy of its store.

Each replica of the operator keeps its own decisions. So all replicas are asked, and their answers are joined.

The operator answers callers that may get the object, and identifies them by a bearer token: that of the kubeconfig, or
one of a ServiceAccount, made for the operator alone and for ten minutes. A token is sent to this machine alone, or by
HTTPS: port-forward carries it from here within the connection to the API server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from msgspec import Struct

from cronhpa.cli.objects.operator_port import OperatorPortError, account_token, forwarded, parse_operators, token_of
from cronhpa.cli.past.past_of_replicas import PastSource, PastSourceError, Replicas
from cronhpa.cli.terminal.console import say
from cronhpa.core.model.instant import Nanoseconds, format_instant_exact
from cronhpa.history.database.series import Series
from cronhpa.history.past.past_answers import (
    DecisionAnswer,
    LoadAnswer,
    TimelineAnswer,
    decision_answer,
    load_answer,
    timeline_answer,
)

if TYPE_CHECKING:
    import aiohttp
    from kubernetes.client import Configuration

    from cronhpa.history.store import Store

At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help='A past decision: "yesterday 08:02", "last tuesday 9:00", "2h ago".'),
]
StoreFile = Annotated[
    Path | None,
    typer.Option("--store", help="A copy of the operator's store to read, instead of the operator.", dir_okay=False),
]
Operator = Annotated[
    str,
    typer.Option(
        "--operator",
        metavar="NAMESPACE/POD[,POD]",
        # The help text states the default, as typer would cut off the end of a long one.
        show_default=False,
        help="The operator's pods, reached by `kubectl port-forward`; or the URL of a port that is forwarded already. "
        "Default: cronhpa-0 and cronhpa-1 of cronhpa-system.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", help="A file with the bearer token to show. Default: that of the kubeconfig.", dir_okay=False
    ),
]
ServiceAccount = Annotated[
    str | None,
    typer.Option(
        "--service-account",
        metavar="[NAMESPACE/]NAME",
        help="An account to ask as, by a token made for this, where the kubeconfig holds a certificate and no token.",
    ),
]
OPERATOR = "cronhpa-system/cronhpa-0,cronhpa-1"
PORT = 8082
# Runs in the operator's pod, where the chart puts the store: the image has no tar, which `kubectl cp` would need.
COPYING = "cronhpa history copy /var/lib/cronhpa/history.db -"
_TOKEN_SECONDS = 600
_ANSWER_SECONDS = 40
_ANSWER_BYTES = 2**26


class PastLocation(Struct, frozen=True):
    """The options of a command that name a source."""

    store: Path | None = None
    operator: str = OPERATOR
    token_file: Path | None = None
    service_account: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    copy_option: str = "--store"
    """The option that names a copy of the store."""


@asynccontextmanager
async def opened(where: PastLocation) -> AsyncIterator[PastSource]:
    """The source that the options name. Raises PastSourceError, and ClusterError if the kubeconfig cannot be read."""
    if where.store is not None:
        async with _store(where.store) as source:
            yield source
        return
    from cronhpa.kube.contexts import find_access

    configuration = find_access(where.kubeconfig, where.context).configuration
    token = await _token(where, configuration)
    async with AsyncExitStack() as opened:
        session = await opened.enter_async_context(_session())
        sources: list[PastSource] = []
        problems: list[PastSourceError] = []
        for operator in _operators(where):
            try:
                port = await opened.enter_async_context(
                    forwarded(
                        operator,
                        PORT,
                        kubeconfig=where.kubeconfig,
                        context=where.context,
                        otherwise=f"use {where.copy_option}",
                    )
                )
                sources.append(_OperatorPast(session, port.url, token, operator))
            except OperatorPortError as problem:
                problems.append(PastSourceError(str(problem)))
        if not sources:
            raise PastSourceError(f"{problems[0]}{_copying(where)}")
        # What an unreachable replica kept is missing: the others do not have it.
        for unasked in problems:
            say(f"not asked: {unasked}", err=True)
        yield Replicas(sources)


def _operators(where: PastLocation) -> list[str]:
    """The pods, or the URL. Raises PastSourceError."""
    try:
        return parse_operators(where.operator)
    except OperatorPortError as problem:
        raise PastSourceError(str(problem)) from problem


def _copying(where: PastLocation) -> str:
    """A hint for a person who may enter the operator's pod: how to copy its store. "" if no pod is named."""
    if where.operator.startswith(("http://", "https://")):
        return ""
    namespace, _, pods = where.operator.partition("/")
    pod = pods.partition(",")[0]
    return (
        f"\nWho may enter the pod reads a copy of its store with {where.copy_option} copy.db:"
        f"\nkubectl exec -n {namespace} {pod} -- {COPYING} > copy.db"
    )


@asynccontextmanager
async def _store(path: Path) -> AsyncIterator[PastSource]:
    from cronhpa.history.database.database import StoreError
    from cronhpa.history.store import Store

    try:
        store = Store.open_to_read(path)
    except StoreError as problem:
        raise PastSourceError(str(problem)) from problem
    try:
        yield _StorePast(store)
    except StoreError as problem:
        old = ": a release before past decisions wrote it" if "no such table" in str(problem) else ""
        raise PastSourceError(f"{problem}{old}") from problem
    finally:
        store.close()


class _StorePast:
    def __init__(self, store: Store) -> None:
        self._decisions, self._loads = store.decisions, store.loads

    async def decision(self, namespace: str, name: str, at: Nanoseconds) -> DecisionAnswer | None:
        return decision_answer(self._decisions, namespace, name, at)

    async def timeline(
        self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
    ) -> TimelineAnswer | None:
        return timeline_answer(self._decisions, namespace, name, since, until)

    async def load(self, series: Series) -> LoadAnswer | None:
        return load_answer(self._loads, series)


class _OperatorPast:
    """operator: the pod or the URL, as problems name it."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str, operator: str) -> None:
        self._session, self._url, self._token, self._operator = session, url.rstrip("/"), token, operator

    async def decision(self, namespace: str, name: str, at: Nanoseconds) -> DecisionAnswer | None:
        answer = await self._ask(namespace, name, "decision", {"at": format_instant_exact(at)})
        return None if answer is None else _decoded(answer, DecisionAnswer)

    async def timeline(
        self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
    ) -> TimelineAnswer | None:
        span = {"from": format_instant_exact(since), "to": format_instant_exact(until)}
        answer = await self._ask(namespace, name, "timeline", span)
        return None if answer is None else _decoded(answer, TimelineAnswer)

    async def load(self, series: Series) -> LoadAnswer | None:
        answer = await self._ask(series.namespace, series.name, "load", {"metric": series.metric})
        return None if answer is None else _decoded(answer, LoadAnswer)

    async def _ask(self, namespace: str, name: str, resource: str, query: dict[str, str]) -> bytes | None:
        """The answer; None for 404."""
        import aiohttp

        path = f"/v1/namespaces/{quote(namespace, safe='')}/cronhpas/{quote(name, safe='')}/{resource}"
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            async with self._session.get(
                self._url + path, params=query, headers=headers, allow_redirects=False
            ) as response:
                body = bytearray()
                async for part in response.content.iter_any():
                    body += part
                    if len(body) > _ANSWER_BYTES:
                        raise PastSourceError(f"{self._operator}: the answer is longer than {_ANSWER_BYTES} bytes")
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise PastSourceError(f"{self._operator}: {type(problem).__name__}: {problem}") from problem
        if response.status == HTTPStatus.NOT_FOUND:
            return None
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise PastSourceError(
                "the API server does not know your token: name an account of yours with --service-account, or a token "
                "with --token-file"
            )
        if response.status != HTTPStatus.OK:
            text = body[:500].decode(errors="replace").strip()
            raise PastSourceError(f"{self._operator}: the operator answered {response.status}: {text}")
        return bytes(body)


def _decoded(answer: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise PastSourceError(f"the operator's answer cannot be read: {problem}: is it of this release?") from problem


def _session() -> aiohttp.ClientSession:
    import aiohttp

    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS))


async def _token(where: PastLocation, configuration: Configuration) -> str:
    """The token to show. Raises PastSourceError, ClusterError."""
    from cronhpa.kube.credentials import bearer_token

    if where.token_file is not None:
        try:
            return token_of(where.token_file)
        except OperatorPortError as problem:
            raise PastSourceError(str(problem)) from None
    if where.service_account is not None:
        return await account_token(where.service_account, configuration, _TOKEN_SECONDS)
    value = bearer_token(configuration)
    if value is None:
        raise PastSourceError(
            "your kubeconfig proves who you are by a certificate, which nobody but the API server can be shown: name "
            "an account with --service-account NAMESPACE/NAME, one that may get the object and whose tokens you may "
            "create, or a token with --token-file"
        )
    return value.removeprefix("Bearer ")
