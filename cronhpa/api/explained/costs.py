"""What an object's pods cost, from its status and the prices that a reader states."""

from __future__ import annotations

from typing import Any

from cronhpa.api.parse import SpecError, parse_spec
from cronhpa.api.status_memory import parse_memory
from cronhpa.core.model.prices import Prices, money, priced_requests
from cronhpa.core.model.spec import ControllerOptions


def costs_of(body: dict[str, Any], prices: Prices) -> str:
    """What the object's pods cost by the hour, or why that is not known; "" without prices or replicas."""
    status = body.get("status") or {}
    replicas = status.get("currentReplicas")
    if not prices.is_stated or replicas is None:
        return ""
    stated = parse_memory(status).request_per_pod
    try:
        spec = parse_spec(body["spec"], body["metadata"]["namespace"], ControllerOptions())
    except SpecError:
        # Whose requests they are is not known.
        requests = {}
    else:
        requests = priced_requests(spec, stated)
    price = prices.of_pod(requests)
    if price is None:
        return prices.unknown(requests)
    return f"{replicas} pods cost {money(replicas * price)} an hour, each {money(price)}"
