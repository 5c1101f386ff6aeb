"""cronhpa.cli.objects.cluster: the objects of a cluster by namespace and name."""

import asyncio

import pytest

from cronhpa.cli.objects.cluster import connected, path_of_object, read_object
from cronhpa.kube.errors import ClusterError
from kube.fake_api import FakeApi, answering

SHOP = "/apis/cronhpa.io/v1alpha1/namespaces/prod/cronhpas/shop"


async def test_an_object_is_read_by_its_namespace_and_name():
    api = FakeApi()
    api.answers[SHOP] = answering({"kind": "CronHPA", "metadata": {"name": "shop"}})

    async with api.client() as client:
        stored = await read_object(client, "prod", "shop")

    assert {"kind": "CronHPA", "metadata": {"name": "shop"}} == stored


@pytest.mark.parametrize("name", ["../../nodes", "shop/status", "shop?x=1", "shop#"])
def test_a_name_stays_one_segment_of_the_path(name):
    path = path_of_object("prod", name)

    assert SHOP.count("/") == path.count("/")
    assert not {"?", "#"} & set(path)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_climb_makes_no_path(name):
    with pytest.raises(ClusterError):
        path_of_object("prod", name)


def test_a_reader_that_has_read_enough_is_no_fault_of_the_cluster(tmp_path):
    """`cronhpa status | head -3` said that there was no way to the API."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
        ' clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {}}]}'
    )

    async def printing():
        async with connected(str(path), None, None):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        asyncio.run(printing())
