"""cronhpa.kube.metrics, cronhpa.kube.metric_values: an unreadable number is no sample, an unreadable list is absent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.core.model.observation import Absent, Sample
from cronhpa.core.model.spec import ExternalMetric, MetricTarget, ResourceMetric
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.metric_values import (
    CpuAndMemory,
    CustomMetric,
    ExternalMetricValue,
    PodMetrics,
    external_value,
    object_value,
    pod_samples,
    samples_of,
    usages_of,
)
from cronhpa.kube.metrics import MetricReader, PodMetricsByName, list_pod_metrics
from kube.fake_api import FakeApi, answering


def pod_metrics_of(told, quantities):
    """The list as it is read with these quantities."""
    of: Any = quantities
    return msgspec.convert(told, list[PodMetrics[of]])


NOON = "2026-11-23T12:00:00Z"
AVERAGE = MetricTarget("AverageValue", average_value=1000)
CPU = ResourceMetric("cpu", AVERAGE)
APP = ResourceMetric("cpu", AVERAGE, container="app")
QUEUE = ExternalMetric("queue", AVERAGE)


def pod_metrics(name="a", *, timestamp=NOON, window="30s", **usage):
    """usage: by container, the text (or what stands in its place) of its CPU; None for a container that lacks it."""
    containers = [
        {"name": container, "usage": {} if text is None else {"cpu": text}} for container, text in usage.items()
    ]
    text = {"metadata": {"name": name}, "timestamp": timestamp, "window": window, "containers": containers}
    return msgspec.convert(text, PodMetrics)


def sampled(metric, *items):
    return {name: sample.value for name, sample in samples_of(metric, items).items()}


# --- resource metrics --------------------------------------------------------------------------------------------


def test_a_pods_usage_is_the_sum_of_its_containers():
    """250m + 1500000n = 251.5 m, each away from zero: 250 + 2."""
    samples = samples_of(CPU, [pod_metrics(app="250m", proxy="1500000n")])

    assert {"a": Sample(252, parse_instant(NOON), 30 * SECOND)} == samples


def test_of_a_container_metric_only_that_container_counts():
    assert {"a": 250} == sampled(APP, pod_metrics(app="250m", proxy=None))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Inf", "", "-1", "1e999999", "much", True, [], {}, None, 1e300])
def test_a_pod_without_a_number_has_no_sample(text):
    assert {"b": 100} == sampled(CPU, pod_metrics(app=text, proxy="1"), pod_metrics("b", app="100m"))


@pytest.mark.parametrize(("number", "milli"), [(1, 1000), (0.25, 250), (0, 0), (1e-7, 1)])
def test_a_number_in_place_of_a_text_is_read(number, milli):
    assert {"a": milli} == sampled(CPU, pod_metrics(app=number))


def test_a_pod_without_containers_or_without_the_one_asked_for_has_no_sample():
    assert {} == sampled(CPU, pod_metrics())
    assert {} == sampled(APP, pod_metrics(proxy="1"))


@pytest.mark.parametrize("window", ["", "long"])
def test_a_pod_whose_window_cannot_be_read_has_no_sample(window):
    assert {} == sampled(CPU, pod_metrics(app="1", window=window))


def test_no_metrics_at_all_are_an_absence():
    assert Absent("NoMetrics", "no metrics returned from resource metrics API") == samples_of(CPU, [])


numbers = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)


@given(st.lists(st.dictionaries(st.sampled_from(["app", "proxy"]), numbers), max_size=3))
def test_any_usage_is_a_sample_of_at_least_zero_or_no_sample(pods):
    items = [pod_metrics(f"pod-{index}", **usage) for index, usage in enumerate(pods)]
    samples = samples_of(CPU, items)

    assert isinstance(samples, Absent) or all(sample.value >= 0 for sample in samples.values())


texts = st.sampled_from(["250m", "1500000n", "1", 2, "much", None])
some_pods = st.lists(
    st.builds(
        pod_metrics,
        timestamp=st.sampled_from([NOON, NOON, "2026-11-23T12:00:05Z"]),
        window=st.sampled_from(["30s", "30s", "", "long"]),
        app=texts,
        proxy=texts,
    ),
    min_size=1,
    max_size=3,
)


@given(some_pods, st.sampled_from([CPU, APP]))
def test_the_usage_of_all_pods_is_the_sum_of_their_samples_or_nothing(pods, metric):
    """None if a pod has no sample, or is not listed."""
    for index, pod in enumerate(pods):
        pod.metadata = replace(pod.metadata, name=f"pod-{index}")
    listed = PodMetricsByName(pods)
    samples = samples_of(metric, pods)
    complete = len(samples) == len(pods)

    assert (sum(sample.value for sample in samples.values()) if complete else None) == listed.usage(metric, listed)
    assert listed.usage(metric, [*listed, "another"]) is None


nanocores = st.integers(0, 10**12).map("{}n".format)
odd = st.sampled_from(
    [
        "0",
        "0n",
        "250m",
        "17u",
        "3",
        "1.5",
        "007n",
        "1n,2n",
        "1n,2",
        "-5n",
        "-5m",
        "1e3n",
        "n",
        "",
        " 5n",
        "5 n",
        "\u0665n",
    ]
)
long = st.sampled_from(["9" * 18 + "n", "9" * 19 + "n", "9" * 63 + "n", "9" * 64 + "n", "104456Ki"])


@given(st.lists(st.lists(nanocores | nanocores | nanocores | odd | long, max_size=2), max_size=6))
def test_quantities_read_together_equal_quantities_read_one_by_one(given_pods):
    """Where all are nanocores, where some are not, and where one cannot be read at all."""
    told = [
        {
            "metadata": {"name": f"pod-{index}"},
            "timestamp": NOON,
            "window": "30s",
            "containers": [{"name": "app", "usage": {"cpu": text}} for text in texts],
        }
        for index, texts in enumerate(given_pods)
    ]
    each_alone = (sampled(CPU, msgspec.convert(pod, PodMetrics)) for pod in told)
    alone = {name: value for samples in each_alone for name, value in samples.items()}

    for quantities in (CpuAndMemory, dict[str, Any]):
        pods = pod_metrics_of(told, quantities)
        assert alone == usages_of("cpu", None, pods)


@pytest.mark.parametrize("others", [[], ["2"], ["5n", "250m", "1"]])
def test_a_negative_usage_is_no_sample_whatever_the_units_of_the_others(others):
    """-1 + 2 would be the load of half of the pods that are there."""
    told = [msgspec.to_builtins(pod_metrics(f"pod-{at}", app=text)) for at, text in enumerate(["-1", *others])]
    pods = pod_metrics_of(told, CpuAndMemory)

    assert sampled(CPU, *pods) == usages_of("cpu", None, pods)
    assert "pod-0" not in usages_of("cpu", None, pods)


@given(some_pods, st.sampled_from([CPU, APP]))
def test_of_a_pod_that_is_listed_twice_the_last_counts(pods, metric):
    """All of them are called a."""
    listed = PodMetricsByName(pods)
    sample = samples_of(metric, [listed["a"]])

    assert (sample["a"].value if sample else None) == listed.usage(metric, ["a"])


# --- custom and external metrics ---------------------------------------------------------------------------------

NO_NUMBERS = ["NaN", "Infinity", "", None, "1e999999", {}]


def custom(name, value, timestamp=NOON, **fields):
    text = {"describedObject": {"name": name}, "timestamp": timestamp, "value": value, **fields}
    return msgspec.convert(text, CustomMetric)


def test_a_pods_metric_is_read_over_its_window():
    """60 s where none is stated, as upstream. A negative value is a value."""
    samples = pod_samples([custom("a", "5"), custom("b", "-500m", windowSeconds=10)])

    noon = parse_instant(NOON)
    assert {"a": Sample(5000, noon, 60 * SECOND), "b": Sample(-500, noon, 10 * SECOND)} == samples


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_malformed_value_is_no_sample_of_a_pods_metric(value):
    assert {"b"} == set(pod_samples([custom("a", value), custom("b", "1")]))


def test_no_custom_metrics_are_an_absence():
    assert isinstance(pod_samples([]), Absent)


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_malformed_value_is_an_absence_of_an_object_or_external_metric(value):
    assert "Malformed" == object_value(custom("web", value)).reason
    assert "Malformed" == external_value([ExternalMetricValue("1"), ExternalMetricValue(value)]).reason


def test_external_values_are_added():
    assert 1750 == external_value([ExternalMetricValue("1500m"), ExternalMetricValue(0.25)])


def test_a_negative_running_sum_is_the_largest_number_as_upstream():
    """The upstream takes a negative running sum for an overflow; a negative value after a larger one is added."""
    assert 2**63 - 1 == external_value([ExternalMetricValue("-1")])
    assert 1000 == external_value([ExternalMetricValue("2"), ExternalMetricValue("-1")])
    assert 2**63 - 1 == external_value([ExternalMetricValue("9e15"), ExternalMetricValue("9e15")])


def test_no_external_values_are_an_absence():
    assert Absent("NoMetrics", "no metrics returned from external metrics API") == external_value([])


# --- answers -----------------------------------------------------------------------------------------------------


class Answering:
    """An API server that gives one answer, or one error, to every question."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    async def read(self, path, params=None, **_):
        self.asked.append((path, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()


async def listed(answer):
    return await list_pod_metrics(Answering(answer), "prod")


async def external(answer):
    return await MetricReader(Answering(answer), None).external("prod", QUEUE)


MALFORMED = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"nonsense",
    b'{"items": 3}',
    b'{"items": [3]}',
    b'{"items": [{"value": NaN, "containers": [{"usage": {"cpu": NaN}}]}]}',
    b'{"items": [{"value": 1e999, "containers": [{"usage": {"cpu": 1e999}}]}]}',
    b'{"items": [',
    b'\xff{"items": []}',
    b'{"items": [{"metadata": {"name": "\xff"}, "value": "\xff"}]}',
    b'{"items": [{"value": "\xd1", "metadata": {"name": "\xd1"}}]}',
    b'{"items": [{"value": ' + b"[" * 100_000,
    b'{"items": [{"containers": [{"usage": {"cpu": ' + b"[" * 100_000,
]


@pytest.mark.parametrize("answer", MALFORMED, ids=lambda answer: repr(answer[:40]))
@pytest.mark.parametrize("ask", [listed, external])
async def test_an_answer_that_cannot_be_read_is_an_absence(ask, answer):
    reading = await ask(answer)

    assert "Malformed" == reading.reason
    assert "metrics API: the answer cannot be read" in reading.message


async def test_an_api_that_is_gone_is_an_absence_with_its_reason():
    gone = ClusterError(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    said = "metrics API: the server is currently unable to handle the request"

    assert Absent("ServiceUnavailable", f"unable to fetch metrics from resource {said}") == await listed(gone)
    assert Absent("ServiceUnavailable", f"unable to fetch metrics from external {said}") == await external(gone)


async def test_an_empty_list_is_no_metrics_and_not_zero():
    assert {} == await listed({"items": []})
    assert "NoMetrics" == (await external({"items": []})).reason


async def test_the_same_question_is_asked_once_in_a_tick():
    api = Answering({"items": [{"value": "3"}]})
    reader = MetricReader(api, None)

    answers = [await reader.external("prod", QUEUE), await reader.external("prod", QUEUE)]

    assert [3000, 3000] == answers
    assert 1 == len(api.asked)


class Hanging:
    """An API that never answers, and knows how many requests are under way."""

    under_way = 0

    async def read(self, *_, **__):
        self.under_way += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.under_way -= 1


async def test_a_question_is_given_up_once_all_who_asked_it_have_given_up():
    """Else those that give up after 40 s would add requests to those that hang."""
    api = Hanging()
    reader = MetricReader(api, None)
    first, second = (asyncio.create_task(reader.external("prod", QUEUE)) for _ in range(2))

    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert 1 == api.under_way

    second.cancel()
    await asyncio.wait([second])
    await asyncio.sleep(0)
    assert 0 == api.under_way

    third = asyncio.create_task(reader.external("prod", QUEUE))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 1 == api.under_way
    third.cancel()
    await asyncio.wait([third])


def told_of(name, **fields):
    containers = [{"name": "app", "usage": {"cpu": "250m"}}]
    return {
        "metadata": {"name": name},
        "timestamp": "2026-11-21T15:00:00Z",
        "window": "15s",
        "containers": containers,
    } | fields


@pytest.mark.parametrize(
    "broken",
    [
        told_of("bad", timestamp=None),
        told_of("bad", timestamp="now"),
        told_of("bad", timestamp="2026-11-21T15:00:00"),
        {"timestamp": NOON, "metadata": None},
        told_of("bad", containers=7),
        None,
        [[]],
        3,
    ],
    ids=["no time", "another text", "no offset", "no name", "no containers", "null", "list", "number"],
)
async def test_a_pod_that_cannot_be_read_does_not_cost_the_others_of_its_namespace(broken):
    api = FakeApi()
    listed = {"items": [told_of("good"), broken, told_of("fine")]}
    api.answers["/apis/metrics.k8s.io/v1beta1/namespaces/prod/pods"] = answering(listed)
    async with api.client() as client:
        metrics = await list_pod_metrics(client, "prod")

    assert {"good", "fine"} == set(metrics)


anything = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.none(), max_size=1))
quantities = st.one_of(st.sampled_from(["250m", "1", "64Mi", "-1", "x"]), anything)
usages = st.one_of(st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/fpga"]), quantities), anything)
usage_lists = st.lists(
    st.lists(st.fixed_dictionaries({"name": st.sampled_from(["app", "proxy"]), "usage": usages}), max_size=2),
    max_size=3,
)


@given(usage_lists, st.sampled_from([CPU, APP]))
async def test_where_other_resources_are_not_decoded_the_samples_are_the_same(containers, metric):
    """The operator decodes cpu and memory alone, unless a metric has another resource."""
    answer = {"items": [told_of(f"pod-{place}", containers=container) for place, container in enumerate(containers)]}

    whole = await list_pod_metrics(Answering(answer), "prod", all_resources=True)
    part = await listed(answer)
    if not isinstance(part, Absent):
        assert samples_of(metric, whole.values()) == samples_of(metric, part.values())
        assert whole.usages("cpu", metric.container) == part.usages("cpu", metric.container)
    assert type(whole) is type(part)


@pytest.mark.parametrize("items", [[7, None], 7], ids=["none readable", "no list"])
async def test_an_unreadable_list_is_not_an_empty_one(items):
    api = FakeApi()
    api.answers["/apis/metrics.k8s.io/v1beta1/namespaces/prod/pods"] = answering({"items": items})
    async with api.client() as client:
        metrics = await list_pod_metrics(client, "prod")

    assert "Malformed" == metrics.reason
