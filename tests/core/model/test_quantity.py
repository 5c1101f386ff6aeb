"""Quantities: read exactly, refused fast, written canonically."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.quantity import format_load, format_milli, parse_float, parse_milli


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0", 0),
        ("1", 1000),
        ("+5", 5000),
        ("05", 5000),
        ("-1", -1000),
        ("500m", 500),
        ("0.5", 500),
        (".5", 500),
        ("1.", 1000),
        ("1e3", 10**6),
        ("1E3", 10**6),
        ("1E", 10**21),
        ("1E-3", 1),
        ("2k", 2 * 10**6),
        ("1Ki", 1024 * 1000),
        ("1.5Gi", 1536 * 1024**2 * 1000),
        ("0.5Ki", 512_000),
        ("1u", 1),  # 0.001 m, away from zero
        ("-1u", -1),
        ("1500u", 2),  # 1.5 m
        ("1234567890n", 1235),  # 1234.56789 m: what metrics-server writes for CPU
        ("0.0000000001", 1),
        ("9223372036854775807", (2**63 - 1) * 1000),
    ],
)
def test_a_quantity_is_read_in_milli_units_away_from_zero(text, milli):
    assert milli == parse_milli(text)


REFUSED = [
    "",
    " ",
    "m",
    ".",
    "-",
    "NaN",
    "nan",
    "Infinity",
    "inf",
    "-inf",
    "None",
    "True",
    "1 ",
    "1\n",
    "1_000",
    "1,5",
    "1.2.3",
    "0x10",
    "1e",
    "1e1.5",
    "1mm",
    "1ki",
    "1KI",
    "--1",
    "\u0661\u0662",  # Arabic-Indic digits, which str.isdecimal and int() take
    "\u0661\u0662n",
    "1²",
    "1e999999",
    "1e-999999",
    "1e31",
    "9223372036854775808",
    "8Ei",
    "1" * 65,
    "1" * 10**6,
]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:12]))
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match=r"quantity|exponent|2\^63"):
        parse_milli(text)


def test_a_short_text_that_means_a_huge_number_is_refused_fast():
    """1e999999 multiplied out is a number of a million digits."""
    begun = time.thread_time()

    for text in ("1e999999", "1e" + "9" * 62, "9" * 64, "9" * 10**6, "9" * 62 + "Ei"):
        with pytest.raises(ValueError):
            parse_milli(text)

    assert time.thread_time() - begun < 0.1


@pytest.mark.parametrize(
    ("milli", "binary", "text"),
    [
        (0, False, "0"),
        (500, False, "500m"),
        (1000, False, "1"),
        (20_000, False, "20"),
        (1_000_000, False, "1k"),
        (1_500_000, False, "1500"),
        (-2_000_000, False, "-2k"),
        (10**24, False, "1000E"),
        (1_048_576_000, True, "1Mi"),
        (1_048_576_333, True, "1048576333m"),
        (512_000, True, "512"),
        (-2_097_152_000, True, "-2Mi"),
    ],
)
def test_a_quantity_is_written_canonically(milli, binary, text):
    assert text == format_milli(milli, binary=binary)


@given(st.integers(-(2**63) * 1000 + 1000, (2**63) * 1000 - 1000), st.booleans())
def test_what_was_written_is_read_back(milli, binary):
    assert milli == parse_milli(format_milli(milli, binary=binary))


@given(st.text("0123456789.+-eEinumkKMGTP _\u0661", max_size=12) | st.text(max_size=8))
def test_any_text_is_read_or_refused_with_a_reason(text):
    try:
        milli = parse_milli(text)
    except ValueError:
        return
    assert abs(milli) <= 2**63 * 1000


def test_a_float_is_read_as_upstream_reads_it():
    """Mantissa times power of ten: 9 * 0.001 is not 0.009 in floats, and 75 * 0.01 is 0.75."""
    assert 0.009000000000000001 == parse_float("9m")
    assert 0.75 == parse_float("0.75")
    assert -0.5 == parse_float("-500m")
    assert 2048.0 == parse_float("2Ki")


@pytest.mark.parametrize(
    ("load", "resource", "text"),
    [
        (0.25, "cpu", "0.25"),
        (1234.56, "cpu", "1235"),
        (12_500, "requests", "12,500"),
        (-12_500, "requests", "-12,500"),
        (9999.4, "requests", "9999"),
        (9999.5, "requests", "10,000"),
        (1000, "memory", "1000"),
        (1023.5, "memory", "1Ki"),
        (1536 * 2**20, "memory", "1.5Gi"),
        (2**30 - 1, "memory", "1Gi"),
        (1023 * 2**20, "memory", "1023Mi"),
        (12_500 * 2**60, "memory", "12,500Ei"),
    ],
)
def test_a_load_for_people_has_four_digits_and_no_exponent(load, resource, text):
    """Found: a byte less than 1Gi was 1024Mi, and -12,500 was -1.25e+04."""
    assert text == format_load(load, resource)
