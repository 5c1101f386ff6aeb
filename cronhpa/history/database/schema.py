"""
The tables of a store, and the migrations from one release's tables to the next one's.

Written in SQLite's words. `postgres` translates them: a word that is new here needs a translation there.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Schema(Struct, frozen=True):
    version: int
    tables: str
    """Statements that make all tables of `version`, with a line end after each semicolon."""
    migrations: Mapping[int, str]
    """Statements by version: they turn its tables into those of the next version."""


# Decisions. last: the digest of the newest kept decision. bytes: the size of the object's blocks in `decided`.
# Times of `decided` are nanoseconds; those of points are counted in steps and days since the Unix epoch. packed: JSON
# lines under gzip.
_DECISIONS = """
CREATE TABLE object (
    id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, name TEXT NOT NULL, last TEXT NOT NULL,
    bytes INTEGER NOT NULL, UNIQUE (namespace, name)
);
CREATE TABLE decided (
    object INTEGER, first INTEGER, last INTEGER NOT NULL, packed BLOB NOT NULL, PRIMARY KEY (object, first)
);
CREATE TABLE point (
    step INTEGER, object INTEGER, replicas INTEGER NOT NULL, ready INTEGER, load REAL, floor INTEGER NOT NULL,
    cap INTEGER NOT NULL, forecast INTEGER, PRIMARY KEY (step, object)
) WITHOUT ROWID;
CREATE TABLE points (
    object INTEGER, day INTEGER, thinned INTEGER NOT NULL, packed BLOB NOT NULL, PRIMARY KEY (object, day)
)"""
# Reports of planned events. opened: nanoseconds. body: JSON.
_REPORTS = """
CREATE TABLE report (
    namespace TEXT NOT NULL, name TEXT NOT NULL, opened INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (namespace, name, opened)
)"""
_TABLES = f"""
CREATE TABLE series (
    id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, name TEXT NOT NULL, metric TEXT NOT NULL,
    UNIQUE (namespace, name, metric)
);
-- Times are counted in steps, minutes and days since the Unix epoch.
CREATE TABLE minute (minute INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (minute, series)) WITHOUT ROWID;
CREATE TABLE step (step INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (step, series)) WITHOUT ROWID;
CREATE TABLE day (series INTEGER, day INTEGER, highs BLOB NOT NULL, PRIMARY KEY (series, day));
CREATE TABLE minutes (series INTEGER, day INTEGER, shares BLOB NOT NULL, PRIMARY KEY (series, day));
-- One fit covers many series: methods work on wide frames.
CREATE TABLE fit (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, fitted_at INTEGER NOT NULL, trained_until INTEGER NOT NULL,
    state BLOB NOT NULL
);
-- digest: of the parts of the object's spec that the fit depends on. choice: the chosen policy, or why there is none.
CREATE TABLE fitted (
    series INTEGER PRIMARY KEY, fit INTEGER NOT NULL, digest TEXT NOT NULL DEFAULT '', choice BLOB NOT NULL DEFAULT x''
);
CREATE INDEX fitted_by_fit ON fitted (fit);
-- The newest forecast.
CREATE TABLE forecast (series INTEGER PRIMARY KEY, start INTEGER NOT NULL, value BLOB NOT NULL);
-- For each step, the quantile that the newest forecast of the step before it had issued.
CREATE TABLE stated (
    step INTEGER, series INTEGER, load REAL NOT NULL, percent INTEGER NOT NULL, PRIMARY KEY (step, series)
) WITHOUT ROWID;
-- Pod-seconds of an hour: those that the forecast added, and those without the forecast.
CREATE TABLE spend (
    hour INTEGER, series INTEGER, extra REAL NOT NULL, base REAL NOT NULL, PRIMARY KEY (hour, series)
) WITHOUT ROWID;
-- The end of the history that was asked of another source.
CREATE TABLE backfill (series INTEGER PRIMARY KEY, until INTEGER NOT NULL);
{_DECISIONS};
{_REPORTS};
"""
# Forecasts live for a day, so a migration drops those of earlier releases.
_MIGRATIONS = {
    1: """
ALTER TABLE fitted ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE fitted ADD COLUMN choice BLOB NOT NULL DEFAULT x'';
DROP TABLE forecast;
CREATE TABLE forecast (series INTEGER, start INTEGER, value BLOB NOT NULL, PRIMARY KEY (series, start)) WITHOUT ROWID;
CREATE TABLE spend (
    hour INTEGER, series INTEGER, extra REAL NOT NULL, base REAL NOT NULL, PRIMARY KEY (hour, series)
) WITHOUT ROWID;
CREATE TABLE backfill (series INTEGER PRIMARY KEY, until INTEGER NOT NULL)
""",
    2: """
DROP TABLE forecast;
CREATE TABLE forecast (series INTEGER PRIMARY KEY, start INTEGER NOT NULL, value BLOB NOT NULL);
CREATE TABLE stated (
    step INTEGER, series INTEGER, load REAL NOT NULL, percent INTEGER NOT NULL, PRIMARY KEY (step, series)
) WITHOUT ROWID;
CREATE TABLE minutes (series INTEGER, day INTEGER, shares BLOB NOT NULL, PRIMARY KEY (series, day))
""",
    3: _DECISIONS,
    # Decisions and points of another form, which lived for a week.
    4: """
DELETE FROM decided;
DELETE FROM points;
UPDATE object SET last = '', bytes = 0
""",
    5: _REPORTS,
}

SCHEMA = Schema(6, _TABLES, _MIGRATIONS)
