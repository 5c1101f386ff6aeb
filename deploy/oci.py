"""
An OCI image layout, the same bytes each time: layers have no times, owners or umasks of the builder.

image.py decides the content of an image.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def layer(root: Path, made_at: int, owners: Mapping[str, int] | None = None) -> tuple[bytes, str]:
    """The files below `root` as a compressed layer, root's but `owners`', and the digest of the plain one."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            info, content = _member(archive, path, name)
            info.mtime = made_at
            info.uid = info.gid = (owners or {}).get(name, 0)
            archive.addfile(info, content)
    written = plain.getvalue()
    compressed = io.BytesIO()
    with gzip.GzipFile(fileobj=compressed, mode="wb", mtime=0, compresslevel=6) as stream:
        stream.write(written)
    return compressed.getvalue(), hashlib.sha256(written).hexdigest()


def _member(archive: tarfile.TarFile, path: Path, name: str) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    info = archive.gettarinfo(path, name)
    info.uname = info.gname = ""
    # A hard link becomes a file of its own.
    if info.islnk():
        info.type, info.size = tarfile.REGTYPE, path.stat().st_size
    # The mode of a link must not depend on the umask of the builder.
    runs = info.isdir() or info.mode & 0o100
    info.mode = 0o1777 if name == "tmp" else 0o777 if info.issym() else 0o755 if runs else 0o644
    return info, io.BytesIO(path.read_bytes()) if info.isreg() else None


def full_name(image: str) -> str:
    """An image's name with its registry: cronhpa:1 is docker.io/library/cronhpa:1."""
    first, _, rest = image.partition("/")
    if not rest:
        return f"docker.io/library/{image}"
    return image if re.search(r"[.:]", first) or first == "localhost" else f"docker.io/{image}"


class Layout:
    """An OCI image layout: blobs by their digest, and an index of the images."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        (folder / "blobs" / "sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def add(self, content: bytes, media_type: str) -> dict[str, Any]:
        """Adds a blob and returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, content: object, media_type: str) -> dict[str, Any]:
        return self.add(json.dumps(content, separators=(",", ":"), sort_keys=True).encode(), media_type)

    def add_image(
        self, layers: list[tuple[bytes, str]], architecture: str, running: Mapping[str, Any], labels: Mapping[str, str]
    ) -> dict[str, Any]:
        """The descriptor of one architecture's image; `running`: how a container engine runs it."""
        config = {
            "architecture": architecture,
            "os": "linux",
            "created": labels["org.opencontainers.image.created"],
            "config": {**running, "Labels": dict(labels)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for _, digest in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self.add_json(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [self.add(content, "application/vnd.oci.image.layer.v1.tar+gzip") for content, _ in layers],
            "annotations": dict(labels),
        }
        described = self.add_json(manifest, "application/vnd.oci.image.manifest.v1+json")
        return described | {"platform": {"architecture": architecture, "os": "linux"}}

    def add_artifact(self, content: bytes, media_type: str, config_type: str, title: str) -> None:
        """The layout of a single file that is no image, as ORAS pushes one. Nothing follows it."""
        kind = "application/vnd.oci.image.manifest.v1+json"
        annotations = {"org.opencontainers.image.title": title}
        manifest = {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": self.add(b"{}", config_type),
            "layers": [self.add(content, media_type) | {"annotations": annotations}],
        }
        self._write_index(self.add_json(manifest, kind))

    def finish(self, manifests: list[dict[str, Any]], tag: str) -> str:
        """Write the index, one entry that names all architectures. Returns its digest."""
        kind = "application/vnd.oci.image.index.v1+json"
        index = self.add_json({"schemaVersion": 2, "mediaType": kind, "manifests": manifests}, kind)
        # containerd, and so kind and the kubelet, expand a short name by its registry.
        index["annotations"] = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": full_name(tag)}
        self._write_index(index)
        return str(index["digest"])

    def _write_index(self, only: dict[str, Any]) -> None:
        kind = "application/vnd.oci.image.index.v1+json"
        written = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [only]}, sort_keys=True)
        (self.folder / "index.json").write_text(written)


def digest_of(layout: Path) -> str:
    """The digest by which a registry has what a layout holds."""
    (only,) = json.loads((layout / "index.json").read_text())["manifests"]
    return str(only["digest"])


def archive(layout: Path, file: Path) -> None:
    """The layout in one file, as `docker load` and `kind load image-archive` take it."""
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as written:
        for path in sorted(layout.rglob("*")):
            info = written.gettarinfo(path, str(path.relative_to(layout)))
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            written.addfile(info, io.BytesIO(path.read_bytes()) if info.isreg() else None)
