"""
A release: `prepare` writes the version into all files, and the changelog; `build` makes the published files.

See `python deploy/release.py --help`. RELEASING.md has the order; .github/workflows/release.yaml publishes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import debian
import oci
import packaged_chart
import plugin
import published_pages
import yaml

PROJECT = Path(__file__).parents[1].resolve()
CHART = PROJECT / "deploy" / "chart"
IMAGE = "ghcr.io/cronhpa/cronhpa"
FORMER_VALUES = PROJECT / "tests" / "deploy" / "former_values"
STEPS = ("wheel", "plugin", "crd", "image", "chart", "debian", "sbom")
VERSION = re.compile(r"\d+\.\d+\.\d+")
_STATED = (
    (PROJECT / "pyproject.toml", re.compile(r'^version = "(.+)"$', re.MULTILINE), 'version = "{}"'),
    (CHART / "Chart.yaml", re.compile(r"^version: (.+)$", re.MULTILINE), "version: {}"),
    (CHART / "Chart.yaml", re.compile(r"^appVersion: (.+)$", re.MULTILINE), "appVersion: {}"),
    (
        PROJECT / "deploy" / "kustomize" / "kustomization.yaml",
        re.compile(r"newTag: (.+)\}$", re.MULTILINE),
        "newTag: {}}}",
    ),
    (PROJECT / "Makefile", re.compile(r"^IMAGE \?= cronhpa:(.+)$", re.MULTILINE), "IMAGE ?= cronhpa:{}"),
)


def stated_versions() -> set[str]:
    """The versions in the files; a single one if they agree."""
    found = set()
    for path, pattern, _ in _STATED:
        match = pattern.search(path.read_text("utf-8"))
        if match is None:
            raise SystemExit(f"{path} states no version: a line like {pattern.pattern} was expected")
        found.add(match[1])
    return found


def prepare(version: str) -> None:
    """
    Write the version into all files, move changes/ into CHANGELOG.md, keep the chart's values, and say in
    the pages that images are published. Commits nothing.
    """
    for path, pattern, text in _STATED:
        path.write_text(pattern.sub(text.format(version), path.read_text("utf-8"), count=1), "utf-8")
    published_pages.rewrite(PROJECT)
    _run("towncrier", "build", "--yes", "--version", version)
    # Upgrades from this chart are tested from then on.
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    (FORMER_VALUES / f"{version}.yaml").write_text(yaml.safe_dump(values, sort_keys=False), "utf-8")
    sys.stdout.write(
        f"look at `git diff`, then: git add --all && git commit -m 'Release {version}' && git tag -s v{version}\n"
    )


def build(output: Path, *, helm: str, skipped: set[str], image: str = IMAGE) -> None:
    """Write all published files into `output`, with SHA256SUMS. image: where its images will be, without a tag."""
    (version,) = _one_version()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    steps: dict[str, Callable[[], object]] = {
        "wheel": lambda: _run("hatchling", "build", "--directory", str(output)),
        "plugin": lambda: plugin.build(output, version),
        "crd": lambda: _crds(output),
        "image": lambda: _images(output, version),
        "chart": lambda: _chart(output, version, helm=helm, image=image),
        "debian": lambda: _debian(output, version),
        "sbom": lambda: _sboms(output),
    }
    for name, step in steps.items():
        if name not in skipped:
            sys.stdout.write(f"{name}\n")
            sys.stdout.flush()
            step()
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in published(output)]
    (output / "SHA256SUMS").write_text("".join(sums), "utf-8")


def published(output: Path) -> list[Path]:
    """The published files, without the archives of the images, which are published in a registry."""

    def is_image(path: Path) -> bool:
        # An image's archive lies beside its layout. The chart, cronhpa-0.1.0.tgz beside cronhpa-0.1.0/, is not meant.
        return path.suffix == ".tar" and path.with_suffix("").is_dir()

    return sorted(path for path in output.iterdir() if path.is_file() and not is_image(path))


def _one_version() -> set[str]:
    found = stated_versions()
    if len(found) != 1:
        raise SystemExit(f"the files state {' and '.join(sorted(found))}: run `make release VERSION=...` first")
    return found


def _crds(output: Path) -> None:
    crds = PROJECT / "crds"
    for folder, name in ((crds, "cronhpa-crd.yaml"), (crds / "kubernetes-1.30", "cronhpa-crd-kubernetes-1.30.yaml")):
        texts = [path.read_text("utf-8") for path in sorted(folder.glob("cronhpa.io_*.yaml"))]
        (output / name).write_text("---\n".join(texts), "utf-8")


def _images(output: Path, version: str) -> None:
    for slim in ([], ["--slim"]):
        name = f"cronhpa-{version}{'-slim' if slim else ''}"
        script = str(PROJECT / "deploy" / "image.py")
        subprocess.run([sys.executable, script, "--output", str(output / name), "--tag", version, *slim], check=True)


def _chart(output: Path, version: str, *, helm: str, image: str) -> None:
    layout = output / f"cronhpa-{version}"
    if not layout.is_dir():
        raise SystemExit(
            f"{layout} is missing, and the chart names its digest: build the image, too, or skip the chart"
        )
    packaged_chart.package(output, helm=helm, image=image, digest=oci.digest_of(layout))
    repository = oci.Layout(output / "artifacthub")
    kind = "application/vnd.cncf.artifacthub"
    written = (PROJECT / "deploy" / "artifacthub-repo.yml").read_bytes()
    repository.add_artifact(
        written, f"{kind}.repository-metadata.layer.v1.yaml", f"{kind}.config.v1+yaml", "artifacthub-repo.yml"
    )


def _debian(output: Path, version: str) -> None:
    """Copy the Debian packages of the base: Debian's archive drops them when it has newer ones."""
    cache = PROJECT / "build" / "debian"
    with tempfile.TemporaryDirectory() as folder:
        for package in debian.locked():
            shutil.copy(debian.fetch(package, cache), folder)
        oci.archive(Path(folder), output / f"debian-{version}.tar")


def _sboms(output: Path) -> None:
    for name in ("sbom.json", "sbom-slim.json"):
        file = PROJECT / "build" / name
        if not file.exists():
            raise SystemExit(f"{file} is missing: run `make sbom` first")
        shutil.copy(file, output)


def _run(program: str, *arguments: str) -> None:
    """Runs a program of .venv or the PATH. Ends with its output if it fails."""
    beside = Path(sys.executable).parent / program
    command = [str(beside) if beside.exists() else program, *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{program} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepare or build a release.")
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="state the version and write the changelog")
    preparing.add_argument("version")
    building = commands.add_parser("build", help="make everything that is published")
    building.add_argument("--output", type=Path, default=PROJECT / "build" / "release")
    building.add_argument("--helm", default="helm", help="the helm program")
    building.add_argument("--image", default=IMAGE, help="what the images will be called, with the registry")
    building.add_argument("--skip", action="append", default=[], choices=STEPS)
    checking = commands.add_parser("check", help="fail unless the files state the version of a tag such as v0.2.0")
    checking.add_argument("tag")
    asked = parser.parse_args()
    if asked.command == "prepare":
        if not VERSION.fullmatch(asked.version):
            parser.error(f"found {asked.version!r}; accepted is a version such as 0.2.0")
        prepare(asked.version)
    elif asked.command == "check":
        (version,) = _one_version()
        if asked.tag != f"v{version}":
            raise SystemExit(f"the tag is {asked.tag}, the files state {version}: tag v{version}, or prepare again")
    else:
        build(asked.output, helm=asked.helm, skipped=set(asked.skip), image=asked.image)


if __name__ == "__main__":
    main()
