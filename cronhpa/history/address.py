"""
Where a store is: a file, or a PostgreSQL database. This file alone turns the texts of settings into addresses.

An address is shown without user and password.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from cronhpa.core.printable import without_userinfo

_SCHEME = re.compile(r"postgres(?:ql)?://")
# The authority of a URL ends at the first of these.
_AUTHORITY_END = re.compile(r"[/?#]")


class PostgresAddress(Struct, frozen=True, tag=True):
    """
    url: `postgresql://user:password@host/database`, with libpq's parameters.

    password_file: holds the password, and is read anew for each connection.
    """

    url: str
    password_file: str | None = None

    def __str__(self) -> str:
        return without_userinfo(self.url)


StoreAddress = Path | PostgresAddress


def store_address(text: str, password_file: str | None = None) -> StoreAddress:
    """
    The address that a text names: a URL that begins with postgresql://, or the path of a file.

    Raises ValueError. Its message repeats nothing of a URL: any part of one that is written wrong may be a password.
    """
    scheme = _SCHEME.match(text)
    if scheme is None:
        if "://" in text:
            raise ValueError("a path to a file, or postgresql://USER@HOST/DATABASE is accepted")
        return Path(text)
    if any(character.isspace() for character in text):
        raise ValueError("no space is accepted in a URL: %20 stands for it")
    authority, rest = _parted(text[scheme.end() :])
    if authority.count("@") > 1 or "@" in rest or "#" in rest:
        # libpq would take a part of the password for the host, and name that host in its errors.
        raise ValueError("in a user or a password, write @ as %40, / as %2F, : as %3A, # as %23 and ? as %3F")
    if re.search(r"[?&]password=", rest):
        raise ValueError(
            "the password belongs before the host, or into the file that CRONHPA_STORE_PASSWORD_FILE names"
        )
    return PostgresAddress(text, password_file)


def _parted(text: str) -> tuple[str, str]:
    """The authority of a URL without its scheme, and the rest."""
    end = _AUTHORITY_END.search(text)
    return (text, "") if end is None else (text[: end.start()], text[end.start() :])
