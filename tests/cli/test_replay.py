"""cronhpa.cli.replay: records in, decisions out, and an exit code for scripts."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from core.situations import situations
from cronhpa.cli import app
from cronhpa.core.decide import decide
from cronhpa.core.record import Record, encode

run = CliRunner().invoke


@given(situations())
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_record_is_decided_as_it_was(tmp_path, situation):
    spec, observation, _, memory, now = situation  # JSON has no NaN, which a forecast may have
    situation = (spec, observation, None, memory, now)
    file = tmp_path / "records"
    file.write_text(encode(Record(*situation)) + "\n\n", "utf-8")

    ended = run(app, ["replay", str(file)])

    assert 0 == ended.exit_code
    assert [decide(*situation).desired] == [json.loads(line)["desired"] for line in ended.stdout.splitlines()]


@pytest.mark.parametrize("line", ["{}", "no JSON"])
def test_a_line_that_is_no_record_is_named_by_its_number(tmp_path, line):
    file = tmp_path / "records"
    file.write_text(f"\n{line}\n")

    ended = run(app, ["replay", str(file)])

    assert (1, "") == (ended.exit_code, ended.stdout)
    assert ended.stderr.startswith(f"{file}:2: ")
