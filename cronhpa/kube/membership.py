"""
Which pods a selector means: label selectors as text, and an index of pods that answers without looking at each.

A scale's selector arrives as text (`app=shop,tier in (web,api),!canary`), so it is parsed here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.observation import Absent, Pod

_TOKEN = re.compile(r"\s*(?:(?P<set>\([^)]*\)?)|(?P<op>==|!=|=|,|!)|(?P<word>[^\s,=!()]+))", re.ASCII)
_SET_OPERATORS = {"in": "in", "notin": "notin"}
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}", re.ASCII)
_VALUE = re.compile(rf"({_NAME})?", re.ASCII)


class SelectorError(ValueError):
    """A selector text that cannot be read."""


class Requirement(Struct, frozen=True):
    """operator: in, notin, exists or absent."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.operator == "exists":
            return self.key in labels
        if self.operator == "absent":
            return self.key not in labels
        if self.operator == "in":
            return labels.get(self.key) in self.values
        return labels.get(self.key) not in self.values


class Selector(Struct, frozen=True):
    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(item.matches(labels) for item in self.requirements)


@lru_cache(maxsize=65_536)
def parse_selector(text: str) -> Selector:
    """The requirements of a selector text. Raises SelectorError with what was found where."""
    tokens = list(_tokens(text))
    out: list[Requirement] = []
    while tokens:
        out.append(_checked(_requirement(tokens, text), text))
        if tokens and (tokens.pop(0) != "," or not tokens):
            raise SelectorError(
                f"unable to parse requirement: a comma and another requirement must follow {out[-1].key!r} in {text!r}"
            )
    return Selector(tuple(out))


def select(text: str) -> Selector | Absent:
    """The selector of a scale, or the reason that it is unusable, in the upstream's words."""
    if not text:
        return Absent("SelectorRequired", "selector is required")
    try:
        return parse_selector(text)
    except SelectorError as error:
        message = f"couldn't convert selector into a corresponding internal selector object: {error}"
        return Absent("InvalidSelector", message)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if found is None:
            raise SelectorError(f"unable to parse requirement: found {stripped[at:]!r}")
        at = found.end()
        yield found[found.lastgroup or 0]


def _requirement(tokens: list[str], text: str) -> Requirement:
    first = tokens.pop(0)
    if first == "!":
        if not tokens:
            raise SelectorError(f"unable to parse requirement: a label must follow ! in {text!r}")
        return Requirement(tokens.pop(0), "absent")
    if first in {",", "=", "==", "!="} or first.startswith("("):
        raise SelectorError(f"unable to parse requirement: found {first!r} where a label is expected in {text!r}")
    if not tokens or tokens[0] == ",":
        return Requirement(first, "exists")
    operator = tokens.pop(0)
    if operator in {"=", "==", "!="}:
        value = "" if not tokens or tokens[0] == "," else tokens.pop(0)
        return Requirement(first, "notin" if operator == "!=" else "in", (value,))
    if operator in _SET_OPERATORS:
        if not tokens or not (tokens[0].startswith("(") and tokens[0].endswith(")")):
            raise SelectorError("unable to parse requirement: found '', expected: ',', ')' or identifier")
        values = tuple(sorted(item.strip() for item in tokens.pop(0)[1:-1].split(",")))
        return Requirement(first, _SET_OPERATORS[operator], values)
    raise SelectorError(f"unable to parse requirement: found {operator!r} behind {first!r} in {text!r}")


def _checked(item: Requirement, text: str) -> Requirement:
    """The requirement, if its label and values can be those of an object; no pod could match it otherwise."""
    if not _KEY.fullmatch(item.key):
        raise SelectorError(f"unable to parse requirement: {item.key!r} in {text!r} is no label")
    for value in item.values:
        if not _VALUE.fullmatch(value):
            raise SelectorError(f"unable to parse requirement: {value!r} in {text!r} is no value of a label")
    return item


class _Entry(Struct, gc=False):
    pod: Pod
    labels: Mapping[str, str]


class PodIndex:
    """Pods by namespace and by each of their labels, so that a selector examines only a few pods."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, _Entry]] = defaultdict(dict)
        self._by_label: dict[tuple[str, str, str], set[str]] = defaultdict(set)

    def put(self, namespace: str, labels: Mapping[str, str], pod: Pod) -> None:
        known = self._entries[namespace].get(pod.name)
        if known is not None:
            pod = _with_first_ready(known.pod, pod)
        if known is None or known.labels != labels:
            self.drop(namespace, pod.name)
            for key, value in labels.items():
                self._by_label[namespace, key, value].add(pod.name)
        else:
            labels = known.labels
        self._entries[namespace][pod.name] = _Entry(pod, labels)

    def drop(self, namespace: str, name: str) -> None:
        entries = self._entries.get(namespace, {})
        entry = entries.pop(name, None)
        if entry is None:
            return
        if not entries:
            del self._entries[namespace]
        for key, value in entry.labels.items():
            names = self._by_label[namespace, key, value]
            names.discard(name)
            if not names:
                del self._by_label[namespace, key, value]

    def names(self) -> set[tuple[str, str]]:
        return {(namespace, name) for namespace, entries in self._entries.items() for name in entries}

    def count(self) -> int:
        return sum(map(len, self._entries.values()))

    def matching(self, namespace: str, selector: Selector) -> tuple[Pod, ...]:
        """The pods of a namespace that a selector matches, in arbitrary order."""
        entries = self._entries.get(namespace)
        if not entries:
            return ()
        candidates: set[str] | None = None
        for item in selector.requirements:
            if item.operator == "in" and len(item.values) == 1:
                names = self._by_label.get((namespace, item.key, item.values[0]), set())
                if candidates is None or len(names) < len(candidates):
                    candidates = names
        pool = entries.values() if candidates is None else (entries[name] for name in candidates)
        return tuple(entry.pod for entry in pool if selector.matches(entry.labels))


def _with_first_ready(before: Pod, pod: Pod) -> Pod:
    """A pod that was Ready, lost it and got it back has not been starting all that time."""
    if before.created != pod.created:  # another one of that name, as a StatefulSet makes them
        return pod
    first = before.first_ready
    if first is None and before.ready == "True" and before.ready_since != pod.ready_since:
        first = before.ready_since
    return pod if first is None else replace(pod, first_ready=first)
