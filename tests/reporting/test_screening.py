"""cronhpa.reporting.screening: floors in a quick estimate, by the rule of a decision."""

import numpy as np
import pytest

from cronhpa.core.behavior import Limits
from cronhpa.forecasting.workload import WorkloadModel
from cronhpa.reporting.screening import Setting, estimate

MODEL = WorkloadModel(
    target=0.5,
    carried=1.0,
    capacity=1.0,
    start_up_seconds=0,
    budget_percent=0.0,
    tolerance=0.1,
    delay_seconds=0,
    is_cpu=False,
)


@pytest.mark.parametrize(("load", "floor"), [(0.0, 5), (4.0, 5), (4.0, 8), (4.0, 12), (4.0, 30)])
def test_a_floor_meets_the_count_of_the_metric_as_in_a_decision(load, floor):
    """An hour of a load of 4, of which a pod is meant to carry 0.5: 8 pods; of a load of 0 the minimum of 1."""
    estimated = estimate(np.full(60, load), Setting(MODEL, 1, 20, 5), np.full(60, floor))

    metric = max(round(load / 0.5), 1)
    clamped, _ = Limits(1, 20, floor=floor, cap=20).clamp(metric)
    assert clamped == estimated.pod_hours
    assert 0 == estimated.minutes
