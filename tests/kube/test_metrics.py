"""The custom and external metrics APIs, asked as the upstream's client asks, and answers that adapters really give."""

import asyncio

import pytest

from cronhpa.core.metrics.observe import observe
from cronhpa.core.model.observation import Absent, Pod, Scale
from cronhpa.core.model.spec import (
    ExternalMetric,
    LabelRequirement,
    LabelSelector,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    Spec,
    TargetRef,
)
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.metrics import MetricReader
from kube.fake_api import FakeApi, answering

AVERAGE = MetricTarget("AverageValue", average_value=1000)
VALUE = MetricTarget("Value", value=1000)
GROUP = "/apis/custom.metrics.k8s.io"
CUSTOM = f"{GROUP}/v1beta2/namespaces/prod"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/prod"
FRONT = TargetRef("networking.k8s.io/v1", "Ingress", "front")


def group(*versions, preferred=None):
    listed = [{"groupVersion": f"x/{name}", "version": name} for name in versions]
    return answering(
        {"kind": "APIGroup", "versions": listed, "preferredVersion": {"version": preferred or versions[0]}}
    )


def served(*versions, **settings):
    """A cluster with an adapter for custom metrics, and Ingress in two versions of which only one is served here."""
    api = FakeApi()
    api.answers[GROUP] = group(*versions or ("v1beta2",), **settings)
    api.answers["/apis/networking.k8s.io"] = group("v1")
    api.answers["/apis/networking.k8s.io/v1"] = answering(
        {"resources": [{"name": "ingresses", "kind": "Ingress"}, {"name": "ingresses/status", "kind": "Ingress"}]}
    )
    return api


def sample(name="shop-1", value="12500m", **fields):
    return {"describedObject": {"name": name}, "timestamp": "2026-01-01T00:00:00Z", "value": value} | fields


async def ask(api, metric, selector="app=shop"):
    async with api.client() as client:
        reader = MetricReader(client, Discovery(client))
        if isinstance(metric, PodsMetric):
            return await reader.pods("prod", metric, selector)
        if isinstance(metric, ObjectMetric):
            return await reader.object("prod", metric)
        return await reader.external("prod", metric)


async def test_a_pods_metric_is_asked_with_both_selectors_and_once_for_all():
    api = served()
    api.answers[f"{CUSTOM}/pods/*/rps"] = answering({"items": [sample()]})
    metric = PodsMetric("rps", AVERAGE, LabelSelector(match_labels=(("verb", "GET"),)))

    async with api.client() as client:
        reader = MetricReader(client, Discovery(client))
        answers = await asyncio.gather(*(reader.pods("prod", metric, "app=shop") for _ in range(5)))

    asked = [request for request in api.asked if request[1].startswith(CUSTOM)]
    assert 12_500 == answers[0]["shop-1"].value
    assert all(answer is answers[0] for answer in answers)  # the answer was read once, too
    assert [("GET", f"{CUSTOM}/pods/*/rps", {"labelSelector": "app=shop", "metricLabelSelector": "verb=GET"})] == asked


@pytest.mark.parametrize(
    ("versions", "preferred", "expected"),
    [
        (("v1beta2", "v1beta1"), "v1beta2", "v1beta2"),
        (("v1beta1",), "v1beta1", "v1beta1"),
        (("v1beta1", "v1beta2"), "v1beta1", "v1beta1"),
        (("v2", "v1beta1"), "v2", "v1beta1"),
    ],
)
async def test_the_version_is_the_preferred_one_if_it_is_known_else_the_first_known_one(versions, preferred, expected):
    api = served(*versions, preferred=preferred)
    api.answers[f"{GROUP}/{expected}/namespaces/prod/pods/*/rps"] = answering({"items": [sample()]})

    assert {"shop-1"} == set(await ask(api, PodsMetric("rps", AVERAGE)))


async def test_an_api_that_nobody_serves_is_an_absence_in_the_upstreams_words():
    answer = await ask(FakeApi(), PodsMetric("rps", AVERAGE))

    expected = "no custom metrics API (custom.metrics.k8s.io) registered"
    assert f"unable to fetch metrics from custom metrics API: {expected}" == answer.message


async def test_an_object_metric_is_asked_of_the_kinds_resource_whatever_version_is_described():
    api = served()
    api.answers[f"{CUSTOM}/ingresses.networking.k8s.io/front/rps"] = answering({"items": [{"value": "3k"}]})

    assert 3_000_000 == await ask(api, ObjectMetric("rps", VALUE, FRONT))
    beta = TargetRef("networking.k8s.io/v1beta1", "Ingress", "front")
    assert 3_000_000 == await ask(api, ObjectMetric("rps", VALUE, beta))


async def test_a_kind_that_nobody_serves_is_an_absence_in_the_upstreams_words():
    answer = await ask(served(), ObjectMetric("rps", VALUE, TargetRef("example.com/v1", "Rocket", "x")))

    assert 'unable to map kind Rocket.example.com to resource: no matches for kind "Rocket" in group "example.com"' in (
        answer.message
    )


async def test_the_namespace_is_asked_at_the_root_and_by_the_objects_own_name():
    """The described name is ignored: it must not lead out of the namespace."""
    api = served()
    api.answers[f"{CUSTOM}/metrics/rps"] = answering({"items": [{"value": 7}]})

    assert 7_000 == await ask(api, ObjectMetric("rps", VALUE, TargetRef("v1", "Namespace", "other")))


@pytest.mark.parametrize("count", [0, 2])
async def test_of_an_object_there_must_be_one_value(count):
    api = served()
    api.answers[f"{CUSTOM}/ingresses.networking.k8s.io/front/rps"] = answering({"items": [{"value": "3k"}] * count})

    answer = await ask(api, ObjectMetric("rps", VALUE, FRONT))

    assert f"the custom metrics API server returned {count} results when we asked for exactly one" in answer.message


@pytest.mark.parametrize("name", ["job:rps:rate5m", "s0-rabbitmq-queue", "rps?x=1", "a b", "50%", "p#99", "a&b"])
async def test_a_metric_may_have_any_name(name):
    api = served()
    api.answers[f"{CUSTOM}/pods/*/{name}"] = answering({"items": [sample()]})
    api.answers[f"{EXTERNAL}/{name}"] = answering({"items": [{"value": 2}]})

    assert {"shop-1"} == set(await ask(api, PodsMetric(name, AVERAGE)))
    assert 2_000 == await ask(api, ExternalMetric(name, AVERAGE))


@pytest.mark.parametrize(
    ("fields", "window"),
    [({"timestamp": None}, 60), ({"windowSeconds": 30}, 30), ({"window": 45}, 45), ({"windowSeconds": None}, 60)],
)
async def test_a_value_counts_with_a_time_or_without_and_with_the_window_of_either_version(fields, window):
    api = served()
    api.answers[f"{CUSTOM}/pods/*/rps"] = answering({"items": [sample(**fields)]})

    answer = await ask(api, PodsMetric("rps", AVERAGE))

    assert (12_500, window * 10**9) == (answer["shop-1"].value, answer["shop-1"].window)


async def test_external_values_are_summed_and_a_malformed_one_is_an_absence():
    api = FakeApi()
    metric = ExternalMetric("queue", AVERAGE)

    api.answers[f"{EXTERNAL}/queue"] = answering({"items": [{"value": "1500m"}, {"value": 2}]})
    assert 3_500 == await ask(api, metric)
    api.answers[f"{EXTERNAL}/queue"] = answering({"items": [{"value": "NaN"}]})
    assert "Malformed" == (await ask(api, metric)).reason


@pytest.mark.parametrize("items", [[], None])
async def test_an_empty_list_says_that_there_is_nothing(items):
    """A Go program's empty list is null."""
    api = served()
    api.answers[f"{EXTERNAL}/queue"] = answering({"items": items})
    api.answers[f"{CUSTOM}/pods/*/rps"] = answering({"items": items})

    assert "no metrics returned from external metrics API" == (await ask(api, ExternalMetric("queue", AVERAGE))).message
    assert "no metrics returned from custom metrics API" == (await ask(api, PodsMetric("rps", AVERAGE))).message


@pytest.mark.parametrize(
    ("operator", "values", "problem"),
    [
        ("Contains", ("x",), '"Contains" is not a valid label selector operator'),
        ("In", (), "values set can't be empty"),
        ("Exists", ("x",), "values set must be empty"),
        ("In", ("orders,mails",), "'orders,mails' is no value of a label"),
    ],
)
async def test_an_unreadable_selector_of_series_is_an_absence_and_sends_no_request(operator, values, problem):
    """No API server checks these selectors. Dropping what cannot be read would ask for more than was meant."""
    api = served()
    selector = LabelSelector(match_expressions=(LabelRequirement("verb", operator, values),))

    metrics = [PodsMetric("rps", AVERAGE, selector), ObjectMetric("rps", AVERAGE, FRONT, selector)]
    metrics.append(ExternalMetric("rps", AVERAGE, selector))
    for metric in metrics:
        answer = await ask(api, metric)
        assert problem in answer.message
        read = reading(metric, answer)
        assert answer.message == read.message, "no calculator's words: nothing was fetched"
    assert not [path for _, path, _ in api.asked if "rps" in path]


async def test_a_label_that_would_be_read_as_two_is_an_absence():
    """Found: `queue: orders,tier!=gold` asked for the series of another queue, or of another tier."""
    api = served()
    selector = LabelSelector(match_labels=(("queue", "orders,tier!=gold"),))

    assert "is no value of a label" in (await ask(api, ExternalMetric("rps", AVERAGE, selector))).message


def reading(metric, measured):
    spec = Spec(TargetRef("apps/v1", "Deployment", "shop"), 1, 10, namespace="prod", metrics=(metric,))
    pod = Pod("shop-1", "Running", False, "True", 0, 0, 0, ())
    absent = observe(spec, Scale(1, 1, "app=shop"), [pod], [measured], 10**9).readings[0]
    assert isinstance(absent, Absent)
    return absent
