"""deploy/release.py: one version everywhere, and a tag of no other."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import release

PROJECT = Path(__file__).parents[2]


def test_all_files_state_one_version():
    assert 1 == len(release.stated_versions())


def test_a_tag_of_another_version_is_refused():
    ended = subprocess.run(
        [sys.executable, PROJECT / "deploy" / "release.py", "check", "v9.9.9"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert 1 == ended.returncode
    assert re.match(r"the tag is v9\.9\.9, the files state \d", ended.stderr)


def test_all_that_is_published_has_a_checksum_and_the_archives_of_images_have_none(tmp_path):
    """The chart has the name of the image's layout, with another ending."""
    for folder in ("cronhpa-0.1.0", "cronhpa-0.1.0-slim"):
        (tmp_path / folder).mkdir()
        (tmp_path / f"{folder}.tar").touch()
    published = ["cronhpa-0.1.0.tar.gz", "cronhpa-0.1.0.tgz", "debian-0.1.0.tar", "kubectl-cronhpa"]
    for name in published:
        (tmp_path / name).touch()

    assert published == [path.name for path in release.published(tmp_path)]


@pytest.mark.long
def test_the_plugin_in_one_file_runs_on_each_python_that_is_here_and_krew_finds_it(tmp_path):
    """Takes minutes: packages for three Pythons on two architectures. Of Pythons that are missing CI has each."""
    built = tmp_path / "built"
    release.build(built, helm="helm", skipped={"chart", "image", "debian", "sbom"})
    manifest = json.loads((built / "krew.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = built / platform["uri"].rpartition("/")[2]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as packed:
        packed.extract(platform["bin"], tmp_path, filter="data")
    interpreters = {supported: shutil.which(f"python{supported}") for supported in release.PYTHONS}
    interpreters[f"{sys.version_info.major}.{sys.version_info.minor}"] = sys.executable

    for version, python in interpreters.items():
        if python is not None:
            (tmp_path / version).mkdir()
            (tmp_path / version / "python3").symlink_to(Path(python).resolve())
            ended = subprocess.run(
                [tmp_path / platform["bin"], "preview", PROJECT / "crds" / "examples" / "holidays.yaml"],
                env={"PATH": f"{tmp_path / version}:/usr/bin:/bin", "SHIV_ROOT": str(tmp_path / "unpacked" / version)},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert (0, "") == (ended.returncode, ended.stderr)
            assert ended.stdout.startswith("desk: ")
