"""What was seen becomes an observation: readings, the request of a pod, its time to start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import NOW, cpu, observed, pod, sample, spec
from cronhpa.core.metrics.observe import NODE_WAIT, node_start, observe, requests_per_pod, start_up
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND
from cronhpa.core.model.observation import Absent, Container, NodeStart, PodCounts, ScalarReading, Scale
from cronhpa.core.model.spec import ControllerOptions, ExternalMetric, MetricTarget, ResourceMetric, UnknownMetric


def started(name, seconds):
    """A pod that became Ready `seconds` after its creation."""
    return replace(pod(name), created=NOW - HOUR, ready_since=NOW - HOUR + int(seconds * SECOND))


def test_the_start_up_is_the_ninetieth_percentile_rounded_up_to_five_seconds():
    """Ten pods took 1 to 10 s: the ninth took 9. By clocks cut to the second 9 can be 10, 4 can be 5, and 5 be 6."""
    assert 10 * SECOND == start_up([started(f"shop-{seconds}", seconds) for seconds in range(1, 11)])
    assert 5 * SECOND == start_up([started("shop", 4)])
    assert 10 * SECOND == start_up([started("shop", 5)])


def test_pods_that_are_not_ready_or_going_tell_nothing_about_start_up():
    assert start_up([pod("a", ready="False"), pod("b", deleting=True), pod("c", ready="")]) is None


def test_a_pod_that_turned_ready_over_an_hour_after_its_creation_tells_nothing_about_start_up():
    assert HOUR + 5 * SECOND == start_up([started("shop", 3600)])
    assert start_up([started("shop", 3601)]) is None
    assert start_up([started("shop", -1)]) is None


def test_pods_that_waited_for_a_node_tell_of_both_starts():
    """Two found room at once and took 8 s; one waited 95 s and was Ready 10 s later: 10 s, and 105 s with the node."""
    waited = replace(started("late", 105), waited=95 * SECOND)
    pods = [started("a", 8), started("b", 8), waited]

    assert 15 * SECOND == start_up(pods)
    assert NodeStart(110 * SECOND, NOW - HOUR) == node_start(pods)
    assert None is node_start([replace(started("slow", 30), waited=NODE_WAIT - SECOND)])
    assert None is node_start([replace(waited, ready="False")])


def seconds_of(most):
    return st.integers(0, most)


@given(st.lists(st.tuples(seconds_of(600), seconds_of(600), seconds_of(3000)), max_size=12))
def test_a_start_without_a_node_is_never_longer_than_one_with_it_and_knows_nothing_of_waits(pods):
    """Each pod: its wait, its start on a node, and when it was created."""
    seen = [
        replace(started(f"p-{number}", wait + start), waited=wait * SECOND, created=NOW - HOUR + created * SECOND)
        for number, (wait, start, created) in enumerate(pods)
    ]
    seen = [replace(one, ready_since=one.ready_since + one.created - (NOW - HOUR)) for one in seen]
    unwaited = [
        replace(one, waited=0, ready_since=one.ready_since - (one.waited if one.waited >= NODE_WAIT else 0))
        for one in seen
    ]
    late = [one for one in seen if one.waited >= NODE_WAIT]

    assert start_up(unwaited) == start_up(seen)
    assert (node_start(seen) is None) == (not late)
    if late:
        assert node_start(seen).length >= start_up(late) + NODE_WAIT
        assert max(one.created for one in late) == node_start(seen).at


def test_the_request_per_pod_is_the_average_over_pods_that_state_it():
    """(1000 + 2000) / 2; the third states none."""
    pods = [pod("a", request=1000), pod("b", request=2000), pod("c", request=None)]

    assert {"cpu": 1500} == requests_per_pod(spec(metrics=(cpu(),)), pods)


def test_the_first_metric_of_a_resource_says_whose_request_counts():
    """The forecast is of the first metric named cpu: the sidecar's request of the second must not replace its pod's."""
    both = replace(pod("a"), containers=(Container("app", {"cpu": 1000}), Container("proxy", {"cpu": 100})))
    proxy = ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=60), container="proxy")

    assert {"cpu": 1100} == requests_per_pod(spec(metrics=(cpu(), proxy)), [both])
    assert {"cpu": 100} == requests_per_pod(spec(metrics=(proxy, cpu())), [both])


def test_what_could_not_be_fetched_is_absent_in_the_upstreams_words():
    of = spec(metrics=(cpu(),))

    reading = observed(of, [pod("a")], Absent("Timeout", "the API is gone"), current=1).readings[0]

    text = "failed to get cpu utilization: unable to get metrics for resource cpu: the API is gone"
    assert Absent("FailedGetResourceMetric", text, f"failed to get cpu resource metric value: {text}") == reading


def test_a_scale_that_cannot_be_read_is_all_there_is():
    gone = Absent("FailedGetScale", "not found")

    assert gone == observe(spec(), gone, (), (), NOW).scale


def test_a_metric_type_that_nothing_knows_is_absent():
    reading = observed(spec(metrics=(UnknownMetric("Magic"),)), [], 0, current=1).readings[0]

    assert 'unknown metric source type "Magic"' == reading.message


def test_older_samples_count_as_absent_where_an_age_is_stated():
    """120 s allowed: a sample of 09:58:00 counts, one a second older does not; its pod is missing."""
    of = spec(metrics=(cpu(),), options=ControllerOptions(metric_max_age=2 * MINUTE))
    samples = {"a": sample(500, "09:58:00"), "b": sample(500, "09:57:59")}

    reading = observed(of, [pod("a"), pod("b")], samples, current=2).readings[0]

    assert isinstance(reading, PodCounts)
    assert (1, 1) == (reading.ready, reading.missing)


def test_samples_of_the_future_count_as_absent_where_an_age_is_stated():
    """It is 10:00, 120 s are allowed: a sample of 10:02:00 counts, one a second later or of 11:00 does not."""
    of = spec(metrics=(cpu(),), options=ControllerOptions(metric_max_age=2 * MINUTE))
    samples = {"a": sample(500, "10:02:00"), "b": sample(500, "10:02:01"), "c": sample(500, "11:00:00")}

    reading = observed(of, [pod("a"), pod("b"), pod("c")], samples, current=3).readings[0]

    assert isinstance(reading, PodCounts)
    assert (1, 2) == (reading.ready, reading.missing)


def test_when_all_samples_are_of_the_future_the_metric_is_absent():
    of = spec(metrics=(cpu(),), options=ControllerOptions(metric_max_age=2 * MINUTE))

    reading = observed(of, [pod("a")], {"a": sample(5, "11:00:00")}, current=1).readings[0]

    assert isinstance(reading, Absent)


def test_any_age_counts_where_none_is_stated():
    of = spec(metrics=(cpu(),))

    reading = observed(of, [pod("a")], {"a": sample(500, "2020-01-01T00:00:00Z")}, current=1).readings[0]

    assert isinstance(reading, PodCounts)
    assert 1 == reading.ready


def test_a_value_is_read_with_the_running_and_ready_pods_of_its_target():
    length = ExternalMetric("queue", MetricTarget("Value", value=1000))
    pods = [pod("a"), pod("b", ready="False"), pod("c", phase="Pending"), pod("d", deleting=True)]

    assert ScalarReading(7000, 2) == observed(spec(metrics=(length,)), pods, 7000, current=4).readings[0]


def test_the_scale_is_kept_as_it_was_seen():
    scale = Scale(3, 2, "app=shop", "77")

    assert scale == observe(spec(metrics=()), scale, (), (), NOW).scale
