"""Numbers as Go computes them, where Python would round otherwise or raise."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest

from cronhpa.core.metrics.arithmetic import INT32_MAX, INT64_MAX, divide, quotient, round_up


@pytest.mark.parametrize(
    ("dividend", "divisor", "result"),
    [(7, 2, 3), (-7, 2, -3), (6, 2, 3), (-6, 2, -3), (0, 2, 0), (1, 2, 0), (-1, 2, 0)],
)
def test_an_integer_quotient_is_truncated_toward_zero(dividend, divisor, result):
    assert result == quotient(dividend, divisor)


@pytest.mark.parametrize(("dividend", "divisor", "result"), [(3, 2, 1.5), (1, 0, inf), (0.5, 0, inf), (-1, 0, -inf)])
def test_a_division_by_zero_is_infinite(dividend, divisor, result):
    assert result == divide(dividend, divisor)


def test_nothing_over_nothing_is_not_a_number():
    assert isnan(divide(0, 0))


@pytest.mark.parametrize(
    ("number", "result"),
    [
        (1.1, 2),
        (2.0, 2),
        (-1.9, -1),
        (nan, 0),
        (2.0**31 - 1, INT32_MAX),
        (2.0**31, INT32_MAX),
        (inf, INT32_MAX),
        (-(2.0**31) + 1, -INT32_MAX),
        (-(2.0**31), -INT32_MAX - 1),
        (-(2.0**31) - 1, -INT32_MAX - 1),
        (-inf, -INT32_MAX - 1),
    ],
)
def test_a_count_is_rounded_up_and_kept_within_32_bits(number, result):
    assert result == round_up(number)


def test_an_average_is_kept_within_64_bits():
    assert (2**62, INT64_MAX, -INT64_MAX - 1) == tuple(round_up(number, INT64_MAX) for number in (2.0**62, inf, -inf))
