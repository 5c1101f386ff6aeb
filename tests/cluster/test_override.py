"""`cronhpa override` on a real control plane: set, seen, refused, taken back; and what NEXT says of it."""

from __future__ import annotations

import time

import pytest
from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.core.model.instant import HOUR, SECOND, parse_instant
from cronhpa.core.model.local_time import format_ahead
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture
def shop(control_plane, namespace, plant):
    """Two pods at a load of 0.1 cores, which needs one: the spec's minimum of 2 holds."""
    made = Scaled(control_plane, namespace, "web", replicas=2, minReplicas=2, timeZone="Europe/Berlin")
    plant.add_target(namespace, made.labels, 0.1)
    made.says("Ready", "True", "Deciding")
    return made


@pytest.fixture
def override(control_plane, namespace):
    def run(*options):
        arguments = ["override", "web", "-n", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig)]
        return CliRunner().invoke(app, [*arguments, *options])

    return run


@pytest.fixture
def stored(control_plane, namespace):
    """The override that the API has, None where it has none."""
    path = f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas/web"
    return lambda: control_plane.get(path)["spec"].get("override")


def joined(text):
    """What lines of 80 columns say, as one line."""
    return " ".join(text.split())


def next_of(plane, shop):
    """The column NEXT, in words: none where nothing comes. TARGETS is two words and STATUS the eighth."""
    return plane.kubectl("get", "chpa", "web", "-n", shop.namespace, "--no-headers").split()[8:-1]


@pytest.mark.slow
def test_an_override_holds_until_it_is_taken_back_and_next_names_its_end(shop, override, stored, control_plane):
    assert [] == next_of(control_plane, shop)
    before = time.time_ns()

    done = override("--min", "5", "--for", "2h", "--reason", "INC-4711")

    assert 0 == done.exit_code, done.stderr
    # Found: "for 2 h" and "more: INC-4711" on two lines, as if `more` were a field.
    assert "(in 2 h): INC-4711" in joined(done.stdout)
    until = parse_instant(stored()["until"])
    assert 0 <= until - (before + 2 * HOUR) < 60 * SECOND
    assert {"minReplicas": 5, "until": stored()["until"], "reason": "INC-4711"} == stored()
    first, then = joined(done.stdout).split(" in force now: ")
    assert first.startswith(f"{shop.namespace}/web: at least 5 replicas until ")
    assert first.endswith(": INC-4711")
    assert "5 (Override) to 20 (Spec); 2 replicas when last seen from then on: 2 (Spec) to 20 (Spec)" == then
    shop.reaches(5)
    wait_until(lambda: shop.decided_by, lambda by: by == "Override")
    assert format_ahead(until, "Europe/Berlin", before).split() == next_of(control_plane, shop)

    replaced = override("--replicas", "3", "--until", "2099-01-01T00:00:00Z", "--reason", "less will do")

    assert {"replicas", "until", "reason"} == set(stored())
    assert " it replaces: at least 5 replicas until " in joined(replaced.stdout)
    shop.reaches(3)

    cleared = override("--clear")

    assert 0 == cleared.exit_code, cleared.stderr
    assert joined(cleared.stdout).startswith(f"{shop.namespace}/web: taken back: exactly 3 replicas until ")
    assert stored() is None
    shop.reaches(2)
    wait_until(lambda: next_of(control_plane, shop), lambda words: not words)
    assert "there is no override to take back" in joined(override("--clear").stdout)
    told = wait_until(lambda: told_of_overrides(shop), lambda events: len(events) == 3)
    assert set(PARTS) == {part for part in PARTS for event in told if part in event}


PARTS = (
    ": override until ",
    ": override replaced, until 2099-01-01; exactly 3 allowed",
    ": override taken back before 2099-01-01",
)


def told_of_overrides(shop):
    return [event for event in shop.events() if event.startswith(("OverrideSet: ", "OverrideEnded: "))]


def test_what_is_tried_or_refused_changes_nothing(shop, override, stored):
    tried = override("--min", "5", "--for", "2h", "--reason", "INC-4711", "--dry-run")
    long = override("--min", "5", "--for", "2h", "--reason", "x" * 257)
    past = override("--min", "5", "--until", "2026-01-01T08:00", "--reason", "late")
    shown = override()

    assert (0, True) == (tried.exit_code, "/web: would be at least 5 replicas until " in joined(tried.stdout))
    assert (1, "") == (long.exit_code, long.stdout)
    assert "/web: 5 is more than twice the 2 replicas that" in joined(long.stderr)
    assert "spec.override.reason: Too long" in long.stderr
    assert 2 == past.exit_code
    assert "Thu 2026-01-01 08:00 +01:00 is past" in " ".join(past.stderr.replace("│", " ").split())
    now = "in force now: 2 (Spec) to 20 (Spec); 2 replicas when last seen"
    assert f"{shop.namespace}/web: no override {now}" == joined(shown.stdout)
    assert stored() is None


def test_what_a_person_may_not_have_meant_is_named_or_refused_before_it_is_written(shop, override, stored):
    """2 replicas of at most 20."""
    refused = override("--min", "50", "--for", "2h", "--reason", "INC-4711")
    named = override("--min", "5", "--for", "31d", "--reason", "INC-4711", "--dry-run")
    meant = override("--max", "50", "--for", "2h", "--reason", "INC-4711", "--above-max")

    assert 2 == refused.exit_code
    assert "50 is above the 20 that the object allows" in " ".join(refused.stderr.replace("│", " ").split())
    assert "/web: 5 is more than twice the 2 replicas that there were when last seen\n" in named.stderr
    assert "/web: it lasts 31 d, until " in named.stderr
    assert (0, "") == (meant.exit_code, meant.stderr)
    assert 50 == stored()["maxReplicas"]


def test_an_object_that_is_not_there_is_named(control_plane, namespace):
    result = CliRunner().invoke(
        app, ["override", "none", "-n", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig)]
    )

    assert 1 == result.exit_code
    assert result.stderr.startswith(f"cronhpa override: there is no CronHPA none in namespace {namespace}: ")


def test_a_preview_of_a_live_object_counts_its_override(shop, override, namespace, control_plane):
    override("--min", "5", "--for", "2h", "--reason", "INC-4711")

    arguments = ["preview", "web", "-n", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig), "--to", "1d"]
    result = CliRunner().invoke(app, arguments)

    assert 0 == result.exit_code, result.stderr
    first, then = (line.split() for line in result.stdout.splitlines()[4:6])
    assert ["5", "20", "override", "(min)"] == first[-4:], result.stdout
    assert ["2", "20"] == then[-2:], result.stdout
