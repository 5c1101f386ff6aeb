"""benchmarks/peers_times.py: seconds from an edge, a step and the end of a window, by what the watch saw."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.usefixtures("benchmark_scripts")


def seen(replicas=None, ready=None):
    import peers_times

    return peers_times.Seen(replicas or {}, ready or {})


def test_what_was_ready_before_an_edge_is_early_and_what_came_after_it_is_late():
    """Two pods before; the first object had four 10 s before the edge at 100, the second 7 s after it."""
    import peers_times

    numbers = {"a": [(0, 2), (90, 4)], "b": [(0, 2), (107, 4)]}
    figures = peers_times.edge(seen(numbers, numbers), ["a", "b"], 100, 50, 150, 4)

    assert figures["ready_at_edge"] == 1
    assert [-10, 7] == [figures["ready"][name] for name in ("min", "max")]
    assert [0, 7] == [figures["late"][name] for name in ("min", "max")]


def test_an_object_that_never_came_is_later_than_all_others():
    import peers_times

    spread = peers_times.spread([3.0, None, 1.0], 3)

    assert {"count": 2, "of": 3, "min": 1.0, "p50": 3.0, "p99": None, "max": None} == spread


def test_what_held_before_the_interval_counts_from_its_begin_on():
    import peers_times

    assert peers_times.first([(0, 4)], 50, 150, (4).__le__) == 50
    assert peers_times.first([(0, 4), (60, 2)], 50, 150, (4).__le__) == 50
    assert peers_times.first([(0, 2), (200, 4)], 50, 150, (4).__le__) is None


def test_a_window_ends_with_the_write_that_takes_its_pods():
    import peers_times

    figures = peers_times.down(seen({"a": [(0, 2), (90, 4), (430, 2)]}), ["a"], 120, 500, 2)

    assert figures["max"] == 310


def test_a_step_has_a_first_write_and_one_of_the_count_that_it_asks_for():
    import peers_times

    figures = peers_times.step(seen({"a": [(0, 1), (104, 2), (119, 4)]}), ["a"], 100, 175, 4)

    assert (4, 19) == (figures["first"]["max"], figures["whole"]["max"])


def test_writes_are_counted_within_the_interval():
    import peers_times

    assert peers_times.writes(seen({"a": [(0, 1), (104, 2), (119, 4)]}), ["a"], 100, 110) == 1


def test_a_line_that_is_not_whole_yet_is_left_out(tmp_path):
    import peers_times

    line = {"at": 1.0, "kind": "replicas", "key": "a", "number": 2}
    lost = {"at": 2.0, "kind": "lost", "key": "/api/v1/pods", "number": 0}
    (tmp_path / "events").write_text(f"{json.dumps(line)}\n{json.dumps(lost)}\n" + '{"at": 3')

    read = peers_times.read(tmp_path / "events")

    assert ({"a": [(1.0, 2)]}, 1) == (dict(read.replicas), read.lost)
