"""
What a database must do for the load history: transactions of portable SQL, and faults as values.

`sqlite` and `postgres` are two such databases: the statements of `series_ids`, `load_history`, `fits`, `forecasts` and
`spend` are SQL that both know, with `?` for each value and no question mark within quotes. Tables and migrations are in
`schema`; everything else that differs between databases is in the database's own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Sized

    from cronhpa.history.database.series_ids import SeriesIds

T = TypeVar("T")


class Fault(Struct, frozen=True, tag=True):
    """Why a transaction wrote nothing, in a sentence for people. All earlier transactions are kept."""

    message: str


class StoreError(Exception):
    """The store cannot be opened or read."""


class Rows(Protocol):
    """The rows that a statement gives."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """Runs statements within one transaction."""

    def execute(self, statement: str, values: Sequence[object] = ..., /) -> Rows: ...
    def executemany(self, statement: str, rows: Iterable[Sequence[object]], /) -> object: ...


class Database(Protocol):
    """One open database, for any thread, one thread at a time."""

    @property
    def ids(self) -> SeriesIds:
        """The row ids of series; for use within `read` and `write` alone."""

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one unchanging state of the database. Raises StoreError where that cannot be read."""

    def write(self, work: Callable[[Connection], T]) -> T | Fault:
        """Run `work` as one transaction: commit all of it, or nothing and return a Fault."""

    def close(self) -> None: ...


def question_marks(values: Sized) -> str:
    """The text between the parentheses of `IN` for so many values: NULL for none, as PostgreSQL has no empty list."""
    return ", ".join("?" * len(values)) or "NULL"
