"""docs/tutorial.md, followed on a real API server: its files are saved, its commands run, in its order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from testbed import build
from testbed.wait import wait_until

PROJECT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```yaml\n(?P<file>.*?)^```$|^(?P<shell>(?:    [^\n]*\n)+)", re.MULTILINE | re.DOTALL)
# What makes the cluster, the image and the environment, and removes them; tests of their own hold image and chart.
ELSEWHERE = re.compile(
    r"kind |kubectl apply -f https://|kubectl patch deployment metrics-server|kubectl top |git clone |make image "
    r"|helm |kubectl --namespace cronhpa-system rollout|python3 -m venv|pip install"
)
# What the page says is to be seen, by the command that shows it.
SHOWN = {
    "kubectl get chpa shop": "Deciding",
    "cronhpa preview shop.yaml": "working-hours",
    "kubectl cronhpa override shop --min 15 --for 2h --reason INC-4711": "INC-4711",
}
EXPLAINED = ["working-hours", "INC-4711", "Learning"]


def steps():
    """("file", text) and ("shell", command) of the page, in its order."""
    for block in BLOCK.finditer((PROJECT / "docs" / "tutorial.md").read_text("utf-8")):
        if block["file"]:
            yield "file", block["file"]
            continue
        for line in block["shell"].replace("\\\n", " ").splitlines():
            command = re.sub(r"\s{2,}", " ", line.partition("   #")[0]).strip()
            if command and not ELSEWHERE.match(command):
                yield "shell", command


@pytest.mark.long
def test_each_step_of_the_tutorial_does_what_the_page_says(control_plane, operator, plant, namespace, tmp_path):
    kubeconfig = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    kubeconfig["contexts"][0]["context"]["namespace"] = namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    for name in ("crds", "benchmarks"):
        (tmp_path / name).symlink_to(PROJECT / name)
    path = f"{build.binaries()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "KUBECONFIG": str(tmp_path / "kubeconfig")}
    explained = list(EXPLAINED)
    plant.add_target(namespace, {"app": "shop"}, 0.05)

    def told(command):
        ended = subprocess.run(
            ["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert 0 == ended.returncode, f"{command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    for kind, text in steps():
        if kind == "file":
            (tmp_path / "shop.yaml").write_text(text)
        else:
            expected = explained.pop(0) if text == "kubectl cronhpa explain shop" else SHOWN.get(text, "")
            wait_until(partial(told, text), lambda said, expected=expected: expected in said, within_s=60, every_s=1)

    assert [] == explained
    assert (
        "override" not in control_plane.get(f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas/shop")["spec"]
    )
    assert (tmp_path / "week.png").read_bytes().startswith(b"\x89PNG")
