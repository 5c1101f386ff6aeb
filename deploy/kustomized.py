"""
Writes deploy/kustomize/cronhpa.yaml: what the chart renders with its defaults, for who has kustomize and no Helm.

`make kustomize` runs it; a test says when the file is stale. See `python deploy/kustomized.py --help`.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[1].resolve()
WRITTEN = PROJECT / "deploy" / "kustomize" / "cronhpa.yaml"
# They would have to be written anew for each release, or name a Helm that is not there.
_OF_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version")
_RENDER = ("template", "cronhpa", str(PROJECT / "deploy" / "chart"), "--namespace", "cronhpa-system", "--skip-tests")


def text(helm: str) -> str:
    """The file's text, by this helm."""
    done = subprocess.run([helm, *_RENDER, "--set", "crds.install=false"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"helm template ended with {done.returncode}: {done.stderr.strip()}")
    objects = [_without_helm(each) for each in yaml.safe_load_all(done.stdout) if each]
    return "# Written by deploy/kustomized.py (`make kustomize`): change the chart, not this file.\n" + "---\n".join(
        yaml.safe_dump(each, sort_keys=False, width=120) for each in objects
    )


def _without_helm(given: Any) -> Any:
    """Without Helm's labels, and with the image by its name alone, which kustomization.yaml maps."""
    if isinstance(given, dict):
        kept = {name: _without_helm(value) for name, value in given.items() if name not in _OF_HELM}
        return kept | {"image": kept["image"].partition(":")[0]} if isinstance(kept.get("image"), str) else kept
    return [_without_helm(each) for each in given] if isinstance(given, list) else given


def main() -> None:
    parser = argparse.ArgumentParser(description="Write deploy/kustomize/cronhpa.yaml from the chart.")
    parser.add_argument("--helm", default="helm", help="the helm program")
    WRITTEN.write_text(text(parser.parse_args().helm), "utf-8")


if __name__ == "__main__":
    main()
