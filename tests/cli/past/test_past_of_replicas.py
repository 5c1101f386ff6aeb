"""cronhpa.cli.past.past_of_replicas: the records of all replicas are joined to one past."""

import asyncio

import pytest

from cli.past_life import FIRST, NOW, kept, life
from cronhpa.cli.past.past_of_replicas import PastSourceError, Replicas, whole_timeline
from cronhpa.cli.past.past_source import PastLocation, opened
from cronhpa.core.model.instant import HOUR, MINUTE
from cronhpa.core.model.record import encode
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.history.past.past_answers import DecisionChange, TimelineAnswer
from cronhpa.history.store import Store

CPU = Series("prod", "shop", "cpu")


class Parts:
    """A source that answers three changes at a time."""

    def __init__(self):
        self.asked = []

    async def timeline(self, _namespace, _name, since, until):
        self.asked.append(since)
        changes = [
            DecisionChange(number, 4, number, "Spec", "", "", 0) for number in range(since, min(since + 3, until))
        ]
        going = since + 3 if since + 3 < until else None
        return TimelineAnswer(None, changes, [], 0, going)


def test_a_long_timeline_is_asked_for_part_by_part():
    source = Parts()

    timeline = asyncio.run(whole_timeline(source, "prod", "shop", 0, 10))

    assert list(range(10)) == [change.at for change in timeline.changes]
    assert [0, 3, 6, 9] == source.asked


def replicas(tmp_path, ask, *written):
    """What `ask` makes of the replicas whose stores these functions write."""

    async def scenario(paths):
        sources = []
        for path in paths:
            opening = opened(PastLocation(store=path))
            sources.append((opening, await opening.__aenter__()))
        answer = await ask(Replicas([source for _, source in sources]))
        for opening, _ in sources:
            await opening.__aexit__(None, None, None)
        return answer

    paths = [tmp_path / f"{number}.db" for number in range(len(written))]
    for path, write in zip(paths, written, strict=True):
        store = Store(path)
        write(store)
        store.close()
    return asyncio.run(scenario(paths))


def test_of_each_instant_the_latest_decision_is_told(tmp_path):
    """The first led for two decisions, the second from then on."""
    reconciliations = list(life())

    def led(part):
        return lambda store: store.decisions.record(
            [kept(record.now, {"status": status}, encode(record).encode()) for record, status in part]
        )

    async def ask(both):
        decisions = [await both.decision("prod", "shop", FIRST + hour * HOUR) for hour in range(5)]
        return decisions, await both.timeline("prod", "shop", FIRST + 1, NOW)

    decisions, timeline = replicas(tmp_path, ask, led(reconciliations[:2]), led(reconciliations[2:]))

    assert [FIRST + hour * HOUR for hour in range(5)] == [decision.decision.at for decision in decisions]
    assert [FIRST + hour * HOUR for hour in range(1, 5)] == [decision.until for decision in decisions[:4]]
    assert {FIRST} == {decision.first for decision in decisions}
    assert FIRST == timeline.before.at
    assert [FIRST + hour * HOUR for hour in range(1, 5)] == [change.at for change in timeline.changes]


def recorded(*samples):
    return lambda store: store.loads.record([LoadSample(CPU, FIRST + at * MINUTE, value) for at, value in samples])


def test_of_each_minute_the_largest_load_is_told(tmp_path):
    """Both recorded minute 1, when the lead changed hands. A minute is known when it is over."""

    async def ask(both):
        return await both.load(CPU)

    load = replicas(tmp_path, ask, recorded((0, 1.0), (1, 2.0)), recorded((1, 3.0), (2, 4.0)))

    assert [(FIRST + MINUTE, 1.0), (FIRST + 2 * MINUTE, 3.0), (FIRST + 3 * MINUTE, 4.0)] == [
        (maximum.end, maximum.value) for maximum in load.maxima
    ]
    assert {MINUTE // 2} == {maximum.end - maximum.middle for maximum in load.maxima}


def test_a_load_that_no_replica_recorded_is_none(tmp_path):
    async def ask(both):
        return await both.load(Series("prod", "shop", "memory"))

    assert replicas(tmp_path, ask, recorded((0, 1.0)), recorded()) is None


class Gone:
    """A replica whose port is forwarded, and where nothing listens yet."""

    def __init__(self):
        self.times_asked = 0

    async def decision(self, *_):
        self.times_asked += 1
        raise PastSourceError("cronhpa-system/cronhpa-1: it does not listen")

    timeline = decision


def test_a_replica_that_gives_no_answer_is_named_once_and_the_other_tells_what_it_kept(capsys):
    gone, parts = Gone(), Parts()

    async def twice():
        both = Replicas([gone, parts])
        return [await both.timeline("shop", "web", 0, 10) for _ in range(2)]

    told = asyncio.run(twice())

    assert told[0].changes
    assert 1 == gone.times_asked
    assert "left out: cronhpa-system/cronhpa-1: it does not listen\n" == capsys.readouterr().err


def test_where_no_replica_answers_the_first_problem_is_told():
    with pytest.raises(PastSourceError, match="it does not listen"):
        asyncio.run(Replicas([Gone(), Gone()]).decision("shop", "web", 0))
