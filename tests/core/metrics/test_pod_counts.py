"""What is counted of pods and samples, and the upstream's words where there is nothing to count."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.situations import NOW, SHOP, cpu, pod, sample
from cronhpa.core.metrics.pod_counts import (
    absent_metric,
    group_pods,
    pod_counts,
    pod_request,
    scalar_reading,
    without_target,
)
from cronhpa.core.model.instant import MINUTE
from cronhpa.core.model.observation import Absent, Container, PodCounts, ScalarReading
from cronhpa.core.model.spec import (
    ControllerOptions,
    ExternalMetric,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    UnknownMetric,
)

VALUE = MetricTarget("Value", value=10_000)
AVERAGE = MetricTarget("AverageValue", average_value=100)
REQUESTS = PodsMetric("requests", AVERAGE)
CPU_OF_WEB = ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60), "web")


def counted(metric, pods, samples, options=None):
    return pod_counts(metric, pods, samples, NOW, options or ControllerOptions())


# One ready pod, one that starts, one that says nothing, one that is deleted; and a sample of a pod that nobody lists.
PODS = (
    pod("ready", request=1000),
    pod("starting", ready="False", ready_since=NOW - MINUTE, started=NOW - MINUTE, request=500),
    pod("silent", request=200),
    pod("deleted", deleting=True, request=50),
)
SAMPLES = {"ready": sample(700), "starting": sample(90), "deleted": sample(8), "elsewhere": sample(3)}


# --- pods and samples --------------------------------------------------------------------------------------------


def test_a_utilization_is_counted_over_the_samples_whose_pod_is_listed():
    """Silent: 200 * max(100 %, 60 %) = 200. The load is of all samples: 700 + 90 + 8 + 3."""
    expected = PodCounts(
        ready=1,
        unready=1,
        missing=1,
        counted=2,
        matched=1,
        usage=700,
        request=1000,
        missing_usage=200,
        missing_request=200,
        unready_request=500,
        load=801,
    )

    assert expected == counted(cpu(60), PODS, SAMPLES)
    assert replace(expected, missing_usage=300) == counted(cpu(150), PODS, SAMPLES)


def test_a_pod_counts_as_ready_unready_or_missing_and_one_that_is_deleted_not_at_all():
    groups = group_pods(PODS, SAMPLES, NOW, ControllerOptions(), is_cpu=True)

    assert (1, ["starting"], ["silent"]) == (groups.ready, groups.unready, groups.missing)
    assert ["ready", "elsewhere"] == [*groups.samples]


def test_an_average_is_counted_over_all_samples_that_are_left():
    """Nobody is starting where it is not CPU: 700 + 90 + 3 of three samples. The silent pod counts as the target."""
    expected = PodCounts(
        ready=2,
        unready=0,
        missing=1,
        counted=3,
        matched=0,
        usage=793,
        request=0,
        missing_usage=100,
        missing_request=0,
        unready_request=0,
        load=801,
    )

    assert expected == counted(REQUESTS, PODS, SAMPLES)


def test_a_silent_pod_adds_nothing_to_a_target_of_nothing():
    nothing = PodsMetric("requests", MetricTarget("AverageValue", average_value=0))

    assert 0 == counted(nothing, PODS, SAMPLES).missing_usage


def test_a_pods_metric_that_is_named_as_a_resource_waits_for_no_pod():
    assert 0 == counted(PodsMetric("cpu", AVERAGE), PODS, SAMPLES).unready


def test_a_pending_pod_counts_as_unready_and_its_sample_does_not():
    seen = counted(REQUESTS, (pod("ready"), pod("new", phase="Pending")), {"ready": sample(700), "new": sample(9)})

    assert (1, 1, 1, 700) == (seen.ready, seen.unready, seen.counted, seen.usage)


def test_a_pod_without_a_start_time_is_starting():
    unborn = replace(pod("unborn"), start_time=None)

    assert 1 == counted(cpu(60), (unborn, pod("ready")), {"unborn": sample(9), "ready": sample(700)}).unready


def test_of_a_container_only_its_own_request_counts():
    shop = replace(pod("ready"), containers=(Container("app", {"cpu": 100}), Container("web", {"cpu": 20})))

    assert 20 == counted(CPU_OF_WEB, (shop,), {"ready": sample(7)}).request


def test_what_is_not_there_is_told_with_its_reason():
    """The inner text is the condition's; the outer one, of the event, says which metric."""
    text = "did not receive metrics for targeted pods (pods might be unready)"
    nobody = "no pods returned by selector while calculating replica count"
    request = "failed to get cpu utilization: missing request for cpu in container app of Pod ready"
    outer = "failed to get pods metric value: "
    of_cpu = "failed to get cpu resource metric value: "

    assert Absent("FailedGetPodsMetric", text, outer + text) == counted(REQUESTS, PODS, {})
    assert Absent("FailedGetPodsMetric", nobody, outer + nobody) == counted(REQUESTS, (), SAMPLES)
    assert Absent("FailedGetResourceMetric", request, of_cpu + request) == counted(
        cpu(60), (pod("ready", request=None),), SAMPLES
    )


# --- one value ---------------------------------------------------------------------------------------------------

READY_OF_FOUR = (pod("a"), pod("b", deleting=True), pod("c", ready="False"), pod("d", phase="Pending"))


@pytest.mark.parametrize("metric", [ExternalMetric("queue", VALUE), ObjectMetric("hits", VALUE, SHOP)])
def test_a_value_is_for_the_pods_that_run_and_are_ready(metric):
    """Deleted ones, too, as long as they are."""
    assert ScalarReading(7000, 2) == scalar_reading(metric, 7000, READY_OF_FOUR)


@pytest.mark.parametrize("metric", [ExternalMetric("queue", AVERAGE), ObjectMetric("hits", AVERAGE, SHOP)])
def test_an_average_needs_no_pods(metric):
    assert ScalarReading(7000, 0) == scalar_reading(metric, 7000, READY_OF_FOUR)
    assert ScalarReading(7000, 0) == scalar_reading(metric, 7000, ())


def test_the_type_decides_for_an_object_and_the_average_for_an_external_metric():
    both = MetricTarget("Value", value=10_000, average_value=100)

    assert ScalarReading(7000, 2) == scalar_reading(ObjectMetric("hits", both, SHOP), 7000, READY_OF_FOUR)
    assert ScalarReading(7000, 0) == scalar_reading(ExternalMetric("queue", both), 7000, READY_OF_FOUR)


def test_a_value_of_no_pods_says_so():
    text = "unable to calculate ready pods: no pods returned by selector while calculating replica count"
    outer = "failed to get queue external metric value: failed to get external metric queue: "

    assert ScalarReading(7000, Absent("FailedGetExternalMetric", text, outer + text)) == scalar_reading(
        ExternalMetric("queue", VALUE), 7000, ()
    )


# --- the upstream's words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "reason", "inner", "outer"),
    [
        (
            cpu(60),
            "FailedGetResourceMetric",
            "failed to get cpu utilization: gone",
            "failed to get cpu resource metric value: failed to get cpu utilization: gone",
        ),
        (
            ResourceMetric("cpu", AVERAGE),
            "FailedGetResourceMetric",
            "failed to get cpu usage: gone",
            "failed to get cpu resource metric value: failed to get cpu usage: gone",
        ),
        (
            CPU_OF_WEB,
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: gone",
            "failed to get web container metric value: failed to get cpu utilization: gone",
        ),
        (REQUESTS, "FailedGetPodsMetric", "gone", "failed to get pods metric value: gone"),
        (ObjectMetric("hits", VALUE, SHOP), "FailedGetObjectMetric", "gone", "failed to get object metric value: gone"),
        (
            ObjectMetric("hits", AVERAGE, SHOP),
            "FailedGetObjectMetric",
            "gone",
            "failed to get object metric value: failed to get hits object metric: gone",
        ),
        (
            ExternalMetric("queue", VALUE),
            "FailedGetExternalMetric",
            "gone",
            "failed to get queue external metric value: failed to get external metric queue: gone",
        ),
        (
            ExternalMetric("queue", AVERAGE),
            "FailedGetExternalMetric",
            "gone",
            "failed to get queue external metric value: failed to get queue external metric: gone",
        ),
        (UnknownMetric("Oracle"), "InvalidMetricSourceType", "gone", "gone"),
    ],
    ids=lambda case: case.replace(" ", "-") if isinstance(case, str) and case.startswith("Failed") else "",
)
def test_an_absence_is_told_in_the_upstreams_words(metric, reason, inner, outer):
    assert Absent(reason, inner, outer) == absent_metric(metric, "gone")


NEITHER = "neither a value target nor an average value target was set"
NEITHER_OF_RESOURCE = "neither an average utilization target nor an average value (usage) target was set"


@pytest.mark.parametrize(
    ("metric", "reason", "inner", "outer"),
    [
        (
            ResourceMetric("cpu", VALUE),
            "FailedGetResourceMetric",
            f"invalid resource metric source: {NEITHER_OF_RESOURCE}",
            "failed to get cpu resource metric value: ",
        ),
        (
            ObjectMetric("hits", replace(VALUE, type="AverageValue"), SHOP),
            "FailedGetObjectMetric",
            f"invalid object metric source: {NEITHER}",
            "failed to get object metric value: ",
        ),
        (
            ObjectMetric("hits", replace(AVERAGE, type="Value"), SHOP),
            "FailedGetObjectMetric",
            f"invalid object metric source: {NEITHER}",
            "failed to get object metric value: ",
        ),
        (
            ObjectMetric("hits", replace(VALUE, type="Utilization"), SHOP),
            "FailedGetObjectMetric",
            f"invalid object metric source: {NEITHER}",
            "failed to get object metric value: ",
        ),
        (
            ExternalMetric("queue", MetricTarget("Value", average_utilization=60)),
            "FailedGetExternalMetric",
            f"invalid external metric source: {NEITHER}",
            "failed to get queue external metric value: ",
        ),
    ],
    ids=lambda case: case if isinstance(case, str) and case.startswith("Failed") else "",
)
def test_a_metric_without_the_target_that_its_source_is_read_by_says_so(metric, reason, inner, outer):
    """Upstream's computeStatusForObjectMetric reads the target that the type names, and validation takes any."""
    assert Absent(reason, inner, outer + inner) == without_target(metric)


@pytest.mark.parametrize(
    "metric",
    [
        cpu(60),
        ResourceMetric("cpu", AVERAGE),
        REQUESTS,
        ObjectMetric("hits", VALUE, SHOP),
        ObjectMetric("hits", AVERAGE, SHOP),
        ExternalMetric("queue", VALUE),
        ExternalMetric("queue", AVERAGE),
        # The type of these two decides nothing.
        ExternalMetric("queue", replace(VALUE, type="AverageValue")),
        ResourceMetric("cpu", replace(AVERAGE, type="Utilization")),
        UnknownMetric("Oracle"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_metric_with_a_target_lacks_none(metric):
    assert without_target(metric) is None


# --- requests of a pod as a whole --------------------------------------------------------------------------------


def whole(*containers, requests=None, **overhead):
    """A pod for which memory is stated as a whole, so that every other resource is an aggregate."""
    return replace(
        pod("shop"), containers=containers, pod_requests={"memory": 64, **(requests or {})}, overhead=overhead
    )


def app(name="app", **requests):
    return Container(name, requests)


def init(name="init", **requests):
    return Container(name, requests, is_init=True)


def sidecar(name="sidecar", **requests):
    return Container(name, requests, is_init=True, restartable=True)


@pytest.mark.parametrize(
    ("shop", "milli"),
    [
        (whole(app(cpu=100), requests={"cpu": 500}), 500),  # what is stated for the pod replaces the sum
        (whole(app(cpu=100), requests={"cpu": 500}, cpu=7), 507),  # and overhead is added
        (whole(app(cpu=100), app("web", cpu=20)), 120),  # containers are summed
        (whole(app(cpu=100), app("web")), 100),  # one without a request asks for nothing
        (whole(app(cpu=100), sidecar(cpu=20), sidecar("more", cpu=3)), 123),  # sidecars go on running beside them
        (whole(app(cpu=100), sidecar()), 100),
        (whole(app(cpu=100), init(cpu=80)), 100),  # an init step is over before
        (whole(app(cpu=100), init(cpu=150)), 150),  # but must fit
        (whole(app(cpu=100), init(cpu=90), init("more", cpu=130)), 130),  # one after the other
        (whole(app(cpu=10), sidecar(cpu=20), sidecar("more", cpu=3), init(cpu=80)), 103),  # beside sidecars before it
        (whole(app(cpu=10), sidecar(cpu=20), init()), 30),  # 20 beside nothing is less than 10 + 20
        (whole(app(cpu=10), sidecar(), init(cpu=80)), 80),
        (whole(app(), sidecar(cpu=20), init()), 20),
        (whole(app(cpu=10), init(cpu=80), sidecar(cpu=20)), 80),  # and not beside those after it
        (whole(app(cpu=100), init(cpu=150), cpu=7), 157),
        (whole(app(), cpu=7), 7),  # overhead alone is a request
        (whole(app()), "missing pod-level request for cpu in Pod shop"),
    ],
)
def test_a_pod_with_requests_as_a_whole_asks_for(shop, milli):
    assert milli == pod_request(shop, "cpu", None)


def test_requests_as_a_whole_say_nothing_of_a_named_container():
    assert 100 == pod_request(whole(app(cpu=100), requests={"cpu": 500}), "cpu", "app")


@pytest.mark.parametrize("name", ["cpu", "memory", "hugepages-2Mi"])
def test_what_may_be_stated_for_a_pod_as_a_whole_makes_its_requests_an_aggregate(name):
    """Else the containers are summed, and each must ask."""
    shop = whole(app(disk=100), app("web"))

    assert 100 == pod_request(replace(shop, pod_requests={name: 64}), "disk", None)
    assert "missing request for disk in container web of Pod shop" == pod_request(
        replace(shop, pod_requests={"example.com/gpu": 64}), "disk", None
    )
