"""cronhpa.cli.commands.replay: records in, decisions out, and an exit code for scripts."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from core.situations import situations
from cronhpa.cli import app
from cronhpa.core.decide import decide
from cronhpa.core.model.record import Record, encode

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


def test_a_line_that_is_no_record_is_named_by_its_number(tmp_path):
    file = tmp_path / "records"
    file.write_text("\n{}\nno JSON\n")

    ended = run(app, ["replay", str(file)])

    assert (1, "") == (ended.exit_code, ended.stdout)
    assert [f"{file}:2: no record", f"{file}:3: no record"] == [
        line[: len(f"{file}:2: no record")] for line in ended.stderr.splitlines()
    ]


@pytest.mark.parametrize("text", ["kind: CronHPA\nspec: {maxReplicas: 3}\n", '{\n  "kind": "CronHPA"\n}\n', ""])
def test_a_file_without_any_record_is_told_in_one_line(tmp_path, text):
    file = tmp_path / "shop.yaml"
    file.write_text(text)

    ended = run(app, ["replay", str(file)])

    assert (1, "", 1) == (ended.exit_code, ended.stdout, ended.stderr.count("\n"))
    assert ended.stderr.startswith(f"cronhpa replay: {file}: no line of it is a record")
    assert ended.stderr.endswith("a manifest is shown by cronhpa preview FILE\n")
