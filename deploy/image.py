"""
The image, built without a container engine: an OCI layout for linux/amd64 and linux/arm64, the same bytes each time.

Two layers. The base is unpacked from Debian packages that deploy/base.lock names by hash: the C library, Python and
what its modules link to, certificates; no shell, no package manager. Above it is what deploy/image.lock names by hash
(for the slim image: deploy/image-slim.lock), and our own wheel.

It needs apt-get, to fetch packages of both architectures, and uv. `--help` says the rest.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEPLOY = Path(__file__).parent.resolve()
PROJECT = DEPLOY.parent
BASE_LOCK = DEPLOY / "base.lock"
# Debian's name of an architecture, and that of the wheels. glibc 2.36 runs what is built for 2.28 and before.
ARCHITECTURES = {"amd64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
PACKAGES = (
    "ca-certificates", "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "liblzma5",
    "libpython3.11-minimal", "libpython3.11-stdlib", "libsqlite3-0", "libssl3", "libstdc++6", "libuuid1", "media-types",
    "python3.11-minimal", "zlib1g",
)  # fmt: skip
USER = 65532
_LIBRARY = "usr/local/lib/python3.11/dist-packages"
_PROGRAM = "#!/usr/bin/python3.11 -P\nimport sys\n\nfrom cronhpa.cli import main\n\nsys.exit(main())\n"
# Documentation, test suites, sources, and the second copy of the Kubernetes client: no setting reaches them.
_LEFT_OUT = re.compile(
    r"^(usr/share/(doc|man|lintian|locale|info|gcc|gdb|bug)|usr/lib/python3\.11/(test|idlelib|tkinter|lib2to3)"
    rf"|var|{_LIBRARY}/(bin|kubernetes/aio))(/|$)|^{_LIBRARY}/.*(/tests?/|\.(pyx|pxd|c|h|hpp|f90)$)"
    rf"|^{_LIBRARY}/statsmodels/datasets/.*\.csv$"
)


# --- the base ----------------------------------------------------------------------------------------------------


def locked() -> list[tuple[str, str, str, str]]:
    """Package, version, architecture and SHA-256 of each line of deploy/base.lock."""
    lines = BASE_LOCK.read_text("utf-8").splitlines()
    rows = [tuple(line.split()) for line in lines if line and not line.startswith("#")]
    for row in rows:
        if len(row) != 4 or not re.fullmatch(r"[0-9a-f]{64}", row[3]):
            raise SystemExit(f"{BASE_LOCK}: found {' '.join(row)!r}; a line is: package version architecture sha256")
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def lock_base() -> None:
    """Write deploy/base.lock with what Debian 12 has today."""
    lines = ["# Written by `make lock`: package, version, architecture, SHA-256 of what the base is unpacked from."]
    for architecture in ARCHITECTURES:
        with tempfile.TemporaryDirectory() as folder:
            apt = _apt(Path(folder), architecture)
            for package in PACKAGES:
                file = _download(apt, Path(folder), package)
                _, version, built_for = file.stem.split("_")
                digest = hashlib.sha256(file.read_bytes()).hexdigest()
                lines.append(f"{package} {version.replace('%3a', ':')} {architecture} {digest}")
                if built_for not in {architecture, "all"}:
                    raise SystemExit(f"{file.name} is not for {architecture}")
    BASE_LOCK.write_text("\n".join(lines) + "\n", "utf-8")


def _apt(folder: Path, architecture: str) -> list[str]:
    """apt-get with a state of its own, which knows nothing of what is installed on this machine."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "state" / "status").touch()
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "state" / "status",
        "Dir::Cache": folder / "cache",
    }
    apt = ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    _run([*apt, "update"])
    return apt


def _download(apt: list[str], folder: Path, package: str) -> Path:
    before = set(folder.glob("*.deb"))
    _run([*apt, "download", package], cwd=folder)
    (found,) = set(folder.glob("*.deb")) - before
    return found


def unpack_base(root: Path, architecture: str, cache: Path) -> None:
    """The files of the locked packages, users, and the certificates as one file. Ends the program at a wrong hash."""
    cache.mkdir(parents=True, exist_ok=True)
    wanted = [row for row in locked() if row[2] == architecture]
    missing = [row for row in wanted if not (cache / f"{row[3]}.deb").exists()]
    if missing:
        with tempfile.TemporaryDirectory() as folder:
            apt = _apt(Path(folder), architecture)
            for package, version, _, digest in missing:
                file = _download(apt, Path(folder), f"{package}={version}")
                if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
                    raise SystemExit(
                        f"{package} {version} for {architecture}: its SHA-256 is not {digest}, as {BASE_LOCK.name} says"
                    )
                shutil.copy(file, cache / f"{digest}.partial")
                (cache / f"{digest}.partial").replace(cache / f"{digest}.deb")
    # Debian's folders of old names are links since /usr was merged.
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package, _, _, digest in wanted:
        if hashlib.sha256((cache / f"{digest}.deb").read_bytes()).hexdigest() != digest:
            raise SystemExit(f"{cache}/{digest}.deb is not {package} any more: remove it, and try again")
        unpacking = ["tar", "-x", "--keep-directory-symlink", "-C", root]
        _run(["dpkg-deb", "--fsys-tarfile", cache / f"{digest}.deb"], into=unpacking)
    (root / "usr/bin/python3").symlink_to("python3.11")
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    _write(root, "etc/ssl/certs/ca-certificates.crt", "".join(each.read_text("utf-8") for each in certificates))
    _write(root, "etc/passwd", f"root:x:0:0:root:/:/nonexistent\ncronhpa:x:{USER}:{USER}::/:/nonexistent\n")
    _write(root, "etc/group", f"root:x:0:\ncronhpa:x:{USER}:\n")
    _write(root, "etc/nsswitch.conf", "hosts: files dns\n")
    for name in ("tmp", "var/lib/cronhpa"):
        (root / name).mkdir(parents=True, exist_ok=True)


def _write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, "utf-8")


# --- what is ours ------------------------------------------------------------------------------------------------


def install(root: Path, lock: Path, wheel: Path, architecture: str) -> None:
    """What the lock names by hash, and our wheel without what it asks for, compiled."""
    library = root / _LIBRARY
    uv = [_uv(), "pip", "install", "--quiet", "--no-deps", "--target", library, "--link-mode", "copy"]
    wheels = ["--python-platform", ARCHITECTURES[architecture], "--python-version", "3.11", "--only-binary", ":all:"]
    _run([*uv, *wheels, "--require-hashes", "--requirement", lock])
    _run([*uv, *wheels, "--offline", "--no-index", wheel])
    for pattern in ("*.dist-info/direct_url.json", "*.dist-info/uv_cache.json", "*.dist-info/REQUESTED", ".lock"):
        for each in library.glob(pattern):
            each.unlink()
    shutil.rmtree(library / "bin", ignore_errors=True)
    # The list of files names those that were taken away, one of them with the time of the installation.
    for record in library.glob("*.dist-info/RECORD"):
        lines = record.read_text("utf-8").splitlines(keepends=True)
        record.write_text("".join(line for line in lines if (library / line.partition(",")[0]).exists()), "utf-8")
    # No time in a compiled file: the same sources give the same bytes.
    compiling = [
        sys.executable,
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        root,
        "-p",
        "/",
    ]
    _run([*compiling, library], env={"PYTHONHASHSEED": "0"}, check=False)
    _write(root, "usr/local/bin/cronhpa", _PROGRAM)
    (root / "usr/local/bin/cronhpa").chmod(0o755)


def _uv() -> Path:
    return Path(sys.executable).parent / "uv"


# --- the layout --------------------------------------------------------------------------------------------------


def layer(root: Path, made_at: int) -> tuple[bytes, str]:
    """The files below `root` as a compressed layer, and the digest of the uncompressed one."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            if not _LEFT_OUT.search(name) or name in {"var", "var/lib", "var/lib/cronhpa"}:
                archive.addfile(*_member(archive, path, name, made_at))
    written = plain.getvalue()
    compressed = io.BytesIO()
    with gzip.GzipFile(fileobj=compressed, mode="wb", mtime=0, compresslevel=6) as stream:
        stream.write(written)
    return compressed.getvalue(), hashlib.sha256(written).hexdigest()


def _member(archive: tarfile.TarFile, path: Path, name: str, made_at: int) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    info = archive.gettarinfo(path, name)
    is_ours = name == "var/lib/cronhpa"
    info.uid = info.gid = USER if is_ours else 0
    info.uname = info.gname = ""
    info.mtime = made_at
    # Of links the umask of whoever builds must not be told; a second name of a file is a file of its own.
    if info.islnk():
        info.type, info.size = tarfile.REGTYPE, path.stat().st_size
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
        """The descriptor of a blob that is kept from now on."""
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, content: object, media_type: str) -> dict[str, Any]:
        return self.add(json.dumps(content, separators=(",", ":"), sort_keys=True).encode(), media_type)

    def finish(self, manifests: list[dict[str, Any]], tag: str) -> str:
        """Write the index, one entry that names all architectures. Returns its digest."""
        kind = "application/vnd.oci.image.index.v1+json"
        index = self.add_json({"schemaVersion": 2, "mediaType": kind, "manifests": manifests}, kind)
        # containerd, and so kind and the kubelet, look a short name up with its registry.
        index["annotations"] = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": full_name(tag)}
        (self.folder / "index.json").write_text(
            json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [index]}, sort_keys=True)
        )
        return str(index["digest"])


def image(layout: Layout, layers: list[tuple[bytes, str]], architecture: str, labels: dict[str, str]) -> dict[str, Any]:
    """The descriptor of one architecture's image."""
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": labels["org.opencontainers.image.created"],
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [
                "PATH=/usr/local/bin:/usr/bin",
                "PYTHONUNBUFFERED=1",
                "PYTHONDONTWRITEBYTECODE=1",
                "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
            ],
            "Entrypoint": ["cronhpa"],
            "Cmd": ["run"],
            "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}},
            "Volumes": {"/var/lib/cronhpa": {}},
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for _, digest in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": layout.add_json(config, "application/vnd.oci.image.config.v1+json"),
        "layers": [layout.add(content, "application/vnd.oci.image.layer.v1.tar+gzip") for content, _ in layers],
        "annotations": labels,
    }
    described = layout.add_json(manifest, manifest["mediaType"])
    return described | {"platform": {"architecture": architecture, "os": "linux"}}


def _archive(layout: Path, file: Path) -> None:
    """The layout in one file, as `docker load` and `kind load image-archive` take it."""
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(layout.rglob("*")):
            info = archive.gettarinfo(path, str(path.relative_to(layout)))
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            archive.addfile(info, io.BytesIO(path.read_bytes()) if info.isreg() else None)


# --- the command -------------------------------------------------------------------------------------------------


def build(output: Path, *, architectures: list[str], is_slim: bool, tag: str, cache: Path) -> Iterator[str]:
    """Build and write the layout; lines of progress, the last with the digest."""
    commit, made_at = _commit()
    lock = DEPLOY / ("image-slim.lock" if is_slim else "image.lock")
    created = subprocess.check_output(["date", "-u", "-d", f"@{made_at}", "+%Y-%m-%dT%H:%M:%SZ"], text=True).strip()
    layout = Layout(output)
    manifests = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        stated = {"SOURCE_DATE_EPOCH": str(made_at), "CRONHPA_COMMIT": commit}
        _run([_uv().parent / "hatchling", "build", "--target", "wheel", "--directory", work], cwd=PROJECT, env=stated)
        (wheel,) = work.glob("*.whl")
        labels = {
            "org.opencontainers.image.created": created,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.revision": commit,
            "org.opencontainers.image.source": "https://github.com/cronhpa/cronhpa",
            "org.opencontainers.image.title": "cronhpa",
            "org.opencontainers.image.version": wheel.name.split("-")[1],
        }
        for architecture in architectures:
            base, ours = work / architecture / "base", work / architecture / "ours"
            unpack_base(base, architecture, cache)
            install(ours, lock, wheel, architecture)
            layers = [layer(base, made_at), layer(ours, made_at)]
            manifests.append(image(layout, layers, architecture, labels))
            unpacked = sum(_size(root) for root in (base, ours))
            packed = sum(len(content) for content, _ in layers)
            yield f"linux/{architecture}: {unpacked / 1e6:.0f} MB unpacked, {packed / 1e6:.0f} MB to pull"
    digest = layout.finish(manifests, tag)
    archive = output.with_name(f"{output.name}.tar")
    _archive(output, archive)
    yield f"{output} and {archive}: {digest}"


def _size(root: Path) -> int:
    return sum(
        path.stat().st_size
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and not _LEFT_OUT.search(str(path.relative_to(root)))
    )


def _commit() -> tuple[str, int]:
    """The commit, and its time; no commit where files are in none."""
    text = subprocess.check_output(["git", "log", "-1", "--format=%H %ct"], cwd=PROJECT, text=True).split()
    is_clean = not subprocess.check_output(["git", "status", "--porcelain"], cwd=PROJECT, text=True)
    return text[0] if is_clean else "", int(text[1])


def _run(
    command: list[Any],
    *,
    into: list[Any] | None = None,
    check: bool = True,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> None:
    """A command, its output into another one where `into` names one. Ends the program with the command's own words."""
    words = [str(part) for part in command]
    environment = os.environ | (env or {})
    if into is None:
        done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    else:
        with subprocess.Popen(words, stdout=subprocess.PIPE) as source:
            words = [str(part) for part in into]
            done = subprocess.run(words, stdin=source.stdout, capture_output=True, text=True, check=False)
        if source.returncode:
            raise SystemExit(f"{command[0]} ended with {source.returncode}")
    if check and done.returncode:
        raise SystemExit(f"{' '.join(words[:3])} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the image as an OCI layout, without a container engine.")
    default = PROJECT / "build" / "image"
    parser.add_argument("--output", type=Path, default=default, help="folder of the layout; OUTPUT.tar has the same")
    parser.add_argument("--platform", default=",".join(ARCHITECTURES), help="amd64, arm64 or both (default)")
    parser.add_argument("--slim", action="store_true", help="without forecasts: no numpy, pandas, statsmodels")
    parser.add_argument("--tag", default="latest", help="name of the image in the layout's index")
    parser.add_argument("--cache", type=Path, default=PROJECT / "build" / "debian", help="folder of fetched packages")
    parser.add_argument("--lock-base", action="store_true", help="write deploy/base.lock anew, and build nothing")
    asked = parser.parse_args()
    if sys.version_info[:2] != (3, 11):
        parser.error("Python 3.11 is needed, as in the image: what it compiles is what the image runs")
    unknown = set(asked.platform.split(",")) - ARCHITECTURES.keys()
    if unknown:
        parser.error(f"--platform: found {', '.join(sorted(unknown))}; accepted are {', '.join(ARCHITECTURES)}")
    if asked.lock_base:
        lock_base()
        return
    for line in build(
        asked.output, architectures=asked.platform.split(","), is_slim=asked.slim, tag=asked.tag, cache=asked.cache
    ):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
