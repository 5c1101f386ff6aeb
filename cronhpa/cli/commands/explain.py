"""`cronhpa explain`: the reasons for an object's replica count, from its status or from what the operator kept."""

from __future__ import annotations

import json
import shutil
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from cronhpa.api.explained.costs import costs_of
from cronhpa.api.explained.explanation import as_json, explanation
from cronhpa.api.explained.explanation_text import explained, folded, summary
from cronhpa.cli.objects.cluster import (
    Context,
    Kubeconfig,
    Namespace,
    NotAllNamespaces,
    connected,
)
from cronhpa.cli.objects.named import parse_name, read_named
from cronhpa.cli.objects.object_names import OneObject
from cronhpa.cli.past.past_source import OPERATOR, At, Operator, PastLocation, ServiceAccount, StoreFile, TokenFile
from cronhpa.cli.terminal.console import fail, say, show
from cronhpa.cli.terminal.price_options import CorePrice, GibPrice, PodPrice
from cronhpa.core.model.prices import Prices


class ExplainOutput(StrEnum):
    """How an explanation is printed."""

    TEXT = "text"
    JSON = "json"


def explain(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    name: OneObject,
    namespace: Namespace = None,
    _everywhere: NotAllNamespaces = False,
    at: At = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="A timeline from then on. Default: a day ago.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Its end, or its length such as 2h. Default: now.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print the metrics, the bounds and the forecast.")
    ] = False,
    pod_price: PodPrice = None,
    core_price: CorePrice = None,
    gib_price: GibPrice = None,
    output: Annotated[ExplainOutput, typer.Option("--output", "-o", help="text or json.")] = ExplainOutput.TEXT,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the timeline into this file, .svg or .png.", dir_okay=False)
    ] = None,
    store: StoreFile = None,
    operator: Operator = OPERATOR,
    token_file: TokenFile = None,
    service_account: ServiceAccount = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Explain an object's replica count: how many, why, and until when, with each problem and what to do about it.

    --verbose adds the measured metrics, the bounds with their sources and ends, and the forecast with its cost.

    With --at the decision of that time, with --from and --to a timeline: the operator keeps each change for a week and
    a point of every hour for 90 days, and gives them to everybody who may get the object. Times are in the object's
    zone.

        cronhpa explain shop -n prod
        cronhpa explain shop -n prod --verbose
        cronhpa explain shop --at "yesterday 08:02"
        cronhpa explain shop --from "monday 6:00" --to 4h

    Exit codes: 0 done; 1 the object, or its past, cannot be read; 2 an option is wrong.
    """
    if any(given is not None for given in (at, begin, end, picture, store)):
        from cronhpa.cli.past.explain_at import PastRequest, explain_at

        where = PastLocation(store, operator, token_file, service_account, kubeconfig, context)
        explain_at(
            parse_name(name, namespace),
            PastRequest(at, begin, end, output, picture),
            where,
            time.time_ns(),
        )
        return
    import asyncio

    from cronhpa.cli.objects.target_pods import ready_pods
    from cronhpa.kube.errors import ClusterError

    named = parse_name(name, namespace)

    async def read() -> tuple[dict[str, Any], int | None]:
        async with connected(kubeconfig, context, namespace) as cluster:
            body = await read_named(cluster, named)
            return body, await ready_pods(cluster.client, body)

    try:
        body, ready = asyncio.run(read())
    except ClusterError as error:
        fail("explain", error)
    costs = costs_of(body, Prices(pod_price, core_price, gib_price))
    if output is ExplainOutput.JSON:
        show(
            json.dumps(
                {**as_json(replace(explanation(body), ready=ready)), **({"costs": costs} if costs else {})}, indent=2
            )
        )
        return
    text = (explained if verbose else summary)(body, time.time_ns(), ready=ready)
    for line in (*text, *([f"  {costs}"] if costs else ())):
        for part in folded(line, shutil.get_terminal_size().columns):
            say(part)
