"""PyYAML's safe loader with limits on the cost of a file, and with the lines of keys that stand twice."""

from __future__ import annotations

import re
from typing import Any

import yaml
from msgspec import Struct

from cronhpa.core.model.printable import shortened

# No number in these objects has more digits. PyYAML multiplies out base 60, and Python refuses to print the result.
_DIGITS_MAX = 64
# A text counts as one value for each so many characters: aliases put long texts as often as short ones.
_TEXT_OF_A_VALUE = 256
# How much of a key an error quotes.
_KEY_MAX = 80
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}


class Repeated(Struct, frozen=True):
    """A key that a mapping has twice: of the two the one on the later line counts."""

    key: str
    first_line: int
    line: int

    def told(self, lines: int = 0) -> str:
        """What was found and what to do, in words. lines: those before the text that was read."""
        return f"{shortened(self.key, _KEY_MAX)}: it stands in line {lines + self.first_line} already: leave one"


def line_of(node: yaml.Node) -> int:
    """The line of a node, from 1 on."""
    return int(node.start_mark.line) + 1


class Loader(yaml.SafeLoader):
    """Dates stay texts, as in JSON. With `construct_object(deep=True)` it refuses a value that contains itself."""

    def __init__(self, stream: str, nodes_max: int) -> None:
        super().__init__(stream)
        self._nodes_max = nodes_max
        self._nodes = 0
        self._nodes_of: dict[int, int] = {}
        # Keeps counted nodes alive: else a new node at the address of a freed one would be taken for that one.
        self._counted: list[yaml.Node] = []
        self.repeated: list[Repeated] = []

    @property
    def nodes(self) -> int:
        """The values read so far, aliases counted where they are put."""
        return self._nodes

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                line = line_of(key)
                if key.value in lines:
                    self.repeated.append(Repeated(key.value, lines[key.value], line))
                lines[key.value] = line
        return node

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
            self._nodes += 1 + (len(node.value) // _TEXT_OF_A_VALUE if isinstance(node, yaml.ScalarNode) else 0)
            self._nodes_of[id(node)] = self._nodes - before
            self._counted.append(node)
        if self._nodes > self._nodes_max:
            raise yaml.composer.ComposerError(
                None, None, f"more than {self._nodes_max:,} values, aliases counted where they are put", mark
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


Loader.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


# --- where the field of a path stands ----------------------------------------------------------------------------


def child_of(node: yaml.Node, key: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """(key, value) of a mapping's field, or (item, item) of a sequence; None if there is no such child."""
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key], node.value[key]
    if isinstance(node, yaml.MappingNode):
        # PyYAML puts merged keys before the mapping's own, which win.
        return next(((name, value) for name, value in reversed(node.value) if name.value == key), None)
    return None


_STEP = re.compile(r"\[([0-9]+)\]")


def line_at(node: yaml.Node, path: str) -> int:
    """The line of a field such as `spec.schedules[0].start`; of a missing field, that of the nearest one around it."""
    line, rest, key = line_of(node), path, ""
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
        line, node = line_of(child[0]), child[1]
    return line


def _longest_key(node: yaml.Node, rest: str) -> tuple[str, str]:
    """The key with which a path begins, and the rest of the path."""
    if isinstance(node, yaml.MappingNode):
        keys = sorted((str(name.value) for name, _ in node.value), key=len, reverse=True)
        for key in keys:
            if key and rest.startswith(key) and rest[len(key) : len(key) + 1] in {"", ".", "["}:
                return key, rest[len(key) :]
    return rest, ""
