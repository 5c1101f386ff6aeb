"""`Did you mean`: the known name that a misspelt one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from cronhpa.core.model.printable import shortened

# How much of a text is compared.
_COMPARED_MAX = 80
# Cutoffs of difflib. A name that is alike is taken at once, a similar one if no single name begins with the text.
_ALIKE, _SIMILAR = 0.75, 0.6
_BEGINNING_MIN = 3


def nearest(written: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant: equal but for case and hyphens, or spelt much alike, or begun by the text."""
    plain = {_plain(name): name for name in names}
    word = _plain(shortened(written, _COMPARED_MAX))
    if word in plain:
        return plain[word]
    for cutoff in (_ALIKE, _SIMILAR):
        close = difflib.get_close_matches(word, plain, n=1, cutoff=cutoff)
        if close:
            return plain[close[0]]
        begun = [name for key, name in plain.items() if len(word) >= _BEGINNING_MIN and key.startswith(word)]
        if len(begun) == 1:
            return begun[0]
    return None


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
