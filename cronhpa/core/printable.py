"""
Texts that somebody else wrote, made safe to be shown: a line stays one line, a terminal obeys nothing that stands in
it, and an address keeps its password to itself.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable

# C: control characters, format characters (which turn the direction of a text or hide in it), halves of surrogate
# pairs, and code points without a meaning that all share. Zl, Zp: what Unicode calls the end of a line.
_ESCAPED = ("C", "Zl", "Zp")
_SECRET_MIN = 4
_USERINFO = re.compile(r"(?<=://)[^/?#\s]*@")


def printable(text: str) -> str:
    r"""
    One line of text in which every character that is not shown stands as JSON escapes it: `\u001b`, `\u2028`.

    JSON stays the same JSON: there such characters stand within strings alone.
    """
    if text.isprintable():
        return text
    return "".join(_escape(character) if _is_escaped(character) else character for character in text)


def shortened(text: str, length: int) -> str:
    """The text, or its beginning and "...": at most so many characters. Texts of others have any length."""
    return text if len(text) <= length else text[: length - 3] + "..."


def without_userinfo(text: str) -> str:
    """The text with no user and no password in any URL that it holds."""
    return _USERINFO.sub("", text) if "://" in text else text


def without_secrets(body: bytes, secrets: Iterable[str]) -> bytes:
    """
    An answer that repeats a login that was sent, as a proxy does that is being debugged, without it.

    As it stands and as JSON writes it. What is shorter than four characters is none, and would leave no word whole.
    """
    for secret in secrets:
        if len(secret) >= _SECRET_MIN:
            for written in {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}:
                body = body.replace(written.encode(errors="surrogateescape"), b"...")
    return body


def _is_escaped(character: str) -> bool:
    return unicodedata.category(character).startswith(_ESCAPED)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
