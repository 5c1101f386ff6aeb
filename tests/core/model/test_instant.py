"""Instants and durations: read exactly and written back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import (
    HOUR,
    MINUTE,
    SECOND,
    format_instant,
    format_instant_exact,
    parse_duration,
    parse_instant,
)

FIRST, LAST = parse_instant("0001-01-01T00:00:00Z"), parse_instant("9999-12-31T23:59:59.999999999Z")


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:00.1234567891Z", 123_456_789),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2026-11-23T10:00:00Z", 1_795_428_000 * SECOND),
    ],
)
def test_an_instant_is_read_to_the_nanosecond(text, instant):
    assert instant == parse_instant(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-23",
        "2026-11-23T10:00:00",
        "2026-11-23T10:00:00.Z",
        "2026-11-23T10:00:00.5",
        "2026-02-30T10:00:00Z",
        "2026-11-23T25:00:00Z",
        "2026-11-23T10:00:60Z",
        "2026-11-23T10:00:00.\u0661Z",
        "10000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-12:00",  # the year 10000 in UTC
        "0001-01-01T00:00:00+12:00",  # the year 0
    ],
)
def test_what_is_no_instant_is_refused(text):
    with pytest.raises(ValueError):
        parse_instant(text)


@given(st.integers(FIRST, LAST))
def test_an_exact_text_is_read_back_to_the_same_instant(instant):
    assert instant == parse_instant(format_instant_exact(instant))


@given(st.integers(FIRST, LAST))
def test_a_text_to_the_second_is_read_back_to_its_second(instant):
    assert instant // SECOND * SECOND == parse_instant(format_instant(instant))


def test_a_year_has_four_digits():
    """Go's zero time, as the API writes a time that was never set, among others."""
    assert "0001-01-01T00:00:00Z" == format_instant(FIRST)
    assert "0900-01-01T00:00:00.000000000Z" == format_instant_exact(parse_instant("0900-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0", 0),
        ("0s", 0),
        ("30s", 30 * SECOND),
        ("1m30s", 90 * SECOND),
        ("1.5h", 90 * MINUTE),
        ("1h0m0s", HOUR),
        ("-1m", -MINUTE),
        ("+1m", MINUTE),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("300ms", 300_000_000),
        ("2us", 2_000),
        ("2µs", 2_000),
        ("7ns", 7),
        ("14.321s", 14_321_000_000),
    ],
)
def test_a_duration_is_read_as_go_writes_it(text, length):
    assert length == parse_duration(text)


@pytest.mark.parametrize(
    "text", ["", "-", "1", "s", ".s", "1x", "1.2.3s", "1s²", "\u0661s", "1 s", "1m-30s", "NaNs", "1e3s"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError):
        parse_duration(text)


@given(st.text("0123456789.hmsnuµ+-", max_size=12))
def test_any_text_is_a_duration_or_refused(text):
    try:
        length = parse_duration(text)
    except ValueError:
        return
    assert isinstance(length, int)
