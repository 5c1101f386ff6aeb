"""
The chart as it is published: its image by digest, and what Artifact Hub shows of it.

The image is an annotation and no value, but for its repository: `helm upgrade --reuse-values` keeps the values of the
former release, and with them its image. templates/_names.tpl reads the annotation.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[1].resolve()
CHART = PROJECT / "deploy" / "chart"
# The kinds of changes that Artifact Hub knows are named as ours are.
_KINDS = ("added", "changed", "fixed", "removed", "security")
_CHANGES_MAX = 50
_EXAMPLES = ("office-hours.yaml", "forecast.yaml")
_FROM_A_CHECKOUT = re.compile(r"^image:\n(?:  #.*\n)*  repository: cronhpa\n", re.MULTILINE)


def package(output: Path, *, helm: str, image: str, digest: str) -> Path:
    """
    Package the chart into `output`: its values name `image`, and without other values its pods run that digest.

    image: with its registry, without a tag. digest: of the index of all architectures. Returns the archive.
    """
    with tempfile.TemporaryDirectory() as folder:
        chart = shutil.copytree(CHART, Path(folder) / "cronhpa")
        values, count = _FROM_A_CHECKOUT.subn(
            f"image:\n  repository: {image}\n", (chart / "values.yaml").read_text("utf-8")
        )
        if count != 1:
            raise SystemExit("deploy/chart/values.yaml: `image:` with `repository: cronhpa` first was expected, once")
        (chart / "values.yaml").write_text(values, "utf-8")
        (chart / "files" / "defaults.json").write_text(json.dumps(yaml.safe_load(values)), "utf-8")
        metadata = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
        metadata["annotations"] |= _annotations(f"{image}@{digest}", metadata["version"])
        (chart / "Chart.yaml").write_text(yaml.safe_dump(metadata, sort_keys=False), "utf-8")
        done = subprocess.run(
            [helm, "package", str(chart), "--destination", str(output)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"helm package ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return output / f"cronhpa-{metadata['version']}.tgz"


def _annotations(image: str, version: str) -> dict[str, str]:
    examples = [yaml.safe_load((PROJECT / "crds" / "examples" / name).read_text("utf-8")) for name in _EXAMPLES]
    changes = changes_of(version, (PROJECT / "CHANGELOG.md").read_text("utf-8"))
    described: dict[str, Any] = {
        "images": [{"name": "cronhpa", "image": image, "platforms": ["linux/amd64", "linux/arm64"]}],
        "crdsExamples": examples,
        "changes": changes,
    }
    texts = {f"artifacthub.io/{name}": yaml.safe_dump(value, sort_keys=False) for name, value in described.items()}
    return {"cronhpa.io/image": image, **texts}


def changes_of(version: str, changelog: str) -> list[dict[str, str]]:
    """The changes of a version as Artifact Hub lists them; a section without kinds has what was added."""
    section = re.search(rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if section is None:
        raise SystemExit(f"CHANGELOG.md has no section `## {version}`: run `make release VERSION={version}` first")
    found, kind = [], "added"
    for heading, text in re.findall(r"^### (\w+)$|^- (.+?)(?=^- |^#|^$|\Z)", section[1], re.MULTILINE | re.DOTALL):
        if heading:
            kind = heading.lower() if heading.lower() in _KINDS else "changed"
        else:
            found.append({"kind": kind, "description": " ".join(text.split())})
    return found[:_CHANGES_MAX]
