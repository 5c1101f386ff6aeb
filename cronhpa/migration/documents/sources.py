"""
Named metric sources that converted manifests need: the content of the chart value `sources`.

The operator itself answers an External metric of a CronHPA that has the name of a source. Sources belong to the
operator's administrator, so a conversion writes them apart from the manifests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from cronhpa.migration.documents.document import Json

_NAME_MAX = 63
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


class NamedSources:
    """The sources of one conversion, by name. Objects with equal definitions share one source."""

    def __init__(self) -> None:
        self._by_name: dict[str, Json] = {}

    def add(self, parts: Iterable[str], definition: Json) -> str:
        """The name of the source with this definition; a new one is called after the parts."""
        for name, earlier in self._by_name.items():
            if earlier == definition:
                return name
        wanted = "-".join(filter(None, (_NOT_IN_NAMES.sub("-", part.lower()).strip("-") for part in parts))) or "source"
        if wanted[0].isdigit():
            wanted = f"source-{wanted}"
        name, count = wanted[:_NAME_MAX].rstrip("-"), 1
        while name in self._by_name:
            count += 1
            suffix = f"-{count}"
            name = wanted[: _NAME_MAX - len(suffix)].rstrip("-") + suffix
        self._by_name[name] = definition
        return name

    def used_by(self, manifests: Iterable[Mapping[str, Any]]) -> dict[str, Json]:
        """The sources that a metric of these manifests names."""
        names = {
            ((metric.get("external") or {}).get("metric") or {}).get("name")
            for manifest in manifests
            for metric in manifest["spec"].get("metrics") or ()
        }
        return {name: definition for name, definition in self._by_name.items() if name in names}


def prometheus(url: str, query: str, headers: Mapping[str, str] | None = None) -> Json:
    """A source of one PromQL query. Dollar signs are doubled: in a source a single one begins a placeholder."""
    definition: Json = {"url": url, "query": query.replace("$", "$$")}
    return {"prometheus": definition | ({"headers": dict(headers)} if headers else {})}


def label_value(text: str) -> str:
    """A text as the value of a label in PromQL, in quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
