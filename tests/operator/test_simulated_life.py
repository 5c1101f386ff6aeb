"""
Simulated hours of two replicas, with faults, kills, handovers and edits: the invariants hold, and can be broken.

`make simulate SEEDS=10000` runs more of them; `make simulate-mutants` breaks each invariant and searches from seed 0.
"""

import pytest
from mutants import MUTANTS, first_found
from simulated_life import live_through

# Half a second of CPU each, a test each, so that workers share them. They meet every kind of fault; CI's nightly
# `make simulate SEEDS=10000` looks for what is rare.
_SEEDS = 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(_SEEDS))
def test_an_hour_holds_every_invariant(seed):
    live_through(seed)


def test_a_seed_is_the_same_hour_each_time():
    once, again = live_through(1), live_through(1)

    assert once.scalings == again.scalings
    assert once.writes == again.writes
    assert len(once.scalings) > 3


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_rule_is_found(mutant, monkeypatch):
    """The seeds begin with one that finds it today: a search from 0 on would take a minute."""
    found = first_found(mutant, monkeypatch, mutant.seeds)

    assert found is not None, "no seed found it"
    assert found.rule in mutant.rules
