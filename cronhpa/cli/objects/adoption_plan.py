"""`cronhpa adopt --dry-run` without a name: a table with the plan for each HorizontalPodAutoscaler."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import typer
from msgspec import Struct

from cronhpa.cli.objects.adoption import Stopped, conditions, converted, must_fit, target
from cronhpa.cli.objects.cluster import read_all
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from cronhpa.kube.client import Client

Json = dict[str, Any]

_HEAD = ("NAMESPACE", "HPA", "TARGET", "REPLICAS", "PLAN")
_REFUSED = "refused"
_ALWAYS_ACTIVE = "external-metrics.datadoghq.com/always-active"


class Plan(Struct, frozen=True):
    """What `adopt` would do with the HPAs of a namespace, in the order of their names."""

    adoptable: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    """CronHPAs without an HPA of their name."""


async def show_plan(client: Client, namespace: str | None, now: Nanoseconds) -> Plan:
    """Prints a row for each HPA of a namespace, None: of all; returns their names. Raises ClusterError."""
    hpas = await _read_hpas(client, namespace)
    cron_hpas = {_key(body): body for body in await read_all(client, namespace)}
    rows = [_row(hpa, cron_hpas.get(_key(hpa)), await served_without(client, hpa), now) for hpa in hpas]
    adopted = tuple(name for _, name in sorted(cron_hpas.keys() - {_key(hpa) for hpa in hpas}))
    if not rows:
        typer.echo("there is no HorizontalPodAutoscaler")
        return Plan(adopted=adopted)
    for line in _lines([_HEAD, *rows]):
        typer.echo(printable(line))
    refused = tuple(name for _, name, *_, plan in rows if plan.startswith(_REFUSED))
    return Plan(tuple(name for _, name, *_ in rows if name not in refused), refused, adopted)


async def served_without(client: Client, hpa: Json) -> AbstractSet[str]:
    """The paths of an HPA's metrics that Datadog goes on serving when the HPA is gone."""
    from cronhpa.kube.client import path_of
    from cronhpa.kube.errors import ClusterError
    from cronhpa.migration.dialects.hpa import datadog_metrics

    served = set()
    for index, namespace, name in datadog_metrics(hpa["spec"].get("metrics") or ()):
        path = path_of("apis", "datadoghq.com", "v1alpha1", "namespaces", namespace, "datadogmetrics", name)
        try:
            body: Json = await client.get(path, dict)
        except ClusterError as error:
            if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
                raise
            continue
        if (body.get("metadata", {}).get("annotations") or {}).get(_ALWAYS_ACTIVE) == "true":
            served.add(f"spec.metrics[{index}]")
    return served


def _row(hpa: Json, chpa: Json | None, served: AbstractSet[str], now: Nanoseconds) -> tuple[str, ...]:
    status = hpa.get("status") or {}
    return (
        *_key(hpa),
        target(hpa),
        f"{status.get('currentReplicas', '?')} of {hpa['spec'].get('minReplicas', 1)} to {hpa['spec']['maxReplicas']}",
        _plan(hpa, chpa, served, now),
    )


def _plan(hpa: Json, chpa: Json | None, served: AbstractSet[str], now: Nanoseconds) -> str:
    from cronhpa.migration.documents.document import Unconvertible

    try:
        converted(hpa, now, served)
        if chpa is not None:
            must_fit(hpa, chpa)
    except Stopped as reason:
        return f"{_REFUSED}: {reason}"
    except Unconvertible as refusal:
        return f"{_REFUSED}: {refusal}"
    active = conditions(hpa).get("ScalingActive", {})
    if active.get("status") != "True":
        return f"{_REFUSED} until it has its metrics: {active.get('message', 'it has not looked at its target')}"
    return "adopt" if chpa is None else "finish: the CronHPA is there"


async def _read_hpas(client: Client, namespace: str | None) -> list[Json]:
    import msgspec

    from cronhpa.kube.client import path_of

    within = () if namespace is None else ("namespaces", namespace)
    path = path_of("apis", "autoscaling", "v2", *within, "horizontalpodautoscalers")
    bodies = [msgspec.json.decode(raw_hpa) async for items, _ in client.pages(path) for raw_hpa in items]
    # The items of a list have no kind.
    named = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    return sorted(({**named, **body} for body in bodies), key=_key)


def _key(body: Json) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows in columns; the last column is not padded."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
