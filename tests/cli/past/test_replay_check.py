"""cronhpa.cli.past.replay_check: by `cronhpa replay --at` it is the same again, or what differs is named."""

import json

import pytest

from cli.past_life import at, body, command, kept, life, write_life
from cronhpa.core.model.record import encode
from cronhpa.history.past.past_decision import NOTHING
from cronhpa.history.store import Store


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "history.db"
    write_life(path)
    return path


def replay(path, *options):
    return command("replay", "shop", "-n", "prod", "--store", str(path), *options)


@pytest.mark.parametrize("hour", range(5))
def test_each_decision_is_decided_again_as_it_was(path, hour):
    done = replay(path, "--at", at(hour))

    assert 0 == done.exit_code, done.output
    assert 1 == len(done.stdout.splitlines())
    assert ": the same again: " in done.stdout


@pytest.fixture
def forged(tmp_path):
    """A store of one decision whose status, inputs or both are given."""

    def make(change_status=None, inputs=None):
        record, status = list(life())[1]
        status = json.loads(json.dumps(status))
        if change_status is not None:
            change_status(status)
        path = tmp_path / "forged.db"
        store = Store(path)
        store.decisions.record([kept(record.now, body(status), encode(record).encode() if inputs is None else inputs)])
        store.close()
        return path

    return make


def test_a_decision_that_differs_today_is_named_field_by_field(forged):
    def otherwise(status):
        status["desiredReplicas"] = 7
        status["decision"]["proposals"][0]["replicas"] = 7

    done = replay(forged(otherwise), "--at", "now")

    heading, *lines = done.stdout.splitlines()
    assert 1 == done.exit_code
    assert heading.endswith(": 2 fields differ:")
    assert ["  desiredReplicas: 7 then, 6 now", "  decision.proposals[0].replicas: 7 then, 6 now"] == lines


def test_a_field_that_a_later_release_added_is_no_difference(forged):
    assert 0 == replay(forged(lambda status: status["decision"].pop("proposals")), "--at", "now").exit_code


@pytest.mark.parametrize("inputs", [b'{"spec":{"unheard":1}}', b"[]", b"7", bytes(NOTHING)])
def test_a_record_of_another_release_that_cannot_be_decided_again_is_shown_and_says_so(forged, inputs):
    path = forged(inputs=inputs)

    assert 0 == command("explain", "shop", "-n", "prod", "--store", str(path), "--at", "now").exit_code
    done = replay(path, "--at", "now")

    assert 3 == done.exit_code
    assert "release 0.1.0 wrote it" in done.stderr or "the spec could not be read" in done.stderr


def test_replay_without_a_time_needs_a_file(path):
    done = command("replay", "shop")

    assert 2 == done.exit_code
