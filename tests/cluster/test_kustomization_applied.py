"""deploy/kustomize, applied as its first line says: a real API server takes each object."""

from __future__ import annotations

from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_the_api_server_takes_each_object_of_the_kustomization(control_plane):
    """The namespace is there, with a release of the chart in it, which stays as it is."""
    said = control_plane.kubectl(
        "apply", "-k", str(PROJECT / "deploy" / "kustomize"), "--server-side", "--force-conflicts", "--dry-run=server"
    )

    assert "statefulset.apps/cronhpa serverside-applied (server dry run)" in said
    assert "customresourcedefinition.apiextensions.k8s.io/cronhpas.cronhpa.io serverside-applied" in said
