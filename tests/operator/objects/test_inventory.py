"""cronhpa.operator.objects.inventory, cronhpa.operator.objects.object_state: objects as last seen, in any order."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lives import CPU, Life, ModelWatch, condition, cronhpa, deployment, status, until
from model_api import Fault, ModelApi, ModelClient
from virtual_time import live

from cronhpa.api.parse_event import parse_event
from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.core.model.decision import MetricProposal
from cronhpa.core.model.instant import DAY, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import ScalarReading, Scale
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules.events import with_events
from cronhpa.operator.objects import inventory
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_watch import ObjectWatch
from cronhpa.operator.objects.owners import Owners
from cronhpa.operator.readers.page_service import InventoryObjects

KEY = ("prod", "shop")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
SPEC = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 10, "metrics": [CPU]}


def body(version, *, uid="one", generation=1, name="shop", status=None, **spec):
    meta = {"name": name, "namespace": "prod", "uid": uid, "resourceVersion": str(version), "generation": generation}
    meta["creationTimestamp"] = "2027-01-15T07:00:00Z"
    return {"metadata": meta, "spec": {**SPEC, **spec}, "status": status or {}}


class Told:
    """An inventory. changed: the keys of its changes; gone: the uids of deleted objects."""

    def __init__(self):
        self.changed, self.gone = [], []
        gone = lambda state: self.gone.append(state.uid)  # noqa: E731 - a callback of one line
        self.inventory = Inventory(ControllerOptions(), self.changed.append, gone)

    @property
    def item(self):
        return self.inventory.items.get(KEY)


def test_a_damaged_memory_is_told_once_and_begun_anew(caplog):
    told = Told()
    forged = {"memory": {"version": 1, "scaleUpEvents": [], "recommendations": [{"replicas": 1, "time": "x\nforged"}]}}
    forged["memory"]["scaleDownEvents"] = [{"change": 1, "time": "x\nforged"}]
    for version in (10, 11):
        told.inventory.put(body(version, status=forged))

    assert Memory() == told.item.local.memory
    told_of = [record.getMessage().partition(",")[0] for record in caplog.records]
    assert ["status.memory of prod/shop is damaged"] == told_of


def test_the_page_knows_which_defaults_a_person_wrote_from_each_edit_on():
    told = Told()
    stated = body(1, minReplicas=1, mode="Active")
    applied = json.dumps({"spec": {"maxReplicas": 10, "mode": "Active"}})
    stated["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    replica = SimpleNamespace(term=1, holder="", part="")
    told.inventory.put(stated)

    assert ["mode"] == [*InventoryObjects(told.inventory, replica).get(*KEY).body()["metadata"]["statedDefaults"]]
    stated["metadata"] |= {"annotations": None, "managedFields": "no list", "resourceVersion": "2", "generation": 2}
    told.inventory.put(stated)
    assert () == told.item.served.parsed.stated_defaults


@pytest.mark.parametrize("levels", [900, 950, 1000, 5000])
def test_an_object_that_is_nested_too_deep_to_be_read_is_decided_all_the_same(levels):
    """The API server takes any JSON as `status.memory`."""
    told = Told()
    deep = f'{{"version":1,"recommendations":{"[" * levels}{"]" * levels}}}'
    for version, most in ((10, 7), (11, 8)):
        text = json.dumps(body(version, generation=version, maxReplicas=most, status={"memory": 0}))
        told.inventory.apply_event("MODIFIED", msgspec.Raw(text.replace('"memory": 0', f'"memory": {deep}').encode()))
        assert (most, Memory()) == (told.item.served.spec.max_replicas, told.item.local.memory)
    told.inventory.apply_event("DELETED", msgspec.Raw(text.replace('"memory": 0', f'"memory": {deep}').encode()))

    assert ["one"] == told.gone


@pytest.mark.parametrize("levels", [99, 600, 900])
def test_a_status_in_doubt_that_is_nested_deep_is_read_and_decided_on(levels):
    """Somebody's status of a few hundred levels can be parsed, and is more than recursion in Python bears."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api)
        async with Life(api) as life:
            await until(20)
            deep: Any = "the end"
            for _ in range(levels):
                deep = {"deeper": deep}
            api.version += 1
            cron_hpa = api.objects["cronhpas"]["prod", "shop"]
            cron_hpa["metadata"]["resourceVersion"], cron_hpa["status"]["deep"] = str(api.version), deep
            (state,) = life.inventory
            state.writes.status_unknown = True
            api.load["prod", "shop"] = 4000
            await until(60)
            return api.replicas("prod", "shop"), state.writes.status_unknown, life.control_loop.metrics.errors

    assert (8, False, 0) == live(scenario)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=25),
    st.lists(st.tuples(st.integers(0, 24), st.sampled_from(["gone", "Active", "Preview"])), max_size=5),
)
@example([(minute, True) for minute in range(10)], [(0, "gone")])
def test_of_very_many_objects_on_a_target_the_oldest_that_acts_says_as_much_as_all(made, edits):
    """Minutes after seven at which each was made, and whether it acts; then some go, or are edited."""
    inventory, owners = Told().inventory, Owners()

    def put(number, version, generation, minute, mode):
        cron_hpa = body(version, uid=f"uid-{number}", name=f"object-{number}", generation=generation, mode=mode)
        cron_hpa["metadata"]["creationTimestamp"] = f"2027-01-15T07:{minute:02}:00Z"
        inventory.put(cron_hpa)

    def agrees():
        items = inventory.in_namespace("prod")
        return all(
            owners.problem(state, inventory.on_target(state.target))
            == owners.problem(state, inventory.rivals_on(state.target))
            for state in items
        )

    for number, (minute, acts) in enumerate(made):
        put(number, 1, 1, minute, "Active" if acts else "Preview")
    assert agrees()
    for version, (number, what) in enumerate(edits, 2):
        if what == "gone":
            inventory.drop(("prod", f"object-{number}"))
        elif ("prod", f"object-{number}") in inventory.items:
            put(number, version, version, made[number][0], what)
        assert agrees()


def test_of_very_many_objects_on_a_target_an_edit_of_a_younger_one_concerns_no_other():
    """Twenty objects, made one a minute. Found: each edit of any of them made all of them be decided anew."""
    told = []
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None, told.append)

    def edit(number, version):
        cron_hpa = body(version, uid=f"uid-{number}", name=f"object-{number}", generation=version)
        cron_hpa["metadata"]["creationTimestamp"] = f"2027-01-15T07:{number:02}:00Z"
        inventory.put(cron_hpa)

    for number in range(20):
        edit(number, 1)
    target = inventory.items["prod", "object-0"].target
    assert [state.name for state in inventory.rivals_on(target)] == ["object-0"]
    told.clear()

    edit(7, 2)
    inventory.drop(("prod", "object-8"))
    assert told == []

    edit(0, 3)
    assert told == [target]


def test_an_older_state_than_the_one_known_is_ignored():
    told = Told()
    told.inventory.put(body(20, generation=2, maxReplicas=7))
    told.inventory.put(body(10, maxReplicas=3))

    assert 7 == told.item.served.spec.max_replicas
    assert [KEY] == told.changed


def test_a_status_of_somebody_elses_is_what_the_next_patch_is_made_against_and_no_change_of_the_spec():
    told = Told()
    told.inventory.put(body(10))
    told.inventory.put(body(11, status={"currentReplicas": 9}))

    assert {"currentReplicas": 9} == told.item.served.status
    assert [KEY] == told.changed


def test_another_object_of_the_same_name_takes_the_place_of_the_first():
    told = Told()
    told.inventory.put(body(10))
    told.inventory.put(body(20, uid="two"))
    told.inventory.apply_event("DELETED", body(15))

    assert ["one"] == told.gone
    assert "two" == told.item.uid
    assert (told.item,) == told.inventory.on_target(("prod", "apps", "Deployment", "shop"))


def test_a_stale_page_brings_no_deleted_object_back():
    told = Told()
    told.inventory.put(body(10))
    told.inventory.apply_event("DELETED", body(12))
    told.inventory.put(body(10))

    assert told.item is None
    assert () == told.inventory.in_namespace("prod")


@pytest.mark.parametrize(
    "event", [{}, {"metadata": {"name": "shop"}}, {"metadata": None}, body("ten") | {"status": ["odd"]}, body(9, uid=3)]
)
def test_an_event_that_is_no_object_costs_nothing(event):
    told = Told()
    told.inventory.put(body(10, name="other"))
    told.inventory.apply_event("MODIFIED", event)
    told.inventory.apply_event("DELETED", event)

    assert ("prod", "other") in told.inventory.items


def test_a_spec_that_nobody_can_read_is_a_problem_of_its_object():
    told = Told()
    told.inventory.put(body(10, maxReplicas="many"))

    assert told.item.served.spec is None
    assert "spec.maxReplicas" in told.item.served.parsed.problems[0]


def test_a_parser_that_fails_for_a_reason_of_ours_costs_its_object_only(monkeypatch):
    monkeypatch.setattr(inventory, "parse_spec", lambda *_: 1 // 0)
    told = Told()
    told.inventory.put(body(11))

    assert ("spec: ZeroDivisionError: integer division or modulo by zero",) == told.item.served.parsed.problems


REMEMBERED = {
    "target": "Deployment/shop",
    "memory": {
        "version": 1,
        "recommendations": [{"replicas": 9, "time": "2027-01-15T06:59:00Z"}],
        "scaleUpEvents": [],
        "scaleDownEvents": [],
    },
}
OTHER = {**TARGET, "name": "other"}


def test_the_memory_is_read_back_from_the_status():
    told = Told()
    told.inventory.put(body(10, status=REMEMBERED))

    assert [9] == [recommendation.replicas for recommendation in told.item.local.memory.recommendations]


def test_an_object_that_was_pointed_elsewhere_while_no_operator_ran_remembers_nothing():
    told = Told()
    told.inventory.put(body(10, generation=2, status=REMEMBERED, scaleTargetRef=OTHER))

    assert () == told.item.local.memory.recommendations


def test_an_object_that_was_pointed_elsewhere_by_way_of_an_unreadable_spec_remembers_nothing():
    told = Told()
    told.inventory.put(body(10, status=REMEMBERED))
    told.inventory.put(body(11, generation=2, status=REMEMBERED, maxReplicas="many"))
    assert [9] == [recommendation.replicas for recommendation in told.item.local.memory.recommendations]
    told.inventory.put(body(12, generation=3, status=REMEMBERED, scaleTargetRef=OTHER))

    assert () == told.item.local.memory.recommendations


def test_reversals_on_a_target_say_nothing_of_the_next_one():
    told = Told()
    told.inventory.put(body(10))
    told.item.local.replica_conflict.wrote(4)
    told.item.local.replica_conflict.found(5, 0)
    assert told.item.local.replica_conflict.is_open

    told.inventory.put(body(11, generation=2, scaleTargetRef=OTHER))

    assert not told.item.local.replica_conflict.is_open


def test_the_time_in_which_another_replica_led_is_not_under_provisioned_here():
    """One pod where nine are asked for, when the Lease was lost, and three days until this replica leads again."""
    told = Told()
    told.inventory.put(body(10))
    seen = SimpleNamespace(scale=Scale(1, 1, "app=shop"), readings=(ScalarReading(90_000, 0),))
    told.item.local.under_provisioned.note(seen, SimpleNamespace(metrics=(MetricProposal("queue", 9),)), 0)
    assert 60.0 == told.item.local.under_provisioned.seconds(60 * SECOND)

    told.inventory.resume(told.item)

    assert 0.0 == told.item.local.under_provisioned.seconds(3 * DAY)


def test_a_spec_that_is_mended_remembers_what_it_did():
    told = Told()
    told.inventory.put(body(10, status=REMEMBERED))
    told.inventory.put(body(11, generation=2, status=REMEMBERED, maxReplicas="many"))
    told.inventory.put(body(12, generation=3, status=REMEMBERED))

    assert [9] == [recommendation.replicas for recommendation in told.item.local.memory.recommendations]


def swept(change, *, first=None):
    """An inventory of two objects after a list whose answer waits while `change(api, inventory)` happens."""

    async def scenario():
        api, told = ModelApi(), Told()
        cronhpa(api)
        cronhpa(api, "other")
        objects = ObjectWatch(ModelClient(api), told.inventory, (), ModelWatch(api))
        await objects.list_once("")
        if first is not None:
            first(api)
        goes_on = asyncio.Event()
        # The list is made before the change and read after it.
        api.faults = [Fault("GET", "/cronhpas$", applied=True, waits=goes_on)]
        listing = asyncio.create_task(objects.list_once(""))
        await asyncio.sleep(1)
        change(api, told.inventory)
        goes_on.set()
        await listing
        return told

    return live(scenario)


def test_what_is_deleted_during_a_list_stays_away():
    told = swept(lambda api, inventory: inventory.apply_event("DELETED", api.objects["cronhpas"][KEY]))

    assert [("prod", "other")] == list(told.inventory.items)


def test_what_was_deleted_while_nobody_watched_is_dropped():
    told = swept(lambda *_: None, first=lambda api: api.delete("cronhpas", "prod", "shop"))

    assert [("prod", "other")] == list(told.inventory.items)


def test_what_comes_during_a_list_that_does_not_hold_it_stays():
    told = swept(lambda _, inventory: inventory.put(body(900, name="new")))

    assert {KEY, ("prod", "other"), ("prod", "new")} == set(told.inventory.items)


def test_what_is_recreated_during_a_list_is_the_new_object():
    told = swept(lambda _, inventory: inventory.put(body(900, uid="two")))

    assert "two" == told.item.uid


def test_a_status_that_somebody_replaced_is_repaired():
    async def scenario():
        api = ModelApi()
        deployment(api)
        api.load["prod", "shop"] = 1000
        cronhpa(api)
        async with Life(api):
            await until(30)
            good = status(api)["memory"]["recommendations"][0]["replicas"]
            api.edit("cronhpas", *KEY, status=dict.fromkeys(status(api)) | {"currentReplicas": 77})
            assert {"currentReplicas": 77} == status(api)
            await until(50)
            assert 2 == status(api)["currentReplicas"]
            assert good == status(api)["memory"]["recommendations"][0]["replicas"]
            assert "ReadyForNewScale" == condition(api, "AbleToScale")["reason"]

    live(scenario)


def test_what_is_wrong_with_a_spec_is_told_on_its_object_and_told_anew_when_something_else_is():
    async def scenario():
        api = ModelApi()
        deployment(api)
        cronhpa(api, maxReplicas="many")
        async with Life(api):
            await until(1)
            assert "spec.maxReplicas" in condition(api, "SpecAccepted")["message"]
            api.edit("cronhpas", *KEY, spec={"maxReplicas": 5, "minReplicas": "few"})
            await until(2)
            assert "spec.minReplicas" in condition(api, "SpecAccepted")["message"]
            assert 2 == condition(api, "Ready")["observedGeneration"]
            writes = len(api.writes)
            await until(200)
            assert writes == len(api.writes)

    live(scenario)


def test_what_was_seen_of_the_pods_of_one_target_is_not_believed_of_another():
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    inventory.put(body(1))
    state = inventory.items[KEY]
    state.local.unseen_since = 1

    inventory.put(body(2, generation=2, scaleTargetRef={**TARGET, "name": "cart"}))

    assert state.local.unseen_since is None


# --- calendars ---------------------------------------------------------------------------------------------------

CLOSED = CalendarEvent("Closed", "2027-01-15T00:00", "2027-01-16T00:00")
OFFICE = {"name": "office", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 4}


def test_an_object_takes_over_the_days_of_its_calendar_when_they_change():
    told, known = Told(), {}
    told.inventory.read_days_of(known)
    told.inventory.put(body(10, schedules=[OFFICE | {"exclude": {"calendars": ["company"]}}]))
    assert "no such calendar" in told.item.served.spec.schedules[0].problem

    known["company"] = Calendar("company", (CLOSED,))
    told.inventory.expand(told.item)

    (schedule,) = told.item.served.spec.schedules
    assert schedule.problem is None
    assert ["Closed (company)"] == [one.title for one in schedule.window.exclude.ranges]
    assert told.item.served.parsed.own == told.item.served.spec
    assert [KEY, KEY] == told.changed


def test_an_event_of_a_namespace_may_name_a_calendar_too():
    told = Told()
    told.inventory.read_days_of({"company": Calendar("company", (CLOSED,))})
    window = {"start": "0 8 * * *", "durationMinutes": 60, "exclude": {"calendars": ["company"]}}
    text = {"selector": {}, "reason": "a sale", "schedules": [{"name": "doors", "minReplicas": 9} | window]}
    event = parse_event("sale", "prod", text)
    told.inventory.expand_with(lambda spec, *_: with_events(spec, [event]))

    told.inventory.put(body(10))

    (schedule,) = told.item.served.spec.schedules
    assert ("Event/sale", None, 1) == (schedule.name, schedule.problem, len(schedule.window.exclude.ranges))
