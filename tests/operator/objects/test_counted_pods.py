"""cronhpa.operator.objects.counted_pods: targets whose selectors match each other's pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import Life, condition, cronhpa, deployment, until
from model_api import Fault, ModelApi
from msgspec.structs import replace
from virtual_time import live

from core.situations import pod
from cronhpa.core.model.spec import MetricTarget, Mode, ResourceMetric, Spec, TargetRef
from cronhpa.kube.label_selector import parse_selector
from cronhpa.kube.pod_indexer import PodIndexer
from cronhpa.operator.objects.counted_pods import CountedPods
from cronhpa.operator.objects.object_state import ObjectState

BOTH = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["shop", "canary"]}]}
# For each pod; it needs none to be known.
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": 5}},
}
# Of two objects the first one is reconciled before the selector of the second one is known, as upstream.
SEEN = 60


def overlapping(shop: dict[str, Any] | None = None, canary: dict[str, Any] | None = None) -> ModelApi:
    """Two pods of `shop` at 50 % and six of `canary` at 50 %; the selector of `shop` matches those of `canary`, too."""
    api = ModelApi()
    api.create("deployments", "prod", "shop", spec={"replicas": 2, "selector": BOTH})
    deployment(api, "canary", 6)
    api.load["prod", "shop"], api.load["prod", "canary"] = 1000, 3000
    cronhpa(api, "shop", **shop or {})
    cronhpa(api, "canary", **{"maxReplicas": 100} | (canary or {}))
    return api


def deployment_ref(name: str) -> dict[str, str]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}


def retarget(api: ModelApi, name: str, deployment_name: str) -> None:
    api.edit("cronhpas", "prod", name, spec={"scaleTargetRef": deployment_ref(deployment_name)})


async def overlapping_without_pods() -> ModelApi:
    """As `overlapping`, with metrics that need no pods, ambiguous by its status; its pods cannot be listed any more."""
    queue = {"metrics": [QUEUE]}
    api = overlapping(shop=queue, canary=queue)
    api.external["queue"] = 10
    async with Life(api):
        await until(SEEN)
    api.faults.append(Fault("GET", "/pods", 403, times=None))
    return api


def counts(api: ModelApi) -> tuple[int, int]:
    return api.replicas("prod", "shop"), api.replicas("prod", "canary")


def told(api: ModelApi, name: str = "shop") -> tuple[str, str]:
    active = condition(api, "ScalingActive", name)
    return active["status"], active["reason"]


AMBIGUOUS, MEASURED = ("False", "AmbiguousSelector"), ("True", "ValidMetricFound")


def test_both_hold_with_the_words_of_the_upstream():
    async def scenario():
        api = overlapping()
        async with Life(api):
            await until(SEEN)
            api.load["prod", "shop"], api.load["prod", "canary"] = 2000, 6000  # 100 %: twice the pods each
            await until(600)
        event = next(one for one in api.objects["events"].values() if one["reason"] == "AmbiguousSelector")
        message = condition(api, "ScalingActive")["message"]
        return counts(api), told(api), told(api, "canary"), message, (event["type"], event["message"])

    held, shop, canary, message, event = live(scenario)
    text = (
        "pods by selector app in (canary,shop) are controlled by more than one HPA (e.g. [{canary prod} {shop prod}])"
    )
    assert (2, 6) == held
    assert AMBIGUOUS == shop == canary
    assert text == message
    assert ("Warning", text) == event


def test_schedules_go_on_and_a_fallback_begins_while_the_selectors_are_ambiguous():
    async def scenario():
        floor = {"name": "floor", "start": "0 0 * * *", "durationMinutes": 1440, "minReplicas": 4}
        api = overlapping(
            shop={"schedules": [floor]}, canary={"fallback": {"afterSeconds": 120, "replicas": 8}, "minReplicas": 2}
        )
        async with Life(api):
            await until(SEEN)
            before = counts(api)
            await until(SEEN + 300)
            return before, counts(api), told(api), told(api, "canary")

    assert ((4, 6), (4, 8), AMBIGUOUS, AMBIGUOUS) == live(scenario)


def test_an_object_whose_metrics_count_no_pods_holds_as_well():
    async def scenario():
        api = overlapping(shop={"metrics": [QUEUE]})
        api.external["queue"] = 10
        async with Life(api):
            await until(SEEN)
            api.external["queue"] = 100
            await until(SEEN + 60)
            return counts(api), told(api)

    assert ((2, 6), AMBIGUOUS) == live(scenario)


@pytest.mark.parametrize(
    ("canary", "why"),
    [
        ({"mode": "Preview"}, "it scales nothing"),
        ({"metrics": [], "minReplicas": 6, "maxReplicas": 6}, "its schedules count no pods"),
    ],
)
def test_an_object_that_scales_by_no_pods_makes_no_selector_ambiguous(canary, why):
    async def scenario():
        api = overlapping(canary=canary)
        async with Life(api, check_standing=False) as life:
            await until(SEEN)
            return told(api), life.inventory.items["prod", "canary"].local.may_stand

    assert (MEASURED, True) == live(scenario), why


def test_who_counts_the_owned_pods_alone_neither_holds_nor_makes_others_hold():
    """The selector of `shop` matches the pods of `canary`, but it counts its own alone."""

    async def scenario():
        api = overlapping(shop={"podSelection": "Owned"})
        async with Life(api):
            await until(SEEN)
            return told(api)[1], told(api, "canary")

    shop, canary = live(scenario)
    assert MEASURED == canary
    assert "AmbiguousSelector" != shop


@pytest.mark.parametrize("end", ["deleted", "previewed", "retargeted", "targets nothing"])
def test_the_other_scales_again_once_one_of_both_does_not(end):
    async def scenario():
        api = overlapping()
        deployment(api, "rest", 1)
        async with Life(api):
            await until(SEEN)
            before = told(api)
            if end == "deleted":
                api.delete("cronhpas", "prod", "canary")
            elif end == "previewed":
                api.edit("cronhpas", "prod", "canary", spec={"mode": "Preview"})
            else:
                retarget(api, "canary", "rest" if end == "retargeted" else "nothing")
            await until(SEEN + 60)
            return before, told(api)

    assert (AMBIGUOUS, MEASURED) == live(scenario)


@pytest.mark.parametrize("change", ["deleted", "retargeted"])
def test_who_changes_while_its_target_is_read_is_not_registered_by_it(change):
    """
    The targets cannot be listed, so that each is read by a request of its own, which takes 3 s. Found: a deleted object
    was registered after its end, and the other one held for ever.
    """

    async def scenario():
        api = overlapping()
        api.faults.append(Fault("GET", r"/deployments$", 403, times=None))
        asked = asyncio.Event()

        def latency(_method, path):
            if not path.endswith("/deployments/canary/scale"):
                return 0.001
            if asyncio.get_running_loop().time() > SEEN:
                asked.set()
            return 3.0

        api.latency = latency
        async with Life(api):
            await asyncio.wait_for(asked.wait(), 120)
            if change == "deleted":
                api.delete("cronhpas", "prod", "canary")
            else:
                retarget(api, "canary", "nothing")
            await until(180)
            return told(api)

    assert MEASURED == live(scenario)


@pytest.mark.parametrize("begins", ["created", "activated"])
def test_a_decision_that_stands_ends_when_another_object_counts_its_pods(begins):
    async def scenario():
        api = overlapping(shop={"mode": "Preview"})
        if begins == "created":
            shop = api.objects["cronhpas"]["prod", "shop"]["spec"]
            api.delete("cronhpas", "prod", "shop")
        async with Life(api, check_standing=False) as life:
            await until(120)
            stood, before = life.inventory.items["prod", "canary"].local.may_stand, told(api, "canary")
            if begins == "created":
                api.create("cronhpas", "prod", "shop", spec={**shop, "mode": "Active"})
            else:
                api.edit("cronhpas", "prod", "shop", spec={"mode": "Active"})
            await until(120 + 20)
            return stood, before, told(api, "canary")

    assert (True, MEASURED, AMBIGUOUS) == live(scenario)


def test_without_common_pods_no_selector_is_ambiguous():
    async def scenario():
        api = overlapping()
        api.edit("deployments", "prod", "canary", spec={"replicas": 0})
        async with Life(api):
            await until(SEEN)
            before = told(api)
            api.edit("deployments", "prod", "canary", spec={"replicas": 6})
            await until(SEEN + 60)
            return before, told(api)

    assert (MEASURED, AMBIGUOUS) == live(scenario)


def test_a_restart_lets_neither_of_both_act():
    """A new process knows the selector of the second object only after the first one is reconciled."""

    async def scenario():
        api = overlapping()
        async with Life(api):
            await until(SEEN)
        api.load["prod", "shop"], api.load["prod", "canary"] = 2000, 6000
        async with Life(api):
            await until(300)
        return counts(api), told(api), told(api, "canary")

    assert ((2, 6), AMBIGUOUS, AMBIGUOUS) == live(scenario)


def test_two_objects_on_one_target_are_told_apart_by_their_age_alone():
    async def scenario():
        api = overlapping()
        api.delete("cronhpas", "prod", "canary")
        async with Life(api):
            await until(30)
            cronhpa(api, "younger", scaleTargetRef=deployment_ref("shop"))
            await until(SEEN + 30)
            return told(api), condition(api, "Ready", "younger")["reason"]

    assert (MEASURED, "OtherOwner") == live(scenario)


def test_an_object_that_is_gone_leaves_nothing_and_one_made_anew_counts_again():
    async def scenario():
        api = overlapping()
        async with Life(api) as life:
            await until(SEEN)
            canary = api.objects["cronhpas"]["prod", "canary"]["spec"]
            for name in ("shop", "canary"):
                api.delete("cronhpas", "prod", name)
            await until(SEEN + 30)
            left = len(life.controller.counted_pods)
            cronhpa(api, "shop")
            api.create("cronhpas", "prod", "canary", spec=canary)
            await until(SEEN + 60)
            api.delete("cronhpas", "prod", "canary")
            api.create("cronhpas", "prod", "canary", spec=canary)
            await until(SEEN + 90)
            return left, told(api)

    assert (0, AMBIGUOUS) == live(scenario)


def test_a_restart_without_the_rights_to_list_pods_lets_neither_of_both_act():
    """No pods are known, so none is counted twice; the metric needs none. Found: both doubled, and again."""

    async def scenario():
        api = await overlapping_without_pods()
        api.external["queue"] = 100
        async with Life(api):
            await until(SEEN + 300)
        return counts(api), told(api)

    assert ((2, 6), AMBIGUOUS) == live(scenario)


@pytest.mark.parametrize("end", ["deleted", "owned"])
def test_of_three_the_two_that_are_left_hold_though_one_has_a_reconciliation_in_five_minutes(end):
    """Found: only two were known by each pod, and one of the two that were left doubled its pods until the maximum."""

    async def scenario():
        api = overlapping()
        selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["third", "canary"]}]}
        api.create("deployments", "prod", "third", spec={"replicas": 2, "selector": selector})
        async with Life(api):
            await until(SEEN)
            cronhpa(api, "third", syncPeriodSeconds=300)
            await until(420)
            api.load["prod", "canary"] = 6000
            if end == "deleted":
                api.delete("cronhpas", "prod", "shop")
            else:
                api.edit("cronhpas", "prod", "shop", spec={"podSelection": "Owned"})
            await until(500)
            return api.replicas("prod", "canary"), told(api, "canary"), told(api, "third")

    assert (6, AMBIGUOUS, AMBIGUOUS) == live(scenario)


def test_a_rollout_frees_no_object_whose_partner_has_a_reconciliation_in_an_hour():
    """Found: the new pods of `canary`, which counts them, were nobody's until its own next reconciliation."""

    async def scenario():
        api = overlapping(canary={"syncPeriodSeconds": 3600})
        async with Life(api):
            await until(SEEN + 3600)  # both have been reconciled
            before = told(api)
            for _, name in api.objects["pods"]:
                if name.startswith("canary"):
                    api.edit("pods", "prod", name, metadata={"labels": {"pod-template-hash": "2"}})
            api.load["prod", "shop"], api.load["prod", "canary"] = 2000, 6000
            await until(SEEN + 3600 + 120)
            return before, told(api), counts(api)

    assert (AMBIGUOUS, AMBIGUOUS, (2, 6)) == live(scenario)


def test_pods_that_were_all_away_for_a_moment_are_counted_by_both_again():
    """Found: the first of both that saw the new pods doubled its own, at each restart of them."""

    async def scenario():
        api = overlapping()
        async with Life(api):
            await until(SEEN)
            for seconds in range(SEEN, SEEN + 300, 30):
                await until(seconds)
                api.edit("deployments", "prod", "canary", spec={"replicas": 0})
                await until(seconds + 16)
                api.load["prod", "shop"], api.load["prod", "canary"] = 1000, 12000
                api.edit("deployments", "prod", "canary", spec={"replicas": 6})
            await until(SEEN + 400)
            return counts(api), told(api)

    assert ((2, 6), AMBIGUOUS) == live(scenario)


def test_what_is_known_of_another_target_is_not_kept():
    """The pods cannot be listed, and the object has another target by now, of which nobody else counts a pod."""

    async def scenario():
        api = await overlapping_without_pods()
        deployment(api, "rest", 1)
        async with Life(api):
            await until(SEEN + 120)
            before = told(api)
            retarget(api, "shop", "rest")
            await until(SEEN + 240)
            return before, told(api)

    assert (AMBIGUOUS, MEASURED) == live(scenario)


def test_without_the_rights_to_list_pods_an_object_goes_on_once_its_partner_is_deleted():
    """Found: it believed the status that it had written itself, for ever."""

    async def scenario():
        api = await overlapping_without_pods()
        async with Life(api):
            await until(SEEN + 120)
            before = told(api)
            api.delete("cronhpas", "prod", "canary")
            await until(SEEN + 240)
            return before, told(api)

    assert (AMBIGUOUS, MEASURED) == live(scenario)


def test_an_object_whose_target_is_corrected_counts_its_pods_again():
    """Found: `shop` came while `canary` named a wrong target, and never held: it had 10 pods after an hour, of two."""

    async def scenario():
        api = overlapping()
        shop = api.objects["cronhpas"]["prod", "shop"]["spec"]
        api.delete("cronhpas", "prod", "shop")
        async with Life(api):
            await until(SEEN)
            retarget(api, "canary", "canari")
            await until(SEEN + 30)
            api.create("cronhpas", "prod", "shop", spec=shop)
            await until(SEEN + 90)
            before = told(api)
            retarget(api, "canary", "canary")
            await until(SEEN + 150)
            return before, told(api), told(api, "canary")

    assert (MEASURED, AMBIGUOUS, AMBIGUOUS) == live(scenario)


# --- what is recorded finds what a comparison of all with all finds ----------------------------------------------


def counting(counted: CountedPods, pods: PodIndexer, name: str, text: str, target: str = "") -> ObjectState:
    """An object on a target of its name, or of another one, which was reconciled before."""
    state = ObjectState("prod", name, name, 0)
    cpu = ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=50))
    ref = TargetRef(api_version="apps/v1", kind="Deployment", name=target or name)
    state.served.readable_spec = Spec(ref, 1, 10, namespace="prod", metrics=(cpu,))
    state.local.resumed, state.local.changed = True, False
    selector = parse_selector(text)
    counted.note(state, selector, pods.matching("prod", selector))
    return state


def problem(counted: CountedPods, pods: PodIndexer, state: ObjectState, text: str) -> str:
    selector = parse_selector(text)
    match = pods.matching("prod", selector)
    counted.note(state, selector, match)
    found = counted.problem(state, text, match, is_unsure=False)
    return "" if found is None else found.message


REQUIREMENTS = st.sampled_from(
    ["a=1", "a=2", "b=1", "a in (1,2)", "b in (1,3)", "a", "b", "!a", "!b", "a!=1", "b notin (1,2)", "c=1"]
)
SELECTORS = st.lists(REQUIREMENTS, min_size=1, max_size=3, unique=True).map(",".join)
LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("123"))
TARGETS = st.fixed_dictionaries(dict.fromkeys("xyz", SELECTORS))
OBJECTS = st.lists(st.sampled_from("xyz"), min_size=1, max_size=6)
PODS = st.lists(st.tuples(st.integers(0, 9), LABELS), max_size=8)


@given(TARGETS, OBJECTS, PODS, PODS, st.sets(st.integers(0, 5)))
def test_who_counts_the_same_pods_is_found(selectors, targets, first, then, gone):
    pods, counted, labels = PodIndexer(), CountedPods(), {}
    objects = [(selectors[target], target) for target in targets]

    def put(some):
        for number, of_pod in some:
            pods.put("prod", of_pod, pod(f"pod-{number}"))
            labels[number] = of_pod

    put(first)
    states = [counting(counted, pods, f"object-{n}", text, target) for n, (text, target) in enumerate(objects)]
    put(then)
    for number in gone & {*range(len(objects))}:
        counted.forget(states[number])
    left = [number for number in range(len(objects)) if number not in gone]
    for _ in range(2):  # who is reconciled first knows of the others after their reconciliations
        told = {number: problem(counted, pods, states[number], objects[number][0]) for number in left}

    for number in left:
        text, target = objects[number]
        matched = [of_pod for of_pod in labels.values() if parse_selector(text).matches(of_pod)]
        rivals = [
            f"{{object-{other} prod}}"
            for other in left
            if objects[other][1] != target
            if any(parse_selector(objects[other][0]).matches(of_pod) for of_pod in matched)
        ]
        assert bool(told[number]) == bool(rivals)
        if rivals:
            assert any(rival in told[number] for rival in rivals)
            assert f"pods by selector {text} are" in told[number]


def test_of_ten_thousand_objects_that_count_a_pod_a_few_are_kept_and_each_finds_another():
    pods, counted = PodIndexer(), CountedPods()
    pods.put("prod", {"app": "shop"}, pod("shop-1"))
    states = [counting(counted, pods, f"object-{number:04}", "app=shop") for number in range(10_000)]
    assert all(problem(counted, pods, state, "app=shop") for state in states)
    for state in states[:9998]:
        counted.forget(state)
    left = states[9998:]
    for state in left:  # the first of both knows of the other one after that one's reconciliation
        problem(counted, pods, state, "app=shop")
    assert all(problem(counted, pods, state, "app=shop") for state in left)
    counted.forget(left[0])
    assert not problem(counted, pods, left[1], "app=shop")


def test_an_object_that_another_one_on_its_target_joins_decides_no_more_often():
    pods, counted = PodIndexer(), CountedPods()
    pods.put("prod", {"app": "shop"}, pod("shop-1"))
    older = counting(counted, pods, "older", "app=shop", "shop")
    younger = counting(counted, pods, "younger", "app=shop", "shop")
    assert not problem(counted, pods, younger, "app=shop")
    assert not older.local.changed


def edit(state: ObjectState, mode: Mode) -> None:
    assert state.served.readable_spec is not None
    state.served.readable_spec = replace(state.served.readable_spec, mode=mode)


def as_previews(*states: ObjectState) -> None:
    """They are edited, and nobody reconciles them: another installation serves them, say."""
    for state in states:
        edit(state, Mode.PREVIEW)


def test_who_counts_pods_again_ends_what_stands_on_the_others():
    pods, counted = PodIndexer(), CountedPods()
    pods.put("prod", {"app": "shop"}, pod("shop-1"))
    shop, canary = (counting(counted, pods, name, "app=shop") for name in ("shop", "canary"))
    edit(canary, Mode.PREVIEW)
    problem(counted, pods, canary, "app=shop")
    shop.local.changed = False
    edit(canary, Mode.ACTIVE)
    problem(counted, pods, canary, "app=shop")
    assert shop.local.changed


def test_who_scales_no_more_and_is_reconciled_no_more_makes_no_other_hold():
    pods, counted = PodIndexer(), CountedPods()
    pods.put("prod", {"app": "shop"}, pod("shop-1"))
    shop, canary = (counting(counted, pods, name, "app=shop") for name in ("shop", "canary"))
    before = problem(counted, pods, shop, "app=shop")
    as_previews(canary)
    assert before
    assert not problem(counted, pods, shop, "app=shop")


def test_who_scales_no_more_and_is_reconciled_no_more_takes_no_place():
    pods, counted = PodIndexer(), CountedPods()
    pods.put("prod", {"app": "shop"}, pod("shop-1"))
    as_previews(*(counting(counted, pods, f"former-{number}", "app=shop") for number in range(8)))
    shop, canary = (counting(counted, pods, name, "app=shop") for name in ("shop", "canary"))
    assert problem(counted, pods, shop, "app=shop")
    assert problem(counted, pods, canary, "app=shop")


def test_a_former_rival_whose_target_was_made_anew_with_another_selector_makes_nobody_hold():
    pods, counted = PodIndexer(), CountedPods()
    pods.put("prod", {"app": "shop"}, pod("shop-1"))
    shop, other = (counting(counted, pods, name, "app=shop") for name in ("shop", "other"))
    before = problem(counted, pods, shop, "app=shop")
    pods.drop("prod", "shop-1")
    problem(counted, pods, other, "app=shop")
    problem(counted, pods, other, "app=other")
    pods.put("prod", {"app": "shop"}, pod("shop-2"))
    assert before
    assert not problem(counted, pods, shop, "app=shop")


def test_nothing_is_left_of_pods_that_are_gone():
    pods, counted = PodIndexer(), CountedPods()
    pods.put("prod", {"app": "shop", "version": "1"}, pod("shop-1"))
    shop = counting(counted, pods, "shop", "app=shop")
    pods.put("prod", {"app": "shop", "version": "2"}, pod("shop-1"))
    assert not problem(counted, pods, shop, "app=shop")
    assert 1 == len(counted)


def test_an_ambiguous_object_tells_its_forecast_what_a_pod_may_carry():
    """Found: a forecast of an object that was ambiguous from the first never acted: it knew no pod."""

    async def scenario():
        api = overlapping()
        async with Life(api) as life:
            await until(SEEN)
            return life.inventory.items["prod", "canary"].local.latest.observation.request_per_pod

    assert {"cpu": 1000} == live(scenario)


def test_the_newest_pods_are_compared_with_the_selector_of_a_partner():
    """Each pod of a StatefulSet has labels of its own; the partner is reconciled once an hour."""
    pods, counted = PodIndexer(), CountedPods()
    for number in range(200):
        pods.put("prod", {"app": "db", "name": f"db-{number}"}, pod(f"db-{number}"))
    pods.put("prod", {"app": "db", "part": "shared"}, pod("shared-1"))
    counting(counted, pods, "hourly", "part=shared")
    db = counting(counted, pods, "db", "app=db")
    before = problem(counted, pods, db, "app=db")
    pods.drop("prod", "shared-1")
    pods.put("prod", {"app": "db", "part": "shared", "version": "2"}, pod("shared-2"))
    assert before == problem(counted, pods, db, "app=db") != ""


def test_new_pods_that_the_older_object_on_a_target_has_not_seen_are_counted_by_the_younger_one():
    pods, counted = PodIndexer(), CountedPods()
    pods.put("prod", {"app": "shop"}, pod("shop-1"))
    counting(counted, pods, "hourly", "app=shop", "shop")
    pods.put("prod", {"app": "shop", "version": "2"}, pod("shop-2"))
    counting(counted, pods, "younger", "app=shop", "shop")
    other = counting(counted, pods, "other", "version=2")
    assert "{younger prod}" in problem(counted, pods, other, "version=2")


def test_nothing_is_left_of_what_is_forgotten():
    pods, counted = PodIndexer(), CountedPods()
    pods.put("prod", {"app": "shop"}, pod("shop-1"))
    states = [counting(counted, pods, name, "app=shop") for name in ("a", "b", "c")]
    pods.put("prod", {"app": "shop", "version": "2"}, pod("shop-2"))
    states.append(counting(counted, pods, "younger than a", "app=shop", "a"))
    for state in states:
        counted.forget(state)
    assert 0 == len(counted)
    assert not problem(counted, pods, counting(counted, pods, "d", "app=shop"), "app=shop")
