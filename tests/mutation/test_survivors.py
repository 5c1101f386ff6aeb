"""The list of survivors, as far as a second tells: `make mutation` tells the rest."""

from __future__ import annotations

import inspect
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ENTRIES = tomllib.loads((Path(__file__).parent / "survivors.toml").read_text())["survivor"]


def source_of(function):
    """function: as in the list, `reactive.pod_counts.scalar_reading` or `reactive.replicas.Tolerance.covers`."""
    module, _, name = function.rpartition(".")
    if module.rpartition(".")[2][0].isupper():
        module, _, name = module.rpartition(".")
    return inspect.getsource(getattr(import_module(f"cronhpa.core.{module}"), name))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry['function']}-{ENTRIES.index(entry)}")
def test_what_is_listed_is_still_there_and_has_a_reason(entry):
    lines = {line.strip() for line in source_of(entry["function"]).splitlines()}

    assert set(entry["before"].splitlines()) <= lines
    assert entry["after"]
    assert entry["reason"]
