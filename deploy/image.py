"""
The image, built without a container engine: an OCI layout for linux/amd64 and linux/arm64, the same bytes each time.

Two layers: the base (debian.py), and above it what deploy/image.lock names by hash (for the slim image:
deploy/image-slim.lock) with our own wheel. The base's own Python compiles both, so any Linux on amd64 or arm64 with a
Python of 3.11 or newer builds it. `--help` says the rest.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from debian import ARCHITECTURES, USER, lock_base, unpack, write
from oci import Layout, archive, layer

DEPLOY = Path(__file__).parent.resolve()
PROJECT = DEPLOY.parent
# The name of each architecture's wheels. The base has glibc 2.36, which runs wheels for 2.28 and older.
WHEELS = {"amd64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
# Extras that an image may contain; pyproject.toml describes them, requirements.lock has the hashes.
EXTRAS = ("dask", "parquet", "plot")
_LIBRARY = "usr/local/lib/python3.11/dist-packages"
_STDLIB = "usr/lib/python3.11"
_DATA = "var/lib/cronhpa"
# Workers are spawned, which imports the program anew: without its last condition each would be another operator.
PROGRAM = """#!/usr/bin/python3.11 -P
import sys

from cronhpa.cli import main

if __name__ == "__main__":
    sys.exit(main())
"""
# Files that no setting needs, with reasons. A test imports every module of cronhpa in the image, and runs the operator.
LEFT_OUT = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"usr/share/(doc|man|lintian|locale|info|bug)", "read by people, who have it elsewhere"),
        (r"usr/share/(gcc|gdb|binfmts)|usr/lib/binfmt\.d", "for a debugger, and a kernel's own settings"),
        (r"usr/share/ca-certificates|etc/ca-certificates.*|usr/sbin", "joined into one file; its script needs a shell"),
        (r"usr/lib/[^/]+/gconv", "the C library's iconv: Python has codecs of its own"),
        (r"usr/lib/[^/]+/(engines-3|ossl-modules)", "OpenSSL's hardware engines and retired algorithms"),
        (rf"{_STDLIB}/(test|idlelib|tkinter|lib2to3|pydoc_data|turtle\.py)", "Python's tests, editor, manual, turtle"),
        (r"var", "a package manager's"),
        (rf"{_LIBRARY}/bin", "commands of libraries"),
        (rf"{_LIBRARY}/.*/tests?", "tests of libraries"),
        (rf"{_LIBRARY}/.*\.(pyx|pxd|pyi|c|h|hpp|f90)", "sources of what is compiled, and types for a checker"),
        (rf"{_LIBRARY}/kubernetes/aio", "a second copy of the client, for asyncio: ours is aiohttp"),
        # kopf asks whether an object is one of the last three; nothing asks for the others, and each loads alone.
        (
            rf"{_LIBRARY}/kubernetes/client/(api|models)/(?!__init__|v1_(object_meta|owner_ref|managed_fields))\w+\.py",
            "the client's 900 typed requests and models: kube/ reads JSON",
        ),
        (rf"{_LIBRARY}/statsmodels/datasets/.*\.csv", "examples"),
    )
)


def prune(root: Path) -> None:
    """Remove the files that LEFT_OUT names."""
    for path in sorted(root.rglob("*"), reverse=True):
        name = str(path.relative_to(root))
        if any(re.fullmatch(rf"({pattern.pattern})(/.*)?", name) for pattern, _ in LEFT_OUT):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()


def install(root: Path, lock: Path, wheel: Path, architecture: str) -> None:
    """Install the packages of the lock, and our wheel without its dependencies; compiles nothing."""
    library = root / _LIBRARY
    uv = [_tool("uv"), "pip", "install", "--quiet", "--no-deps", "--target", library, "--link-mode", "copy"]
    wheels = ["--python-platform", WHEELS[architecture], "--python-version", "3.11", "--only-binary", ":all:"]
    _run([*uv, *wheels, "--require-hashes", "--requirement", lock])
    _run([*uv, *wheels, "--offline", "--no-index", wheel])
    for pattern in ("*.dist-info/direct_url.json", "*.dist-info/uv_cache.json", "*.dist-info/REQUESTED", ".lock"):
        for each in library.glob(pattern):
            each.unlink()
    prune(root)
    # A RECORD lists files that were removed, and one of them has the time of the installation.
    for record in library.glob("*.dist-info/RECORD"):
        lines = record.read_text("utf-8").splitlines(keepends=True)
        record.write_text("".join(line for line in lines if (library / line.partition(",")[0]).exists()), "utf-8")
    write(root, "usr/local/bin/cronhpa", PROGRAM)
    (root / "usr/local/bin/cronhpa").chmod(0o755)
    (root / _DATA).mkdir(parents=True)


def lock_with(extras: Sequence[str], folder: Path, *, is_slim: bool) -> Path:
    """The image's lock with some of EXTRAS. Ends the program if a hash is not in requirements.lock."""
    asked = [*(("postgresql",) if is_slim else ("forecast", "postgresql", "tracing")), *extras]
    lock, known = folder / "image.lock", PROJECT / "requirements.lock"
    resolving = ["--quiet", "--universal", "--generate-hashes", "--no-header", "--no-emit-index-url", "--no-annotate"]
    resolving += ["--python-version", "3.11", "--constraint", str(known), "--output-file", str(lock)]
    chosen = [part for extra in asked for part in ("--extra", extra)]
    _run([_tool("uv"), "pip", "compile", *resolving, *chosen, PROJECT / "pyproject.toml"])
    unknown = _hashes(lock) - _hashes(known)
    if unknown:
        raise SystemExit(f"{known.name} lacks {len(unknown)} hashes of what the image would hold: run `make lock`")
    return lock


def _hashes(lock: Path) -> set[str]:
    return set(re.findall(r"--hash=(\S+)", lock.read_text("utf-8")))


def compile_below(root: Path, library: str, base: Path) -> None:
    """
    Compile `library` below `root` with the Python of the base, which will also run it.

    Compiled files contain neither times nor an order by hash: the same sources give the same bytes.
    """
    (loader,) = (base / "usr" / "lib").glob("*-linux-gnu/ld-linux-*.so.*")
    python = [loader, "--library-path", loader.parent, base / "usr" / "bin" / "python3.11", "-S"]
    compiling = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/"]
    stated = {"PYTHONHOME": str(base / "usr"), "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
    _run([*python, *compiling, root / library], env=stated)


def _running() -> dict[str, object]:
    return {
        "User": f"{USER}:{USER}",
        "Env": [
            "PATH=/usr/local/bin:/usr/bin",
            "PYTHONUNBUFFERED=1",
            "PYTHONDONTWRITEBYTECODE=1",
            "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
        ],
        "Entrypoint": ["cronhpa"],
        "Cmd": ["run"],
        "ExposedPorts": {f"{port}/tcp": {} for port in range(8080, 8084)},
        "Volumes": {f"/{_DATA}": {}},
    }


def build(
    output: Path, *, architectures: Sequence[str], is_slim: bool, extras: Sequence[str], tag: str, cache: Path
) -> Iterator[str]:
    """Build and write the layout. Prints lines of progress, the last one with the digest."""
    commit, made_at = _commit()
    layout = Layout(output)
    manifests = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        stated = {"SOURCE_DATE_EPOCH": str(made_at), "CRONHPA_COMMIT": commit}
        _run([_tool("hatchling"), "build", "--target", "wheel", "--directory", work], cwd=PROJECT, env=stated)
        (wheel,) = work.glob("*.whl")
        lock = DEPLOY / ("image-slim.lock" if is_slim else "image.lock")
        if extras:
            lock = lock_with(extras, work, is_slim=is_slim)
        labels = {
            "org.opencontainers.image.created": datetime.fromtimestamp(made_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.revision": commit,
            "org.opencontainers.image.source": "https://github.com/cronhpa/cronhpa",
            "org.opencontainers.image.title": "cronhpa",
            "org.opencontainers.image.version": wheel.name.split("-")[1],
        }
        here = work / "here"
        unpack(here, own_architecture(), cache)
        for architecture in architectures:
            base, ours = work / architecture / "base", work / architecture / "ours"
            unpack(base, architecture, cache)
            prune(base)
            compile_below(base, _STDLIB, here)
            install(ours, lock, wheel, architecture)
            compile_below(ours, _LIBRARY, here)
            layers = [layer(base, made_at), layer(ours, made_at, {_DATA: USER})]
            manifests.append(layout.add_image(layers, architecture, _running(), labels))
            unpacked = sum(_size(root) for root in (base, ours))
            packed = sum(len(content) for content, _ in layers)
            yield f"linux/{architecture}: {unpacked / 1e6:.0f} MB unpacked, {packed / 1e6:.0f} MB to pull"
    digest = layout.finish(manifests, tag)
    file = output.with_name(f"{output.name}.tar")
    archive(output, file)
    yield f"{output} and {file}: {digest}"


def own_architecture() -> str:
    """Debian's name of this machine's architecture."""
    names = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
    machine = platform.machine()
    if sys.platform != "linux" or machine not in names:
        raise SystemExit(f"this is {sys.platform} on {machine}; the image is built on Linux, on amd64 or arm64")
    return names[machine]


def _size(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def _commit() -> tuple[str, int]:
    """The commit and its time; no commit if there are uncommitted changes."""
    text = subprocess.check_output(["git", "log", "-1", "--format=%H %ct"], cwd=PROJECT, text=True).split()
    is_clean = not subprocess.check_output(["git", "status", "--porcelain"], cwd=PROJECT, text=True)
    return text[0] if is_clean else "", int(text[1])


def _tool(name: str) -> Path:
    return Path(sys.executable).parent / name


def _run(command: Sequence[object], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """Runs a command. Ends the program with the command's output if it fails."""
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise SystemExit(f"{' '.join(words[:3])} ended with {done.returncode}: {said}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the image as an OCI layout, without a container engine.")
    default = PROJECT / "build" / "image"
    parser.add_argument("--output", type=Path, default=default, help="folder of the layout; OUTPUT.tar has the same")
    parser.add_argument("--platform", default=",".join(ARCHITECTURES), help="amd64, arm64 or both (default)")
    parser.add_argument("--slim", action="store_true", help="without forecasts: no numpy, pandas, statsmodels")
    parser.add_argument("--extras", default="", help=f"more of {', '.join(EXTRAS)}, with commas between")
    parser.add_argument("--tag", default="latest", help="name of the image in the layout's index")
    parser.add_argument("--cache", type=Path, default=PROJECT / "build" / "debian", help="folder of fetched packages")
    parser.add_argument("--lock-base", action="store_true", help="write deploy/base.lock anew, and build nothing")
    asked = parser.parse_args()
    architectures = asked.platform.split(",")
    unknown = set(architectures) - set(ARCHITECTURES)
    if unknown:
        parser.error(f"--platform: found {', '.join(sorted(unknown))}; accepted are {', '.join(ARCHITECTURES)}")
    extras = [extra for extra in asked.extras.split(",") if extra]
    if set(extras) - set(EXTRAS):
        parser.error(f"--extras: found {asked.extras}; accepted are {', '.join(EXTRAS)}")
    if asked.lock_base:
        lock_base()
        return
    chosen = {"architectures": architectures, "is_slim": asked.slim, "extras": extras}
    for line in build(asked.output, **chosen, tag=asked.tag, cache=asked.cache):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
