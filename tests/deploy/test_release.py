"""deploy/release.py: one version everywhere, and a tag of no other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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
    published = ["cronhpa-0.1.0.tar.gz", "cronhpa-0.1.0.tgz", "debian-0.1.0.tar", "kubectl-cronhpa-linux-amd64.tar.gz"]
    for name in published:
        (tmp_path / name).touch()

    assert published == [path.name for path in release.published(tmp_path)]
