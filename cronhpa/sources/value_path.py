r"""
Where the number stands in a JSON or YAML answer: which paths are accepted, and the value at a path.

A path is the part of GJSON's syntax that names one place (github.com/tidwall/gjson, SYNTAX.md):

- keys and indexes from 0 on, joined by dots: `queues.0.length`;
- a backslash takes the next character as it is: `shop\.example.load`;
- `#` at the end is the number of elements of an array: `jobs.#`.

Wildcards, queries, modifiers, pipes, literals and multipaths choose by what the answer holds; none is accepted.
"""

from __future__ import annotations

import re

_LENGTH_MAX = 1024
_PART = re.compile(r"(?:[^\\.*?|#@!\[\]{}()]|\\.)+", re.DOTALL)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_ACCEPTED = (
    "keys and indexes joined by dots, such as queues.0.length, a backslash before a character that means itself, and "
    "# at the end for the number of elements"
)


class ValuePathError(ValueError):
    """A text that is no path: it states what was found and what is accepted."""


class ValuePath:
    """One place in a document of mappings and lists."""

    def __init__(self, text: str) -> None:
        """Raises ValuePathError for a text that is no path."""
        self.text = text
        keys, self._counts = (text[:-2], True) if text.endswith(".#") else (text, text == "#")
        self._keys = () if text == "#" else tuple(_keys(keys))

    def find(self, document: object) -> object:
        """The value at this path. Raises LookupError if there is none."""
        for key in self._keys:
            if isinstance(document, dict) and key in document:
                document = document[key]
            elif isinstance(document, list) and _INDEX.fullmatch(key) and int(key) < len(document):
                document = document[int(key)]
            else:
                raise LookupError(self.text)
        if not self._counts:
            return document
        if isinstance(document, list):
            return len(document)
        raise LookupError(self.text)


def _keys(text: str) -> list[str]:
    if len(text) > _LENGTH_MAX:
        raise ValuePathError(f"a path of {len(text)} characters: at most {_LENGTH_MAX} are accepted")
    keys, at = [], 0
    while True:
        part = _PART.match(text, at)
        if part is None:
            unread = f"{text[at]!r} at character {at + 1}" if at < len(text) else "an end without a key"
            raise ValuePathError(f"{unread} is no part of a path to one number: accepted are {_ACCEPTED}")
        keys.append(re.sub(r"\\(.)", r"\1", part[0], flags=re.DOTALL))
        at = part.end()
        if at == len(text):
            return keys
        if text[at] != ".":
            raise ValuePathError(
                f"{text[at]!r} at character {at + 1} is no part of a path to one number: accepted are {_ACCEPTED}"
            )
        at += 1
