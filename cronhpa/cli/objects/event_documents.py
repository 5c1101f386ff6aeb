"""Planned events in files: read as strictly as the API server reads them, each problem with file and line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from cronhpa.cli.objects.manifests import flattened, repeated_in
from cronhpa.cli.objects.yaml_documents import UnreadableFileError, name_of, read_text, read_with_lines
from cronhpa.core.model.planned_event import PlannedEvent


class EventFileError(Exception):
    """problems: all of them, each with its place."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class EventDocument(Struct, frozen=True):
    """A planned event of a file."""

    event: PlannedEvent
    is_of_cluster: bool


def has_events(paths: Sequence[Path]) -> bool:
    """Whether a file holds a planned event; a file that cannot be read holds none."""
    from cronhpa.api.identity import CLUSTER_EVENT_KIND, EVENT_KIND

    # By the text first: most files hold none, and are read again by whoever reads objects.
    named = [path for path in paths if EVENT_KIND in _text_of(path)]
    return any(body.get("kind") in {EVENT_KIND, CLUSTER_EVENT_KIND} for body, *_ in _bodies(named, []))


def _text_of(path: Path) -> str:
    try:
        return read_text(path)
    except UnreadableFileError:
        return ""


def read_events(paths: Sequence[Path], namespace: str) -> list[EventDocument]:
    """
    The planned events of files. namespace: of events that state none.

    Raises EventFileError with every problem of every file and event.
    """
    from msgspec.structs import replace
    from pydantic import ValidationError

    from cronhpa.api.crd import CLUSTER_PLANNED_EVENT, PLANNED_EVENT
    from cronhpa.api.parse_event import parse_event
    from cronhpa.api.rules import broken_rules
    from cronhpa.api.spec_errors import schema_problems
    from cronhpa.kube.yaml_loader import line_at

    out: list[EventDocument] = []
    problems: list[str] = []
    for body, node, repeated, file in _bodies(paths, problems):
        of = next((one for one in (PLANNED_EVENT, CLUSTER_PLANNED_EVENT) if one.kind == body.get("kind")), None)
        if of is None:
            continue
        problems += [f"{file}:{line}: {text}" for line, text in repeated_in(node, repeated)]
        meta = body.get("metadata")
        name = meta.get("name") if isinstance(meta, Mapping) else None
        if not isinstance(meta, Mapping) or not isinstance(name, str) or not name:
            problems.append(f"{file}:{line_at(node, 'metadata')}: metadata.name: a {of.kind} needs a name")
            continue
        spec = body.get("spec")
        found: list[tuple[str, str]] = []
        try:
            of.spec_model.model_validate(spec, extra="forbid")
        except ValidationError as error:
            found = schema_problems(error, of)
        if not found and isinstance(spec, Mapping):
            found = list(broken_rules(spec, of))
        within = "" if of is CLUSTER_PLANNED_EVENT else str(meta.get("namespace") or namespace)
        # A PlannedEvent that states no namespace is parsed as one of any, and concerns the objects of the files.
        event = parse_event(name, "" if of is CLUSTER_PLANNED_EVENT else within or "default", spec)
        if not found:
            found = [(one.partition(": ")[0], one.partition(": ")[2]) for one in event.problems]
        problems += [f"{file}:{line_at(node, path)}: {name}: {path}: {text}" for path, text in found]
        out.append(EventDocument(replace(event, namespace=within), of is CLUSTER_PLANNED_EVENT))
    if problems:
        raise EventFileError(problems)
    return out


def _bodies(paths: Sequence[Path], problems: list[str]) -> Iterator[tuple[Mapping[str, Any], Any, Sequence[Any], str]]:
    """The objects of files and Lists, with the keys that stand twice; problems: takes those of unreadable files."""
    for path in paths:
        try:
            for document in read_with_lines(path):
                for body, node in flattened(document.body, document.node):
                    yield body, node, document.repeated, name_of(path)
        except UnreadableFileError as error:
            problems.append(str(error))
