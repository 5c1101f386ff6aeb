"""cronhpa.api.written_spec: which defaults a person wrote, and the spec to copy with them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.api.written_spec import as_written, stated_defaults

DAY = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 4}
# As the API server serves it: with the defaults of mode, minReplicas, priority and suspend.
SERVED = {
    "mode": "Active",
    "minReplicas": 1,
    "maxReplicas": 9,
    "schedules": [
        {**DAY, "priority": 0, "suspend": False},
        {**DAY, "name": "noon", "priority": 0, "suspend": False},
    ],
}
WROTE = {"maxReplicas": 9, "mode": "Active", "schedules": [DAY, {**DAY, "name": "noon", "priority": 0}]}


def applied_by_the_client():
    return json.dumps({"kind": "CronHPA", "spec": WROTE}), []


def applied_by_the_server():
    fields = {
        "f:mode": {},
        "f:maxReplicas": {},
        "f:schedules": {
            'k:{"name":"day"}': {".": {}, "f:name": {}, "f:start": {}},
            'k:{"name":"noon"}': {".": {}, "f:name": {}, "f:priority": {}},
        },
    }
    return "", [{"operation": "Apply", "manager": "flux", "fieldsV1": {"f:spec": fields}}]


@pytest.mark.parametrize("how", [applied_by_the_client, applied_by_the_server])
def test_a_default_that_was_applied_stays_in_the_yaml_to_copy_and_one_of_the_api_server_goes(how):
    """Found: the diff to the file in git was unreadable."""
    stated = stated_defaults(SERVED, *how())

    assert ("mode", "schedules.noon.priority") == stated
    assert WROTE == as_written(SERVED, stated)


def test_an_update_names_nothing_since_it_has_the_api_servers_defaults_too():
    _, (entry,) = applied_by_the_server()

    assert () == stated_defaults(SERVED, "", [{**entry, "operation": "Update"}])
    assert {"mode", "minReplicas"}.isdisjoint(as_written(SERVED))


KEYS = st.sampled_from(["spec", "f:spec", "f:schedules", 'k:{"name":"day"}', "k:{", "schedules", "mode"])
LEAVES = st.none() | st.integers() | st.text(max_size=8)
JSON = st.recursive(LEAVES, lambda of: st.lists(of) | st.dictionaries(KEYS, of))
APPLIED = st.fixed_dictionaries({"operation": st.just("Apply"), "fieldsV1": JSON})


@given(st.text() | JSON.map(json.dumps), st.lists(JSON | APPLIED))
def test_whatever_a_tenant_wrote_is_read_or_names_nothing(last_applied, managed):
    stated = stated_defaults(SERVED, last_applied, managed)

    assert {*as_written(SERVED, stated)} <= {*SERVED}
