"""
The URL of a source with placeholders: checked names of an object, percent-encoded, in the path and the query alone.

The administrator alone decides which server is asked: no text of an object changes the host or the port.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from yarl import URL

from cronhpa.history.imports.promql import Names, with_placeholders

_URL = re.compile(r"(?P<scheme>[^:/?#]*)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_AUTHORITY = re.compile(r"([A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
# What RFC 3986 allows in a path and a query, without an end in mind: no space, no backslash, no fragment.
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?\[\]-]*)?")

_BRACES = re.compile(r"\$\{(\w*)\}")


def checked_path(text: str) -> str:
    """The text. Raises ValueError unless it is a path, with or without a query."""
    if not _PATH.fullmatch(text):
        raise ValueError("it is no path")
    return text


class UrlTemplate:
    """http(s)://HOST:PORT/PATH?QUERY with $namespace, $name, $kind, $target and $metric behind the host."""

    def __init__(self, text: str) -> None:
        """Raises ValueError, of which QueryError is one, for any other text."""
        parts = _URL.fullmatch(text)
        if parts is None or parts["scheme"] not in {"http", "https"}:
            raise ValueError("it is no http or https URL with a host")
        authority = parts["authority"]
        if "@" in authority:
            raise ValueError("it holds a user or a password: username and passwordFile are for that")
        if "$" in authority:
            raise ValueError("a placeholder stands in its host: names are accepted in the path and the query alone")
        rest = parts["rest"]
        path = rest if rest.startswith("/") else f"/{rest}"
        checked_path(_BRACES.sub(r"$\1", path))
        self.origin = f"{parts['scheme']}://{authority}"
        if not _AUTHORITY.fullmatch(authority) or URL(self.origin).host is None:  # yarl refuses a port that is none
            raise ValueError("its host or its port is none")
        self._rest = with_placeholders(path)

    @property
    def names(self) -> frozenset[str]:
        """The placeholders that it holds."""
        return frozenset(self._rest.get_identifiers())

    def filled(self, names: Names) -> URL:
        """The URL of an object."""
        encoded = {field: quote(getattr(names, field).text, safe="") for field in Names.__struct_fields__}
        return URL(f"{self.origin}{self._rest.substitute(encoded)}", encoded=True)
