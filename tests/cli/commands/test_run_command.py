"""cronhpa.cli.commands.run: its settings, and the errors that end it at the start."""

import time

from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.operator.leader.election import Leadership, LeaseTiming
from cronhpa.operator.settings import Settings

run = CliRunner().invoke


def test_a_setting_that_cannot_be_is_named_as_its_environment_variable():
    ended = run(app, ["run"], env={"CRONHPA_SYNC_PERIOD": "soon", "CRONHPA_TOLERANCE": "2"})

    assert 2 == ended.exit_code
    assert [
        "CRONHPA_SYNC_PERIOD: 'soon' is no duration: write for example 1m30s",
        "CRONHPA_TOLERANCE: found '2': less than 1.0 is accepted",
    ] == ended.stderr.splitlines()


def test_what_is_accepted_is_said_in_the_words_of_this_project():
    environment = {
        "CRONHPA_TOLERANCE": "much",
        "CRONHPA_LOG_LEVEL": "inf",
        "CRONHPA_PROMETHEUS_URL": "ftp://me:secret@x",
    }
    ended = run(app, ["run"], env=environment)

    assert "CRONHPA_TOLERANCE: found 'much': a number belongs here\n" in ended.stderr
    assert (
        "CRONHPA_LOG_LEVEL: found 'inf': did you mean info? debug, info, warning or error is accepted" in ended.stderr
    )
    assert "secret" not in ended.stderr


def test_a_variable_that_is_no_setting_ends_it_at_the_start():
    ended = run(app, ["run"], env={"CRONHPA_TOLERENCE": "0.2"})

    assert 2 == ended.exit_code
    assert "CRONHPA_TOLERENCE: there is no such setting: did you mean CRONHPA_TOLERANCE?\n" == ended.stderr


def test_an_option_wins_over_the_environment():
    """The port of the environment is wrong too: it is not looked at."""
    ended = run(app, ["run", "--listen-port", "70000"], env={"CRONHPA_LISTEN_PORT": "-1"})

    assert 2 == ended.exit_code
    assert ended.stderr.startswith("CRONHPA_LISTEN_PORT: found 70000: ")


def test_its_clock_goes_on_while_the_machine_is_suspended(monkeypatch, tmp_path):
    """A Lease runs out meanwhile, so the fence must see it: after a minute of sleep no write may begin."""
    asleep = 0.0
    monkeypatch.setattr("time.clock_gettime", lambda clock: {time.CLOCK_BOOTTIME: 1000.0 + asleep}[clock])
    clocks = []
    monkeypatch.setattr("cronhpa.operator.app.main", lambda _settings, clock, _commit: clocks.append(clock) or 0)

    assert 0 == run(app, ["run", "--store", str(tmp_path / "history.db")]).exit_code
    (clock,) = clocks
    leadership = Leadership(LeaseTiming(), clock.monotonic)
    leadership.renewed(clock.monotonic(), 1, "me")
    before = leadership.write_seconds()
    asleep = 60.0

    assert (14.0, 0.0) == (before, leadership.write_seconds())


def test_a_cluster_that_cannot_be_reached_ends_it_with_one_line(tmp_path):
    missing = tmp_path / "config"

    ended = run(app, ["run", "--kubeconfig", str(missing), "--store", str(tmp_path / "history.db")])

    assert 1 == ended.exit_code
    assert ended.stderr.splitlines()[-1].startswith("cronhpa run: ")
    assert str(missing) in ended.stderr


def test_its_help_lists_every_setting_with_its_default():
    helped = " ".join(run(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout.split())

    for name in Settings.model_fields:
        assert f"CRONHPA_{name.upper()} (" in helped
    assert "CRONHPA_SYNC_PERIOD (15s): Time between two reconciliations of an object." in helped
