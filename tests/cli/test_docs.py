"""The page on schedules: each table in it is what the command beside it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cronhpa.cli import app

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "schedules.md"
BLOCK = re.compile(r"^    \$ (cronhpa .*)\n((?:    .*\n)*)", re.MULTILINE)


def printed(command):
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert 0 == result.exit_code, result.output
    return result.stdout.splitlines()


def blocks():
    return [(block[1], [line[4:] for line in block[2].splitlines()]) for block in BLOCK.finditer(PAGE.read_text())]


@pytest.mark.parametrize(("command", "shown"), blocks(), ids=[command for command, _ in blocks()])
def test_the_page_shows_what_the_command_prints(command, shown, monkeypatch):
    monkeypatch.chdir(PROJECT)

    assert printed(command) == shown


def test_every_example_with_schedules_is_on_the_page_and_every_link_leads_to_one():
    examples = list((PROJECT / "crds" / "examples").glob("*.yaml"))

    linked = set(re.findall(r"\(\.\./crds/examples/([a-z-]+\.yaml)\)", PAGE.read_text()))

    assert linked <= {path.name for path in examples}
    assert {path.name for path in examples if "schedules:" in path.read_text()} <= linked
