"""A store into another one, of the same database or the other."""

from contextlib import closing

import pytest
from msgspec import Raw
from typer.testing import CliRunner

from cronhpa.cli.commands.history import app
from cronhpa.core.model.instant import DAY, HOUR, MINUTE
from cronhpa.history.database.address import PostgresAddress
from cronhpa.history.database.copy import copy_store, newest_step
from cronhpa.history.database.series import STEP, LoadSample, Series
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.load.spend import Spend
from cronhpa.history.past.decisions import KeptDecision
from cronhpa.history.past.event_reports import PastReport
from cronhpa.history.past.past_decision import PastDecision
from cronhpa.history.past.points import Point
from cronhpa.history.store import Store
from history.samples import API, NOON, WEB, everything, forecast, raw, sample


def fill(store):
    """Something in each table: packed days with minutes, rows of steps and minutes, and all that is learnt."""
    store.loads.backfill(WEB, [(NOON - DAY + i * MINUTE, float(i)) for i in range(300)])
    store.loads.record([sample(60 * i, 7.0 + i) for i in range(30)])
    store.loads.record([sample(0, 1.0, API)])
    store.loads.note_backfill(WEB, NOON)
    store.fits.save(Fit("m", NOON, NOON, b"state"), {WEB: FitInfo(NOON, "spec", b"choice"), API: FitInfo(NOON)})
    store.forecasts.save([(WEB, forecast(NOON))])
    store.spend.add([Spend(WEB, NOON // HOUR, 60.0, 600.0)])
    decided = PastDecision(NOON, Raw(b'{"status":{}}'), Raw(b'{"now":1}'), "0.1.0")
    store.decisions.record([KeptDecision("prod", "web", "digest", decided)])
    store.decisions.record_points([("prod", "web", Point(NOON - 3 * DAY, 4, 4, 1.5, 2, 9, None))])
    assert store.decisions.tidy(NOON + MINUTE) is None  # the minute of the first object: its older days are packed
    store.reports.record([PastReport("prod", "sale", NOON, {"peakPods": 9})])
    store.decisions.record_points([("prod", "web", Point(NOON, 5, 5, 1.5, 2, 9, None))])


def content(store):
    return (
        store.loads.series(),
        [store.loads.steps(series, 0, 2**63) for series in (WEB, API)],
        [store.loads.minutes(series, 0, 2**63) for series in (WEB, API)],
        store.loads.backfilled_until(WEB),
        store.fits.infos(),
        store.fits.newest([WEB, API]),
        store.forecasts.newest(),
        store.forecasts.issued_quantiles([WEB], NOON, NOON + DAY),
        store.spend.since(0),
        store.decisions.at("prod", "web", NOON),
        store.decisions.points("prod", "web", 0, NOON + DAY),
        store.reports.newest(),
    )


@pytest.fixture(params=["into a file", "into PostgreSQL"])
def target(request, tmp_path, new_schema):
    """An empty store."""
    opened = Store(tmp_path / "target.db" if request.param == "into a file" else new_schema())
    yield opened
    opened.close()


def test_a_copy_reads_as_the_store_that_it_was_made_of(store, target):
    fill(store)
    told = []

    copied = copy_store(store, target, lambda done, total: told.append((done, total)))

    assert content(store) == content(target)
    assert all(table.source == table.target > 0 for table in copied)
    assert told[-1][0] == told[-1][1] == sum(table.source for table in copied)


def test_a_copy_into_a_store_with_ids_of_its_own_mixes_no_series_up(store, target):
    """Ids are given anew: the target's first series is not the source's."""
    other = Series("other", "web", "cpu")
    target.loads.record([sample(0, 9.0, other)])
    target.fits.save(Fit("m", 1, 1, b"other"), {other: FitInfo(1)})
    fill(store)

    copy_store(store, target)

    assert [(NOON, 9.0)] == everything(target, other)
    assert everything(store) == everything(target)
    assert [(Fit("m", 1, 1, b"other"), [other])] == target.fits.newest([other])
    assert store.fits.newest([WEB]) == target.fits.newest([WEB])


def test_a_copy_that_is_run_again_changes_nothing(store, target):
    fill(store)

    first, again = copy_store(store, target), copy_store(store, target)

    assert first == again
    assert content(store) == content(target)


def turns(store, target):
    """Two replicas with a store each, which lead in turns: even hours of a day are of one, odd ones of the other."""
    for hour in range(6):
        of, at = (store if hour % 2 == 0 else target), NOON + hour * HOUR
        of.loads.record([LoadSample(WEB, at, 10.0 + hour)])
        made = PastDecision(at, Raw(f'{{"hour":{hour}}}'.encode()))
        assert of.decisions.record([KeptDecision("prod", "web", str(hour % 2), made)]) is None
        again = PastDecision(at + MINUTE, Raw(f'{{"hour":{hour},"minute":1}}'.encode()))
        assert of.decisions.record([KeptDecision("prod", "web", "again", again)]) is None
        of.decisions.record_points([("prod", "web", Point(at, hour, 5, 1.5, 2, 9, None))])


@pytest.mark.parametrize("is_packed", [True, False])
def test_the_copies_of_two_replicas_that_led_in_turns_have_the_past_of_both(store, target, is_packed):
    """
    Found: blocks of decisions overlapped, so `explain --at` named an older decision; days of loads and points were
    replaced by those of the replica that was copied last.
    """
    turns(store, target)
    later = NOON + DAY
    if is_packed:
        for one in (store, target):
            assert one.compact(later) is None
            assert one.decisions.tidy(later + MINUTE) is None

    for _ in range(2):
        copied = copy_store(store, target)

        assert all(table.target >= table.source for table in copied)
        hours = [NOON + hour * HOUR for hour in range(6)]
        assert [(at, 10.0 + hour) for hour, at in enumerate(hours)] == target.loads.steps(WEB, 0, 2**63)
        assert [(at, hour) for hour, at in enumerate(hours)] == [
            (point.at, point.replicas) for point in target.decisions.points("prod", "web", 0, later)
        ]
        decided = [instant for at in hours for instant in (at, at + MINUTE)]
        past = target.decisions
        assert decided == [kept.at for kept in past.between("prod", "web", 0, later, 99)]
        assert decided == [past.at("prod", "web", at + 30).at for at in decided]
        assert decided == [past.after("prod", "web", at - 1).at for at in decided]


def test_the_first_decision_after_a_copy_is_kept_although_the_target_kept_it_last(store, target):
    """The source has a newer one, of another leader: without it that one would be in force for ever."""
    same, other = (PastDecision(NOON + i * HOUR, Raw(b"{}")) for i in (0, 1))
    target.decisions.record([KeptDecision("prod", "web", "same", same)])
    store.decisions.record([KeptDecision("prod", "web", "other", other)])
    copy_store(store, target)

    target.decisions.record([KeptDecision("prod", "web", "same", PastDecision(NOON + 2 * HOUR, Raw(b"{}")))])

    assert NOON + 2 * HOUR == target.decisions.at("prod", "web", NOON + DAY).at


@pytest.mark.parametrize("damaged", ["source", "target"])
@pytest.mark.parametrize("column", ["minutes.shares", "day.highs", "points.packed"])
def test_of_two_values_of_a_day_the_whole_one_stays(store, target, column, damaged):
    """Found: damaged minutes of the source replaced the target's good ones."""
    fill(store)
    copy_store(store, target)
    before = content(store)
    table, name = column.split(".")
    address = (store if damaged == "source" else target).address
    empty = "''" if isinstance(address, PostgresAddress) else "x''"
    raw(address, f"UPDATE {table} SET {name} = {empty}")

    copy_store(store, target)

    assert before == content(target)


def test_the_newest_step_is_that_of_the_rows_or_else_of_the_days(store):
    before = newest_step(store)
    store.loads.backfill(WEB, [(NOON - DAY, 1.0)])
    packed = newest_step(store)
    store.loads.record([sample(0, 1.0)])

    assert (None, NOON - DAY + STEP, NOON + STEP) == (before, packed, newest_step(store))


def command(*arguments):
    texts = [one.url if isinstance(one, PostgresAddress) else str(one) for one in arguments]
    return CliRunner().invoke(app, ["copy", *texts], env={"COLUMNS": "120"})


def test_the_command_prints_the_rows_of_each_table_in_both(file_store, new_schema):
    fill(file_store)
    address = new_schema()

    done = command(file_store.address, address)

    assert 0 == done.exit_code, done.output
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert f"series             2 rows,           2 in {address}" == lines["series"]
    assert ["1", "1"] == [word for word in lines["spend"].split() if word.isdigit()]
    with closing(Store(address)) as copied:
        assert content(file_store) == content(copied)


def test_the_command_refuses_a_target_with_newer_loads_unless_told(file_store, new_schema):
    fill(file_store)
    address = new_schema()
    with closing(Store(address)) as newer:
        newer.loads.record([LoadSample(WEB, NOON + HOUR, 1.0)])

    refused = command(file_store.address, address)
    assert 1 == refused.exit_code
    assert "has loads until 2026-03-01T13:05:00Z" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert [] == raw(address, "SELECT * FROM spend")
    done = command(file_store.address, address, "--overwrite")

    assert 0 == done.exit_code, done.output
    with closing(Store(address)) as copied:
        assert (NOON + HOUR, 1.0) == everything(copied)[-1]
        assert everything(file_store) == everything(copied)[:-1]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{tmp}/none.db", "there is no such file"),
        ("postgresql://app:ge@heim@db/x", "write @ as %40"),
        ("postgresql://app:geheim@127.0.0.1:1/x?connect_timeout=1", "postgresql://127.0.0.1:1/x"),
    ],
)
def test_the_command_says_what_is_wrong_and_tells_no_password(tmp_path, source, said):
    outcome = command(source.format(tmp=tmp_path), tmp_path / "target.db")

    assert outcome.exit_code in {1, 2}
    assert said in " ".join(outcome.stderr.replace("│", " ").split())
    assert "heim" not in outcome.output
