"""What was asked for and taken back, on a real control plane: it is held, and neither pursued nor told untruly."""

from __future__ import annotations

import time

import pytest

from cronhpa.core.model.instant import MINUTE, SECOND, format_instant
from testbed.twin import Scaled
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("operator")

# So that kubectl takes back what it set before the next period, also on a busy machine.
SYNC_SECONDS = 8
# Longer than two of them, shorter than the window of five minutes.
WATCHED_SECONDS = 18
UNTIL = {"until": "2099-01-01T00:00:00Z", "reason": "INC-4711"}


@pytest.fixture
def shop(control_plane, namespace, plant):
    """Four pods of which one would do, without a behavior: at most twice as many each time, and a window of 300 s."""
    made = Scaled(
        control_plane,
        namespace,
        "web",
        replicas=4,
        maxReplicas=60,
        minReplicas=4,
        behavior=None,
        syncPeriodSeconds=SYNC_SECONDS,
    )
    plant.add_target(namespace, made.labels, 0.1)
    made.says("Ready", "True", "Deciding")
    return made


def stays(shop, replicas):
    """Asserts that the number stays the same for WATCHED_SECONDS."""
    end = time.monotonic() + WATCHED_SECONDS
    while time.monotonic() < end:
        assert replicas == shop.replicas
        time.sleep(0.5)


@pytest.mark.slow
def test_an_override_of_nine_on_four_that_is_taken_back_at_eight_stays_at_eight(shop):
    """`override --min 9`: 4 -> 8. Taken back, it went on to 9."""
    shop.patch(override={"minReplicas": 9, **UNTIL})
    shop.reaches(8)
    shop.patch(override=None)

    stays(shop, 8)
    decision = shop.status["decision"]
    (step,) = decision["steps"]
    # While the new pods have no metrics the metric asks for as many as there are, later than the override did.
    assert ("ScaleDownStabilized", 8) == (step["rule"], step["to"])
    assert (step["asked"], step["by"]) in {(9, "Override"), (8, "Metric/cpu")}
    assert step["by"] == decision["decidedBy"]
    words = f"{step['asked']} asked for at {step['time']} by {step['by']}, until {step['until']}"
    assert f"8 held by stabilization: {words}" in decision["reason"]


@pytest.mark.slow
def test_fifty_typed_for_five_stays_where_it_got_to(shop):
    """8 of 60, and replaced by 5 before the next reconciliation: not 16."""
    shop.patch(override={"minReplicas": 50, **UNTIL})
    shop.reaches(8)
    shop.patch(override={"minReplicas": 5, **UNTIL})

    stays(shop, 8)


@pytest.mark.long
def test_the_floor_of_an_event_that_closes_on_the_way_is_held(shop):
    """A floor of 50 for two seconds: 4 -> 8, or -> 16 where two reconciliations come before its end. There it stays."""
    begin = time.time_ns()
    closes = begin // MINUTE * MINUTE + MINUTE
    if closes - begin < 8 * SECOND:
        closes += MINUTE
    time.sleep(max(closes - 2 * SECOND - time.time_ns(), 0) / SECOND)
    window = {"from": format_instant(begin - 10 * MINUTE)[:16], "to": format_instant(closes)[:16]}
    shop.patch(schedules=[{"name": "sale", **window, "timeZone": "UTC", "minReplicas": 50}])
    time.sleep(max(closes + SECOND - time.time_ns(), 0) / SECOND)
    reached = shop.replicas

    assert reached in {8, 16}
    stays(shop, reached)
    assert f"{reached} held by stabilization" in shop.status["decision"]["reason"]


def test_events_say_why_and_never_nothing(shop):
    shop.patch(override={"minReplicas": 9, **UNTIL})
    shop.reaches(9)

    told = wait_until(shop.events, lambda seen: any("New size: 9" in event for event in seen))
    rescales = [event for event in told if event.startswith("SuccessfulRescale: ")]
    assert 2 == len(rescales)
    assert all("reason: Override asks for at least 9" in rescale for rescale in rescales)


def test_what_a_metric_asks_for_is_followed_as_far_as_it_goes(shop, plant, namespace):
    """Six cores at half a core for each pod are 12: 4 -> 8 -> 12 beside an override that asks for less."""
    shop.patch(override={"minReplicas": 5, **UNTIL})
    plant.add_target(namespace, shop.labels, 6.0)

    wait_until(lambda: shop.replicas, lambda seen: seen >= 9, within_s=30)
    assert "Metric/cpu" == wait_until(lambda: shop.decided_by, lambda by: by == "Metric/cpu")
