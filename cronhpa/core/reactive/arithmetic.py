"""Go's integer division, float division and rounding, where Python's differ."""

from __future__ import annotations

from math import ceil, inf, isnan, nan

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def quotient(dividend: int, divisor: int) -> int:
    """Integer division truncated toward zero, as Go's; `//` would floor a negative one."""
    result = abs(dividend) // abs(divisor)
    return result if (dividend < 0) == (divisor < 0) else -result


def divide(dividend: float, divisor: float) -> float:
    """Division of floats that answers infinity or NaN where Python raises."""
    top, bottom = float(dividend), float(divisor)
    if bottom == 0:
        return nan if top == 0 or isnan(top) else inf if top > 0 else -inf
    return top / bottom


def round_up(number: float, cap: int | None = INT32_MAX) -> int:
    """The smallest integer not below `number`, saturated at the cap; NaN asks for nothing."""
    limit = INT32_MAX if cap is None else cap
    if isnan(number):
        return 0
    if number >= limit:
        return limit
    if number <= -limit:
        return -limit - 1
    return ceil(number)
