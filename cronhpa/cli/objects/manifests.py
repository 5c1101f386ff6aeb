"""
CronHPA manifests in files and folders: read as strictly as the API server reads them. All problems are reported at
once, each with file and line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cronhpa.api.identity import API_VERSION
from cronhpa.cli.objects.named import label_of
from cronhpa.cli.objects.yaml_documents import (
    STANDARD_INPUT,
    LocatedDocument,
    UnreadableFileError,
    child_of,
    name_of,
    read_with_lines,
)
from cronhpa.core.model.nearest import nearest
from cronhpa.core.model.printable import shortened

if TYPE_CHECKING:
    from cronhpa.core.model.spec import Spec
    from cronhpa.kube.yaml_loader import Repeated

_KIND = "CronHPA"
_SUFFIXES = (".yaml", ".yml", ".json")
_TOP_LEVEL = ("apiVersion", "kind", "metadata", "spec", "status")
_TOLD_MAX = 80


class ManifestError(Exception):
    """All problems of the given manifests, each with its place."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class Manifest(Struct, frozen=True):
    """A CronHPA of a file, with a name and a spec."""

    body: Mapping[str, Any]
    file: str
    node: Any
    """Its syntax tree."""
    field_problems: tuple[tuple[int, str], ...] = ()
    """(line, text) of each problem outside its spec."""

    @property
    def label(self) -> str:
        """Its namespace and name, as far as it states them."""
        return label_of(self.body)


def read_specs(paths: Iterable[Path], *, recursive: bool = False) -> list[tuple[Manifest, Spec]]:
    """
    The CronHPA objects of files and folders, also those of Lists, with their specs; `-` is the standard input.

    Of a folder the YAML and JSON files are read, and other objects in them are skipped; recursive: also files of the
    folders below. Raises ManifestError with every problem of every file and every manifest.
    """
    manifests, problems = _read(paths, recursive=recursive)
    specs: list[tuple[Manifest, Spec]] = []
    for manifest in manifests:
        try:
            specs.append((manifest, spec_of(manifest)))
        except ManifestError as error:
            problems += error.problems
    if problems:
        raise ManifestError(problems)
    return specs


def _read(paths: Iterable[Path], *, recursive: bool) -> tuple[list[Manifest], list[str]]:
    """The CronHPAs of files and folders, and the problems of those that cannot be read."""
    manifests: list[Manifest] = []
    problems: list[str] = []
    for path in paths:
        is_folder = path != STANDARD_INPUT and path.is_dir()
        files = _files_of(path, recursive=recursive) if is_folder else [path]
        before = len(manifests) + len(problems)
        kinds: set[str] = set()
        for file in files:
            try:
                for document in read_with_lines(file):
                    _take(document, name_of(file), manifests, problems, kinds)
            except UnreadableFileError as error:
                problems.append(str(error))
        if len(manifests) + len(problems) == before:
            problems.append(_nothing_in(path, kinds, len(files), recursive=recursive))
    return manifests, problems


def spec_of(manifest: Manifest) -> Spec:
    """The spec of a manifest. Raises ManifestError with every problem of the manifest, in order of lines."""
    from cronhpa.api.parse import SpecError

    field_problems = list(manifest.field_problems)
    try:
        spec = written_spec(manifest.body)
    except SpecError as error:
        field_problems += [
            (_line(manifest.node, problem.path), f"{problem.path}: {problem.problem}") for problem in error.problems
        ]
    else:
        if not field_problems:
            return spec
    raise ManifestError(
        f"{manifest.file}:{line}: {manifest.label}: {text}" for line, text in sorted(field_problems, key=_by_line)
    )


def _by_line(problem: tuple[int, str]) -> int:
    return problem[0]


def written_spec(body: Mapping[str, Any]) -> Spec:
    """
    The spec of a manifest, with the upstream's defaults in place of the operator's settings.

    Raises SpecError with everything that the API server or the operator would refuse, including unreadable schedules.
    An API server runs no rules after a wrong type; here the rules run on the spec without the fields of a wrong type.
    """
    from cronhpa.api.parse import SpecError, SpecProblem, check_schema, parse_spec
    from cronhpa.api.rules import broken_rules
    from cronhpa.core.model.spec import ControllerOptions

    text = _without_nulls(body["spec"])
    problems: list[SpecProblem] = []
    try:
        check_schema(text)
    except SpecError as error:
        problems += error.problems
    readable = _Readable.of(text)
    problems += [SpecProblem(*_with_zone(text, *broken)) for broken in readable.applying(broken_rules(readable.text))]
    try:
        spec = parse_spec(readable.text, body["metadata"].get("namespace") or "", ControllerOptions())
    except SpecError as error:
        raise SpecError(problems or error.problems) from error
    problem_paths = {problem.path for problem in problems}
    for index, schedule in enumerate(spec.schedules):
        path = readable.path_of(f"spec.schedules[{index}]")
        # A problem that a rule has named, in the schedule or in the zone that it inherits, is not repeated.
        is_named = "spec.timeZone" in problem_paths or any(other.startswith(path) for other in problem_paths)
        if schedule.problem is not None and not is_named:
            problems.append(SpecProblem(f"{path} ({schedule.name})", schedule.problem))
    if problems:
        raise SpecError(problems)
    return spec


def _with_zone(text: Mapping[str, Any], path: str, problem: str) -> tuple[str, str]:
    """The problem; for a time zone with the zone that was probably meant."""
    from zoneinfo import available_timezones

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


def own_zone(text: Mapping[str, Any], spec: Spec) -> str:
    """The zone that the text of a spec states, else the one that all of its schedules share, else UTC."""
    if isinstance(text.get("timeZone"), str):
        return str(text["timeZone"])
    zones = {schedule.window.zone for schedule in spec.schedules if schedule.problem is None}
    return zones.pop() if len(zones) == 1 else "UTC"


# --- the objects of a file ---------------------------------------------------------------------------------------


def _files_of(folder: Path, *, recursive: bool) -> list[Path]:
    below = folder.rglob("*") if recursive else folder.iterdir()
    return sorted(path for path in below if path.suffix in _SUFFIXES and path.is_file())


def _nothing_in(path: Path, kinds: set[str], files: int, *, recursive: bool) -> str:
    listed = f"only {', '.join(sorted(kinds)) or 'nothing'}"
    meant = nearest(_KIND, [kind for kind in kinds if kind != _KIND])
    hint = f"did you mean kind: {_KIND} for {meant}?" if meant else f"name a file with kind: {_KIND}"
    if path != STANDARD_INPUT and path.is_dir():
        deeper = "" if recursive else "; -R reads the folders below, too"
        if not files:
            return f"{path}: it has no file that ends in {', '.join(_SUFFIXES)}{deeper}"
        return f"{path}: no {_KIND} is in its {files} files, {listed}: {hint}{deeper}"
    return f"{name_of(path)}: no {_KIND} is in it, {listed}: {hint}"


def _take(
    document: LocatedDocument, file: str, manifests: list[Manifest], problems: list[str], kinds: set[str]
) -> None:
    """Adds a document's CronHPAs to `manifests`, their problems to `problems`, and other objects' kinds to `kinds`."""
    for body, node in _flat(document.body, document.node):
        if body.get("kind") != _KIND:
            kinds.add(shortened(str(body.get("kind", "a document without a kind")), _TOLD_MAX))
            continue
        field_problems = sorted(_field_problems(body, node, document.repeated))
        wrong = list(_no_object(body, node))
        if wrong:
            problems += [f"{file}:{line}: {text}" for line, text in sorted([*field_problems, *wrong])]
        else:
            manifests.append(Manifest(body, file, node, tuple(field_problems)))


def _flat(body: Any, node: Any) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """The objects of a document; of a List its items."""
    if isinstance(body, Mapping) and isinstance(body.get("items"), list):
        items = child_of(node, "items")
        for index, element in enumerate(body["items"]):
            place = None if items is None else child_of(items[1], index)
            yield from _flat(element, None if place is None else place[1])
    elif isinstance(body, Mapping):
        yield body, node


def _field_problems(body: Mapping[str, Any], node: Any, repeated: Iterable[Repeated]) -> Iterator[tuple[int, str]]:
    """Line and text of each problem outside a spec that is readable."""
    first, last = (1, sys.maxsize) if node is None else (_begin(node), int(node.end_mark.line) + 1)
    for key_twice in repeated:
        if first <= key_twice.first_line <= last:
            name = shortened(key_twice.key, _TOLD_MAX)
            yield key_twice.line, f"{name}: it stands in line {key_twice.first_line} already: leave one"
    for key in body:
        if key not in _TOP_LEVEL:
            meant = nearest(str(key), _TOP_LEVEL)
            hint = f"{', '.join(_TOP_LEVEL)} are accepted" if meant is None else f"did you mean {meant}?"
            yield _line(node, str(key)), f"{shortened(str(key), _TOLD_MAX)}: there is no such field: {hint}"
    version = body.get("apiVersion", API_VERSION)
    if version != API_VERSION:
        told = shortened(repr(version), _TOLD_MAX)
        yield _line(node, "apiVersion"), f"apiVersion: found {told}: {API_VERSION} is accepted"


def _no_object(body: Mapping[str, Any], node: Any) -> Iterator[tuple[int, str]]:
    """Line and text of each reason why a document is no object with a name and a spec."""
    metadata, spec = body.get("metadata"), body.get("spec")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        yield _line(node, "metadata"), f"metadata.name: a {_KIND} needs a name"
    elif not isinstance(metadata.get("namespace", ""), str):
        told = shortened(repr(metadata["namespace"]), _TOLD_MAX)
        yield _line(node, "metadata.namespace"), f"metadata.namespace: found {told}: a text belongs here"
    if not isinstance(spec, Mapping):
        of = f"{name}: " if isinstance(name, str) else ""
        yield _line(node, "spec"), f"{of}spec: found {shortened(repr(spec), _TOLD_MAX)}: a mapping belongs here"


_STEP = re.compile(r"\[([0-9]+)\]")


def _line(node: Any, path: str) -> int:
    """The line of a field such as `spec.schedules[0].start`; of a missing field, that of the nearest one around it."""
    if node is None:
        return 1
    line, rest, key = _begin(node), path, ""
    while rest:
        index = _STEP.match(rest)
        if index is not None:
            child, rest = child_of(node, int(index[1])), rest[index.end() :]
        else:
            # A key may contain dots: the longest existing key is meant.
            key, rest = _longest_key(node, rest.removeprefix("."))
            child = child_of(node, key)
        if child is None:
            break
        line, node = _begin(child[0]), child[1]
    return line


def _begin(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _longest_key(node: Any, rest: str) -> tuple[str, str]:
    """The key with which a path begins, and the rest of the path."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        keys = sorted((str(name.value) for name, _ in node.value), key=len, reverse=True)
        for key in keys:
            if key and rest.startswith(key) and rest[len(key) : len(key) + 1] in {"", ".", "["}:
                return key, rest[len(key) :]
    return rest, ""


# --- the readable part of a spec ---------------------------------------------------------------------------------


def _without_nulls(value: Any) -> Any:
    """The value without empty fields, which an API server treats as absent."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(field) for key, field in value.items() if field is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


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
        from pydantic import ValidationError

        from cronhpa.api.resource.fields import INT32_MAX
        from cronhpa.api.schema import CronHPASpec
        from cronhpa.api.spec_errors import schema_problems

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
