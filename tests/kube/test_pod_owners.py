"""cronhpa.kube.pod_owners, cronhpa.kube.owner_references: the pods that a target owns."""

from msgspec.structs import replace

from core.situations import pod
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import TargetRef
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.owner_references import OwnerReference, controller_of
from cronhpa.kube.pod_owners import PodOwners
from kube.fake_api import FakeApi, answering

SHOP = TargetRef("apps/v1", "Deployment", "shop")
APPS = "/apis/apps/v1"
SETS = f"{APPS}/namespaces/prod/replicasets"
KINDS = {"resources": [{"name": "replicasets", "kind": "ReplicaSet"}, {"name": "deployments", "kind": "Deployment"}]}


def owned_by(controller, name):
    return replace(pod(name), controller=controller)


def controlled(name, kind="", owner="", api_version="apps/v1"):
    """An object with a controller, or with none."""
    owners = [{"apiVersion": api_version, "kind": kind, "name": owner, "controller": True}] if kind else None
    return {"metadata": {"name": name, "ownerReferences": owners}}


def api_with(*sets):
    api = FakeApi()
    api.answers[APPS] = answering(KINDS)
    api.answers[SETS] = answering({"items": list(sets)})
    return api


async def owned(api, target, *pods):
    async with api.client() as client:
        return await PodOwners(client, Discovery(client)).owned("prod", target, pods)


async def test_a_deployment_owns_the_pods_of_its_replica_sets_alone():
    """A rolling update has two of them; a Job, another Deployment and a bare pod have the same labels."""
    api = api_with(
        controlled("shop-1", "Deployment", "shop"),
        controlled("shop-2", "Deployment", "shop"),
        controlled("other-1", "Deployment", "other"),
        controlled("alone-1"),
    )
    old, new = owned_by("apps/v1/ReplicaSet/shop-1", "old"), owned_by("apps/v1/ReplicaSet/shop-2", "new")
    others = (
        owned_by("apps/v1/ReplicaSet/other-1", "other"),
        owned_by("apps/v1/ReplicaSet/alone-1", "alone"),
        owned_by("apps/v1/ReplicaSet/gone-1", "gone"),
        owned_by("batch/v1/Job/import", "import"),
        owned_by("", "bare"),
    )

    assert (old, new) == await owned(api, SHOP, old, *others, new)


async def test_a_stateful_set_owns_its_pods_without_a_request():
    api = FakeApi()
    of = TargetRef("apps/v1", "StatefulSet", "db")
    own, other = owned_by("apps/v1/StatefulSet/db", "db-0"), owned_by("apps/v1/StatefulSet/db2", "db2-0")

    assert (own,) == await owned(api, of, own, other, owned_by("apps/v1/ReplicaSet/db", "x"))
    assert [] == api.asked


async def test_a_rollout_owns_the_pods_of_its_replica_sets_in_any_version_of_its_group():
    api = api_with(controlled("shop-1", "Rollout", "shop", "argoproj.io/v1"))
    own = owned_by("apps/v1/ReplicaSet/shop-1", "own")

    assert (own,) == await owned(api, TargetRef("argoproj.io/v1alpha1", "Rollout", "shop"), own)


async def test_another_kind_is_followed_as_far_as_it_can_be_read():
    """Three steps: pod, StatefulSet db, Pool db, Database db."""
    api = FakeApi()
    pool, sets = "/apis/example.com/v1", f"{APPS}/namespaces/prod/statefulsets"
    api.answers[APPS] = answering({"resources": [{"name": "statefulsets", "kind": "StatefulSet"}]})
    api.answers[sets] = answering({"items": [controlled("db", "Pool", "db", "example.com/v1")]})
    api.answers[pool] = answering({"resources": [{"name": "pools", "kind": "Pool"}]})
    api.answers[f"{pool}/namespaces/prod/pools"] = answering(
        {"items": [controlled("db", "Database", "db", "example.com/v1")]}
    )
    own = owned_by("apps/v1/StatefulSet/db", "db-0")

    assert (own,) == await owned(api, TargetRef("example.com/v1", "Database", "db"), own)


async def test_what_may_not_be_read_is_unknown_and_says_what_to_do():
    api = api_with()
    forbidden = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no right to list replicasets"}
    api.answers[SETS] = answering(forbidden, 403)

    unknown = await owned(api, SHOP, owned_by("apps/v1/ReplicaSet/shop-1", "shop-1-x"))

    assert isinstance(unknown, Absent)
    assert "PodOwnersUnknown" == unknown.reason
    assert "ReplicaSet/shop-1 cannot be read" in unknown.message
    assert "set podSelection to All" in unknown.message


async def test_a_pod_of_a_kind_that_does_not_exist_is_not_owned():
    """Whoever may create a pod may name any controller."""
    api = api_with(controlled("shop-1", "Deployment", "shop"))
    api.answers["/apis/none.example/v1"] = answering({"kind": "Status", "code": 404}, 404)
    made_up = owned_by("none.example/v1/Widget/x", "made-up")

    assert () == await owned(api, TargetRef("example.com/v1", "Database", "db"), made_up)


async def test_a_controller_is_looked_up_once():
    api = api_with(controlled("shop-1", "Deployment", "shop"))
    pods = [owned_by("apps/v1/ReplicaSet/shop-1", f"shop-1-{number}") for number in range(50)]
    async with api.client() as client:
        owners = PodOwners(client, Discovery(client))
        for _ in range(3):
            assert (*pods,) == await owners.owned("prod", SHOP, pods)

    assert [(SETS, {"fieldSelector": "metadata.name=shop-1"})] == [
        (path, query) for _, path, query in api.asked if path == SETS
    ]


def test_the_controller_is_the_owner_that_controls():
    garbage = OwnerReference("v1", "Node", "node-1")
    owner = OwnerReference("apps/v1", "ReplicaSet", "shop-1", controller=True)

    assert "apps/v1/ReplicaSet/shop-1" == controller_of([garbage, owner])
    assert "" == controller_of([garbage]) == controller_of(None)
    assert "" == controller_of([OwnerReference("v1", "a/b", "x", controller=True)])
    assert "" == controller_of([OwnerReference("v1", "K" * 2000, "x", controller=True)])
