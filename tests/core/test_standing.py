"""cronhpa.core.standing: a decision that stands is, to the last field, the one that would be made."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import (
    NOW,
    SHOP,
    average_targets,
    behavior,
    behaviors,
    cpu,
    overrides,
    pod,
    queue,
    rules,
    schedule,
    schedules,
    spec,
    targets,
    utilization_targets,
)
from cronhpa.core.decide import decide
from cronhpa.core.metrics.observe import observe
from cronhpa.core.metrics.replicas import Tolerance, measure
from cronhpa.core.model.decision import Scaled, Withheld
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import PodCounts, Sample, ScalarReading, Scale
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import (
    ControllerOptions,
    ExternalMetric,
    ForecastSettings,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
)
from cronhpa.core.standing import standing_of

DAY = spec(minimum=1, maximum=20, metrics=(cpu(50),))


class Life:
    """
    A target under one spec: `period` decides each period, and tells whether the decision before it stands.

    follows: it is scaled as decided. reported: the pods that its status has at least.
    """

    def __init__(self, of, pods, *, follows=False, reported=0):
        self.spec, self.pods, self.memory, self.now = of, tuple(pods), Memory(), NOW
        self.follows, self.reported = follows, reported
        self.count = len(self.pods)
        self.size = len(self.pods)
        self.is_listed = all(isinstance(metric, ResourceMetric) for metric in of.metrics)
        self.stands = None

    def period(self, seconds, usage, age=0):
        """
        ((decision, readings, memory) that stand or None, those that are decided), with this usage of each pod and
        metric, so many seconds old. Of a metric of the whole target it is that of as many pods as there were first.
        """
        self.now += seconds * SECOND
        samples = {listed_pod.name: Sample(usage, self.now - age * SECOND, 15 * SECOND) for listed_pod in self.pods}
        of_pods = [isinstance(metric, ResourceMetric | PodsMetric) for metric in self.spec.metrics]
        observation = observe(
            self.spec,
            Scale(self.count, max(self.count, self.reported), "app=shop"),
            self.pods,
            [samples if is_per_pod else usage * self.size for is_per_pod in of_pods],
            self.now,
        )
        decision = decide(self.spec, observation, None, self.memory, self.now)
        outcome = Scaled(self.now) if self.follows and decision.rescales else Withheld()
        after = self.memory.after(decision, outcome, self.spec, observation)
        stood = self._stood(observation, samples, usage)
        if stood is None:
            record = Record(self.spec, observation, None, self.memory, self.now)
            self.stands = standing_of(record, self.pods, decision, after)
        self.memory = after
        if outcome != Withheld():
            self.count = min(decision.desired, 20)
            self.pods = tuple(pod(f"pod-{index}") for index in range(self.count))
            self.stands = None
        return stood, (decision, observation.readings, after)

    def _stood(self, observation, samples, usage):
        if self.stands is None:
            return None
        usages = None
        if not self.is_listed:
            usages = self.stands.usages_of(observation.readings)
        elif self.pods and (self.now >= self.stands.started or self.stands.trusts(samples)):
            usages = (usage * len(self.pods),) * len(self.spec.metrics)
        if usages is None or not self.stands.covers(usages, self.now):
            return None
        self.stands.note_period(usages, self.now, self.now)
        return self.stands.newest_decision, self.stands.newest_readings, self.stands.newest_memory


def ready(count, **fields):
    return [pod(f"pod-{index}", **fields) for index in range(count)]


def stand(life, periods):
    """In which of these periods, (seconds, usage) or (seconds, usage, age), the decision stands."""
    return [life.period(*period)[0] is not None for period in periods]


resource_metrics = st.builds(
    ResourceMetric, name=st.sampled_from(["cpu", "memory"]), target=average_targets | utilization_targets
) | st.just(cpu(50))


value_targets = st.builds(MetricTarget, type=st.just("Value"), value=st.sampled_from([1000, 1500, 3000]))
per_pod_targets = st.builds(
    MetricTarget, type=st.just("AverageValue"), average_value=st.sampled_from([490, 500, 250, 1000])
)
other_metrics = st.one_of(
    resource_metrics,
    st.builds(PodsMetric, name=st.just("rps"), target=per_pod_targets),
    st.builds(ObjectMetric, name=st.just("rps"), target=value_targets | per_pod_targets, described=st.just(SHOP)),
    st.builds(ExternalMetric, name=st.just("queue"), target=value_targets | per_pod_targets),
)


@st.composite
def some_specs(draw, *, timed=True):
    """timed: with schedules and overrides among them."""
    minimum = draw(st.integers(0, 5))
    return spec(
        minimum,
        minimum + draw(st.integers(1, 20)),
        metrics=tuple(draw(st.lists(resource_metrics, max_size=2) | st.lists(other_metrics, min_size=1, max_size=2))),
        behavior=draw(behaviors),
        options=ControllerOptions(tolerance=draw(st.sampled_from([0.1, 0.0, 0.5]))),
        schedules=tuple(draw(st.lists(schedules(), max_size=2))) if timed else (),
        override=draw(st.none() | overrides()) if timed else None,
    )


starting_pods = st.lists(
    st.builds(
        pod,
        name=st.sampled_from(["a", "b", "c", "d"]),
        started=st.sampled_from([NOW - HOUR, NOW - 5 * MINUTE, NOW - 4 * MINUTE, NOW - 30 * SECOND]),
        ready_since=st.sampled_from([NOW - HOUR, NOW - 20 * SECOND, NOW - 5 * SECOND, NOW + 20 * SECOND]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda pod_drawn: pod_drawn.name,
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
        unique_by=lambda pod_drawn: pod_drawn.name,
    ),
)
steps = st.tuples(
    st.sampled_from([15, 15, 15, 15, 1, 0, 60, 301, 900, 7200, 86_400]),
    st.sampled_from([500, 500, 500, 505, 490, 480, 520, 560, 100, 900, 0]),
    st.sampled_from([0, 0, 0, 10, 60]),
)


def kept(life):
    """What the status keeps of the memory, its newest recommendation without its instant."""
    pruned = life.memory.pruned(life.spec.behavior, life.spec.options, life.now)
    *earlier, newest = pruned.recommendations or (None,)
    return (*earlier, newest and replace(newest, at=0)), pruned.scale_ups, pruned.scale_downs


@given(some_specs(), some_pods, st.lists(steps, min_size=2, max_size=25), st.booleans())
@settings(max_examples=150)
def test_what_stands_is_what_would_be_decided(of, pods, reconciliations, follows):
    """
    Decision, readings and memory of every reconciliation of any life, and the status keeps the same; follows: the
    target is scaled as decided.
    """
    life = Life(of, pods, follows=follows)

    for reconciliation in reconciliations:
        before = kept(life)
        stood, decided = life.period(*reconciliation)
        assert stood in (None, decided)
        assert stood is None or before == kept(life)


@given(
    starting_pods,
    st.lists(
        st.tuples(st.sampled_from([15, 15, 1, 100]), st.sampled_from([500, 540, 470]), st.sampled_from([0, 0, 10, 60])),
        min_size=2,
        max_size=25,
    ),
)
def test_what_stands_of_pods_that_start_is_what_would_be_decided(pods, reconciliations):
    """Samples of 15 s, at once or up to a minute old."""
    life = Life(DAY, pods)

    for reconciliation in reconciliations:
        stood, decided = life.period(*reconciliation)
        assert stood in (None, decided)


@given(some_specs(timed=False), st.integers(1, 6).map(ready), st.sampled_from([500, 520, 480]))
@settings(max_examples=40)
def test_a_decision_stands_once_nothing_is_stabilized_or_scaled_any_more(of, pods, usage):
    """After hours at one load, with nothing held and nothing to scale."""
    life = Life(replace(of, metrics=(cpu(50),)), pods, follows=True)
    for _ in range(8):
        life.period(3601, usage)
    assume(not life.period(3601, usage)[1][0].rescales and life.count > 0)

    assert life.period(15, usage)[0] is not None


def test_a_decision_stands_at_loads_that_ask_for_its_count():
    """The target is 500 a pod: 540 is within the tolerance of 10 %, 560 asks for a pod more."""
    life = Life(DAY, ready(4))

    assert [False, True, True, False] == stand(life, [(15, 500), (15, 540), (15, 470), (15, 560)])


def test_a_count_that_the_minimum_holds_stands_as_long_as_the_load_asks_for_the_same():
    """One pod would do for four of them at 100; the minimum of 4 stands. At 200 two would do."""
    life = Life(replace(DAY, min_replicas=4), ready(4))

    assert [False, False, True, False] == stand(life, [(0, 100), (301, 100), (15, 110), (15, 200)])


def test_where_the_pods_are_not_as_many_as_wanted_a_load_between_two_that_ask_for_the_same_may_ask_for_more():
    """Of 20 pods 10 are wanted: half of the target asks for 10, the target for the current 10, 70 % of it for 14."""
    life = Life(DAY, ready(20))
    life.count = 10

    assert [False, True, False] == stand(life, [(15, 250), (15, 500), (15, 350)])


loaded_metrics = st.one_of(
    st.builds(ResourceMetric, name=st.just("cpu"), target=average_targets | utilization_targets),
    st.builds(PodsMetric, name=st.just("rps"), target=average_targets),
    st.builds(ExternalMetric, name=st.just("queue"), target=st.builds(MetricTarget, st.just("Value"), targets)),
    st.builds(ExternalMetric, name=st.just("queue"), target=average_targets),
)


@pytest.mark.slow
@given(
    st.integers(1, 12),
    loaded_metrics,
    st.sampled_from([0.1, 0.0, 0.5]),
    st.integers(0, 40),
    st.tuples(*[st.integers(0, 30_000)] * 3).map(sorted),
)
@settings(max_examples=300)
def test_between_two_usages_that_ask_for_the_same_count_all_do(pods, metric, tolerance, headroom, usages):
    """Where the target has as many pods as it wants, and all of them carry the load."""
    of_pods = PodCounts(pods, 0, 0, pods, pods, 0, 1000 * pods, 0, 0, 0, 0)
    is_scalar = isinstance(metric, ExternalMetric)
    readings = [ScalarReading(usage, pods) if is_scalar else replace(of_pods, usage=usage) for usage in usages]
    band = Tolerance(tolerance, tolerance)
    asked = [measure(metric, reading, pods, pods, band, headroom) for reading in readings]

    assume(asked[0].replicas == asked[2].replicas)
    assert asked[0].replicas == asked[1].replicas


def test_a_decision_stands_for_values_that_ask_for_the_same_count():
    """A queue of 10 a pod, four pods: 44 is within the tolerance of 10 %, 45 asks for a pod more; so it does of 50."""
    life = Life(replace(DAY, metrics=(queue(10),)), ready(4))

    assert [False, True, True, False] == stand(life, [(15, 10_000), (15, 11_000), (15, 9_000), (15, 11_250)])


def test_a_value_for_a_target_of_which_a_pod_is_not_ready_stands_while_five_are_asked_for():
    """At 50, the target, the current five are. At 56 the four that are Ready ask for 4 * 1.12, at 66 for 4 * 1.32."""
    of = replace(DAY, metrics=(ExternalMetric("queue", MetricTarget("Value", value=50_000)),))
    life = Life(of, [*ready(4), pod("late", ready="False")])

    assert [False, True, False] == stand(life, [(15, 10_000), (15, 11_200), (15, 13_200)])


def test_no_decision_stands_over_an_edge():
    """The window opens at 10:05, and leads by a start-up of 5 s and a period of 15 s: from 10:04:40 on."""
    rush = schedule("rush", start="5 10 * * *", end="0 18 * * *", floor=4)
    life = Life(replace(DAY, schedules=(rush,), behavior=behavior(down=rules(window=0))), ready(4))

    before, leading, opened = [(15, 500), (200, 500)], [(70, 500), (10, 500)], [(15, 500), (15, 500)]

    _, _, leads, _, opens, stays = stand(life, before + leading + opened)
    assert (False, False, True) == (leads, opens, stays)


HELD = replace(DAY, behavior=behavior(down=rules(("Percent", 100, 15), window=300 * SECOND)))


def test_a_decision_that_holds_a_count_stands_until_the_count_leaves_its_window():
    """Of five pods at 500 one would do at 100. Five were asked for at 0 s, and leave the window at 300 s."""
    life = Life(HELD, ready(5))
    life.period(0, 500)

    assert [False, True, True, True] == stand(life, [(60, 100), (60, 100), (60, 100), (119, 100)])
    stood, (decision, *_) = life.period(1, 100)
    assert (None, 1) == (stood, decision.desired)


def test_a_count_that_differs_and_holds_nothing_ends_the_repetition_when_it_leaves_its_window():
    """Four were asked for until 0 s, five from 60 s on: 4 leave at 300 s, and the status at the next reconciliation."""
    life = Life(DAY, ready(4))
    life.period(0, 500)
    life.pods, life.count = tuple(ready(5)), 5

    reconciliations = [(60, 500), (60, 500), (179, 500), (1, 500), (15, 500), (15, 500)]
    assert [False, True, True, False, False, True] == stand(life, reconciliations)


def test_a_decision_that_a_policy_limits_stands_until_the_last_step_leaves_its_period():
    """One pod in 120 s, which came at 0 s: at 5 pods of 700 each, seven are wanted."""
    slow = behavior(up=rules(("Pods", 1, 120), window=0))
    life = Life(replace(DAY, behavior=slow), ready(4), follows=True)
    life.period(0, 700)

    assert [False, True, True] == stand(life, [(30, 700), (30, 700), (59, 700)])
    stood, (decision, *_) = life.period(1, 700)
    assert (None, 6) == (stood, decision.desired)


def test_a_decision_stands_for_a_pod_that_starts_while_its_samples_lie_behind_its_readiness():
    """Samples of 15 s. Ready since 100 s before the first reconciliation, it has one of its start in the third one."""
    new = pod("new", started=NOW - 120 * SECOND, ready_since=NOW - 100 * SECOND)
    life = Life(DAY, [*ready(3), new])

    assert [False, True, False] == stand(life, [(0, 500), (15, 500), (15, 500, 120)])
    # Five minutes after its start any sample counts.
    assert [False, True, True] == stand(life, [(15, 500), (15, 500), (240, 500, 400)])


def test_a_change_that_was_not_made_is_decided_again_at_each_reconciliation():
    """Refused or withheld: the next reconciliation must try again."""
    assert [False] * 30 == stand(Life(DAY, ready(4)), [(60, 900)] * 30)


def test_no_decision_stands_while_the_target_reports_more_pods_than_are_seen():
    """The time for which a pod may be missing is measured by the clock."""
    assert [False] * 3 == stand(Life(DAY, ready(4), reported=5), [(15, 500)] * 3)
    assert [False, True, True] == stand(Life(DAY, ready(4), reported=4), [(15, 500)] * 3)


def test_an_object_with_a_forecast_is_decided_at_each_reconciliation():
    life = Life(replace(DAY, forecast=ForecastSettings()), ready(4))

    assert [False, False, False] == stand(life, [(15, 500)] * 3)
