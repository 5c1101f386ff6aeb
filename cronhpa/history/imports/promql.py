"""
Names in PromQL. A query is the operator's setting. A tenant's texts go into it only as checked `Names`, and only within
the quotes of a label matcher.

So no text of an object changes the selectors of a query.
"""

from __future__ import annotations

import re
from string import Template
from typing import ClassVar, Self

from msgspec import Struct

from cronhpa.core.model.printable import shortened

_LENGTH_MAX = 253
# The tokens of PromQL: a quote within a comment or within another quoted text begins no text.
_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`]*`|\$\$|\$\{?\w*\}?|=~|!~|!=|==|>=|<=|.""",
    re.DOTALL,
)
_QUOTES = "\"'`"
_EQUAL, _REGEX = ("=", "!="), ("=~", "!~")


class QueryError(ValueError):
    """A text that is no query, or cannot be part of one: what was found, what is accepted, what to do."""


class Name(Struct, frozen=True):
    """
    A text without quotes, backslashes and special characters of regular expressions, except for the dot.

    The constructor raises QueryError for any other text.
    """

    text: str
    what: ClassVar[str] = "a name"
    accepted: ClassVar[str] = r"[A-Za-z0-9]([-A-Za-z0-9._:/]*[A-Za-z0-9])?"

    def __post_init__(self) -> None:
        if len(self.text) > _LENGTH_MAX or not re.fullmatch(self.accepted, self.text, re.ASCII):
            raise QueryError(
                f"{shortened(self.text, _LENGTH_MAX)!r} is not {self.what} that a query may hold: "
                f"{self.accepted} is accepted, of at most {_LENGTH_MAX} characters"
            )

    @property
    def regex(self) -> str:
        """The regular expression that matches this name alone, the same in quotes of every kind."""
        return self.text.replace(".", "[.]")


class Label(Name, frozen=True):
    what: ClassVar[str] = "a namespace"
    accepted: ClassVar[str] = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"


class ContainerName(Label, frozen=True):
    what: ClassVar[str] = "a container's name"


class Subdomain(Name, frozen=True):
    what: ClassVar[str] = "an object's name"
    accepted: ClassVar[str] = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"


class KindName(Name, frozen=True):
    what: ClassVar[str] = "a kind"
    accepted: ClassVar[str] = r"[A-Za-z][A-Za-z0-9]*"


class MetricName(Name, frozen=True):
    what: ClassVar[str] = "a metric's name"
    accepted: ClassVar[str] = r"[A-Za-z_:]([-A-Za-z0-9._:/]*[A-Za-z0-9_])?"


class Names(Struct, frozen=True):
    """The names of an object and its target that a query may hold, by placeholder."""

    namespace: Label
    name: Subdomain
    kind: KindName
    target: Subdomain
    metric: MetricName

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            if not isinstance(getattr(self, field), Name):
                raise TypeError(f"{field} is a {type(getattr(self, field)).__name__}, and no Name")

    @classmethod
    def of(cls, *, namespace: str, name: str, kind: str, target: str, metric: str) -> Self:
        """The checked names. Raises QueryError for a text that is no name."""
        return cls(Label(namespace), Subdomain(name), KindName(kind), Subdomain(target), MetricName(metric))


_KNOWN = f"{', '.join(f'${name}' for name in Names.__struct_fields__)} are known"


def with_placeholders(text: str) -> Template:
    """A text with placeholders for an object's names. Raises QueryError for a dollar sign that begins none of them."""
    template = Template(text)
    if not template.is_valid() or not {*template.get_identifiers()} <= {*Names.__struct_fields__}:
        # The text may be an address that is a secret, and tenants read why.
        raise QueryError(f"a dollar sign begins no known name: {_KNOWN}, and $$ for a dollar sign")
    return template


class QueryTemplate:
    """
    PromQL with $namespace, $name, $kind, $target and $metric within the quotes of label matchers; $$ is a dollar sign.

    Behind =~ and !~ a name matches itself alone, its dots included.
    """

    def __init__(self, text: str) -> None:
        """Raises QueryError for a placeholder that is unknown or stands elsewhere."""
        # Pieces of the query, each with True if its placeholders stand within a regular expression.
        self._pieces = tuple(_pieces(text))

    @property
    def names(self) -> frozenset[str]:
        """The placeholders that it holds."""
        return frozenset(name for piece, _ in self._pieces for name in piece.get_identifiers())

    def filled(self, names: Names) -> str:
        """The query of an object."""
        literal = {field: getattr(names, field).text for field in Names.__struct_fields__}
        regex = {field: getattr(names, field).regex for field in Names.__struct_fields__}
        return "".join(piece.substitute(regex if is_regex else literal) for piece, is_regex in self._pieces)


def _pieces(text: str) -> list[tuple[Template, bool]]:
    pieces = []
    before = ""
    for token in _TOKEN.findall(text):
        piece = with_placeholders(token)
        for name in piece.get_identifiers():
            _check(name, token, before)
        pieces.append((piece, before in _REGEX))
        if not token.isspace() and not token.startswith("#"):
            before = token
    return pieces


def _check(name: str, token: str, before: str) -> None:
    """Raises QueryError unless a placeholder may stand in this token. before: the token before it."""
    if token[0] not in _QUOTES or before not in (*_EQUAL, *_REGEX):
        raise QueryError(
            f"${name} stands outside the quotes of a label matcher: it is accepted there alone, "
            'such as namespace="$namespace" or pod=~"$target-.+"'
        )
    if "\\$" in token:
        raise QueryError(f"{token}: a backslash stands before a dollar sign, and would take the name for an escape")
