"""
Reads kubeconfig files, with limits on what a file may cost, and merges them as kubectl does.

`kubernetes.config` reads them without limits: a kilobyte of nested aliases expands to more text than a machine holds.
It gets the merged files from here, and finds the credentials in them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import Configuration
from kubernetes.config import kube_config

from cronhpa.kube.yaml_loader import Loader

# Room for two thousand clusters with their certificates: an entry of each kind takes about 8 KiB and 30 values.
_BYTES_MAX = 16 * 2**20
_VALUES_MAX = 200_000
_SECTIONS = ("clusters", "contexts", "users")


class KubeconfigError(Exception):
    """A kubeconfig cannot be read; the text says which file, and why."""


def default_location() -> str:
    """$KUBECONFIG, a list of files, else ~/.kube/config."""
    return str(kube_config.KUBE_CONFIG_DEFAULT_LOCATION)


def files_of(location: str) -> list[Path]:
    """The files of a location, whether they exist or not."""
    return [Path(part).expanduser() for part in location.split(os.pathsep) if part]


def read_kubeconfig(location: str) -> kube_config.ConfigNode:
    """
    The files of a location that exist, merged: the first current-context counts, and the first entry of each name.

    Raises KubeconfigError, also where no file exists.
    """
    bodies = [(str(file), _read(file)) for file in files_of(location) if file.exists()]
    if not bodies:
        raise KubeconfigError(f"{location}: there is no such file")
    sections: dict[str, dict[str, kube_config.ConfigNode]] = {section: {} for section in _SECTIONS}
    for path, body in bodies:
        for section, named in sections.items():
            for name, entry in _named(path, body, section).items():
                # Relative paths of certificates start at the file that names them.
                named.setdefault(name, kube_config.ConfigNode(f"{path}/{section}/{name}", entry, path))  # type: ignore[no-untyped-call]  # kubernetes is untyped here
    current = next((body["current-context"] for _, body in bodies if body.get("current-context")), "")
    merged = {"current-context": current, **{section: [*named.values()] for section, named in sections.items()}}
    return kube_config.ConfigNode(location, merged, bodies[0][0])  # type: ignore[no-untyped-call]


def configure(configuration: Configuration, merged: kube_config.ConfigNode, context: str | None) -> None:
    """Sets address and credentials of a context, None for the current one. Raises whatever the package raises."""
    loader = kube_config.KubeConfigLoader(merged, active_context=context, config_base_path=None)  # type: ignore[no-untyped-call]
    loader.load_and_set(configuration)  # type: ignore[no-untyped-call]


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_BYTES_MAX + 1)
    except OSError as error:
        raise KubeconfigError(f"{file}: {error.strerror or error}") from error
    if len(content) > _BYTES_MAX:
        raise KubeconfigError(f"{file}: it has more than {_BYTES_MAX // 2**20} MiB, as no kubeconfig has")
    try:
        loader = Loader(content.decode(), _VALUES_MAX)
        try:
            body = loader.get_single_data()
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError, AttributeError, LookupError, TypeError) as error:
        # PyYAML raises the last four for texts such as `!!int x`. Its own message quotes the line, with a token in it.
        mark = getattr(error, "problem_mark", None)
        at = "" if mark is None else f":{mark.line + 1}"
        problem = getattr(error, "problem", None) or type(error).__name__
        raise KubeconfigError(f"{file}{at}: {problem}: a kubeconfig is one YAML document") from None
    if not isinstance(body, dict):
        found = "nothing" if body is None else f"a {type(body).__name__}"
        raise KubeconfigError(f"{file}: it holds {found}: a kubeconfig is a mapping with {', '.join(_SECTIONS)}")
    return body


def _named(path: str, body: dict[str, Any], section: str) -> dict[str, Any]:
    """The entries of a section by name; of two in one file the first counts."""
    entries = body.get(section) or []
    named: dict[str, Any] = {}
    for entry in entries if isinstance(entries, list) else [entries]:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str | int | float):
            raise KubeconfigError(f"{path}: {section}: each entry is a mapping with a name")
        named.setdefault(str(entry["name"]), {**entry, "name": str(entry["name"])})
    return named
