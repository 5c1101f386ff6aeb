"""
Writes the commit into a wheel, and into a source distribution for the wheels that are built of it.

An editable installation gets none: its files are those of the checkout, which says itself where it is.
"""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# A source distribution has both. A checkout has neither, unless somebody put one there.
_OF_SDIST = ("COMMIT", "PKG-INFO")
_STATED = "CRONHPA_COMMIT"


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's parameter is its own configuration
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        written = Path(self._folder.name) / "commit"
        written.write_text(commit_of_build(Path(self.root)) + "\n", "ascii")
        place = "cronhpa/_commit" if self.target_name == "wheel" else "COMMIT"
        build_data["force_include"][str(written)] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version != "editable":
            self._folder.cleanup()


def commit_of_build(root: Path) -> str:
    """
    The commit of a source distribution or a checkout, else the one that CRONHPA_COMMIT states: an image is built of
    files without their repository.

    Raises ValueError where it is stated and is none, or is not the checkout's.
    """
    version = _module(root)
    if all((root / name).is_file() for name in _OF_SDIST):
        return (root / "COMMIT").read_text("ascii").strip()
    found: str = version.commit_of(root)
    stated = os.environ.get(_STATED, "")
    if not stated:
        return found
    if not re.fullmatch("[0-9a-f]{40}", stated):
        raise ValueError(f"{_STATED}={stated}: 40 hex digits are accepted, those of `git rev-parse HEAD`")
    if found not in {version.UNKNOWN, stated}:
        raise ValueError(f"{_STATED}={stated}: this checkout is at {found}")
    return stated


def _module(root: Path) -> Any:
    """cronhpa.cli.commands.version by its path: a build has none of what the package imports."""
    path = root / "cronhpa" / "cli" / "commands" / "version.py"
    spec = importlib.util.spec_from_file_location("cronhpa_version", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
