"""What a pod costs by the hour: stated, or by its requests."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

_GIB = 2**30
_MILLI = 1000


class Prices(Struct, frozen=True):
    """Prices by the hour, in one currency that nobody needs to name; None where not stated."""

    pod: float | None = None
    core: float | None = None
    gib: float | None = None
    """Of memory."""

    def of_pod(self, requests: Mapping[str, int]) -> float | None:
        """
        The price of a pod by the hour; None if no price is stated.

        requests: milli-units by resource. A price of cores or memory needs the request: without it, it counts nothing.
        """
        if self.pod is not None:
            return self.pod
        if self.core is None and self.gib is None:
            return None
        cores, bytes_ = requests.get("cpu", 0) / _MILLI, requests.get("memory", 0) / _MILLI
        return cores * (self.core or 0.0) + bytes_ / _GIB * (self.gib or 0.0)
