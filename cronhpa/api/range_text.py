"""Bounds in words, for events and commands."""

from __future__ import annotations


def range_text(low: int | None, high: int | None) -> str:
    """Such as `20 to 80`, `exactly 5`, `at least 20`, `at most 80`; "" without a bound."""
    if low is None:
        return "" if high is None else f"at most {high}"
    if high is None:
        return f"at least {low}"
    return f"exactly {low}" if low == high else f"{low} to {high}"
