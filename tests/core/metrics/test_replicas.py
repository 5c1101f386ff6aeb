"""From pods and samples to a count: worked numbers of the upstream's arithmetic (k8s.io/kubernetes, v1.36)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import NOW, SHOP, cpu, groups_of_pods, observed, pod, queue, rules, sample, spec
from cronhpa.core.metrics.pod_counts import pod_request
from cronhpa.core.metrics.replicas import Tolerance, measure, tolerance
from cronhpa.core.model.decision import MetricProposal
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.observation import Absent, Container, ScalarReading
from cronhpa.core.model.spec import (
    Behavior,
    ControllerOptions,
    ExternalMetric,
    LabelRequirement,
    LabelSelector,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
)

BAND = Tolerance(0.1, 0.1)
VALUE = MetricTarget("Value", value=10_000)


def asked(metric, pods, samples, current=None, *, headroom=0, band=BAND, options=None):
    """What a metric over pods asks for, from as many replicas as there are pods."""
    of = spec(metrics=(metric,), options=options or ControllerOptions())
    number = len(pods) if current is None else current
    return measure(metric, observed(of, pods, samples, current=number).readings[0], number, number, band, headroom)


def shops(number, **fields):
    return [pod(f"shop-{index}", **fields) for index in range(number)]


def using(*milli, clock="10:00"):
    """One sample a pod, in order; None for a pod without."""
    return {f"shop-{index}": sample(value, clock) for index, value in enumerate(milli) if value is not None}


# --- utilization -------------------------------------------------------------------------------------------------


def test_three_ready_pods():
    """(300 + 500 + 700) / 3000 = 50 %, over 30 % = 1.667; ceil(1.667 * 3) = 5."""
    measured = asked(cpu(30), shops(3), using(300, 500, 700))

    assert MetricProposal("cpu resource utilization (percentage of request)", 5, None, 500, 50) == measured


def test_an_unready_pod_dampens_a_scale_up():
    """The 300 m pod is starting: 1200 / 2000 = 60 % is 2.0; with it as 0 of 1000: 40 %, 1.333; ceil(1.333 * 3) = 4."""
    pods = [pod("shop-0", ready="False", ready_since=NOW - MINUTE, started=NOW - MINUTE), *shops(3)[1:]]

    measured = asked(cpu(30), pods, using(300, 500, 700))

    assert (4, 60) == (measured.replicas, measured.average_utilization)


def test_an_unready_pod_turns_no_scale_up_into_a_scale_down():
    """
    Of 10 replicas 3 are listed, and one of them starts: 1400 / 2000 = 70 %, over 50 % = 1.4, ceil(1.4 * 2) = 3.

    With 0 of 1000 beside it 46 %, 0.92: the direction turns, and the 10 stay.
    """
    pods = [pod("shop-0", ready="False", ready_since=NOW - MINUTE, started=NOW - MINUTE), *shops(3)[1:]]

    assert 10 == asked(cpu(50), pods, using(300, 700, 700), current=10, band=Tolerance(0.0, 0.0)).replicas


def test_at_the_target_an_unready_pod_counts_for_nothing():
    """500 of 1000 is 50 %: within; with an idle 1000 beside it it would be 25 %, ceil(0.5 * 2) = 1."""
    pods = [pod("shop-0", ready="False", ready_since=NOW - MINUTE, started=NOW - MINUTE), pod("shop-1")]

    assert 2 == asked(cpu(50), pods, using(300, 500)).replicas


def test_an_unready_pod_counts_for_nothing_on_a_scale_down():
    """400 / 2000 = 20 %, over 50 % = 0.4; ceil(0.4 * 2) = 1: the pod that starts is not among the two."""
    pods = [pod("shop-0", ready="False", ready_since=NOW - MINUTE, started=NOW - MINUTE), *shops(3)[1:]]

    assert 1 == asked(cpu(50), pods, using(900, 200, 200)).replicas


def test_a_pod_without_a_sample_is_taken_to_be_idle_on_a_scale_up():
    """(700 + 700) / 2000 = 70 %, over 30 % = 2.33; with 0 of 1000: 46 %, 1.533; ceil(1.533 * 3) = 5."""
    assert 5 == asked(cpu(30), shops(3), using(700, 700, None)).replicas


def test_a_silent_pod_does_not_turn_a_scale_up_into_a_scale_down():
    """(700 + 700) / 2000 = 70 %, over 50 % = 1.4; with 0 of 1000: 46 %, 0.92; without a tolerance, too, 3 stay."""
    assert 3 == asked(cpu(50), shops(3), using(700, 700, None), band=Tolerance(0.0, 0.0)).replicas


def test_at_the_target_a_pod_without_a_sample_is_taken_to_be_neither():
    """
    (500 + 500) / 2000 = 50 %, over 50 % = 1.0.

    With the third as busy it would be 66 %, ceil(1.32 * 3) = 4, and as idle 33 %, ceil(0.66 * 3) = 2.
    """
    assert 3 == asked(cpu(50), shops(3), using(500, 500, None)).replicas


def test_where_a_silent_pod_leaves_a_scale_up_within_the_tolerance_nothing_changes():
    """(800 + 800) / 2000 = 80 %, over 50 % = 1.6; with 0 of 1000: 53 %, 1.06; ceil(1.06 * 3) would be 4."""
    assert 3 == asked(cpu(50), shops(3), using(800, 800, None)).replicas


def test_a_cautious_ratio_never_moves_the_count_against_itself():
    """
    Upstream counts the metrics, and not the replicas.

    Of 10 replicas 3 are listed: 2.33 cautiously 1.53, ceil(1.53 * 3) = 5, below the 10. Of one replica 3 are listed:
    0.2 cautiously 0.8, ceil(0.8 * 3) = 3, above the one.
    """
    assert 10 == asked(cpu(30), shops(3), using(700, 700, None), current=10).replicas
    assert 1 == asked(cpu(50), shops(3), using(100, 100, None), current=1).replicas


def test_a_pod_without_a_sample_is_taken_to_be_fully_busy_on_a_scale_down():
    """(100 + 100) / 2000 = 10 %, over 50 % = 0.2; with 1000 of 1000: 40 %, 0.8; ceil(0.8 * 3) = 3."""
    assert 3 == asked(cpu(50), shops(3), using(100, 100, None)).replicas


def test_fully_busy_is_the_target_where_that_is_above_the_request():
    """Target 200 %: the silent pod counts 2000, so 2200 / 3000 = 73 %, 0.365; ceil(0.365 * 3) = 2."""
    assert 2 == asked(cpu(200), shops(3), using(100, 100, None)).replicas


def test_a_silent_pod_does_not_turn_a_scale_down_into_a_scale_up():
    """40 + 40 of 200 is 40 %, below 50 %; with 10,000 of 10,000 it would be 98 %: nothing changes."""
    pods = [*shops(2, request=100), pod("shop-2", request=10_000)]

    assert 3 == asked(cpu(50), pods, using(40, 40, None)).replicas


def test_deleted_and_failed_pods_are_ignored():
    """Only the two others: 1400 / 2000 = 70 %, over 50 % = 1.4; ceil(1.4 * 2) = 3."""
    pods = [*shops(2), pod("shop-2", deleting=True), pod("shop-3", phase="Failed")]

    assert 3 == asked(cpu(50), pods, using(700, 700, 5000, 5000)).replicas


def test_a_percentage_is_truncated_before_the_ratio():
    """1109 / 1000 = 110.9 %, truncated 110, over 100 = 1.1: within the tolerance; 1110 is 111 %, and outside."""
    assert 1 == asked(cpu(100), shops(1), using(1109)).replicas
    assert 2 == asked(cpu(100), shops(1), using(1110)).replicas


def test_the_ratio_is_multiplied_by_the_ready_pods_and_not_by_the_replicas():
    """Two pods of ten are there: 100 % over 50 % is 2.0, times 2 is 4, below the current 10."""
    assert 4 == asked(cpu(50), shops(2), using(1000, 1000), current=10).replicas


def test_a_pod_without_a_request_fails_the_metric():
    measured = asked(cpu(50), [pod("shop-0", request=None)], using(500))

    assert isinstance(measured, Absent)
    assert "failed to get cpu utilization: missing request for cpu in container app of Pod shop-0" == measured.message


def test_the_smallest_request_is_one():
    """1 of 1 is 100 %, over 50 % = 2.0; a request of 0 says nothing."""
    assert 2 == asked(cpu(50), shops(1, request=1), using(1)).replicas
    assert (
        "failed to get cpu utilization: no metrics returned matched known pods"
        == asked(cpu(50), shops(1, request=0), using(1)).message
    )


def test_usage_is_shown_in_percent_and_as_an_average():
    """(1000 + 999) / 2000 = 99.95 %, truncated 99, over 50 = 1.98; times 2 = 3.96. 1999 / 2 = 999.5, truncated."""
    measured = asked(cpu(50), shops(2), using(1000, 999))

    assert MetricProposal("cpu resource utilization (percentage of request)", 4, None, 999, 99) == measured


def test_no_pods_and_no_samples_are_absences():
    assert "no pods returned by selector" in asked(cpu(50), [], {}, current=3).message
    assert "did not receive metrics for targeted pods" in asked(cpu(50), shops(2), {}, current=2).message


# --- who is unready ----------------------------------------------------------------------------------------------


def is_ready(sampled="10:00", options=None, **fields):
    """Whether a pod's sample over 30 s counts in full; the target is so high that an unready pod is left out."""
    return isinstance(
        asked(cpu(60), [pod("shop-0", **fields)], {"shop-0": sample(600, sampled)}, options=options), MetricProposal
    )


def test_a_young_pod_counts_once_a_whole_window_lies_after_it_turned_ready():
    """Started 2 min ago, Ready at 09:59:00, window 30 s: a sample of 09:59:30 counts, of 09:59:29 not yet."""
    young = {"started": NOW - 2 * MINUTE, "ready_since": NOW - MINUTE}

    assert is_ready("09:59:30", **young)
    assert not is_ready("09:59:29", **young)


def test_a_pod_is_young_for_five_minutes():
    """Started exactly 5 min ago it is not young any more; a nanosecond later started, it is."""
    recent = {"ready_since": NOW}

    assert is_ready(started=NOW - 5 * MINUTE, **recent)
    assert not is_ready(started=NOW - 5 * MINUTE + 1, **recent)


def test_an_older_pod_that_lost_its_readiness_counts():
    """Unready since long after its start; only one that never was Ready counts as starting: 30 s, equality counts."""
    start = NOW - 10 * MINUTE

    assert is_ready(ready="False", started=start, ready_since=start + MINUTE)
    assert is_ready(ready="False", started=start, ready_since=start + 30 * SECOND)
    assert not is_ready(ready="False", started=start, ready_since=start + 30 * SECOND - 1)


def test_an_unknown_readiness_is_not_a_false_one():
    assert is_ready(ready="Unknown")
    assert not is_ready(ready="")
    assert not is_ready(phase="Pending")


def test_readiness_is_asked_for_cpu_only():
    memory = ResourceMetric("memory", MetricTarget("AverageValue", average_value=600))
    starting = [pod("shop-0", ready="False", started=NOW, ready_since=NOW)]

    assert 1 == asked(memory, starting, {"shop-0": sample(600)}).replicas


# --- averages ----------------------------------------------------------------------------------------------------


def test_an_average_is_truncated_before_the_ratio():
    """(100 + 101) / 2 = 100.5, truncated 100, over 91 = 1.0989: within; 202 / 2 = 101, 1.1099: ceil(2.22) = 3."""
    metric = PodsMetric("requests", MetricTarget("AverageValue", average_value=91))

    assert 2 == asked(metric, shops(2), using(100, 101)).replicas
    assert 3 == asked(metric, shops(2), using(101, 101)).replicas


def test_an_average_is_shown_without_a_percentage():
    """(150 + 151) / 2 = 150.5, truncated 150, over 100 = 1.5; times 2."""
    metric = PodsMetric("requests", MetricTarget("AverageValue", average_value=100))

    assert MetricProposal("pods metric requests", 3, None, 150, None) == asked(metric, shops(2), using(150, 151))


def test_a_silent_pod_is_taken_to_be_at_the_target_of_an_average_on_a_scale_down():
    """(10 + 20) / 2 = 15, over 100 = 0.15; with 100: 130 / 3 = 43, 0.43; ceil(0.43 * 3) = 2."""
    metric = PodsMetric("requests", MetricTarget("AverageValue", average_value=100))

    assert 2 == asked(metric, shops(3), using(10, 20, None)).replicas


def test_a_silent_pod_is_taken_to_be_idle_for_an_average_on_a_scale_up():
    """(400 + 401) / 2 = 400, over 100 = 4.0; with 0: 801 / 3 = 267, 2.67; ceil(2.67 * 3) = 9."""
    metric = PodsMetric("requests", MetricTarget("AverageValue", average_value=100))

    measured = asked(metric, shops(3), using(400, 401, None))

    assert (9, 400) == (measured.replicas, measured.average_value)


def test_a_target_of_zero_asks_for_the_most_there_is():
    """No API server lets it pass; a division by zero would end the turn."""
    nothing = PodsMetric("requests", MetricTarget("AverageValue", average_value=0))

    assert 2**31 - 1 == asked(nothing, shops(1), using(1)).replicas
    assert (
        2**31 - 1
        == measure(ExternalMetric("queue", MetricTarget("Value", value=0)), ScalarReading(1, 1), 1, 1, BAND, 0).replicas
    )


def test_a_negative_average_is_truncated_toward_zero():
    """-201 / 2 = -100.5, truncated -100."""
    metric = PodsMetric("requests", MetricTarget("AverageValue", average_value=100))

    assert -100 == asked(metric, shops(2), using(-100, -101)).average_value


def test_samples_of_pods_that_are_not_listed_count_in_a_plain_average():
    """(100 + 300) / 2 = 200, over 100 = 2.0, times the one ready pod."""
    metric = PodsMetric("requests", MetricTarget("AverageValue", average_value=100))

    assert 2 == asked(metric, shops(1), using(100, 300)).replicas


def test_an_external_average_is_spread_over_the_replicas_of_the_status():
    """8600 / (2222 * 3) = 1.29; ceil(8600 / 2222) = ceil(3.87) = 4; it shows 8600 / 3 = 2867."""
    metric = ExternalMetric("queue", MetricTarget("AverageValue", average_value=2222))

    measured = measure(metric, ScalarReading(8600, 0), 3, 3, BAND, 0)

    assert (4, 2867) == (measured.replicas, measured.average_value)


def test_an_external_average_within_the_tolerance_keeps_the_replicas_of_the_status():
    """8600 / (2222 * 4) = 0.97: as many as the status counts, 4, whatever the spec says."""
    metric = ExternalMetric("queue", MetricTarget("AverageValue", average_value=2222))

    assert 4 == measure(metric, ScalarReading(8600, 0), 9, 4, BAND, 0).replicas


def test_an_average_within_the_tolerance_is_not_rounded_up():
    """10.5 over 10 is 1.05."""
    assert 1 == measure(queue(10), ScalarReading(10_500, 0), 9, 1, BAND, 0).replicas


def test_an_average_is_shown_as_a_whole_where_it_is_beyond_all_numbers():
    """Upstream's sum ends at 2^63 - 1, and is then not divided by the replicas; below, 2^61 / 2 is 2^60."""
    beyond, below = (measure(queue(1), ScalarReading(load, 0), 2, 2, BAND, 0) for load in (2**63 - 1, 2**61))

    assert (2**63 - 1, 2**60) == (beyond.average_value, below.average_value)


def test_an_average_of_no_pods_asks_for_what_the_load_needs():
    assert 3 == measure(queue(10), ScalarReading(25_000, 0), 0, 0, BAND, 0).replicas


def test_nothing_over_no_pods_asks_for_nothing():
    assert 0 == measure(queue(10), ScalarReading(0, 0), 0, 0, BAND, 0).replicas


# --- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [ExternalMetric("queue", VALUE), ObjectMetric("hits", VALUE, SHOP)])
def test_a_value_is_spread_over_the_running_and_ready_pods(metric):
    """25 over 10 = 2.5, times 3 ready pods = 7.5; from zero 2.5; with no pod ready nothing."""
    assert 8 == measure(metric, ScalarReading(25_000, 3), 4, 4, BAND, 0).replicas
    assert 3 == measure(metric, ScalarReading(25_000, 0), 0, 0, BAND, 0).replicas
    assert 0 == measure(metric, ScalarReading(25_000, 0), 4, 4, BAND, 0).replicas


def test_a_value_is_shown_as_it_is():
    """25 over 10 = 2.5, from zero 3; 10.5 over 10 is within the tolerance; 2.5 times 4 ready pods is 10."""
    metric = ObjectMetric("hits", VALUE, SHOP)

    assert MetricProposal("Deployment metric hits", 3, 25_000) == measure(
        metric, ScalarReading(25_000, 0), 0, 0, BAND, 0
    )
    assert MetricProposal("Deployment metric hits", 1, 10_500) == measure(
        metric, ScalarReading(10_500, 1), 1, 1, BAND, 0
    )
    assert MetricProposal("Deployment metric hits", 10, 25_000) == measure(
        metric, ScalarReading(25_000, 4), 1, 1, BAND, 0
    )


def test_the_type_decides_for_an_object_and_the_average_for_an_external_metric():
    """25 over 10 = 2.5, times 4 ready pods = 10; 25 over 5 = 5."""
    both = MetricTarget("Value", value=10_000, average_value=5000)

    assert 10 == measure(ObjectMetric("hits", both, SHOP), ScalarReading(25_000, 4), 1, 1, BAND, 0).replicas
    assert 5 == measure(ExternalMetric("hits", both), ScalarReading(25_000, 4), 1, 1, BAND, 0).replicas
    assert (
        5
        == measure(
            ObjectMetric("hits", replace(both, type="AverageValue"), SHOP), ScalarReading(25_000, 4), 1, 1, BAND, 0
        ).replicas
    )


def test_an_object_whose_type_names_a_target_that_is_not_stated_asks_for_nothing():
    """An AverageValue without one must not be read as a Value over no ready pods, which would ask for 0."""
    average = ObjectMetric("hits", MetricTarget("AverageValue", value=10_000), SHOP)

    measured = measure(average, ScalarReading(25_000, 0), 4, 4, BAND, 0)

    assert isinstance(measured, Absent)
    assert "neither a value target nor an average value target was set" in measured.message


def test_what_could_not_be_fetched_is_absent_with_its_reason():
    gone = Absent("FailedGetExternalMetric", "gone")

    assert gone is measure(queue(10), gone, 4, 4, BAND, 0)


def test_a_value_needs_its_pods_only_outside_the_tolerance():
    nobody = Absent("FailedGetExternalMetric", "no pods")

    assert 4 == measure(ExternalMetric("queue", VALUE), ScalarReading(10_500, nobody), 4, 4, BAND, 0).replicas
    assert nobody == measure(ExternalMetric("queue", VALUE), ScalarReading(25_000, nobody), 4, 4, BAND, 0)


def test_a_count_beyond_all_counts_is_the_largest_there_is():
    assert 2**31 - 1 == measure(queue(1), ScalarReading(2**63 * 1000, 0), 3, 3, BAND, 0).replicas


# --- tolerance ---------------------------------------------------------------------------------------------------


def test_the_edges_of_the_tolerance_are_inside():
    """110 / 100 is 1.1 and 1.0 + 0.1 is 1.1 in floats, too; 90 / 100 = 0.9 = 1.0 - 0.1, times 10 would be 9."""
    assert 1 == asked(cpu(100), shops(1), using(1100)).replicas
    assert 10 == asked(cpu(100), shops(10), using(*[900] * 10)).replicas
    assert 9 == asked(cpu(100), shops(10), using(*[899] * 10)).replicas


def test_each_direction_may_have_its_own_tolerance():
    both = Behavior(rules(("Pods", 1, 1), tolerance=0.5), rules(("Pods", 1, 1), tolerance=0.0))
    up_only = Behavior(rules(("Pods", 1, 1), tolerance=0.0), rules(("Pods", 1, 1)))

    assert Tolerance(0.0, 0.5) == tolerance(both, ControllerOptions())
    assert Tolerance(0.1, 0.0) == tolerance(up_only, ControllerOptions())
    assert Tolerance(0.1, 0.1) == tolerance(None, ControllerOptions())


# --- headroom ----------------------------------------------------------------------------------------------------


def test_headroom_is_added_to_the_usage_and_not_shown():
    """50 % shown; with half as much again 75 % over 50 % = 1.5, ceil(1.5 * 2) = 3."""
    measured = asked(cpu(50), shops(2), using(500, 500), headroom=50)

    assert (3, 50) == (measured.replicas, measured.average_utilization)


def test_headroom_is_exact_to_the_percent():
    """100 pods at 100 % and 20 % more: 120. Average and value: 120 of 1 each, and 120 of 1 over one ready pod."""
    hundred = shops(100)
    plain = PodsMetric("requests", MetricTarget("AverageValue", average_value=1000))
    value = ExternalMetric("queue", MetricTarget("Value", value=1000))

    assert 120 == asked(cpu(100), hundred, using(*[1000] * 100), headroom=20).replicas
    assert 120 == asked(plain, hundred, using(*[1000] * 100), headroom=20).replicas
    assert 120 == measure(queue(1), ScalarReading(100_000, 0), 1, 1, BAND, 20).replicas
    assert 120 == measure(value, ScalarReading(100_000, 1), 1, 1, BAND, 20).replicas


def test_headroom_moves_a_load_out_of_the_tolerance():
    """1.0 is within; 1.2 is not: ceil(12 / 10) = 2."""
    assert 1 == measure(queue(10), ScalarReading(10_000, 0), 1, 1, BAND, 0).replicas
    assert 2 == measure(queue(10), ScalarReading(10_000, 0), 1, 1, BAND, 20).replicas


# --- names -------------------------------------------------------------------------------------------------------

SELECTOR = LabelSelector(
    (("app", "shop"), ("tier", "web")),
    (LabelRequirement("zone", "In", ("a", "b")), LabelRequirement("canary", "DoesNotExist")),
)
AVERAGE = MetricTarget("AverageValue", average_value=1000)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (cpu(50), "cpu resource utilization (percentage of request)"),
        (replace(cpu(50), container="app"), "cpu container resource utilization (percentage of request)"),
        (ResourceMetric("cpu", AVERAGE), "cpu resource"),
        (ResourceMetric("cpu", AVERAGE, "app"), "cpu resource"),
        (PodsMetric("requests", AVERAGE), "pods metric requests"),
    ],
    ids=lambda case: case.replace(" ", "-") if isinstance(case, str) else "",
)
def test_a_metric_over_pods_is_named_as_the_upstreams_messages_name_it(metric, name):
    assert name == asked(metric, shops(1), using(1000)).name


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (ObjectMetric("hits", VALUE, SHOP), "Deployment metric hits"),
        (ObjectMetric("hits", AVERAGE, SHOP), "external metric hits(nil)"),  # an accident of the upstream
        (ExternalMetric("queue", VALUE), "external metric queue(nil)"),
        (
            ExternalMetric("queue", AVERAGE, SELECTOR),
            (
                "external metric queue(&LabelSelector{MatchLabels:map[string]string{app: shop,tier: web,},"
                "MatchExpressions:[]LabelSelectorRequirement{"
                "LabelSelectorRequirement{Key:zone,Operator:In,Values:[a b],},"
                "LabelSelectorRequirement{Key:canary,Operator:DoesNotExist,Values:[],},},})"
            ),
        ),
    ],
    ids=["value-of-object", "average-of-object", "external", "external-with-selector"],
)
def test_a_metric_of_one_value_is_named_as_the_upstreams_messages_name_it(metric, name):
    assert name == measure(metric, ScalarReading(1000, 1), 1, 1, BAND, 0).name


# --- requests ----------------------------------------------------------------------------------------------------


def made_of(*containers, **fields):
    return replace(pod("shop"), containers=containers, **fields)


def test_a_pods_request_is_the_sum_of_its_containers_and_sidecars():
    """100 + 20 + 3; an init container that ends counts for nothing."""
    shop = made_of(
        Container("app", {"cpu": 100}),
        Container("web", {"cpu": 20}),
        Container("proxy", {"cpu": 3}, is_init=True, restartable=True),
        Container("migrate", {"cpu": 5000}, is_init=True),
    )

    assert 123 == pod_request(shop, "cpu", None)
    assert 20 == pod_request(shop, "cpu", "web")
    assert "container db not found in Pod shop" == pod_request(shop, "cpu", "db")
    assert "missing request for memory in container app of Pod shop" == pod_request(shop, "memory", None)


def test_a_request_of_the_pod_as_a_whole_replaces_the_sum():
    """500 + 10 of overhead; memory is not stated for the pod: max(64 + 8, 8 + 100) + 1."""
    shop = made_of(
        Container("app", {"cpu": 100, "memory": 64}),
        Container("proxy", {"memory": 8}, is_init=True, restartable=True),
        Container("migrate", {"memory": 100}, is_init=True),
        pod_requests={"cpu": 500},
        overhead={"cpu": 10, "memory": 1},
    )

    assert 510 == pod_request(shop, "cpu", None)
    assert 109 == pod_request(shop, "memory", None)
    assert 100 == pod_request(shop, "cpu", "app")


# --- for any pods ------------------------------------------------------------------------------------------------


@given(groups_of_pods(), st.permutations(range(8)), st.integers(1, 200))
def test_the_order_of_pods_does_not_matter(seen, order, percent):
    pods, samples = seen
    shuffled = [pods[index] for index in order if index < len(pods)]

    assert asked(cpu(percent), pods, samples) == asked(cpu(percent), shuffled, samples)


@given(groups_of_pods(), st.integers(1, 200), st.integers(0, 4000))
def test_more_load_never_asks_for_fewer_pods(seen, percent, more):
    """With as many replicas as ready pods; upstream's count of ready pods alone may fall below the current one."""
    samples = {name: sample(pod_sample.value) for name, pod_sample in seen[1].items()}
    pods = [pod(name) for name in samples]
    busy = {name: sample(pod_sample.value + more) for name, pod_sample in samples.items()}

    before, after = asked(cpu(percent), pods, samples), asked(cpu(percent), pods, busy)

    assert isinstance(before, Absent) or before.replicas <= after.replicas


@given(groups_of_pods(), st.integers(1, 200), st.integers(0, 20))
def test_a_pod_that_falls_silent_never_lowers_a_scale_down_further(seen, percent, current):
    """Silence counts as full load on the way down: what is asked for is never less than with the pod idle."""
    samples = {name: sample(pod_sample.value) for name, pod_sample in seen[1].items()}
    pods = [pod(listed_pod.name) for listed_pod in seen[0]]
    first = next(iter(samples), "")
    silent = {name: pod_sample for name, pod_sample in samples.items() if name != first}

    idle = asked(cpu(percent), pods, {**samples, first: sample(0)}, current)
    quiet = asked(cpu(percent), pods, silent, current)

    assert isinstance(quiet, Absent) or min(quiet.replicas, current) >= min(idle.replicas, current)
