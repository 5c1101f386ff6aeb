"""
Lays a built documentation site beside those of former releases: a folder for each minor version, and `latest`.

    python deploy/site_of_releases.py build/site FOLDER 0.2.0

FOLDER is what GitHub Pages serves. The layout is that of mike, whose versions.json the site's menu of versions reads.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

_FORWARD = (
    '<!doctype html><meta charset="utf-8"><title>cronhpa</title><meta http-equiv="refresh" content="0; url=latest/">\n'
)


def publish(site: Path, pages: Path, version: str) -> None:
    """
    Put `site` into `pages` as what `version` has, such as 0.2 for 0.2.1; `latest` is the newest of all.

    Raises ValueError for what is no version.
    """
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise ValueError(f"found {version!r}; accepted is a version such as 0.2.0")
    minor = version.rpartition(".")[0]
    listed = pages / "versions.json"
    known = [each["version"] for each in json.loads(listed.read_text("utf-8"))] if listed.exists() else []
    newest, *older = sorted({minor, *known}, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    for folder in [minor, "latest"] if minor == newest else [minor]:
        shutil.rmtree(pages / folder, ignore_errors=True)
        shutil.copytree(site, pages / folder)
    entries = [{"version": newest, "title": newest, "aliases": ["latest"]}]
    entries += [{"version": name, "title": name, "aliases": []} for name in older]
    listed.write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
    (pages / "index.html").write_text(_FORWARD, "utf-8")
    # GitHub Pages leaves out files that begin with an underscore, but for this one.
    (pages / ".nojekyll").touch()


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
