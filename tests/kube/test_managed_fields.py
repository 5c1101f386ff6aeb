"""cronhpa.kube.managed_fields: who else sets the replicas of a target."""

import json

import pytest

from cronhpa.kube.managed_fields import replicas_manager
from kube.fake_api import FakeApi, answering

PATH = "/apis/apps/v1/namespaces/prod/deployments"
REPLICAS = {"f:spec": {"f:replicas": {}}}


def entry(manager, minute, fields=REPLICAS):
    return {"manager": manager, "time": f"2026-11-23T08:{minute:02d}:00Z", "fieldsV1": fields}


@pytest.mark.parametrize(
    ("entries", "manager"),
    [
        ([entry("argocd", 1), entry("kubectl", 2), entry("cronhpa", 3)], "kubectl"),
        ([entry("argocd", 1), entry("kubectl", 2, {"f:spec": {"f:template": {}}})], "argocd"),
        ([entry("argocd", 1, {"f:status": {"f:replicas": {}}})], ""),
        ([entry("cronhpa", 1)], ""),
        ([], ""),
    ],
    ids=["the newest", "of the replicas", "of the spec", "not ourselves", "nobody"],
)
async def test_the_newest_other_manager_of_the_replicas_is_named(entries, manager):
    api = FakeApi()
    items = [{"metadata": {"name": "shop", "managedFields": entries}}]
    api.answers[PATH] = answering(json.dumps({"items": items}))
    async with api.client() as client:
        assert manager == await replicas_manager(client, PATH, "shop")


async def test_an_object_of_another_name_names_no_manager():
    """A server that ignores the field selector lists all objects."""
    api = FakeApi()
    items = [{"metadata": {"name": "other", "managedFields": [entry("argocd", 1)]}}]
    api.answers[PATH] = answering(json.dumps({"items": items}))
    async with api.client() as client:
        assert "" == await replicas_manager(client, PATH, "shop")
