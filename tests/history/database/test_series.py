"""Which numbers are loads, and how a series is told to people."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.history.database.series import RecordedBatch, is_load
from history.samples import NOON, WEB, everything, sample


@given(st.floats())
def test_a_load_is_a_number_from_zero_to_3_4e38_that_four_bytes_hold(value):
    """Days are kept as floats of four bytes, in which a load stays a finite number."""
    assert (0 <= value <= 3.4e38) == is_load(NOON, value)
    if is_load(NOON, value):
        assert math.isfinite(struct.unpack("f", struct.pack("f", value))[0])


@pytest.mark.parametrize("value", [0.0, 1e-300, 1.0, 3.4e38])
def test_a_load_is_read_as_it_was_recorded(file_store, value):
    assert RecordedBatch(1) == file_store.loads.record([sample(0, value)])
    assert [(NOON, value)] == everything(file_store)


@pytest.mark.parametrize(("at", "expected"), [(-1, False), (0, True), (2**63 - 1, True), (2**63, False)])
def test_a_load_has_an_instant_from_1970_to_2262(at, expected):
    assert expected == is_load(at, 1.0)


def test_a_series_is_printed_as_the_object_and_its_metric():
    assert "shop/web cpu" == str(WEB)
