"""The text of `AmbiguousSelector`, in the upstream's words, and the objects that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cronhpa.core.model.observation import Absent

REASON = "AmbiguousSelector"
_TEXT = "pods by selector {} are controlled by more than one HPA (e.g. [{}])"
_OBJECTS = re.compile(r"controlled by more than one HPA \(e\.g\. \[(.*)\]\)$")
_OBJECT = re.compile(r"\{(\S+) (\S+)\}")


def ambiguous_selector(selector: str, objects: Iterable[tuple[str, str]]) -> Absent:
    """Why these objects (namespace, name) do not measure: they count the same pods. selector: that of one of them."""
    named = " ".join(f"{{{name} {namespace}}}" for namespace, name in sorted(objects))
    return Absent(REASON, _TEXT.format(selector, named))


def objects_named_in(message: str) -> list[tuple[str, str]]:
    """The objects (namespace, name) that such a text names; none for another text, and for one that was cut."""
    found = _OBJECTS.search(message)
    return [] if found is None else [(namespace, name) for name, namespace in _OBJECT.findall(found[1])]
