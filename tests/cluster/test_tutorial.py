"""docs/tutorial.md, followed on a real API server: its files are saved, its commands run, in its order."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from testbed import build
from testbed.tutorial import follow, steps

# What makes the cluster, the image and the environment, and removes them; tests of their own hold image and chart.
ELSEWHERE = re.compile(
    r"kind |kubectl apply -f https://|kubectl patch deployment metrics-server|kubectl top |git clone |make image "
    r"|helm |kubectl --namespace cronhpa-system rollout|python3 -m venv|pip install"
)


@pytest.mark.long
def test_each_step_of_the_tutorial_does_what_the_page_says(control_plane, operator, plant, namespace, tmp_path):
    kubeconfig = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    kubeconfig["contexts"][0]["context"]["namespace"] = namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    path = f"{build.binaries()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "KUBECONFIG": str(tmp_path / "kubeconfig")}
    plant.add_target(namespace, {"app": "shop"}, 0.05)

    followed = ((kind, text) for kind, text in steps() if kind == "file" or not ELSEWHERE.match(text))
    follow(followed, tmp_path, environment, within_s=60)

    assert (
        "override" not in control_plane.get(f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas/shop")["spec"]
    )
    assert (tmp_path / "week.png").read_bytes().startswith(b"\x89PNG")
