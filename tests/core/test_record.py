"""A turn as one line: what a failed decision leaves behind must decide the same when it is read back."""

from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given

from core.situations import situations
from cronhpa.core.decide import decide
from cronhpa.core.record import Record, decode, encode


def is_written(situation):
    """JSON has neither NaN nor infinity: a forecast that holds one is written as null."""
    forecast = situation[2]
    return all(isfinite(number) for number in (*getattr(forecast, "load", ()), getattr(forecast, "ceiling", 0)))


@given(situations().filter(is_written))
def test_a_record_is_one_line_that_reads_back_and_decides_the_same(situation):
    record = Record(*situation)

    line = encode(record)

    assert "\n" not in line
    assert record == decode(line)
    assert decide(*situation) == decide(*(getattr(decode(line), name) for name in Record.__struct_fields__))


@pytest.mark.parametrize("line", ["", "{}", "[]", "null", '{"spec": 1}', "\x00"])
def test_a_line_that_is_no_record_is_refused(line):
    with pytest.raises(ValueError):
        decode(line)
