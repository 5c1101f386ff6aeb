"""PlannedEvent: what a spec as the API serves it becomes."""

import pytest

from cronhpa.api.parse_event import parse_event

SALE = {
    "selector": {"matchLabels": {"tier": "web"}},
    "reason": "Black Friday",
    "timeZone": "Europe/Berlin",
    "priority": 20,
    "schedules": [
        {"name": "doors", "from": "2026-11-27T06:00", "to": "2026-11-28T00:00", "minReplicasPercent": 150},
        {"name": "night", "start": "0 0 * * *", "durationMinutes": 60, "minReplicas": 4, "priority": -1},
    ],
}


def test_its_schedules_have_its_time_zone_and_its_priority_unless_they_state_their_own():
    event = parse_event("sale", "prod", SALE)

    doors, night = (stated.schedule for stated in event.schedules)
    assert ("Europe/Berlin", 20, 150) == (doors.window.zone, doors.priority, doors.floor_percent)
    assert (-1, 4) == (night.priority, night.floor)
    assert ("Event/sale", ()) == (event.title, event.problems)


def test_a_load_is_stated_in_percent_beside_what_holds_without_a_known_load():
    schedule = SALE["schedules"][0] | {"expectedLoadPercent": 250, "minReplicas": 6}

    (stated,) = parse_event("sale", "prod", SALE | {"schedules": [schedule]}).schedules

    assert (250, 6) == (stated.expected_load_percent, stated.schedule.floor)


def test_a_schedule_that_cannot_be_read_refuses_the_whole_event():
    broken = SALE["schedules"][0] | {"from": "2026-11-29T06:00"}

    event = parse_event("sale", "prod", SALE | {"schedules": [broken, SALE["schedules"][1]]})

    assert () == event.schedules
    (problem,) = event.problems
    assert problem.startswith("spec.schedules[0].to: ")


def test_a_spec_of_another_form_is_refused_with_each_field():
    event = parse_event("sale", "prod", {"selector": {}, "reason": "", "schedules": "none"})

    assert () == event.schedules
    assert {"spec.reason", "spec.schedules"} == {problem.partition(":")[0] for problem in event.problems}


def test_a_namespaced_event_has_no_selector_of_namespaces_whatever_it_says():
    everywhere = SALE | {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "theirs"}}}

    assert parse_event("sale", "prod", everywhere).namespace_selector is None
    assert parse_event("sale", "", everywhere).namespace_selector is not None


@pytest.mark.parametrize("field", ["selector", "namespaceSelector"])
@pytest.mark.parametrize(
    ("requirement", "at"),
    [
        ({"key": "tier", "operator": "in", "values": ["web"]}, "operator"),
        ({"key": "tier", "operator": "NotIn"}, "values"),
        ({"key": "tier", "operator": "In", "values": []}, "values"),
        ({"key": "tier", "operator": "Exists", "values": ["web"]}, "values"),
    ],
)
def test_a_selector_with_a_slip_refuses_the_event(field, requirement, at):
    """Found: a requirement with a misspelt operator was passed over, and the event was one for every object."""
    spec = {**SALE, "namespaceSelector": {}, field: {"matchExpressions": [requirement]}}

    event = parse_event("sale", "", spec)

    assert () == event.schedules
    (problem,) = event.problems
    assert problem.startswith(f"spec.{field}.matchExpressions[0].{at}: ")
