"""benchmarks/fleet_edge.py: the picture of an edge."""

import importlib
import sys
from pathlib import Path

import pytest


@pytest.fixture
def fleet_edge(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    yield importlib.import_module("fleet_edge")
    sys.modules.pop("fleet_edge", None)


def test_times_are_counted_up_to_the_end_of_their_quarter_of_a_second(fleet_edge):
    """-0.6 lies before -0.5; -0.1 and -0.05 before 0; 0.3 before 0.5."""
    assert ([-0.5, 0.0, 0.5], [1, 3, 4]) == fleet_edge.cumulated([0.3, -0.1, -0.6, -0.05])


def test_an_edge_at_which_nobody_shrinks_is_drawn(fleet_edge, tmp_path):
    picture = tmp_path / "new" / "edge.svg"

    fleet_edge.draw({"ups": [-40.0], "ready": [-30.0], "downs": []}, 1, picture)

    assert "An edge that 1 objects share" in picture.read_text()
