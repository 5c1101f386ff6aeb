"""
Simulated hours of two replicas, with faults, kills, handovers and edits: the invariants hold, and can be broken.

`make simulate SEEDS=10000` runs more of them; `make simulate-mutants` breaks each invariant and searches from seed 0.
"""

from collections import Counter

import pytest
from mutants import MUTANTS, first_found
from seeds import Tally
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


def test_a_run_that_is_interrupted_tells_what_it_has_lived_and_where_to_go_on(capsys):
    def blocks():
        yield range(100, 110), ({}, Counter(writes=40))
        yield range(110, 120), ({113: "S1 at 7 s: 3 to 30"}, Counter(writes=2))
        raise KeyboardInterrupt

    code = Tally(range(100, 1100)).run(blocks())

    told = capsys.readouterr().out
    assert code == 1
    assert "seed 113: S1 at 7 s: 3 to 30" in told
    assert "20 of 1000 hours" in told
    assert "1 broken, 19 as they should be" in told
    assert "met: 42 writes" in told
    assert "make simulate SEED=120 SEEDS=980" in told


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_rule_is_found(mutant, monkeypatch):
    """The seeds begin with one that finds it today: a search from 0 on would take a minute."""
    found = first_found(mutant, monkeypatch, mutant.seeds)

    assert found is not None, "no seed found it"
    assert found.rule in mutant.rules
