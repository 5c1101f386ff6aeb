"""An object learns by itself: from an imported past to pods that are ready before the load comes."""

import re
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, format_instant, from_datetime
from testbed.loads import K8S_APP11, Trace
from testbed.twin import Scaled

_STEP = 5 * MINUTE
# k8s_app11 rises each day from 06:03 to 06:05 from about 1.5 to 8 to 13 cores; here that is about to happen.
RECORDED_RISE = from_datetime(datetime(2021, 10, 22, 6, 3, tzinfo=UTC))


@pytest.mark.long
def test_an_imported_past_makes_pods_ready_before_the_rise(control_plane, namespace, plant, operator, record_property):
    """
    Pods take 20 s to become Ready, carry 1 core each, and half of it is their target. The load is played as it was
    recorded; nothing behind now is known to the operator.
    """
    shop = Scaled(control_plane, namespace, replicas=4, maxReplicas=60, forecast={}, start_up_time="20s")
    rise = time.time_ns() + 150 * SECOND
    if rise % _STEP > 2 * MINUTE:  # as recorded, it begins early within a step
        rise = rise - rise % _STEP + _STEP + 30 * SECOND
    trace = Trace.read(K8S_APP11).shifted(rise - RECORDED_RISE)
    plant.add_target(shop.namespace, shop.labels, trace)

    shop.says("ForecastActive", "False", "Learning", within_s=30)
    import_history(control_plane, operator, shop, trace.rows(before=time.time_ns()))
    told = shop.says("ForecastActive", "True", "BeatsReactive", within_s=(rise - time.time_ns()) / SECOND)
    time.sleep((rise - time.time_ns()) / SECOND)
    ready, night, risen = shop.ready, trace.at(rise), trace.at(rise + 2 * MINUTE)
    record_property(
        "told", f"{ready} pods ready at a load of {night:.1f} cores, two minutes before {risen:.1f}: {told}"
    )

    tried = re.match(
        r"(\d+) of (\d+) under-provisioned minutes avoided at \+?(-?\d+\.\d) % pod-hours over (\d) days?", told
    )
    avoided, of, extra, days = (float(number) for number in tried.groups())
    assert 0 < avoided <= of
    # By the decisions themselves, on as many of the newest days as it takes to see that it pays.
    assert extra <= 2 * 5
    assert 1 <= days <= 7
    # By its target alone it would have one pod for each half core of the night.
    assert ready >= 2 * (night / 0.5)
    assert ready >= risen


# A fit of ExponentialSmoothing takes most of the 30 s that a method has where other tests run beside it.
@pytest.mark.long
def test_an_object_is_forecast_by_the_method_that_it_names(control_plane, namespace, plant, operator, record_property):
    """Three times a day an hour of ten cores, else one; one that is not installed is named beside the forecast."""
    methods = ["ExponentialSmoothing", "Nobody"]
    shop = Scaled(control_plane, namespace, replicas=4, maxReplicas=60, forecast={"methods": methods})
    now = time.time_ns()
    now -= now % _STEP
    plant.add_target(shop.namespace, shop.labels, 1.0)

    shop.says("ForecastActive", "False", "Learning", within_s=30)
    past = range(now - 9 * DAY, now, _STEP)
    import_history(
        control_plane, operator, shop, [(at, 10.0 if (at - now) % DAY // HOUR in {1, 7, 13} else 1.0) for at in past]
    )
    told = shop.says("ForecastActive", "True", "BeatsReactive", within_s=120)
    record_property("told", told)

    assert "ExponentialSmoothing" == shop.status["forecast"]["model"]
    assert "not used: Nobody (no method has this name: " in told


def import_history(control_plane, operator, shop, rows):
    file = operator.store.parent / f"{shop.namespace}.csv"
    file.write_text("\n".join(["timestamp,value", *(f"{format_instant(at)},{value}" for at, value in rows)]))
    target = f"{shop.namespace}/{shop.name}"
    command = [sys.executable, "-m", "cronhpa.cli", "history", "import", target, str(file), "--store", operator.store]
    where = ["--kubeconfig", control_plane.admin_kubeconfig]
    subprocess.run([*command, *where], check=True, capture_output=True)
