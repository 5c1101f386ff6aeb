"""What the parts of a store ask of their database: transactions, and SQL that more than one database knows."""

import re

from cronhpa.core.model.instant import DAY, HOUR
from cronhpa.history.database.sqlite import SqliteDatabase
from cronhpa.history.load.fits import Fit, FitInfo
from cronhpa.history.load.spend import Spend
from cronhpa.history.store import Store
from history.samples import NOON, WEB, WatchedDatabase, forecast, sample

# What SQLite knows and PostgreSQL does not: https://www.sqlite.org/lang.html against PostgreSQL 17's SQL reference.
_SQLITE_ALONE = re.compile(
    r"\bINSERT OR\b|\bREPLACE INTO\b|\bPRAGMA\b|\browid\b|\btotal\(|\bifnull\(|\bmax\([^()]*,|\bmin\([^()]*,"
    r"|\bCROSS JOIN \w+ ON\b|\bjulianday\(|\bstrftime\(|\bGLOB\b|\bx'",
    re.IGNORECASE,
)


def test_every_statement_of_the_parts_is_sql_that_postgresql_knows_too(tmp_path):
    statements = []
    store = Store(tmp_path / "history.db", lambda path: WatchedDatabase(SqliteDatabase.open(path), statements.append))
    store.loads.record([sample(0, 1.0)])
    store.loads.backfill(WEB, [(NOON - DAY, 1.0)])
    store.loads.note_backfill(WEB, NOON)
    store.fits.save(Fit("m", 1, 1, b"state"), {WEB: FitInfo(1)})
    store.forecasts.save([(WEB, forecast(NOON))])
    store.spend.add([Spend(WEB, NOON // HOUR, 1.0, 2.0)])

    assert store.loads.coverage() != []
    assert store.loads.minutes(WEB, NOON - DAY, NOON + HOUR) != []
    assert NOON == store.loads.backfilled_until(WEB)
    assert store.fits.newest([WEB]) != []
    assert store.fits.infos() != {}
    assert store.forecasts.newest() == store.forecasts.newest_of([WEB])
    assert store.forecasts.issued_quantiles([WEB], NOON, NOON + HOUR)[WEB] != []
    assert store.loads.packed([WEB], NOON - DAY, NOON + HOUR).minutes.highs != []
    assert store.spend.since(0) != []
    assert (1.0, 2.0) == store.spend.total(WEB, NOON - DAY, NOON + DAY)
    assert store.compact(NOON + DAY) is None
    store.close()

    assert len(set(statements)) > 40
    assert [] == [statement for statement in statements if _SQLITE_ALONE.search(statement)]


def test_what_a_transaction_of_the_parts_writes_is_written_all_or_not_at_all(tmp_path):
    """A store whose database refuses the second of two tables has nothing in the first."""

    def refuse(statement):
        if "INTO stated" in statement:
            raise ValueError("no room")

    store = Store(tmp_path / "history.db", lambda path: WatchedDatabase(SqliteDatabase.open(path), refuse))

    fault = store.forecasts.save([(WEB, forecast(NOON))])

    assert "no room: nothing was recorded" in fault.message
    assert ({}, []) == (store.forecasts.newest(), store.loads.series())
    store.close()
