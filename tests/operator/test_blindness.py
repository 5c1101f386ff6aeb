"""cronhpa.operator.controller: after a watch is lost for good, the former pods are not believed for long."""

import asyncio

import pytest
from lives import CPU, Life, condition, cronhpa, deployment, shop, status, timeline, until
from model_api import Fault, ModelApi, ModelClient
from virtual_time import live

from cronhpa.kube.shard_scope import ShardScope
from cronhpa.operator.objects.namespace_watches import NamespaceWatches

NINE_AT_ONCE = [{"type": "Pods", "value": 9, "periodSeconds": 15}]
QUICK = {"scaleDown": {"stabilizationWindowSeconds": 0}}
# An informer lists again every ten minutes, or up to a quarter later; the decision follows within a period.
LISTED_AGAIN = 1.25 * 600 + 20


def forbidden(api, plural, path):
    """Nobody can list or watch this kind any more; the fault, to be lifted."""
    fault = Fault("GET", path, status=403, times=None)
    api.faults = [fault]
    api.cut_watches(plural)
    return fault


def test_a_load_over_pods_that_are_not_seen_lowers_nothing():
    """
    Six pods are known, four more came unseen. 4.2 cores over ten pods are 42 % each: over the six known ones that asks
    for ceil(0.84 * 6) = 6, while 4.2 / 0.5 = 9 are needed. Nothing is decided on what was seen a minute ago.
    """

    async def scenario():
        api = shop(6, 3000, behavior=QUICK)
        async with Life(api):
            await until(20)
            fault = forbidden(api, "pods", "^/api/v1/pods$")
            await until(60)
            api.edit("deployments", "prod", "shop", spec={"replicas": 10})
            api.load["prod", "shop"] = 4200
            await until(150)
            blind, told = timeline(api), condition(api, "ScalingActive")
            fault.times = 0
            await until(200)
            return blind, told, timeline(api)

    blind, told, seen = live(scenario)

    assert [(60, 6, 10)] == blind
    assert ("False", "FailedGetResourceMetric") == (told["status"], told["reason"])
    assert told["message"].endswith("the pods cannot be listed or watched any more: answered 403 on purpose")
    assert [(6, 10), (10, 9)] == [change[1:] for change in seen]


@pytest.mark.parametrize("others", [[], [CPU]], ids=["alone", "behind one that needs them"])
def test_a_metric_that_needs_no_pods_raises_the_count_while_none_are_seen_and_lowers_nothing(others):
    """
    A queue of 40, ten for each pod, then of 90, then of 10, while the pods cannot be listed. As upstream, for which
    the count of such a metric is that of the scale. Found: the queue was not asked for. The CPU asks for one pod.
    """

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=4)
        api.external["queue"] = 40
        target = {"type": "AverageValue", "averageValue": 10}
        queue = {"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}
        api.load["prod", "shop"] = 400
        cronhpa(api, metrics=[*others, queue], behavior={**QUICK, "scaleUp": {"policies": NINE_AT_ONCE}})
        async with Life(api):
            await until(20)
            fault = forbidden(api, "pods", "^/api/v1/pods$")
            await until(60)
            api.external["queue"] = 90
            await until(100)
            api.external["queue"] = 10
            await until(150)
            blind = timeline(api)
            fault.times = 0
            await until(300)
        return [change[1:] for change in blind], [change[1:] for change in timeline(api)]

    assert ([(4, 9)], [(4, 9), (9, 1)]) == live(scenario)


def test_autoscalers_whose_watch_is_lost_are_believed_for_half_a_minute():
    """1 core over six pods asks for two; an HPA that was made meanwhile may ask for more, and would be fought."""

    async def scenario():
        api = shop(6, 3000, behavior=QUICK)
        async with Life(api):
            await until(20)
            fault = forbidden(api, "horizontalpodautoscalers", "/horizontalpodautoscalers$")
            await until(60)
            api.load["prod", "shop"] = 1000
            await until(150)
            blind, told = timeline(api), condition(api, "ScalingActive")
            api.load["prod", "shop"] = 4000
            await until(200)
            up = timeline(api)
            api.load["prod", "shop"] = 1000
            fault.times = 0
            await until(260)
            return blind, told, [change[1:] for change in up], [change[1:] for change in timeline(api)]

    blind, told, up, seen = live(scenario)

    assert blind == []
    assert ("False", "OwnersUnknown") == (told["status"], told["reason"])
    assert up == [(6, 8)]
    assert seen == [(6, 8), (8, 2)]


def test_a_scale_down_whose_window_ends_while_autoscalers_are_not_watched_waits_for_their_list():
    """The load asks for two from 20 s on; the window of 300 s ends while the HPAs cannot be listed, until 400 s."""

    async def scenario():
        api = shop(6, 3000)
        async with Life(api):
            await until(20)
            api.load["prod", "shop"] = 1000
            await until(40)
            fault = forbidden(api, "horizontalpodautoscalers", "/horizontalpodautoscalers$")
            await until(400)
            blind = timeline(api)
            fault.times = 0
            await until(460)
            return blind, [change[1:] for change in timeline(api)]

    assert live(scenario) == ([], [(6, 2)])


def frozen(load):
    """Six pods are known, and four more come while the watch of pods is frozen: events up to 150 s and up to 400 s."""

    async def scenario():
        api = shop(6, 3000, maxReplicas=40, behavior=QUICK)
        async with Life(api):
            await until(60)
            api.freeze_watches("pods")
            api.edit("deployments", "prod", "shop", spec={"replicas": 10})
            api.load["prod", "shop"] = load
            await until(150)
            by_then, told = timeline(api), condition(api, "ScalingActive")
            await until(400)
            return [change[1:] for change in by_then], told, [change[1:] for change in timeline(api)]

    return live(scenario)


def test_a_frozen_watch_of_pods_lowers_nothing_and_its_pods_are_seen_again():
    """
    4.2 cores over ten pods are 42 % each: over the six known ones that asks for ceil(0.84 * 6) = 6, where 9 are needed.
    Five minutes after the list before, the pods are listed again.
    """
    by_then, told, at_last = frozen(4200)

    assert by_then == [(6, 10)]
    assert ("False", "PodsUnknown") == (told["status"], told["reason"])
    assert at_last == [(6, 10), (10, 9)]


def test_a_frozen_watch_of_pods_keeps_no_metric_from_raising():
    """10 cores over ten pods are 100 %: over the six known ones that asks for 2 * 6 = 12, which is more than 10."""
    by_then, _, at_last = frozen(10_000)

    assert by_then[:2] == [(6, 10), (10, 12)]
    assert at_last[-1][1] == 20


def test_pods_of_a_step_of_our_own_that_no_watch_tells_of_lower_nothing():
    """
    The watches of pods and targets freeze together, as those of one API server do. Six cores over six pods ask for 12.
    Five over the 12 are 41 % each: over the six known ones that asks for ceil(0.82 * 6) = 5, where 10 are needed.
    """

    async def scenario():
        api = shop(6, 3000, maxReplicas=40, behavior=QUICK)
        async with Life(api):
            await until(60)
            api.freeze_watches("pods")
            api.freeze_watches("deployments")
            api.load["prod", "shop"] = 6000
            await until(80)
            api.load["prod", "shop"] = 5000
            await until(150)
            by_then = timeline(api)
            await until(400)
            return [change[1:] for change in by_then], [change[1:] for change in timeline(api)]

    by_then, at_last = live(scenario)

    assert by_then == [(6, 12)]
    assert at_last == [(6, 12), (12, 10)]


def test_a_quota_that_keeps_back_a_pod_of_our_step_holds_no_count_while_targets_are_read_one_by_one():
    """
    Deployments cannot be watched any more. Three cores over four pods ask for six, and a quota allows five. Then 1.2
    cores over these ask for ceil(0.48 * 5) = 3. Found: the watch never told of the step to six, so a pod was missing,
    and the metrics scaled nothing down, though the scale that was read states five pods.
    """

    async def scenario():
        api = shop(4, 2000, behavior=QUICK)
        async with Life(api):
            await until(20)
            forbidden(api, "deployments", "^/apis/apps/v1/deployments$")
            await until(60)
            api.load["prod", "shop"] = 3000
            await until(80)
            api.delete("pods", "prod", "shop-005")
            api.edit("deployments", "prod", "shop", status={"replicas": 5})
            api.load["prod", "shop"] = 1440  # 0.24 cores for each of the six that the model shares it among
            await until(120)
            return [change[1:] for change in timeline(api)]

    assert [(4, 6), (6, 3)] == live(scenario)


def test_pods_whose_deletion_was_lost_keep_nothing_from_growing_for_longer_than_a_list():
    """
    Two pods are left of six, and the watch has lost that: over two, 1.6 cores need ceil(1.6 * 2) = 4. The four that
    are gone have no sample and count as idle: 1.6 of 6 cores are 27 %, over which nothing grows, and nothing shrinks.
    """

    async def scenario():
        api = shop(6, 3000, behavior=QUICK)
        async with Life(api):
            await until(60)
            api.freeze_watches("pods")
            api.load["prod", "shop"] = 1600
            api.edit("deployments", "prod", "shop", spec={"replicas": 2})
            await until(400)
            by_then = timeline(api)
            await until(LISTED_AGAIN)
            return [change[1:] for change in by_then], [change[1:] for change in timeline(api)]

    by_then, at_last = live(scenario)

    assert by_then == [(6, 2)]
    assert at_last == [(6, 2), (2, 4)]


def test_a_target_that_is_not_watched_any_more_is_asked_for():
    async def scenario():
        api = shop(6, 3000, behavior=QUICK)
        async with Life(api):
            await until(20)
            forbidden(api, "deployments", "^/apis/apps/v1/deployments$")
            await until(60)
            api.edit("deployments", "prod", "shop", spec={"replicas": 10})
            await until(100)
            return timeline(api), status(api)["currentReplicas"]

    changes, current = live(scenario)

    assert [(6, 10), (10, 6)] == [change[1:] for change in changes]
    assert 6 == current


def test_a_pod_of_a_stateful_set_that_does_not_end_keeps_nothing_from_scaling_down():
    """
    A StatefulSet counts the pods that are being deleted until they are gone: five and that one are seen, of six. Five
    pods use 0.1 cores each, which at 50 % asks for one.
    """

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=6)
        made = api.objects["deployments"]["prod", "shop"]
        api.create("statefulsets", "prod", "shop", spec=made["spec"], status={"replicas": 6})
        api.edit("pods", "prod", "shop-005", metadata={"deletionTimestamp": "2027-01-15T07:00:00Z"})
        api.load["prod", "shop"] = 600
        cronhpa(api, behavior=QUICK, scaleTargetRef={"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shop"})
        async with Life(api):
            await until(120)
            return [replicas for _, target, _, replicas in api.scalings if target == "prod/shop"]

    assert live(scenario)[:1] == [1]


def test_a_step_that_the_watch_told_of_before_its_answer_came_is_not_waited_for():
    """
    Nobody makes pods for the StatefulSet for now, so that no status follows the step to six. Its four pods use 0.25
    cores each then, which asks for two. Found: a later event of the target was waited for, and until it came the
    metrics scaled nothing down.
    """

    async def scenario():
        api, told = ModelApi(), asyncio.Event()
        deployment(api, replicas=4)
        made = api.objects["deployments"]["prod", "shop"]
        api.create("statefulsets", "prod", "shop", spec={**made["spec"]}, status={"replicas": 4})
        api.load["prod", "shop"] = 2000
        cronhpa(api, behavior=QUICK, scaleTargetRef={"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shop"})
        async with Life(api, timeout_seconds=30.0):
            await until(20)
            api.faults = [Fault("PATCH", "/statefulsets/shop/scale$", applied=True, waits=told)]
            api.load["prod", "shop"] = 3000
            await until(40)
            assert api.scalings
            api.load["prod", "shop"] = 1000
            told.set()
            await until(100)
            return [change[2:] for change in api.scalings]

    assert [(4, 6), (6, 2)] == live(scenario)


def test_a_change_of_the_target_that_its_watch_lost_is_learnt_from_the_conflict():
    """
    Somebody sets four replicas to seven, and only the pods are told. Four cores over seven pods ask for eight; that
    write meets the seven, and the next reconciliation goes on from there.
    """

    async def scenario():
        api = shop(4, 2000, maxReplicas=40)
        async with Life(api):
            await until(60)
            api.freeze_watches("deployments")
            api.edit("deployments", "prod", "shop", spec={"replicas": 7})
            api.load["prod", "shop"] = 4000
            await until(100)
            return [change[1:] for change in timeline(api)]

    assert [(4, 7), (7, 8)] == live(scenario)


def test_a_target_whose_creation_its_watch_lost_is_scaled_once_it_is_listed():
    """Two pods carry 2 cores, which at 50 % need four. Only the API server itself has the new target."""

    async def scenario():
        api = shop(6, 3000, behavior=QUICK)
        async with Life(api):
            await until(20)
            api.delete("deployments", "prod", "shop")
            await until(60)
            api.freeze_watches("deployments")
            deployment(api, replicas=2)
            api.load["prod", "shop"] = 2000
            await until(400)
            by_then, told = timeline(api), condition(api, "AbleToScale")
            await until(LISTED_AGAIN)
            return by_then, told, [change[1:] for change in timeline(api)]

    by_then, told, changes = live(scenario)

    assert [] == by_then
    assert ("False", "FailedGetScale") == (told["status"], told["reason"])
    assert [(2, 4)] == changes


def test_a_target_that_is_made_anew_while_its_watch_is_frozen_is_seen_as_it_is_once_it_is_listed():
    """
    The one that was there had six replicas, and the new one has seven. 3.5 cores over seven pods are 50 %, which is
    what the object asks for; but it allows six. Until the list the six are believed, so nothing is written.
    """

    async def scenario():
        api = shop(6, 3000, maxReplicas=6)
        async with Life(api):
            await until(60)
            api.freeze_watches("deployments")
            api.delete("deployments", "prod", "shop")
            deployment(api, replicas=7)
            api.load["prod", "shop"] = 3500
            await until(400)
            by_then = timeline(api)
            await until(LISTED_AGAIN)
            return by_then, [change[1:] for change in timeline(api)]

    assert ([], [(7, 6)]) == live(scenario)


def test_pods_of_a_shard_whose_list_came_in_part_are_not_believed():
    """
    At 10 s a replica takes a second shard. The list of pods fails after 50 s, and is overdue at 70 s. Found: the shard
    was served from then on by the pods that had come: those of the first shard are believed until 90 s.
    """

    async def scenario():
        api, scope = ModelApi(), ShardScope(2)
        client = ModelClient(api, timeout_seconds=100)
        watches = NamespaceWatches(client, (), scope, lambda *_: None, lambda: None)
        tasks = [asyncio.create_task(informer.run()) for informer in watches.informers]
        scope.hold({0})
        await until(10)
        api.latency = lambda _method, path: 50.0 if path.endswith("/pods") else 0.001
        api.faults = [Fault("GET", "/pods$", status=500, times=None)]
        scope.hold({0, 1})
        is_served = []
        for seconds in (65, 75, 95):
            await until(seconds)
            is_served.append(watches.listed_scope >= scope.version)
        unknown = watches.pods_unknown("prod")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return is_served, unknown

    is_served, unknown = live(scenario)

    assert [False, False, True] == is_served
    assert unknown is not None
