"""
Simulated hours of two replicas, with faults, kills, handovers and edits: the invariants hold, and can be broken.

`make simulate SEEDS=10000` runs more of them.
"""

import pytest
from msgspec.structs import replace
from simulated_life import live_through
from simulated_world import Violation

from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Recommendation
from cronhpa.core.model.memory import Memory
from cronhpa.operator.leader.election import Leadership
from cronhpa.operator.loop import reconciler
from cronhpa.operator.objects.owners import Owners
from cronhpa.operator.writes import writer
from cronhpa.operator.writes.written_status import StatusWrite, WrittenStatus

# A quarter of a second of CPU each. A test each, so that several workers share them.
_SEEDS = 200


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_an_hour_holds_every_invariant(seed):
    live_through(seed)


def test_a_seed_is_the_same_hour_each_time():
    once, again = live_through(7), live_through(7)

    assert once.scalings == again.scalings
    assert once.writes == again.writes
    assert len(once.scalings) > 3


def too_many(spec, *given):
    decision = decide(spec, *given)
    return replace(decision, desired=decision.desired + 8) if decision.rescales else decision


def blindly_down(spec, *given):
    decision = decide(spec, *given)
    lower = max(decision.current - 1, spec.min_replicas)
    return replace(decision, desired=lower) if decision.failure and decision.current > lower else decision


def forgetful(self, _current, now, _held_until=None):
    """A restart believes that one replica was enough until now."""
    return replace(self, recommendations=(Recommendation(1, now, 1),), scale_downs=(), intent=None)


def first_violation(seeds, deciding=decide):
    for seed in seeds:
        try:
            live_through(seed, deciding)
        except Violation as violation:
            return str(violation).partition(" ")[0]
    return "none"


@pytest.mark.parametrize(
    ("deciding", "seeds", "rule"),
    [(too_many, range(20), "S1 L1"), (blindly_down, range(1, 20), "S2 S5")],
    ids=["beyond bounds", "down without evidence"],
)
def test_a_broken_decision_is_found(deciding, seeds, rule):
    assert first_violation(seeds, deciding) in rule.split()


@pytest.mark.parametrize(
    ("where", "name", "broken", "seeds", "rule"),
    [
        (Leadership, "write_seconds", lambda _: 60.0, range(7, 60), "S4"),
        (Leadership, "write_seconds", lambda _: 60.0, range(63, 200, 4), "S4"),
        (Memory, "resumed", forgetful, range(37, 80), "S5"),
        (Owners, "problem", lambda *_: None, range(10, 80), "S10"),
    ],
    ids=["no fence", "no fence of a shard", "memory lost at a restart", "another owner"],
)
def test_a_broken_rule_of_the_shell_is_found(monkeypatch, where, name, broken, seeds, rule):
    """The seeds begin with one that finds it today: a search from 0 on would take a minute."""
    monkeypatch.setattr(where, name, broken)

    assert first_violation(seeds) in rule.split()


def test_a_status_in_each_period_is_found(monkeypatch):
    """Three rules keep a quiet object's status from being written: each alone would."""
    monkeypatch.setattr(reconciler, "standing", lambda *_: None)
    monkeypatch.setattr(WrittenStatus, "need", lambda *_: StatusWrite.STATUS)
    monkeypatch.setattr(writer, "need", lambda *_: StatusWrite.STATUS)

    assert "S7" == first_violation(range(3))
