"""Which part of a load's past is queried from a Prometheus, and which samples are kept."""

import pytest

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.spec import TargetRef
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import STEP
from cronhpa.history.imports.backfill import backfill, span_of
from cronhpa.history.imports.prometheus import Prometheus
from cronhpa.history.store import Store
from forecasting.answering import Answering
from history.samples import NOON, WEB

TARGET = TargetRef("apps/v1", "Deployment", "web-server")


async def test_the_first_backfill_asks_for_28_days_and_the_next_for_what_came_since(store):
    async with Answering() as server, Prometheus(server.url) as prometheus:
        first = await backfill(store.loads, prometheus, WEB, TARGET, NOON)
        asked, server.asked = server.asked, []
        await backfill(store.loads, prometheus, WEB, TARGET, NOON + DAY)

    assert [(NOON - 28 * DAY + MINUTE) // SECOND, NOON // SECOND] == [asked[0][1], asked[-1][2]]
    assert [((NOON - HOUR + MINUTE) // SECOND, (NOON + DAY) // SECOND)] == [
        (start, end) for _, start, end, _ in server.asked
    ]
    assert (28 * 1440, 28 * 288) == (first.rows, first.steps)


async def test_an_answer_belongs_to_the_minute_that_ends_at_its_instant(store):
    """The value of Prometheus at 12:05 describes the minute before: the last minute of the step from noon."""
    value = lambda at: "7" if at == (NOON + STEP) // SECOND else None  # noqa: E731 - read once, below
    async with Answering(value) as server, Prometheus(server.url) as prometheus:
        await backfill(store.loads, prometheus, WEB, TARGET, NOON + STEP)

    assert [(NOON + STEP - MINUTE, 7.0)] == store.loads.minutes(WEB, 0, 2**63)
    assert [(NOON, 7.0)] == store.loads.steps(WEB, 0, 2**63)


async def test_maxima_of_five_minutes_are_kept_and_what_is_no_load_is_not(store):
    """Minutes 0 to 9 of the hour are 0 to 9, but minute 4 is infinite and minute 9 negative."""
    odd = {4: "+Inf", 9: "-1"}
    minute = lambda at: (at - NOON // SECOND) // 60 - 1  # noqa: E731 - read once, below
    value = lambda at: odd.get(minute(at), str(minute(at))) if 0 <= minute(at) < 10 else None  # noqa: E731
    async with Answering(value) as server, Prometheus(server.url) as prometheus:
        imported = await backfill(store.loads, prometheus, WEB, TARGET, NOON + HOUR)

    assert [(NOON, 3.0), (NOON + STEP, 8.0)] == store.loads.steps(WEB, 0, 2**63)
    assert (8, 2, 2) == (imported.rows, imported.gaps, imported.steps)


async def test_a_prometheus_that_knows_nothing_is_not_asked_for_28_days_again(store):
    async with Answering(lambda _: None) as server, Prometheus(server.url) as prometheus:
        assert await backfill(store.loads, prometheus, WEB, TARGET, NOON) is None
        server.asked.clear()
        assert await backfill(store.loads, prometheus, WEB, TARGET, NOON + HOUR) is None

    assert 1 == len(server.asked)


async def test_a_store_that_cannot_be_written_ends_a_backfill(store):
    """Such as a file that was opened to read."""
    reader = Store.open_to_read(store.address)
    async with Answering() as server, Prometheus(server.url) as prometheus:
        with pytest.raises(StoreError, match="nothing was recorded"):
            await backfill(reader.loads, prometheus, WEB, TARGET, NOON)

    reader.close()


@pytest.mark.parametrize(("days", "begin"), [(0.5, NOON - 12 * HOUR), (2, NOON - 2 * DAY), (99, NOON - 28 * DAY)])
def test_at_most_28_days_of_the_past_are_queried(days, begin):
    assert (begin, NOON) == span_of(days, NOON)
