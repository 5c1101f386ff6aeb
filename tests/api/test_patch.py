"""The merge patch between two states: only what changed, and applied to the one it gives the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cronhpa.api.patch import altered, as_answered, merge_patch


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


@given(states, states, states)
def test_what_somebody_else_wrote_before_a_patch_is_held_as_answered(before, after, theirs):
    patch = merge_patch(before, after)
    answered = applied(theirs, patch)

    assert answered == as_answered(after, patch, answered)


@given(states, states)
def test_an_answer_that_says_what_was_written_changes_nothing(before, after):
    assert after is as_answered(after, merge_patch(before, after), applied(before, merge_patch(before, after)))


def test_a_field_that_the_api_drops_is_believed_written():
    """Else an operator that is newer than its CRD would write it again at each reconciliation."""
    before, after = {"a": 1}, {"a": 1, "new": 2, "decision": {"by": "Spec", "new": 2}}

    assert after is as_answered(after, merge_patch(before, after), {"a": 1, "decision": {"by": "Spec"}})


def test_somebody_elses_part_of_an_object_that_both_write_is_seen():
    """Our patch named the count alone."""
    before, after = {"memory": {"replicas": 2, "zero": True}}, {"memory": {"replicas": 3, "zero": True}}

    held = as_answered(
        after, merge_patch(before, after), {"memory": {"replicas": 3, "zero": "forged"}, "operator": "b"}
    )

    assert {"memory": {"replicas": 3, "zero": "forged"}, "operator": "b"} == held


def test_a_field_that_the_api_dropped_once_is_believed_written_when_other_fields_are():
    """And what somebody else wrote beside it is seen."""
    ours = {"a": 2, "new": 2, "decision": {"by": "Spec", "new": 2}}
    patch, answered = {"new": 2, "decision": {"new": 2}}, {"a": 2, "decision": {"by": "Spec"}}

    dropped = {*altered(ours, patch, answered)}

    assert {("new",), ("decision", "new")} == dropped
    assert ours is as_answered(ours, {"a": 2}, answered, dropped)
    forged = as_answered(ours, {"a": 2}, {"a": 2, "decision": {"by": "forged"}}, dropped)
    assert {**ours, "decision": {"by": "forged", "new": 2}} == forged


def test_an_answer_without_a_state_takes_nothing_away_that_was_written_before():
    """But for fields that were not written yet, which are written once more."""
    ours = {"a": 1, "b": {"c": 2}}

    assert {"a": 1} == as_answered(ours, {"a": 1}, {})
    assert {("a",)} == {*altered(ours, {"a": 1}, {})}
    assert ours is as_answered(ours, {"b": {"c": 2}}, {}, {("a",)})


@given(states, states, states)
def test_nothing_is_altered_where_a_patch_is_applied_as_it_is(before, after, theirs):
    patch = merge_patch(before, after)

    assert [] == [*altered(after, patch, applied(theirs, patch))]
