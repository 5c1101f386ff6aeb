"""cronhpa.cli.crd, cronhpa.cli.__main__: the resource's definition on a terminal or in a file."""

import subprocess
import sys

from cronhpa.api.crd import crd_text


def test_the_definition_is_printed_as_it_is():
    ended = subprocess.run([sys.executable, "-m", "cronhpa.cli", "crd"], capture_output=True, text=True, check=True)

    assert crd_text() == ended.stdout


def test_the_definition_is_written_to_the_file_asked_for(tmp_path):
    file = tmp_path / "crd.yaml"

    ended = subprocess.run([sys.executable, "-m", "cronhpa.cli", "crd", "-o", file], capture_output=True, check=True)

    assert (b"", crd_text()) == (ended.stdout, file.read_text("utf-8"))
