"""Writes of which nobody knows whether they were done, writes that were refused, and decisions that became void."""

import asyncio
from itertools import pairwise

import pytest
from lives import CPU, Life, Named, condition, cronhpa, deployment, one_pod_each, rules, status, timeline, until
from model_api import START, Fault, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND
from cronhpa.kube.lease import LeaseName

# One pod per 60 s: never more, whatever is lost. A reconciliation comes every 15 s.
BEHAVIOR = rules(one_pod_each(60), one_pod_each(60))
CUT = {"status": 0, "applied": True}
GATEWAY_TIMEOUT = {"status": 504, "applied": True}
NOT_DONE = {"status": 504, "applied": False}
LOST = pytest.mark.parametrize("lost", [CUT, GATEWAY_TIMEOUT, NOT_DONE], ids=["cut", "504", "504, not done"])


def shop(replicas=2, load=1000, **spec):
    api = ModelApi()
    deployment(api, replicas=replicas)
    api.load["prod", "shop"] = load
    cronhpa(api, **{"behavior": BEHAVIOR, **spec})
    return api


def gaps(api):
    seconds = [at for at, _, _ in timeline(api)]
    return [later - earlier for earlier, later in pairwise(seconds)]


def changes(api):
    return [new - old for _, old, new in timeline(api)]


def test_an_object_that_is_gone_when_its_status_is_read_again_scales_nothing_any_more():
    """
    At 60 s the answer to a status is lost, and the object is deleted while its watch is frozen. Found: each period read
    that there is no such object, and scaled its target, until the next list of all at 300 s.
    """

    async def story():
        api = shop(load=1000)
        async with Life(api) as life:
            await until(60)
            api.faults = [Fault("PATCH", "/status$", **CUT)]
            api.load["prod", "shop"] = 1500
            await until(80)
            api.freeze_watches("cronhpas")
            api.delete("cronhpas", "prod", "shop")
            api.load["prod", "shop"] = 9000
            await until(290)
            return timeline(api), life.inventory.items

    changes, objects = live(story)

    assert [(2, 3)] == [change[1:] for change in changes]
    assert {} == objects


def test_what_was_recommended_counts_though_it_could_not_be_acted_upon():
    """
    At the start 8,170m of 5 pods ask for 17, but the status must name this installation first, and is refused. From 1 s
    on 2,500m ask for 5, and somebody sets 7: for 300 s none of them goes.
    """

    async def story():
        api = shop(5, 8170, maxReplicas=20, behavior={})
        api.faults = [Fault("PATCH", "/status$", status=500)]
        async with Life(api, replica=Named(LeaseName("ops", "cronhpa"))):
            await until(1)
            api.load["prod", "shop"] = 2500
            await until(40)
            api.edit("deployments", "prod", "shop", spec={"replicas": 7})
            await until(330)
        return timeline(api)

    (_, by_hand), (at, *scaled) = [(at, (old, new)) for at, old, new in live(story)]

    assert ((5, 7), (7, 5)) == (by_hand, *scaled)
    assert 300 < at < 316


def test_a_write_that_waits_does_not_hasten_the_next_step():
    """One pod in 30 s: the first write is held up for 14 s, and the second comes 30 s after it."""

    async def story():
        api = ModelApi()
        deployment(api)
        api.load["prod", "shop"] = 9000
        cronhpa(api, behavior=rules(one_pod_each(30), one_pod_each(30)))
        goes_on = asyncio.Event()
        api.faults = [Fault("PATCH", "/scale$", waits=goes_on)]
        async with Life(api):
            await until(14)
            goes_on.set()
            await until(70)
        return timeline(api)

    first, second, *_ = live(story)

    assert [(2, 3), (3, 4)] == [first[1:], second[1:]]
    assert second[0] - first[0] >= 30


def refused_scales(times, seconds, **spec):
    """The second of each scale that was sent, of which the API server wants so many later; and the changes."""

    async def story():
        api = shop(load=3000, behavior=None, **spec)
        api.faults = [Fault("PATCH", "/scale$", status=429, times=times)]
        async with Life(api):
            await until(seconds)
        sent = [(at - START) / SECOND for at, method, path in api.asked if (method, path[-6:]) == ("PATCH", "/scale")]
        return sent, timeline(api)

    return live(story)


def test_a_scale_that_the_api_server_wants_later_does_not_wait_for_the_next_period():
    """A period of an hour. It is tried after a second, two and four more. Found: after an hour."""
    sent, changes = refused_scales(3, 1800, syncPeriodSeconds=3600)

    assert [1, 2, 4] == [round(later - earlier) for earlier, later in pairwise(sent)]
    assert [(2, 4)] == [change[1:] for change in changes]


@pytest.mark.parametrize("refused", [429, 500])
def test_a_scale_down_whose_status_is_refused_does_not_wait_for_the_next_period_either(refused):
    """A scale-down is written to the status first, and that is refused three times. Found: it came after an hour."""

    async def story():
        at_once = {"scaleDown": {"stabilizationWindowSeconds": 0}}
        api = shop(replicas=4, load=1000, behavior=at_once, syncPeriodSeconds=3600)
        api.faults = [Fault("PATCH", "/status$", status=refused, times=3)]
        async with Life(api):
            await until(1800)
        return timeline(api)

    assert [(4, 2)] == [change[1:] for change in live(story)]


@pytest.mark.parametrize(
    "fault",
    [
        {"method": "PATCH", "path": "/scale$", "status": 500},
        {"method": "PATCH", "path": "/scale$", "status": 409},
        {"method": "PATCH", "path": "/scale$", **CUT, "applied": False},
        {"method": "GET", "path": "/scale$", "status": 500},
    ],
    ids=["500", "409", "cut", "the target"],
)
def test_one_request_that_fails_at_an_edge_costs_no_window_of_an_object_with_a_long_period(fault):
    """
    A period of an hour, and a window from 1200 to 2400 s. What fails at 1200 s is tried again after a usual period of
    15 s. Found: after the hour, when the window was over.
    """
    rush = {"name": "rush", "start": "20 7 * * *", "end": "40 7 * * *", "minReplicas": 4, "leadTimeSeconds": 0}

    async def story():
        api = ModelApi()
        api.create("widgets", "prod", "shop", spec={"replicas": 2})
        target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "shop"}
        cronhpa(api, scaleTargetRef=target, metrics=None, minReplicas=2, syncPeriodSeconds=3600, schedules=[rush])
        async with Life(api):
            await until(1190)
            api.faults = [Fault(**fault)]
            await until(2500)
        return timeline(api)

    assert [(1215, 2, 4), (2400, 4, 2)] == live(story)


def test_how_long_a_target_was_away_delays_no_write_that_is_refused_once():
    """A period of an hour. Found: after a quarter of an hour the next try came 1024 s later."""

    async def story():
        api = ModelApi()
        target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "shop"}
        cronhpa(api, scaleTargetRef=target, metrics=None, minReplicas=4, syncPeriodSeconds=3600)
        async with Life(api):
            await until(900)
            api.create("widgets", "prod", "shop", spec={"replicas": 2})
            fault = Fault("PATCH", "/scale$", status=429)
            api.faults = [fault]
            await until(930)
        return fault.met, [change[1:] for change in timeline(api)]

    assert (1, [(2, 4)]) == live(story)


def test_a_target_that_is_gone_at_a_start_is_told_of_though_the_first_status_is_in_doubt():
    """Found: the next period took that status for one of the process before, which would have told of its change."""

    async def story():
        api = shop()
        async with Life(api):
            await until(60)
        api.delete("deployments", "prod", "shop")
        api.faults = [Fault("PATCH", "cronhpas/shop/status$", **CUT)]
        async with Life(api):
            await until(120)
        return [event["reason"] for event in api.objects["events"].values()]

    assert 1 == live(story).count("TargetLost")


def test_an_api_server_that_stays_busy_is_soon_asked_once_a_period_at_most():
    """A period of 15 s: after pauses of one, two, four and eight seconds the next one is as long."""
    sent, changes = refused_scales(None, 240)

    assert [] == changes
    assert 15 <= min(later - earlier for earlier, later in pairwise(at for at in sent if at > 30))


@pytest.mark.parametrize(
    ("version", "kind"), [("apps/v1", "Deployment"), ("example.com/v1", "Widget")], ids=["watched", "not watched"]
)
def test_an_hpa_that_comes_before_the_write_keeps_it_back(version, kind):
    """It comes while the status is written. Found: the target that it owns was scaled once more."""
    ref = {"apiVersion": version, "kind": kind, "name": "shop"}

    async def story():
        api = shop(4, 2000, behavior={"scaleDown": {"stabilizationWindowSeconds": 0}}, scaleTargetRef=ref)
        api.create("widgets", "prod", "shop", spec={"replicas": 4})
        goes_on = asyncio.Event()
        async with Life(api):
            await until(60)
            fault = Fault("PATCH", "cronhpas/shop/status$", applied=True, waits=goes_on)
            api.faults = [fault]
            api.load["prod", "shop"] = 1000
            while not fault.met:  # noqa: ASYNC110 - the model tells nobody
                await asyncio.sleep(1)
            api.create("horizontalpodautoscalers", "prod", "rival", spec={"scaleTargetRef": ref})
            await asyncio.sleep(1)
            goes_on.set()
            await asyncio.sleep(60)
        return timeline(api), condition(api, "Ready")["reason"]

    assert ([], "OtherOwner") == live(story)


def test_an_api_server_that_does_not_serve_the_kind_yet_takes_no_object_away():
    """
    For 30 s, as at the start of an API server, status writes have a 404 that is none of the object. Found: the object
    was taken for deleted, and decided again after the next list, five minutes later.
    """

    async def story():
        api = shop(behavior=None)
        async with Life(api):
            await until(60)
            api.load["prod", "shop"] = 2000
            api.faults = [Fault("PATCH", "cronhpas/shop/status$", status=404, times=None)]
            await until(90)
            api.faults = []
            api.load["prod", "shop"] = 4000
            await until(120)
        return [new for _, _, new in timeline(api)]

    assert [4, 8] == live(story)


@LOST
@pytest.mark.parametrize("write", ["/scale$", "cronhpas/shop/status$"])
@pytest.mark.parametrize(("replicas", "load", "goal"), [(2, 3000, 6), (6, 1000, 2)], ids=["up", "down"])
@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_a_lost_answer_never_hastens_a_rate_policy(lost, write, replicas, load, goal, skipped):
    async def scenario():
        api = shop(replicas, load)
        api.faults = [Fault("PATCH", write, 200, waits=_set(), times=skipped), Fault("PATCH", write, **lost)]
        async with Life(api):
            await until(420)
            assert goal == api.replicas("prod", "shop")
            assert {1 if load == 3000 else -1} == set(changes(api))
            assert all(gap >= 59 for gap in gaps(api))
            # At most one reconciliation is lost at each.
            assert max(gaps(api)) <= 91
            memory = status(api)["memory"]
            assert [] == memory["scaleUpEvents"] + memory["scaleDownEvents"]
            assert "intent" not in memory

    live(scenario)


def _set():
    event = asyncio.Event()
    event.set()
    return event


def test_a_scale_up_that_was_not_done_leaves_no_event_in_the_status():
    """The next reconciliation finds the old count: the doubtful event is dropped, and the pod is added then."""

    async def scenario():
        api = shop(2, 3000)
        api.faults = [Fault("PATCH", "/scale$", **NOT_DONE)]
        async with Life(api):
            await until(2)
            assert [{"from": 2, "to": 3}] == [
                {key: value for key, value in status(api)["memory"]["intent"].items() if key != "time"}
            ]
            await until(40)
        assert [(2, 3)] == [change[1:] for change in timeline(api)]
        assert [1] == [event["change"] for event in status(api)["memory"]["scaleUpEvents"]]

    live(scenario)


def test_what_is_in_doubt_stays_in_doubt_while_the_target_cannot_be_read():
    """Not done, and then the target cannot be read for a while: no event may remain that delays the next pod."""

    async def scenario():
        api = shop(2, 3000)
        api.faults = [Fault("PATCH", "/scale$", **NOT_DONE), Fault("GET", "deployments/shop/scale$", 500, times=None)]
        async with Life(api):
            await until(20)
            api.faults.clear()
            await until(45)
        assert [(2, 3)] == [change[1:] for change in timeline(api)]

    live(scenario)


def test_a_status_in_doubt_is_read_before_it_is_written_again():
    """
    The intended scale-down is written but its answer cut, so nothing is scaled: no event may be left behind of it.

    What is written next is made against what the API holds, not against what it was thought to hold.
    """

    async def scenario():
        api = shop(6, 3000)
        async with Life(api):
            await until(10)
            api.faults = [Fault("PATCH", "status$", **CUT)]
            api.load["prod", "shop"] = 1000
            await until(21)
            assert 1 == api.faults[0].met
            memory = status(api)["memory"]
            assert [] == timeline(api)
            assert [] == memory["scaleDownEvents"]
            assert "intent" not in memory

    live(scenario)


def test_a_wake_that_was_not_done_is_tried_again():
    """A zero of a schedule's making stays ours when the scale-up out of it fails and nobody knows whether."""

    async def scenario():
        api = shop(2, 500, schedules=[{"name": "night", "start": "1 7 * * *", "end": "5 7 * * *", "replicas": 0}])
        async with Life(api):
            await until(290)
            assert 0 == api.replicas("prod", "shop")
            api.faults = [Fault("PATCH", "/scale$", **NOT_DONE)]
            await until(330)
            assert 1 == api.replicas("prod", "shop")

    live(scenario)


def test_a_count_that_somebody_changed_meanwhile_voids_the_decision():
    """2 to 3 was decided; somebody made it 5 before the write. The next reconciliation decides anew from 5."""

    async def scenario():
        api = shop(2, 3000)
        goes_on = asyncio.Event()
        api.faults = [Fault("PATCH", "/scale$", waits=goes_on)]
        async with Life(api):
            await asyncio.sleep(5)
            api.edit("deployments", "prod", "shop", spec={"replicas": 5})
            goes_on.set()
            await until(8)
            assert "were changed from 2 to 5 meanwhile" in condition(api, "AbleToScale")["message"]
            assert [] == status(api)["memory"]["scaleUpEvents"]
            await until(40)
        assert [(2, 5), (5, 6)] == [change[1:] for change in timeline(api)]

    live(scenario)


def test_a_version_that_changed_without_the_count_costs_nothing():
    """A label was set on the Deployment between the decision and its write: 409, read, written again at once."""

    async def scenario():
        api = shop(2, 3000)
        goes_on = asyncio.Event()
        api.faults = [Fault("PATCH", "/scale$", waits=goes_on)]
        async with Life(api):
            await asyncio.sleep(5)
            api.edit("deployments", "prod", "shop", metadata={"labels": {"team": "web"}})
            goes_on.set()
            await until(6)
        assert [(2, 3)] == [change[1:] for change in timeline(api)]
        assert "SucceededRescale" == condition(api, "AbleToScale")["reason"]

    live(scenario)


def changing(api, *, times, seconds):
    """Somebody else labels the target ahead of each write of its scale, so many times; both take so many seconds."""
    left = iter(range(times))

    def latency(method, path):
        if not path.endswith("/scale"):
            return 0.001
        if method == "PATCH" and next(left, None) is not None:
            api.edit("deployments", "prod", "shop", metadata={"labels": {"changed": str(api.now())}})
        return seconds

    api.latency = latency


def test_a_target_that_changes_all_the_time_is_scaled_between_two_changes():
    """Found: after three conflicts, 12 s on a busy API server, a step waited for another reconciliation, or two."""

    async def scenario():
        api = shop(2, 3000)
        changing(api, times=8, seconds=1)
        async with Life(api):
            await until(30)
        assert 9 == api.count("PATCH", "/scale")
        return timeline(api)

    ((at, *change),) = live(scenario)

    assert [2, 3] == change
    assert 20 <= at <= 21  # nine writes, a read after each of the eight, and pauses of 0.02 to 1 s, 3.3 s in all


def test_a_target_that_changes_for_half_a_minute_or_whose_object_is_edited_is_given_up():
    async def scenario():
        api = shop(2, 3000)
        changing(api, times=1000, seconds=1)
        async with Life(api):
            await until(36)
            assert "the target changed 12 times while it was being scaled" in condition(api, "AbleToScale")["message"]
            await until(45)
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 2})
            await until(49)
            before = api.count("PATCH", "/scale")
            await until(90)
        assert before == api.count("PATCH", "/scale")
        assert [] == timeline(api)

    live(scenario)


def test_a_target_that_changes_all_the_time_costs_few_requests_where_they_are_fast():
    """Found: 60,000 writes in two minutes of conflicts, one each millisecond of round trip."""

    async def scenario():
        api = shop(2, 3000)
        changing(api, times=10**6, seconds=0.001)
        async with Life(api):
            await until(120)
        return api.count("PATCH", "/scale")

    assert live(scenario) <= 4 * 40


def test_a_conflict_that_nobody_made_is_told_as_it_was_refused_and_tried_again_a_period_later():
    """An admission webhook may refuse by any code; the target is as it was read."""

    async def scenario():
        api = shop(2, 3000)
        api.faults = [Fault("PATCH", "/scale$", status=409, times=None)]
        async with Life(api):
            await until(40)
        return api.count("PATCH", "/scale"), condition(api, "AbleToScale")

    writes, told = live(scenario)

    assert writes <= 3
    assert ("False", "FailedUpdateScale") == (told["status"], told["reason"])
    assert "answered 409 on purpose" in told["message"]


def edited(api):
    api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 2})


def deleted(api):
    api.delete("cronhpas", "prod", "shop")


def recreated(api):
    deleted(api)
    cronhpa(api, maxReplicas=2)


@pytest.mark.parametrize("change", [edited, deleted, recreated])
def test_a_decision_that_waits_for_its_write_is_void_when_its_object_changes(change):
    """Twenty neighbours whose writes hang take the namespace's 16 places: the decision waits behind them."""

    async def scenario():
        api = shop(2, 1000)
        for number in range(20):
            deployment(api, f"slow-{number}")
            api.load["prod", f"slow-{number}"] = 2000
            cronhpa(api, f"slow-{number}")
        api.faults = [Fault("PATCH", "slow-", hangs=True, times=None)]
        async with Life(api):
            await until(1)
            api.load["prod", "shop"] = 2000
            await until(15)
            change(api)
            await until(90)
        assert [] == timeline(api)

    live(scenario)


@pytest.mark.parametrize("change", [edited, deleted, recreated])
def test_a_scale_down_is_void_when_its_object_changes_while_it_is_written_down(change):
    """Held at 6 by the edit, the target may not lose a pod to the decision before it."""

    async def scenario():
        api = shop(6, 1000)
        goes_on = asyncio.Event()
        async with Life(api):
            api.faults = [Fault("PATCH", "cronhpas/shop/status", waits=goes_on)]
            await until(5)
            assert 1 == api.faults[0].met
            if change is edited:
                api.edit("cronhpas", "prod", "shop", spec={"minReplicas": 6})
            elif change is deleted:
                deleted(api)
            else:
                deleted(api)
                cronhpa(api, minReplicas=6)
            goes_on.set()
            await until(60)
        assert [] == timeline(api)

    live(scenario)


def test_a_scale_down_of_an_object_that_was_made_anew_meanwhile_is_not_written_down_on_the_new_one():
    """
    The object is made anew while its scale-down is written down, and the watch does not tell. The intent names the
    version of the old object, so it is refused; the new object, which may not go below 6, is read then.
    """

    async def scenario():
        api = shop(6, 1000)
        goes_on = asyncio.Event()
        async with Life(api) as life:
            api.faults = [Fault("PATCH", "cronhpas/shop/status", waits=goes_on)]
            await until(5)
            api.freeze_watches("cronhpas")
            deleted(api)
            cronhpa(api, minReplicas=6)
            goes_on.set()
            await until(60)
            assert 6 == life.inventory.items["prod", "shop"].served.spec.min_replicas
            assert "intent" not in status(api)["memory"]
        assert [] == timeline(api)

    live(scenario)


def test_an_object_clears_the_status_that_an_earlier_one_of_its_name_left_in_it():
    """The first status of the old object, with all of its memory, goes to the new one, which has another target."""

    async def scenario():
        window = {"name": "night", "start": "0 20 * * *", "end": "0 6 * * *", "timeZone": "UTC", "maxReplicas": 5}
        api = shop(2, 1000, schedules=[window])
        deployment(api, "new", 8)
        api.load["prod", "new"] = 4000
        goes_on = asyncio.Event()
        async with Life(api) as life:
            api.faults = [Fault("PATCH", "cronhpas/shop/status", waits=goes_on)]
            await until(5)
            deleted(api)
            cronhpa(api, scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "new"})
            goes_on.set()
            await until(60)
            assert status(api) == life.inventory.items["prod", "shop"].served.status
            return status(api), [entry.replicas for entry in life.memory().recommendations]

    shown, remembered = live(scenario)

    assert ("Deployment/new", 8) == (shown["target"], shown["memory"]["replicas"])
    assert "schedules" not in shown
    assert {8} == {*remembered}


def test_a_new_target_inherits_nothing_of_a_decision_that_was_under_way():
    """
    The scale write of the old target waits while the object is pointed at another one.

    Without a behavior the largest recommendation of five minutes counts: 6 of the old target would raise the new one.
    """

    async def scenario():
        api = shop(4, 3000, behavior=None)
        deployment(api, "new", 2)
        api.load["prod", "new"] = 1000
        goes_on = asyncio.Event()
        api.faults = [Fault("PATCH", "deployments/shop/scale", waits=goes_on)]
        async with Life(api):
            await until(5)
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "new"}
            api.edit("cronhpas", "prod", "shop", spec={"scaleTargetRef": target, "metrics": [CPU]})
            goes_on.set()
            await until(90)
        assert 2 == api.replicas("prod", "new")

    live(scenario)
