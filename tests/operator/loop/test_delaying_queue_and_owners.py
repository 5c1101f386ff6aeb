"""cronhpa.operator.loop.delaying_queue, cronhpa.operator.objects.owners: whose turn it is, and whose target."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import Life, condition, cronhpa, deployment, status, until
from model_api import START, ModelApi
from virtual_time import live

from cronhpa.core.model.instant import MILLISECOND, SECOND
from cronhpa.core.model.spec import Mode
from cronhpa.core.sync_grid import following
from cronhpa.operator.loop.delaying_queue import DelayingQueue
from cronhpa.operator.objects.owners import Hpa, Owners

A, B, C = ("prod", "a"), ("prod", "b"), ("test", "c")


def test_what_is_due_comes_by_namespace_and_once():
    due = DelayingQueue(lambda: 0.0)
    for key, at in ((A, 5), (B, 7), (C, 6), (A, 9)):
        due.put(key, at)

    assert {"prod": {A: 5}, "test": {C: 6}} == due.pop(6)
    assert {"prod": {B: 7}} == due.pop(9)
    assert {} == due.pop(99)


def test_the_earliest_instant_counts():
    due = DelayingQueue(lambda: 0.0)
    due.put(A, 9)
    due.put(A, 3)
    due.put(A, 6)

    assert {"prod": {A: 3}} == due.pop(3)
    assert {} == due.pop(9)


def test_what_is_dropped_or_cleared_is_due_no_more_until_put_again():
    due = DelayingQueue(lambda: 0.0)
    due.put(A, 1)
    due.put(B, 2)
    due.drop(A)
    assert {"prod": {B: 2}} == due.pop(5)
    due.put(B, 6)
    due.clear()
    assert {} == due.pop(9)
    due.put(A, 8)
    assert {"prod": {A: 8}} == due.pop(8)


def test_what_is_postponed_is_due_at_its_end_or_once_it_is_resumed_and_since_its_own_instant():
    """All are due since 1 and wait until 9 at most; `b` is edited at 5, and at 6 the namespace of `a` waits no more."""
    due = DelayingQueue(lambda: 0.0)
    for key in (A, B, C):
        due.put(key, 1)
        due.pop(1)
        due.postpone(key, 1, 9)

    assert {} == due.pop(4)
    due.put(B, 5)
    assert {"prod": {B: 1}} == due.pop(5)
    due.put(B, 20)
    due.resume("prod")
    assert {"prod": {A: 1}} == due.pop(6)
    assert {"test": {C: 1}} == due.pop(9)
    assert {"prod": {B: 20}} == due.pop(20)


def test_what_becomes_due_while_it_is_under_way_is_due_again_at_its_end_and_not_before():
    due = DelayingQueue(lambda: 0.0)
    due.put(A, 1)
    assert {"prod": {A: 1}} == due.pop(1)
    due.begin(A)
    due.put(A, 2)
    due.put(A, 3)

    assert {} == due.pop(9)
    assert (True, False) == (due.end(A), due.end(A))
    due.put(A, 9)
    assert {"prod": {A: 9}} == due.pop(9)


def test_what_is_observed_later_than_it_became_due_is_not_due_again():
    due = DelayingQueue(lambda: 0.0)
    due.begin(A)
    due.put(A, 2)
    due.observes(A)

    assert not due.end(A)


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.integers(0, 9)), max_size=8), st.integers(0, 9))
def test_keys_that_are_put_together_are_due_as_if_each_were_put_by_itself(puts, now):
    one_by_one, together = DelayingQueue(lambda: 0.0), DelayingQueue(lambda: 0.0)
    for names, at in puts:
        keys = [("prod", name) for name in sorted(names)]
        together.put_together(keys, at)
        for key in keys:
            one_by_one.put(key, at)

    assert one_by_one.pop(now) == together.pop(now)
    assert one_by_one.pop(9) == together.pop(9)


@given(st.text(max_size=20), st.integers(1, 3600), st.integers(0, 2**62))
def test_the_next_reconciliation_is_later_than_now_and_at_most_a_period_away(namespace, seconds, now):
    at = following(namespace, seconds * SECOND, now)

    assert now < at <= now + seconds * SECOND
    assert at + seconds * SECOND == following(namespace, seconds * SECOND, at)


def test_a_hundred_namespaces_spread_over_the_whole_period():
    """150 ms for each of them, were they spread evenly; with phases in whole seconds 12 would begin at one instant."""
    begins = [following(f"fleet-{number}", 15 * SECOND, 0) for number in range(100)]

    assert max(sum(0 <= at - first < 50 * MILLISECOND for at in begins) for first in begins) <= 5


def claim(name, created, mode=Mode.ACTIVE, *, readable=True, kind="Deployment"):
    spec = SimpleNamespace(mode=mode) if readable else None
    target = ("prod", "apps", kind, "shop")
    served = SimpleNamespace(spec=spec, readable_spec=spec)
    return SimpleNamespace(name=name, uid=name, created=created, served=served, target=target if readable else None)


def hpa(name="shop", kind="Deployment", api_version="apps/v1"):
    ref = {"kind": kind, "name": name, "apiVersion": api_version}
    return msgspec.convert({"spec": {"scaleTargetRef": ref}}, Hpa)


def test_the_older_of_two_objects_acts_and_the_younger_holds():
    old, young = claim("old", 1), claim("young", 2)

    assert Owners().problem(old, [old, young]) is None
    assert "CronHPA old is older and scales Deployment/shop too: delete one of them" == Owners().problem(
        young, [old, young]
    )


def test_of_two_of_the_same_second_the_name_decides_so_that_one_acts():
    first, second = claim("a", 1), claim("b", 1)

    assert [None, True] == [Owners().problem(claimant, [first, second]) and True for claimant in (first, second)]


def test_previews_and_specs_that_never_could_be_read_own_nothing():
    young = claim("young", 2)

    assert Owners().problem(young, [claim("preview", 1, Mode.PREVIEW), claim("odd", 1, readable=False), young]) is None


def test_an_hpa_owns_by_group_kind_and_name():
    owners, mine = Owners(), claim("mine", 1)
    for name, other in {
        "another-name": hpa("shop2"),
        "another-kind": hpa(kind="StatefulSet"),
        "another-group": hpa(api_version="example.com/v1"),
    }.items():
        owners.note_hpa("prod", name, other)
    owners.note_hpa("test", "another-namespace", hpa())
    assert owners.problem(mine, []) is None

    # Another version of the group means the same target.
    owners.note_hpa("prod", "rival", hpa(api_version="apps/v1beta2"))
    assert "HorizontalPodAutoscaler rival scales Deployment/shop too: delete it or this object" == owners.problem(
        mine, []
    )


def test_of_many_hpas_on_a_target_three_are_named():
    """Found: each object on the target kept a text with all names, a quarter of a megabyte for a thousand of them."""
    owners = Owners()
    for number in range(1000):
        owners.note_hpa("prod", f"x{number:03}{'y' * 240}", hpa())

    problem = owners.problem(claim("mine", 1), [])

    assert "x002" in problem
    assert "x003" not in problem
    assert problem.endswith(" and 997 more scales Deployment/shop too: delete it or this object")


def test_targets_are_told_of_an_hpa_that_comes_moves_and_goes_and_of_nothing_else():
    owners = Owners()
    shop, new = ("prod", "apps", "Deployment", "shop"), ("prod", "apps", "Deployment", "new")

    told = [owners.note_hpa("prod", "x", seen) for seen in (hpa(), hpa(), hpa("new"), None, None)]

    assert [(shop,), (), (shop, new), (new,), ()] == told
    assert owners.problem(claim("mine", 1), []) is None


def test_an_object_holds_as_soon_as_an_older_one_takes_its_target():
    """The younger one has a reconciliation a minute. It says that it holds before its next one is due."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=4)
        api.load["prod", "shop"] = 2000
        cronhpa(api, name="older", scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"})
        await asyncio.sleep(2)
        cronhpa(api, syncPeriodSeconds=60)
        async with Life(api):
            after_one = (following("prod", 60 * SECOND, START + 60 * SECOND) - START) / SECOND + 5
            await until(after_one)
            reconciliation = status(api)["conditions"]
            ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
            api.edit("cronhpas", "prod", "older", spec={"scaleTargetRef": ref})
            await until(after_one + 3)
            return {
                status_condition["type"]: status_condition["status"] for status_condition in reconciliation
            }, condition(api, "TargetOwned")

    before, told = live(scenario)

    assert "True" == before["TargetOwned"]
    assert ("False", True) == (told["status"], "CronHPA older" in told["message"])


@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_object_begins_as_soon_as_the_older_one_on_its_target_is_gone_or_has_another_target(is_deleted):
    """The younger one has a reconciliation in ten minutes. Found: until that one it held its two pods, of four."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=2)
        api.load["prod", "shop"] = 2000
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
        cronhpa(api, name="older", scaleTargetRef=ref, mode="Active", maxReplicas=2)
        await asyncio.sleep(2)
        cronhpa(api, syncPeriodSeconds=600)
        async with Life(api):
            first = (following("prod", 600 * SECOND, START + 60 * SECOND) - START) / SECOND
            await until(first + 60)
            if is_deleted:
                api.delete("cronhpas", "prod", "older")
            else:
                api.edit("cronhpas", "prod", "older", spec={"scaleTargetRef": {**ref, "name": "cart"}})
            await until(first + 63)
            return api.replicas("prod", "shop")

    assert 4 == live(scenario)


def test_many_objects_on_one_target_are_not_all_due_whenever_an_hpa_of_it_or_the_target_comes_and_goes():
    """
    Twenty objects on one target, of which one may scale it, with ten minutes to their next period. Found: somebody who
    made and deleted an HPA ten times a second made a thousand such objects due each time, to everybody's cost.
    """

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=2)
        api.load["prod", "shop"] = 1000
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
        for number in range(20):
            cronhpa(api, f"shop-{number}", scaleTargetRef=ref, syncPeriodSeconds=600)
        async with Life(api) as life:
            first = (following("prod", 600 * SECOND, START + 60 * SECOND) - START) / SECOND
            await until(first + 60)
            before = life.control_loop.metrics.reconciles
            for _ in range(5):
                api.create("horizontalpodautoscalers", "prod", "x", spec={"scaleTargetRef": ref})
                await asyncio.sleep(1)
                api.delete("horizontalpodautoscalers", "prod", "x")
                await asyncio.sleep(1)
            api.delete("deployments", "prod", "shop")
            await asyncio.sleep(1)
            return life.control_loop.metrics.reconciles - before

    assert 0 == live(scenario)
