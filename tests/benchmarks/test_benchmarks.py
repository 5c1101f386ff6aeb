"""The benchmarks measure what they claim: the decided situation, and the processes that are counted."""

import json
import random
from collections import Counter

import pytest

from cronhpa.core.model.instant import DAY
from testbed.control_plane import Request

pytestmark = pytest.mark.usefixtures("benchmark_scripts")


def test_the_timed_decision_has_one_window_open_one_closed_and_an_acting_forecast():
    import decision

    decided = decision.situation(decision.TIMED, decision.forecast(decision.NOW)).decision

    assert ["Open", "Closed"] == [window.state for window in decided.windows]
    assert ["Metric/cpu", "Forecast/cpu", "Schedule/office-hours"] == [
        str(proposal.by) for proposal in decided.proposals
    ]
    assert 10 == decided.desired


def test_memory_is_as_full_as_an_hour_of_reconciliations_makes_it():
    """
    A window of 300 s at 15 s a reconciliation holds 20 recommendations, and the slot of the one that is just too old.
    """
    import decision

    memory = decision.situation(decision.PLAIN, None).memory

    assert 21 <= len(memory.recommendations) <= 22


def test_bytes_are_those_of_the_call():
    import decision

    peak, kept, blocks = decision.allocated(lambda: bytes(10_000))

    assert 10_000 <= kept <= peak < 11_000
    assert 1 == blocks


def test_calls_are_counted_of_one_user_by_verb_and_resource():
    import idle_fleet

    counts = Counter(
        {
            Request("operator", "list", "metrics.k8s.io", "pods"): 3,
            Request("operator", "list", "", "pods"): 1,
            Request("somebody", "list", "", "pods"): 7,
        }
    )

    assert {"list metrics.k8s.io/pods": 3, "list pods": 1} == idle_fleet.by_kind(counts, "operator")


def test_the_targets_are_spread_evenly_over_the_namespaces():
    import idle_fleet

    per_namespace = Counter(namespace for namespace, _ in idle_fleet.names())

    assert idle_fleet.OBJECTS == sum(per_namespace.values())
    assert max(per_namespace.values()) - min(per_namespace.values()) <= 1


def test_the_simulator_is_measured_by_the_reconciliations_of_its_span():
    """An hour of reconciliations every 15 s is 240; 20 pods on average are some at any hour."""
    import simulated_week

    figures = simulated_week.measured(20, DAY // 24)

    assert 240 == figures["reconciliations"]
    assert figures["pod_hours"] > 0
    assert figures["reconciliations_per_second"] == pytest.approx(240 / figures["cpu_seconds"], rel=0.05)


def test_the_fleet_of_schedules_shares_windows_that_can_all_be_read(monkeypatch):
    import schedules

    monkeypatch.setattr(schedules, "OBJECTS", 400)
    fleet = schedules.fleet(random.Random(1))
    windows = Counter(schedule.window for spec in fleet for schedule in spec.schedules)

    assert 400 * 5 == windows.total()
    assert 100 <= len(windows) <= 120
    assert [] == [schedule.problem for spec in fleet for schedule in spec.schedules if schedule.problem]
    assert any(window.exclude for window in windows)


def test_a_tick_of_schedules_is_the_bounds_of_every_object(monkeypatch):
    import schedules

    monkeypatch.setattr(schedules, "OBJECTS", 20)
    fleet = schedules.fleet(random.Random(1))

    cost, resolved = schedules.tick(fleet, schedules.BEGIN)

    assert cost > 0
    assert [5] * 20 == [len(bounds.windows) for bounds in resolved]


async def test_the_memory_of_a_worker_is_its_own_and_not_that_of_who_started_it():
    """What a process had at its most is inherited by those that it starts: here 200 MB."""
    import learning_cost

    from cronhpa.forecasting.pool import ProcessPool

    held = bytearray(b"x") * (200 * 2**20)
    processes = ProcessPool(1)
    try:
        _, megabytes = json.loads(await processes.run(learning_cost.usage, b"", 60))
    finally:
        await processes.close()

    assert len(held) == 200 * 2**20
    assert 10 < megabytes < 150
