"""cronhpa.core.steady: a repeated turn is, to the last field, the turn that would be decided."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import (
    NOW,
    average_targets,
    behavior,
    behaviors,
    cpu,
    overrides,
    pod,
    rules,
    schedule,
    schedules,
    spec,
    utilization_targets,
)
from cronhpa.core.decide import decide
from cronhpa.core.decision import Scaled, Withheld
from cronhpa.core.instant import HOUR, MINUTE, SECOND
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Sample, Scale
from cronhpa.core.observe import observe
from cronhpa.core.record import Record
from cronhpa.core.spec import ControllerOptions, ForecastSettings, ResourceMetric
from cronhpa.core.steady import repeat, steady

DAY = spec(minimum=1, maximum=20, metrics=(cpu(50),))


class Life:
    """
    A target under one spec: `turn` decides each turn, and repeats it where that can be done.

    follows: it is scaled as decided. reported: the pods that its status has at least.
    """

    def __init__(self, of, pods, *, follows=False, reported=0):
        self.spec, self.pods, self.memory, self.now = of, tuple(pods), Memory(), NOW
        self.follows, self.reported = follows, reported
        self.count = len(self.pods)
        self.known = None

    def turn(self, seconds, usage):
        """(what is repeated or None, what is decided), with this usage of each pod and metric."""
        self.now += seconds * SECOND
        samples = {each.name: Sample(usage, self.now, 15 * SECOND) for each in self.pods}
        observation = observe(
            self.spec,
            Scale(self.count, max(self.count, self.reported), "app=shop"),
            self.pods,
            [samples] * len(self.spec.metrics),
            self.now,
        )
        decision = decide(self.spec, observation, None, self.memory, self.now)
        outcome = Scaled(self.now) if self.follows and decision.rescales else Withheld()
        after = self.memory.after(decision, outcome, self.spec, observation)
        repetition = None
        if self.known is not None and self.pods:
            usages = [usage * len(self.pods)] * len(self.spec.metrics)
            repetition = repeat(self.known, usages, self.memory, self.now, self.now)
        record = Record(self.spec, observation, None, self.memory, self.now)
        self.known = steady(record, self.pods, decision, after)
        self.memory = after
        if outcome != Withheld():
            self.count = min(decision.desired, 20)
            self.pods = tuple(pod(f"pod-{index}") for index in range(self.count))
            self.known = None
        told = repetition and (repetition.decision, repetition.readings, repetition.memory)
        return told, (decision, observation.readings, after)


def ready(count, **fields):
    return [pod(f"pod-{index}", **fields) for index in range(count)]


def repeated(life, turns):
    """Which of these turns, (seconds, usage), are repeated."""
    told = [life.turn(*each)[0] for each in turns]
    return [each is not None for each in told]


resource_metrics = st.builds(
    ResourceMetric, name=st.sampled_from(["cpu", "memory"]), target=average_targets | utilization_targets
) | st.just(cpu(50))


@st.composite
def some_specs(draw):
    minimum = draw(st.integers(0, 5))
    return spec(
        minimum,
        minimum + draw(st.integers(1, 20)),
        metrics=tuple(draw(st.lists(resource_metrics, max_size=2))),
        behavior=draw(behaviors),
        options=ControllerOptions(tolerance=draw(st.sampled_from([0.1, 0.0, 0.5]))),
        schedules=tuple(draw(st.lists(schedules(), max_size=2))),
        override=draw(st.none() | overrides()),
    )


some_pods = st.one_of(
    st.integers(0, 6).map(ready),
    st.integers(1, 6).map(ready),
    st.lists(
        st.builds(
            pod,
            name=st.sampled_from(["a", "b", "c", "d"]),
            phase=st.sampled_from(["Running", "Running", "Pending", "Failed"]),
            deleting=st.sampled_from([False, False, True]),
            ready=st.sampled_from(["True", "True", "False", ""]),
            started=st.sampled_from([NOW - HOUR, NOW - 4 * MINUTE, NOW - 10 * SECOND]),
            request=st.sampled_from([1000, 1000, None]),
        ),
        max_size=4,
        unique_by=lambda each: each.name,
    ),
)
steps = st.tuples(
    st.sampled_from([15, 15, 15, 15, 1, 0, 60, 301, 900, 7200, 86_400]),
    st.sampled_from([500, 500, 500, 505, 490, 480, 520, 560, 100, 900, 0]),
)


@given(some_specs(), some_pods, st.lists(steps, min_size=2, max_size=25), st.booleans())
@settings(max_examples=150)
def test_what_is_repeated_is_what_would_be_decided(of, pods, turns, follows):
    """Decision, readings and memory of every turn of any life; follows: the target is scaled as decided."""
    life = Life(of, pods, follows=follows)

    for turn in turns:
        told, decided = life.turn(*turn)
        assert told in (None, decided)


@given(some_specs(), st.integers(1, 6).map(ready), st.sampled_from([500, 520, 480]))
@settings(max_examples=40)
def test_a_life_without_an_edge_comes_to_rest_and_is_repeated_from_then_on(of, pods, usage):
    """After hours at one load, with nothing held and nothing to scale."""
    assume(not of.is_timed)
    life = Life(replace(of, metrics=(cpu(50),)), pods, follows=True)
    for _ in range(8):
        life.turn(3601, usage)
    assume(not life.turn(3601, usage)[1][0].rescales and life.count > 0)

    assert life.turn(15, usage)[0] is not None


def test_loads_that_ask_for_the_same_count_are_repeated_and_others_decided():
    """The target is 500 a pod: 540 is within the tolerance of 10 %, 560 asks for a pod more."""
    life = Life(DAY, ready(4))

    assert [False, True, True, False] == repeated(life, [(15, 500), (15, 540), (15, 470), (15, 560)])


def test_a_count_that_the_minimum_holds_is_repeated_as_long_as_the_load_asks_for_the_same():
    """One pod would do for four of them at 100; the minimum of 4 stands. At 200 two would do."""
    life = Life(replace(DAY, min_replicas=4), ready(4))

    assert [False, False, True, False] == repeated(life, [(0, 100), (301, 100), (15, 110), (15, 200)])


def test_after_an_edge_the_bounds_are_others_and_the_turn_is_decided():
    """The window opens at 10:05, and leads by a start-up of 5 s and a period of 15 s: from 10:04:40 on."""
    rush = schedule("rush", start="5 10 * * *", end="0 18 * * *", floor=4)
    life = Life(replace(DAY, schedules=(rush,), behavior=behavior(down=rules(window=0))), ready(4))

    before, leading, opened = [(15, 500), (200, 500)], [(70, 500), (10, 500)], [(15, 500), (15, 500)]

    assert [False, True, False, True, False, True] == repeated(life, before + leading + opened)


def test_nothing_is_repeated_while_a_recommendation_or_a_step_of_the_past_may_count():
    """At 560 five were asked for: held for five minutes. A scale event counts for its policy's period."""
    held = Life(replace(DAY, behavior=behavior(down=rules(("Percent", 100, 15), window=300 * SECOND))), ready(5))
    held.turn(0, 560)

    assert [False] * 5 == repeated(held, [(60, 500)] * 5)


def test_nothing_is_repeated_while_a_pod_starts():
    """Its CPU counts from five minutes after its start on."""
    life = Life(DAY, [*ready(3), pod("new", started=NOW - 200 * SECOND)])

    assert [False, False, False, True] == repeated(life, [(15, 500), (70, 500), (30, 500), (15, 500)])


def test_a_change_that_was_not_made_is_decided_again_at_each_turn():
    """Refused or withheld: the next turn must try again."""
    assert [False] * 30 == repeated(Life(DAY, ready(4)), [(60, 900)] * 30)


def test_nothing_is_repeated_while_the_target_reports_more_pods_than_are_seen():
    """How long a pod may be missing is told by the clock."""
    assert [False] * 3 == repeated(Life(DAY, ready(4), reported=5), [(15, 500)] * 3)
    assert [False, True, True] == repeated(Life(DAY, ready(4), reported=4), [(15, 500)] * 3)


def test_an_object_with_a_forecast_is_decided_at_each_turn():
    life = Life(replace(DAY, forecast=ForecastSettings()), ready(4))

    assert [False, False, False] == repeated(life, [(15, 500)] * 3)
