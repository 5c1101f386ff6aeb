"""cronhpa.api.maxed: what runs at its maximum, as the condition, the column STATUS and the table of objects say it."""

from __future__ import annotations

import pytest

from cli.glance import NOW, OTHER, SITUATIONS, body, maxed, pods_of, scaled, stated
from cronhpa.api.explained.explanation_text import summary
from cronhpa.api.explained.object_rows import object_row, rows_of
from cronhpa.core.model.instant import MINUTE
from cronhpa.core.model.observation import Absent, Observation


def condition_of(made):
    return next((each for each in made["status"]["conditions"] if each["type"] == "MaxedOut"), None)


def test_all_replicas_of_the_maximum_are_a_condition_and_the_status():
    """12 pods at 70 % of 60 % ask for 14; 12 are allowed."""
    made = body(stated(maxReplicas=12), pods_of(12, 700))

    assert ("True", "AtMaximum") == (condition_of(made)["status"], condition_of(made)["reason"])
    assert "Maxed" == made["status"]["columns"]["status"]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"maxReplicas": 13}, {}),
        ({"minReplicas": 12, "maxReplicas": 12}, {}),
        ({"maxReplicas": 12, "mode": "Preview"}, {}),
        ({"maxReplicas": 12}, {"owner_problem": OTHER}),
    ],
    ids=["below", "a fixed count", "a preview", "beside another owner"],
)
def test_nothing_is_maxed_that_has_room_or_scales_nothing(spec, fields):
    """12 pods at 60 % of 60 %, which ask for 12."""
    made = body(stated(**spec), pods_of(12, 600), **fields)

    assert condition_of(made) is None
    assert "Maxed" != made["status"]["columns"]["status"]


def test_whoever_was_maxed_is_told_that_it_no_longer_is():
    was = {"type": "MaxedOut", "status": "True", "lastTransitionTime": "2026-11-23T09:40:00Z"}
    made = body(stated(maxReplicas=13), pods_of(12, 600), previous=scaled("2026-11-23T09:40:00Z", conditions=[was]))

    assert ("False", "2026-11-23T10:00:00Z") == tuple(map(condition_of(made).get, ("status", "lastTransitionTime")))
    assert "Deciding" == made["status"]["columns"]["status"]
    assert () == object_row(made, NOW).notes


def test_while_nothing_is_measured_it_stays_as_it_was():
    was = {"type": "MaxedOut", "status": "True", "lastTransitionTime": "2026-11-23T09:40:00Z"}
    lost = Observation(Absent("FailedGetScale", 'deployments.apps "shop" not found'))
    made = body(stated(), lost, previous=scaled("2026-11-23T09:40:00Z", conditions=[was]))

    assert "True" == condition_of(made)["status"]
    assert "NoTarget" == made["status"]["columns"]["status"]


@pytest.mark.parametrize(("minutes", "needs"), [(14, False), (15, True), (600, True)])
def test_after_fifteen_minutes_it_needs_a_person_as_the_alert_says(minutes, needs):
    row = object_row(maxed(since="2026-11-23T10:00:00Z"), NOW + minutes * MINUTE)

    assert (needs, "Maxed") == (row.needs_person, row.word)
    assert (None if needs else NOW + 15 * MINUTE) == row.needs_person_from


def test_the_note_says_how_many_are_asked_for_and_since_when():
    """12 x 981 / 60 = 196.2, so 197; 09:40 UTC is 10:40 in the object's zone."""
    assert ("197 replicas are asked for, and 12 are allowed, since 10:40 +01:00",) == object_row(maxed(), NOW).notes
    # 12 x 60 / 60 = 12: all are in use, and no more are asked for.
    assert ("all 12 replicas of its maximum are in use, since 10:40 +01:00",) == object_row(maxed(milli=600), NOW).notes


def test_explain_tells_it_and_which_number_would_have_to_rise():
    """Found: no word of it in `explain`, which `status` sends to."""
    was = {"type": "MaxedOut", "status": "True", "lastTransitionTime": "2026-11-23T09:40:00Z"}
    day = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "maxReplicas": 12}
    by_day = body(
        stated(schedules=[day]), pods_of(12, 9_810), previous=scaled("2026-11-23T09:40:00Z", conditions=[was])
    )

    assert [
        "  ! 197 replicas are asked for, and 12 are allowed, since 10:40 +01:00",
        "    cpu is at 981 % of 60 %: if more pods are meant to run, raise maxReplicas",
    ] == summary(maxed(), NOW)[1:3]
    assert [
        "  ! all 12 replicas of its maximum are in use, since 10:40 +01:00",
        "    cpu is at 981 % of 60 %: if more pods are meant to run, raise the maximum of Schedule/day",
    ] == summary(by_day, NOW)[1:3]


def test_it_stands_above_those_that_learn_and_first_once_it_needs_a_person():
    young = maxed(since="2026-11-23T09:59:00Z")
    assert ["maxed", "plain"] == [
        row.name for row in rows_of([named("plain"), {**young, "metadata": meta("maxed")}], NOW)
    ]
    assert "maxed" == rows_of([named("night-zero"), named("plain"), named("maxed")], NOW)[0].name


def meta(name):
    return {"namespace": "prod", "name": name, "generation": 4}


def named(name):
    return {**SITUATIONS[name](), "metadata": meta(name)}
