"""deploy/packaged_chart.py: the chart as it is published, read back from its archive by the real helm."""

from __future__ import annotations

import json
import subprocess
import tarfile

import oci
import packaged_chart
import pytest
import release
import yaml

from testbed.build import binaries
from testbed.control_plane import rendered_chart

pytestmark = pytest.mark.cluster

IMAGE, DIGEST = "ghcr.io/cronhpa/cronhpa", f"sha256:{'a' * 64}"
(VERSION,) = release.stated_versions()


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return packaged_chart.package(
        tmp_path_factory.mktemp("release"), helm=str(binaries() / "helm"), image=IMAGE, digest=DIGEST
    )


def images(archive, **values):
    """Of every container that the chart would run."""
    rendered = rendered_chart(archive, values=values)
    pods = [each["spec"]["template"]["spec"] for each in rendered if each["kind"] == "StatefulSet"]
    pods += [each["spec"] for each in rendered if each["kind"] == "Pod"]
    return {container["image"] for pod in pods for container in pod["containers"]}


def shown(what, archive):
    return yaml.safe_load(subprocess.check_output([binaries() / "helm", "show", what, archive], text=True))


def test_the_archive_names_registry_and_digest(archive):
    assert f"cronhpa-{VERSION}.tgz" == archive.name
    assert IMAGE == shown("values", archive)["image"]["repository"]
    assert {f"{IMAGE}@{DIGEST}"} == images(archive)


@pytest.mark.parametrize(
    ("image", "runs"),
    [
        ({"tag": "0.9.0-slim"}, f"{IMAGE}:0.9.0-slim"),
        ({"digest": f"sha256:{'b' * 64}"}, f"{IMAGE}@sha256:{'b' * 64}"),
        # A copy has another digest where a tool copied one architecture.
        ({"repository": "mirror.example/cronhpa"}, f"mirror.example/cronhpa:{VERSION}"),
        ({"repository": "ghcr.io/cronhpa"}, f"ghcr.io/cronhpa:{VERSION}"),
    ],
    ids=["a tag", "a digest", "a mirror", "the beginning of the name"],
)
def test_what_is_set_counts_instead(archive, image, runs):
    assert {runs} == images(archive, image=image)


def test_an_upgrade_that_reuses_values_runs_the_new_release(archive, tmp_path):
    """The new chart with the defaults of the former one, as Helm puts them together."""
    newer = packaged_chart.package(tmp_path, helm=str(binaries() / "helm"), image=IMAGE, digest=f"sha256:{'c' * 64}")
    with tarfile.open(newer) as packed:
        packed.extractall(tmp_path, filter="data")
    with tarfile.open(archive) as packed:
        (tmp_path / "cronhpa" / "values.yaml").write_bytes(packed.extractfile("cronhpa/values.yaml").read())

    assert {f"{IMAGE}@sha256:{'c' * 64}"} == images(tmp_path / "cronhpa")


def test_values_of_before_the_image_was_published_get_its_name(archive, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (tmp_path / "cronhpa" / "values.yaml").write_text("{}")

    assert {f"{IMAGE}@{DIGEST}"} == images(tmp_path / "cronhpa")


def test_artifact_hub_gets_image_changes_and_examples_that_can_be_read(archive):
    annotations = shown("chart", archive)["annotations"]
    read = {
        name: yaml.safe_load(annotations[f"artifacthub.io/{name}"]) for name in ("images", "changes", "crdsExamples")
    }

    assert [f"{IMAGE}@{DIGEST}"] == [each["image"] for each in read["images"]]
    assert read["changes"]
    assert {"kind", "description"} == {key for each in read["changes"] for key in each}
    assert {"CronHPA"} == {each["kind"] for each in read["crdsExamples"]}


def test_changes_are_told_by_kind():
    newest = "## 0.2.0 (2026-12-01)\n\n### Added\n\n- A page,\n  in colour.\n- More.\n\n### Fixed\n\n- A bug.\n"
    changelog = f"# Changes\n\n{newest}\n## 0.1.0\n\n- First.\n"

    assert [("added", "A page, in colour."), ("added", "More."), ("fixed", "A bug.")] == [
        (each["kind"], each["description"]) for each in packaged_chart.changes_of("0.2.0", changelog)
    ]
    assert [{"kind": "added", "description": "First."}] == packaged_chart.changes_of("0.1.0", changelog)


def test_a_version_that_the_changelog_does_not_know_is_refused():
    with pytest.raises(SystemExit, match=r"no section `## 9\.9\.9`: run `make release VERSION=9\.9\.9` first"):
        packaged_chart.changes_of("9.9.9", "## 0.1.0\n")


def test_without_its_image_no_chart_is_packaged(tmp_path):
    with pytest.raises(SystemExit, match="build the image, too, or skip the chart"):
        release.build(tmp_path / "built", helm="helm", skipped={*release.STEPS} - {"chart"})


def test_what_artifact_hub_asks_of_a_publisher_is_an_artifact_of_its_kinds(tmp_path, monkeypatch):
    built = tmp_path / "built"
    monkeypatch.setattr(release, "_images", lambda output, version: layout(output / f"cronhpa-{version}"))
    release.build(built, helm=str(binaries() / "helm"), skipped={*release.STEPS} - {"chart", "image"})
    manifest = json.loads(blob(built / "artifacthub", oci.digest_of(built / "artifacthub")))

    assert "application/vnd.cncf.artifacthub.config.v1+yaml" == manifest["config"]["mediaType"]
    (layer,) = manifest["layers"]
    assert "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml" == layer["mediaType"]
    assert "repositoryID" in yaml.safe_load(blob(built / "artifacthub", layer["digest"]))


def layout(folder):
    folder.mkdir()
    (folder / "index.json").write_text(json.dumps({"manifests": [{"digest": DIGEST}]}))


def blob(folder, digest):
    return (folder / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_text()
