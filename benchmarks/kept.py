"""Figures of a series that an earlier run measured: a run that is interrupted goes on where it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fingerprint
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from recorded import Recorded

    from cronhpa.forecasting.columns import AutoscalerModel


def key_of(series: Recorded, autoscaler: AutoscalerModel, code: str, budgets: tuple[int, ...]) -> str:
    """What the figures of a series depend on. code: `fingerprint.of_code()`."""
    minutes = np.empty(0) if series.minutes is None else series.minutes
    facts = (code, autoscaler, series.begin, series.first_step, series.steps_per_day, budgets)
    return fingerprint.digest(
        [repr(facts).encode(), *(array.tobytes() for array in (series.load, series.steps, minutes))]
    )


def kept(folder: Path, keys: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The figures that are kept with the same key, by series. keys: by series."""
    figures = {}
    for name, key in keys.items():
        try:
            stored = json.loads((folder / f"{name}.json").read_text())
        except (FileNotFoundError, ValueError):
            continue  # never measured, or killed while it was written
        if stored.pop("key", None) == key:
            figures[name] = stored
    return figures


def keep(folder: Path, name: str, key: str, figures: Mapping[str, Any]) -> None:
    """Write the figures of a series into the folder, which is made where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"key": key, **figures}) + "\n")
