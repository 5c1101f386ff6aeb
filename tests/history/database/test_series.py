"""Which numbers are loads, and how a series is told to people."""

import math

import pytest

from cronhpa.history.database.series import is_load
from history.samples import NOON, WEB


@pytest.mark.parametrize("value", [0.0, 1e-300, 1.0, 3.4e38])
def test_a_number_from_nothing_to_the_largest_float_is_a_load(value):
    assert is_load(NOON, value)


@pytest.mark.parametrize("value", [-0.001, 3.5e38, math.inf, -math.inf, math.nan])
def test_a_number_below_zero_or_above_the_largest_float_or_none_at_all_is_no_load(value):
    assert not is_load(NOON, value)


@pytest.mark.parametrize(("at", "expected"), [(-1, False), (0, True), (2**63 - 1, True), (2**63, False)])
def test_a_load_has_an_instant_from_1970_to_2262(at, expected):
    assert expected == is_load(at, 1.0)


def test_a_series_is_printed_as_the_object_and_its_metric():
    assert "shop/web cpu" == str(WEB)
