"""Planned events in virtual time: lists that fail, edits that follow each other."""

import asyncio
import itertools
import random
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from copied import copied
from lives import CPU, Life, cronhpa, deployment, timeline, until
from model_api import START, Fault, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.core.schedules import events, windows
from cronhpa.operator.leader.replica import OnlyReplica
from cronhpa.operator.objects.planned_events import MAX_EVENTS_OF_NAMESPACE, seen_event
from cronhpa.operator.writes import event_status_writer

EVENTS = "/apis/cronhpa.io/v1alpha1"
TYPO = {
    "name": "leap",
    "start": "0 3 29 2 *",
    "durationMinutes": 5,
    "minReplicas": 3,
    "exclude": {"calendars": ["tpyo"]},
}
AT_ONCE = {"stabilizationWindowSeconds": 0}


def api_with_events():
    api = ModelApi()
    api.kinds |= {(EVENTS, "plannedevents"): "PlannedEvent"}
    return api


def sale(**bounds):
    """An event that is open all the time."""
    window = {"name": "doors", "from": "2027-01-01T00:00", "to": "2027-02-01T00:00"}
    return {"selector": {}, "reason": "a sale", "schedules": [window | bounds]}


@pytest.mark.parametrize(("status", "down"), [(500, 300), (404, 0), (403, 0)])
def test_while_events_cannot_be_listed_nothing_is_scaled_down_and_scale_ups_wait_a_minute(status, down):
    """
    The list fails for 300 s. `busy` needs 8 pods, `idle` one of its four. 404 and 403 are no events: both at once.
    """
    api = api_with_events()
    fault = Fault("GET", "/plannedevents", status=status, times=None)
    api.faults.append(fault)

    async def scenario():
        for name, replicas, load in (("busy", 4, 4000), ("idle", 4, 500)):
            deployment(api, name, replicas=replicas)
            api.load["prod", name] = load
            cronhpa(api, name, metrics=[CPU], behavior={"scaleDown": AT_ONCE})
        async with Life(api):
            await until(300)
            api.faults.remove(fault)
            await until(400)
        return [timeline(api, f"prod/{name}")[0][0] for name in ("busy", "idle")]

    busy, idle = live(scenario)

    assert (60 <= busy < 80) if down else busy < 20
    assert down <= idle < down + 40


def api_of_all_kinds():
    api = api_with_events()
    api.kinds |= {(EVENTS, "clusterplannedevents"): "ClusterPlannedEvent", ("/api/v1", "namespaces"): "Namespace"}
    return api


def shop_and_other(api, plural, **selecting):
    """An event asks for five pods of `shop`, which needs one, until 900 s; it concerns no `other`, which needs one."""
    window = {"name": "doors", "from": "2027-01-15T07:00", "to": "2027-01-15T07:15", "minReplicas": 5}
    event = {"selector": {"matchLabels": {"tier": "web"}}, "reason": "a sale", "schedules": [window], **selecting}
    api.create("namespaces", "", "prod", metadata={"labels": {"team": "shops"}})
    for name, tier in (("shop", "web"), ("other", "batch")):
        deployment(api, name, replicas=1)
        api.load["prod", name] = 100
        cronhpa(api, name, behavior={"scaleDown": AT_ONCE})
        api.objects["cronhpas"]["prod", name]["metadata"]["labels"] = {"tier": tier}
    api.create(plural, "prod" if plural == "plannedevents" else "", "sale", spec=event)


def test_a_tenant_who_edits_events_while_they_are_taken_over_holds_up_no_decision_of_a_new_term(monkeypatch):
    """
    Each time an object of `prod` takes its event over, which takes 1 ms, the event is edited, from 55 s on. At 57 s a
    new term doubts the events of the cluster, of which nothing was heard. Found: the decisions of all namespaces waited
    for a moment in which no event had changed, where `other` has a window that opens at 60 s.
    """
    api = api_of_all_kinds()
    day = {"name": "day", "start": "1 7 * * *", "durationMinutes": 60, "minReplicas": 5, "leadTimeSeconds": 0}

    async def scenario():
        loop: Any = asyncio.get_running_loop()
        edits = itertools.count()
        for namespace in ("prod", "other"):
            api.create("namespaces", "", namespace)
        for number in range(60):
            deployment(api, f"sale-{number}")
            cronhpa(api, f"sale-{number}", metrics=None)
        deployment(api, "shop", namespace="other")
        cronhpa(api, "shop", "other", metrics=None, schedules=[day])
        api.create("plannedevents", "prod", "sale", spec=sale(minReplicas=1))

        def edit():
            api.edit("plannedevents", "prod", "sale", spec={"reason": f"sale {next(edits)}"})

        async with Life(api) as life:
            expand = life.inventory.expand

            def edit_and_expand(state, **more):
                if 55 <= loop.time() < 75:
                    edit()
                    loop.spend(0.001)
                expand(state, **more)

            monkeypatch.setattr(life.inventory, "expand", edit_and_expand)
            await until(55)
            edit()
            await until(57)
            life.controller.planned_events.doubt()
            await until(100)
        return [seconds for seconds, *_ in timeline(api, "other/shop")], next(edits)

    scaled, edits = live(scenario)

    assert edits > 500
    assert 60 <= scaled[0] < 62


def test_statuses_of_one_namespaces_events_that_hang_delay_those_of_no_other():
    """Of fifty events whose statuses are never answered, one is written in each look. Found: all were, 15 s each."""
    api = api_with_events()
    api.faults = [Fault("PATCH", "attic/plannedevents/", hangs=True, times=None)]

    async def scenario():
        for namespace in ("attic", "other"):
            deployment(api, namespace=namespace)
            cronhpa(api, "shop", namespace, metrics=None)
        for number in range(50):
            api.create("plannedevents", "attic", f"a-{number}", spec=sale(minReplicas=1))
        api.create("plannedevents", "other", "z", spec=sale(minReplicas=1))
        async with Life(api):
            await until(40)
        return api.objects["plannedevents"]["other", "z"].get("status")

    assert live(scenario)


BY_TEAM = {"namespaceSelector": {"matchLabels": {"team": "shops"}}}


@pytest.mark.parametrize(
    ("plural", "selecting", "refused", "status", "end"),
    [
        ("plannedevents", {}, "plannedevents", 403, 900),
        ("clusterplannedevents", {}, "clusterplannedevents", 403, 900),
        ("clusterplannedevents", BY_TEAM, "namespaces", 403, 900),
        ("plannedevents", {}, "plannedevents", 404, 290),
    ],
)
def test_a_right_that_is_missing_after_a_restart_ends_no_event(plural, selecting, refused, status, end):
    """
    At 300 s the operator is started anew, and may not list events any more, or the namespaces that one selects. Where
    the kind is gone its objects went with it. `other`, without an event, follows.
    """
    api = api_of_all_kinds()

    async def scenario():
        shop_and_other(api, plural, **selecting)
        async with Life(api):
            await until(290)
        api.faults.append(Fault("GET", f"/{refused}$", status=status, times=None))
        api.load["prod", "other"] = 2000
        async with Life(api):
            await until(1100)
        return timeline(api, "prod/shop"), timeline(api, "prod/other")

    shop, other = live(scenario)

    assert [(1, 5), (5, 1)] == [(before, after) for _, before, after in shop]
    assert end <= shop[-1][0] < end + 80
    assert (1, 4) == other[-1][1:]
    assert other[-1][0] < 330


@pytest.mark.parametrize(("until_s", "end"), [(None, 900), (600, 700)])
def test_a_right_that_is_taken_away_while_it_runs_ends_no_event(until_s, end):
    """
    At 300 s the watch ends, and lists are forbidden. The event closes at 900 s. Where the right is given back at 600 s,
    its deletion at 700 s is heard of.
    """
    api = api_of_all_kinds()

    async def scenario():
        shop_and_other(api, "plannedevents")
        async with Life(api):
            await until(290)
            fault = Fault("GET", "/plannedevents$", status=403, times=None)
            api.faults.append(fault)
            api.cut_watches("plannedevents")
            if until_s is not None:
                await until(until_s)
                api.faults.remove(fault)
                await until(700)
                api.delete("plannedevents", "prod", "sale")
            await until(1100)
        return timeline(api, "prod/shop")

    shop = live(scenario)

    assert [(1, 5), (5, 1)] == [(before, after) for _, before, after in shop]
    assert end <= shop[-1][0] < end + 80


@pytest.mark.parametrize(("vanished", "ends", "comes_back"), [(30, 0, False), (None, 360, False), (600, 360, True)])
def test_events_end_with_their_kind_though_nobody_heard_of_it_but_not_by_a_server_that_starts(
    vanished, ends, comes_back
):
    """
    At 300 s the watch breaks, and lists say 404: for 30 s from a server that starts, or because somebody removed the
    kind, and with it the event that asks for nine pods. Where the kind comes back, at 900 s, events hold again.
    """
    api = api_with_events()
    event = sale(minReplicas=9)

    async def scenario():
        deployment(api, "shop", replicas=2)
        cronhpa(api, "shop", minReplicas=2, metrics=None, behavior={"scaleDown": AT_ONCE})
        api.create("plannedevents", "prod", "sale", spec=event)
        async with Life(api):
            await until(300)
            fault = Fault("GET", "/plannedevents", status=404, times=None)
            api.faults.append(fault)
            if ends:
                api.freeze_watches("plannedevents")
                api.delete("plannedevents", "prod", "sale")
            else:
                api.cut_watches("plannedevents")
            if vanished is not None:
                await until(300 + vanished)
                api.faults.remove(fault)
            if comes_back:
                api.create("plannedevents", "prod", "sale", spec=event)
            await until(2000)
        return timeline(api)

    changes = live(scenario)
    downs = [at for at, before, after in changes if after < before]

    assert bool(ends) == bool(downs)
    if ends:
        assert ends <= downs[0] < ends + 600
        assert (9 if comes_back else 2) == changes[-1][2]


def test_an_event_that_was_deleted_is_not_held_up_for_want_of_namespaces():
    """At 300 s the right to list namespaces goes, at 400 s the event that selects one, which would hold until 900 s."""
    api = api_of_all_kinds()

    async def scenario():
        shop_and_other(api, "clusterplannedevents", **BY_TEAM)
        async with Life(api):
            await until(290)
        api.faults.append(Fault("GET", "/namespaces$", status=403, times=None))
        async with Life(api):
            await until(400)
            api.delete("clusterplannedevents", "", "sale")
            await until(600)
        return timeline(api, "prod/shop")

    shop = live(scenario)

    assert [(1, 5), (5, 1)] == [(before, after) for _, before, after in shop]
    assert 400 <= shop[-1][0] < 480


@pytest.mark.parametrize(
    ("plural", "selecting", "refused"),
    [("plannedevents", {}, "plannedevents"), ("clusterplannedevents", BY_TEAM, "namespaces")],
)
def test_a_right_that_is_given_back_ends_no_event_before_its_list_comes(plural, selecting, refused):
    """The right is missing from 290 to 400 s. Then it is seen, but whole lists take too long until 600 s."""
    api = api_of_all_kinds()
    fault = Fault("GET", f"/{refused}$", status=403, times=None)
    seen = itertools.count()

    def latency(method, path):
        is_late = fault not in api.faults and path.endswith(f"/{refused}") and api.now() < START + 600 * SECOND
        return 20 if is_late and next(seen) else 0.001

    async def scenario():
        shop_and_other(api, plural, **selecting)
        async with Life(api):
            await until(290)
        api.faults.append(fault)
        async with Life(api):
            await until(400)
            api.faults.remove(fault)
            api.latency = latency
            await until(1100)
        return timeline(api, "prod/shop")

    shop = live(scenario)

    assert next(seen) > 3
    assert [(1, 5), (5, 1)] == [(before, after) for _, before, after in shop]
    assert 900 <= shop[-1][0] < 980


def test_an_object_that_cannot_be_read_is_counted_and_named_in_the_status_of_its_event():
    api = api_with_events()

    async def scenario():
        for name in ("shop", "till"):
            deployment(api, name, replicas=1)
            cronhpa(api, name, metrics=None, maxReplicas=-1 if name == "till" else 10)
        api.create("plannedevents", "prod", "sale", spec=sale(minReplicas=3))
        async with Life(api):
            await until(60)
        return api.objects["plannedevents"]["prod", "sale"]["status"]

    told = live(scenario)

    assert (2, 3) == (told["objects"], told["pods"])
    (matched,) = [one["message"] for one in told["conditions"] if one["type"] == "Matched"]
    assert "1 of them cannot be read and are not scaled (see their SpecAccepted): prod/till" in matched


@pytest.mark.slow
@pytest.mark.parametrize("suspended", [{"suspend": True}, {"schedules": [{**TYPO, "suspend": True}]}])
def test_an_event_of_an_unknown_calendar_says_what_it_blocks_and_blocks_nothing_once_suspended(suspended):
    """Two pods would do, and nine are there: they go after 300 s, when somebody suspends the event or its schedule."""
    api = api_with_events()

    async def scenario():
        deployment(api, "shop", replicas=9)
        cronhpa(api, "shop", minReplicas=2, metrics=None, behavior={"scaleDown": AT_ONCE})
        api.create("plannedevents", "prod", "sale", spec={"selector": {}, "reason": "a sale", "schedules": [TYPO]})
        async with Life(api):
            await until(300)
            told = copied(api.objects["plannedevents"]["prod", "sale"]["status"])
            api.edit("plannedevents", "prod", "sale", spec=suspended)
            await until(400)
        return told, timeline(api)

    told, changes = live(scenario)

    assert "Refused" == told["state"]
    assert "its objects (1) are not scaled down meanwhile" in told["conditions"][0]["message"]
    assert (9, 2) == changes[-1][1:]
    assert 300 <= changes[0][0] < 380


def test_the_last_of_many_edits_holds_in_all_objects():
    """Edits come while former ones are taken over, an object at a time: none of 200 objects keeps a former count."""
    api = api_with_events()

    async def scenario():
        for number in range(200):
            deployment(api, f"shop-{number}", replicas=1)
            cronhpa(api, f"shop-{number}", metrics=None)
        api.create("plannedevents", "prod", "sale", spec=sale(minReplicas=1))
        async with Life(api):
            await until(30)
            for edit in range(60):
                api.edit("plannedevents", "prod", "sale", spec=sale(minReplicas=2 + edit % 8))
                for _ in range(edit % 7):
                    await asyncio.sleep(0)
            await until(120)
        return {api.replicas("prod", f"shop-{number}") for number in range(200)}

    assert {5} == live(scenario)  # 2 + 59 % 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_kills_and_faults_around_an_event_lower_nothing_while_it_is_open_and_cost_no_report(seed):
    """
    From 300 s to 600 s it asks for six pods of four objects that need one. Three kills, a list, a watch and statuses
    that fail, edits of the reason, at moments by chance.
    """
    chance = random.Random(seed)
    api = api_with_events()
    window = {"from": "2027-01-15T07:05", "to": "2027-01-15T07:10", "minReplicas": 6}

    def event(reason="a sale"):
        return {
            "selector": {"matchLabels": {"tier": "web"}},
            "reason": reason,
            "schedules": [window | {"name": "doors"}],
        }

    async def world():
        for at, happens in sorted(((chance.uniform(200, 640), kind) for kind in range(8)), key=lambda one: one[0]):
            await until(at)
            if happens < 3:
                times = chance.randint(1, 4)
                path = ("/plannedevents", "/plannedevents/sale/status", "/cronhpas/shop-1/status")[happens]
                method = "GET" if happens == 0 else "PATCH"
                api.faults.append(Fault(method, path, status=chance.choice((409, 500)), times=times))
            elif happens < 6:
                api.edit("plannedevents", "prod", "sale", spec=event(f"edit at {at:.0f}"))
            else:
                api.cut_watches("plannedevents")

    async def lives():
        kills = sorted(chance.choice((chance.uniform(285, 310), chance.uniform(590, 605), chance.uniform(310, 590)))
                       for _ in range(3))  # fmt: skip
        for kill in (*kills, 900):
            async with Life(api):
                await until(kill)
            await asyncio.sleep(chance.uniform(1, 20))

    async def scenario():
        for number in range(4):
            deployment(api, f"shop-{number}", replicas=1)
            api.load["prod", f"shop-{number}"] = 100
            cronhpa(api, f"shop-{number}", behavior={"scaleDown": AT_ONCE})
            api.edit("cronhpas", "prod", f"shop-{number}", metadata={"labels": {"tier": "web"}})
        api.create("plannedevents", "prod", "sale", spec=event())
        await asyncio.gather(world(), lives())
        return api.objects["plannedevents"]["prod", "sale"]["status"]

    told = live(scenario)

    for number in range(4):
        lowered = [(at, old, new) for at, old, new in timeline(api, f"prod/shop-{number}") if new < old]
        assert all(at >= 600 for at, _, _ in lowered), (number, timeline(api, f"prod/shop-{number}"))
        assert api.replicas("prod", f"shop-{number}") == 1
    report = told["report"]
    assert ("2027-01-15T07:05:00Z", "2027-01-15T07:10:00Z", 24) == (
        report["opened"], report["closed"], report["peakPods"],
    )  # fmt: skip
    assert ("Ended", 4) == (told["state"], told["objects"])


@pytest.mark.parametrize("ends_by", ["its end", "a deletion"])
def test_the_report_of_an_event_waits_for_the_store_at_its_end_and_if_it_is_deleted(ends_by):
    """It holds from 300 s to 600 s, or is deleted at 450 s."""
    api = api_with_events()
    window = {"name": "doors", "from": "2027-01-15T07:05", "to": "2027-01-15T07:10", "minReplicas": 6}

    async def scenario():
        deployment(api, "shop", replicas=1)
        api.load["prod", "shop"] = 100
        cronhpa(api, "shop")
        spec = {"selector": {}, "reason": "a sale", "schedules": [window]}
        api.create("plannedevents", "prod", "sale", spec=spec)
        async with Life(api) as life:
            await until(450)
            if ends_by == "a deletion":
                api.delete("plannedevents", "prod", "sale")
            await until(700)
            return list(life.controller.event_statuses.ended)

    (kept,) = live(scenario)

    assert ("prod", "sale", parse_instant("2027-01-15T07:05:00Z")) == (kept.namespace, kept.name, kept.opened)
    assert ("a sale", 1, 6) == tuple(kept.body[key] for key in ("reason", "objects", "peakPods"))
    closed = parse_instant(kept.body["closed"])
    end = parse_instant("2027-01-15T07:10:00Z" if ends_by == "its end" else "2027-01-15T07:07:30Z")
    assert 0 <= closed - end <= 16 * SECOND


def test_a_status_that_another_replica_wrote_before_the_answer_came_is_the_newer_one():
    """Found: the version of the own write was kept, so that each later one was refused until the next list."""
    api = api_with_events()

    async def scenario():
        for name in ("shop", "late"):
            deployment(api, name, replicas=1)
            api.load["prod", name] = 100
        cronhpa(api, "shop")
        api.create("plannedevents", "prod", "sale", spec=sale(minReplicas=1))
        async with Life(api):
            goes_on = asyncio.Event()
            fault = Fault("PATCH", "plannedevents/sale/status$", applied=True, waits=goes_on)
            api.faults = [fault]
            while not fault.met:  # noqa: ASYNC110 - the model tells nobody
                await asyncio.sleep(1)
            await asyncio.sleep(1)
            api.edit("plannedevents", "prod", "sale", status={"shards": []})
            await asyncio.sleep(1)
            goes_on.set()
            cronhpa(api, "late")
            await until(120)
        return api.objects["plannedevents"]["prod", "sale"]["status"]["objects"]

    assert 2 == live(scenario)


def test_many_events_of_a_tenant_leave_the_loop_to_others_between_them(monkeypatch):
    """None has an object, and no status changes: still a look at 40 of them is no one step of the loop."""
    api, looks = api_with_events(), Counter()

    def counted(*given):
        looks[asyncio.get_running_loop().time()] += 1
        return events.phase(*given)

    monkeypatch.setattr(event_status_writer, "phase", counted)

    async def scenario():
        for number in range(40):
            api.create("plannedevents", "tenant", f"sale-{number}", spec=sale(minReplicas=2))
        async with Life(api):
            await until(50)
            looks.clear()
            await until(80)

    live(scenario)

    assert looks.total() >= 40
    assert 1 == max(looks.values())


def test_of_many_events_no_more_are_looked_at_than_count(monkeypatch):
    """An edit among 400 that are over asks of itself, and for the object of the 100 that count, whether they are."""
    api, asked = api_with_events(), Counter()
    opens_again = windows.opens_again

    def counted(*given):
        asked[asyncio.get_running_loop().time()] += 1
        return opens_again(*given)

    monkeypatch.setattr(windows, "opens_again", counted)

    async def scenario():
        deployment(api, "shop")
        cronhpa(api, "shop")
        async with Life(api):
            await until(20)
            over = {"from": "2027-01-15T05:00", "to": "2027-01-15T06:00"}
            for number in range(400):
                api.create("plannedevents", "prod", f"sale-{number:03}", spec=sale(minReplicas=2, **over))
            await until(50)
            asked.clear()
            api.edit("plannedevents", "prod", "sale-399", spec=sale(minReplicas=3, **over))
            await until(70)

    live(scenario)

    assert 0 < max(asked.values()) <= 1 + MAX_EVENTS_OF_NAMESPACE


def test_what_a_clock_ahead_saw_to_be_over_counts_again_once_it_is_set_back():
    seen = seen_event("sale", "prod", sale(minReplicas=2), 1, {})
    seen.over_at = parse_instant("2027-02-02T00:00:00Z")

    assert seen.is_over(parse_instant("2027-02-02T00:00:00Z"))
    assert not seen.is_over(parse_instant("2027-01-15T07:00:00Z"))


@pytest.mark.parametrize(("plural", "namespace"), [("plannedevents", "prod"), ("clusterplannedevents", "")])
def test_an_event_without_place_is_taken_over_when_another_one_is_over(plural, namespace):
    """Fifty events end at 300 s; `zz` opens at 1200 s and is the 51st: nobody edits anything in between."""
    api = api_of_all_kinds()
    early = {"from": "2027-01-15T07:01", "to": "2027-01-15T07:05", "minReplicas": 3, "leadTimeSeconds": 0}
    late = {"from": "2027-01-15T07:20", "to": "2027-01-15T08:00", "minReplicas": 9, "leadTimeSeconds": 0}

    async def scenario():
        deployment(api, "shop", replicas=2)
        cronhpa(api, "shop", minReplicas=2, metrics=None)
        for number in range(50):
            api.create(plural, namespace, f"e{number:02}", spec=sale(**early))
        api.create(plural, namespace, "zz", spec=sale(**late))
        async with Life(api):
            await until(1300)
        return timeline(api)

    changes = live(scenario)

    assert 9 == changes[-1][2]
    assert 1200 <= next(at for at, _, after in changes if after > 3) < 1230


def test_events_of_thousands_of_namespaces_that_end_together_do_not_hold_up_the_loop():
    """Each of 2,000 namespaces has one that ends at 240 s, when it is asked whether others wait for their places."""
    api = api_with_events()
    early = {"from": "2027-01-15T07:01", "to": "2027-01-15T07:04", "minReplicas": 3}

    async def scenario():
        for number in range(2000):
            api.create("plannedevents", f"team-{number}", "sale", spec=sale(**early))
        async with Life(api):
            await until(239)
            begun = time.thread_time()
            await until(242)
            return time.thread_time() - begun

    assert live(scenario) < 1


def test_a_clock_that_was_ahead_for_an_hour_holds_no_report_back():
    """Found: numbers that were written by the wrong clock stayed until it was so late again."""
    api = api_with_events()

    async def scenario():
        api.clock_offset = 3600 * SECOND
        deployment(api, "shop", replicas=10)
        api.load["prod", "shop"] = 9000
        cronhpa(api, "shop", maxReplicas=10)
        api.create("plannedevents", "prod", "sale", spec=sale(minReplicas=10))
        async with Life(api):
            for second, offset in ((300, 0), (900, 0)):
                await until(second)
                api.clock_offset = offset
        return api.objects["plannedevents"]["prod", "sale"]["status"]["report"]["minutesAtMax"]

    assert 12 <= live(scenario) <= 15


def test_reports_count_each_minute_though_looks_at_all_events_take_many(monkeypatch):
    """For two hours an object is at its maximum. Each look at one of ten events rests for half a minute."""
    seconds = itertools.count(step=0.5)
    monkeypatch.setattr(event_status_writer, "time", SimpleNamespace(thread_time=lambda: next(seconds)))
    api = api_with_events()
    window = {"from": "2027-01-15T07:01", "to": "2027-01-15T09:01", "minReplicas": 10, "leadTimeSeconds": 0}

    async def scenario():
        deployment(api, "shop", replicas=10)
        api.load["prod", "shop"] = 9000
        cronhpa(api, "shop", maxReplicas=10)
        for number in range(10):
            api.create("plannedevents", "prod", f"sale-{number}", spec=sale(**window))
        async with Life(api):
            await until(9000)
        return [event["status"]["report"]["minutesAtMax"] for event in api.objects["plannedevents"].values()]

    for minutes in live(scenario):
        assert 105 <= minutes <= 130


class LeadsFor150s(OnlyReplica):
    """A replica of two: the other one leads later."""

    async def acquired(self):
        if not self.term:
            await asyncio.Event().wait()
        return self.term

    async def lost(self, term):
        del term
        await until(150)
        self.term = 0


def test_a_replica_that_leads_no_more_after_its_rest_writes_no_row_beside_that_of_its_successor(monkeypatch):
    """A look at the event rests for half a minute, and begins anew fifteen seconds later."""
    seconds = itertools.count(step=0.5)
    monkeypatch.setattr(event_status_writer, "time", SimpleNamespace(thread_time=lambda: next(seconds)))
    api = api_of_all_kinds()

    async def scenario():
        deployment(api, "shop")
        cronhpa(api, "shop")
        api.create("clusterplannedevents", "", "sale", spec=sale(minReplicas=3))
        async with Life(api, replica=LeadsFor150s()):
            await until(400)
        return [at for at, path, _ in api.writes if "sale" in path], api.objects["clusterplannedevents"]["", "sale"]

    written, event = live(scenario)

    assert written
    assert max(written) <= START + 150 * SECOND
    assert ["prod"] == [row["namespace"] for row in event["status"]["namespaces"]]


def test_the_status_of_an_event_of_the_cluster_is_written_where_no_hpa_can_be_listed():
    """Found: decisions went on without HPAs after a minute, and the status did not say so, for ever."""
    api = api_of_all_kinds()

    async def scenario():
        deployment(api, "shop")
        cronhpa(api, "shop")
        api.create("clusterplannedevents", "", "sale", spec=sale(minReplicas=3))
        api.faults = [Fault("GET", "/horizontalpodautoscalers$", status=403, times=None)]
        async with Life(api):
            await until(200)
        return api.replicas("prod", "shop"), api.objects["clusterplannedevents"]["", "sale"].get("status", {})

    replicas, status = live(scenario)

    assert 3 == replicas
    assert ["prod"] == [row["namespace"] for row in status.get("namespaces", ())]
