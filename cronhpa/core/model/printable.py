"""
Makes texts from outside safe to show: a line stays one line, control characters are escaped, and URLs show neither
passwords nor queries.
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
# A URL within a text ends at a space, a quote or a bracket; in front of the host it may hold a password with those.
_URL = re.compile(r"""://(?:[^/?#\s]*@)?([^?#\s"'<>\\]*)([?#][^\s"'<>\\]+)?""")


def printable(text: str) -> str:
    r"""
    One line of text with every invisible character escaped as in JSON: `\u001b`, `\u2028`.

    JSON keeps its meaning: it has such characters in strings only.
    """
    if text.isprintable():
        return text
    return "".join(_escape(character) if _is_escaped(character) else character for character in text)


def shortened(text: str, length: int) -> str:
    """The text, or its beginning and "...": at most `length` characters."""
    return text if len(text) <= length else text[: length - 3] + "..."


def secret_of(text: str, where: object) -> str:
    """The token or password that a file holds. Raises ValueError, which repeats nothing of it, for several lines."""
    secret = text.strip()
    if not secret.isprintable():
        raise ValueError(f"{where} holds more than one line: one is accepted")
    return secret


def without_url_secrets(text: str) -> str:
    """The text with scheme, host, port and path of its URLs alone: users, passwords and queries may be secrets."""
    return _URL.sub(_shown, text) if "://" in text else text


def _shown(url: re.Match[str]) -> str:
    return f"://{url[1]}{f'{url[2][0]}...' if url[2] else ''}"


def without_secrets(body: bytes, secrets: Iterable[str]) -> bytes:
    """
    The answer without the secrets that were sent: a proxy in debug mode, for example, repeats the request.

    Removes a secret both as it is and as JSON writes it. Texts of less than four characters are kept: they are not
    secret, and are parts of ordinary words.
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
