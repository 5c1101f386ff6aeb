"""The YAML and JSON documents that commands read and print."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class UnreadableFileError(Exception):
    """Which file cannot be read, and why."""


def read_documents(path: Path) -> Iterator[Any]:
    """
    The documents of a file; `-` is the standard input.

    Raises UnreadableFileError where there is no such file, or it is no YAML.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Dates stay texts, as in JSON: the API knows no other."""

    Loader.yaml_implicit_resolvers = {
        first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
        for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        yield from yaml.load_all(text, Loader=Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise UnreadableFileError(f"{path}: {' '.join(str(error).split())}") from error


def as_yaml(manifests: Iterable[dict[str, Any]]) -> str:
    """Documents in one stream, fields in their own order, nothing by reference."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _: Any) -> bool:
            return True

    return yaml.dump_all(manifests, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
