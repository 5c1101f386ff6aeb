"""The image of deploy/image.py, built, unpacked and entered: its programs run in its own files, without an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

_SCRIPT = Path(__file__).parents[2] / "deploy" / "image.py"


def built(folder: Path, *options: str) -> tuple[str, dict[str, int]]:
    """The layout's index, and MB unpacked by architecture."""
    ended = subprocess.run(
        [sys.executable, _SCRIPT, *options, "--output", folder],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = [line.split() for line in ended.stdout.splitlines() if line.startswith("linux/")]
    return (folder / "index.json").read_text(), {word[0].strip(":"): int(word[1]) for word in words}


def unpacked(layout: Path, root: Path) -> Path:
    """The files of the layout's first image, its layers one upon the other."""

    def blob(digest: str) -> bytes:
        return (layout / "blobs" / "sha256" / digest.partition(":")[2]).read_bytes()

    index = json.loads(blob(json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]))
    for layer in json.loads(blob(index["manifests"][0]["digest"]))["layers"]:
        with tarfile.open(fileobj=BytesIO(blob(layer["digest"]))) as archive:
            archive.extractall(root, filter="tar")
    return root


def inside(root: Path, *command: str) -> list[str | Path]:
    """A command in the image's own files, with this machine's /dev and /proc, as its user if root runs it."""
    user = [f"--userspec={(root / 'var/lib/cronhpa').stat().st_uid}"] if os.getuid() == 0 else []
    entering = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
    mounting = 'for each in dev proc; do mkdir -p "$0/$each"; mount --rbind "/$each" "$0/$each"; done; exec "$@"'
    return [*entering, "sh", "-c", mounting, root, "chroot", *user, root, *command]


def environment(**stated: str) -> dict[str, str]:
    """Nothing of this machine's own environment, as in a pod."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONDONTWRITEBYTECODE": "1", **stated}
