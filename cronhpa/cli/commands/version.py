"""
The text of `cronhpa --version`: the release, the commit that it was built from, the version of the CRD.

The commit is written into a wheel when the wheel is built (`hatch_build.py` runs `commit_of` of this file). In a
checkout git is asked each time, because the files change under an editable installation. Anything else has no commit:
it is "unknown", and never the commit of a repository in which the package happens to lie.

Only the standard library is imported here: a build has nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

UNKNOWN = "unknown"
_PACKAGE = Path(__file__).resolve().parents[2]
COMMIT_FILE = "_commit"
_CHANGED = " with uncommitted changes"
# Files outside of these are in no wheel: a changed README makes no difference to the program.
_SHIPPED = ("cronhpa", "models", "crds", "pyproject.toml")
_SECONDS = 10


def version_text() -> str:
    """Two lines: release, commit and Python; the CRD."""
    from cronhpa.api.identity import GROUP, PLURAL, VERSION

    python = ".".join(str(part) for part in sys.version_info[:3])
    return (
        f"cronhpa {release_of(_PACKAGE)}, commit {recorded_commit(_PACKAGE)}, Python {python}\n"
        f"CustomResourceDefinition {PLURAL}.{GROUP}, version {VERSION}"
    )


def release_of(package: Path) -> str:
    """The version that the package's own checkout or its own distribution states; UNKNOWN without either."""
    root = package.parent
    if is_checkout(root):
        with (root / "pyproject.toml").open("rb") as file:
            return str(tomllib.load(file)["project"]["version"])
    # Another installation of the same name may come first on the path.
    for distribution in metadata.distributions(name=package.name):
        if Path(str(distribution.locate_file(package.name))).resolve() == package:
            return distribution.version
    return UNKNOWN


def recorded_commit(package: Path = _PACKAGE) -> str:
    """The commit of an installed or checked out package, with a note where the checkout has changes."""
    written = package / COMMIT_FILE
    if written.is_file():
        return written.read_text("ascii").strip()
    return commit_of(package.parent)


def commit_of(root: Path) -> str:
    """The commit that a checkout is at, 40 hex digits, with a note where it has changes; UNKNOWN for anything else."""
    if not is_checkout(root):
        return UNKNOWN
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    changes = _git(root, "status", "--porcelain", "--", *_SHIPPED)
    if not commit or changes is None:
        return UNKNOWN
    return commit + (_CHANGED if changes else "")


def is_checkout(root: Path) -> bool:
    """Whether this folder is the top of a work tree of cronhpa, and not a folder within somebody else's."""
    if not (root / "pyproject.toml").is_file() or not (root / ".git").exists():
        return False
    top = _git(root, "rev-parse", "--show-toplevel")
    return bool(top) and Path(str(top)).resolve() == root.resolve()


def _git(root: Path, *arguments: str) -> str | None:
    """The output of git; None if git is missing or fails. A hook's GIT_DIR would name another repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - git of the PATH, with arguments of this file
            ["git", "-C", str(root), *arguments],  # noqa: S607 - as above
            env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
