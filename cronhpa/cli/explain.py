"""`cronhpa explain`: why an object has the replicas that it has, in sentences."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from cronhpa.cli.cluster import Context, Kubeconfig, Namespace, read_object
from cronhpa.cli.explanation import as_json, explanation
from cronhpa.cli.explanation_text import explained, folded
from cronhpa.cli.lines import say


class ExplainOutput(StrEnum):
    """How an explanation is printed."""

    TEXT = "text"
    JSON = "json"


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the CronHPA object.")],
    namespace: Namespace = "default",
    output: Annotated[ExplainOutput, typer.Option("--output", "-o", help="text or json.")] = ExplainOutput.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Explain an object's replica count: what was measured, who asks for what and until when, what limited it, what comes
    next, what the forecast does and costs, and what is the matter, with what to do.

    Exit codes: 0 explained; 1 the object is not there, or the API server refused or could not be reached.
    """
    import asyncio

    from cronhpa.kube.client import Client
    from cronhpa.kube.credentials import load_configuration
    from cronhpa.kube.errors import ClusterError

    async def read() -> dict[str, Any]:
        async with Client(load_configuration(kubeconfig, context)) as client:
            return await read_object(client, namespace, name)

    try:
        body = asyncio.run(read())
    except ClusterError as error:
        say(f"cronhpa explain: {error}", err=True)
        raise typer.Exit(1) from error
    if output is ExplainOutput.JSON:
        typer.echo(json.dumps(as_json(explanation(body)), indent=2))
        return
    for line in explained(body, time.time_ns()):
        for part in folded(line):
            say(part)
