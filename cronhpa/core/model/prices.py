"""What a pod costs by the hour: stated, or by its requests."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.core.model.spec import Spec

_GIB = 2**30
_MILLI = 1000


class Prices(Struct, frozen=True):
    """Prices by the hour, in one currency that nobody needs to name; None where not stated."""

    pod: float | None = None
    core: float | None = None
    gib: float | None = None
    """Of memory."""

    @property
    def is_stated(self) -> bool:
        return any(price is not None for price in (self.pod, self.core, self.gib))

    def of_pod(self, requests: Mapping[str, int]) -> float | None:
        """
        The price of a pod by the hour; None if no price is stated, or if `unknown` tells why there is none.

        requests: milli-units by resource.
        """
        if self.pod is not None:
            return self.pod
        if not self.is_stated or self.unknown(requests):
            return None
        cores, bytes_ = requests.get("cpu", 0) / _MILLI, requests.get("memory", 0) / _MILLI
        return cores * (self.core or 0.0) + bytes_ / _GIB * (self.gib or 0.0)

    def unknown(self, requests: Mapping[str, int]) -> str:
        """Why a pod with these requests has no price although prices are stated; "" if it has one."""
        if self.pod is not None:
            return ""
        prices = {"cpu": self.core, "memory": self.gib}
        missing = [name for name, price in prices.items() if price is not None and name not in requests]
        known = f"no request for {' or '.join(missing)} is known: state a pod's price"
        return f"its price is not known: {known}" if missing else ""


def priced_requests(spec: Spec, requests: Mapping[str, int]) -> dict[str, int]:
    """The requests that are of whole pods, and not of one container that a metric measures."""
    return {name: requests[name] for name in requests if spec.container_of(name) is None}


def money(amount: float) -> str:
    """An amount as it is shown everywhere, in the currency of the prices."""
    return f"{amount:,.2f}"
