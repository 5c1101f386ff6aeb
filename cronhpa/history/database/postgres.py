"""
The store's database in a PostgreSQL that several replicas share.

All that is PostgreSQL's own is here: placeholders, types, schema, migrations, locks, timeouts and connecting again.
Imported by `store` for a postgresql:// address alone, because psycopg is an extra.

As in SQLite there is one writer at a time: a write transaction begins with an advisory lock of its schema. So two
replicas never add the same series twice and never wait for each other's rows in a circle, and ids are committed in the
order in which they are given, which `SeriesIds.check` relies on.

A server that is down, slow or full gives a `Fault` or a StoreError within seconds. The next transaction opens a lost
connection again, in one attempt: the caller's transactions set the pace of attempts.
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import psycopg
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper, TextLoader

from cronhpa.core.model.instant import SECOND, Nanoseconds
from cronhpa.history.database.address import SHOWN_PARAMETERS
from cronhpa.history.database.database import Connection, Fault, Rows, StoreError
from cronhpa.history.database.schema import SCHEMA, Schema
from cronhpa.history.database.series_ids import SeriesIds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from psycopg.abc import PQGen

    from cronhpa.history.database.address import PostgresAddress

T = TypeVar("T")

# A store was first kept in PostgreSQL with tables of this version.
_FIRST_VERSION = 3

# Translates `schema` from SQLite's words. COLLATE "C": names are in the order of their bytes, as in SQLite, whatever
# the locale of the database. BIGINT: an INTEGER of SQLite has 64 bits.
_WORDS = (
    (re.compile(r"\bid INTEGER PRIMARY KEY(?: AUTOINCREMENT)?"), "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    (re.compile(r"\bINTEGER\b"), "BIGINT"),
    (re.compile(r"\bREAL\b"), "DOUBLE PRECISION"),
    (re.compile(r"\bBLOB\b"), "BYTEA"),
    (re.compile(r"\bTEXT\b"), 'TEXT COLLATE "C"'),
    (re.compile(r"\bWITHOUT ROWID\b"), ""),
    (re.compile(r"\bx''"), "''"),
)

CONNECT_SECONDS = 3
# The server ends a statement after so long; a server that does not answer at all is given up a second later. So the
# last flush of an operator that stops fits into what its reconciliations leave of 30 s.
STATEMENT_TIMEOUT: Nanoseconds = 8 * SECOND
# A writer that is stopped in the middle of a transaction (SIGSTOP, a lost node) has the lock for so long.
_IDLE_TIMEOUT: Nanoseconds = 15 * SECOND
_ANSWER_SECONDS = 1.0
# The parameters of a connection whose URL does not state them. The last four notice a peer that vanished without
# closing the connection.
_DEFAULTS = {
    "connect_timeout": CONNECT_SECONDS, "application_name": "cronhpa",
    "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000,
}  # fmt: skip

# A shorter text of a URL is no secret, and a part of ordinary words.
_HIDDEN_MIN = 4
# PostgreSQL cuts off longer names (NAMEDATALEN - 1).
_NAME_BYTES = 63
_OPTION = re.compile(r"[^\s=]+")
# Values that are words of libpq's manual, which its errors need.
_WORDS_OF_LIBPQ = frozenset(
    {"disable", "allow", "prefer", "require", "verify-ca", "verify-full", "cronhpa", "postgres"}
)

_UNREADABLE = (psycopg.Error, msgspec.MsgspecError, TypeError, ValueError)

# Two stores may lie in two schemas of one database: the lock belongs to the schema. 0x6370: "cp".
_LOCK = "SELECT pg_advisory_xact_lock(25456, (current_schema()::regnamespace::oid::bigint % 2147483647)::int)"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Not by to_regclass, which may answer from the session's cache of before it waited for the lock.
_HAS_TABLES = """
    SELECT count(*) FROM pg_class WHERE relname = 'cronhpa_schema' AND relnamespace = current_schema()::regnamespace
"""


class PostgresDatabase:
    """
    One connection to a database, opened again after it is lost.

    `open` makes or migrates the schema; `open_unmigrated` makes it, and refuses that of an earlier release;
    `open_to_read` leaves it as it is.
    """

    def __init__(
        self,
        address: PostgresAddress,
        schema: Schema,
        prepare: Callable[[Connection, PostgresAddress, Schema], None],
        statement_timeout: Nanoseconds,
    ) -> None:
        self._address = address
        self._schema = schema
        self._prepare = prepare
        self._statement_timeout = statement_timeout
        self._lock = threading.Lock()
        self._ids = SeriesIds()
        self._connection: psycopg.Connection[Any] | None = None
        self._is_closed = False
        with self._lock:
            try:
                self._connected()
            except _UNREADABLE as problem:
                self._drop()
                raise StoreError(self._words(problem)) from None
            except StoreError:
                self._drop()
                raise

    @classmethod
    def open(
        cls, address: PostgresAddress, *, statement_timeout: Nanoseconds = STATEMENT_TIMEOUT, schema: Schema = SCHEMA
    ) -> PostgresDatabase:
        """
        Connect; make the tables where there are none, migrate them where an earlier release made them.

        statement_timeout: of each statement, and of the wait for another writer. Raises StoreError.
        """
        return cls(address, schema, _migrate, statement_timeout)

    @classmethod
    def open_unmigrated(cls, address: PostgresAddress, *, schema: Schema = SCHEMA) -> PostgresDatabase:
        """As `open`, but refuse the tables of an earlier release: its operator may be using them."""
        return cls(address, schema, _make, STATEMENT_TIMEOUT)

    @classmethod
    def open_to_read(cls, address: PostgresAddress, *, schema: Schema = SCHEMA) -> PostgresDatabase:
        """Connect to read tables of this release or an earlier one; `write` gives a Fault. Raises StoreError."""
        return cls(address, schema, _check_readable, STATEMENT_TIMEOUT)

    @property
    def ids(self) -> SeriesIds:
        return self._ids

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._drop()

    def write(self, work: Callable[[Connection], T]) -> T | Fault:
        """Run `work` as one transaction: commit all of it, or nothing and return a Fault."""
        with self._lock:
            try:
                db = self._connected()
                db.execute("BEGIN")
                db.execute(_LOCK)
                self._check(db)
                outcome = work(db)
                db.execute("COMMIT")
            except (*_UNREADABLE, StoreError) as problem:
                self._undo()
                if isinstance(problem, psycopg.errors.ReadOnlySqlTransaction):
                    # A standby, to which a name led during a failover. A new connection finds where it leads by now.
                    self._drop()
                return Fault(f"{self._words(problem)}: nothing was recorded")
            except BaseException:
                self._undo()
                raise
            return outcome

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one unchanging state of the database."""
        with self._lock:
            try:
                db = self._connected()
                db.execute(_READ)
                self._check(db)
                return work(db)
            except _UNREADABLE as problem:
                raise StoreError(self._words(problem)) from None
            finally:
                self._roll_back()

    def _connected(self) -> _Statements:
        """The open connection, or a new one. Raises psycopg.Error and StoreError."""
        if self._is_closed:
            raise StoreError(f"{self._address}: it was closed")
        if self._connection is None or self._connection.closed:
            self._ids.clear()
            self._connection = _connect(self._address, self._statement_timeout)
            if self._prepare is _check_readable:
                self._connection.execute("SET default_transaction_read_only = on")
            self._prepare(_Statements(self._connection), self._address, self._schema)
        return _Statements(self._connection)

    def _check(self, db: _Statements) -> None:
        """Within a transaction: another process may have migrated the tables, or have forgotten series."""
        if self._prepare is not _check_readable:
            _check_current(db, self._address, self._schema)
        self._ids.check(db)

    def _undo(self) -> None:
        # Ids that the transaction gave to new series are void.
        self._ids.clear()
        self._roll_back()

    def _roll_back(self) -> None:
        """End the transaction; where that is not possible, the connection."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        status = connection.pgconn.transaction_status
        if status == psycopg.pq.TransactionStatus.IDLE:
            return
        try:
            if status == psycopg.pq.TransactionStatus.ACTIVE:
                raise psycopg.OperationalError("a statement is still under way")
            connection.execute("ROLLBACK")
        except psycopg.Error:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _words(self, problem: BaseException) -> str:
        if isinstance(problem, StoreError):
            return str(problem)
        # libpq gives several lines, one for each address that it tried; the first says enough.
        lines = _without(_hidden(self._address), str(problem)).strip().splitlines() or [type(problem).__name__]
        return f"{self._address}: {lines[0]}"


class _Statements:
    """Portable statements on a connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[object] = ()) -> Rows:
        # psycopg parses a statement without values the same way, and prepares one that is used often.
        return self._connection.execute(_numbered(statement).encode(), values or None)

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """All rows are on their way before the first answer is waited for (libpq's pipeline)."""
        with self._connection.cursor() as cursor:
            # As a list, because the iterator of rows may query this connection for ids.
            cursor.executemany(_numbered(statement).encode(), list(rows))


@lru_cache(maxsize=64)
def _numbered(statement: str) -> str:
    """`?` as PostgreSQL writes it: $1, $2. No statement of the store has a question mark within quotes."""
    if "?" not in statement:
        return statement
    numbers = count(1)
    first, *rest = statement.split("?")
    return first + "".join(f"${next(numbers)}{part}" for part in rest)


class _Impatient(psycopg.Connection[Any]):
    """Waits for an answer as long as the server may take, and a second: a server that is cut off ends no statement."""

    answer_seconds = 10.0

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        return super().wait(gen, interval, self.answer_seconds if timeout is None else timeout)


class _NameDumper(StrDumper):
    r"""PostgreSQL's text has no NUL, which names of others may have: \0 stands for it, and \\ for a backslash."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\\", "\\\\").replace("\0", "\\0"))


class _NameLoader(TextLoader):
    def load(self, data: Any) -> Any:
        text = super().load(data)
        assert isinstance(text, str), "the client's encoding is UTF-8"
        return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\")) if "\\" in text else text


def _connect(address: PostgresAddress, statement_timeout: Nanoseconds) -> psycopg.Connection[Any]:
    """Raises psycopg.Error, and StoreError for a password file that cannot be read."""
    milliseconds = statement_timeout // 10**6
    parameters = {**_DEFAULTS, **_stated(address), **_password(address)}
    connection = _Impatient.connect(autocommit=True, cursor_factory=psycopg.RawCursor, **parameters)
    connection.answer_seconds = statement_timeout / SECOND + _ANSWER_SECONDS
    adapters = connection.adapters
    # One type for all integers: a statement's types, and so its plan, do not depend on how large a value is.
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(str, _NameDumper)
    adapters.register_loader("text", _NameLoader)
    connection.execute(
        f"SET statement_timeout = {milliseconds}; SET lock_timeout = {milliseconds};"
        f"SET idle_in_transaction_session_timeout = {_IDLE_TIMEOUT // 10**6}; SET client_encoding = 'UTF8'".encode()
    )
    return connection


def _stated(address: PostgresAddress) -> dict[str, Any]:
    """The parameters that the URL states, as libpq reads them. Raises StoreError."""
    try:
        return psycopg.conninfo.conninfo_to_dict(address.url)
    except psycopg.ProgrammingError:
        # libpq's own words repeat the part of the URL, or all of it.
        raise StoreError(
            f"{address}: libpq cannot read the URL: postgresql://USER@HOST:PORT/DATABASE?NAME=VALUE is accepted, with"
            " the names of libpq's parameters"
        ) from None


def _hidden(address: PostgresAddress) -> set[str]:
    """The texts of the URL that no error may repeat, the longest of them as the server cuts off names, too."""
    try:
        parts = _stated(address)
    except StoreError:
        return set()
    shown = {str(value) for name, value in parts.items() if name in SHOWN_PARAMETERS}
    values = {str(value) for name, value in parts.items() if name not in SHOWN_PARAMETERS}
    # The server complains about a setting in `options` by its name, or by its value.
    values |= {part.removeprefix("-c") for part in _OPTION.findall(str(parts.get("options", "")))}
    values |= {value.encode()[:_NAME_BYTES].decode(errors="ignore") for value in values}
    return {value for value in values - shown - _WORDS_OF_LIBPQ if len(value) >= _HIDDEN_MIN}


def _without(hidden: set[str], text: str) -> str:
    for value in sorted(hidden, key=len, reverse=True):
        text = text.replace(value, "...")
    return text


def _password(address: PostgresAddress) -> dict[str, Any]:
    if address.password_file is None:
        return {}
    try:
        return {"password": Path(address.password_file).read_text(encoding="utf-8").rstrip("\r\n")}
    except (OSError, ValueError) as problem:
        raise StoreError(f"{address.password_file}: {problem}: a file with the store's password is needed") from None


def _migrate(db: Connection, address: PostgresAddress, schema: Schema) -> None:
    """Makes or migrates the tables. Of several processes one does it; the others wait for the lock, then do nothing."""

    def work() -> None:
        _make_tables(db, schema)
        while (version := _found_version(db)) in schema.migrations and version is not None:
            _run(db, schema.migrations[version])
            db.execute("UPDATE cronhpa_schema SET version = ?", (version + 1,))

    if _found_version(db) in {None, *schema.migrations}:
        _in_one_transaction(db, work)
    _check_current(db, address, schema)


def _make(db: Connection, address: PostgresAddress, schema: Schema) -> None:
    if _found_version(db) is None:
        _in_one_transaction(db, partial(_make_tables, db, schema))
    _check_current(db, address, schema)


def _make_tables(db: Connection, schema: Schema) -> None:
    """Within a transaction that has the lock: another process may have made them while this one waited for it."""
    if _found_version(db) is None:
        _run(db, schema.tables)
        db.execute("CREATE TABLE cronhpa_schema (version BIGINT NOT NULL)")
        db.execute("INSERT INTO cronhpa_schema VALUES (?)", (schema.version,))


def _in_one_transaction(db: Connection, work: Callable[[], None]) -> None:
    db.execute("BEGIN")
    try:
        db.execute(_LOCK)
        work()
        db.execute("COMMIT")
    except BaseException:
        with suppress(psycopg.Error):
            db.execute("ROLLBACK")
        raise


def _run(db: Connection, script: str) -> None:
    """Run statements that are written in SQLite's words."""
    for word, own in _WORDS:
        script = word.sub(own, script)
    for statement in script.split(";\n"):
        db.execute(statement)


def _found_version(db: Connection) -> int | None:
    """The version of the tables; None if there are none."""
    if not db.execute(_HAS_TABLES).fetchone()[0]:
        return None
    version: int = db.execute("SELECT version FROM cronhpa_schema").fetchone()[0]
    return version


def _check_current(db: Connection, address: PostgresAddress, schema: Schema) -> None:
    (version,) = db.execute("SELECT version FROM cronhpa_schema").fetchone()
    if version > schema.version:
        raise StoreError(
            f"{address}: schema version {version}: this release reads version {schema.version}; "
            "use the release that wrote it, or another database"
        )
    if version < schema.version:
        raise StoreError(
            f"{address}: schema version {version} of an earlier release, whose operator may be using it: this release "
            f"writes version {schema.version}; upgrade the operator, which migrates it"
        )


def _check_readable(db: Connection, address: PostgresAddress, schema: Schema) -> None:
    version = _found_version(db)
    if version is None:
        raise StoreError(f"{address}: it has no tables of cronhpa: the operator makes them")
    if version > schema.version:
        raise StoreError(
            f"{address}: schema version {version}: this release reads versions {_FIRST_VERSION} to {schema.version}; "
            "use the release that wrote it"
        )
