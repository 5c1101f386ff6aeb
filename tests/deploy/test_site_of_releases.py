"""deploy/site_of_releases.py: the documentation of each release beside the others."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import site_of_releases

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def published(tmp_path):
    """Publishes a site whose only page says which it is; the text of that page by folder, and the menu."""
    pages = tmp_path / "pages"
    pages.mkdir()

    def publish(version):
        site = tmp_path / version
        site.mkdir()
        (site / "index.html").write_text(version)
        (site / f"only-{version}.html").touch()
        site_of_releases.publish(site, pages, version)
        return (
            {each.name: (each / "index.html").read_text() for each in sorted(pages.iterdir()) if each.is_dir()},
            [(each["version"], each["aliases"]) for each in json.loads((pages / "versions.json").read_text())],
        )

    publish.pages = pages  # type: ignore[attr-defined]  # a fixture that is called, with its folder
    return publish


def test_each_minor_version_has_a_folder_and_the_newest_is_latest(published):
    assert ({"0.9": "0.9.0", "latest": "0.9.0"}, [("0.9", ["latest"])]) == published("0.9.0")
    # 10 comes after 9, as it would not by letters.
    assert published("0.10.0") == (
        {"0.10": "0.10.0", "0.9": "0.9.0", "latest": "0.10.0"},
        [("0.10", ["latest"]), ("0.9", [])],
    )
    assert "url=latest/" in (published.pages / "index.html").read_text()


def test_a_fix_takes_the_place_of_its_version_and_of_no_newer_one(published):
    published("0.9.0")
    published("0.10.0")
    folders, _ = published("0.9.1")

    assert {"0.10": "0.10.0", "0.9": "0.9.1", "latest": "0.10.0"} == folders
    assert not (published.pages / "0.9" / "only-0.9.0.html").exists()


def test_what_is_no_version_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"found 'v0\.2'; accepted is a version such as 0\.2\.0"):
        site_of_releases.publish(tmp_path, tmp_path, "v0.2")


def test_the_site_reads_the_menu_of_versions():
    config = tomllib.loads((PROJECT / "zensical.toml").read_text())

    assert "mike" == config["project"]["extra"]["version"]["provider"]
