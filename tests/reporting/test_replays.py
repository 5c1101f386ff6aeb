"""Replays of one target share the evaluation of a day only where their specs evaluate it alike."""

import pytest

from cronhpa.api.parse import parse_spec
from cronhpa.core.model.instant import DAY, HOUR, MINUTE
from cronhpa.core.model.spec import ControllerOptions, Span
from cronhpa.forecasting.backtest import Rerun, load_of_points
from cronhpa.reporting.cases import Replays
from reporting.made_targets import MONDAY, cron_hpa, points, rush, target

FORECAST = {"budgetPercent": 10}
# The ninth day, 2026-03-10: from noon to 20:00 the load is three times the usual rush in three of thirty minutes.
SALE = {"name": "sale", "from": "2026-03-10T12:00", "to": "2026-03-10T20:00", "timeZone": "UTC"}


@pytest.fixture(scope="module")
def whole():
    sale = MONDAY + 8 * DAY + 12 * HOUR

    def cores(at):
        is_sold = 0 <= at - sale < 8 * HOUR and (at - sale) % (30 * MINUTE) < 3 * MINUTE
        return 36.0 if is_sold else rush(at)

    return target(points(10, cores), cron_hpa(forecast=FORECAST))


def alone(whole, span, **more):
    rerun = Rerun(whole.series, load_of_points(whole.points), whole.points, whole.environment, span)
    return rerun.run(parse_spec({**whole.manifest["spec"], **more}, "prod", ControllerOptions())).score


@pytest.mark.slow
def test_a_day_that_one_spec_leaves_out_is_evaluated_again_for_another(whole):
    """A schedule that opens once is left out of what is learnt; the same load without it is learnt whole."""
    span = Span(MONDAY + 9 * DAY, MONDAY + 10 * DAY)
    replays = Replays(whole, span)
    spec = whole.manifest["spec"]
    schedules = [{**SALE, "minReplicas": 60}]

    usual = replays.run(spec).score
    without_the_sale = replays.run({**spec, "schedules": schedules}).score

    assert alone(whole, span) == usual
    assert alone(whole, span, schedules=schedules) == without_the_sale
