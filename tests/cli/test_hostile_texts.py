"""
cronhpa.cli.terminal.console: names and messages are a tenant's texts, and a
terminal obeys nothing in them.
"""

import json

import pytest
import yaml
from typer.testing import CliRunner

from cronhpa.api.explained.explanation_text import explained
from cronhpa.cli import app
from cronhpa.cli.terminal.console import say, show
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.store import Store

# Clears the screen, sets the title, makes a link, turns the text round, and ends the line.
HOSTILE = "x\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil\x1b\\y\x9b1m\u202ez\r\n[red]all is well[/red] :smile:"
DANGEROUS = set("\x1b\x07\x9b\u202e\r\u2028")


def manifest(**changed):
    window = {"name": "day", "minReplicas": 2, "start": "0 8 * * *", "durationMinutes": 60}
    meta = {"name": "shop", "namespace": "prod"}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, "schedules": [window]}
    return {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": meta, "spec": spec} | changed


def is_harmless(text):
    return not DANGEROUS & set(text)


def test_a_line_stays_a_line_of_what_it_is_and_a_block_keeps_its_lines(capsys):
    say(HOSTILE)
    show("a\nb\x1b")
    printed = capsys.readouterr().out

    assert is_harmless(printed)
    assert ["  [red]all is well[/red] :smile:", "a", "b\\u001b"] == printed.splitlines()[1:]


def test_explain_shows_a_tenants_words_as_they_are(served, cronhpa):
    condition = {"type": "Ready", "status": "False", "reason": "x", "message": HOSTILE}
    proposal = {"source": HOSTILE, "name": "n", "role": "Floor", "replicas": 2, "reason": HOSTILE}
    status = {"conditions": [condition], "decision": {"reason": HOSTILE, "proposals": [proposal]}, "target": HOSTILE}
    body = manifest(status=status)
    served.hold(body)

    result = cronhpa("explain", "shop", "-n", "prod")

    assert 0 == result.exit_code, result.output
    assert HOSTILE in "".join(explained(body, 0))
    assert is_harmless(result.output)
    assert "[red]all is well[/red] :smile:" in " ".join(result.output.split())
    # No line begins where ours begin.
    begins = {line[:4] for line in result.output.splitlines() if not line.startswith(" ")}
    assert begins <= {"prod", "Boun", "Next"}


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("field", ["name", "target", "schedule", "zone", "unknown"])
def test_preview_of_a_file_shows_a_tenants_words_as_they_are(tmp_path, field, output):
    body = manifest()
    places = {
        "name": (body["metadata"], "name"),
        "target": (body["spec"]["scaleTargetRef"], "name"),
        "schedule": (body["spec"]["schedules"][0], "name"),
        "zone": (body["spec"], "timeZone"),
        "unknown": (body["spec"], HOSTILE),
    }
    place, key = places[field]
    # Names of schedules and zones are short; one of a target has no slash.
    place[key] = HOSTILE[:40] if field in {"schedule", "zone"} else HOSTILE.replace("/", "")
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump(body))
    result = CliRunner().invoke(app, ["preview", str(file), "--output", output], color=True)

    # No object can have such a name, or zone.
    assert (0 if field in {"target", "schedule"} else 1) == result.exit_code, result.output
    # The JSON says nothing of the target.
    is_told = (field, output) != ("target", "json")
    assert is_told == ("[2J" in result.output)
    assert is_harmless(result.output), result.output
    if result.exit_code == 0 and output == "json" and is_told:
        assert HOSTILE[:9] in json.dumps(json.loads(result.stdout), ensure_ascii=False).replace("\\u001b", "\x1b")


def test_history_list_shows_a_metrics_name_as_it_is(tmp_path):
    store = Store(tmp_path / "h.db")
    store.loads.backfill(Series("prod", "shop", "\x1b[2J[red]q"), [(STEP * 1000, 1.0), (STEP * 1001, 2.0)])
    store.close()
    result = CliRunner().invoke(app, ["history", "list", "--store", str(tmp_path / "h.db")], color=True)

    assert 0 == result.exit_code, result.output
    assert is_harmless(result.output)


def test_convert_and_backtest_tell_of_a_file_without_obeying_it(tmp_path):
    file = tmp_path / "odd.yaml"
    file.write_text(yaml.safe_dump(manifest(kind=HOSTILE) | {"metadata": {"name": HOSTILE}}))
    for command in (["convert", str(file)], ["backtest", str(file), "--history", str(file)]):
        result = CliRunner().invoke(app, command, color=True)
        assert result.exit_code, command
        assert is_harmless(result.output), command
