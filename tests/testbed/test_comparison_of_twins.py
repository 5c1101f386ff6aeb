"""The comparison of twins finds what is there to be found, and lets pass only what the clocks explain."""

from types import SimpleNamespace

from cronhpa.core.model.instant import SECOND
from testbed.differential import Clocks, Plateau, Step, Timeline, compare

STEP = Step("rise", level=4.0, ratio=1.0, ticks=3)
CHANGE = 101


def told(reason="ReadyForNewScale", average="500m"):
    metric = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "current": {"averageValue": average}}}
    return {
        "conditions": [{"type": "AbleToScale", "status": "True", "reason": reason}],
        "currentMetrics": [metric],
    }


def twins(upstream, ours, *, ticks=None, pods=(), statuses=None):
    """Replicas behind the ticks at 104, 108 and 112 s; a tick at 100 s, a change of the world at 101 s."""
    timeline = Timeline()
    for side, counts in (("upstream", upstream), ("ours", ours)):
        instants = (ticks or {}).get(side, (100, 104, 108, 112))
        timeline.ticks[side] = [round(at * SECOND) for at in instants]
        timeline.replicas[side] = [(0, 2)]
        for at, count in zip(instants[1:], counts, strict=True):
            if count != timeline.replicas[side][-1][1]:
                timeline.replicas[side].append((round(at * SECOND) + SECOND // 10, count))
    for side, at, text in pods:
        timeline.pods[side].append((round(at * SECOND), text))
    said = statuses or {"upstream": told(), "ours": told()}
    plateau = Plateau(STEP, CHANGE * SECOND, 115 * SECOND, said, said)
    return SimpleNamespace(case=SimpleNamespace(name="web"), timeline=timeline, plateaus=[plateau, plateau])


def compared(*arguments, **settings):
    return compare([twins(*arguments, **settings)], Clocks(settling=1.5, windows=(6,)))


def test_the_same_at_every_tick_is_exact():
    comparison = compared((3, 4, 4), (3, 4, 4))

    assert (3, 0, []) == (comparison.exact, comparison.allowed.total(), comparison.unexplained)


def test_a_tick_that_differs_for_no_reason_is_unexplained():
    comparison = compared((3, 4, 4), (3, 3, 4))

    assert 2 == comparison.exact
    (text,) = comparison.unexplained
    assert text.startswith("web, rise, tick 2: {'upstream': [3, 4, 4], 'ours': [3, 3, 4]}; upstream ticked at [")


def test_a_tick_right_behind_a_change_of_the_world_is_allowed_and_so_is_what_it_leads_to():
    comparison = compared((2, 3, 4), (3, 4, 4), ticks={"upstream": (98, 102, 106, 110)})

    assert {"too soon behind a change": 1, "because of what they remember": 1} == comparison.allowed
    assert [] == comparison.unexplained


def test_a_tick_so_late_that_a_window_holds_one_less_is_allowed():
    """Of 6 s before the tick at 110.5 s, the one at 104 s is no more; on time, the window held that of 104 s."""
    comparison = compared((3, 3, 4), (3, 4, 4), ticks={"upstream": (100, 104, 110.5, 114)})

    assert {"with another number of ticks in a window": 1} == comparison.allowed


def test_a_tick_among_pods_that_come_is_allowed():
    comparison = compared((3, 3, 4), (3, 4, 4), pods=[("upstream", 107, "web-1 Running True")])

    assert {"while pods came or went": 1} == comparison.allowed


def test_statuses_are_compared_where_nothing_changes():
    rest = (2, 2, 2)

    assert 2 == compared(rest, rest).statuses
    assert 0 == compared((2, 2, 3), (2, 2, 3)).statuses
    for other in (told(reason="ScaleDownStabilized"), told(average="400m")):
        comparison = compared(rest, rest, statuses={"upstream": told(), "ours": other})
        assert 1 == len(set(comparison.unexplained))
