"""operator/objects/planned_events.py: whom an event concerns."""

import pytest

from cronhpa.operator.objects.planned_events import seen_event

SPEC = {
    "selector": {"matchLabels": {"tier": "web"}},
    "reason": "a sale",
    "schedules": [{"name": "doors", "start": "0 8 * * *", "durationMinutes": 60, "minReplicas": 4}],
}
WEB, BATCH = {"tier": "web", "team": "a"}, {"tier": "batch"}
TEAM = {"kubernetes.io/metadata.name": "prod", "team": "shops"}


def seen(namespace, **spec):
    return seen_event("sale", namespace, SPEC | spec, 1, {})


def test_an_event_concerns_the_objects_of_its_namespace_with_its_labels():
    assert seen("prod").picks("prod", WEB, TEAM)
    assert not seen("prod").picks("prod", BATCH, TEAM)
    assert not seen("prod").picks("other", WEB, TEAM)


def test_a_namespaced_event_never_leaves_its_namespace_whatever_it_says():
    assert not seen("prod", namespaceSelector={}).picks("other", WEB, TEAM)


def test_a_cluster_event_concerns_the_namespaces_with_its_labels():
    by_team = seen("", namespaceSelector={"matchLabels": {"team": "shops"}})

    assert by_team.picks("prod", WEB, TEAM)
    assert not by_team.picks("prod", WEB, {})
    assert seen("").picks("any", WEB, {})


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
def test_a_cluster_event_waits_for_the_labels_of_a_namespace_also_if_it_excludes_some(operator):
    """A cap for all but prod must not hold in prod because its labels are not known yet."""
    values = {"values": ["prod"]} if operator == "NotIn" else {}
    but_prod = seen("", namespaceSelector={"matchExpressions": [{"key": "env", "operator": operator, **values}]})

    assert not but_prod.picks("prod", WEB, None)
    assert but_prod.picks("prod", WEB, {})
    assert seen("").picks("prod", WEB, None)


@pytest.mark.parametrize(
    ("expression", "picked"),
    [
        ({"key": "team", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "team", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "DoesNotExist"}, False),
    ],
)
def test_expressions_select_as_in_kubernetes(expression, picked):
    event = seen("prod", selector={"matchExpressions": [expression]})

    assert picked is event.picks("prod", WEB, TEAM)


def test_an_empty_selector_concerns_all_objects():
    assert seen("prod", selector={}).picks("prod", {}, {})


def test_a_selector_that_cannot_be_read_refuses_the_event():
    event = seen("prod", selector={"matchLabels": {"not a label!": "x"}}).event

    assert () == event.schedules
    assert "spec.selector" in event.problems[0]
