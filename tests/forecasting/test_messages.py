"""What a fit depends on, what is masked, and what crosses the border of a process."""

from array import array
from math import isnan

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import NOW, exactly, forecast, queue, spec
from cronhpa.core.model.instant import HOUR
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings, Mode, Override, Span
from cronhpa.forecasting.messages import (
    FitResult,
    ForecastResponse,
    ForecastTarget,
    WorkerRequest,
    digest,
    keep,
    masked,
)
from cronhpa.history.database.address import PostgresAddress
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.load.fits import Fit, FitInfo

WEB = Series("prod", "web", "queue")
FORECAST = spec(forecast=ForecastSettings())


@pytest.mark.parametrize(
    "edited",
    [
        replace(FORECAST, override=Override(NOW + HOUR, "INC-4711", 9)),
        replace(FORECAST, mode=Mode.PREVIEW),
        replace(FORECAST, forecast=ForecastSettings(mode=Mode.PREVIEW)),
    ],
    ids=["an override", "the object's mode", "the forecast's mode"],
)
def test_a_fit_is_kept_over_an_edit_that_it_does_not_depend_on(edited):
    """An incident at night must not cost the object its forecast until it is fitted anew."""
    assert digest(FORECAST) == digest(edited)


@pytest.mark.parametrize(
    "edited",
    [
        replace(FORECAST, min_replicas=3),
        replace(FORECAST, schedules=(exactly("night", 0),)),
        replace(FORECAST, metrics=(queue(20),)),
        replace(FORECAST, forecast=ForecastSettings(budget_percent=9)),
        replace(FORECAST, forecast=ForecastSettings(ignored=(Span(NOW, NOW + HOUR),))),
        replace(FORECAST, forecast=None),
    ],
    ids=["bounds", "schedules", "metrics", "the budget", "ignored spans", "no forecast"],
)
def test_a_fit_is_made_anew_after_an_edit_that_changes_what_it_would_choose(edited):
    assert digest(FORECAST) != digest(edited)


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 30)), max_size=3))
def test_exactly_the_steps_that_an_ignored_span_touches_are_gaps(length, halves):
    """Spans in halves of a step, before, within and behind the history."""
    spans = [Span(NOW + begin * STEP // 2, NOW + (begin + size) * STEP // 2) for begin, size in halves]

    masked_values = masked(NOW, array("d", range(length)), spans)

    for index, value in enumerate(masked_values):
        begin, end = NOW + index * STEP, NOW + (index + 1) * STEP
        is_touched = any(span.begin < end and begin < span.end for span in spans)
        assert isnan(value) if is_touched else value == index


@pytest.mark.parametrize("store", ["/var/lib/cronhpa/history.db", PostgresAddress("postgresql://db/cronhpa")])
def test_a_request_and_its_answer_cross_the_border_as_they_are(store):
    asked = WorkerRequest(store, [ForecastTarget(WEB, FORECAST, 60, 500)], NOW)
    answered = ForecastResponse([(WEB, forecast(3.0)), (WEB, Absent("NothingToGain", "as it is"))], None)

    for message in (asked, answered):
        assert message == msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))


def test_a_store_that_takes_no_fit_is_told_beside_what_was_learnt():
    class Full:
        def save(self, _fit, members):
            return None if Series("prod", "api", "queue") in members else "the disk is full"

    class FullStore:
        fits = Full()

    info = FitInfo(NOW, digest(FORECAST))
    members = [(WEB, info)], [(Series("prod", "api", "queue"), info)]
    fits = [(Fit("Policy/2", NOW, NOW, b""), member) for member in members]

    kept = keep(FullStore(), FitResult(fits, []))

    assert [*members[0], *members[1]] == kept.fits
    assert "the disk is full" == kept.fault  # type: ignore[comparison-overlap]  # this double of a store gives the text
