"""PromQL as strictly as it may be read: functions around one selector. Whatever else stands in a text is refused."""

from __future__ import annotations

import re
from typing import NamedTuple

_LEXEME = re.compile(
    r"""\s*(?:(?P<text>"(?:\\[abfnrtv\\"']|[^"\\\n])*")|(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)"""
    r"""|(?P<span>\[[0-9]+[smhd]\])|(?P<sign>=~|!~|!=|[=(){},]))"""
)


class Query(NamedTuple):
    """matchers: (label, operator, text as it is unquoted)."""

    functions: tuple[str, ...]
    metric: str
    matchers: tuple[tuple[str, str, str], ...]
    span: str


def parse(query: str) -> Query:
    """Raises ValueError for what is not exactly one selector within functions."""
    lexemes = []
    at = 0
    while at < len(query):
        lexeme = _LEXEME.match(query, at)
        if lexeme is None:
            raise ValueError(f"at {at}: {query[at:]!r}")
        lexemes.append((lexeme.lastgroup, lexeme.group(lexeme.lastgroup)))
        at = lexeme.end()

    def take(kind, accepted=None):
        if not lexemes or lexemes[0][0] != kind or (accepted and lexemes[0][1] not in accepted):
            raise ValueError(f"{kind} {accepted} is needed before {lexemes}")
        return lexemes.pop(0)[1]

    functions = []
    metric = take("word")
    while lexemes and lexemes[0] == ("sign", "("):
        take("sign", "(")
        functions.append(metric)
        metric = take("word")
    take("sign", "{")
    matchers = []
    while True:
        label, operator, text = take("word"), take("sign", ("=", "!=", "=~", "!~")), take("text")
        matchers.append((label, operator, _unquoted(text)))
        if take("sign", ",}") == "}":
            break
    span = take("span") if lexemes and lexemes[0][0] == "span" else ""
    for _ in functions:
        take("sign", ")")
    if lexemes:
        raise ValueError(f"{lexemes} stands behind the query")
    return Query(tuple(functions), metric, tuple(matchers), span)


def _unquoted(text: str) -> str:
    simple = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
    return re.sub(r"\\(.)", lambda match: simple.get(match[1], match[1]), text[1:-1])
