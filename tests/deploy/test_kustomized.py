"""deploy/kustomize: what the chart renders, built by the real kustomize within kubectl."""

from __future__ import annotations

import subprocess
from pathlib import Path

import kustomized
import pytest
import yaml

from testbed.build import binaries
from testbed.control_plane import rendered_chart

pytestmark = pytest.mark.cluster

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def objects():
    """By kind and name."""
    built = subprocess.check_output([binaries() / "kubectl", "kustomize", PROJECT / "deploy" / "kustomize"], text=True)
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.load_all(built, yaml.CSafeLoader)}


def test_the_file_is_what_the_chart_renders_now():
    assert kustomized.text(str(binaries() / "helm")) == kustomized.WRITTEN.read_text(), "run `make kustomize`"


def test_it_has_every_object_of_the_chart_but_its_test_and_the_namespace_that_helm_would_make(objects):
    rendered = rendered_chart(namespace="cronhpa-system", release="cronhpa")
    of_the_chart = {
        (each["kind"], each["metadata"]["name"])
        for each in rendered
        if "helm.sh/hook" not in each["metadata"].get("annotations", {})
    }

    assert of_the_chart | {("Namespace", "cronhpa-system")} == objects.keys()


def test_its_image_is_named_in_one_place_and_no_helm_is_named_at_all(objects):
    (image,) = yaml.safe_load((kustomized.WRITTEN.parent / "kustomization.yaml").read_text())["images"]
    (container,) = objects["StatefulSet", "cronhpa"]["spec"]["template"]["spec"]["containers"]

    assert f"{image['newName']}:{image['newTag']}" == container["image"]
    assert "helm" not in kustomized.WRITTEN.read_text().partition("\n")[2].lower()


def test_each_namespaced_object_states_its_namespace(objects):
    cluster_wide = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}

    assert [] == [
        key
        for key, each in objects.items()
        if (each["metadata"].get("namespace") == "cronhpa-system") == (key[0] in cluster_wide)
    ]
