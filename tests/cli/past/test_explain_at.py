"""
cronhpa.cli.past.past_text, cronhpa.cli.picture.history_picture, cronhpa.history.past.past_answers: past decisions
explained.
"""

import json
import re

import pytest

from cli.past_life import NOW, at, body, command, kept, life, write_life
from cronhpa.api.explained.explanation_text import explained, folded
from cronhpa.core.model.instant import HOUR
from cronhpa.core.model.record import encode
from cronhpa.history.store import Store
from history.samples import write_version_1


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "history.db"
    write_life(path)
    return path


def explain(path, *options, columns=200):
    return command("explain", "shop", "-n", "prod", "--store", str(path), *options, columns=columns)


def test_a_decision_is_told_word_for_word_as_it_was(path):
    record, status = list(life())[1]

    done = explain(path, "--at", at(1.5))

    heading, *lines = done.stdout.splitlines()
    then = [part for line in explained(body(status), record.now, spec=record.spec) for part in folded(line)]
    assert then == lines
    assert heading.startswith("Decided ")
    assert " +05:30, in force until " in heading


def test_the_newest_decision_says_that_it_is(path):
    assert ", still the newest:" in explain(path, "--at", "now").stdout


def test_a_decision_is_not_in_force_until_a_time_to_come(path):
    """Kept while the operator's clock was two hours ahead."""
    record, status = list(life())[1]
    store = Store(path)
    store.decisions.record([kept(NOW + 2 * HOUR, body(status), encode(record).encode())])
    store.close()

    assert ", still the newest:" in explain(path, "--at", "now").stdout
    assert json.loads(explain(path, "--at", "now", "-o", "json").stdout)["until"] is None


def test_a_decision_as_json_holds_the_object_and_the_inputs_of_the_decision(path):
    record, status = list(life())[2]

    told = json.loads(explain(path, "--at", at(2), "-o", "json").stdout)

    assert json.loads(json.dumps(body(status))) == told["object"]
    assert json.loads(encode(record)) == told["inputs"]
    assert ("0.1.0", 0) == (told["release"], told["changesLeftOut"])


def test_a_timeline_has_a_row_for_each_change_beginning_with_what_was_in_force(path):
    done = explain(path, "--from", at(0.5), "--to", "4h")

    heading, names, *rows, points = done.stdout.splitlines()
    assert heading.startswith("prod/shop: ")
    assert heading.endswith(", 4 h")
    assert ["TIME", "REPLICAS", "DECIDED BY", "WHY"] == [name.strip() for name in names.split("  ") if name.strip()]
    days = [row for row in rows if row[:1].isalpha()]
    assert [] == [day for day in days if not re.fullmatch(r"\w{3} \d{4}-\d\d-\d\d", day)]
    begin = names.index("REPLICAS")
    counts = [row[begin : begin + 8].strip() for row in rows if row[:1].isdigit()]
    assert ["4", "4 -> 6", "6 -> 8", "8", "8 -> 4"] == counts
    assert [] == [row for row in rows if len(row) > 80]
    assert points.startswith("44 points: 4 to 6 replicas, load 3 to 7.")


@pytest.mark.parametrize("columns", [40, 60])
def test_in_a_narrow_terminal_the_reason_stands_below_its_change_and_nothing_is_cut(path, columns):
    """Found: columns of eight letters, times and names cut by an ellipsis, and the escapes of bold as text."""
    options = ("--from", at(0.5), "--to", "4h")
    wide = explain(path, *options).stdout

    done = explain(path, *options, columns=columns).stdout

    assert columns >= max(map(len, done.splitlines()))
    assert "\u2026" not in done
    assert "\\u001b" not in done
    assert set(wide.split()) - {"TIME", "REPLICAS", "DECIDED", "BY", "WHY"} == set(done.split())
    assert re.search(r"^\d\d:\d\d(?::\d\d)? \+05:30  4 -> 6  Metric/cpu\n  cpu asks for 6$", done, re.MULTILINE), done


def test_a_timeline_of_a_coloured_terminal_has_no_escapes_as_text(path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert "u001b" not in explain(path, "--from", at(0.5), "--to", "4h").stdout


def test_a_past_decision_fits_its_terminal(path):
    assert 40 >= max(map(len, explain(path, "--at", at(1.5), columns=40).stdout.splitlines()))


def test_a_timeline_as_json_is_the_same(path):
    told = json.loads(explain(path, "--from", at(0.5), "--to", "4h", "-o", "json").stdout)

    assert 4 == told["before"]["desiredReplicas"]
    assert [6, 8, 8, 4] == [change["desiredReplicas"] for change in told["changes"]]
    assert told["moreFrom"] is None
    assert 44 == len(told["points"])


def test_a_timeline_longer_than_the_history_says_when_the_history_begins(path):
    assert "  decisions are kept from " in explain(path, "--from", "2d ago").stdout


def test_a_picture_is_drawn_of_the_timeline(path, tmp_path):
    picture = tmp_path / "past.svg"

    done = explain(path, "--from", at(0), "--picture", str(picture))

    text = picture.read_text()
    assert (0, f"drawn: {picture}\n") == (done.exit_code, done.stderr)
    for words in ("prod/shop", "Asia/Kolkata", "desired replicas", "ready pods", "cap: maxReplicas in force (20)"):
        assert words in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--at", "tomorrow"], "is no time"),
        (["--at", "now", "--from", "2h ago"], "the decision of one moment, or a span"),
        (["--from", "now", "--to", "2h ago"], "must be after the begin"),
        (["--from", "2h ago", "--to", "soon"], "is no time"),
        (["--at", "now", "-o", "yaml"], "is not one of"),
        (["--from", "2h ago", "--picture", "past.gif"], "must end in .svg or .png"),
    ],
)
def test_options_that_make_no_sense_are_refused(path, options, words):
    done = explain(path, *options)

    assert 2 == done.exit_code
    assert words in " ".join(done.stderr.replace("│", " ").split())


def test_a_time_that_is_too_old_is_answered_with_the_oldest_one_kept(path):
    done = explain(path, "--at", "6h ago")

    assert (1, "") == (done.exit_code, done.stdout)
    assert "kept from " in done.stderr


def test_an_object_without_decisions_is_named_with_what_to_look_at(path):
    done = command("explain", "cart", "-n", "prod", "--store", str(path), "--at", "now")

    assert 1 == done.exit_code
    assert "prod/cart: no decision is kept of it, or not for you" in done.stderr
    # Found: a replica that never led was asked alone.
    assert "A replica has what it decided while it led: if --operator names one, name all" in done.stderr


def test_a_store_of_an_earlier_release_is_told_as_such(tmp_path):
    path = tmp_path / "old.db"
    write_version_1(path)

    done = explain(path, "--at", "now")

    assert 1 == done.exit_code
    assert "a release before past decisions wrote it" in done.stderr


def test_a_store_that_is_not_there_is_told(tmp_path):
    done = explain(tmp_path / "absent.db", "--at", "now")

    assert (1, True) == (done.exit_code, "absent.db" in done.stderr)
