"""Go's integer division, float division and rounding, where Python differs."""

from __future__ import annotations

from math import ceil, copysign, inf, isnan, nan

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def quotient(dividend: int, divisor: int) -> int:
    """Integer division truncated toward zero, as Go's; `//` would floor a negative one. The divisor is positive."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def divide(dividend: float, divisor: float) -> float:
    """Division of finite numbers as floats; by zero it gives infinity or NaN, where Python raises."""
    top, bottom = float(dividend), float(divisor)
    if bottom == 0:
        return nan if top == 0 else copysign(inf, top)
    return top / bottom


def round_up(number: float, cap: int = INT32_MAX) -> int:
    """The smallest integer not below `number`, saturated at the cap and at -cap - 1; NaN becomes 0."""
    return 0 if isnan(number) else ceil(max(-cap - 1, min(number, cap)))
