"""What an object's pods cost, from its status and the prices that a reader states."""

from __future__ import annotations

from typing import Any

from cronhpa.api.status_memory import parse_memory
from cronhpa.core.model.prices import Prices, money


def costs_of(body: dict[str, Any], prices: Prices) -> str:
    """What the object's pods cost by the hour, or why that is not known; "" without prices or replicas."""
    status = body.get("status") or {}
    replicas = status.get("currentReplicas")
    if not prices.is_stated or replicas is None:
        return ""
    # What one container requests says nothing of the pod. Of several metrics of one resource the first is stated.
    kinds: dict[str, str] = {}
    for metric in (body.get("spec") or {}).get("metrics") or ():
        for kind in ("resource", "containerResource"):
            if metric.get(kind):
                kinds.setdefault(metric[kind]["name"], kind)
    stated = parse_memory(status).request_per_pod
    requests = {name: stated[name] for name in stated if kinds.get(name) != "containerResource"}
    price = prices.of_pod(requests)
    if price is None:
        return prices.unknown(requests)
    return f"{replicas} pods cost {money(replicas * price)} an hour, each {money(price)}"
