"""deploy/oci.py: the same bytes for the same files, and blobs that are named by what they hold."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from io import BytesIO

import oci
import pytest

USER = 65532


def tree(root, *, mode, at):
    """A few files as somebody with another umask, at another time, has them."""
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "python3.11").write_text("program")
    (root / "usr" / "bin" / "python3.11").chmod(0o700 | mode)
    (root / "usr" / "bin" / "python3").symlink_to("python3.11")
    (root / "var" / "lib" / "cronhpa").mkdir(parents=True)
    (root / "tmp").mkdir()
    for path in root.rglob("*"):
        os.utime(path, (at, at), follow_symlinks=False)
    return root


def test_a_layer_is_the_same_bytes_whoever_packs_it_and_when(tmp_path):
    first = oci.layer(tree(tmp_path / "a", mode=0o055, at=1), made_at=1_790_000_000)
    second = oci.layer(tree(tmp_path / "b", mode=0o000, at=2), made_at=1_790_000_000)

    assert first == second


def test_a_layer_is_owned_by_root_but_for_what_has_another_owner(tmp_path):
    content, _ = oci.layer(tree(tmp_path, mode=0o055, at=1), made_at=7, owners={"var/lib/cronhpa": USER})
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        members = {tar_member.name: tar_member for tar_member in archive}

    assert {"var/lib/cronhpa": USER} == {name: member.uid for name, member in members.items() if member.uid}
    assert (0o755, 0o1777) == (members["usr/bin/python3.11"].mode, members["tmp"].mode)
    assert {7} == {member.mtime for member in members.values()}


def test_the_layouts_blobs_are_named_by_what_they_hold(tmp_path):
    layout = oci.Layout(tmp_path / "layout")
    labels = {"org.opencontainers.image.created": "2026-11-22T00:00:00Z"}
    layer = oci.layer(tree(tmp_path / "root", mode=0, at=1), made_at=7)
    layout.finish([layout.add_image([layer], name, {"User": "1"}, labels) for name in ("amd64", "arm64")], "0.1.0")

    blobs = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (layout.folder / "blobs" / "sha256").iterdir()
    }
    assert blobs == {name: name for name in blobs}
    (entry,) = json.loads((layout.folder / "index.json").read_text())["manifests"]
    index = json.loads((layout.folder / "blobs" / "sha256" / entry["digest"].partition(":")[2]).read_text())
    assert ["amd64", "arm64"] == [manifest["platform"]["architecture"] for manifest in index["manifests"]]


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
    assert full == oci.full_name(short)
