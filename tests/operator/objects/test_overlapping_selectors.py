"""cronhpa.operator.objects.registered_selectors: targets whose selectors match each other's pods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import Life, condition, cronhpa, deployment, until
from model_api import ModelApi
from virtual_time import live

from core.situations import pod
from cronhpa.kube.label_selector import parse_selector
from cronhpa.kube.pod_indexer import PodIndexer
from cronhpa.operator.objects.object_state import ObjectState
from cronhpa.operator.objects.registered_selectors import RegisteredSelectors

BOTH = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["shop", "canary"]}]}
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


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"mode": "Preview"}, "it scales nothing"),
        ({"metrics": [], "minReplicas": 6, "maxReplicas": 6}, "its schedules count no pods"),
    ],
)
def test_an_object_that_scales_by_no_pods_makes_no_selector_ambiguous(other, why):
    async def scenario():
        api = overlapping(canary=other)
        async with Life(api):
            await until(SEEN)
            return told(api)

    assert MEASURED == live(scenario), why


def test_who_counts_the_owned_pods_alone_is_held_by_no_other_selector():
    async def scenario():
        api = overlapping(canary={"podSelection": "Owned"})
        async with Life(api):
            await until(SEEN)
            return told(api), told(api, "canary")

    shop, canary = live(scenario)
    assert AMBIGUOUS == shop
    assert "AmbiguousSelector" != canary[1]


@pytest.mark.parametrize("end", ["deleted", "previewed", "retargeted"])
def test_the_other_scales_again_once_one_of_both_does_not(end):
    async def scenario():
        api = overlapping()
        async with Life(api):
            await until(SEEN)
            before = told(api)
            if end == "deleted":
                api.delete("cronhpas", "prod", "canary")
            elif end == "previewed":
                api.edit("cronhpas", "prod", "canary", spec={"mode": "Preview"})
            else:
                deployment(api, "rest", 1)
                ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "rest"}
                api.edit("cronhpas", "prod", "canary", spec={"scaleTargetRef": ref})
            await until(SEEN + 60)
            return before, told(api)

    assert (AMBIGUOUS, MEASURED) == live(scenario)


def test_a_decision_that_stands_ends_when_another_object_counts_its_pods():
    async def scenario():
        api = overlapping()
        other = api.delete("cronhpas", "prod", "canary")
        async with Life(api):
            await until(120)
            before = told(api)
            cronhpa(api, "canary", maxReplicas=100)
            await until(120 + 20)
            return before, told(api), other

    before, after, _ = live(scenario)
    assert (MEASURED, AMBIGUOUS) == (before, after)


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
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
        async with Life(api):
            await until(30)
            cronhpa(api, "younger", scaleTargetRef=ref)
            await until(SEEN + 30)
            return told(api), condition(api, "Ready", "younger")["reason"]

    assert (MEASURED, "OtherOwner") == live(scenario)


def test_an_object_that_is_gone_leaves_nothing():
    async def scenario():
        api = overlapping()
        async with Life(api) as life:
            await until(SEEN)
            for name in ("shop", "canary"):
                api.delete("cronhpas", "prod", name)
            await until(SEEN + 30)
            return life.controller.selectors.count

    assert 0 == live(scenario)


def test_other_namespaces_count_nothing():
    selectors, pods = RegisteredSelectors(), PodIndexer()
    for namespace in ("a", "b"):
        pods.put(namespace, {"app": "shop"}, pod("shop-1"))
        registered(selectors, pods, f"{namespace}", "shop", "app=shop")
    state = registered(selectors, pods, "a", "shop", "app=shop")
    assert selectors.problem(state, "app=shop", pods.matching("a", parse_selector("app=shop"))) is None


# --- the index finds what a comparison of all with all finds ------------------------------------------------------


class Targeted(ObjectState):
    """An object whose target has its name, and which was reconciled before."""

    __slots__ = ()

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(namespace, name, name, 0)
        self.local.resumed = True

    @property
    def target(self) -> tuple[str, str, str, str]:
        return (self.namespace, "apps", "Deployment", self.name)


def registered(selectors: RegisteredSelectors, pods: PodIndexer, namespace: str, name: str, text: str) -> ObjectState:
    state, selector = Targeted(namespace, name), parse_selector(text)
    selectors.register(state, selector, pods.matching(namespace, selector))
    return state


REQUIREMENTS = st.sampled_from(
    ["a=1", "a=2", "b=1", "a in (1,2)", "b in (1,3)", "a", "b", "!a", "!b", "a!=1", "b notin (1,2)", "c=1"]
)
SELECTORS = st.lists(REQUIREMENTS, min_size=1, max_size=3, unique=True).map(",".join)
LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("123"))


@given(st.lists(SELECTORS, min_size=1, max_size=6), st.lists(LABELS, max_size=6), st.data())
def test_who_counts_the_same_pods_is_found(texts, labels, data):
    pods = PodIndexer()
    for number, of_pod in enumerate(labels):
        pods.put("prod", of_pod, pod(f"pod-{number}"))
    selectors = RegisteredSelectors()
    states = [registered(selectors, pods, "prod", f"object-{n}", text) for n, text in enumerate(texts)]
    gone = data.draw(st.sets(st.sampled_from(range(len(texts)))))
    for number in gone:
        selectors.forget(states[number])

    for number, text in enumerate(texts):
        matched = [of_pod for of_pod in labels if parse_selector(text).matches(of_pod)]
        rivals = [
            f"object-{other}"
            for other, other_text in enumerate(texts)
            if other != number and other not in gone
            if any(parse_selector(other_text).matches(of_pod) for of_pod in matched)
        ]
        problem = selectors.problem(states[number], text, pods.matching("prod", parse_selector(text)))
        assert bool(rivals) == (problem is not None)
        if problem is not None:
            named = " ".join(f"{{{name} prod}}" for name in sorted([f"object-{number}", min(rivals)]))
            assert problem.message == f"pods by selector {text} are controlled by more than one HPA (e.g. [{named}])"


def test_very_many_selectors_of_one_label_are_not_all_compared_with_a_pod():
    """1,000 are: with ten thousand that match no pod of an object each of its decisions would take 15 ms more."""
    selectors, pods = RegisteredSelectors(), PodIndexer()
    pods.put("prod", {"app": "shop", "id": "1"}, pod("shop-1"))
    shop = registered(selectors, pods, "prod", "shop", "app=shop")
    match = pods.matching("prod", parse_selector("app=shop"))
    others = [registered(selectors, pods, "prod", f"other-{n}", f"app=shop,id!=1,!x-{n}") for n in range(999)]
    registered(selectors, pods, "prod", "rival", "app=shop,!x")
    assert selectors.problem(shop, "app=shop", match) is None
    selectors.forget(others[0])
    problem = selectors.problem(shop, "app=shop", match)
    assert problem is not None
    assert "{rival prod}" in problem.message


def test_the_pods_of_a_stateful_set_differ_in_a_label_and_500_of_them_are_compared():
    """Of 20,000 pods, of which each has a name of its own as a label, a decision would take 0.1 s more."""
    selectors, pods = RegisteredSelectors(), PodIndexer()
    for number in range(501):
        pods.put("prod", {"app": "db", "name": f"db-{number}"}, pod(f"db-{number}"))
    db = registered(selectors, pods, "prod", "db", "app=db")
    match = pods.matching("prod", parse_selector("app=db"))
    registered(selectors, pods, "prod", "last", "name=db-500")
    assert selectors.problem(db, "app=db", match) is None
    registered(selectors, pods, "prod", "rival", "name=db-499")
    assert selectors.problem(db, "app=db", match) is not None
