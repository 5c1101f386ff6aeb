"""
Kubernetes quantities: texts such as `500m`, `1.5Gi` or `1e3`, read exactly and bounded, written canonically.

Everything behind this file counts in integer milli-units. Rounding is away from zero, as in the upstream's MilliValue.
"""

from __future__ import annotations

import re

# What may be read at all: a nine-byte text such as 1e999999 would otherwise take minutes to multiply out.
LENGTH_MAX = 64
_EXPONENT_MAX = 30
MILLI = 1000
_BIGGEST_MILLI = (2**63 - 1) * MILLI

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
_PATTERN = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([eE])([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)


def parse_milli(text: str) -> int:
    """
    The milli-units of a quantity, rounded away from zero.

    Raises ValueError for what is no quantity, NaN and infinity among it, or larger than 2^63.
    """
    # By far the most frequent forms: what metrics-server writes for CPU, and plain numbers.
    if text[-1:] == "n" and text[:-1].isdecimal() and text.isascii() and len(text) <= LENGTH_MAX:
        return -(-int(text[:-1]) // 10**6)
    found = _PATTERN.fullmatch(text) if len(text) <= LENGTH_MAX else None
    if found is None or not ((found[2] or "") + (found[3] or "")):
        raise ValueError(f'"{text[:LENGTH_MAX]}" is no quantity: write for example 500m, 2, 1.5Gi')
    sign, whole, part, exponent, suffix = found[1], found[2] or "", found[3] or "", found[5], found[6] or ""
    digits = int(whole + part)
    power = -len(part) + 3
    shift = 0
    if exponent is not None:
        if abs(int(exponent)) > _EXPONENT_MAX:
            raise ValueError(f'"{text}" has an exponent beyond {_EXPONENT_MAX}')
        power += int(exponent)
    elif suffix in _BINARY:
        shift = _BINARY[suffix]
    else:
        power += _DECIMAL[suffix]
    value = digits << shift
    milli: int = value * 10**power if power >= 0 else -(-value // 10**-power)
    if milli > _BIGGEST_MILLI:
        raise ValueError(f'"{text}" is larger than 2^63')
    return -milli if sign == "-" else milli


def parse_float(text: str) -> float:
    """
    The float nearest to how the upstream reads a quantity as one: digits times a power of ten, rounded once more.

    `9m` is 0.009000000000000001. Raises ValueError as `parse_milli` does.
    """
    parse_milli(text)
    found = _PATTERN.fullmatch(text)
    assert found is not None
    sign, whole, part, exponent, suffix = found[1], found[2] or "", found[3] or "", found[5], found[6] or ""
    digits = int(whole + part)
    power = -len(part) + (int(exponent) if exponent else _DECIMAL.get(suffix, 0))
    scaled = float(digits << _BINARY.get(suffix, 0)) * float(f"1e{power}")
    return -scaled if sign == "-" else scaled


def format_milli(milli: int, *, binary: bool = False) -> str:
    """
    The canonical text of a number of milli-units.

    binary: in powers of 1024 where that is exact and 1024 or more, as memory is shown (1Mi, not 1048576).
    """
    if milli == 0:
        return "0"
    if binary and milli % MILLI == 0 and abs(milli) >= 1024 * MILLI:
        units, suffix = milli // MILLI, ""
        for candidate in _BINARY:
            if units % 1024:
                break
            units, suffix = units // 1024, candidate
        return f"{units}{suffix}"
    power = -3
    while milli % 1000 == 0 and power < _DECIMAL["E"]:
        milli, power = milli // 1000, power + 3
    return f"{milli}{_SUFFIXES[power]}"
