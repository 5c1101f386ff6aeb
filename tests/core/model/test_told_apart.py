"""
cronhpa.core.model.observation, cronhpa.core.model.forecast: unknown values stay distinct from known ones, also in a
record.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.situations import forecast, observations, specs
from cronhpa.core.model.forecast import Forecast, in_days
from cronhpa.core.model.observation import Absent, Observation, Reading, ScalarReading, Scale

GONE = Absent("FailedGetScale", "not found")


@given(specs().flatmap(observations))
def test_an_observation_is_read_back_as_it_was_written(observation):
    assert observation == msgspec.json.decode(msgspec.json.encode(observation), type=Observation)


@pytest.mark.parametrize("scale", [GONE, Scale(0, 0, "")])
def test_a_scale_that_is_not_known_is_no_scale_of_zero(scale):
    decoded = msgspec.json.decode(msgspec.json.encode(Observation(scale)), type=Observation)

    assert scale == decoded.scale
    assert isinstance(scale, Absent) == isinstance(decoded.scale, Absent)


def test_a_reading_that_an_earlier_release_recorded_is_read():
    """It called a reading of one value a Gauge: that is its name in every record."""
    assert ScalarReading(90_000, 3) == msgspec.json.decode(b'{"type":"Gauge","value":90000,"ready":3}', type=Reading)


def test_a_forecast_that_abstains_is_told_apart_from_one_of_no_load():
    for answer in (forecast(0.0), GONE):
        assert answer == msgspec.json.decode(msgspec.json.encode(answer), type=Forecast | Absent)


@given(st.integers(0, 400))
def test_days_are_counted_in_words(count):
    assert f"{count} day{'' if count == 1 else 's'}" == in_days(count)
