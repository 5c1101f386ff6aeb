"""cronhpa.api.spec_errors: pydantic's errors become sentences that name the intended value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cronhpa.api.schema import CronHPASpec
from cronhpa.api.spec_errors import schema_problems
from cronhpa.core.model.nearest import nearest

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
FIELDS = ["minReplicas", "maxReplicas", "scaleTargetRef", "schedules", "metrics", "leadTimeSeconds", "from"]


def problems_of(**fields):
    text = {"scaleTargetRef": TARGET, "maxReplicas": 9, **fields}
    written = {key: value for key, value in text.items() if value is not None}
    try:
        CronHPASpec.model_validate(written, extra="forbid", strict=True)
    except ValidationError as error:
        return dict(schema_problems(error))
    return {}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("maxReplica", "maxReplicas"),
        ("maxreplicas", "maxReplicas"),
        ("max_replicas", "maxReplicas"),
        ("max-replicas", "maxReplicas"),
        ("maxRelpicas", "maxReplicas"),
        ("min", "minReplicas"),
        ("leadTime", "leadTimeSeconds"),
        ("schedule", "schedules"),
        ("form", "from"),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_name_that_was_probably_meant_is_found(written, meant):
    assert meant == nearest(written, FIELDS)


@given(st.sampled_from(FIELDS), st.data())
def test_a_letter_too_many_or_too_few_changes_nothing(name, data):
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("aeisx"))

    shorter, longer = name[:at] + name[at + 1 :], name[:at] + letter + name[at:]

    # minReplicas and maxReplicas differ by two letters: with one letter more between them either may be meant.
    alike = {"minReplicas", "maxReplicas"} if name in {"minReplicas", "maxReplicas"} else {name}
    assert {nearest(shorter, FIELDS), nearest(longer, FIELDS)} <= alike


@given(st.text(max_size=2000))
def test_any_text_is_compared_without_an_error(text):
    assert nearest(text, FIELDS) in {None, *FIELDS}


def test_an_unknown_field_is_told_with_the_one_that_was_meant_or_with_those_that_are_accepted():
    refused = problems_of(maxReplica=3, forecast={"zzz": 1})

    assert "there is no such field: did you mean maxReplicas?" == refused["spec.maxReplica"]
    assert refused["spec.forecast.zzz"].endswith(
        ": mode, budgetPercent, podCapacityPercent, maxFloorReplicas, ignoreHistory and methods are accepted"
    )


def test_a_field_that_is_there_by_another_name_is_not_told_missing():
    assert ["spec.maxReplica"] == list(problems_of(maxReplicas=None, maxReplica=3))
    assert {"spec.maxReplicas": "it is needed and not there"} == problems_of(maxReplicas=None)


@pytest.mark.parametrize(
    ("fields", "path", "told"),
    [
        ({"minReplicas": "2"}, "spec.minReplicas", "found '2': a whole number belongs here"),
        ({"minReplicas": 2.5}, "spec.minReplicas", "found 2.5: a whole number belongs here"),
        ({"minReplicas": -1}, "spec.minReplicas", "found -1: 0 or more is accepted"),
        ({"mode": "Prewiew"}, "spec.mode", "found 'Prewiew': did you mean Preview? Active or Preview is accepted"),
        ({"mode": 7}, "spec.mode", "found 7: Active or Preview is accepted"),
        ({"timeZone": 1}, "spec.timeZone", "found 1: a string is needed, in quotes where it looks like a number"),
        ({"schedules": {}}, "spec.schedules", "a list belongs here"),
        ({"forecast": 5}, "spec.forecast", "found 5: a mapping belongs here"),
        ({"forecast": {"methods": []}}, "spec.forecast.methods", "1 or more items belong here"),
    ],
)
def test_a_wrong_type_or_bound_is_told_in_our_words(fields, path, told):
    assert {path: told} == problems_of(**fields)


def test_a_quantity_of_a_wrong_type_is_told_once_and_not_for_each_branch_of_its_union():
    target = {"type": "AverageValue", "averageValue": 1.5}
    refused = problems_of(metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": target}}])

    assert {
        "spec.metrics[0].resource.target.averageValue": (
            'found 1.5: a quantity is a whole number, or a text such as "250m", "1.5" or "512Mi"'
        )
    } == refused


def test_a_long_name_and_a_long_value_are_told_shortened():
    refused = problems_of(**{"x" * 5000: 1}, mode="y" * 5000)

    assert all(len(path) < 100 for path in refused)
    assert all(len(told) < 400 for told in refused.values())
