"""cronhpa.kube.discovery: the resource that serves a kind, and how long the answer is remembered."""

import asyncio

import pytest
from model_api import Fault, ModelApi, ModelClient
from virtual_time import live

from cronhpa.kube.discovery import Discovery, Resource
from cronhpa.kube.errors import ClusterError
from kube.fake_api import FakeApi, answering

APPS = {"resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "deployments/scale", "kind": "Scale"}]}


def group(preferred, *versions):
    return answering(
        {"preferredVersion": {"version": preferred}, "versions": [{"version": version} for version in versions]}
    )


def test_a_resource_has_its_path_and_full_name():
    assert "/apis/apps/v1/namespaces/prod/deployments/shop" == Resource("apps", "v1", "deployments").path(
        "prod", "shop"
    )
    assert "/api/v1/namespaces/prod/pods/a" == Resource("", "v1", "pods").path("prod", "a")
    assert ["deployments.apps", "pods"] == [
        Resource("apps", "v1", "deployments").full_name,
        Resource("", "v1", "pods").full_name,
    ]


async def test_a_kind_is_asked_for_once():
    api = FakeApi()
    api.answers["/apis/apps/v1"] = answering(APPS)

    async with api.client() as client:
        discovery = Discovery(client)
        resources = [await discovery.resource("apps/v1", "Deployment") for _ in range(3)]

    assert [Resource("apps", "v1", "deployments")] * 3 == resources
    assert [("GET", "/apis/apps/v1", {})] == api.asked


async def test_a_subresource_is_no_kind():
    api = FakeApi()
    api.answers["/apis/apps/v1"] = answering(APPS)

    async with api.client() as client:
        with pytest.raises(ClusterError, match='no matches for kind "Scale" in version "apps/v1"'):
            await Discovery(client).resource("apps/v1", "Scale")


async def test_a_group_that_comes_later_is_found_when_it_is_there():
    """Its CRD may come any moment: absence is not remembered."""
    api = FakeApi()
    async with api.client() as client:
        discovery = Discovery(client)
        with pytest.raises(ClusterError) as caught:
            await discovery.resource("example.com/v1", "Shop")
        api.answers["/apis/example.com/v1"] = answering({"resources": [{"name": "shops", "kind": "Shop"}]})

        assert Resource("example.com", "v1", "shops") == await discovery.resource("example.com/v1", "Shop")
    assert "NoKindMatch" == caught.value.reason


async def test_a_kind_is_found_in_whichever_version_has_it_the_preferred_one_first():
    api = FakeApi()
    api.answers["/apis/example.com"] = group("v2", "v1", "v2")
    api.answers["/apis/example.com/v1"] = answering({"resources": [{"name": "shops", "kind": "Shop"}]})
    api.answers["/apis/example.com/v2"] = answering({"resources": [{"name": "carts", "kind": "Cart"}]})

    async with api.client() as client:
        resource = await Discovery(client).resource_in("example.com", "Shop")

    assert Resource("example.com", "v1", "shops") == resource
    assert ["/apis/example.com", "/apis/example.com/v2", "/apis/example.com/v1"] == [path for _, path, _ in api.asked]


@pytest.mark.parametrize("stated", ["example.com/v1beta1", "example.com/"])
async def test_a_target_is_found_where_the_version_it_names_is_not_served(stated):
    """As the upstream, which looks at group and kind. Found: once v1beta1 was gone, its targets were scaled no more."""
    api = FakeApi()
    api.answers["/apis/example.com"] = group("v1", "v1")
    api.answers["/apis/example.com/v1"] = answering({"resources": [{"name": "shops", "kind": "Shop"}]})

    async with api.client() as client:
        assert Resource("example.com", "v1", "shops") == await Discovery(client).resource(stated, "Shop")


async def test_a_kind_that_no_version_has_is_told_in_the_upstreams_words():
    api = FakeApi()
    async with api.client() as client:
        with pytest.raises(
            ClusterError, match=r"unable to map kind Shop\.example\.com to resource: no matches for kind"
        ):
            await Discovery(client).resource_in("example.com", "Shop")


async def test_the_version_to_ask_in_is_the_preferred_one_if_it_is_known():
    api = FakeApi()
    api.answers["/apis/metrics.k8s.io"] = group("v2", "v1", "v2")

    async with api.client() as client:
        discovery = Discovery(client)
        assert ["v2", "v1", None] == [
            await discovery.version("metrics.k8s.io", versions) for versions in (("v1", "v2"), ("v1",), ("v3",))
        ]


async def test_a_server_that_fails_is_not_taken_for_an_absence():
    api = FakeApi()
    api.answers["/apis/apps/v1"] = answering({"kind": "Status", "code": 500, "message": "no"}, 500)

    async with api.client() as client:
        with pytest.raises(ClusterError) as caught:
            await Discovery(client).resource("apps/v1", "Deployment")

    assert 500 == caught.value.status


def asking(story):
    """What story(api, discovery) returns, in virtual time."""

    async def scenario():
        api = ModelApi()
        return await story(api, Discovery(ModelClient(api)))

    return live(scenario)


def test_a_kind_that_is_known_is_not_lost_while_the_api_server_does_not_say_what_it_serves():
    """
    It is asked for anew each ten minutes. Found: a request for /apis/apps/v1 that failed then made all Deployments
    unreachable, and one that hung held up each decision.
    """

    async def story(api, discovery):
        before = await discovery.resource("apps/v1", "Deployment")
        path = "/apis/apps/v1$"
        api.faults = [Fault("GET", path, status=500, times=10), Fault("GET", path, hangs=True, times=None)]
        for _ in range(100):
            await asyncio.sleep(15)
            async with asyncio.timeout(1):
                assert before == await discovery.resource("apps/v1", "Deployment")
        return api.count("GET", "/apis/apps/v1")

    # Each ten minutes, and twice a minute once it has failed.
    assert 20 <= asking(story) <= 40


def test_a_kind_that_goes_is_gone_after_the_answer_that_says_so():
    async def story(api, discovery):
        await discovery.resource("example.com/v1", "Widget")
        del api.kinds["/apis/example.com/v1", "widgets"]
        await asyncio.sleep(601)
        await discovery.resource("example.com/v1", "Widget")
        await asyncio.sleep(1)
        with pytest.raises(ClusterError, match="no matches"):
            await discovery.resource("example.com/v1", "Widget")

    asking(story)


def test_another_kind_of_a_known_group_is_found_within_half_a_minute():
    """Found: for up to ten minutes it was no kind, because those of its group were known."""

    async def story(api, discovery):
        await discovery.resource("example.com/v1", "Widget")
        api.kinds["/apis/example.com/v1", "gears"] = "Gear"
        await asyncio.sleep(31)
        return await discovery.resource("example.com/v1", "Gear")

    assert "gears" == asking(story).name
