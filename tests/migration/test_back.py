"""cronhpa.migration.back: a CronHPA as an HPA, and what an HPA has no field for."""

import pytest

from cronhpa.migration.back import to_hpa
from cronhpa.migration.documents.document import FieldReader, Unconvertible

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
SPEC = {"scaleTargetRef": TARGET, "minReplicas": 2, "maxReplicas": 9, "metrics": [CPU]}


def back(**spec):
    """(the HPA, the remarks)."""
    notes = []
    body = {"metadata": {"name": "shop", "namespace": "prod", "uid": "1"}, "spec": SPEC | spec, "status": {}}
    return to_hpa(FieldReader(body, "CronHPA/shop", notes)), notes


def test_the_five_fields_that_both_have_are_carried_over():
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}

    hpa, notes = back(behavior=behavior, mode="Active", timeZone="UTC")

    assert {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "shop", "namespace": "prod"},
        "spec": SPEC | {"behavior": behavior},
    } == hpa
    assert [] == notes


def test_what_an_hpa_cannot_say_is_named_with_its_path():
    _, notes = back(schedules=[{"name": "day"}, {"name": "night"}], forecast={}, mode="DryRun", metricMaxAgeSeconds=60)

    assert {
        "CronHPA/shop.spec.mode": "found DryRun",
        "CronHPA/shop.spec.schedules": "found day, night",
        "CronHPA/shop.spec.forecast": "found settings",
        "CronHPA/shop.spec.metricMaxAgeSeconds": "found 60",
    } == {path: finding for path, finding, _ in notes}


def test_without_a_metric_there_is_no_honest_hpa():
    """The upstream would fill in 80 % of CPU."""
    with pytest.raises(Unconvertible, match=r"CronHPA/shop\.spec\.metrics: there is none"):
        back(metrics=[])
