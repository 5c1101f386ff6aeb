"""The blobs of a day: 24 bits a step, 8 bits a minute."""

import math
import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.history.load.packing import (
    MINUTES_PER_DAY,
    STEPS_PER_DAY,
    DayMaxima,
    join,
    little_endian,
    merged_minutes,
    pack_steps,
    trim,
    unpack_minutes,
    unpack_steps,
)

GAP = math.nan


def steps(*highs):
    """A day that begins with these maxima and has gaps after them."""
    return array("d", [*highs, *[GAP] * (STEPS_PER_DAY - len(highs))])


def told(highs):
    return [None if math.isnan(high) else high for high in highs]


def test_a_day_of_steps_is_a_form_and_288_little_endian_floats():
    blob = pack_steps(steps(1.5, GAP, 0.0))

    assert b"\1" + struct.pack("<3f", 1.5, GAP, 0.0) == blob[:13]
    assert 1 + 288 * 4 == len(blob)


@given(st.dictionaries(st.integers(0, STEPS_PER_DAY - 1), st.floats(0, 2.0**127, width=32), max_size=20))
def test_a_day_of_steps_comes_back_as_it_was_packed(highs):
    day = array("d", [highs.get(step, GAP) for step in range(STEPS_PER_DAY)])

    assert told(day) == told(unpack_steps(pack_steps(day)))


@given(st.floats(1e-30, 3.4e38))
def test_a_step_keeps_24_bits(high):
    assert pytest.approx(high, rel=2**-24) == unpack_steps(pack_steps(steps(high)))[0]


def test_a_day_of_doubles_that_an_earlier_release_wrote_is_read():
    blob = b"\0" + struct.pack("<288d", 0.1, *[GAP] * 287)

    assert [0.1, None] == told(unpack_steps(blob)[:2])


@pytest.mark.parametrize(
    ("blob", "said"),
    [
        (b"", "a day is written in form b''"),
        (b"\xff", "a day is written in form b'\\\\xff'"),
        (b"\1\xff\xff", "a day has 0.5 steps: 288 are needed"),
        (b"\1" + bytes(4), "a day has 1 steps: 288 are needed"),
    ],
    ids=["nothing", "another form", "half a float", "too short"],
)
def test_a_blob_that_is_no_day_is_refused(blob, said):
    with pytest.raises(ValueError, match=said):
        unpack_steps(blob)


def test_a_minute_is_a_255th_of_its_steps_maximum():
    """5 of 51 are 25 of 255, a minute of nothing is 1 of 255, 0 is a gap."""
    day = DayMaxima.empty()
    for minute, high in ((0, 51.0), (1, 5.0), (2, 0.0)):
        day.raise_minute(minute, high)

    assert [255, 25, 1, 0] == list(day.shares[:4])
    assert [51.0, None] == told(day.highs[:2])
    assert pytest.approx([51.0, 5.0, 0.2]) == told(unpack_minutes(bytes(day.shares), day.highs))[:3]


def test_minutes_keep_their_loads_when_their_step_rises():
    """10 were all of 255; of 20 they are 128, which is 10.04."""
    day = DayMaxima.empty()
    day.raise_minute(0, 10.0)

    day.raise_step(0, 20.0)

    assert (128, 20.0) == (day.shares[0], day.highs[0])


def test_a_smaller_step_or_minute_lowers_nothing():
    day = DayMaxima.empty()
    day.raise_minute(0, 10.0)

    day.raise_step(0, 5.0)
    day.raise_minute(0, 5.0)

    assert (255, 10.0) == (day.shares[0], day.highs[0])


def test_a_day_of_steps_alone_has_no_minutes():
    day = DayMaxima.empty()
    day.raise_step(3, 1.0)

    assert day.shares is None


def test_a_day_comes_back_with_its_minutes():
    day = DayMaxima.empty()
    day.raise_minute(7, 3.0)

    again = DayMaxima.unpack(pack_steps(day.highs), bytes(day.shares))

    assert (told(day.highs), day.shares) == (told(again.highs), again.shares)
    assert MINUTES_PER_DAY == len(again.shares)


@pytest.mark.parametrize("length", [0, 1439, 1441])
def test_damaged_minutes_of_another_store_are_not_merged(length):
    """Found: the merged day was as short as the damaged one, so that the good minutes were lost, too."""
    day, damaged = bytes([255] * 5 + [0] * 1435), bytes(length)

    for pair in ((day, damaged), (damaged, day)):
        with pytest.raises(ValueError, match="1440 are needed"):
            merged_minutes(*pair)


def test_days_and_rows_are_joined_with_gaps_between_and_the_larger_value_where_both_are():
    """Days of four times: day 2 is the times 8 to 11; rows stand at 9, 11 and 13."""
    days = [(2, array("d", [1.0, 2.0, GAP, GAP]))]

    begin, highs = join(days, [(9, 1.5), (11, 4.0), (13, 5.0)], 4)

    assert (8, [1.0, 2.0, None, 4.0, None, 5.0]) == (begin, told(highs))


def test_rows_may_begin_before_the_first_day():
    begin, highs = join([(2, array("d", [1.0] * 4))], [(6, 3.0)], 4)

    assert (6, [3.0, None, 1.0, 1.0, 1.0, 1.0]) == (begin, told(highs))


def test_joining_no_rows_gives_no_rows():
    assert (0, array("d")) == join([], [], 4)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 99), (11, [1.0, None, 2.0])),
        ((12, 99), (13, [2.0])),
        ((0, 13), (11, [1.0])),
        ((12, 13), (12, [])),
        ((50, 60), (50, [])),
    ],
    ids=["all", "from within a gap", "to the second", "a gap alone", "after all"],
)
def test_a_span_is_cut_to_the_values_within(span, expected):
    """Gap, 1, gap, 2, gap at the times 10 to 14."""
    begin, highs = trim(10, array("d", [GAP, 1.0, GAP, 2.0, GAP]), *span)

    assert expected == (begin, told(highs))


def test_numbers_are_little_endian_in_a_file():
    assert struct.pack("<2d", 1.0, -2.5) == little_endian(array("d", [1.0, -2.5])).tobytes()
