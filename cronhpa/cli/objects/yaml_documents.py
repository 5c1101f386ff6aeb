"""The YAML and JSON documents that commands read and print, with the lines on which their fields stand."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from weakref import WeakKeyDictionary

from msgspec import Struct

from cronhpa.core.model.printable import printable

if TYPE_CHECKING:
    pass


class UnreadableFileError(Exception):
    """A file cannot be read; the text says which, and why."""


class LocatedDocument(Struct, frozen=True):
    """A document with its syntax tree, `node`, which knows the line of each field."""

    body: Any
    node: Any
    repeated: tuple[Any, ...] = ()


# A larger file is refused. This is room for some thousand objects as `kubectl get -o yaml` prints them.
BYTES_MAX = 16 * 2**20
# The nodes of all documents of a file, with aliases expanded: a kilobyte of nested aliases expands to more nodes than
# any machine holds.
NODES_MAX = 500_000
_MARKER = re.compile(r"^---(?=\s|$)", re.MULTILINE)
STANDARD_INPUT = Path("-")


def read_documents(path: Path) -> Iterator[Any]:
    """
    The documents of a file; `-` is the standard input.

    Raises UnreadableFileError if there is no such file, it is no YAML, it is too large, or a mapping has a key twice.
    """
    for document in read_with_lines(path):
        for twice in document.repeated:
            raise UnreadableFileError(f"{name_of(path)}:{twice.line}: {twice.told()}")
        yield document.body


def read_each(path: Path) -> Iterator[Any]:
    """The documents of a file, each by itself: in the place of one that cannot be read is an UnreadableFileError."""
    import yaml

    from cronhpa.kube.yaml_loader import Loader

    try:
        text = _text(path)
    except (OSError, ValueError) as error:
        yield UnreadableFileError(f"{name_of(path)}{_told(error)}")
        return
    left = NODES_MAX
    for before, block in _blocks(text):
        try:
            loader = Loader(block, left)
            try:
                while loader.check_node():
                    # deep=True: PyYAML then refuses a value that contains itself.
                    body = loader.construct_object(loader.get_node(), deep=True)
                    if loader.repeated:
                        twice, loader.repeated = loader.repeated[0], []
                        body = UnreadableFileError(f"{name_of(path)}:{before + twice.line}: {twice.told(before)}")
                    yield body
            finally:
                left -= loader.nodes
                loader.dispose()
        except (yaml.YAMLError, RecursionError, ValueError, AttributeError, LookupError) as error:
            hint = "; {{ }} is filled in by a template: convert what it renders" if "{{" in block else ""
            yield UnreadableFileError(f"{name_of(path)}{_told(error, before)}{hint}")


# What came through a pipe, which can be read only once: for its kinds, and again for its objects.
_PIPED: WeakKeyDictionary[TextIO, bytes] = WeakKeyDictionary()


def read_with_lines(path: Path) -> Iterator[LocatedDocument]:
    """As `read_documents`, with their syntax trees; keys that a mapping has twice are in `repeated`, and no error."""
    import yaml

    from cronhpa.kube.yaml_loader import Loader

    try:
        loader = Loader(_text(path), NODES_MAX)
        try:
            while loader.check_node():
                loader.repeated = []
                node = loader.get_node()
                # deep=True: PyYAML then refuses a value that contains itself.
                yield LocatedDocument(loader.construct_object(node, deep=True), node, tuple(loader.repeated))
        finally:
            loader.dispose()
    except (OSError, yaml.YAMLError, RecursionError, ValueError, AttributeError, LookupError) as error:
        # PyYAML raises the last three, for `!!int x`, `!!timestamp x`, `!!bool x`, or a number of 5000 digits.
        raise UnreadableFileError(f"{name_of(path)}{_told(error)}") from error


def read_text(path: Path) -> str:
    """The text of a file; `-` is the standard input. Raises UnreadableFileError."""
    try:
        return _text(path)
    except (OSError, ValueError) as error:
        raise UnreadableFileError(f"{name_of(path)}{_told(error)}") from error


def name_of(path: Path) -> str:
    """The name of a file in errors."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """The text cut at YAML's document markers, each part with the number of lines before it."""
    begin, lines = 0, 0
    for marker in _MARKER.finditer(text):
        block = text[begin : marker.start()]
        if all(line.startswith(("#", "%")) for line in block.split("\n") if line.strip()):
            continue  # comments and directives belong to what follows
        yield lines, block
        begin, lines = marker.start(), lines + block.count("\n")
    yield lines, text[begin:]


def _told(error: Exception, lines: int = 0) -> str:
    """`:LINE: problem`, without a line if the error names none. lines: those before the text that was read."""
    problem, context = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if isinstance(error, IsADirectoryError):
        return ": it is a folder: name its files"
    if isinstance(error, OSError):
        return f": {error.strerror or error}"
    if problem is None:
        return f": {' '.join(str(error).split())}"
    begun = (
        "" if context is None else f", {getattr(error, 'context', '')} that begins in line {lines + context.line + 1}"
    )
    found = " ".join(str(getattr(error, "problem", "")).split())
    hint = ": indent with spaces" if r"'\t'" in found else ""
    return f":{lines + problem.line + 1}: {found}{begun}{hint}"


def _text(path: Path) -> str:
    """The text of a file. Raises ValueError for no UTF-8, and for over BYTES_MAX, also of a pipe without an end."""
    if path == STANDARD_INPUT:
        if sys.stdin not in _PIPED:
            _PIPED[sys.stdin] = sys.stdin.buffer.read(BYTES_MAX + 1)
        content = _PIPED[sys.stdin]
    else:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError(f"it has more than {BYTES_MAX // 2**20} MiB: give its objects in several files")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start}: {error.reason}: UTF-8 text is accepted") from None


def as_yaml(manifests: Iterable[dict[str, Any]]) -> str:
    """
    Documents in one stream, with fields in their own order and without aliases.

    They may go to a terminal: a text with characters that turn or hide what follows is quoted, and these are escaped.
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _: Any) -> bool:
            return True

    def represent(dumper: Dumper, text: str) -> yaml.Node:
        line = text.replace("\n", "")
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if printable(line) == line else '"')

    Dumper.add_representer(str, represent)
    out = yaml.dump_all(manifests, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    # Within double quotes JSON's escapes are YAML's; what is beyond U+FFFF, PyYAML has escaped there.
    return "\n".join(printable(line) for line in out.split("\n"))
