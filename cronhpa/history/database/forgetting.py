"""Forgetting what is too old to keep, slowly: a clock may be wrong, and what is forgotten does not come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronhpa.history.database.database import Connection


def forget(db: Connection, table: str, column: str, kept_from: int, at_once: int) -> None:
    """
    Forget the rows below `kept_from`, of these no more than the oldest `at_once`, both in units of the column.

    For a clock that is ahead by months all would be too old, also what other processes recorded.
    """
    (oldest,) = db.execute(f"SELECT min({column}) FROM {table}").fetchone()  # noqa: S608 - literals
    if oldest is not None:
        db.execute(f"DELETE FROM {table} WHERE {column} < ?", (min(kept_from, oldest + at_once),))  # noqa: S608 - literals
