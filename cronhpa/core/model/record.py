"""
A reconciliation as one line of JSON: the five inputs of a decision. Copied into a test, it is a regression test.

Field names and tags of earlier versions are kept where the code has other names, so that their records are read.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation
from cronhpa.core.model.spec import Spec


class Record(Struct, frozen=True):
    spec: Spec
    observation: Observation
    forecast: Forecast | Absent | None
    memory: Memory
    now: Nanoseconds


def encode(record: Record) -> str:
    """One line; reading it back gives an equal record."""
    return msgspec.json.encode(record).decode()


def decode(line: str | bytes) -> Record:
    """The record of a line. Raises ValueError for a line that is no record."""
    return msgspec.json.decode(line, type=Record)
