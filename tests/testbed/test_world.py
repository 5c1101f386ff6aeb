"""The arithmetic of the plant, without a clock: times below are seconds after the start."""

import pytest

from cronhpa.core.model.instant import SECOND
from testbed.loads import Constant, Trace
from testbed.selector import parse_selector
from testbed.world import FRESH, IDLE_CORES, SeenPod, Target, World


def pod(name, *, ready=True, running=True, containers=("app",)):
    return SeenPod(name, name, "shop", {"app": "web"}, containers, running, ready)


def world_of(*pods, load, **options):
    """Pods that were seen at second 0, under one load; the window opens at 0."""
    world = World(opened=0)
    for listed_pod in pods:
        world.observe(listed_pod, 0)
    target = Target("shop", {"app": "web"}, load, **options)
    world.add(target, 0)
    return world, target


def cores(samples, container="app"):
    return {sample.pod.name: sample.usage[container]["cpu"] for sample in samples}


def test_ready_pods_share_the_load():
    world, _ = world_of(pod("a"), pod("b"), load=Constant(3.0))

    samples = world.close_window(15 * SECOND)

    assert {"a": pytest.approx(1.5), "b": pytest.approx(1.5)} == cores(samples)


def test_a_pod_that_becomes_ready_takes_its_share_from_then_on():
    """a: all 3 cores for 5 s, half for 10 s: (15 + 15) / 15 = 2. b: idle for 5 s, half for 10 s: 15 / 15 = 1."""
    world, _ = world_of(pod("a"), pod("b", ready=False), load=Constant(3.0))

    world.observe(pod("b"), 5 * SECOND)
    samples = world.close_window(15 * SECOND)

    assert {"a": pytest.approx(2.0), "b": pytest.approx(1.0 + IDLE_CORES / 3)} == cores(samples)


def test_what_was_served_before_a_pod_went_is_not_lost():
    """b is gone after 5 s: a serves half of 2 cores, then all: (5 x 1 + 10 x 2) / 15."""
    world, target = world_of(pod("a"), pod("b"), load=Constant(2.0))

    world.forget("b", 5 * SECOND)
    samples = world.close_window(15 * SECOND)

    assert {"a": pytest.approx(25 / 15)} == cores(samples)
    assert 1 == target.ready


def test_each_window_begins_at_nothing():
    world, target = world_of(pod("a"), load=Constant(2.0))
    world.close_window(15 * SECOND)

    target.load = Constant(0.5)
    samples = world.close_window(30 * SECOND)

    assert {"a": pytest.approx(0.5)} == cores(samples)


def test_a_change_in_the_middle_of_a_window_is_averaged():
    """1 core for 6 s and 4 cores for 9 s: (6 + 36) / 15 = 2.8."""
    world, target = world_of(pod("a"), load=Constant(1.0))

    target.advance(6 * SECOND)
    target.load = Constant(4.0)
    samples = world.close_window(15 * SECOND)

    assert {"a": pytest.approx(2.8)} == cores(samples)


def test_a_pod_uses_no_more_than_its_limit():
    world, _ = world_of(pod("a"), pod("b"), load=Constant(5.0), limit=1.0)

    assert {"a": pytest.approx(1.0), "b": pytest.approx(1.0)} == cores(world.close_window(15 * SECOND))


def test_a_pod_has_its_first_sample_when_it_ran_for_ten_seconds():
    """b ran for 9 s at the first window, so it has none; its second is a whole window."""
    world, _ = world_of(pod("a"), load=Constant(2.0))
    world.observe(pod("b", ready=False), 15 * SECOND - FRESH + SECOND)

    first = world.close_window(15 * SECOND)
    second = world.close_window(30 * SECOND)

    assert ["a"] == [sample.pod.name for sample in first]
    assert [15 * SECOND, 15 * SECOND] == [sample.window for sample in second]


def test_a_pending_pod_has_no_sample():
    world, _ = world_of(pod("a", running=False, ready=False), load=Constant(2.0))

    assert [] == world.close_window(15 * SECOND)


def test_only_the_named_container_carries_the_load():
    world, _ = world_of(pod("a", containers=("proxy", "app")), load=Constant(2.0), container="app")

    samples = world.close_window(15 * SECOND)

    assert {"a": pytest.approx(2.0)} == cores(samples, "app")
    assert {"a": pytest.approx(IDLE_CORES)} == cores(samples, "proxy")


def test_memory_is_shared_like_cpu():
    world, _ = world_of(pod("a"), pod("b"), load=Constant(6e9), resource="memory")

    samples = world.close_window(15 * SECOND)

    assert [pytest.approx(3e9), pytest.approx(3e9)] == [sample.usage["app"]["memory"] for sample in samples]


def test_a_trace_is_a_straight_line_between_its_points_and_level_outside():
    trace = Trace([0, 60 * SECOND], [1.0, 3.0])

    assert [1.0, 1.0, 2.0, 3.0, 3.0] == [trace.at(second * SECOND) for second in (-5, 0, 30, 60, 99)]


def test_a_shifted_trace_happens_later():
    trace = Trace([0, 60 * SECOND], [1.0, 3.0]).shifted(60 * SECOND)

    assert [1.0, 2.0] == [trace.at(60 * SECOND), trace.at(90 * SECOND)]
    assert [(60 * SECOND, 1.0)] == list(trace.rows(before=120 * SECOND))


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier!=back", True),
        ("app in (api, web),!old", True),
        ("tier notin (back)", True),
        ("app", True),
        ("tier", False),
        ("!app", False),
        ("app=web,tier=front", False),
        ("app notin (web)", False),
    ],
)
def test_a_selector_is_read_as_the_api_server_reads_it(selector, matches):
    assert matches is all(requirement({"app": "web"}) for requirement in parse_selector(selector))


def test_a_selector_that_cannot_be_read_says_from_where():
    with pytest.raises(ValueError, match=r'cannot be read from "b c" on'):
        parse_selector("a=1,b c")
