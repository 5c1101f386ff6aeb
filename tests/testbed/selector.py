"""Label selectors as a query holds them, read independently of the operator under test."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_REQUIREMENT = re.compile(
    r"\s*(?:!\s*(?P<absent>[^\s=!,()]+)"
    r"|(?P<key>[^\s=!,()]+)(?:\s*(?P<sign>==|=|!=)\s*(?P<value>[^\s=!,()]*)"
    r"|\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


@lru_cache(maxsize=4096)
def parse_selector(text: str) -> tuple[Callable[[Mapping[str, str]], bool], ...]:
    """
    The requirements of a label selector as a query holds it: `a=b,c in (d,e),!f`.

    Raises ValueError for a text that is none.
    """
    requirements, position = [], 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if not match:
            raise ValueError(f'labelSelector={text}: cannot be read from "{text[position:]}" on')
        requirements.append(_requirement(**match.groupdict()))
        position = match.end()
    return tuple(requirements)


def _requirement(
    *, absent: str | None, key: str | None, sign: str | None, value: str | None, word: str | None, values: str | None
) -> Callable[[Mapping[str, str]], bool]:
    if absent is not None:
        return lambda labels: absent not in labels
    assert key is not None
    if sign is None and word is None:
        return lambda labels: key in labels
    wanted = {value} if sign else {part.strip() for part in (values or "").split(",")}
    # A label that is absent satisfies != and notin.
    if sign == "!=" or word == "notin":
        return lambda labels: labels.get(key) not in wanted
    return lambda labels: labels.get(key) in wanted
