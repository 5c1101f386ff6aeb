"""Calendars on a real API server: a file that a ConfigMap mounts, a feed, and what happens when one breaks."""

from datetime import UTC, datetime

import pytest
import yaml

from calendars.calendar_texts import ics
from testbed.control_plane import ControlPlane
from testbed.objects import deployment
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.twin import cron_hpa
from testbed.wait import wait_until

pytestmark = pytest.mark.long  # a control plane of its own

API = "/apis/cronhpa.io/v1alpha1/namespaces/default/cronhpas"
TODAY = f"{datetime.now(UTC):%Y%m%d}"
CLOSED = f"SUMMARY:Inventory|DTSTART;VALUE=DATE:{TODAY}|DURATION:P2D"
LATER = "SUMMARY:Inventory|DTSTART;VALUE=DATE:20990101"
ALWAYS = {"name": "open", "start": "0 * * * *", "durationMinutes": 120, "minReplicas": 6, "leadTimeSeconds": 0}


@pytest.fixture(scope="module")
def plane():
    with ControlPlane() as made:
        made.install_chart()
        yield made


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calendars")
    (folder / "company.ics").write_bytes(ics(CLOSED))
    (folder / "sales.ics").write_bytes(ics(LATER))
    named = {name: {"file": str(folder / f"{name}.ics")} for name in ("company", "sales")}
    (folder / "calendars.yaml").write_text(yaml.safe_dump({"calendars": named}))
    return folder


@pytest.fixture(scope="module")
def plant(plane, files, tmp_path_factory):
    kubeconfig = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    with (
        Plant(plane.admin_kubeconfig) as plant,
        Operator(kubeconfig, tmp_path_factory.mktemp("operator"), calendars=str(files / "calendars.yaml")),
    ):
        yield plant


def workload(plane, plant, name, **spec):
    plane.apply(deployment(name, namespace="default", replicas=2))
    plant.add_target("default", {"app": name}, 0.5)
    plane.apply(cron_hpa(name, "default", minReplicas=2, maxReplicas=9, **spec))


def becomes(plane, name, count):
    path = f"/apis/apps/v1/namespaces/default/deployments/{name}"
    wait_until(lambda: plane.get(path)["spec"]["replicas"], lambda seen: seen == count, within_s=60, every_s=0.3)


def conditions(plane, name):
    status = plane.get(f"{API}/{name}").get("status", {})
    return {one["type"]: (one["status"], one["message"]) for one in status.get("conditions", [])}


def test_a_window_does_not_open_on_a_day_of_a_calendar_until_the_calendar_says_otherwise(plane, plant, files):
    """A broken calendar changes nothing and is told; a good one lets the window open."""
    workload(plane, plant, "usual", schedules=[ALWAYS])
    workload(plane, plant, "shop", schedules=[ALWAYS | {"exclude": {"calendars": ["company"]}}])
    becomes(plane, "usual", 6)
    becomes(plane, "shop", 2)

    (files / "company.ics").write_bytes(ics(LATER)[:-20])
    told = wait_until(
        lambda: conditions(plane, "shop"), lambda seen: "CalendarsCurrent" in seen, within_s=90, every_s=0.5
    )
    assert "False" == told["CalendarsCurrent"][0]
    assert "is as it was last read: since " in told["CalendarsCurrent"][1]
    becomes(plane, "shop", 2)

    (files / "company.ics").write_bytes(ics(LATER))
    becomes(plane, "shop", 6)
    wait_until(lambda: conditions(plane, "shop"), lambda seen: "CalendarsCurrent" not in seen, within_s=60, every_s=0.5)


def test_an_event_of_a_calendar_raises_and_says_who(plane, plant, files):
    workload(plane, plant, "cart", schedulesFrom=[{"calendar": "sales", "matching": "sale*", "minReplicas": 5}])
    becomes(plane, "cart", 2)

    (files / "sales.ics").write_bytes(ics(f"SUMMARY:Sale of shoes|DTSTART;VALUE=DATE:{TODAY}|DURATION:P2D"))

    becomes(plane, "cart", 5)
    told = wait_until(lambda: plane.get(f"{API}/cart")["status"], lambda seen: seen["effectiveMinReplicas"] == 5)
    (sale,) = told["schedules"]
    assert (f"Calendar/sales/Sale of shoes/{datetime.now(UTC):%Y-%m-%d}", "Open") == (sale["name"], sale["state"])


def test_a_calendar_that_nobody_named_is_a_condition_with_the_names_that_there_are(plane, plant):
    workload(plane, plant, "typo", schedules=[ALWAYS | {"exclude": {"calendars": ["compnay"]}}])

    told = wait_until(
        lambda: conditions(plane, "typo"), lambda seen: seen.get("SpecAccepted", "T")[0] == "False", within_s=30
    )
    assert '"compnay": there is no such calendar: did you mean company?' in told["SpecAccepted"][1]
