"""
`kubectl-cronhpa` in one file for each platform; krew's manifest and Homebrew's formula, which install it.

The file is a zip that the machine's own Python runs, one of PYTHONS. Modules compiled for several Pythons lie side by
side, as their names tell them apart; names do not always tell machines apart, hence a file for each of those.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import yaml

PROJECT = Path(__file__).parents[1].resolve()
PYTHONS = ("3.11", "3.12", "3.13")
# (system, architecture) as krew and Go name them, to the platform as uv names it.
PLATFORMS = {
    ("linux", "amd64"): "x86_64-manylinux_2_28",
    ("linux", "arm64"): "aarch64-manylinux_2_28",
    ("darwin", "amd64"): "x86_64-apple-darwin",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}
NAME = "kubectl-cronhpa"
_HOME = "https://github.com/cronhpa/cronhpa"
_TOLD = "Explain, preview, override and move autoscalers"
# macOS brings an older Python of its own.
CHECK = f"""import sys

if not (3, 11) <= sys.version_info[:2] <= (3, {PYTHONS[-1].partition(".")[2]}):
    found = ".".join(map(str, sys.version_info[:2]))
    sys.exit(f"cronhpa needs Python {PYTHONS[0]} to {PYTHONS[-1]}; python3 on the PATH is {{found}}: put one there")
"""
_FORMULA = """class Cronhpa < Formula
  desc "{told}"
  homepage "{home}"
  version "{version}"
  license "Apache-2.0"

  depends_on "python@{python}"
{systems}
  def install
    libexec.install "{name}"
    python = Formula["python@{python}"].opt_bin/"python{python}"
    # A name for each call: the commands print their examples with it.
    libexec.install_symlink libexec/"{name}" => "cronhpa"
    %w[{name} cronhpa].each do |program|
      (bin/program).write <<~SH
        #!/bin/sh
        exec "#{{python}}" "#{{libexec}}/#{{program}}" "$@"
      SH
    end
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/cronhpa --version")
  end
end
"""


def build(output: Path, version: str) -> None:
    """Write an archive for each platform, krew.yaml and cronhpa.rb. The wheel is in `output`, and uv finds packages."""
    archives = {}
    for (system, architecture), platform in PLATFORMS.items():
        folder = output / f"plugin-{system}-{architecture}"
        folder.mkdir()
        _one_file(output, folder, platform)
        archives[system, architecture] = _archived(folder, output / f"{NAME}-{system}-{architecture}.tar.gz")
        shutil.rmtree(folder)
    (output / "krew.yaml").write_text(krew(archives, version), "utf-8")
    (output / "cronhpa.rb").write_text(formula(archives, version), "utf-8")


def _one_file(output: Path, folder: Path, platform: str) -> None:
    (wheel,) = output.glob("*.whl")
    site, one = folder / "site", folder / "one"
    for python in PYTHONS:
        uv = ["uv", "pip", "install", "--quiet", "--target", str(one), "--no-deps", "--only-binary", ":all:"]
        uv += ["--python-version", python, "--python-platform", platform]
        _run(*uv, "--require-hashes", "--requirement", str(PROJECT / "deploy" / "plugin.lock"))
        _run(*uv, "--offline", "--no-index", str(wheel))
        shutil.copytree(one, site, dirs_exist_ok=True)
        shutil.rmtree(one)
    preamble = folder / "check.py"
    preamble.write_text(CHECK)
    preamble.chmod(0o755)
    _run("shiv", "--reproducible", "--site-packages", str(site), "--entry-point", "cronhpa.cli:main",
         "--preamble", str(preamble), "--python", "/usr/bin/env python3",
         "--output-file", str(folder / NAME))  # fmt: skip


def _archived(folder: Path, archive: Path) -> Path:
    """The file and the licence, which krew asks for, with no times or owners of the builder."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    plain_tar = archive.with_suffix("")
    with tarfile.open(plain_tar, "w") as packed:
        packed.add(folder / NAME, NAME, filter=plain)
        packed.add(PROJECT / "LICENSE", "LICENSE", filter=plain)
    # The file is compressed already; gzip's header has no name and no time.
    _run("gzip", "--no-name", "-1", "--force", str(plain_tar))
    return archive


def _address(archive: Path, version: str) -> str:
    return f"{_HOME}/releases/download/v{version}/{archive.name}"


def _sha256(archive: Path) -> str:
    return hashlib.sha256(archive.read_bytes()).hexdigest()


def krew(archives: Mapping[tuple[str, str], Path], version: str) -> str:
    """The manifest: for `kubectl krew install --manifest`, and for the pull request to krew's index."""
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "cronhpa"},
        "spec": {
            "version": f"v{version}",
            "homepage": _HOME,
            "shortDescription": _TOLD,
            "description": (
                "The commands of cronhpa, an autoscaler with schedules and forecasts.\n"
                f"They need Python {PYTHONS[0]} to {PYTHONS[-1]} as python3 on the PATH.\n"
            ),
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": system, "arch": architecture}},
                    "uri": _address(archive, version),
                    "sha256": _sha256(archive),
                    "bin": NAME,
                }
                for (system, architecture), archive in archives.items()
            ],
        },
    }
    return yaml.safe_dump(manifest, sort_keys=False)


def formula(archives: Mapping[tuple[str, str], Path], version: str) -> str:
    """The formula, for a tap of ours."""
    lines = []
    for ruby, system in (("macos", "darwin"), ("linux", "linux")):
        lines += ["", f"  on_{ruby} do"]
        for processor, architecture in (("arm", "arm64"), ("intel", "amd64")):
            archive = archives[system, architecture]
            lines += [f"    on_{processor} do", f'      url "{_address(archive, version)}"']
            lines += [f'      sha256 "{_sha256(archive)}"', "    end"]
        lines.append("  end")
    return _FORMULA.format(
        told=_TOLD, home=_HOME, version=version, python=PYTHONS[-1], name=NAME, systems="\n".join(lines) + "\n"
    )


def _run(program: str, *arguments: str) -> None:
    """Runs a program of .venv or the PATH. Ends with its output if it fails."""
    beside = Path(sys.executable).parent / program
    command = [str(beside) if beside.exists() else program, *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{program} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}")
