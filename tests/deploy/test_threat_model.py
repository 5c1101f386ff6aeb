"""docs/engineering/security.md: the tests that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "engineering" / "security.md").read_text()
# A line above a list names the file of those that stand there by their names alone.
NAMED = re.compile(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)`")


def named():
    file = ""
    for line in PAGE.splitlines():
        heading = re.match(r"Tests are in `(tests/[\w/]+\.py)`", line)
        file = heading[1] if heading else file
        for path, name in NAMED.findall(line):
            yield path or file, name


@pytest.mark.parametrize(("path", "name"), sorted(set(named())))
def test_a_test_that_the_threat_model_names_is_there(path, name):
    assert re.search(rf"^(async )?def {name}\(", (PROJECT / path).read_text(), re.MULTILINE)


def test_each_attack_of_the_threat_model_names_a_test_or_what_is_still_to_come():
    attacks = [line for line in PAGE.splitlines() if line.startswith("- **")]

    assert len(attacks) > 70
    assert [] == [line for line in attacks if not re.search(r"`(tests/[\w/.]+::)?test_\w+`|TODO-P\d+", line)]
