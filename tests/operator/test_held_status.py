"""cronhpa.operator.held_status: statuses that are packed while their write waits."""

import zlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.operator.held_status import HeldStatus, RenderedStatus
from cronhpa.operator.object_state import ObjectState, packed, unpacked

STATUS = {"currentReplicas": 3, "memory": {"replicas": 3}, "conditions": [{"type": "Ready", "status": "True"}]}
OTHERS = {"currentReplicas": 9}


def state_with(status):
    state = ObjectState("shop", "web", "uid", 0)
    state.status = status
    return state


def test_a_rendered_status_is_the_same_after_it_was_packed():
    rendered = RenderedStatus(STATUS)
    assert rendered() is STATUS

    rendered.pack()
    rendered.pack()

    assert rendered() == STATUS
    assert rendered() is not STATUS  # the dicts were given up
    assert rendered() is rendered()  # and are decoded once


def test_a_packed_status_is_still_the_one_that_was_held_before_somebody_elses_write():
    state = state_with(STATUS)
    held = HeldStatus(state)
    before, packed = held(), held.packed

    held.pack()
    state.status = OTHERS

    assert (before, packed) == (held.given, held.packed)  # what was held: their change is not ours to tell
    assert OTHERS == held()  # a patch is made against what the API holds now


def test_a_status_that_was_written_is_held_packed_or_not():
    state = state_with(STATUS)
    held = HeldStatus(state)
    held.put({"currentReplicas": 4}, {"currentReplicas": 4}, {"currentReplicas": 4})

    held.pack()

    assert {"currentReplicas": 4} == held() == held.given == state.status


def test_a_count_is_named_by_the_memory_of_a_status_without_an_intent():
    assert HeldStatus(state_with(STATUS)).names(3)
    assert not HeldStatus(state_with(STATUS)).names(4)
    assert not HeldStatus(state_with({"memory": {"replicas": 3, "intent": 5}})).names(3)
    assert not HeldStatus(state_with({})).names(3)


@given(st.dictionaries(st.text(max_size=9), st.text() | st.integers(-(2**40), 2**40) | st.lists(st.text(max_size=300))))
def test_a_packed_status_is_the_same_when_it_is_unpacked(status):
    assert status == unpacked(packed(status))


def test_a_packed_status_takes_a_fifth_of_its_text_and_any_reader_of_zlib_reads_it():
    """The page reads it in a process of its own. Six conditions that fill more than a window of 4 KiB."""
    sentence = "recommended size matches current size of the target, as of the newest metrics of its pods; "
    conditions = [{"type": f"Kind{number}", "message": sentence[number:] * 10} for number in range(6)]
    text = msgspec.json.encode({"conditions": conditions})

    assert len(text) > 4096
    assert len(packed({"conditions": conditions})) < len(text) / 5
    assert text == zlib.decompress(packed({"conditions": conditions}))
