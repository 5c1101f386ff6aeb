"""cronhpa.operator.controller, cronhpa.operator.objects.inventory: the memories of a replica between two terms."""

import asyncio
import json

import pytest
from lives import Life, condition, cronhpa, deployment, one_pod_each, rules, shop, timeline, until
from model_api import START, Fault, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import SECOND
from cronhpa.operator.leader.replica import OnlyReplica
from cronhpa.operator.writes.placeholder_settings import PlaceholderSettings


class SometimesLeader(OnlyReplica):
    """A replica whose terms the test begins and ends."""

    def __init__(self):
        self.term = 1
        self._terms = 1
        self._change = asyncio.Event()

    async def acquired(self):
        while not self.term:
            await self._change.wait()
        return self.term

    async def lost(self, term):
        while self.term == term:
            await self._change.wait()

    def end(self):
        self.term = 0
        self._tell()

    def lead_again(self, *, others_led):
        self._terms += 1
        self.term = self._terms
        if others_led:
            self.unbroken_since = self.term
        self._tell()

    def _tell(self):
        self._change.set()
        self._change = asyncio.Event()


def lapse(*, others_led, clock=0):
    """
    Six pods are needed, and five from 100 s on, but for the seconds 150 to 180: no status of that could be written, and
    nobody leads from 180 s to 220 s. When it falls to five, in seconds.
    """

    async def scenario():
        api = shop(6, 3000)
        replica = SometimesLeader()
        async with Life(api, replica=replica):
            await until(100)
            api.load["prod", "shop"] = 2500
            await until(150)
            api.faults = [Fault("PATCH", "/status", status=500, times=None)]
            api.load["prod", "shop"] = 3000
            await until(180)
            replica.end()
            api.faults = []
            api.load["prod", "shop"] = 2500
            api.clock_offset = clock * SECOND
            await until(220)
            replica.lead_again(others_led=others_led)
            await until(700)
        ((at, _, replicas),) = timeline(api)
        assert 5 == replicas
        return at - clock

    return live(scenario)


def test_who_leads_again_after_nobody_else_remembers_what_it_could_not_write_down():
    """The default window of 300 s, a reconciliation of 15 s: six were asked for between 165 s and 180 s."""
    assert 465 <= lapse(others_led=False) <= 495


def test_who_leads_again_after_somebody_else_begins_with_the_status():
    """It says that six were asked for between 85 s and 100 s: what nobody could write down, nobody else knew."""
    assert 385 <= lapse(others_led=True) <= 415


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_set_while_nobody_leads_opens_no_window(hours):
    """What is remembered is as old as before."""
    assert 465 <= lapse(others_led=False, clock=hours * 3600) <= 495


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("is_up", [True, False])
def test_a_scale_that_was_under_way_at_the_end_of_a_term_counts_if_it_was_done(is_done, is_up):
    """One pod in 100 s: the next one 100 s after the first, if that was done; else both are made from 40 s on."""

    async def scenario():
        slow = one_pod_each(100)
        api = shop(4, 4000 if is_up else 1000, behavior=rules(slow, slow))
        held = Fault("PATCH", "/scale", applied=is_done, hangs=True)
        api.faults = [held]
        replica = SometimesLeader()
        async with Life(api, replica=replica):
            await until(10)
            assert 1 == held.met
            replica.end()
            await until(40)
            replica.lead_again(others_led=False)
            await until(130)
        return timeline(api)

    step = 1 if is_up else -1
    changes = live(scenario)

    assert [(4, 4 + step), (4 + step, 4 + 2 * step)][: len(changes)] == [change[1:] for change in changes]
    if is_done:
        assert 2 == len(changes)
        assert 100 <= changes[1][0] - changes[0][0] <= 125
    else:
        assert 1 == len(changes)
        assert 40 <= changes[0][0] <= 56


def test_who_leads_again_records_a_decision_that_it_made_before_another_leader_made_others():
    """
    Two pods, then four by another leader, then two again. Found: the second two was a repetition to who had decided the
    first one, and of the time since then the store told that four are in force.
    """
    nine = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]}

    async def scenario():
        api = shop(2, 1000, behavior=rules(nine, nine))
        replica = SometimesLeader()
        async with Life(api, replica=replica) as life:
            recorder = life.controller.writer.decisions
            await until(100)
            replica.end()
            api.load["prod", "shop"] = 2000
            async with Life(api):
                await until(200)
            api.load["prod", "shop"] = 1000
            first = recorder.take(100)
            replica.lead_again(others_led=True)
            await until(300)
            recorded = (first, recorder.take(100))
        assert [(2, 4), (4, 2)] == [(before, after) for _, before, after in timeline(api)]
        return [[json.loads(bytes(one.decision.body))["status"]["desiredReplicas"] for one in of] for of in recorded]

    assert [[2], [2]] == live(scenario)


@pytest.mark.parametrize("end", [lambda replica, _: replica.end(), lambda _, inventory: inventory.drop_all(bool)])
def test_the_loads_of_repeated_reconciliations_are_told_when_a_term_ends_or_a_shard_is_given_up(end):
    """A reconciliation that is repeated keeps the highest load of its minute: the next leader does not know it."""

    async def scenario():
        api = shop(5, 2500)
        replica = SometimesLeader()
        async with Life(api, replica=replica, check_standing=False) as life:
            await until(125)
            loads = life.controller.reconciler.loads.unstored
            assert START + 120 * SECOND > max(sample.at for sample in loads)
            assert life.controller.reconciler.standing.stood
            await until(170)
            end(replica, life.inventory)
            await until(171)
            return (max(sample.at for sample in loads) - START) // SECOND

    assert live(scenario) >= 120


def test_who_leads_after_it_was_cut_off_waits_for_the_planned_events_that_it_may_have_missed():
    """
    Its lists fail from 100 s on; at 150 s there is an event, for which the leader of that time scales to six. Found:
    who led from 200 s on did not know the event, and scaled down.
    """

    async def scenario():
        api = shop(1, 100, behavior={"scaleDown": {"stabilizationWindowSeconds": 0}})
        api.kinds |= {("/apis/cronhpa.io/v1alpha1", "plannedevents"): "PlannedEvent"}
        replica = SometimesLeader()
        async with Life(api, replica=replica):
            await until(100)
            replica.end()
            fault = Fault("GET", "/plannedevents$", status=500, times=None)
            api.faults = [fault]
            api.cut_watches("plannedevents")
            await until(150)
            window = {"name": "doors", "from": "2027-01-15T07:02", "to": "2027-01-15T08:00", "minReplicas": 6}
            api.create("plannedevents", "prod", "sale", spec={"selector": {}, "reason": "a", "schedules": [window]})
            api.edit("deployments", "prod", "shop", spec={"replicas": 6})
            await until(200)
            replica.lead_again(others_led=True)
            api.load["prod", "shop"] = 9000
            await until(230)
            assert 10 == api.replicas("prod", "shop")  # what is asked for does not wait
            api.load["prod", "shop"] = 100
            api.faults = []
            await until(300)
            assert 6 == api.replicas("prod", "shop")
            api.delete("plannedevents", "prod", "sale")
            await until(400)
        return [(before, after) for _, before, after in timeline(api)], timeline(api)[-1][0]

    changes, down_at = live(scenario)

    assert [(1, 6), (6, 10), (10, 6), (6, 1)] == changes
    assert down_at >= 300


def test_who_leads_after_it_was_frozen_waits_for_the_hpa_that_its_watch_never_told_of():
    """
    From 100 s on its watch tells nothing, and at 150 s somebody makes an HPA. The watch breaks as it wakes, at 195 s,
    and lists fail until 215 s. Found: it scaled beside the HPA at once, as it had lost the watch 5 s before.
    """

    async def scenario():
        api = shop(2, 1000)
        replica = SometimesLeader()
        async with Life(api, replica=replica):
            await until(100)
            replica.end()
            await until(150)
            ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
            rival = {"metadata": {"namespace": "prod", "name": "rival", "resourceVersion": "9"}}
            api.objects["horizontalpodautoscalers"]["prod", "rival"] = {**rival, "spec": {"scaleTargetRef": ref}}
            await until(195)
            api.faults = [Fault("GET", "/horizontalpodautoscalers$", status=503, times=None)]
            api.cut_watches("horizontalpodautoscalers")
            await until(200)
            api.load["prod", "shop"] = 9000
            replica.lead_again(others_led=True)
            await until(215)
            api.faults = []
            await until(300)
        return timeline(api), condition(api, "Ready")["reason"]

    assert ([], "OtherOwner") == live(scenario)


HASTY = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]}


async def begin_without_hpas(api, *, was_leading, load):
    """200 s of a life, or of its second term from 200 s on, whose lists of HPAs all fail."""
    replica = SometimesLeader()
    no_hpas = Fault("GET", "/horizontalpodautoscalers$", status=403, times=None)
    begun = asyncio.get_running_loop().time()
    if not was_leading:
        api.faults = [no_hpas]
    async with Life(api, replica=replica):
        if was_leading:
            await until(100)
            replica.end()
            api.faults = [no_hpas]
            api.cut_watches("horizontalpodautoscalers")
            await until(200)  # nothing is believed for longer than 30 s without its watch
            replica.lead_again(others_led=True)
            begun = 200
        api.load["prod", "shop"] = load
        await until(begun + 200)


@pytest.mark.parametrize("was_leading", [False, True])
def test_a_list_of_hpas_that_fails_for_ever_ends_no_scaling_up(was_leading):
    """
    Six pods are needed, four are there. Found: such a replica decided nothing at all, for ever.

    It waits a minute for the list, in the second term from 200 s on.
    """

    async def scenario():
        api = shop(4, 2000)
        await begin_without_hpas(api, was_leading=was_leading, load=3000)
        return timeline(api)

    ((at, *change),) = live(scenario)
    assert [4, 6] == change
    assert 0 <= at - (260 if was_leading else 60) <= 40


def test_a_list_of_hpas_that_hangs_ends_no_scaling_up_either():
    """The API server answers nothing else meanwhile: nobody asks."""

    async def scenario():
        api = shop(4, 3000)
        api.faults = [Fault("GET", "/horizontalpodautoscalers$", hangs=True, times=None)]
        async with Life(api):
            await until(200)
        return timeline(api)

    ((at, *change),) = live(scenario)
    assert [4, 6] == change
    assert 60 <= at <= 100


@pytest.mark.parametrize("was_leading", [False, True])
def test_while_a_list_of_hpas_hangs_for_ever_a_fleet_of_schedules_alone_is_served(was_leading):
    """
    It asks the API server for nothing for minutes, and its watches hear of a pod each minute. Found: it was served for
    one minute or two, then for two to three minutes not, and so on: a window opened 95 s late.
    """

    async def scenario():
        api, replica = ModelApi(), SometimesLeader()
        events = ("plannedevents", "clusterplannedevents")  # one of them that is not served is asked for each minute
        api.kinds |= {("/apis/cronhpa.io/v1alpha1", plural): plural for plural in events}
        api.kinds["/api/v1", "namespaces"] = "Namespace"
        window = {"name": "day", "start": "20 7 * * *", "end": "0 18 * * *", "minReplicas": 6}
        deployment(api, replicas=2)
        cronhpa(api, metrics=None, minReplicas=2, schedules=[window])
        api.faults = [Fault("GET", "/horizontalpodautoscalers$", hangs=True, times=None)]
        async with Life(api, replica=replica) as life:
            if was_leading:
                await until(100)
                replica.end()
                await until(200)
                replica.lead_again(others_led=False)
            await until(300)
            for second in range(310, 1400, 10):
                await until(second)
                if second % 60 == 0:
                    api.edit("pods", "prod", "shop-000", metadata={"labels": {"minute": str(second)}})
                assert life.controller.handover.serves("prod"), second

    live(scenario)


@pytest.mark.parametrize("was_leading", [False, True])
def test_without_a_list_of_hpas_the_metrics_scale_nothing_down_and_the_status_says_so(was_leading):
    """An HPA that nobody sees may ask for the four pods of which two would do."""

    async def scenario():
        api = shop(4, 2000, behavior=rules(HASTY, HASTY))
        await begin_without_hpas(api, was_leading=was_leading, load=1000)
        return timeline(api), condition(api, "ScalingActive")

    changes, active = live(scenario)
    assert [] == changes
    assert "the HorizontalPodAutoscalers cannot be listed" in active["message"]


def test_an_object_that_held_because_of_an_hpa_holds_on_while_none_can_be_listed():
    """A new process knows of the HPA by the object's status alone."""

    async def scenario():
        api = shop(4, 3000)
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
        api.create("horizontalpodautoscalers", "prod", "rival", spec={"scaleTargetRef": ref})
        async with Life(api):
            await until(60)
        await begin_without_hpas(api, was_leading=False, load=3000)
        return timeline(api), condition(api, "TargetOwned")

    changes, owned = live(scenario)
    assert [] == changes
    assert ("False", "HorizontalPodAutoscaler rival scales") == (owned["status"], owned["message"][:36])


def test_an_object_that_held_because_of_an_hpa_holds_no_more_on_another_target_while_none_can_be_listed():
    """Found: with its new target it held for ever because of the HPA on the former one, and named that target."""

    async def scenario():
        api = shop(4, 3000)
        deployment(api, "cart", replicas=4)
        api.load["prod", "cart"] = 3000
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
        api.create("horizontalpodautoscalers", "prod", "rival", spec={"scaleTargetRef": ref})
        async with Life(api):
            await until(60)
        api.edit("cronhpas", "prod", "shop", spec={"scaleTargetRef": {**ref, "name": "cart"}})
        await begin_without_hpas(api, was_leading=False, load=3000)
        return [change[1:] for change in timeline(api, "prod/cart")], condition(api, "TargetOwned")["status"]

    assert ([(4, 6)], "True") == live(scenario)


def test_what_became_due_while_another_replica_led_is_no_lateness_of_this_one():
    """
    It leads from 600 s on, and its list of the objects takes 10 s. Found: the decision of an object that was listed at
    the start counted as 600 s late, so that after each handover the 99th percentile was the largest bucket.
    """

    async def scenario():
        api, replica = shop(4, 2000), SometimesLeader()
        replica.end()
        async with Life(api, replica=replica) as life:
            await until(590)
            # The model sends no bookmarks, by which a watch tells each minute that it lives.
            api.create(
                "horizontalpodautoscalers", "other", "any", spec={"scaleTargetRef": {"kind": "Pump", "name": "x"}}
            )
            await until(600)
            api.latency = lambda _method, path: 10.0 if path.endswith("/cronhpas") else 0.001
            replica.lead_again(others_led=True)
            await until(700)
            return life.control_loop.metrics

    metrics = live(scenario)
    assert metrics.reconciles > 5
    assert 10 * SECOND <= metrics.lag.total < 15 * SECOND


def test_nothing_follows_the_decisions_of_a_former_term_before_the_objects_are_listed():
    """
    Placeholders for a window of 07:20 were due from 07:10 on, but its start was moved to noon while another replica
    led. This one leads again at 07:11:40, and its list of the objects takes 10 s. Found: meanwhile it made placeholders
    by its last decision, of ten minutes before.
    """
    window = {"name": "day", "start": "20 7 * * *", "end": "0 18 * * *", "minReplicas": 9}

    async def scenario():
        api, replica = ModelApi(), SometimesLeader()
        template = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}
        selector = {"matchLabels": {"app": "shop"}}
        api.create("deployments", "prod", "shop", spec={"replicas": 2, "selector": selector, "template": template})
        room = {"maxReplicas": 20, "nodeStartupSeconds": 600}
        cronhpa(api, metrics=None, minReplicas=2, schedules=[window], placeholders=room)
        allowed = PlaceholderSettings("Deployment", "own", "low", "pause", 100)
        async with Life(api, replica=replica, placeholders=allowed):
            await until(100)
            replica.end()
            await until(200)
            api.edit("cronhpas", "prod", "shop", spec={"schedules": [{**window, "start": "0 12 * * *"}]})
            await until(700)
            api.latency = lambda _method, path: 10.0 if path.endswith("/cronhpas") else 0.001
            replica.lead_again(others_led=True)
            await until(800)
        return [path for _, method, path in api.asked if method == "POST" and "/own/deployments" in path]

    assert [] == live(scenario)


def test_a_start_while_the_api_server_is_away_waits_for_the_lists_once_it_is_back():
    """
    It is away for three minutes, and refuses the lists of pods and HPAs for ten seconds more. Found: they were overdue
    by then, so decisions went on without them: each object said for a moment that its pods cannot be listed.
    """

    async def scenario():
        api = shop(4, 2000)
        api.faults = [Fault("GET", "", times=None)]
        life = Life(api)
        life.client.succeeded_at = 0.0
        async with life:
            await until(180)
            api.faults = [Fault("GET", "/(pods|horizontalpodautoscalers)$", status=503, times=None)]
            await until(190)
            api.faults = []
            await until(300)
        return [body["status"] for _, path, body in api.writes if path.endswith("/status")]

    written = live(scenario)
    assert written
    assert not [one for one in written if "cannot be listed" in json.dumps(one)]
