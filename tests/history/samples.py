"""Series, samples, old files and watched databases that tests of the history share."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.history.database.address import PostgresAddress
from cronhpa.history.database.series import STEP, LoadSample, Series

NOON = parse_instant("2026-03-01T12:00:00Z")
WEB = Series("shop", "web", "cpu")
API = Series("shop", "api", "cpu")


def sample(seconds, value, series=WEB):
    """A load so many seconds after noon."""
    return LoadSample(series, NOON + seconds * SECOND, value)


def everything(store, series=WEB):
    """(start, maximum) of every step that the store has of a series."""
    return store.loads.steps(series, 0, 2**63)


def forecast(start, *, load=(1.0, 2.0), issued_at=None):
    return Forecast(
        metric="cpu",
        issued_at=start if issued_at is None else issued_at,
        start=start,
        step=STEP,
        load=load,
        ceiling=3.3,
        model="PeriodicAutoregression",
        quantile_percent=95,
        trained_until=NOON,
        coverage_percent=94,
    )


def raw(address, *statements):
    """Run statements on the store as another program would; the rows of the last one."""
    connection: Any
    if isinstance(address, PostgresAddress):
        connection = psycopg.connect(address.url, autocommit=True)
    else:
        connection = sqlite3.connect(address, isolation_level=None)
    try:
        done = [connection.execute(statement) for statement in statements][-1]
        return done.fetchall() if done.description else []
    finally:
        connection.close()


class WatchedDatabase:
    """A database that tells `seen` of every statement before it runs the statement."""

    def __init__(self, database, seen):
        self._database, self._seen = database, seen

    @property
    def ids(self):
        return self._database.ids

    def read(self, work):
        return self._database.read(lambda db: work(WatchedConnection(db, self._seen)))

    def write(self, work):
        return self._database.write(lambda db: work(WatchedConnection(db, self._seen)))

    def close(self):
        self._database.close()


class WatchedConnection:
    def __init__(self, connection, seen):
        self._connection, self._seen = connection, seen

    def execute(self, statement, values=()):
        self._seen(statement)
        return self._connection.execute(statement, values)

    def executemany(self, statement, rows):
        self._seen(statement)
        return self._connection.executemany(statement, rows)


_VERSION_1 = """
CREATE TABLE series (
    id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, name TEXT NOT NULL, metric TEXT NOT NULL,
    UNIQUE (namespace, name, metric)
);
CREATE TABLE minute (minute INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (minute, series)) WITHOUT ROWID;
CREATE TABLE step (step INTEGER, series INTEGER, high REAL NOT NULL, PRIMARY KEY (step, series)) WITHOUT ROWID;
CREATE TABLE day (series INTEGER, day INTEGER, highs BLOB NOT NULL, PRIMARY KEY (series, day));
CREATE TABLE fit (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, fitted_at INTEGER NOT NULL, trained_until INTEGER NOT NULL,
    state BLOB NOT NULL
);
CREATE TABLE fitted (series INTEGER PRIMARY KEY, fit INTEGER NOT NULL);
CREATE INDEX fitted_by_fit ON fitted (fit);
CREATE TABLE forecast (
    series INTEGER, start INTEGER, issued_at INTEGER NOT NULL, step INTEGER NOT NULL, load BLOB NOT NULL,
    ceiling REAL NOT NULL, model TEXT NOT NULL, quantile_percent INTEGER NOT NULL, trained_until INTEGER NOT NULL,
    coverage_percent INTEGER, PRIMARY KEY (series, start)
);
INSERT INTO series VALUES (7, 'shop', 'web', 'cpu');
INSERT INTO fit VALUES (1, 'm', 5, 4, x'00');
INSERT INTO fitted VALUES (7, 1);
PRAGMA user_version = 1;
"""


def write_version_1(path):
    """A store of the first release, with 2.5 cores at noon and at five past."""
    earlier = sqlite3.connect(path)
    earlier.executescript(_VERSION_1)
    earlier.executemany("INSERT INTO step VALUES (?, 7, 2.5)", [(NOON // STEP,), (NOON // STEP + 1,)])
    earlier.commit()
    earlier.close()
