"""deploy/image.py and deploy/release.py: the same bytes for the same files, and an image that runs."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


def script(name):
    spec = importlib.util.spec_from_file_location(name, PROJECT / "deploy" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


image, release = script("image"), script("release")


def tree(root, *, mode, at):
    """A few files as somebody with another umask, at another time, has them."""
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "python3.11").write_text("program")
    (root / "usr" / "bin" / "python3.11").chmod(0o700 | mode)
    (root / "usr" / "bin" / "python3").symlink_to("python3.11")
    (root / "usr" / "share" / "doc").mkdir(parents=True)
    (root / "usr" / "share" / "doc" / "readme").write_text("nobody reads it")
    (root / "var" / "lib" / "cronhpa").mkdir(parents=True)
    (root / "tmp").mkdir()
    for path in root.rglob("*"):
        os.utime(path, (at, at), follow_symlinks=False)
    return root


def test_a_layer_is_the_same_bytes_whoever_packs_it_and_when(tmp_path):
    first = image.layer(tree(tmp_path / "a", mode=0o055, at=1), made_at=1_790_000_000)
    second = image.layer(tree(tmp_path / "b", mode=0o000, at=2), made_at=1_790_000_000)

    assert first == second


def test_a_layer_has_no_owner_but_root_and_leaves_out_what_nobody_reads(tmp_path):
    content, _ = image.layer(tree(tmp_path, mode=0o055, at=1), made_at=7)
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        members = {each.name: each for each in archive}

    assert "usr/share/doc/readme" not in members
    assert {"var/lib/cronhpa": image.USER} == {name: each.uid for name, each in members.items() if each.uid}
    assert (0o755, 0o1777) == (members["usr/bin/python3.11"].mode, members["tmp"].mode)
    assert {7} == {each.mtime for each in members.values()}


def test_the_layouts_blobs_are_named_by_what_they_hold(tmp_path):
    layout = image.Layout(tmp_path / "layout")
    labels = {"org.opencontainers.image.created": "2026-11-22T00:00:00Z"}
    layer = image.layer(tree(tmp_path / "root", mode=0, at=1), made_at=7)
    layout.finish([image.image(layout, [layer], name, labels) for name in ("amd64", "arm64")], "0.1.0")

    blobs = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (layout.folder / "blobs" / "sha256").iterdir()
    }
    assert blobs == {name: name for name in blobs}
    (entry,) = json.loads((layout.folder / "index.json").read_text())["manifests"]
    index = json.loads((layout.folder / "blobs" / "sha256" / entry["digest"].partition(":")[2]).read_text())
    assert ["amd64", "arm64"] == [each["platform"]["architecture"] for each in index["manifests"]]


def test_the_base_is_locked_by_hash_for_both_architectures():
    rows = image.locked()

    assert {(package, each) for package in image.PACKAGES for each in image.ARCHITECTURES} == {
        (row[0], row[2]) for row in rows
    }


def test_a_line_of_the_bases_lock_without_a_hash_is_refused(tmp_path, monkeypatch):
    (tmp_path / "base.lock").write_text("libc6 2.36 amd64 abc\n")
    monkeypatch.setattr(image, "BASE_LOCK", tmp_path / "base.lock")

    with pytest.raises(SystemExit, match="package version architecture sha256"):
        image.locked()


def test_all_files_state_one_version():
    assert 1 == len(release.stated_versions())


def test_a_tag_of_another_version_is_refused():
    ended = subprocess.run(
        [sys.executable, PROJECT / "deploy" / "release.py", "check", "v9.9.9"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert 1 == ended.returncode
    assert re.match(r"the tag is v9\.9\.9, the files state \d", ended.stderr)


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("cronhpa:0.1.0", "docker.io/library/cronhpa:0.1.0"),
        ("team/cronhpa:1", "docker.io/team/cronhpa:1"),
        ("localhost/cronhpa:1", "localhost/cronhpa:1"),
        ("ghcr.io/cronhpa/cronhpa:1", "ghcr.io/cronhpa/cronhpa:1"),
    ],
)
def test_a_short_name_is_the_one_that_a_kubelet_looks_up(short, full):
    assert full == image.full_name(short)


@pytest.mark.long
@pytest.mark.skipif(
    "bookworm" not in Path("/etc/os-release").read_text(), reason="its base comes by apt-get of Debian 12"
)
def test_the_slim_image_is_built_twice_alike_and_its_program_runs(tmp_path):
    """Takes minutes, and the registries of Debian and of Python packages."""
    build = [sys.executable, PROJECT / "deploy" / "image.py", "--slim", "--platform", "amd64", "--output"]
    for name in ("first", "second"):
        subprocess.run([*build, tmp_path / name], check=True)

    first, second = ((tmp_path / name / "index.json").read_text() for name in ("first", "second"))
    assert first == second
    root = unpacked(tmp_path / "first", tmp_path / "root")
    entering = [] if os.getuid() == 0 else ["unshare", "--map-root-user"]
    told = subprocess.run(
        [*entering, "chroot", root, "/usr/local/bin/cronhpa", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.startswith("cronhpa ")


def unpacked(layout, root):
    """The files of the layout's first image, its layers one upon the other."""

    def blob(digest):
        return (layout / "blobs" / "sha256" / digest.partition(":")[2]).read_bytes()

    index = json.loads(blob(json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]))
    for each in json.loads(blob(index["manifests"][0]["digest"]))["layers"]:
        with tarfile.open(fileobj=BytesIO(blob(each["digest"]))) as archive:
            archive.extractall(root, filter="tar")
    return root
