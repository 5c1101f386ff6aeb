"""
Kubernetes quantities: texts such as `500m`, `1.5Gi` or `1e3`, read exactly and bounded, written canonically.

`Quantity` gives the result of the upstream's parser for every text, overflow included. Decisions use `parse_milli`:
integer milli-units rounded away from zero; it raises where the upstream's int64 would wrap around.
"""

from __future__ import annotations

import re
from typing import Self

from msgspec import Struct

# Limits of a text: the nine bytes 1e999999 would otherwise take minutes to multiply out.
LENGTH_MAX = 64
_EXPONENT_MAX = 30
MILLI = 1000
_BIGGEST_MILLI = (2**63 - 1) * MILLI
_INT64_MAX = 2**63 - 1
_NANO = 9
_KIBI = 1024

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
# The upstream's scanner: a sign, digits around an optional point, letters, a sign, digits; nothing behind them.
_PARTS = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([+-]?[0-9]*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
# More digits may not fit into an int64, and the upstream changes to big decimals.
_FAST_DIGITS = 18
_SMALL_DIGITS = 9

# Four digits of a larger number need an exponent.
_PLAIN_FROM = 9999.5
_EXAMPLE = "write for example 500m, 2, 1.5Gi"


class Quantity(Struct, frozen=True):
    """unscaled * 10**exponent, as the upstream holds it."""

    unscaled: int
    exponent: int
    family: str
    """The kind of the suffix (SI, Binary, Exponent)."""
    is_big: bool = False
    """Whether the upstream holds a big decimal, which rounds and overflows differently."""
    text: str = ""
    """The original, if it is written out unchanged."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The quantity of a text. Raises ValueError where the upstream does, and beyond 64 characters or 10^30."""
        match = _PARTS.fullmatch(text) if len(text) <= LENGTH_MAX else None
        if match is None or not text:
            raise ValueError(f'"{text[:LENGTH_MAX]}" is no quantity: {_EXAMPLE}')
        sign, whole, part, suffix = match[1], match[2] or "0", match[3] or "", match[4] + match[5]
        family, power, shift = _interpret(text, suffix)
        digits = int(whole + part)
        if family == "Binary":
            # The upstream's estimate of how many decimal digits fit beside a power of two.
            room = 15 - len(whole) - shift * 3 // 10 - 1 if not part else -1
        else:
            room = _FAST_DIGITS - len(whole) - len(part)
        exponent = power - len(part)
        if room >= 0 and exponent >= -_NANO and digits << shift <= _INT64_MAX:
            unscaled = digits << shift
            echoed = text if _looks_canonical(whole, part, exponent, family) else ""
            return cls(-unscaled if sign == "-" else unscaled, exponent, family, text=echoed)
        if not (match[2] or part or "0" in text):
            raise ValueError(f'"{text}" is no quantity, it has no digits: {_EXAMPLE}')
        return cls._big(digits << shift, exponent, family, negative=sign == "-")

    @classmethod
    def _big(cls, unscaled: int, exponent: int, family: str, *, negative: bool) -> Self:
        if unscaled:
            # To billionths, away from zero: a request above 0 stays above 0.
            down = -_NANO - exponent
            unscaled = -(-unscaled // 10**down) if down > 0 else unscaled * 10**-down
            exponent = -_NANO
        if family == "Binary" and unscaled > _INT64_MAX * 10**_NANO:
            unscaled, exponent = _INT64_MAX, 0
        if family == "Binary" and 0 < unscaled < 10**-exponent:
            family = "SI"
        return cls(-unscaled if negative else unscaled, exponent, family, is_big=True)

    def scaled(self, power: int) -> int:
        """value / 10**power, rounded away from zero, as the upstream's int64, which wraps or becomes 0 on overflow."""
        shift = self.exponent - power
        if self.is_big:
            return _scale_big(self.unscaled, shift)
        if shift < 0:
            divisor: int = 10**-shift
            return -(-self.unscaled // divisor) if self.unscaled >= 0 else self.unscaled // divisor
        product: int = self.unscaled * 10**shift
        # The common powers are one multiplication, which wraps; the others stop at the first overflow.
        return _wrap(product) if shift in {0, 1, 2, 3, 6, 9} or _fits(product) else 0

    @property
    def value(self) -> int:
        return self.scaled(0)

    @property
    def milli(self) -> int:
        return self.scaled(-3)

    def __str__(self) -> str:
        return self.text or _canonical(self.unscaled, self.exponent, self.family)


def _interpret(text: str, suffix: str) -> tuple[str, int, int]:
    """The family, the power of ten and the power of two of a suffix."""
    if suffix in _DECIMAL:
        return "SI", _DECIMAL[suffix], 0
    if suffix in _BINARY:
        return "Binary", 0, _BINARY[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise ValueError(f'"{text}" is no quantity, "{suffix}" is no unit: {_EXAMPLE}')
    power = int(match[1])
    if abs(power) > _EXPONENT_MAX:
        raise ValueError(f'"{text}" has an exponent beyond {_EXPONENT_MAX}')
    return "Exponent", power, 0


def _looks_canonical(whole: str, part: str, exponent: int, family: str) -> bool:
    """Whether the upstream takes a text for canonical; it checks less than its name says."""
    digits = whole + part
    if family == "Binary":
        return not part and int(digits) % 8 != 0
    return exponent % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")


def _canonical(unscaled: int, exponent: int, family: str, largest: int = 2 * _EXPONENT_MAX) -> str:
    """The integer with the largest fitting suffix; beyond exa the upstream writes none."""
    if unscaled == 0:
        return "0"
    if family == "Binary" and exponent < 0 and unscaled % 10**-exponent == 0:
        unscaled, exponent = unscaled // 10**-exponent, 0
    if family == "Binary" and exponent >= 0 and abs(unscaled * 10**exponent) >= _KIBI:
        units, suffix = unscaled * 10**exponent, ""
        for candidate in _BINARY:
            if units % _KIBI:
                break
            units, suffix = units // _KIBI, candidate
        return f"{units}{suffix}"
    while unscaled % 10 == 0:
        unscaled, exponent = unscaled // 10, exponent + 1
    over = exponent % 3 if exponent <= largest else exponent - largest
    unscaled, exponent = unscaled * 10**over, exponent - over
    if family == "Exponent":
        return f"{unscaled}e{exponent}" if exponent else str(unscaled)
    return f"{unscaled}{_SUFFIXES.get(exponent, '')}"


def _scale_big(unscaled: int, shift: int) -> int:
    if shift >= 0:
        return _wrap(_low_bits(unscaled) * min(10**shift, 2**63))
    if unscaled <= _INT64_MAX:
        # The upstream compares with the upper limit only, so large negative numbers count as small.
        unscaled = _low_bits(unscaled)
    size, rest = divmod(abs(unscaled), 10**-shift)
    whole = size if unscaled >= 0 else -size
    return _low_bits(whole + 1 if rest else whole)


def _fits(number: int) -> bool:
    return -_INT64_MAX - 1 <= number <= _INT64_MAX


def _wrap(number: int) -> int:
    """The int64 after overflow."""
    return (number + 2**63) % 2**64 - 2**63


def _low_bits(number: int) -> int:
    """Go's big.Int.Int64: the low 64 bits of the magnitude, then the sign."""
    low = _wrap(abs(number) % 2**64)
    return _wrap(-low) if number < 0 else low


def parse_milli(text: str) -> int:
    """
    The milli-units of a quantity, rounded away from zero.

    Raises ValueError for other texts (NaN and infinity included), for a text without a digit, and above 2^63, where the
    upstream's integers would wrap around.
    """
    if 0 < len(text) <= _FAST_DIGITS and text.isascii():
        # The most frequent forms: those of metrics-server and of requests.
        head, unit = text[:-1], text[-1]
        if unit in {"n", "m"} and head.isdecimal():
            return int(head) if unit == "m" else -(-int(head) // 10**6)
        if text.isdecimal():
            return int(text) * MILLI
        if text.endswith(("Ki", "Mi", "Gi")) and head[:-1].isdecimal() and len(text) < _SMALL_DIGITS:
            return (int(head[:-1]) << _BINARY[text[-2:]]) * MILLI
    quantity = Quantity.parse(text)
    if not any(char.isdecimal() for char in text):
        raise ValueError(f'"{text}" is no quantity, it has no digits: {_EXAMPLE}')
    power = quantity.exponent + 3
    size = abs(quantity.unscaled)
    milli: int = size * 10**power if power >= 0 else -(-size // 10**-power)
    # The upstream caps quantities with a binary unit: a quantity at the cap was too large.
    if milli > _BIGGEST_MILLI or (quantity.is_big and quantity.family == "Binary" and milli == _BIGGEST_MILLI):
        raise ValueError(f'"{text}" is larger than 2^63')
    return -milli if quantity.unscaled < 0 else milli


def parse_float(text: str) -> float:
    """
    The upstream's float of a quantity: digits times a power of ten, which rounds a second time.

    `9m` is 0.009000000000000001. Raises ValueError as `parse_milli` does.
    """
    parse_milli(text)
    quantity = Quantity.parse(text)
    return float(quantity.unscaled) * float(f"1e{quantity.exponent}")


def format_load(load: float, resource: str) -> str:
    """
    A load for people, to four digits, or to whole numbers beyond them: memory in the largest unit below it (1.5Gi),
    others plain (12,500).
    """
    if resource == "memory":
        for unit, power in reversed(_BINARY.items()):
            # What would be rounded to 1024 of a unit is 1 of the next one.
            if round(load / (1 << power - 10)) >= _KIBI:
                return f"{_four_digits(max(load / (1 << power), 1))}{unit}"
    return _four_digits(load)


def _four_digits(number: float) -> str:
    return f"{number:.4g}" if abs(number) < _PLAIN_FROM else f"{number:,.0f}"


def format_milli(milli: int, *, binary: bool = False) -> str:
    """
    The canonical text of a number of milli-units.

    binary: with a power of 1024 if that is exact and at least 1024, as for memory (1Mi, not 1048576).
    """
    return _canonical(milli, -3, "Binary" if binary else "SI", largest=_DECIMAL["E"])
