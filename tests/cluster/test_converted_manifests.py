"""Converted manifests on a real API server, which is asked to take each; and HPAs as it serves them."""

import pytest
import yaml

from cronhpa.migration.convert import Document, convert
from migration.reading import MANIFESTS, converted

FILES = sorted(MANIFESTS.glob("*.yaml"))
V2 = [
    body
    for file in FILES
    if file.stem != "zalando"  # its HPA is converted together with the schedule that it names
    for body in yaml.safe_load_all(file.read_text())
    if "apiVersion" in body and (body["apiVersion"], body["kind"]) == ("autoscaling/v2", "HorizontalPodAutoscaler")
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_manifest_is_accepted(control_plane, namespace, file):
    manifests = [
        manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}
        for manifest in converted(file.name).manifests
    ]

    printed = control_plane.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(manifests)
    )

    assert len(manifests) == printed.count("created (server dry run)")


@pytest.mark.parametrize("body", V2, ids=lambda body: body["metadata"]["name"])
def test_an_hpa_read_as_v1_and_as_v2_is_the_same(control_plane, namespace, body):
    """The API server writes the annotations of v1 itself."""
    name = body["metadata"]["name"]
    metadata = {"name": name, "namespace": namespace}
    control_plane.apply(
        {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata, "spec": body["spec"]}
    )

    read = [
        control_plane.get(f"/apis/autoscaling/{version}/namespaces/{namespace}/horizontalpodautoscalers/{name}")
        for version in ("v1", "v2")
    ]
    one, two = (convert([Document("live", live_body)], now=0) for live_body in read)

    assert () == one.remarks
    assert one == two
