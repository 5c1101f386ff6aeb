"""The YAML and JSON documents that commands read and print."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cronhpa.core.spec import Spec


class UnreadableFileError(Exception):
    """Which file cannot be read, and why."""


# Beyond it a file is refused unread: some 4,000 objects as `kubectl get -o yaml` prints them.
BYTES_MAX = 16 * 2**20
# Of all documents of a file, each node once for each place where an alias puts it: a kilobyte of aliases of aliases
# stands for more nodes than any machine holds. So many that are written out take 300 MB while they are read.
NODES_MAX = 500_000
# No field of these objects is a number of more digits. Python multiplies out base 60, and refuses to print the rest.
_DIGITS_MAX = 64


def read_documents(path: Path) -> Iterator[Any]:
    """
    The documents of a file; `-` is the standard input.

    Raises UnreadableFileError where there is no such file, it is no YAML, or holds more than anybody writes.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Dates stay texts, as in JSON: the API knows no other. What contains itself, JSON cannot say either."""

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self._nodes = 0
            self._nodes_of: dict[int, int] = {}
            # A node that is counted stays: else the next one of its address would be taken for it.
            self._counted: list[yaml.Node] = []

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            is_alias = self.check_event(yaml.AliasEvent)
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # types-pyyaml states none
            before = self._nodes
            node = super().compose_node(parent, index)
            if node is None:
                return None
            if is_alias:
                self._nodes += self._nodes_of.get(id(node), 0)
            else:
                self._nodes += 1
                self._nodes_of[id(node)] = self._nodes - before
                self._counted.append(node)
            if self._nodes > NODES_MAX:
                raise yaml.composer.ComposerError(
                    None, None, f"more than {NODES_MAX:,} values, aliases counted where they are put", mark
                )
            return node

        def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
            node = super().compose_scalar_node(anchor)
            if node.tag in _NUMBERS and len(node.value) > _DIGITS_MAX:
                raise yaml.composer.ComposerError(
                    None, None, f"a number of {len(node.value):,} characters, at most {_DIGITS_MAX} are read",
                    node.start_mark,
                )  # fmt: skip
            return node

        def construct_document(self, node: yaml.Node) -> Any:
            # All at once and not level by level: so it is noticed.
            return self.construct_object(node, deep=True)

    Loader.yaml_implicit_resolvers = {
        first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
        for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        yield from yaml.load_all(_text(path), Loader=Loader)
    except (OSError, yaml.YAMLError, RecursionError, ValueError, AttributeError, LookupError) as error:
        # The last three are what PyYAML stumbles over: `!!int x`, `!!timestamp x`, `!!bool x`, a number of 5000 digits.
        raise UnreadableFileError(f"{path}: {' '.join(str(error).split())}") from error


_NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}


def _text(path: Path) -> str:
    """Raises ValueError for more than BYTES_MAX, also from a pipe that does not end."""
    if str(path) == "-":
        content = sys.stdin.buffer.read(BYTES_MAX + 1)
    else:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError(f"it has more than {BYTES_MAX // 2**20} MiB: give its objects in several files")
    return content.decode()


def read_objects(path: Path) -> list[Mapping[str, Any]]:
    """
    The CronHPA objects of a file, also those of a List, each with a name and a spec; `-` is the standard input.

    Raises UnreadableFileError where there is none, or one that is no object.
    """
    documents = list(_flat(read_documents(path)))
    found = [item for item in documents if item.get("kind") == "CronHPA"]
    if not found:
        kinds = ", ".join(sorted({str(item.get("kind", "a document without a kind")) for item in documents}))
        raise UnreadableFileError(
            f"{path}: no CronHPA is in it, only {kinds or 'nothing'}: name a file with kind: CronHPA"
        )
    for body in found:
        metadata, spec = body.get("metadata"), body.get("spec")
        if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
            raise UnreadableFileError(f"{path}: metadata.name: a CronHPA needs a name")
        if not isinstance(spec, Mapping):
            raise UnreadableFileError(f"{path}: {metadata['name']}: spec: found {spec!r}: a mapping belongs here")
    return found


def _flat(documents: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """The objects of documents and of the Lists among them."""
    for document in documents:
        if isinstance(document, Mapping) and isinstance(document.get("items"), list):
            yield from _flat(document["items"])
        elif isinstance(document, Mapping):
            yield document


def written_spec(body: Mapping[str, Any]) -> Spec:
    """
    The spec of an object that somebody wrote, with the upstream's defaults for what the operator's settings decide.

    Raises SpecError for what the API server or the operator would not take, schedules that cannot be read included.
    """
    from cronhpa.api.parse import SpecError, SpecProblem, parse_spec, reject_slips
    from cronhpa.api.rules import broken_rules
    from cronhpa.core.spec import ControllerOptions

    text = _without_nulls(body["spec"])
    reject_slips(text)
    problems = [SpecProblem(*broken) for broken in broken_rules(text)]
    try:
        spec = parse_spec(text, body["metadata"].get("namespace") or "", ControllerOptions())
    except SpecError as error:
        raise SpecError(problems or error.problems) from error
    known = {item.path for item in problems}
    for index, schedule in enumerate(spec.schedules):
        path = f"spec.schedules[{index}]"
        # What a rule has named, in the schedule or in the zone that it inherits, is not told twice.
        is_told = "spec.timeZone" in known or any(item.startswith(path) for item in known)
        if schedule.problem is not None and not is_told:
            problems.append(SpecProblem(f"{path} ({schedule.name})", schedule.problem))
    if problems:
        raise SpecError(problems)
    return spec


def _without_nulls(value: Any) -> Any:
    """What an API server makes of fields that are written and left empty: as if they were not there."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def own_zone(text: Mapping[str, Any], spec: Spec) -> str:
    """The zone that the text of a spec states, else the one that all of its schedules share, else UTC."""
    if isinstance(text.get("timeZone"), str):
        return str(text["timeZone"])
    zones = {schedule.window.zone for schedule in spec.schedules if schedule.problem is None}
    return zones.pop() if len(zones) == 1 else "UTC"


def as_yaml(manifests: Iterable[dict[str, Any]]) -> str:
    """Documents in one stream, fields in their own order, nothing by reference."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _: Any) -> bool:
            return True

    return yaml.dump_all(manifests, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
