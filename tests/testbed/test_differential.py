"""The comparison of twins finds what is there to be found, and lets pass only what the clocks explain."""

from types import SimpleNamespace

from cronhpa.core.instant import SECOND
from testbed.differential import Plateau, Step, Timeline, compare

STEP = Step("rise", level=4.0, ratio=1.0, ticks=3)
CHANGE = 100


def told(reason="ReadyForNewScale", average="500m"):
    metric = {"type": "Pods", "pods": {"metric": {"name": "rps"}, "current": {"averageValue": average}}}
    return {
        "conditions": [{"type": "AbleToScale", "status": "True", "reason": reason}],
        "currentMetrics": [metric],
    }


def twins(upstream, ours, *, ticks=None, pods=(), statuses=None):
    """Replicas behind each of three ticks, at 104, 108 and 112 s; one tick and a change of the world before them."""
    timeline = Timeline()
    for side, counts in (("upstream", upstream), ("ours", ours)):
        instants = (ticks or {}).get(side, (96, 104, 108, 112))
        timeline.ticks[side] = [at * SECOND for at in instants]
        timeline.replicas[side] = [(0, 2)]
        for at, count in zip(instants[1:], counts, strict=True):
            if count != timeline.replicas[side][-1][1]:
                timeline.replicas[side].append((at * SECOND + SECOND // 10, count))
    for side, at, text in pods:
        timeline.pods[side].append((round(at * SECOND), text))
    said = statuses or {"upstream": told(), "ours": told()}
    plateau = Plateau(STEP, CHANGE * SECOND, 113 * SECOND, said, said)
    return SimpleNamespace(case=SimpleNamespace(name="web"), timeline=timeline, plateaus=[plateau, plateau])


def compared(*arguments, **settings):
    return compare([twins(*arguments, **settings)], period=4, settling=1.5)


def test_the_same_at_every_tick_is_exact():
    found = compared((3, 4, 4), (3, 4, 4))

    assert (3, 0, []) == (found.exact, found.allowed.total(), found.unexplained)


def test_a_tick_that_differs_for_no_reason_is_unexplained():
    found = compared((3, 4, 4), (3, 3, 4))

    assert 2 == found.exact
    assert ["web, rise, tick 2: {'upstream': [3, 4, 4], 'ours': [3, 3, 4]}"] == found.unexplained


def test_a_tick_right_behind_a_change_of_the_world_is_allowed_and_so_is_what_it_leads_to():
    found = compared((2, 3, 4), (3, 4, 4), ticks={"upstream": (97, 101, 105, 109)})

    assert {"too soon behind a change": 1, "because of their history": 1} == found.allowed
    assert [] == found.unexplained


def test_a_tick_that_came_late_is_allowed():
    found = compared((3, 3, 4), (3, 4, 4), ticks={"upstream": (96, 104, 109.5, 112)})

    assert {"at a tick out of time": 1} == found.allowed


def test_a_tick_among_pods_that_come_is_allowed():
    found = compared((3, 3, 4), (3, 4, 4), pods=[("upstream", 107, "web-1 Running True")])

    assert {"while pods came or went": 1} == found.allowed


def test_statuses_are_compared_where_nothing_changes():
    rest = (2, 2, 2)

    assert 2 == compared(rest, rest).statuses
    assert 0 == compared((2, 2, 3), (2, 2, 3)).statuses
    for other in (told(reason="ScaleDownStabilized"), told(average="400m")):
        found = compared(rest, rest, statuses={"upstream": told(), "ours": other})
        assert 1 == len(set(found.unexplained))
