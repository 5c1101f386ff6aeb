"""
A document of another autoscaler, read field by field.

A field that the conversion has not read at the end becomes a remark, so that nothing is lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

Json = dict[str, Any]
Note = tuple[str, str, str]
"""(path, what was found there, what that means)."""

_WHOLE = re.compile(r"-?[0-9]{1,10}")


class Remark(Struct, frozen=True, order=True):
    """A loss in a conversion."""

    source: str
    """The file."""
    path: str
    """The object and the field in it."""
    finding: str
    meaning: str

    def __str__(self) -> str:
        return f"{self.source}:{self.path}: {self.finding}: {self.meaning}"


class Unconvertible(Exception):  # noqa: N818 - a result, not an error: there is no honest CronHPA for it
    """An object, or a part of one, without an honest counterpart. path: the field that prevents it."""

    def __init__(self, path: str, finding: str, meaning: str) -> None:
        super().__init__(f"{path}: {finding}: {meaning}")
        self.path, self.finding, self.meaning = path, finding, meaning


class FieldReader:
    """
    A mapping in a document, at a path; it records which fields were read.

    A field that is null is absent. A field of another type than requested raises Unconvertible.
    """

    def __init__(self, body: Mapping[str, Any], path: str, notes: list[Note]) -> None:
        self.path = path
        self.body = body
        self._notes = notes
        self._read: set[str] = set()
        self._below: dict[str, list[FieldReader]] = {}

    def __contains__(self, key: str) -> bool:
        return self.body.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.body)

    def remark(self, key: str, finding: str, meaning: str) -> None:
        """Notes a loss at a field below this one; an empty key is this mapping itself."""
        self._notes.append((self._at(key), finding, meaning))

    def unconvertible(self, key: str, finding: str, meaning: str) -> Unconvertible:
        return Unconvertible(self._at(key), finding, meaning)

    def raw(self, key: str) -> Any:
        """The field as it is, marked as read as a whole; None if it is absent."""
        self._read.add(key)
        return self.body.get(key)

    def ignore(self, *keys: str) -> None:
        """Marks fields as read that do not matter for the scaling."""
        self._read.update(keys)

    def text(self, key: str, default: str = "") -> str:
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise self.unconvertible(key, f"found {value!r}", "a string is needed")

    def integer(self, key: str) -> int | None:
        value = self.raw(key)
        if value is None:
            return None
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole and not (isinstance(value, str) and _WHOLE.fullmatch(value)):
            raise self.unconvertible(key, f"found {value!r}", "a whole number belongs here")
        return int(value)

    def texts(self, key: str) -> dict[str, str]:
        """The mapping of texts at a field, such as labels; empty if it is absent."""
        value = self.raw(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise self.unconvertible(key, f"found {value!r}", "a mapping belongs here")
        return {name: "" if text is None else str(text) for name, text in value.items()}

    def items(self, key: str) -> list[Any]:
        """The list at a field, empty if it is absent."""
        value = self.raw(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.unconvertible(key, f"found {value!r}", "a list belongs here")
        return value

    def mapping(self, key: str) -> FieldReader:
        """The mapping at a field, empty if it is absent."""
        if key not in self._below:
            value = self.body.get(key)
            self._below[key] = [self._child({} if value is None else value, self._at(key))]
        return self._below[key][0]

    def mappings(self, key: str) -> list[FieldReader]:
        """The mappings in the list at a field, none if it is absent."""
        if key not in self._below:
            value = self.body.get(key)
            if not isinstance(value, list | None):
                raise self.unconvertible(key, f"found {value!r}", "a list belongs here")
            self._below[key] = [
                self._child(element, f"{self._at(key)}[{index}]") for index, element in enumerate(value or ())
            ]
        return self._below[key]

    def unread(self) -> Iterator[str]:
        """The paths of the unread fields, here and below."""
        for key, value in self.body.items():
            if value is None or key in self._read:
                continue
            if key not in self._below:
                yield self._at(str(key))
            for below in self._below.get(key, ()):
                yield from below.unread()

    def _child(self, value: Any, path: str) -> FieldReader:
        if not isinstance(value, Mapping):
            raise Unconvertible(path, f"found {value!r}", "a mapping belongs here")
        return FieldReader(value, path, self._notes)

    def _at(self, key: str) -> str:
        return ".".join(part for part in (self.path, key) if part)
