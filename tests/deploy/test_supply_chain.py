"""What is installed is what the locks name, with hashes: in .venv, in the image, for its build."""

import re
import subprocess
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
DOCKERFILE = (PROJECT / "deploy" / "Dockerfile").read_text()
LOCKS = ("requirements.lock", "bootstrap.lock", "deploy/image.lock", "deploy/tools.lock")
PINNED = re.compile(r"(?P<name>[a-z0-9._-]+)==(?P<version>[^ ;\\]+)( ; (?P<marker>[^\\]+?))? ?\\?$")
# The image runs on this: markers are evaluated as there.
IMAGE = {"sys_platform": "linux", "python_full_version": "3.11.9", "python_version": "3.11", "extra": "forecast"}


def entries(lock):
    """(name, version) to the hashes of each entry. Raises AssertionError for a line that pins nothing."""
    found, hashes = {}, set()
    for line in (PROJECT / lock).read_text().splitlines():
        text = line.strip().removesuffix("\\").strip()
        if text.startswith("--hash=sha256:"):
            hashes.add(text)
        elif text and not text.startswith("#"):
            match = PINNED.match(line)
            assert match, f"{lock}: {line!r} pins nothing"
            hashes = found[match["name"], match["version"]] = set()
    return found


def commands():
    """The commands of the Dockerfile, each on a line."""
    runs = re.findall(r"^RUN (.*)", DOCKERFILE.replace("\\\n", ""), flags=re.MULTILINE)
    return [" ".join(part.split()) for run in runs for part in run.split("&&")]


def closure(name, extras):
    """What a distribution that is installed here needs on the image, all the way down."""
    found, waiting = set(), [(name, extras)]
    while waiting:
        name, extras = waiting.pop()
        for text in requires(name) or ():
            wanted = Requirement(text)
            is_meant = wanted.marker is None or any(
                wanted.marker.evaluate(IMAGE | {"extra": extra}) for extra in ("", *extras)
            )
            if is_meant and canonicalize_name(wanted.name) not in found:
                found.add(canonicalize_name(wanted.name))
                waiting.append((wanted.name, wanted.extras))
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_of_a_lock_has_a_version_and_hashes(lock):
    found = entries(lock)

    assert found
    assert [] == [name for name, hashes in found.items() if not hashes]


@pytest.mark.parametrize("lock", ["bootstrap.lock", "deploy/image.lock"])
def test_what_is_shipped_is_what_is_tested(lock):
    """The same versions with the same hashes as in the lock of .venv; uv itself is in the bootstrap alone."""
    tested = entries("requirements.lock")
    shipped = {key: hashes for key, hashes in entries(lock).items() if key[0] != "uv"}

    assert shipped == {key: tested.get(key) for key in shipped}


def test_the_image_holds_what_the_operator_needs_and_nothing_else():
    locked = {name for name, _ in entries("deploy/image.lock")}
    # Of another platform: named, not installed.
    foreign = {"colorama"}

    assert closure("cronhpa", ("forecast", "postgresql", "tracing")) == locked - foreign


def test_the_bootstrap_holds_uv_of_the_makefile_and_the_build_backend():
    pinned = re.search(r"^UV_VERSION := (.+)$", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE)[1]
    found = entries("bootstrap.lock")

    assert ("uv", pinned) in found
    assert {"hatchling", "editables", *closure("hatchling", ())} <= {name for name, _ in found}


def test_every_installation_of_the_image_is_from_a_lock_by_hash_or_of_our_own_wheel():
    installing = [command for command in commands() if " install " in command and "pip" in command]

    assert 3 == len(installing)
    for command in installing:
        is_locked = "--require-hashes" in command and "--only-binary :all:" in command
        assert is_locked or "--offline --no-index --no-deps" in command, command


def test_the_image_is_built_upon_what_is_said():
    """Both stages, so that one digest is enough."""
    assert ["${BASE} AS build", "${BASE}"] == re.findall(r"^FROM (.*)", DOCKERFILE, flags=re.MULTILINE)
    assert "\nARG BASE=" in DOCKERFILE.partition("FROM")[0]


@pytest.mark.parametrize("base", ["", "python:3.11-slim", "python@sha256:abc", f"sha256:{'a' * 64}"])
def test_a_release_upon_no_digest_is_refused(base):
    done = subprocess.run(["make", "image", f"BASE={base}"], cwd=PROJECT, capture_output=True, text=True, check=False)

    assert 2 == done.returncode
    assert "names no digest" in done.stdout


def test_a_release_upon_a_digest_is_built_upon_it():
    """What make would run: there is no container engine here."""
    base = f"python:3.11-slim@sha256:{'a' * 64}"
    done = subprocess.run(
        ["make", "-n", "image", f"BASE={base}"], cwd=PROJECT, capture_output=True, text=True, check=True
    )

    assert f"--build-arg BASE='{base}'" in done.stdout
