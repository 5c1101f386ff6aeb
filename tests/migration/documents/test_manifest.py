"""
cronhpa.migration.documents.manifest: fields in their order, foreign metadata left out, names unique, refusals foreseen.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.migration.documents.document import FieldReader
from cronhpa.migration.documents.manifest import (
    DEFAULT_METRICS,
    cron_hpa,
    has_load,
    largest_first,
    metadata_of,
    problems,
    unique_names,
)

SPEC = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
    "minReplicas": 2,
    "maxReplicas": 9,
    "metrics": DEFAULT_METRICS,
}
QUOTED = {"type": "Utilization", "averageUtilization": "70"}
TARGET = "spec.metrics[0].resource.target"
NOON = "2027-01-01T12:00"
DAY = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 3}


def test_fields_are_in_the_order_of_the_documentation_and_absent_ones_are_left_out():
    made = cron_hpa({"name": "shop"}, {"forecast": None, "maxReplicas": 3, "mode": "DryRun", "minReplicas": 1})

    assert ["minReplicas", "maxReplicas", "mode"] == list(made["spec"])
    assert ["apiVersion", "kind", "metadata", "spec"] == list(made)


def test_what_other_tools_keep_on_an_object_stays_there():
    notes = []
    body = {
        "metadata": {
            "name": "shop",
            "namespace": "prod",
            "uid": "1",
            "labels": {"app": "shop", "argocd.argoproj.io/tracking-id": "x"},
            "annotations": {"meta.helm.sh/release-name": "shop"},
            "ownerReferences": [{"kind": "ScaledObject", "name": "shop"}],
        }
    }
    document = FieldReader(body, "HPA/shop", notes)

    assert {"name": "shop", "namespace": "prod", "labels": {"app": "shop"}} == metadata_of(document)
    assert [("HPA/shop.metadata.ownerReferences", "ScaledObject shop owns this object")] == [note[:2] for note in notes]
    assert [] == list(document.unread())


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"minReplicas": 10}, "spec.maxReplicas"),
        ({"metrics": []}, "spec.metrics"),
        ({"timeZone": "Berlin"}, "spec.timeZone"),
        ({"timeZone": "Local"}, "spec.timeZone"),
        ({"schedules": [{**DAY, "start": "0 25 * * *"}]}, "spec.schedules[0].start"),
        # Found: rules of the CRD that had no copy here, so that `convert` printed what the API server refused.
        ({"minReplicas": 0}, "spec.metrics"),
        ({"schedules": [{"name": "x", "from": NOON, "to": NOON, "minReplicas": 3}]}, "spec.schedules[0].to"),
        ({"odd": 1}, "spec.odd"),
        # Found: 70 in quotes was taken for a number, and printed in quotes.
        (
            {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": QUOTED}}]},
            f"{TARGET}.averageUtilization",
        ),
    ],
)
def test_what_the_api_server_would_refuse_is_named_by_its_path(change, path):
    assert [] == list(problems(SPEC))
    assert [path] == list(dict(problems(SPEC | change)))


@given(st.lists(st.text("ab-", min_size=1, max_size=3) | st.just("x" * 63) | st.just("x" * 70)))
def test_names_differ_and_fit_whatever_they_were(names):
    made = [schedule["name"] for schedule in unique_names([{"name": name} for name in names])]

    assert len(names) == len(set(made))
    assert all(len(name) <= 63 for name in made)


def test_the_first_of_a_name_keeps_it():
    assert ["a", "a-2", "a-3", "b"] == [
        schedule["name"] for schedule in unique_names([{"name": name} for name in "aaab"])
    ]


@pytest.mark.parametrize(
    ("target", "expected"), [("averageValue", True), ("averageUtilization", True), ("value", False)]
)
def test_a_forecast_needs_a_target_per_pod(target, expected):
    assert expected is has_load([{"type": "External", "external": {"metric": {"name": "x"}, "target": {target: 1}}}])


ONCE = {"name": "eve", "from": "2026-12-24T09:00", "to": "2026-12-24T21:00", "minReplicas": 2}


def test_a_one_time_schedule_outranks_no_recurring_one_of_a_larger_floor():
    """Found: of equal priority a one-time one wins, and 2 replaced 3."""
    assert [1, 0] == [schedule["priority"] for schedule in largest_first([DAY, ONCE])]


@pytest.mark.parametrize("alike", [DAY, ONCE])
def test_schedules_of_one_kind_need_no_priority(alike):
    """Of these the largest minReplicas holds anyway."""
    schedules = [alike, alike | {"minReplicas": 9}]

    assert schedules == largest_first(schedules)
