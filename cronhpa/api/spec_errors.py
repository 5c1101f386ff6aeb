"""
Pydantic's errors about a spec in this project's words: where, what was found, what is accepted, and for an unknown name
the name that was probably meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cronhpa.api.crd import CRON_HPA, Kind
from cronhpa.api.resource.cel import Json
from cronhpa.api.rules import spec_schema
from cronhpa.core.model.nearest import nearest
from cronhpa.core.model.printable import shortened

if TYPE_CHECKING:
    from pydantic import ValidationError

# How much of a value an error quotes.
_TOLD_MAX = 80
_UNKNOWN = "extra_forbidden"
_MISSING = "missing"

# Messages for pydantic's errors about types and bounds; all other errors keep pydantic's message.
_WORDS = {
    "missing": "it is needed and not there",
    "int_type": "a whole number belongs here",
    "int_parsing": "a whole number belongs here",
    "int_from_float": "a whole number belongs here",
    "float_type": "a number belongs here",
    "float_parsing": "a number belongs here",
    "bool_type": "true or false belongs here",
    "bool_parsing": "true or false belongs here",
    "string_type": "a string is needed, in quotes where it looks like a number",
    "list_type": "a list belongs here",
    "dict_type": "a mapping belongs here",
    "model_type": "a mapping belongs here",
    "model_attributes_type": "a mapping belongs here",
    "greater_than_equal": "{ge} or more is accepted",
    "less_than_equal": "{le} or less is accepted",
    "greater_than": "more than {gt} is accepted",
    "less_than": "less than {lt} is accepted",
    "string_too_short": "{min_length} or more characters belong here",
    "string_too_long": "{max_length} or fewer characters are accepted",
    "too_short": "{min_length} or more items belong here",
    "too_long": "{max_length} or fewer items are accepted",
}
_CHOICES = re.compile(r"'([^']*)'")


def schema_problems(error: ValidationError, of: Kind = CRON_HPA) -> list[tuple[str, str]]:
    """Path and problem of each error that pydantic found in a spec of this kind, each field once."""
    root = spec_schema(of)
    problems: dict[str, str] = {}
    meant: set[str] = set()
    errors = error.errors(include_url=False)
    for detail in errors:
        if detail["type"] == _UNKNOWN:
            *parent, name = detail["loc"]
            fields = _fields_at(parent, root)
            suggestion = nearest(str(name), fields)
            if suggestion is not None:
                meant.add(path_of([*parent, suggestion]))
            problems[path_of([*parent, shortened(str(name), _TOLD_MAX)])] = (
                f"there is no such field: {_suggested(suggestion, fields)}"
            )
    for detail in errors:
        path = path_of(_known_part(detail["loc"], root))
        # A field that was written under a misspelt name is not missing.
        if detail["type"] != _UNKNOWN and not (detail["type"] == _MISSING and path in meant):
            problems.setdefault(path, _problem(detail, root))
    return list(problems.items())


def path_of(parts: Iterable[int | str]) -> str:
    """A field of the spec as Kubernetes writes it: `spec.schedules[0].start`."""
    return "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _suggested(suggestion: str | None, fields: Sequence[str]) -> str:
    if suggestion is not None:
        return f"did you mean {suggestion}?"
    return f"{_listed(fields, 'and')} are accepted" if len(fields) > 1 else "no field is accepted here"


def _listed(words: Sequence[str], last: str) -> str:
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _problem(error: Any, root: Json) -> str:
    node = _node_at(_known_part(error["loc"], root), root)
    if node.get("x-kubernetes-int-or-string") and error["type"].endswith("_type"):
        return f'{_finding(error)}a quantity is a whole number, or a text such as "250m", "1.5" or "512Mi"'
    return found_and_accepted(error)


def _finding(error: Any) -> str:
    is_quoted = error["type"] != _MISSING and not isinstance(error["input"], Mapping | list)
    return f"found {shortened(repr(error['input']), _TOLD_MAX)}: " if is_quoted else ""


def found_and_accepted(error: Any, *, is_secret: bool = False) -> str:
    """One of pydantic's errors in words. is_secret: the value is not quoted."""
    finding = "" if is_secret else _finding(error)
    if error["type"] == "literal_error":
        choices = _CHOICES.findall(str(error["ctx"]["expected"]))
        suggestion = nearest(str(error["input"]), choices)
        meant = "" if suggestion is None else f"did you mean {suggestion}? "
        return f"{finding}{meant}{_listed(choices, 'or')} is accepted"
    words = _WORDS.get(error["type"])
    if words is None:
        own = str(error["msg"]).removeprefix("Value error, ")
        # Our own texts may begin with the value.
        return own if own.startswith(repr(error["input"])) else f"{finding}{own}"
    return finding + words.format(**error.get("ctx", {}))


# --- the schema at a path ----------------------------------------------------------------------------------------


def _walk(parts: Iterable[int | str], root: Json) -> Iterator[tuple[int | str, Json]]:
    """The parts of a location that the schema has, each with its node: pydantic also adds the branch of a union."""
    node = root
    for part in parts:
        below = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
        if below is None:
            return
        node = below
        yield part, node


def _known_part(parts: Sequence[int | str], root: Json) -> list[int | str]:
    prefix = [part for part, _ in _walk(parts, root)]
    # A map with keys of its own, such as matchLabels, has no fields in the schema: the error names its keys.
    return list(parts) if len(prefix) == len(parts) - 1 and _is_map(parts[:-1], root) else prefix


def _is_map(parts: Sequence[int | str], root: Json) -> bool:
    return "additionalProperties" in _node_at(parts, root)


def _node_at(parts: Sequence[int | str], root: Json) -> Json:
    nodes = [node for _, node in _walk(parts, root)]
    return nodes[-1] if nodes else root


def _fields_at(parts: Sequence[int | str], root: Json) -> list[str]:
    return list(_node_at(parts, root).get("properties", {}))
