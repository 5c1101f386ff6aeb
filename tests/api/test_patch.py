"""The merge patch between two states: only what changed, and applied to the one it gives the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cronhpa.api.patch import merge_patch


def applied(target, patch):
    """RFC 7386, section 2, word for word."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = applied(target.get(key), value)
    return target


def test_equal_states_have_an_empty_patch():
    assert {} == merge_patch({"a": 1, "b": {"c": [1]}}, {"a": 1, "b": {"c": [1]}})


def test_only_what_changed_is_sent():
    before = {"desired": 3, "current": 3, "decision": {"by": "Spec", "steps": []}}

    assert {"desired": 5, "decision": {"by": "Metric"}} == merge_patch(
        before, {"desired": 5, "current": 3, "decision": {"by": "Metric", "steps": []}}
    )


def test_what_is_gone_is_sent_as_null():
    assert {"nextEdge": None} == merge_patch({"nextEdge": {"time": "x"}, "a": 1}, {"a": 1})
    assert {"decision": {"by": None}} == merge_patch({"decision": {"by": "Spec"}}, {"decision": {}})


def test_a_value_that_became_null_is_removed_and_one_that_was_null_is_not_sent():
    assert {"currentMetrics": None} == merge_patch({"currentMetrics": [1]}, {"currentMetrics": None})
    assert {} == merge_patch({}, {"currentMetrics": None})
    assert {} == merge_patch({"currentMetrics": None}, {})


def test_lists_are_replaced_whole():
    assert {"steps": [1, 3]} == merge_patch({"steps": [1, 2]}, {"steps": [1, 3]})


scalars = st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
)
states = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@given(states, states)
def test_a_patch_applied_to_the_one_state_gives_the_other(before, after):
    assert after == applied(before, merge_patch(before, after))


@given(states, states)
def test_a_patch_is_empty_only_where_nothing_changed(before, after):
    assert (merge_patch(before, after) == {}) == (before == after)
