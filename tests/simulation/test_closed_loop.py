"""Fourteen days of forecasts made of what the operator measured while they scaled: they do not feed upon themselves."""

from __future__ import annotations

from collections import defaultdict

import pytest
from msgspec.structs import replace

from core.situations import NOW, cpu, forecast, spec
from cronhpa.core.forecasts.floor import load_of
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.spec import ControllerOptions, ForecastSettings, Span
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import run
from cronhpa.simulation.target import Environment

DAYS = 14
STEP = 5 * MINUTE
BEGIN = NOW - NOW % DAY
# Two cores at night and twelve by day, with a rise and a fall of ten minutes each. A pod carries one, at 60 %.
SHAPE = ((0, 2.0), (8 * HOUR, 2.0), (8 * HOUR + 10 * MINUTE, 12.0), (18 * HOUR, 12.0), (18 * HOUR + 10 * MINUTE, 2.0))
ONE_CORE = Environment(capacity=1.0, requests={"cpu": 1000}, start_up=2 * MINUTE)
EACH_MINUTE = ControllerOptions(sync_period=60 * SECOND)


def load():
    return Load([(BEGIN + day * DAY + at, value) for day in range(DAYS + 1) for at, value in SHAPE], gap_max=DAY)


def lived(of):
    """
    The highest load of each step as it was measured, by day and step; the score; and each day's highest forecast.

    A forecast is what was measured a day before, at the same time: the plainest one, of which an error would stay.
    """
    measured = defaultdict(float)
    foreseen = defaultdict(float)

    def note(observation, decision):
        value = load_of(observation.readings[0])
        if value is not None:
            key = (decision.at - BEGIN) // STEP
            measured[key] = max(measured[key], value)

    def latest(now):
        first = (now - BEGIN) // STEP
        before = [measured.get(first + ahead - DAY // STEP) for ahead in range(6)]
        if of.forecast is None or None in before:
            return None
        foreseen[(now - BEGIN) // DAY] = max(foreseen[(now - BEGIN) // DAY], *before)
        return forecast(*before, metric="cpu", issued_at=now, start=BEGIN + first * STEP)

    span = Span(BEGIN, BEGIN + DAYS * DAY)
    result = run(of, load(), ONE_CORE, span, forecasts=latest, watch=note)
    return measured, result.score, foreseen


@pytest.mark.slow
def test_fourteen_days_of_forecasts_of_what_they_changed_neither_grow_nor_fade():
    reactive = spec(minimum=1, maximum=60, metrics=(cpu(),), options=EACH_MINUTE)
    alone, before, _ = lived(reactive)
    beside, after, foreseen = lived(replace(reactive, forecast=ForecastSettings(budget_percent=100)))

    # It scaled: on the first day alone pods were late, for some more pods.
    assert after.under_provisioned_minutes < before.under_provisioned_minutes / 10
    assert before.pod_hours < after.pod_hours < 1.1 * before.pod_hours
    # Nobody measured more than there was, or less by the forecast's doing.
    assert max(beside.values()) <= 12.0 + 0.01
    assert max(abs(beside[step] - alone[step]) for step in alone) < 0.1
    # From the first day that is foreseen on all are alike.
    assert list(range(1, DAYS)) == sorted(foreseen)
    assert min(foreseen.values()) == pytest.approx(max(foreseen.values()), rel=0.001)
