"""cronhpa.cli.commands.crd, cronhpa.cli.__main__: the resource's definition on a terminal or in a file."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from cronhpa.api.crd import KINDS, crd_text, crd_texts
from cronhpa.cli import app


def test_the_definition_is_printed_as_it_is():
    ended = subprocess.run([sys.executable, "-m", "cronhpa.cli", "crd"], capture_output=True, text=True, check=True)

    assert crd_texts() == ended.stdout


def test_the_definition_is_written_to_the_file_asked_for(tmp_path):
    file = tmp_path / "crd.yaml"

    answer = CliRunner().invoke(app, ["crd", "-o", str(file)])

    assert (0, "", crd_texts()) == (answer.exit_code, answer.stdout, file.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "is_older"), [("1.30", True), ("v1.33.12", True), ("1.34", False), ("1.36.3", False)]
)
def test_the_definition_is_that_of_the_api_servers_version(version, is_older):
    answer = CliRunner().invoke(app, ["crd", "--kubernetes", version])

    assert crd_texts(before_1_34=is_older) == answer.stdout


@pytest.mark.parametrize("of", KINDS, ids=lambda of: of.kind)
def test_the_definition_of_one_kind_is_printed_alone(of):
    assert crd_text(of) == CliRunner().invoke(app, ["crd", "--kind", of.kind]).stdout


def test_a_kind_that_is_not_ours_is_refused_with_ours():
    answer = CliRunner().invoke(app, ["crd", "--kind", "Deployment"])

    assert (2, "") == (answer.exit_code, answer.stdout)
    assert "ClusterPlannedEvent" in answer.stderr


@pytest.mark.parametrize("version", ["1.29", "2.0", "newest", "1.", "1.3O"])
def test_a_version_that_no_text_is_for_is_refused_with_those_that_are_accepted(version):
    answer = CliRunner().invoke(app, ["crd", "--kubernetes", version])

    assert (2, "") == (answer.exit_code, answer.stdout)
    assert f'found "{version}"' in answer.stderr
    assert "from 1.30 on" in " ".join(answer.stderr.replace("│", " ").split())
