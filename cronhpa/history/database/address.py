"""
Where a store is: a file, or a PostgreSQL database. This file alone turns the texts of settings into addresses.

Of a URL, host and database alone are shown: every other part may hold a secret.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from cronhpa.core.model.printable import printable

_SCHEME = re.compile(r"postgres(?:ql)?://")
# The authority of a URL ends at the first of these.
_AUTHORITY_END = re.compile(r"[/?#]")
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
# The parameters that name a host or a database.
SHOWN_PARAMETERS = frozenset({"host", "hostaddr", "port", "dbname"})


class PostgresAddress(Struct, frozen=True, tag=True):
    url: str
    """`postgresql://user:password@host/database`, with libpq's parameters."""
    password_file: str | None = None
    """Holds the password, and is read anew for each connection."""

    def __str__(self) -> str:
        """The URL with hosts, ports and database alone."""
        scheme = _SCHEME.match(self.url)
        authority, rest = _parted(self.url[scheme.end() if scheme else 0 :])
        path, _, query = rest.partition("?")
        shown = "&".join(text for text in query.split("&") if _name(text) in SHOWN_PARAMETERS)
        hosts = authority.rpartition("@")[2]
        return printable(f"postgresql://{hosts}{path}{'?' if shown else ''}{shown}")

    def __repr__(self) -> str:
        return f"PostgresAddress({str(self)!r})"


StoreAddress = Path | PostgresAddress
# The same in a message to another process, which has no paths.
PortableAddress = str | PostgresAddress


def portable(address: StoreAddress) -> PortableAddress:
    return str(address) if isinstance(address, Path) else address


def file_of(address: StoreAddress) -> Path | None:
    """The file of a store; None for a database server, which replicas share."""
    return address if isinstance(address, Path) else None


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
    if _PERCENT.search(text):
        raise ValueError("in a URL, % begins two hexadecimal digits, and not 00: %25 stands for %")
    authority, rest = _parted(text[scheme.end() :])
    if authority.count("@") > 1 or "@" in rest or "#" in rest:
        # libpq would take a part of the password for the host, and name that host in its errors.
        raise ValueError("in a user or a password, write @ as %40, / as %2F, : as %3A, # as %23 and ? as %3F")
    parameters = rest.partition("?")[2]
    if any(parameter.count("=") != 1 for parameter in parameters.split("&") if parameters):
        raise ValueError("behind the ?, NAME=VALUE&NAME=VALUE is accepted: in a value, write = as %3D and & as %26")
    names = [_name(parameter) for parameter in parameters.split("&")]
    if "sslpassword" in names:
        raise ValueError("the URL holds no sslpassword: name a key file that needs no password, by sslkey")
    if any(name.lower().endswith("password") for name in names):
        raise ValueError(
            "the password belongs before the host, or into the file that CRONHPA_STORE_PASSWORD_FILE names"
        )
    return PostgresAddress(text, password_file)


def _parted(text: str) -> tuple[str, str]:
    """The authority of a URL without its scheme, and the rest."""
    end = _AUTHORITY_END.search(text)
    return (text, "") if end is None else (text[: end.start()], text[end.start() :])


def _name(parameter: str) -> str:
    """The decoded name of NAME=VALUE."""
    return unquote(parameter.partition("=")[0])
