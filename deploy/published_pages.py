"""
What pages say until the first release, and from it on: where the image and the chart come from.

`make release` rewrites them. Until then docs/how-to/install.md alone says that no image is published.
"""

from __future__ import annotations

import re
from pathlib import Path

import plugin

CHART = "oci://ghcr.io/cronhpa/charts/cronhpa"
UNPUBLISHED = "No image is published yet"
# Path, what it says until the first release as a pattern, and from then on. Each is found there once.
_SENTENCES = (
    (
        "docs/how-to/install.md",
        rf"{UNPUBLISHED}\. Build one on any Linux, without a container engine,",
        (
            "Each release has one, for amd64 and arm64: ghcr.io/cronhpa/cronhpa. Its chart has its digest. For one\n"
            "of your own set `image.repository` and `image.tag`. Build it on any Linux, without a container engine,"
        ),
    ),
    (
        "docs/how-to/install.md",
        (
            r"`uv tool install \.` takes 4 s, `pipx install \.` half a minute; "
            r"`'\.(\[forecast,plot\])'` in place of `\.` adds\n"
        ),
        r"`uv tool install cronhpa` takes 4 s, `pipx install cronhpa` half a minute; `'cronhpa\1'` adds\n",
    ),
    (
        "docs/how-to/install.md",
        r"`cronhpa` and `kubectl cronhpa` are one program\.",
        (
            f"Without these, in one file for Python {plugin.PYTHONS[0]} to {plugin.PYTHONS[-1]} on Linux and macOS:\n"
            r"`kubectl krew install cronhpa` or `brew install cronhpa/tap/cronhpa`. \g<0>"
        ),
    ),
    (
        "README.md",
        r", with \[an image that you build first\]\(docs/how-to/install\.md#the-image\), without Docker:",
        ":",
    ),
    ("docs/how-to/report.md", r"pip install '\.\[forecast\]'", "pip install 'cronhpa[forecast]'"),
    ("deploy/kustomize/kustomization.yaml", "newName: REGISTRY/cronhpa", "newName: ghcr.io/cronhpa/cronhpa"),
    (
        "docs/tutorial.md",
        (
            r"Build \[its image\]\(how-to/install\.md#the-image\), on Linux, in a minute or two:\n\n"
            r"(    git clone .*\n)    make image .*\n    kind load .*\n"
        ),
        r"\1",
    ),
)
_COMMAND = re.compile(r"(helm (?:install|upgrade) cronhpa) (?:deploy/chart|\.)(?= )")
_OWN_IMAGE = re.compile(r" (?:\\\n +)?--set image\.repository=REGISTRY/cronhpa")


def pages(project: Path) -> list[Path]:
    """Those that say how to install."""
    return [
        project / "README.md",
        project / "deploy" / "chart" / "README.md",
        *sorted((project / "docs").rglob("*.md")),
    ]


def rewrite(project: Path) -> None:
    """Make the pages name what is published; nothing where they do. Raises SystemExit where a sentence is another."""
    if UNPUBLISHED not in (project / "docs" / "how-to" / "install.md").read_text("utf-8"):
        return
    for path, pattern, text in _SENTENCES:
        page = project / path
        rewritten, count = re.subn(pattern, text, page.read_text("utf-8"))
        if count != 1:
            raise SystemExit(f"{path} has {count} times what deploy/published_pages.py rewrites: {pattern}")
        page.write_text(rewritten, "utf-8")
    for page in pages(project):
        text = page.read_text("utf-8")
        page.write_text(_OWN_IMAGE.sub("", _COMMAND.sub(rf"\1 {CHART}", text)), "utf-8")
