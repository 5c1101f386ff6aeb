"""
Where commands read past decisions: from the operator, through `kubectl port-forward`, or from a copy of its store.

Each replica of the operator keeps what it decided while it led. So all of them are asked, and their answers are one.

The operator answers whoever may get the object, and has to be shown who asks: by a bearer token. It is the one of the
kubeconfig, or of a ServiceAccount of the user, made for the operator alone and for ten minutes. A token is sent to this
machine alone, or by HTTPS: port-forward carries it from here within the connection to the API server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol
from urllib.parse import quote, urlsplit

import msgspec
import typer
from msgspec import Struct

from cronhpa.cli.lines import say
from cronhpa.core.instant import Nanoseconds, format_instant_exact
from cronhpa.history.past_answers import DecisionAnswer, TimelineAnswer, decision_answer, timeline_answer

if TYPE_CHECKING:
    import aiohttp
    from kubernetes.client import Configuration

    from cronhpa.history.store import Store

At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TIME", help='The decision of then: "yesterday 08:02", "last tuesday 9:00", "2h ago".'
    ),
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
        help="The operator's pods, reached by `kubectl port-forward`; or the URL of a port that is forwarded already.",
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
# Run in a pod, while its operator writes: a store in one file, as of one instant.
# The image has no shell and no tar, which `kubectl cp` would need.
COPYING = (
    "import shutil, sqlite3, sys; "
    'sqlite3.connect("/var/lib/cronhpa/history.db").backup(sqlite3.connect("/tmp/copy.db")); '
    'shutil.copyfileobj(open("/tmp/copy.db", "rb"), sys.stdout.buffer)'
)
# As cronhpa.operator.access takes it; not imported, as this would load the operator.
_AUDIENCE = "cronhpa.io"
_TOKEN_SECONDS = 600
_FORWARD_SECONDS = 20
_ANSWER_SECONDS = 40
_ANSWER_BYTES = 2**26
_FORWARDING = re.compile(rb"Forwarding from (127\.0\.0\.1:[0-9]+) ")
# A week at one change a minute.
_CHANGES_MAX = 10_080


class PastSourceError(Exception):
    """Why nothing can be read: where, what was found, what to do."""


class PastWhere(Struct, frozen=True):
    """The options of a command that say where to read."""

    store: Path | None = None
    operator: str = OPERATOR
    token_file: Path | None = None
    service_account: str | None = None
    kubeconfig: str | None = None
    context: str | None = None


class _TokenStatus(Struct):
    token: str


class _TokenRequest(Struct):
    status: _TokenStatus


class PastSource(Protocol):
    """What is answered. Both raise PastSourceError."""

    async def decision(self, namespace: str, name: str, at: Nanoseconds) -> DecisionAnswer | None: ...

    async def timeline(
        self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
    ) -> TimelineAnswer | None: ...


async def whole_timeline(
    source: PastSource, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
) -> TimelineAnswer | None:
    """All changes of a span, asked for part by part. Raises PastSourceError."""
    found = await source.timeline(namespace, name, since, until)
    while found is not None and found.go_on is not None and len(found.changes) < _CHANGES_MAX:
        rest = await source.timeline(namespace, name, found.go_on, until)
        if rest is None or not rest.changes:
            break
        found = msgspec.structs.replace(found, changes=found.changes + rest.changes, go_on=rest.go_on)
    return found


@asynccontextmanager
async def opened(where: PastWhere) -> AsyncIterator[PastSource]:
    """Raises PastSourceError, and ClusterError where the kubeconfig cannot be read."""
    if where.store is not None:
        async with _store(where.store) as source:
            yield source
        return
    from cronhpa.kube.credentials import load_configuration

    configuration = load_configuration(where.kubeconfig, where.context)
    token = await _token(where, configuration)
    async with AsyncExitStack() as held:
        session = await held.enter_async_context(_session())
        sources: list[PastSource] = []
        problems: list[PastSourceError] = []
        for operator in _operators(where.operator):
            try:
                url = await held.enter_async_context(_reached(where, operator))
                sources.append(_OperatorPast(session, url, token))
            except PastSourceError as problem:
                problems.append(problem)
        if not sources:
            raise PastSourceError(f"{problems[0]}{_copying(where.operator)}")
        # A replica that is not there, or that nobody may reach, kept what it kept: the others do not know it.
        for unasked in problems:
            say(f"not asked: {unasked}", err=True)
        yield Replicas(sources)


def _operators(text: str) -> list[str]:
    """Each pod with its namespace, or the URL. Raises PastSourceError."""
    if text.startswith(("http://", "https://")):
        return [text]
    namespace, _, pods = text.partition("/")
    names = pods.split(",")
    if not namespace or not all(names):
        raise PastSourceError(f'--operator: "{text}" is neither NAMESPACE/POD nor a URL')
    return [f"{namespace}/{name}" for name in names]


def _copying(operator: str) -> str:
    """How a person who may enter the operator's pod reads its store all the same; nothing where no pod is named."""
    if operator.startswith(("http://", "https://")):
        return ""
    namespace, _, pods = operator.partition("/")
    pod = pods.partition(",")[0]
    return (
        "\nWho may enter the pod reads a copy of its store with --store copy.db:"
        f"\nkubectl exec -n {namespace} {pod} -- python3 -c '{COPYING}' > copy.db"
    )


class Replicas:
    """What the replicas of an operator have kept, each while it led, as one past."""

    def __init__(self, sources: list[PastSource]) -> None:
        self._sources = sources

    async def decision(self, namespace: str, name: str, at: Nanoseconds) -> DecisionAnswer | None:
        """The latest decision; the first one after it, of any of them, is its end."""
        answers: list[DecisionAnswer] = []
        ends: list[Nanoseconds] = []
        for source in self._sources:
            answer = await source.decision(namespace, name, at)
            if answer is not None:
                answers.append(answer)
                ends += [] if answer.until is None else [answer.until]
            elif (later := await source.timeline(namespace, name, at, at)) is not None and later.first is not None:
                # It led later on: its oldest decision is after this instant.
                ends.append(later.first)
        if not answers:
            return None
        newest = max(answers, key=lambda answer: answer.decision.at)
        first = min(answer.first for answer in answers)
        return DecisionAnswer(newest.decision, min(ends, default=None), first)

    async def timeline(
        self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
    ) -> TimelineAnswer | None:
        asked = [await whole_timeline(source, namespace, name, since, until) for source in self._sources]
        answers = [answer for answer in asked if answer is not None]
        if not answers:
            return None
        befores = [answer.before for answer in answers if answer.before is not None]
        firsts = [answer.first for answer in answers if answer.first is not None]
        goings = [answer.go_on for answer in answers if answer.go_on is not None]
        end = min(goings, default=until)
        changes = [change for answer in answers for change in answer.changes if change.at < end]
        return TimelineAnswer(
            before=max(befores, key=lambda change: change.at, default=None),
            changes=sorted(changes, key=lambda change: change.at),
            points=sorted((point for answer in answers for point in answer.points), key=lambda point: point.at),
            first=min(firsts, default=None),
            go_on=min(goings, default=None),
        )


@asynccontextmanager
async def _store(path: Path) -> AsyncIterator[PastSource]:
    from cronhpa.history.database import StoreError
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
        self._decisions = store.decisions

    async def decision(self, namespace: str, name: str, at: Nanoseconds) -> DecisionAnswer | None:
        return decision_answer(self._decisions, namespace, name, at)

    async def timeline(
        self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
    ) -> TimelineAnswer | None:
        return timeline_answer(self._decisions, namespace, name, since, until)


class _OperatorPast:
    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self._session, self._url, self._token = session, url.rstrip("/"), token

    async def decision(self, namespace: str, name: str, at: Nanoseconds) -> DecisionAnswer | None:
        answer = await self._ask(namespace, name, "decision", {"at": at})
        return None if answer is None else _decoded(answer, DecisionAnswer)

    async def timeline(
        self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
    ) -> TimelineAnswer | None:
        answer = await self._ask(namespace, name, "timeline", {"from": since, "to": until})
        return None if answer is None else _decoded(answer, TimelineAnswer)

    async def _ask(self, namespace: str, name: str, asked: str, instants: dict[str, Nanoseconds]) -> bytes | None:
        """The answer; None for 404."""
        import aiohttp

        path = f"/v1/namespaces/{quote(namespace, safe='')}/cronhpas/{quote(name, safe='')}/{asked}"
        query = {key: format_instant_exact(at) for key, at in instants.items()}
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            async with self._session.get(
                self._url + path, params=query, headers=headers, allow_redirects=False
            ) as response:
                body = await response.content.read(_ANSWER_BYTES)
                if not response.content.at_eof():
                    raise PastSourceError(f"{self._url}: the answer is longer than {_ANSWER_BYTES} bytes")
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise PastSourceError(f"{self._url}: {type(problem).__name__}: {problem}") from problem
        if response.status == HTTPStatus.NOT_FOUND:
            return None
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise PastSourceError(
                "the API server does not know your token: name an account of yours with --service-account, or a token "
                "with --token-file"
            )
        if response.status != HTTPStatus.OK:
            text = body[:500].decode(errors="replace").strip()
            raise PastSourceError(f"{self._url}: the operator answered {response.status}: {text}")
        return body


def _decoded(answer: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise PastSourceError(f"the operator's answer cannot be read: {problem}: is it of this release?") from problem


def _session() -> aiohttp.ClientSession:
    import aiohttp

    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS))


async def _token(where: PastWhere, configuration: Configuration) -> str:
    """The token to show. Raises PastSourceError, ClusterError."""
    from cronhpa.kube.credentials import bearer_token

    if where.token_file is not None:
        try:
            return where.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise PastSourceError(f"{where.token_file}: {problem}") from problem
    if where.service_account is not None:
        return await _account_token(where.service_account, configuration)
    value = bearer_token(configuration)
    if value is None:
        raise PastSourceError(
            "your kubeconfig proves who you are by a certificate, which nobody but the API server can be shown: name "
            "an account with --service-account NAMESPACE/NAME, one that may get the object and whose tokens you may "
            "create, or a token with --token-file"
        )
    return value.removeprefix("Bearer ")


async def _account_token(account: str, configuration: Configuration) -> str:
    from cronhpa.kube.client import Client, path_of

    namespace, _, name = account.rpartition("/")
    path = path_of("api", "v1", "namespaces", namespace or "default", "serviceaccounts", name, "token")
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [_AUDIENCE], "expirationSeconds": _TOKEN_SECONDS},
    }
    async with Client(configuration) as client:
        return (await client.create(path, body, _TokenRequest)).status.token


@asynccontextmanager
async def _reached(where: PastWhere, operator: str) -> AsyncIterator[str]:
    """The URL at which a replica answers. Raises PastSourceError."""
    if operator.startswith(("http://", "https://")):
        host = urlsplit(operator).hostname
        if not operator.startswith("https://") and host not in {"127.0.0.1", "::1", "localhost"}:
            raise PastSourceError(
                f"{operator}: a token is sent to this machine alone, or by https: forward the operator's port"
            )
        yield operator
        return
    namespace, _, pod = operator.partition("/")
    named = (("--kubeconfig", where.kubeconfig), ("--context", where.context))
    options = [f"{option}={value}" for option, value in named if value is not None]
    command = ["kubectl", *options, f"--namespace={namespace}", "port-forward", f"pod/{pod}", f":{PORT}"]
    try:
        forwarding = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except FileNotFoundError:
        raise PastSourceError("kubectl is not installed: it forwards the operator's port; or use --store") from None
    try:
        yield f"http://{await _forwarded(forwarding, operator)}"
    finally:
        with suppress(ProcessLookupError):
            forwarding.kill()
        await forwarding.communicate()


async def _forwarded(forwarding: asyncio.subprocess.Process, operator: str) -> str:
    """The local address, once kubectl says it."""
    assert forwarding.stdout is not None
    assert forwarding.stderr is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(_FORWARD_SECONDS):
            async for line in forwarding.stdout:
                found = _FORWARDING.match(line)
                if found:
                    return found[1].decode()
            said = (await forwarding.stderr.read(2000)).decode(errors="replace").strip()
            raise PastSourceError(f"kubectl cannot forward the port of {operator}: {said or 'it says nothing'}")
    raise PastSourceError(f"kubectl does not forward the port of {operator} within {_FORWARD_SECONDS} s")
