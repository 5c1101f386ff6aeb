"""The methods for pandas: a Series in, a table of quantiles out, and what is refused."""

import numpy as np
import pytest
from pandas import Series, Timestamp, date_range

from cronhpa_models import frames
from cronhpa_models.error_mixture import ErrorMixture
from cronhpa_models.last_value import LastValue
from cronhpa_models.method import on_grid
from cronhpa_models.periodic_autoregression import PeriodicAutoregression

DAY = 24


def series(load, steps=DAY):
    index = date_range("2026-03-01", periods=len(load), freq=f"{86_400 // steps}s", tz="UTC")
    return Series(np.asarray(load, dtype=float), index=index)


def rhythm(days, seed=1):
    clock = np.arange(days * DAY) / DAY * 2 * np.pi
    return series((10 + 4 * np.sin(clock)) * np.exp(0.2 * np.random.default_rng(seed).standard_normal(len(clock))))


def test_a_row_for_each_origin_and_a_column_for_each_span():
    """From the last step of the history and from each that came later; the cliff at 06:00 is known from ten days."""
    load = series(np.tile(np.where(np.arange(DAY) < 6, 1.0, 10.0), 11))

    fitted = frames.fit(PeriodicAutoregression(), load.iloc[: 10 * DAY], horizon=2)
    forecast_quantiles = fitted.quantiles(load.iloc[10 * DAY : 10 * DAY + 9], 0.5)

    assert [1, 2] == list(forecast_quantiles.columns)
    assert list(load.index[10 * DAY - 1 : 10 * DAY + 9]) == list(forecast_quantiles.index)
    assert [1.0, 10.0] == pytest.approx(forecast_quantiles.loc[Timestamp("2026-03-11T04:00Z")].tolist(), rel=1e-3)
    assert [10.0, 10.0] == pytest.approx(forecast_quantiles.loc[Timestamp("2026-03-11T05:00Z")].tolist(), rel=1e-3)


def test_the_figures_are_those_of_the_method():
    load = rhythm(11)
    plain = ErrorMixture().fit(load.to_numpy()[: 10 * DAY], steps_per_day=DAY, windows=(1, 2))
    later = load.to_numpy()[10 * DAY :]
    origins = on_grid(plain.load, later, len(plain.load) - 1 + np.arange(DAY + 1))
    place = ErrorMixture.variants.index("NearClock")

    fitted = frames.fit(ErrorMixture(), load.iloc[: 10 * DAY], horizon=2)
    forecast_quantiles = fitted.quantiles(load.iloc[10 * DAY :], 0.9, variant="NearClock")

    np.testing.assert_array_equal(plain.distribution(later, origins).quantile(place, 0, 0.9), forecast_quantiles[1])


def test_a_longer_span_never_has_a_smaller_load():
    load = series(np.exp(np.random.default_rng(2).normal(size=11 * DAY)))

    forecast_quantiles = frames.fit(ErrorMixture(), load.iloc[: 10 * DAY], horizon=3).quantiles(
        load.iloc[10 * DAY :], 0.9
    )

    assert (np.diff(forecast_quantiles.to_numpy(), axis=1) >= 0).all()


def test_a_history_that_is_too_short_for_the_method_has_no_fit():
    assert frames.fit(PeriodicAutoregression(), rhythm(1)) is None


def test_what_does_not_go_on_where_the_history_ended_is_refused():
    load = rhythm(8)
    fitted = frames.fit(LastValue(), load.iloc[: 7 * DAY])

    with pytest.raises(ValueError, match="the history goes on at 2026-03-08 00:00:00"):
        fitted.quantiles(load.iloc[7 * DAY + 1 :], 0.9)


def test_a_variant_that_the_method_does_not_have_is_refused():
    fitted = frames.fit(ErrorMixture(), rhythm(8))

    with pytest.raises(ValueError, match="Near is no variant of ErrorMixture: Clock, NearClock, ClockAndLoad are"):
        fitted.quantiles(rhythm(8).iloc[:0], 0.9, variant="Near")


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (lambda load: load.tz_localize(None), "a DatetimeIndex in UTC is needed"),
        (lambda load: load.drop(load.index[5]), "a regular rising grid is needed"),
        (lambda load: load.iloc[::-1], "a regular rising grid is needed"),
        (lambda load: load.iloc[:1], "1 rows"),
        (
            lambda load: load.set_axis(date_range("2026-03-01", periods=len(load), freq="7min", tz="UTC")),
            "divide a day",
        ),
    ],
    ids=["no zone", "a row missing", "backwards", "one row", "seven minutes"],
)
def test_a_grid_that_is_none_is_refused(broken, found):
    with pytest.raises(ValueError, match=found):
        frames.fit(LastValue(), broken(rhythm(2)))
