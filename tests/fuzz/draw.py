"""Values out of bytes: a few bytes that a fuzzer changes make another value of the same shape, no broken text."""

from __future__ import annotations

import struct
from typing import Any

# What fields of a CronHPA, of a memory and of metrics answers look like. A random text is hardly ever one of them.
WORDS = (
    "", "a", "shop", "cpu", "memory", "queue", "prod", "Deployment", "apps/v1", "Pods", "Percent", "Max",
    "Min", "Disabled", "Resource", "External", "Object", "ContainerResource", "Utilization", "AverageValue",
    "Value", "Active", "Preview", "0 8 * * *", "*/5 * * * mon-fri", "0 0 30 2 *", "59 23 29 2 *", "@daily",
    "30 1 * * sun", "0 0 1-7 * sun#1", "0 3 l * *", "UTC", "Europe/Berlin", "America/Havana", "Pacific/Apia",
    "Australia/Lord_Howe", "Asia/Kathmandu", "Berlin", "2026-11-23T10:00:00Z",
    "2026-11-23T09:59:59.999999999Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-11-23T00:00",
    "2026-03-29T02:30", "2026-12-24", "2026-02-30", "DE", "BY", "US", "2026-11-23T10:00:00+01:00", "500m",
    "1", "1e30", "-1", "0.1", "1Ki", "9E", "1n", "9223372036854775807", "1e-30", "NaN", "1E2", "30s", "1h2m",
    "In", "NotIn", "Exists", "app=shop", "app in (a,b)", 'x"}[2m])) or sum(up{a="', "a\\", "a\nb", "a\0b",
    "..", "../x", "$name",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 3, 10, 59, 60, 100, 3600, 86_400, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 10**30)
_DEPTH_MAX = 6


class Draw:
    """Reads bytes from the front; at their end everything is zero, the first word and no more."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def rest(self) -> bytes:
        rest, self._at = self._data[self._at :], len(self._data)
        return rest

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def one_in(self, number: int) -> bool:
        """Never at the end of the bytes."""
        return self.byte() % number == number - 1

    def of(self, values: Any) -> Any:
        return values[(self.byte() * 256 + self.byte()) % len(values)]

    def number(self, low: int | None = None, high: int | None = None) -> int:
        """An integer, of the bounds and next to them oftener than not."""
        if low is None or high is None:
            return int(self.of(NUMBERS)) + (0, 1, -1, 2, -2)[self.byte() % 5]
        if self.one_in(3):
            return int(self.of((low, high, max(low, high - 1), min(high, low + 1))))
        wide = int.from_bytes(bytes(self.byte() for _ in range(5)))
        return low + wide % (high - low + 1)

    def floating(self) -> float:
        return float(struct.unpack("<d", bytes(self.byte() for _ in range(8)))[0])

    def text(self) -> str:
        if not self.one_in(4):
            return str(self.of(WORDS))
        return bytes(self.byte() for _ in range(self.byte() % 24)).decode(errors="replace")

    def json(self, depth: int = 0) -> Any:
        """Any value of JSON, and numbers that JSON of some senders has."""
        kind = self.byte() % (9 if depth < _DEPTH_MAX else 6)
        if kind >= 7:
            return {self.text(): self.json(depth + 1) for _ in range(self.byte() % 5)}
        if kind == 6:
            return [self.json(depth + 1) for _ in range(self.byte() % 5)]
        return (None, False, True, self.number(), self.floating(), self.text())[kind]

    def from_schema(self, schema: dict[str, Any], depth: int = 0) -> Any:
        """A value of an OpenAPI schema of a CRD, now and then another one."""
        if self.one_in(24):
            return self.json(depth)
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return [self.from_schema(schema["items"], depth + 1) for _ in range(self.byte() % 4)]
            case "integer":
                return self.number(schema.get("minimum", -3), schema.get("maximum", 2**31 - 1))
            case "boolean":
                return bool(self.byte() % 2)
            case "string":
                return self.of(schema["enum"]) if "enum" in schema else self.text()
            case _:  # an integer or a text, as quantities are
                return self.text() if self.byte() % 2 else self.number()

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        drawn = {}
        for name, inner in schema.get("properties", {}).items():
            if name in schema.get("required", ()) or self.byte() % 3 == 1:
                drawn[name] = self.from_schema(inner, depth + 1)
        if "additionalProperties" in schema:
            drawn |= {self.text(): self.text() for _ in range(self.byte() % 3)}
        return drawn
