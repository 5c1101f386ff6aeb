"""What `make demo-step` says of what it saw."""

from xml.etree import ElementTree as ET

from testbed.step.picture import draw
from testbed.step.scenario import LABELS, copies
from testbed.step.score import Outcome, Seen, as_text, middle, outcome, table

MINUTE = 60 * 10**9


def timeline(*changes, end=60):
    """A moment a second from 30 s before the step on; changes: (second, replicas, ready)."""
    seen = []
    replicas, ready = 2, 2
    for second in range(-30, end):
        for at, *counts in changes:
            if at == second:
                replicas, ready = counts
        seen.append(Seen(float(second), replicas, ready))
    return seen


def test_an_outcome_has_the_first_write_enough_ready_pods_the_seconds_short_and_the_stairs():
    """8 cores need 8 ready pods, 10 at the target: short from 0 to 36, though 4 are ready at 20."""
    step_outcome = outcome(timeline((5, 4, 2), (20, 8, 4), (36, 10, 8), (50, 10, 10)))

    assert Outcome(5.0, 50.0, 36.0, ((5.0, 4), (20.0, 8), (36.0, 10))) == step_outcome


def test_pods_that_are_there_before_the_step_are_there_in_time():
    step_outcome = outcome(timeline((-20, 10, 2), (-9, 10, 10)))

    assert (-20.0, 0.0, 0.0) == (step_outcome.first, step_outcome.enough, step_outcome.short)


def test_what_was_not_seen_is_said():
    rows = table({"hpa": [outcome(timeline()), outcome(timeline((5, 10, 10)))]})

    assert ("upstream HPA, CPU", "not within the run (1 of 2)", "not within the run (1 of 2)") == rows[1][:3]
    assert "| upstream HPA, CPU |" in as_text(rows)


def test_what_came_before_the_step_is_said_to_be_before_it():
    rows = table({"schedule": [outcome(timeline((-20, 4, 2), (-9, 10, 10)))]})

    assert "20 s before, at worst 20 s before" == rows[1][1]
    assert ("0 s", "0 s") == rows[1][2:4]
    assert "4 at 20 s before, 10 at 9.0 s before" == rows[1][4]


def test_the_middle_copy_is_the_one_of_the_median():
    outcomes = [Outcome(1.0, 1.0, short, ()) for short in (30.0, 10.0, 20.0, 40.0)]

    assert 2 == middle(outcomes)


def test_the_steps_of_the_copies_are_spread_over_a_period_after_the_edge():
    made = copies(MINUTE, 3)

    assert {0, 5, 10} == {(copy.step - MINUTE) // 10**9 for copy in made}
    assert 3 * len(LABELS) == len({copy.name for copy in made})
    assert [1.2, 8.0] == [made[1].cores.at(made[1].step + offset) for offset in (-1, 0)]
    assert [12.0, 80.0] == [made[1].in_flight.at(made[1].step + offset) for offset in (-1, 0)]
    assert "schedules" in made[-1].document(MINUTE)["spec"]


def test_the_picture_has_all_four(tmp_path):
    seen = {name: [timeline((5, 10, 2), (16, 10, 10))] for name in LABELS}
    draw(
        seen,
        {name: [outcome(one_timeline) for one_timeline in timelines] for name, timelines in seen.items()},
        tmp_path / "a.svg",
    )

    texts = " ".join(ET.parse(tmp_path / "a.svg").getroot().itertext())
    for label in LABELS.values():
        assert f"{label}: first reaction 5.0 s after the step, short of pods for 16 s" in " ".join(texts.split())
