"""
The Chromium of the npm package @sparticuz/chromium, unpacked into a cache: it needs no root and no system library.

`path, environment, axe = chromium()` installs what package-lock.json names, once for each state of the lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple

import brotli

FOLDER = Path(__file__).parent
LOCK = FOLDER / "package-lock.json"
# Of a machine that runs all tests at once: a page that takes long is no failure.
PATIENT_MS = 180_000
ARGUMENTS = (  # noqa: SIM905 - a list of it would be a line each
    "--headless=shell --no-zygote --no-sandbox --use-gl=angle --use-angle=swiftshader --disable-gpu-sandbox "
    "--disable-dev-shm-usage --hide-scrollbars --force-color-profile=srgb --font-render-hinting=none"
).split()


class Browser(NamedTuple):
    """path: of the program. environment: what it needs beside that of this process. axe: axe-core's script."""

    path: Path
    environment: dict[str, str]
    axe: Path


def chromium(cache: Path | None = None) -> Browser:
    root = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cronhpa" / "browser"
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    folder = root / digest
    folder.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _install(folder)
            (folder / "ready").touch()
    libraries = folder / "unpacked" / "lib"
    fonts = folder / "unpacked"
    environment = {"LD_LIBRARY_PATH": str(libraries), "FONTCONFIG_PATH": str(fonts), "HOME": str(folder)}
    return Browser(folder / "unpacked" / "chromium", environment, folder / "node_modules" / "axe-core" / "axe.min.js")


def _install(folder: Path) -> None:
    if shutil.which("npm") is None:
        raise RuntimeError("npm is not there: the browser tests install Chromium and axe-core with it")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(FOLDER / name, folder / name)
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"]
    installed = subprocess.run(npm, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    if installed.returncode:
        raise RuntimeError(f"npm ci: {installed.stderr[-2000:]}")
    packed = folder / "node_modules" / "@sparticuz" / "chromium" / "bin"
    unpacked = folder / "unpacked"
    unpacked.mkdir(exist_ok=True)
    program = unpacked / "chromium"
    program.write_bytes(brotli.decompress((packed / "chromium.br").read_bytes()))
    program.chmod(0o755)
    for archive in packed.glob("*.tar.br"):
        with tarfile.open(fileobj=io.BytesIO(brotli.decompress(archive.read_bytes()))) as files:
            files.extractall(unpacked, filter="data")
    # The one in the package names the folders of a function in a cloud.
    fonts, font_cache = folder / "unpacked" / "fonts", folder / "fonts-cache"
    configuration = (
        f"<fontconfig><dir>{fonts}</dir><dir>/usr/share/fonts</dir><cachedir>{font_cache}</cachedir></fontconfig>"
    )
    (unpacked / "fonts.conf").write_text(configuration, "utf-8")
