"""`cronhpa explain`: the reasons for an object's replica count, from its status."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cronhpa.cli.cluster import Context, Kubeconfig, Namespace, connected, read_object
from cronhpa.cli.lines import fail, say


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the CronHPA object.")],
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Explain an object's replica count: the proposals, the limits that changed it, and the next schedule edge.

        cronhpa explain shop -n prod

    Exit codes: 0 done; 1 the object cannot be read from the cluster; 2 an option is wrong.
    """
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
