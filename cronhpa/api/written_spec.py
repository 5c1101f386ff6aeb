"""A spec as a person writes it: everything that is wrong with it at once; and the form in which to show it again."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from zoneinfo import available_timezones

import msgspec
from msgspec import Struct
from pydantic import ValidationError

from cronhpa.api.parse import SpecError, SpecProblem, check_schema, parse_spec
from cronhpa.api.resource.fields import INT32_MAX
from cronhpa.api.rules import broken_rules, spec_schema
from cronhpa.api.schema import CronHPASpec
from cronhpa.api.spec_errors import schema_problems
from cronhpa.core.model.nearest import nearest
from cronhpa.core.model.spec import ControllerOptions, Spec
from cronhpa.core.schedules.calendar_days import is_wrong


def written_spec(body: Mapping[str, Any], options: ControllerOptions | None = None) -> Spec:
    """
    The spec of a manifest.

    options: the operator's; None: they are not known, and the upstream's defaults take their place.
    Raises SpecError with everything that the API server or the operator would refuse, including unreadable schedules.
    An API server runs no rules after a wrong type; here the rules run on the spec without the fields of a wrong type.
    """
    text = without_nulls(body["spec"])
    problems: list[SpecProblem] = []
    try:
        check_schema(text)
    except SpecError as error:
        problems += error.problems
    readable = _Readable.of(text)
    problems += [SpecProblem(*_with_zone(text, *broken)) for broken in readable.applying(broken_rules(readable.text))]
    try:
        spec = parse_spec(readable.text, body["metadata"].get("namespace") or "", options or ControllerOptions())
    except SpecError as error:
        raise SpecError(problems or error.problems) from error
    problem_paths = {problem.path for problem in problems}
    for index, schedule in enumerate(spec.schedules):
        path = readable.path_of(f"spec.schedules[{index}]")
        # A problem that a rule has named, in the schedule or in the zone that it inherits, is not repeated.
        is_named = "spec.timeZone" in problem_paths or any(other.startswith(path) for other in problem_paths)
        # Which calendars there are is known to an operator alone.
        if is_wrong(schedule) and not is_named:
            problems.append(SpecProblem(f"{path} ({schedule.name})", schedule.problem or ""))
    problems += [
        SpecProblem(f"spec.schedulesFrom[{index}]", from_calendar.bounds.problem)
        for index, from_calendar in enumerate(spec.schedules_from)
        if from_calendar.bounds.problem is not None and "spec.timeZone" not in problem_paths
    ]
    if problems:
        raise SpecError(problems)
    return spec


def _with_zone(text: Mapping[str, Any], path: str, problem: str) -> tuple[str, str]:
    """The problem; for a time zone with the zone that was probably meant."""
    if not path.endswith("timeZone"):
        return path, problem
    value: Any = {"spec": text}
    for name, index in re.findall(r"([A-Za-z]+)(?:\[([0-9]+)\])?", path):
        value = value[name][int(index)] if index else value[name]
    # A zone without its region, such as Berlin, is compared with the cities of zones.
    zones = {zone: zone for zone in available_timezones()}
    cities = {zone.rpartition("/")[2]: zone for zone in sorted(zones)}
    meant = nearest(str(value), zones if "/" in str(value) else cities)
    return path, problem if meant is None else f"{problem}: did you mean {cities.get(meant, meant)}?"


def without_nulls(value: Any) -> Any:
    """The value without empty fields, which an API server treats as absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(field) for key, field in value.items() if field is not None}
    return [without_nulls(element) for element in value] if isinstance(value, list) else value


def as_written(spec: Mapping[str, Any], stated_defaults: Collection[str] = ()) -> dict[str, Any]:
    """
    A spec of the API server in the order of the reference and without the defaults that the API server added.

    stated_defaults: paths of fields that hold their default because somebody wrote it (`stated_defaults`). The API
    server does not keep the order of fields.
    """
    written: dict[str, Any] = _undefaulted(spec, spec_schema(), stated_defaults, "")
    return written


def stated_defaults(spec: Mapping[str, Any], last_applied: str, managed: Sequence[Any]) -> tuple[str, ...]:
    """
    The paths of fields that hold their default and were written by somebody, such as `schedules.day.priority`.

    last_applied: the annotation of a client-side `kubectl apply`, "" for none. managed: metadata.managedFields, of
    which those of a server-side apply name what was applied; others have the API server's defaults, too. Texts of
    tenants: what cannot be read names nothing.
    """
    trees = [
        _named(entry.get("fieldsV1"))
        for entry in managed
        if isinstance(entry, dict) and entry.get("operation") == "Apply"
    ]
    with suppress(ValueError, RecursionError):
        trees.append(msgspec.json.decode(last_applied) if last_applied else None)
    schema = spec_schema()
    of_specs = (tree.get("spec") for tree in trees if isinstance(tree, dict))
    return tuple(sorted({path for tree in of_specs for path in _stated(spec, schema, tree, "")}))


def _named(fields: Any) -> Any:
    """FieldsV1 as a tree of names: `f:x` is x, `k:{"name":"day"}` is day."""
    if not isinstance(fields, dict):
        return None
    out = {}
    for key, below in fields.items():
        kind, _, name = key.partition(":")
        if kind == "k":
            try:
                name = msgspec.json.decode(name, type=_Keyed).name
            except msgspec.DecodeError:
                continue
        if kind in {"f", "k"}:
            out[name] = _named(below)
    return out


class _Keyed(Struct):
    name: str


def _stated(value: Any, node: Mapping[str, Any], tree: Any, path: str) -> Iterator[str]:
    """The paths below `path` of defaults that the tree of a written spec names."""
    if isinstance(value, list):
        items = {_item_name(item, index): item for index, item in enumerate(tree)} if isinstance(tree, list) else tree
        for index, item in enumerate(value) if isinstance(items, dict) else ():
            name = _item_name(item, index)
            yield from _stated(item, node.get("items") or {}, items.get(name), _below(path, name))
        return
    if not isinstance(value, Mapping) or not isinstance(tree, dict):
        return
    for name, field in (node.get("properties") or {}).items():
        if name in value and name in tree:
            if "default" in field and field["default"] == value[name]:
                yield _below(path, name)
            yield from _stated(value[name], field, tree[name], _below(path, name))


def _item_name(item: Any, index: int) -> str:
    """An item of a list by its name, or by its place."""
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) else str(index)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def field_order(*parents: str) -> list[str]:
    """The fields of a spec, or of what is below it, in the order of the reference; of a list those of its items."""
    node = spec_schema()
    for parent in parents:
        node = node["properties"][parent]
        node = node.get("items", node)
    return list(node["properties"])


def _undefaulted(value: Any, node: Mapping[str, Any], stated_defaults: Collection[str], path: str) -> Any:
    if isinstance(value, list):
        return [
            _undefaulted(item, node.get("items") or {}, stated_defaults, _below(path, _item_name(item, index)))
            for index, item in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    fields = node.get("properties") or {}
    names = [*(name for name in fields if name in value), *(name for name in value if name not in fields)]
    return {
        name: _undefaulted(value[name], fields.get(name) or {}, stated_defaults, _below(path, name))
        for name in names
        if "default" not in (fields.get(name) or {})
        or fields[name]["default"] != value[name]
        or _below(path, name) in stated_defaults
    }


# --- the readable part of a spec ---------------------------------------------------------------------------------

_TOP = re.compile(r"spec\.([A-Za-z]+)(?:\[([0-9]+)\])?")
# Lists of which single items are left out.
_LISTS = ("schedules", "metrics")
_ANY_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "any"}


class _Readable(Struct, frozen=True):
    text: Mapping[str, Any]
    """A spec without the fields of a wrong type."""
    kept: Mapping[str, list[int]] = {}
    """For a list that lost items, the old index of each item."""
    is_whole: bool = True
    """Whether nothing was left out."""

    @classmethod
    def of(cls, text: Mapping[str, Any]) -> _Readable:
        """The spec without fields of a wrong type: whole fields, and single items of lists."""
        try:
            CronHPASpec.model_validate(text, strict=True)
        except ValidationError as error:
            lost = {(top[1], top[2]) for path, _ in schema_problems(error) if (top := _TOP.match(path))}
        else:
            return cls(text)
        out = {key: value for key, value in text.items() if (key, None) not in lost and isinstance(key, str)}
        kept: dict[str, list[int]] = {}
        for name in _LISTS:
            items = out.get(name)
            if isinstance(items, list) and any(key == name for key, _ in lost):
                kept[name] = [index for index in range(len(items)) if (name, str(index)) not in lost]
                out[name] = [items[index] for index in kept[name]]
        for key, _ in lost:
            if key not in _LISTS:
                out.pop(key, None)
        if ("scaleTargetRef", None) in lost or "scaleTargetRef" not in out:
            out["scaleTargetRef"] = _ANY_TARGET
        out.setdefault("maxReplicas", INT32_MAX)
        return cls(out, kept, is_whole=False)

    def applying(self, broken: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """The broken rules that apply to the text as it was written."""
        for path, problem in broken:
            # A rule that compares fields of the spec may be broken only because a field was left out.
            if self.is_whole or path == "spec.timeZone" or path.count(".") > 1 or "[" in path:
                yield self.path_of(path), problem

    def path_of(self, path: str) -> str:
        """The path of a field as it was written."""
        top = _TOP.match(path)
        if top is None or top[2] is None or top[1] not in self.kept:
            return path
        return f"spec.{top[1]}[{self.kept[top[1]][int(top[2])]}]{path[top.end() :]}"
