"""`cronhpa page`: the operator's page in a browser, signed in."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from cronhpa.cli.objects.cluster import Context, Kubeconfig
from cronhpa.cli.objects.operator_port import (
    ForwardedPort,
    OperatorPortError,
    account_token,
    forwarded,
    parse_operators,
    token_of,
)
from cronhpa.cli.past.past_source import OPERATOR
from cronhpa.cli.terminal.console import complain, fail, say

if TYPE_CHECKING:
    from kubernetes.client import Configuration

    from cronhpa.kube.errors import ClusterError

PORT = 8083
# Shorter ones the API server does not issue.
_TOKEN_SECONDS = 600
_ANSWER_SECONDS = 20
_TOGETHER_SECONDS = 0.5


class _Session(Struct):
    """Who the page says that we are."""

    user: str
    leads: bool = True


class _Page(Struct, frozen=True):
    """A page that answered."""

    url: str
    operator: str
    port: ForwardedPort
    session: _Session

    @property
    def verifies(self) -> bool:
        """Whether its certificate is verified: by HTTPS to another machine, and not through kubectl's tunnel."""
        return self.port.url.startswith("https://")


Token = Callable[[], Awaitable[str]]


def page(
    service_account: Annotated[
        str | None,
        typer.Option(
            "--service-account",
            metavar="[NAMESPACE/]NAME",
            help="The account to see the page as. Default: NAME-page of the chart, or you, where you have a token.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="A file with the bearer token to show.", dir_okay=False)
    ] = None,
    operator: Annotated[
        str,
        typer.Option(
            "--operator",
            metavar="NAMESPACE/POD[,POD]",
            show_default=False,
            help="The operator's pods, of which the one that leads is shown; or the URL of a port that is forwarded "
            "already. Default: cronhpa-0 and cronhpa-1 of cronhpa-system.",
        ),
    ] = OPERATOR,
    port: Annotated[int, typer.Option("--port", help="Local port. Default: any free one.", show_default=False)] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, which signs in once, instead of opening it.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Open the operator's page in a browser, signed in, until Ctrl-C.

    The token stays in this process and is renewed; the browser gets a session that ends with it. Needed: the right to
    forward the pod's port, and an account that may get CronHPAs. The chart makes one, NAME-page, for whoever may create
    its tokens; other users are shown what they may get themselves.

        cronhpa page
        cronhpa page --service-account team-a/viewer
        cronhpa page --no-browser --port 8083

    Exit codes: 0 ended by Ctrl-C; 1 the page cannot be reached; 2 an option is wrong.
    """
    from cronhpa.kube.errors import ClusterError

    try:
        asyncio.run(
            _run(service_account, token_file, operator, port, kubeconfig, context, opens_browser=not no_browser)
        )
    except (OperatorPortError, ClusterError) as error:
        fail("page", error)


async def _run(
    service_account: str | None,
    token_file: Path | None,
    operator: str,
    port: int,
    kubeconfig: str | None,
    context: str | None,
    *,
    opens_browser: bool,
) -> None:
    """Serves the page until the process is told to end. Raises OperatorPortError, ClusterError."""
    from cronhpa.cli.objects.page_proxy import PageProxy
    from cronhpa.kube.contexts import find_access

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    access = find_access(kubeconfig, context)
    token = await _token_of(service_account, token_file, parse_operators(operator)[0], access.configuration)
    async with _leading_page(operator, token, kubeconfig, context) as found:
        proxy = PageProxy(
            found.url,
            token,
            lambda why: complain("page", why),
            clock=asyncio.get_running_loop().time,
            port=port,
            verifies=found.verifies,
        )
        try:
            await proxy.start()
        except OSError as error:
            raise OperatorPortError(f"--port {port}: {error.strerror or error}") from error
        try:
            say(f"the page of {found.operator}, as {found.session.user}: {proxy.address}")
            if opens_browser and _open_browser(proxy.sign_in_address):
                say("no window? --no-browser prints an address to open")
            else:
                say(f"open this address within two minutes; it signs one browser in, once:\n{proxy.sign_in_address}")
            say("Ctrl-C ends it")
            await _until_ended(stop, found)
        finally:
            await proxy.close()


def _open_browser(address: str) -> bool:
    """Opens a window. False where there is none to open: a browser of the terminal would take the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser and not os.environ.get("BROWSER"):
        return False
    # Some browsers return when their window is closed.
    threading.Thread(target=browser.open, args=(address,), daemon=True).start()
    return True


async def _until_ended(stop: asyncio.Event, found: _Page) -> None:
    """Returns when a person ends the command. Raises OperatorPortError if kubectl ends by itself."""
    waiting: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
    if found.port.kubectl is not None:
        waiting.append(asyncio.create_task(found.port.kubectl.wait()))
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        # A Ctrl-C ends kubectl, too, as it belongs to the same terminal, and may do so first.
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _TOGETHER_SECONDS)
        if not stop.is_set():
            raise OperatorPortError(f"the connection to {found.operator} has ended: has the pod been replaced?")
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


# --- who we are --------------------------------------------------------------------------------------------------


async def _token_of(
    service_account: str | None, token_file: Path | None, operator: str, configuration: Configuration
) -> Token:
    """
    Gives the token to show, again and again: of a file, of an account, else our own.

    Raises OperatorPortError, ClusterError.
    """
    if token_file is not None:
        return partial(asyncio.to_thread, token_of, token_file)
    if service_account is not None:
        token, problem = await _of_account(service_account, configuration)
        if token is None:
            raise OperatorPortError(problem)
        return token
    # The chart names the account after the StatefulSet: that of the pod cronhpa-0 is cronhpa-page.
    namespace, _, pod = operator.partition("/")
    problem = "--operator is a URL, so the account of the chart is not known"
    if "://" not in operator:
        token, problem = await _of_account(f"{namespace}/{pod.rpartition('-')[0]}-page", configuration)
        if token is not None:
            return token
    own = _own(configuration)
    if await own():
        return own
    raise OperatorPortError(
        f"{problem}; and your kubeconfig has a certificate, which only the API server can be shown. Name an account "
        "that may get CronHPAs and whose tokens you may create with --service-account NAMESPACE/NAME, or a token with "
        "--token-file"
    )


def _own(configuration: Configuration) -> Token:
    """The token of the kubeconfig; "" if it has none."""

    async def read() -> str:
        from cronhpa.kube.credentials import bearer_token

        return (bearer_token(configuration) or "").removeprefix("Bearer ")

    return read


async def _of_account(account: str, configuration: Configuration) -> tuple[Token | None, str]:
    """Gives tokens of a ServiceAccount; None, and why, without the account or the right. Raises ClusterError."""
    from cronhpa.kube.errors import ClusterError

    async def made() -> str:
        return await account_token(account, configuration, _TOKEN_SECONDS)

    try:
        await made()
    except ClusterError as error:
        if error.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
            raise
        return None, _account_problem(account, error)
    return made, ""


def _account_problem(account: str, error: ClusterError) -> str:
    namespace, _, name = account.rpartition("/")
    whom = f"ServiceAccount {name} in namespace {namespace or 'default'}"
    return f"there is no {whom}" if error.status == HTTPStatus.NOT_FOUND else f"you may not create a token of {whom}"


# --- the page ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _leading_page(
    operator: str, token: Token, kubeconfig: str | None, context: str | None
) -> AsyncIterator[_Page]:
    """The page of the pod that leads, else of the first one that answers. Raises OperatorPortError."""
    problems: list[OperatorPortError] = []
    pages: list[_Page] = []
    async with AsyncExitStack() as opened:
        for name in parse_operators(operator):
            try:
                found = await opened.enter_async_context(_page_of(name, token, kubeconfig, context))
            except OperatorPortError as problem:
                problems.append(problem)
                continue
            pages.append(found)
            if found.session.leads:
                break
        if not pages:
            raise problems[0]
        # Outside of the `try`: an error of who uses the page is none of another pod's.
        yield pages[-1] if pages[-1].session.leads else pages[0]


@asynccontextmanager
async def _page_of(operator: str, token: Token, kubeconfig: str | None, context: str | None) -> AsyncIterator[_Page]:
    otherwise = "forward it in another way, and name its URL with --operator"
    async with forwarded(operator, PORT, kubeconfig=kubeconfig, context=context, otherwise=otherwise) as port:
        url, session = await _asked(operator, port.url, await token())
        yield _Page(url, operator, port, session)


async def _asked(operator: str, url: str, token: str) -> tuple[str, _Session]:
    """The URL with the scheme that the page speaks, and who we are. Raises OperatorPortError."""
    import aiohttp
    import msgspec

    headers = {"Authorization": f"Bearer {token}"}
    urls = [url, f"https{url.removeprefix('http')}"] if url.startswith("http://") else [url]
    problem: object = None
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS)) as client:
        for candidate in urls:
            try:
                async with client.get(
                    f"{candidate}/api/session",
                    headers=headers,
                    allow_redirects=False,
                    ssl=url.startswith("https://"),
                ) as answer:
                    body = await answer.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                problem = error
                continue
            if answer.status == HTTPStatus.OK:
                try:
                    return candidate, msgspec.json.decode(body, type=_Session)
                except msgspec.MsgspecError as error:
                    raise OperatorPortError(f"{operator}: port {PORT} answers, and not as the page: {error}") from error
            if answer.status == HTTPStatus.UNAUTHORIZED:
                raise OperatorPortError(
                    "the API server does not know the token: name an account with --service-account NAMESPACE/NAME"
                )
            problem = f"it answered {answer.status}: {body[:300].decode(errors='replace')}"
    raise OperatorPortError(
        f"{operator} serves no page on port {PORT}: is page.enabled true in the chart's values? ({problem})"
    )
