"""One CronHPA on a real control plane: metrics, schedules, a forecast, and what goes wrong around them."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from cronhpa.core.model.instant import MINUTE, SECOND, from_datetime, to_datetime
from cronhpa.history.database.series import Series
from cronhpa.history.imports.files import import_csv
from cronhpa.history.store import Store
from testbed.control_plane import RELEASE
from testbed.loads import K8S_APP11, Trace
from testbed.objects import horizontal_pod_autoscaler
from testbed.operator import NAMESPACE
from testbed.plant import Fault
from testbed.twin import Scaled, cron_hpa
from testbed.wait import wait_until

pytestmark = pytest.mark.usefixtures("operator")


_STEP = 5 * MINUTE


def wall(moment):
    return moment.strftime("%Y-%m-%dT%H:%M")


@pytest.fixture
def web(control_plane, namespace):
    def make(**settings):
        return Scaled(control_plane, namespace, **settings)

    return make


def test_it_follows_the_load_up_and_down(web, plant):
    """Target 50 % of 1 core: 3 cores need 6 pods, 1 core needs 2."""
    shop = web(replicas=2)
    load = plant.add_target(shop.namespace, shop.labels, 3.0)

    shop.reaches(6)
    plant.set_load(load, 1.0)
    shop.reaches(2, within_s=40)

    assert "Metric/cpu" == shop.decided_by
    assert "ValidMetricFound" == shop.condition("ScalingActive")["reason"]
    assert any(event.startswith("SuccessfulRescale: New size: 6; reason: cpu resource") for event in shop.events())


@pytest.mark.long
def test_a_window_opens_and_another_closes(web, plant):
    """At the next full minute the floor of 5 goes and the floor of 3 comes; 0.1 cores alone need one pod."""
    edge = (datetime.now(UTC) + timedelta(seconds=70)).replace(second=0, microsecond=0)
    before, after = edge - timedelta(minutes=30), edge + timedelta(minutes=30)
    shop = web(
        timeZone="UTC",
        schedules=[
            {"name": "closing", "from": wall(before), "to": wall(edge), "minReplicas": 5},
            {"name": "opening", "start": f"{edge.minute} {edge.hour} * * *", "durationMinutes": 30, "minReplicas": 3},
        ],
    )
    plant.add_target(shop.namespace, shop.labels, 0.1)

    shop.reaches(5)
    assert "Schedule/closing" == wait_until(lambda: shop.decided_by)
    assert datetime.now(UTC) < edge, "the floor must be seen before the edge"
    shop.reaches(3, within_s=90)

    scaled = wait_until(lambda: shop.last_scaled, lambda at: at >= from_datetime(edge))
    lateness = scaled - from_datetime(edge)
    # The next reconciliation after the edge (1 s), and the 3 s for which the floor of 5 is remembered.
    assert 0 <= lateness <= 6 * SECOND
    assert "Schedule/opening" == wait_until(lambda: shop.decided_by, lambda by: by == "Schedule/opening")
    assert wall(after) in wait_until(lambda: shop.status["nextEdge"]["time"], lambda text: wall(after) in text)


@pytest.mark.long
def test_a_floor_comes_from_a_forecast_before_the_load_does(web, plant, operator):
    """
    k8s_app11 rises each day from 06:03 to 06:05 from about 1.5 to 8 to 13 cores. Here that is about to happen, the load
    is still that of the night, and nothing behind now is known.
    """
    shop = web(replicas=4, maxReplicas=60, forecast={})
    now = time.time_ns()
    rise = now + 40 * SECOND
    if rise % _STEP > 2 * MINUTE:  # the step in which it begins would end before it is high
        rise = rise - rise % _STEP + _STEP + 30 * SECOND
    recorded = from_datetime(datetime(2021, 10, 22, 6, 3, tzinfo=UTC))
    trace = Trace.read(K8S_APP11).shifted(rise - recorded)
    file = operator.store.parent / f"{shop.namespace}.csv"
    rows = [f"{to_datetime(at).isoformat()},{value}" for at, value in trace.rows(before=now)]
    file.write_text("\n".join(["timestamp,value", *rows]))
    plant.add_target(shop.namespace, shop.labels, 1.2)

    store = Store(operator.store)
    import_csv(store.loads.backfill, Series(shop.namespace, shop.name, "cpu"), file, now=now)
    store.close()

    shop.says("ForecastActive", "True", "BeatsReactive", within_s=100)
    # The least of the last days' peaks, 8.3 cores, over 0.9 cores a pod is 10 pods; the load of now needs 3.
    wait_until(lambda: shop.replicas, lambda seen: seen >= 10, within_s=(rise - time.time_ns()) / SECOND)
    assert "Forecast/cpu" == wait_until(lambda: shop.decided_by, lambda by: by == "Forecast/cpu")
    assert any("reason: Forecast/cpu asks for at least" in event for event in wait_until(shop.events))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        pytest.param(Fault.SERVER_ERROR, "unable to fetch metrics from resource metrics API", marks=pytest.mark.long),
        (Fault.EMPTY, "no metrics returned from resource metrics API"),
        (Fault.NAN, "did not receive metrics for targeted pods"),
        (Fault.INFINITE, "did not receive metrics for targeted pods"),
        pytest.param(Fault.NEGATIVE, "did not receive metrics for targeted pods", marks=pytest.mark.long),
        pytest.param(Fault.GARBAGE, "did not receive metrics for targeted pods", marks=pytest.mark.long),
        (Fault.MALFORMED, "cannot be read"),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_an_answer_that_says_nothing_changes_nothing(web, plant, fault, words):
    """4 cores' worth of pods, and then the metrics API loses its wits: no evidence, no scale-down."""
    shop = web(replicas=8)
    plant.add_target(shop.namespace, shop.labels, 4.0)
    shop.says("ScalingActive", "True", "ValidMetricFound")

    with plant.failing(fault):
        message = shop.says("ScalingActive", "False", "FailedGetResourceMetric")
        time.sleep(4)  # longer than the stabilization

        assert words in message
        assert 8 == shop.replicas


@pytest.mark.slow
def test_replicas_hold_while_the_metrics_api_is_gone_and_move_when_it_is_back(web, plant):
    shop = web(replicas=8)
    load = plant.add_target(shop.namespace, shop.labels, 4.0)
    shop.says("ScalingActive", "True", "ValidMetricFound")

    plant.stop_serving()
    shop.says("ScalingActive", "False", "FailedGetResourceMetric", within_s=30)
    plant.set_load(load, 1.0)
    time.sleep(5)
    held = shop.replicas
    plant.start_serving()

    assert 8 == held
    shop.reaches(2, within_s=60)


@pytest.mark.long
def test_samples_older_than_allowed_count_as_none(web, plant):
    """The samples stop at a load that the pods carry well; what is used really falls to nothing meanwhile."""
    shop = web(replicas=4, metricMaxAgeSeconds=5)
    load = plant.add_target(shop.namespace, shop.labels, 2.0)
    shop.says("ScalingActive", "True", "ValidMetricFound")
    time.sleep(5)
    held = shop.replicas

    with plant.failing(Fault.FROZEN):
        plant.set_load(load, 0.1)
        message = shop.says("ScalingActive", "False", "FailedGetResourceMetric", within_s=30)
        time.sleep(4)

        assert "did not receive metrics" in message
        assert held == shop.replicas


@pytest.mark.slow
def test_a_kill_in_a_stabilization_window_changes_nothing_about_the_scale_down(web, plant, operator):
    """Two twins under one load that drops: the operator is killed in between, and both go down when the window ends."""
    window = 20
    behavior = {"scaleDown": {"stabilizationWindowSeconds": window}}
    shop = web(replicas=6, behavior=behavior)
    load = plant.add_target(shop.namespace, shop.labels, 3.0)
    shop.says("AbleToScale", "True", "ReadyForNewScale")
    time.sleep(3)

    plant.set_load(load, 1.0)
    shop.says("AbleToScale", "True", "ScaleDownStabilized")
    # The count that keeps it up is remembered in the status, with the instant at which it was recommended last.
    kept = [
        recommendation for recommendation in shop.status["memory"]["recommendations"] if recommendation["replicas"] == 6
    ]
    last = max(datetime.fromisoformat(recommendation["time"]) for recommendation in kept)
    time.sleep(window / 2)
    operator.kill()
    time.sleep(2)
    operator.start()
    back = time.time_ns()
    shop.reaches(2, within_s=40)

    scaled = wait_until(lambda: shop.last_scaled, lambda at: at >= from_datetime(last) + SECOND)
    end = from_datetime(last) + window * SECOND
    # It goes down at the first reconciliation, one a second, at which the 6 is older than the window. The last scaling
    # is told in whole seconds. A window that began anew after the kill would end 20 s after the start.
    assert end - SECOND <= scaled <= max(end, back) + 8 * SECOND


def test_a_usage_beyond_all_counts_asks_for_the_most_that_is_allowed(web, plant):
    """A thousand million million cores, of which no count of pods carries half: maxReplicas decides."""
    shop = web(
        replicas=2,
        behavior={"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}},
    )
    plant.add_target(shop.namespace, shop.labels, 1e15)

    shop.reaches(20)
    assert "Spec" == wait_until(lambda: shop.decided_by, lambda by: by == "Spec")
    shop.says("ScalingLimited", "True", "TooManyReplicas")


@pytest.mark.slow
def test_a_metrics_api_that_hangs_for_one_namespace_holds_it_and_delays_no_other(web, plant, control_plane):
    """The answers about one namespace never come; the other follows a step meanwhile, and the one does afterwards."""
    hanging = web(replicas=6)
    name = f"{hanging.namespace[:50]}-beside"
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    beside = Scaled(control_plane, name, replicas=2)
    load, other = (plant.add_target(shop.namespace, shop.labels, 1.0) for shop in (hanging, beside))
    plant.set_load(load, 3.0)
    for shop in (hanging, beside):
        shop.says("ScalingActive", "True", "ValidMetricFound")

    plant.set_fault(Fault.HANGING, namespace=hanging.namespace)
    try:
        plant.set_load(load, 1.0)
        plant.set_load(other, 3.0)
        beside.reaches(6)
        hanging.says("ScalingActive", "False", "FailedGetResourceMetric", within_s=60)
        held = hanging.replicas
    finally:
        plant.set_fault(None, namespace=hanging.namespace)
        control_plane.kubectl("delete", "namespace", name, "--wait=false")

    assert 6 == held
    hanging.reaches(2, within_s=60)


def test_office_hours_of_other_weekdays_are_closed_and_those_of_today_are_open(web):
    """In a zone in which it is about noon, so that no test runs over midnight. Cron counts Sunday as 0."""
    hours = 12 - datetime.now(UTC).hour
    zone = f"Etc/GMT{-hours:+d}"  # its sign is that of the way west
    today = (datetime.now(UTC) + timedelta(hours=hours)).isoweekday() % 7
    others = ",".join(str(day) for day in range(7) if day != today)
    shop = web(
        metrics=None,
        timeZone=zone,
        schedules=[
            {"name": "others", "start": f"0 0 * * {others}", "durationMinutes": 1440, "minReplicas": 5},
            {"name": "today", "start": f"0 0 * * {today}", "durationMinutes": 1440, "minReplicas": 3},
        ],
    )

    shop.reaches(3)
    assert "Schedule/today" == wait_until(lambda: shop.decided_by, lambda by: by == "Schedule/today")


@pytest.mark.slow
def test_noise_within_the_tolerance_scales_nothing_and_is_not_written(control_plane, web, plant):
    """2 pods at 50 % of 50 %; 1.04 cores are 52 %, and 52 / 50 is within a tolerance of 0.1."""
    shop = web(replicas=2)
    load = plant.add_target(shop.namespace, shop.labels, 1.0)
    shop.says("Ready", "True", "Deciding")
    shop.says("ScalingActive", "True", "ValidMetricFound")
    time.sleep(4)

    begun = time.time()
    for cores in (1.04, 0.97, 1.02):
        plant.set_load(load, cores)
        time.sleep(2)

    written = [one for one in control_plane.writes() if one.namespace == shop.namespace and one.began > begun]
    # Numbers that have drifted are written at one instant of each five minutes, which may be among these six seconds.
    assert [one.resource for one in written] in ([], ["cronhpas/status"])
    assert 2 == shop.replicas


@pytest.mark.slow
def test_an_edited_spec_is_obeyed_at_once(web, plant):
    shop = web(replicas=6, syncPeriodSeconds=60)
    plant.add_target(shop.namespace, shop.labels, 3.0)
    # The first period may come before the first sample; the next one comes 60 s later.
    shop.says("Ready", "True", "Deciding", within_s=150)

    shop.patch(maxReplicas=4)

    shop.reaches(4, within_s=15)
    assert "Spec" == wait_until(lambda: shop.decided_by, lambda by: by == "Spec")


def test_a_target_that_goes_and_comes_back_is_scaled_again(web, plant):
    shop = web(replicas=2)
    plant.add_target(shop.namespace, shop.labels, 1.0)
    shop.says("Ready", "True", "Deciding")

    shop.delete_target()
    message = shop.says("AbleToScale", "False", "FailedGetScale")
    shop.create_target()
    shop.says("Ready", "True", "Deciding")
    target = plant.targets[0]
    plant.set_load(target, 3.0)

    assert message.endswith('deployments.apps "web" not found')
    shop.reaches(6)


def test_a_deleted_object_leaves_its_target_alone(web, plant, control_plane):
    shop = web(replicas=2)
    load = plant.add_target(shop.namespace, shop.labels, 1.0)
    shop.says("Ready", "True", "Deciding")

    control_plane.kubectl("delete", "chpa", shop.name, "-n", shop.namespace, "--timeout=10s")
    plant.set_load(load, 3.0)
    time.sleep(4)

    assert 2 == shop.replicas


@pytest.mark.slow
def test_broken_objects_do_not_slow_the_good_ones(web, plant, control_plane, namespace):
    """A schedule that the API server takes and nobody can meet, a target that is not there, a kind that is not."""
    broken = [
        cron_hpa("unreadable", namespace, schedules=[never()]),
        cron_hpa("targetless", namespace),
        cron_hpa("kindless", namespace, scaleTargetRef={"apiVersion": "example.com/v1", "kind": "Rocket", "name": "x"}),
    ]
    shop = web(replicas=2)
    load = plant.add_target(namespace, shop.labels, 1.0)
    shop.says("Ready", "True", "Deciding")
    control_plane.apply(*broken)
    time.sleep(3)

    begun = time.monotonic()
    plant.set_load(load, 3.0)
    shop.reaches(6)

    # A window of 1 s and its delay, a reconciliation a second: 4 s, and a busy machine. A request waits 30 s in vain.
    assert time.monotonic() - begun < 20
    listed = control_plane.kubectl("get", "chpa", "-n", namespace, "-o", "json")
    told = {
        listed_object["metadata"]["name"]: next(
            c["reason"] for c in listed_object["status"]["conditions"] if c["type"] == "Ready"
        )
        for listed_object in json.loads(listed)["items"]
    }
    assert {"unreadable": "SpecUnreadable", "targetless": "TargetUnreachable", "kindless": "TargetUnreachable"} == {
        name: reason for name, reason in told.items() if name != "web"
    }


def never():
    """The API server's rules cannot know that no month has a 30 February."""
    return {"name": "leap", "start": "0 8 30 2 *", "durationMinutes": 60, "minReplicas": 3}


@pytest.mark.slow
def test_a_schedule_that_cannot_be_read_blocks_scale_down_only(web, plant):
    shop = web(replicas=6, schedules=[never()])
    load = plant.add_target(shop.namespace, shop.labels, 1.0)

    message = shop.says("SpecAccepted", "False", "Unreadable")
    time.sleep(6)
    held = shop.replicas
    plant.set_load(load, 4.0)

    assert "schedule leap: start: " in message
    assert "never comes" in message
    assert 6 == held
    # On the way there, 7 pods at 57 % of 50 %: 1.14 is beyond the tolerance. 9 pods of 10 would be within it, and stay.
    shop.reaches(8)


def test_a_foreign_autoscaler_on_the_target_makes_it_hold_and_say_so(web, plant, control_plane):
    shop = web(replicas=2)
    load = plant.add_target(shop.namespace, shop.labels, 1.0)
    shop.says("TargetOwned", "True", "OnlyOwner")

    # It would never move: any utilization below 10000 % is within its bounds of 2 to 2.
    control_plane.apply(horizontal_pod_autoscaler("web", namespace=shop.namespace, bounds=(2, 2)))
    message = shop.says("TargetOwned", "False", "OtherOwner")
    plant.set_load(load, 3.0)
    time.sleep(4)
    held = shop.replicas
    control_plane.kubectl("delete", "hpa", "web", "-n", shop.namespace)

    assert "HorizontalPodAutoscaler web scales Deployment/web too" in message
    assert 2 == held
    shop.says("TargetOwned", "True", "OnlyOwner")
    shop.reaches(6)


def test_a_preview_decides_and_reports_and_never_scales(web, plant):
    shop = web(replicas=2, mode="Preview")
    plant.add_target(shop.namespace, shop.labels, 3.0)

    wait_until(lambda: shop.status.get("desiredReplicas"), lambda seen: seen == 6)

    assert 2 == shop.replicas
    assert "Preview" == shop.condition("Ready")["reason"]


@pytest.mark.slow
def test_a_scheduled_zero_is_left_again_when_it_ends(web, plant):
    """Zero by an override, and then the metric alone: at zero no pod is measured, so the lower bound wakes it."""
    until = (datetime.now(UTC) + timedelta(seconds=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    shop = web(replicas=2, override={"replicas": 0, "until": until, "reason": "test"})
    plant.add_target(shop.namespace, shop.labels, 1.0)

    shop.reaches(0)
    shop.says("ScaledToZero", "True", "ScaledToZero")
    shop.reaches(1, within_s=60)

    shop.reaches(2, within_s=30)


def test_a_zero_by_hand_is_left_alone(web, plant):
    shop = web(replicas=2)
    plant.add_target(shop.namespace, shop.labels, 1.0)
    shop.says("Ready", "True", "Deciding")

    shop.scale_by_hand(0)
    shop.says("ScalingActive", "False", "ScalingDisabled")
    time.sleep(3)

    assert 0 == shop.replicas


def test_an_object_of_schedules_alone_keeps_to_its_bounds(web):
    now = datetime.now(UTC)
    span = {"from": wall(now - timedelta(minutes=5)), "to": wall(now + timedelta(minutes=30))}
    shop = web(replicas=1, metrics=None, schedules=[{"name": "now", **span, "replicas": 4}])

    shop.reaches(4)

    assert "Schedule/now" == wait_until(lambda: shop.decided_by)
    assert "ScheduledOnly" == shop.condition("ScalingActive")["reason"]


@pytest.mark.long
def test_nothing_is_written_while_nothing_changes(control_plane, web, plant, operator):
    shop = web(replicas=2)
    plant.add_target(shop.namespace, shop.labels, 1.0)
    shop.says("Ready", "True", "Deciding")
    time.sleep(4)

    path = f"/apis/cronhpa.io/v1alpha1/namespaces/{shop.namespace}/cronhpas/{shop.name}"
    before = control_plane.get(path)["metadata"]["resourceVersion"]
    time.sleep(8)

    assert before == control_plane.get(path)["metadata"]["resourceVersion"]


def test_the_chart_gives_it_every_right_it_uses_and_its_requests_are_few(control_plane, operator, web, plant):
    """It runs as the chart's ServiceAccount, here and in all tests of this file. A refusal would stand in its log."""
    shop = web(replicas=2)
    plant.add_target(shop.namespace, shop.labels, 3.0)
    shop.reaches(6)
    user = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"
    used = {"cronhpas", "cronhpas/status", "deployments", "deployments/scale", "pods", "events"}

    wait_until(
        lambda: {request.resource for request in control_plane.requests() if request.user == user},
        lambda asked: used <= asked,
    )
    assert "forbidden" not in operator.log.read_text().lower()


def test_metrics_and_health_are_served(operator):
    assert "ok" in operator.get("/healthz")
    metrics = operator.get("/metrics")
    assert "cronhpa_reconciliations_total" in metrics
    assert "process_cpu_seconds_total" in metrics
