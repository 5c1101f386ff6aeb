"""cronhpa.cli.objects.stated_options: preview, backtest and override decide by the settings of the operator."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cli.commands.test_backtest import CPU, REQUEST, csv, hours
from cli.commands.test_preview import MONDAY, SHOP
from cli.objects.test_object_inputs import live
from cronhpa.cli import app
from cronhpa.cli.commands.override import in_force
from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.core.model.spec import ControllerOptions


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command on files in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def ended(files, *arguments):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        return CliRunner().invoke(app, [*arguments])

    return ended


def test_a_lead_is_as_long_as_with_the_operators_sync_period(run, monkeypatch):
    """Four reconciliations to 20, and 2 min for a pod: 3 min where they are 15 s apart, 6 min where they are 60 s."""
    files = {"shop.yaml": SHOP.replace(", leadTimeSeconds: 0", "")}
    arguments = ("preview", "shop.yaml", *MONDAY, "--pod-startup", "2m")
    by_default = run(files, *arguments)
    monkeypatch.setenv("CRONHPA_SYNC_PERIOD", "60s")
    stated = run(files, *arguments)

    assert "07:57" in by_default.stdout
    assert "" == by_default.stderr
    assert "07:54" in stated.stdout
    assert "cronhpa preview: it decides by CRONHPA_SYNC_PERIOD=60s\n" == stated.stderr


def test_a_tolerance_that_forgives_the_rise_keeps_the_pods_of_a_backtest(run, monkeypatch):
    """7.2 cores of 0.6 per pod are 12 pods, and 6 are 10: 1.2 times the target is above 1.1 of it, and below 1.3."""
    files = {"shop.yaml": CPU, "load.csv": csv().replace(",12", ",7.2")}
    arguments = ("backtest", "shop.yaml", "--history", "load.csv", *REQUEST, *hours("09:00", "11:00"), "-o", "json")
    by_default = run(files, *arguments)
    monkeypatch.setenv("CRONHPA_TOLERANCE", "0.3")
    monkeypatch.setenv("CRONHPA_DOWNSCALE_STABILIZATION", "0s")
    stated = run(files, *arguments)

    assert [12, 10] == [
        json.loads(ended.stdout)["variants"]["reactive"]["mostReplicas"] for ended in (by_default, stated)
    ]
    assert (
        "cronhpa backtest: it decides by CRONHPA_TOLERANCE=0.3, CRONHPA_DOWNSCALE_STABILIZATION=0s\n" == stated.stderr
    )


def test_the_bounds_beside_an_override_are_those_of_the_operators_sync_period():
    """2 to 20 in four reconciliations and a minute for a pod: 6 min ahead of 08:00 with 75 s, 2 min with 15 s."""
    body = live("prod")
    body["spec"] |= {"timeZone": "UTC"}
    body["status"]["memory"] = {
        "version": 1, "recommendations": [], "scaleUpEvents": [], "scaleDownEvents": [], "startUpSeconds": 60,
    }  # fmt: skip
    at = parse_instant("2026-11-23T07:56:00Z")

    assert "  in force now: 2 (Spec) to 120 (Spec)" == in_force(body, at)[0]
    assert (
        "  in force now: 20 (Schedule/day) to 120 (Spec)"
        == in_force(body, at, ControllerOptions(sync_period=75 * SECOND))[0]
    )


def test_an_object_of_the_cluster_is_read_by_the_operators_settings(served, cronhpa, monkeypatch):
    served.hold(live("prod"))
    monkeypatch.setenv("CRONHPA_SYNC_PERIOD", "60s")

    for command in (("preview", "shop", *MONDAY, "--pod-startup", "2m"), ("override", "shop")):
        ended = cronhpa(*command)

        assert (0, f"cronhpa {command[0]}: it decides by CRONHPA_SYNC_PERIOD=60s\n") == (ended.exit_code, ended.stderr)
        assert command[0] == "override" or "07:54" in ended.stdout


@pytest.mark.parametrize("command", ["preview", "backtest", "override"])
def test_a_setting_that_is_wrong_is_named_and_no_other_of_the_operator_is_read(run, monkeypatch, command):
    monkeypatch.setenv("CRONHPA_SHARDS", "none")
    monkeypatch.setenv("CRONHPA_SYNC_PERIOD", "0s")

    ended = run({"shop.yaml": SHOP}, command, "shop.yaml")

    assert 2 == ended.exit_code
    assert f"cronhpa {command}: CRONHPA_SYNC_PERIOD: '0s' must be longer than nothing: write for example 15s\n" == (
        ended.stderr
    )
