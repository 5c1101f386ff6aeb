"""
The base of the image: Debian packages that deploy/base.lock names by hash, fetched and unpacked without apt and dpkg.

Owns the lock, the places of packages, and the other files of the base. Debian's archive keeps only the newest version
of a package; snapshot.debian.org keeps every version by its SHA-1. Fetched files are checked by SHA-256.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from pathlib import Path, PurePosixPath
from typing import NamedTuple

LOCK = Path(__file__).parent.resolve() / "base.lock"
ARCHITECTURES = ("amd64", "arm64")
# The C library, Python and what its modules link to, certificates. No shell, no package manager.
PACKAGES = (
    "ca-certificates", "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "liblzma5",
    "libpython3.11-minimal", "libpython3.11-stdlib", "libsqlite3-0", "libssl3", "libstdc++6", "libuuid1", "media-types",
    "python3.11-minimal", "zlib1g",
)  # fmt: skip
USER = 65532
ARCHIVE = "http://deb.debian.org"
SNAPSHOT = "https://snapshot.debian.org/file"
_HEAD = (
    "# Written by `make lock`: package, version, architecture, SHA-256, SHA-1 (its name at snapshot.debian.org), place."
)


class Package(NamedTuple):
    """A line of the lock."""

    name: str
    version: str
    architecture: str
    sha256: str
    sha1: str
    place: str  # below ARCHIVE, as in a URL

    def __str__(self) -> str:
        return f"{self.name} {self.version} for {self.architecture}"


def locked(lock: Path = LOCK) -> list[Package]:
    """The packages of the lock. Ends the program at a line that is not a package with its hashes."""
    packages = []
    for line in lock.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            words = line.split()
            if len(words) != len(Package._fields) or not re.fullmatch(
                r"[0-9a-f]{64} [0-9a-f]{40}", " ".join(words[3:5])
            ):
                raise SystemExit(f"{lock}: found {line!r}; a line is: package version architecture sha256 sha1 place")
            packages.append(Package(*words))
    return packages


def lock_base() -> None:
    """Write the lock with the present packages of Debian 12; only Debian's own apt-get checks the signatures."""
    lines = [_HEAD]
    for architecture in ARCHITECTURES:
        with tempfile.TemporaryDirectory() as folder:
            apt = _apt(Path(folder), architecture)
            for name in PACKAGES:
                place = _place(_run([*apt, "download", "--print-uris", name]))
                _run([*apt, "download", name], cwd=Path(folder))
                (file,) = Path(folder).glob(f"{name}_*.deb")
                _, version, built_for = file.stem.split("_")
                if built_for not in {architecture, "all"}:
                    raise SystemExit(f"{file.name} is not for {architecture}")
                content = file.read_bytes()
                sha1 = hashlib.sha1(content, usedforsecurity=False).hexdigest()
                sha256 = hashlib.sha256(content).hexdigest()
                lines.append(" ".join(Package(name, version.replace("%3a", ":"), architecture, sha256, sha1, place)))
    LOCK.write_text("\n".join(lines) + "\n", "utf-8")


def _place(uris: str) -> str:
    """The path of a package on every mirror, from the URI that `apt-get --print-uris` prints for the local mirror."""
    found = re.search(r"/(debian(?:-security)?/pool/[^']+)'", uris)
    if found is None:
        raise SystemExit(f"apt-get said {uris.strip()!r}; expected a URL below /debian/pool or /debian-security/pool")
    return found[1]


def _apt(folder: Path, architecture: str) -> list[str]:
    """apt-get with a state of its own, without the packages that are installed on this machine."""
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


def _run(command: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def fetch(package: Package, cache: Path, *, archive: str = ARCHIVE, snapshot: str = SNAPSHOT) -> Path:
    """The package's file in the cache, fetched if necessary. Ends the program if no mirror has it."""
    file = cache / f"{package.sha256}.deb"
    if file.exists():
        if hashlib.sha256(file.read_bytes()).hexdigest() != package.sha256:
            raise SystemExit(f"{file} is not {package} any more: remove it, and try again")
        return file
    cache.mkdir(parents=True, exist_ok=True)
    problems = []
    for url in (f"{archive}/{package.place}", f"{snapshot}/{package.sha1}"):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - of the two hosts above
                content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            problems.append(f"{url}: {error}")
            continue
        if hashlib.sha256(content).hexdigest() != package.sha256:
            problems.append(f"{url}: its SHA-256 is not {package.sha256}")
            continue
        partial = file.with_suffix(".partial")
        partial.write_bytes(content)
        partial.replace(file)
        return file
    raise SystemExit("\n".join([f"{package} is not to be had; put it into {file}", *problems]))


def unpack(root: Path, architecture: str, cache: Path) -> None:
    """The files of the locked packages, users, and the certificates as one file."""
    # Since Debian merged /usr, the old folders are links.
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in locked():
        if package.architecture == architecture:
            _unpack_one(root, fetch(package, cache))
    (root / "usr/bin/python3").symlink_to("python3.11")
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    write(root, "etc/ssl/certs/ca-certificates.crt", "".join(each.read_text("utf-8") for each in certificates))
    write(root, "etc/passwd", f"root:x:0:0:root:/:/nonexistent\ncronhpa:x:{USER}:{USER}::/:/nonexistent\n")
    write(root, "etc/group", f"root:x:0:\ncronhpa:x:{USER}:\n")
    write(root, "etc/nsswitch.conf", "hosts: files dns\n")
    (root / "tmp").mkdir(exist_ok=True)


def write(root: Path, name: str, text: str) -> None:
    """A file below `root`, and the folders above it."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, "utf-8")


def _unpack_one(root: Path, package: Path) -> None:
    """A .deb is an `ar` of three members (deb(5)); data.tar has the files."""
    with package.open("rb") as file:
        if file.read(8) != b"!<arch>\n":
            raise SystemExit(f"{package} is no Debian package")
        while head := file.read(60):
            name, size = head[:16].decode().strip(), int(head[48:58])
            content = file.read(size + size % 2)
            if name.startswith("data.tar"):
                with tarfile.open(fileobj=io.BytesIO(content[:size])) as archive:
                    for member in archive:
                        _unpack_member(root, archive, member)
                return
    raise SystemExit(f"{package} holds no data.tar")


def _unpack_member(root: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    target = root / PurePosixPath(member.name)
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        shutil.copy(root / PurePosixPath(member.linkname), target)
    elif content := archive.extractfile(member):
        target.write_bytes(content.read())
        target.chmod(member.mode & 0o777)
