"""Holds our quantity parser against the upstream's recorded answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.trajectories import read
from cronhpa.core.model.quantity import Quantity


def differs(row: dict[str, Any]) -> bool:
    """Whether we say something else of a text: whether it is a quantity, its value, its milli-value, its own text."""
    theirs = None if "error" in row else (row["value"], row["milli"], row["canonical"])
    try:
        quantity = Quantity.parse(row["text"])
    except ValueError:
        return theirs is not None
    return (str(quantity.value), str(quantity.milli), str(quantity)) != theirs


def differences(path: Path) -> list[str]:
    """The texts of which we say something else."""
    return [row["text"] for row in read(path) if differs(row)]
