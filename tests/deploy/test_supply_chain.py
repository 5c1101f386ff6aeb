"""What is installed is what the locks name, with hashes: in .venv, in the image, for its build."""

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
SHIPPED = ("bootstrap.lock", "deploy/image.lock", "deploy/image-slim.lock", "deploy/plugin.lock")
LOCKS = ("requirements.lock", "deploy/tools.lock", *SHIPPED)
PINNED = re.compile(r"(?P<name>[a-z0-9._-]+)==(?P<version>[^ ;\\]+)( ; (?P<marker>[^\\]+?))? ?\\?$")
# The image runs on this: markers are evaluated as there.
IMAGE = {"sys_platform": "linux", "python_full_version": "3.11.9", "python_version": "3.11", "extra": "forecast"}


def entries(lock):
    """(name, version) to the hashes of each entry. Raises AssertionError for a line that pins nothing."""
    versions, hashes = {}, set()
    for line in (PROJECT / lock).read_text().splitlines():
        text = line.strip().removesuffix("\\").strip()
        if text.startswith("--hash=sha256:"):
            hashes.add(text)
        elif text and not text.startswith("#"):
            match = PINNED.match(line)
            assert match, f"{lock}: {line!r} pins nothing"
            hashes = versions[match["name"], match["version"]] = set()
    return versions


def closure(name, extras):
    """What a distribution that is installed here needs on the image, all the way down."""
    names, waiting = set(), [(name, extras)]
    while waiting:
        name, extras = waiting.pop()
        for text in requires(name) or ():
            wanted = Requirement(text)
            is_meant = wanted.marker is None or any(
                wanted.marker.evaluate(IMAGE | {"extra": extra}) for extra in ("", *extras)
            )
            if is_meant and canonicalize_name(wanted.name) not in names:
                names.add(canonicalize_name(wanted.name))
                waiting.append((wanted.name, wanted.extras))
    return names


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_of_a_lock_has_a_version_and_hashes(lock):
    locked = entries(lock)

    assert locked
    assert [] == [name for name, hashes in locked.items() if not hashes]


@pytest.mark.parametrize("lock", SHIPPED)
def test_what_is_shipped_is_what_is_tested(lock):
    """The same versions with the same hashes as in the lock of .venv; uv itself is in the bootstrap alone."""
    tested = entries("requirements.lock")
    shipped = {key: hashes for key, hashes in entries(lock).items() if key[0] != "uv"}

    assert shipped == {key: tested.get(key) for key in shipped}


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("deploy/image.lock", ("forecast", "postgresql", "tracing")),
        ("deploy/image-slim.lock", ("postgresql",)),
        ("deploy/plugin.lock", ()),
    ],
)
def test_what_is_shipped_holds_what_its_settings_need_and_nothing_else(lock, extras):
    locked = {name for name, _ in entries(lock)}
    # Of another platform, or of an older Python: named, not installed.
    foreign = {"colorama"}

    assert closure("cronhpa", extras) == locked - foreign


def test_the_bootstrap_holds_uv_of_the_makefile_and_the_build_backend():
    pinned = re.search(r"^UV_VERSION := (.+)$", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE)[1]
    locked = entries("bootstrap.lock")

    assert ("uv", pinned) in locked
    assert {"hatchling", "editables", *closure("hatchling", ())} <= {name for name, _ in locked}
