"""
Label selectors: parsed from text and written as text.

A scale states its selector as text (`app=shop,tier in (web,api),!canary`), and queries carry it as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from cronhpa.core.model.observation import Absent

_TOKEN = re.compile(r"\s*(?:(?P<set>\([^)]*\)?)|(?P<op>==|!=|=|,|!)|(?P<word>[^\s,=!()]+))", re.ASCII)
_SET_OPERATORS = {"in": "in", "notin": "notin"}
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}", re.ASCII)
_VALUE = re.compile(rf"({_NAME})?", re.ASCII)
FORMS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}", "DoesNotExist": "!{key}"}

# Limits of what is parsed: each reconciliation evaluates a selector for each candidate pod.
REQUIREMENTS_MAX = 100
SELECTOR_LENGTH_MAX = 16_384


class SelectorError(ValueError):
    """A selector text that cannot be read."""


class Requirement(Struct, frozen=True, cache_hash=True):
    key: str
    operator: str
    """`in`, `notin`, `exists` or `absent`."""
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.operator == "exists":
            return self.key in labels
        if self.operator == "absent":
            return self.key not in labels
        if self.operator == "in":
            return labels.get(self.key) in self.values
        return labels.get(self.key) not in self.values


class Selector(Struct, frozen=True, cache_hash=True):
    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_selector(text: str) -> Selector:
    """The requirements of a selector text. Raises SelectorError with what was found where."""
    if len(text) > SELECTOR_LENGTH_MAX:
        raise SelectorError(f"it has {len(text)} characters, at most {SELECTOR_LENGTH_MAX} are read")
    tokens = _Tokens(_tokens(text))
    requirements: list[Requirement] = []
    while tokens.next is not None:
        if len(requirements) == REQUIREMENTS_MAX:
            raise SelectorError(f"it has more than {REQUIREMENTS_MAX} requirements, which is as many as are read")
        requirements.append(_checked(_requirement(tokens, text), text))
        if tokens.next is not None and (tokens.take() != "," or tokens.next is None):
            last = requirements[-1].key
            raise SelectorError(
                f"unable to parse requirement: a comma and another requirement must follow {last!r} in {text!r}"
            )
    return Selector(tuple(requirements))


def select(text: str) -> Selector | Absent:
    """The selector of a scale, or the reason that it is unusable, in the upstream's words."""
    if not text:
        return Absent("SelectorRequired", "selector is required")
    try:
        return parse_selector(text)
    except SelectorError as error:
        message = f"couldn't convert selector into a corresponding internal selector object: {error}"
        return Absent("InvalidSelector", message)


class _Tokens:
    """Tokens in their order; `next` is the token that `take` returns next, None at the end."""

    def __init__(self, tokens: Iterator[str]) -> None:
        self._rest = tokens
        self.next: str | None = next(tokens, None)

    def take(self) -> str:
        assert self.next is not None, "check `next` before `take`"
        taken, self.next = self.next, next(self._rest, None)
        return taken


def _tokens(text: str) -> Iterator[str]:
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        token = _TOKEN.match(stripped, at)
        if token is None:
            raise SelectorError(f"unable to parse requirement: found {stripped[at:]!r}")
        at = token.end()
        yield token[token.lastgroup or 0]


def _requirement(tokens: _Tokens, text: str) -> Requirement:
    first = tokens.take()
    if first == "!":
        if tokens.next is None:
            raise SelectorError(f"unable to parse requirement: a label must follow ! in {text!r}")
        return Requirement(tokens.take(), "absent")
    if first in {",", "=", "==", "!="} or first.startswith("("):
        raise SelectorError(f"unable to parse requirement: found {first!r} where a label is expected in {text!r}")
    if tokens.next in {None, ","}:
        return Requirement(first, "exists")
    operator = tokens.take()
    if operator in {"=", "==", "!="}:
        value = "" if tokens.next in {None, ","} else tokens.take()
        return Requirement(first, "notin" if operator == "!=" else "in", (value,))
    if operator in _SET_OPERATORS:
        if tokens.next is None or not (tokens.next.startswith("(") and tokens.next.endswith(")")):
            raise SelectorError("unable to parse requirement: found '', expected: ',', ')' or identifier")
        values = tuple(sorted({value.strip() for value in tokens.take()[1:-1].split(",")}))
        return Requirement(first, _SET_OPERATORS[operator], values)
    raise SelectorError(f"unable to parse requirement: found {operator!r} behind {first!r} in {text!r}")


def _checked(requirement: Requirement, text: str) -> Requirement:
    """The requirement. Raises SelectorError for a label or value that no object can have."""
    if problem := label_problem(requirement.key, requirement.values):
        raise SelectorError(f"unable to parse requirement: {problem}, in {text!r}")
    return requirement


def label_problem(key: str, values: Iterable[str]) -> str:
    """Why no object can have this label with one of these values; "" if one can."""
    if not _KEY.fullmatch(key):
        return f"{key!r} is no label"
    return next((f"{value!r} is no value of a label" for value in values if not _VALUE.fullmatch(value)), "")


def selector_text(labels: Iterable[tuple[str, str]], expressions: Iterable[tuple[str, str, Iterable[str]]]) -> str:
    """
    The requirements, sorted by label and joined by commas: `app=shop,tier in (api,web)`.

    labels: label and value. expressions: label, operator, values; an unknown operator leaves an empty requirement.
    """
    requirements = [(key, f"{key}={value}") for key, value in labels]
    for key, operator, values in expressions:
        requirements.append((key, FORMS.get(operator, "").format(key=key, values=",".join(sorted(values)))))
    return ",".join(text for _, text in sorted(requirements))
