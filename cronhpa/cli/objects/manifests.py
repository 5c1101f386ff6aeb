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
    name_of,
    read_with_lines,
)
from cronhpa.core.model.nearest import nearest
from cronhpa.core.model.printable import shortened

if TYPE_CHECKING:
    from cronhpa.core.model.spec import ControllerOptions, Spec
    from cronhpa.kube.yaml_loader import Repeated

_KIND = "CronHPA"
_SUFFIXES = (".yaml", ".yml", ".json")
_TOP_LEVEL = ("apiVersion", "kind", "metadata", "spec", "status")
# A name as the API server accepts it: a subdomain of RFC 1123.
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME, _NAME_MAX = re.compile(rf"{_LABEL}(?:\.{_LABEL})*"), 253
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


def read_specs(
    paths: Iterable[Path], options: ControllerOptions | None = None, *, recursive: bool = False
) -> list[tuple[Manifest, Spec]]:
    """
    The CronHPA objects of files and folders, also those of Lists, with their specs; `-` is the standard input.

    Of a folder the YAML and JSON files are read, and other objects in them are skipped; recursive: also files of the
    folders below. Raises ManifestError with every problem of every file and every manifest.
    """
    manifests, problems = _read(paths, recursive=recursive)
    specs: list[tuple[Manifest, Spec]] = []
    for manifest in manifests:
        try:
            specs.append((manifest, spec_of(manifest, options)))
        except ManifestError as error:
            problems += error.problems
    if problems:
        raise ManifestError(problems)
    return specs


def holds_objects(paths: Iterable[Path]) -> bool:
    """Whether one of these files holds a CronHPA; a file that cannot be read holds none."""
    try:
        documents = [document for path in paths for document in read_with_lines(path)]
    except UnreadableFileError:
        return False
    return any(
        body.get("kind") == _KIND for document in documents for body, _ in flattened(document.body, document.node)
    )


def files_in(paths: Iterable[Path], *, recursive: bool) -> list[Path]:
    """The files of paths: those of a folder in its place."""
    return [
        file
        for path in paths
        for file in (_files_of(path, recursive=recursive) if path != STANDARD_INPUT and path.is_dir() else [path])
    ]


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


def spec_of(manifest: Manifest, options: ControllerOptions | None = None) -> Spec:
    """The spec of a manifest. Raises ManifestError with every problem of the manifest, in order of lines."""
    from cronhpa.api.parse import SpecError
    from cronhpa.api.written_spec import written_spec

    field_problems = list(manifest.field_problems)
    try:
        spec = written_spec(manifest.body, options)
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
    is_folder = path != STANDARD_INPUT and path.is_dir()
    if not kinds and not is_folder:
        return f"{name_of(path)}: it is empty: name a file with kind: {_KIND}"
    kinds_text = f"only {', '.join(sorted(kinds)) or 'nothing'}"
    hint = _hint(kinds)
    if is_folder:
        deeper = "" if recursive else "; -R reads the folders below, too"
        if not files:
            return f"{path}: it has no file that ends in {', '.join(_SUFFIXES)}{deeper}"
        return f"{path}: no {_KIND} is in its {files} files, {kinds_text}: {hint}{deeper}"
    return f"{name_of(path)}: no {_KIND} is in it, {kinds_text}: {hint}"


def _hint(kinds: set[str]) -> str:
    """What to do where only objects of these kinds are."""
    from cronhpa.migration.convert import DIALECTS

    convertible = sorted(kinds & {kind for group, kind in DIALECTS if group != "apps" and kind != _KIND})
    meant = nearest(_KIND, [kind for kind in kinds if kind != _KIND])
    is_misspelt = meant is not None and meant.lower() == _KIND.lower()
    if convertible and not is_misspelt:
        return f"`cronhpa convert` makes one of a {convertible[0]}"
    return f"did you mean kind: {_KIND} for {meant}?" if meant else f"name a file with kind: {_KIND}"


def _take(
    document: LocatedDocument, file: str, manifests: list[Manifest], problems: list[str], kinds: set[str]
) -> None:
    """Adds a document's CronHPAs to `manifests`, their problems to `problems`, and other objects' kinds to `kinds`."""
    for body, node in flattened(document.body, document.node):
        if body.get("kind") != _KIND:
            kinds.add(shortened(str(body.get("kind", "a document without a kind")), _TOLD_MAX))
            continue
        field_problems = sorted(_field_problems(body, node, document.repeated))
        wrong = list(_no_object(body, node))
        if wrong:
            problems += [f"{file}:{line}: {text}" for line, text in sorted([*field_problems, *wrong])]
        else:
            manifests.append(Manifest(body, file, node, tuple(field_problems)))


def flattened(body: Any, node: Any) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """The objects of a document; of a List its items."""
    from cronhpa.kube.yaml_loader import child_of

    if isinstance(body, Mapping) and isinstance(body.get("items"), list):
        items = child_of(node, "items")
        for index, element in enumerate(body["items"]):
            place = None if items is None else child_of(items[1], index)
            yield from flattened(element, None if place is None else place[1])
    elif isinstance(body, Mapping):
        yield body, node


def repeated_in(node: Any, repeated: Iterable[Repeated]) -> Iterator[tuple[int, str]]:
    """Line and text of each key that stands twice in an object of a document."""
    from cronhpa.kube.yaml_loader import line_of

    first, last = (1, sys.maxsize) if node is None else (line_of(node), int(node.end_mark.line) + 1)
    for key_twice in repeated:
        if first <= key_twice.first_line <= last:
            yield key_twice.line, key_twice.told()


def _field_problems(body: Mapping[str, Any], node: Any, repeated: Iterable[Repeated]) -> Iterator[tuple[int, str]]:
    """Line and text of each problem outside a spec that is readable."""
    yield from repeated_in(node, repeated)
    for key in body:
        if key not in _TOP_LEVEL:
            meant = nearest(str(key), _TOP_LEVEL)
            hint = f"{', '.join(_TOP_LEVEL)} are accepted" if meant is None else f"did you mean {meant}?"
            yield _line(node, str(key)), f"{shortened(str(key), _TOLD_MAX)}: there is no such field: {hint}"
    name = _stated_name(body)
    if isinstance(name, str) and name and not (len(name) <= _NAME_MAX and _NAME.fullmatch(name)):
        text = shortened(repr(name), _TOLD_MAX)
        accepted = f"small letters, digits, - and . are accepted, up to {_NAME_MAX}, a letter or digit at both ends"
        yield _line(node, "metadata.name"), f"metadata.name: found {text}: {accepted}"
    version = body.get("apiVersion", API_VERSION)
    if version != API_VERSION:
        text = shortened(repr(version), _TOLD_MAX)
        yield _line(node, "apiVersion"), f"apiVersion: found {text}: {API_VERSION} is accepted"


def _no_object(body: Mapping[str, Any], node: Any) -> Iterator[tuple[int, str]]:
    """Line and text of each reason why a document is no object with a name and a spec."""
    metadata, spec = body.get("metadata"), body.get("spec")
    name = _stated_name(body)
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        yield _line(node, "metadata"), f"metadata.name: a {_KIND} needs a name"
    elif not isinstance(metadata.get("namespace", ""), str):
        text = shortened(repr(metadata["namespace"]), _TOLD_MAX)
        yield _line(node, "metadata.namespace"), f"metadata.namespace: found {text}: a string is needed"
    if not isinstance(spec, Mapping):
        of = f"{name}: " if isinstance(name, str) else ""
        yield _line(node, "spec"), f"{of}spec: found {shortened(repr(spec), _TOLD_MAX)}: a mapping belongs here"


def _stated_name(body: Mapping[str, Any]) -> Any:
    metadata = body.get("metadata")
    return metadata.get("name") if isinstance(metadata, Mapping) else None


def _line(node: Any, path: str) -> int:
    """The line of a field, as `line_at`; without a syntax tree the first one."""
    from cronhpa.kube.yaml_loader import line_at

    return 1 if node is None else line_at(node, path)
