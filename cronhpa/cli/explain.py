"""`cronhpa explain`: the reasons for an object's replica count, from its status or from what the operator kept."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cronhpa.cli.cluster import Context, Kubeconfig, Namespace, connected, namespace_of, read_object
from cronhpa.cli.lines import fail, say
from cronhpa.cli.past_source import OPERATOR, Operator, ServiceAccount, StoreFile, TokenFile, Where


def explain(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the CronHPA object.")],
    namespace: Namespace = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help='The decision of then: "yesterday 08:02", "last tuesday 9:00", "2h ago".'),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="A timeline from then on. Default: a day ago.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Its end, or its length such as 2h. Default: now.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json, of what is past.")] = "text",
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
    Explain an object's replica count: the proposals, the limits that changed it, and the next schedule edge.

    With --at the decision of then, with --from and --to a timeline: the operator keeps each change for a week and a
    point of every hour for 90 days. It tells them to whoever may get the object. Times are those of the object's zone.

        cronhpa explain shop -n prod
        cronhpa explain shop --at "yesterday 08:02"
        cronhpa explain shop --from "monday 6:00" --to 4h

    Exit codes: 0 done; 1 the object, or its past, cannot be read; 2 an option is wrong.
    """
    if any(given is not None for given in (at, begin, end, picture, store)):
        from cronhpa.cli.explain_past import AskedPast, explain_past

        where = Where(store, operator, token_file, service_account, kubeconfig, context)
        explain_past(
            namespace_of(kubeconfig, context, namespace),
            name,
            AskedPast(at, begin, end, output, picture),
            where,
            time.time_ns(),
        )
        return
    if output != "text":
        raise typer.BadParameter("is for what is past: name a time with --at or --from", param_hint="--output")
    import asyncio

    from cronhpa.kube.errors import ClusterError

    async def read() -> dict[str, Any]:
        async with connected(kubeconfig, context, namespace) as cluster:
            return await read_object(cluster.client, cluster.namespace, name)

    try:
        body = asyncio.run(read())
    except ClusterError as error:
        fail("explain", error)
    for line in explained(body):
        say(line)


def explained(body: dict[str, Any]) -> list[str]:
    """The lines that explain an object's status."""
    status = body.get("status") or {}
    name = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
    if not status.get("conditions"):
        return [f"{name} has not been decided yet: is the operator running?"]
    decision = status.get("decision") or {}
    by = decision.get("decidedBy", "nobody")
    allowed = f"{status.get('effectiveMinReplicas', '?')} to {status.get('effectiveMaxReplicas', '?')} are allowed"
    wanted = f"{name} wants {status.get('desiredReplicas', '?')} replicas of {status.get('target', '?')}"
    lines = [f"{wanted}, decided by {by}; {status.get('currentReplicas', '?')} were found, {allowed}."]
    if decision.get("reason"):
        lines.append(f"  reason: {decision['reason']}")
    if decision.get("withheld"):
        lines.append(f"  withheld: {decision['withheld']}")
    for item in decision.get("proposals") or []:
        source = "/".join(part for part in (item["source"], item.get("name")) if part)
        until = f" until {item['until']}" if item.get("until") else ""
        reason = f" ({item['reason']})" if item.get("reason") else ""
        lines.append(f"  {source} asks for {_ROLES[item['role']]}{item['replicas']}{until}{reason}")
    lines += [
        f"  {'/'.join(part for part in (item['source'], item.get('name')) if part)} says nothing: {item['message']}"
        for item in decision.get("abstentions") or []
    ]
    lines += [f"  {item['rule']} made {item['to']} of {item['from']}" for item in decision.get("steps") or []]
    edge = status.get("nextEdge")
    if edge:
        lines.append(f"  next: {edge['schedule']} is {edge['state'].lower()} from {edge['time']}")
    lines += [
        f"  {item['type']} is {item['status']}: {item['reason']}: {item['message']}"
        for item in status["conditions"]
        if item["status"] == ("True" if item["type"] in {"ScalingLimited", "ScaledToZero"} else "False")
    ]
    return lines


_ROLES = {"Target": "", "Floor": "at least ", "Cap": "at most "}
