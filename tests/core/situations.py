"""Situations to decide in: short ways to write one down, and hypothesis strategies that make any."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from cronhpa.core.metrics.observe import observe
from cronhpa.core.model.decision import Failed, Lead, Recommendation, Scaled, Source, SourceRef, Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.memory import Intent, Memory, ScaleEvent
from cronhpa.core.model.observation import Absent, Container, Observation, Pod, PodCounts, Sample, ScalarReading, Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record
from cronhpa.core.model.spec import (
    Behavior,
    ControllerOptions,
    CronWindow,
    ExternalMetric,
    Fallback,
    ForecastSettings,
    MetricTarget,
    Mode,
    ObjectMetric,
    OnceWindow,
    Override,
    Placeholders,
    PodsMetric,
    Policy,
    ResourceMetric,
    ScalingRules,
    Schedule,
    SelectPolicy,
    Spec,
    TargetRef,
    UnknownMetric,
)

SHOP = TargetRef("apps/v1", "Deployment", "shop")
NO_METRICS = Absent("FailedGetResourceMetric", "no metrics returned from resource metrics API")


def at(clock):
    """An instant of Monday, 23 November 2026, UTC: "10:00", "09:59:45", or a whole RFC 3339 text."""
    if "T" in clock:
        return parse_instant(clock)
    return parse_instant(f"2026-11-23T{clock if clock.count(':') == 2 else clock + ':00'}Z")


NOW = at("10:00")


# --- specs -------------------------------------------------------------------------------------------------------


def cpu(percent=60):
    return ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=percent))


def queue(per_pod=10):
    """An External metric of which each pod is to carry `per_pod`."""
    return ExternalMetric("queue", MetricTarget("AverageValue", average_value=per_pod * 1000))


def rules(*policies, select=SelectPolicy.MAX, window=None, tolerance=None):
    """policies: (type, value, seconds)."""
    return ScalingRules(
        tuple(Policy(kind, value, period * SECOND) for kind, value, period in policies), select, window, tolerance
    )


# What autoscaling/v2 fills in where `behavior` is stated and a direction is not.
UP = rules(("Pods", 4, 15), ("Percent", 100, 15), window=0)
DOWN = rules(("Percent", 100, 15))


def behavior(up=UP, down=DOWN):
    return Behavior(up, down)


def rises(longest):
    """Behaviors with any one to three scale-up policies, their periods at most so many seconds."""
    policy = st.builds(
        Policy,
        type=st.sampled_from(["Pods", "Percent"]),
        value=st.integers(1, 120),
        period=st.integers(1, longest).map(lambda seconds: seconds * SECOND),
    )
    up = st.builds(
        ScalingRules,
        policies=st.lists(policy, min_size=1, max_size=3).map(tuple),
        select_policy=st.sampled_from(list(SelectPolicy)),
    )
    return up.map(lambda rules: behavior(up=rules))


def spec(minimum=2, maximum=120, **fields):
    fields.setdefault("metrics", (queue(),))
    return Spec(SHOP, minimum, maximum, namespace="prod", **fields)


def schedule(name, start="0 8 * * *", end="0 18 * * *", duration=None, zone="UTC", **fields):
    window = CronWindow(start, zone, None if duration else end, duration)
    return Schedule(name, window, **fields)


def exactly(name, replicas, **fields):
    return schedule(name, floor=replicas, cap=replicas, **fields)


def event(name, opens, closes, zone="UTC", **fields):
    return Schedule(name, OnceWindow(opens, closes, zone), **fields)


# --- observations ------------------------------------------------------------------------------------------------


def seen(*readings, current, status=None, **fields):
    return Observation(Scale(current, current if status is None else status, "app=shop"), readings, **fields)


def queued(length, *, current, status=None, **fields):
    """A queue of `length` was measured: with 10 a pod it asks for length / 10 pods, rounded up."""
    return seen(ScalarReading(length * 1000, 0), current=current, status=status, **fields)


BY_QUEUE = SourceRef(Source.METRIC, "queue")


def recommended(replicas, clock):
    """The metrics asked for this count, and nobody for more."""
    return Memory(recommendations=(Recommendation(replicas, at(clock), replicas, BY_QUEUE),))


BY_OVERRIDE = SourceRef(Source.OVERRIDE)


def floored(replicas, clock, *, metrics=None, by=BY_OVERRIDE):
    """A floor asked for this count, the metrics for fewer or for nothing."""
    return Memory(recommendations=(Recommendation(replicas, at(clock), metrics, by),))


def joined(*memories):
    return Memory(
        recommendations=tuple(recommendation for memory in memories for recommendation in memory.recommendations)
    )


def pod(name, *, phase="Running", deleting=False, ready="True", ready_since=None, started=None, request=1000):
    """A pod of one container, Ready since it started an hour ago; request: milli-CPU, None for none."""
    start = NOW - HOUR if started is None else started
    requests = {} if request is None else {"cpu": request}
    return Pod(
        name=name,
        phase=phase,
        deleting=deleting,
        ready=ready,
        ready_since=start if ready_since is None else ready_since,
        start_time=start,
        created=start,
        containers=(Container("app", requests),),
    )


def sample(value, clock="10:00", window=30 * SECOND):
    return Sample(value, at(clock), window)


def forecast(*load, ceiling=None, step=5 * MINUTE, metric="queue", issued_at=NOW, start=NOW, **fields):
    return Forecast(
        metric=metric,
        issued_at=issued_at,
        start=start,
        step=step,
        load=load,
        ceiling=max(load) if ceiling is None else ceiling,
        model="rhythm",
        quantile_percent=95,
        trained_until=issued_at,
        **fields,
    )


# --- any situation -----------------------------------------------------------------------------------------------

counts = st.sampled_from([*range(25), 40, 100, 2**31 - 1])
instants = st.integers(-20 * MINUTE // SECOND, 20 * MINUTE // SECOND).map(lambda seconds: NOW + seconds * SECOND)
past_instants = st.integers(0, 20 * MINUTE // SECOND).map(lambda seconds: NOW - seconds * SECOND)
milli = st.one_of(st.integers(0, 10**6), st.integers(-(10**4), -1), st.integers(0, 2**63))
targets = st.integers(1, 10**6)
texts = st.text("ab", min_size=1, max_size=3)

policies = st.builds(
    Policy,
    type=st.sampled_from(["Pods", "Percent"]),
    value=st.one_of(st.integers(1, 200), st.just(2**31 - 1)),
    period=st.integers(1, 1800).map(lambda seconds: seconds * SECOND),
)
stabilization_windows = st.one_of(st.just(0), st.integers(0, 3600).map(lambda seconds: seconds * SECOND))
tolerances = st.one_of(st.none(), st.floats(0, 2))


def directions(window):
    return st.builds(
        ScalingRules,
        policies=st.lists(policies, min_size=1, max_size=3).map(tuple),
        select_policy=st.sampled_from(list(SelectPolicy)),
        stabilization_window=window,
        tolerance=tolerances,
    )


behaviors = st.one_of(
    st.none(),
    st.builds(
        Behavior, scale_up=directions(stabilization_windows), scale_down=directions(st.none() | stabilization_windows)
    ),
)
value_targets = st.builds(MetricTarget, type=st.just("Value"), value=targets)
average_targets = st.builds(MetricTarget, type=st.just("AverageValue"), average_value=targets)
utilization_targets = st.builds(MetricTarget, type=st.just("Utilization"), average_utilization=st.integers(1, 1000))
metrics = st.one_of(
    st.builds(ResourceMetric, name=st.sampled_from(["cpu", "memory"]), target=average_targets | utilization_targets),
    st.builds(PodsMetric, name=texts, target=average_targets),
    st.builds(ObjectMetric, name=texts, target=value_targets | average_targets, described=st.just(SHOP)),
    st.builds(ExternalMetric, name=texts, target=value_targets | average_targets),
    st.builds(UnknownMetric, given=texts),
)
# Windows that are open, closed, about to change and crossing midnight at NOW; a few texts, so that days are shared.
cron_windows = st.builds(
    CronWindow,
    start=st.sampled_from(["0 8 * * *", "0 10 * * mon-fri", "30 22 * * *", "*/20 * * * *"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin"]),
    end=st.sampled_from(["0 10 * * *", "0 18 * * *"]),
) | st.builds(
    CronWindow,
    start=st.sampled_from(["0 8 * * *", "0 22 * * *"]),
    zone=st.sampled_from(["UTC", "America/New_York"]),
    duration=st.sampled_from([30 * MINUTE, 8 * HOUR, 3 * DAY]),
)
once_windows = st.builds(
    OnceWindow,
    opens=st.sampled_from(["2026-11-23T00:00", "2026-11-23T10:00"]),
    closes=st.sampled_from(["2026-11-23T10:30", "2026-11-24T00:00"]),
    zone=st.sampled_from(["UTC", "Asia/Tokyo"]),
)


@st.composite
def schedules(draw):
    # Some allow more than the 120 of `spec`.
    floor, cap = draw(st.none() | st.integers(0, 50)), draw(st.none() | st.integers(0, 50) | st.integers(100, 200))
    if floor is not None and cap is not None:
        floor, cap = min(floor, cap), max(floor, cap)
    return Schedule(
        name=draw(texts),
        window=draw(cron_windows | once_windows),
        floor=floor,
        cap=cap,
        headroom_percent=draw(st.sampled_from([0, 0, 50, 1000])),
        priority=draw(st.integers(-2, 2)),
        lead=draw(st.none() | st.sampled_from([0, MINUTE, HOUR])),
        ends_at_once=draw(st.sampled_from([False, False, True])),
        suspend=draw(st.sampled_from([False, False, False, True])),
        problem=draw(st.sampled_from([None, None, None, "start: cannot be read"])),
    )


@st.composite
def overrides(draw):
    floor, cap = sorted(draw(st.tuples(st.integers(0, 50), st.integers(0, 50))))
    stated = draw(st.sampled_from([(floor, None), (None, cap), (floor, floor), (floor, cap)]))
    return Override(draw(instants), "INC-4711", *stated)


@st.composite
def specs(draw, *, timed=None):
    """timed: whether there are schedules or an override; None: either."""
    is_timed = draw(st.booleans()) if timed is None else timed
    minimum = draw(st.integers(0, 20))
    return Spec(
        SHOP,
        minimum,
        max(1, minimum + draw(st.integers(0, 100))),
        namespace="prod",
        metrics=tuple(draw(st.lists(metrics, min_size=0 if is_timed else 1, max_size=2))),
        behavior=draw(behaviors),
        options=ControllerOptions(tolerance=draw(st.sampled_from([0.1, 0.0, 0.5]))),
        schedules=tuple(draw(st.lists(schedules(), min_size=1, max_size=3))) if is_timed else (),
        override=draw(st.none() | overrides()) if is_timed else None,
        forecast=draw(
            st.none()
            | st.builds(
                ForecastSettings,
                mode=st.sampled_from(list(Mode)),
                pod_capacity_percent=st.none() | st.integers(100, 10_000),
                max_floor=st.none() | st.integers(1, 100),
            )
        ),
        fallback=draw(st.none() | st.builds(Fallback, replicas=st.integers(1, 60), after=st.integers(0, 20 * MINUTE))),
        placeholders=draw(st.none() | st.just(Placeholders(50, 5 * MINUTE))),
    )


@st.composite
def pod_counts(draw):
    ready, unready, missing = (draw(st.integers(0, 20)) for _ in range(3))
    counted = draw(st.integers(1, 20))
    matched = draw(st.integers(0, counted))
    return PodCounts(
        ready=ready,
        unready=unready,
        missing=missing,
        counted=counted,
        matched=matched,
        usage=draw(milli),
        request=matched * draw(st.integers(0, 10**5)),
        missing_usage=draw(st.integers(0, 10**6)),
        missing_request=missing * draw(st.integers(0, 10**5)),
        unready_request=unready * draw(st.integers(0, 10**5)),
        load=draw(st.integers(0, 10**9)),
    )


absences = st.builds(Absent, reason=st.just("FailedGetResourceMetric"), message=texts)


def readings(metric, *, present=True):
    if not present or isinstance(metric, UnknownMetric):
        return absences
    if isinstance(metric, ResourceMetric | PodsMetric):
        return pod_counts() | absences
    return st.builds(ScalarReading, value=milli, ready=st.integers(0, 20) | absences) | absences


scales = st.builds(Scale, spec_replicas=counts, status_replicas=counts, selector=st.just("app=shop"))


@st.composite
def observations(draw, of, *, present=True, scale=scales):
    """of: the spec. present: whether anything may have been measured at all."""
    return Observation(
        scale=draw(scale),
        readings=tuple(draw(readings(metric, present=present)) for metric in of.metrics),
        selector_problem=draw(st.sampled_from([None, None, None, Absent("SelectorRequired", "selector is required")])),
        start_up=draw(st.none() | st.integers(0, 600).map(lambda seconds: seconds * SECOND)),
        request_per_pod=draw(st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 10**6), max_size=2)),
    )


@st.composite
def forecasts(draw):
    loads = st.floats(0, 1e6) | st.sampled_from([float("nan"), float("inf"), -1.0, 1e308])
    return Forecast(
        metric=draw(st.sampled_from(["cpu", "memory", "a"])),
        issued_at=draw(instants),
        start=draw(past_instants),
        step=draw(st.sampled_from([MINUTE, 5 * MINUTE])),
        load=tuple(draw(st.lists(loads, max_size=12))),
        ceiling=draw(st.floats(0, 1e6) | st.sampled_from([float("nan"), float("inf"), 1e308])),
        model="rhythm",
        quantile_percent=95,
        trained_until=NOW,
    )


sources = st.builds(SourceRef, st.sampled_from(list(Source)), texts) | st.builds(
    SourceRef, st.just(Source.SCHEDULE), st.builds("{}/{}".format, st.sampled_from(["Event", "Calendar"]), texts)
)


def recommendations(replicas=counts, when=instants):
    """
    What reconciliations leave: merged counts beside what the metrics asked for, alike, different or nothing; and
    restarts.
    """
    apart = st.builds(Recommendation, replicas=replicas, at=when, metrics=st.none() | replicas, by=st.none() | sources)
    alike = apart.map(lambda recommendation: replace(recommendation, metrics=recommendation.replicas))
    held = apart.map(
        lambda recommendation: replace(
            recommendation, asked_at=recommendation.at - recommendation.replicas % 3 * MINUTE
        )
    )
    return apart | alike | held


some_recommendations = st.lists(recommendations(), max_size=8).map(tuple)


def scale_events(when=instants):
    changes = st.integers(1, 50)
    events = st.builds(ScaleEvent, change=changes, at=when, outdated=st.booleans(), assumed=st.booleans())
    return st.lists(events, max_size=4).map(tuple)


# Of windows that a situation has, and of others.
begun_leads = st.lists(
    st.builds(
        Lead,
        schedule=texts,
        start=st.sampled_from(["10:00", "10:20", "11:00", "22:00"]).map(at),
        length=st.integers(0, 7200).map(lambda seconds: seconds * SECOND),
    ),
    max_size=2,
).map(tuple)

memories = st.builds(
    Memory,
    recommendations=some_recommendations,
    scale_ups=scale_events(),
    scale_downs=scale_events(),
    replicas=st.none() | counts,
    zero=st.sampled_from([None, True, False]),
    start_up=st.none() | st.integers(0, 600).map(lambda seconds: seconds * SECOND),
    request_per_pod=st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 10**6), max_size=2),
    intent=st.none() | st.builds(Intent, before=counts, after=counts, at=instants),
    leads=begun_leads,
    unmeasured_since=st.none() | instants,
)


@st.composite
def situations(draw, *, timed=None, present=True):
    """(spec, observation, forecast, memory, now), the five inputs of a decision."""
    of = draw(specs(timed=timed))
    return (
        of,
        draw(observations(of, present=present)),
        draw(st.none() | absences | forecasts()),
        draw(memories),
        NOW,
    )


outcomes = st.one_of(st.builds(Scaled, at=st.just(NOW)), st.builds(Failed, message=texts), st.just(Withheld()))


# --- pods and samples --------------------------------------------------------------------------------------------


@st.composite
def groups_of_pods(draw):
    """Pods in every state with a CPU request each, and samples of some of them."""
    number = draw(st.integers(1, 8))
    pods = tuple(
        pod(
            f"shop-{index}",
            phase=draw(st.sampled_from(["Running", "Running", "Running", "Pending", "Failed"])),
            deleting=draw(st.sampled_from([False, False, False, True])),
            ready=draw(st.sampled_from(["True", "True", "False", ""])),
            started=draw(past_instants),
            ready_since=draw(past_instants),
            request=draw(st.integers(1, 4000)),
        )
        for index in range(number)
    )
    sampled = [listed_pod.name for listed_pod in pods if draw(st.sampled_from([True, True, True, False]))]
    samples = {name: Sample(draw(st.integers(0, 8000)), draw(past_instants), 30 * SECOND) for name in sampled}
    return pods, samples


def observed(of, pods, *measurements, current, now=NOW):
    return observe(of, Scale(current, len(pods), "app=shop"), pods, measurements, now)


def without_schedules(of):
    return replace(of, schedules=(), override=None)


def reconciliation_of(of, decision, outcome, memory, generation=1, observation=None, **fields):
    """A reconciliation of an object whose observation matters only where it is given."""
    seen = observation or Observation(Absent("NotObserved", "nobody has looked"))
    record = Record(of, seen, None, memory, decision.at)
    return Reconciliation(record, decision, memory, generation, outcome, **fields)
