"""deploy/published_pages.py: what pages say of the image, until the first release and from it on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import plugin
import published_pages
import pytest
import yaml

PROJECT = Path(__file__).parents[2]
UNPUBLISHED = re.compile("no image is published", re.IGNORECASE)
# Any file serves: only names are read.
ARCHIVES = dict.fromkeys(plugin.PLATFORMS, Path(__file__))
HELM = re.compile(r"helm (?:install|upgrade) cronhpa (\S+)(?:[^\n]|\\\n)*")


@pytest.fixture
def project(tmp_path):
    """The pages alone, and what else is rewritten."""
    for page in [*published_pages.pages(PROJECT), PROJECT / "deploy" / "kustomize" / "kustomization.yaml"]:
        copy = tmp_path / page.relative_to(PROJECT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)
    return tmp_path


def texts(project):
    return {page.relative_to(project): page.read_text() for page in published_pages.pages(project)}


def test_one_page_alone_says_that_no_image_is_published_until_a_release_rewrites_it(project):
    tracked = subprocess.check_output(["git", "ls-files", "*.md", "*.txt", "*.yaml"], cwd=PROJECT, text=True)
    said = [name for name in tracked.split() if UNPUBLISHED.search((PROJECT / name).read_text())]
    is_released = published_pages.CHART in (PROJECT / "README.md").read_text()

    assert ([] if is_released else ["docs/how-to/install.md"]) == said
    published_pages.rewrite(project)
    assert not UNPUBLISHED.search(str(texts(project)))


def test_from_a_release_on_each_command_of_helm_takes_the_published_chart_with_its_own_image(project):
    published_pages.rewrite(project)
    commands = [command for text in texts(project).values() for command in HELM.finditer(text)]

    assert len(commands) > 5
    assert {published_pages.CHART} == {command[1] for command in commands}
    assert not [command[0] for command in commands if "image.repository" in command[0]]
    assert "make image" not in (project / "docs" / "tutorial.md").read_text()


def test_from_a_release_on_the_commands_in_one_file_are_named_as_krew_and_homebrew_have_them(project):
    published_pages.rewrite(project)
    page = (project / "docs" / "how-to" / "install.md").read_text()

    assert f"kubectl krew install {yaml.safe_load(plugin.krew(ARCHIVES, '0.2.0'))['metadata']['name']}" in page
    assert f"brew install cronhpa/tap/{plugin.formula(ARCHIVES, '0.2.0').split()[1].lower()}" in page
    assert f"Python {plugin.PYTHONS[0]} to {plugin.PYTHONS[-1]} on Linux and macOS" in page


def test_the_next_release_changes_nothing(project):
    published_pages.rewrite(project)
    after_one = texts(project)
    published_pages.rewrite(project)

    assert after_one == texts(project)


def test_a_sentence_that_somebody_has_reworded_stops_the_release(project):
    page = project / "docs" / "how-to" / "install.md"
    page.write_text(f"{published_pages.UNPUBLISHED}, sorry.")

    with pytest.raises(
        SystemExit, match=r"docs/how-to/install\.md has 0 times what deploy/published_pages\.py rewrites"
    ):
        published_pages.rewrite(project)
