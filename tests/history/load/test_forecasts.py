"""Which forecasts are kept, and the loads that they forecast one step ahead."""

from cronhpa.core.model.instant import DAY, HOUR, MINUTE
from cronhpa.history.database.series import STEP
from cronhpa.history.load.forecasts import IssuedQuantile
from history.samples import API, NOON, WEB, forecast, sample


def test_the_newest_forecast_is_kept_with_its_issue_time(store):
    """The one that was saved last, also after a clock that stepped back."""
    first, again, back = forecast(NOON), forecast(NOON, issued_at=NOON + MINUTE), forecast(NOON - HOUR)
    store.loads.record([sample(0, 1.0)])

    kept = []
    for newest in (first, again, back):
        store.forecasts.save([(WEB, newest)])
        kept.append((store.forecasts.newest(), store.forecasts.newest_of([API, WEB])))

    assert [({WEB: newest}, {WEB: newest}) for newest in (first, again, back)] == kept


def test_the_forecast_of_the_next_step_is_kept_for_a_day(store):
    """The newest forecast of each step counts: of the two made within the first step, the second."""
    store.loads.record([sample(0, 1.0)])
    for newest in (
        forecast(NOON, load=(1.0, 2.0)),
        forecast(NOON, load=(1.0, 3.0), issued_at=NOON + MINUTE),
        forecast(NOON + STEP, load=(1.0, 4.0)),
        forecast(NOON + 2 * STEP, load=(5.0,)),
    ):
        store.forecasts.save([(WEB, newest)])
    percent = forecast(NOON).quantile_percent
    first, second = IssuedQuantile(NOON + STEP, 3.0, percent), IssuedQuantile(NOON + 2 * STEP, 4.0, percent)

    assert [first, second] == store.forecasts.issued_quantiles([WEB], NOON, NOON + DAY)[WEB]
    assert [second] == store.forecasts.issued_quantiles([WEB], NOON + STEP + 1, NOON + DAY)[WEB]
    assert [first] == store.forecasts.issued_quantiles([WEB], NOON, NOON + 2 * STEP)[WEB]
    assert [] == store.forecasts.issued_quantiles([WEB], NOON, NOON)[WEB]

    store.compact(NOON + DAY + STEP)

    assert [second] == store.forecasts.issued_quantiles([WEB], NOON, NOON + DAY)[WEB]


def test_a_forecast_of_more_than_a_day_ago_is_forgotten(store):
    store.loads.record([sample(0, 1.0)])
    store.forecasts.save([(WEB, forecast(NOON))])

    store.compact(NOON + DAY + STEP)

    assert {} == store.forecasts.newest()
