"""cronhpa.api.columns: the texts of `kubectl get chpa` for each situation that has a word of its own."""

import pytest
from msgspec.structs import replace

from core.situations import NO_METRICS, at, behavior, cpu, queue, queued, reconciliation_of, rules, schedule, seen, spec
from cronhpa.api.columns import targets, unreadable
from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Failed, Scaled, Withheld
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, PodCounts, ScalarReading
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, Mode, ResourceMetric, UnknownMetric
from cronhpa.operator.writes.written_status import StatusWrite, needed_between

FAST = behavior(up=rules(("Pods", 1000, 15), window=0), down=rules(("Percent", 100, 15), window=0))
GONE = replace(queued(0, current=8), scale=Absent("FailedGetScale", 'deployments.apps "shop" not found'))
DAY = schedule("day", floor=3)


def columns(of, observation, *, clock="10:00", outcome=None, previous=None, **fields):
    now = at(clock)
    decision = decide(of, observation, None, Memory(), now)
    done = outcome or (Scaled(now) if decision.rescales else Withheld())
    memory = Memory().after(decision, done, of, observation)
    return render(previous or {}, reconciliation_of(of, decision, done, memory, 4, **fields))


def word(*args, **kwargs):
    return columns(*args, **kwargs)["columns"]["status"]


def test_one_word_says_what_an_object_does_or_what_keeps_it_from_that():
    calm, blind = queued(80, current=8), seen(NO_METRICS, current=8)
    half = spec(metrics=(cpu(), queue()))

    assert "Deciding" == word(spec(), calm)
    assert "Preview" == word(spec(mode=Mode.PREVIEW), calm)
    assert "Learning" == word(spec(forecast=ForecastSettings()), calm)
    assert "NoMetrics" == word(spec(), blind)
    assert "NoTarget" == word(spec(), GONE)
    assert "OtherOwner" == word(spec(), calm, owner_problem="CronHPA other is older")
    assert "SpecUnreadable" == word(spec(schedules=(schedule("a", floor=3, problem="start: what?"),)), calm)
    # It may grow by the queue, and does not shrink while the CPU is not known.
    assert "Holding" == word(half, seen(NO_METRICS, ScalarReading(30_000, 0), current=8))
    assert "Holding" == word(spec(behavior=FAST), queued(300, current=8), outcome=Failed("forbidden"))
    assert "Holding" == word(spec(), queued(80, current=0))


def test_what_is_wrong_is_said_before_preview_and_preview_before_learning():
    preview = spec(mode=Mode.PREVIEW, forecast=ForecastSettings())

    assert "NoMetrics" == word(preview, seen(NO_METRICS, current=8))
    assert "Preview" == word(preview, queued(80, current=8))
    assert "NoMetrics" == word(spec(forecast=ForecastSettings()), seen(NO_METRICS, current=8))


def test_a_preview_beside_the_owner_that_it_previews_is_ready():
    status = columns(spec(mode=Mode.PREVIEW), queued(80, current=8), owner_problem="HorizontalPodAutoscaler shop ...")
    conditions = {condition["type"]: (condition["status"], condition["reason"]) for condition in status["conditions"]}

    assert "Preview" == status["columns"]["status"]
    assert ("True", "Preview") == conditions["Ready"]
    assert ("False", "OtherOwner") == conditions["TargetOwned"]


@pytest.mark.parametrize(
    ("zone", "clock", "shown"),
    [
        ("UTC", "07:00", "Mon 08:00 +00:00"),
        ("UTC", "19:00", "Tue 08:00 +00:00"),
        ("Asia/Tokyo", "07:00", "Mon 17:00 +09:00"),
        ("Asia/Tokyo", "17:59", "Tue 03:00 +09:00"),
    ],
)
def test_next_is_the_next_edge_on_the_clock_of_the_objects_zone(zone, clock, shown):
    """The window is that of 08:00 to 18:00 UTC, without a lead. Tokyo is nine hours ahead."""
    of = spec(schedules=(replace(DAY, lead=0),))

    assert shown == columns(of, queued(80, current=8), clock=clock, zone=zone)["columns"]["next"]


def test_there_is_no_next_without_an_edge_nor_for_a_spec_that_cannot_be_read():
    with_edge = columns(spec(schedules=(DAY,)), queued(80, current=8))

    assert "next" not in columns(spec(), queued(80, current=8))["columns"]
    assert {"targets": "8/10 (avg)", "status": "SpecUnreadable"} == unreadable(
        {**with_edge, "columns": {**with_edge["columns"], "targets": "8/10 (avg)"}}
    )
    assert {"status": "SpecUnreadable"} == unreadable({})


def test_desired_is_absent_until_something_was_decided():
    """0 would be a decision."""
    blind = columns(spec(), seen(NO_METRICS, current=8))

    assert "desiredReplicas" not in blind
    assert 9 == columns(spec(), seen(NO_METRICS, current=8), previous={"desiredReplicas": 9})["desiredReplicas"]
    failed = columns(spec(behavior=FAST), queued(300, current=8), outcome=Failed("forbidden"))
    assert "desiredReplicas" not in failed


def test_targets_of_what_kubectl_cannot_be_shown_in_a_test_of_the_cluster():
    memory = ResourceMetric("memory", MetricTarget("AverageValue", average_value=1000 * 2**30))

    assert "<none>" == targets((), ())
    assert "<unknown type>" == targets((UnknownMetric("Odd"),), ({"type": ""},))
    assert "memory: <unknown>/1Gi" == targets((memory,), ())
    assert "cpu: <unknown>/<auto>" == targets((ResourceMetric("cpu", MetricTarget("Utilization")),), ())


def percents(*usages):
    """
    The status after each reconciliation of five pods of one core each; the numbers are their total usage in
    milli-cores.
    """
    of = spec(metrics=(cpu(),))
    status = {}
    for reconciliation, usage in enumerate(usages):
        reading = PodCounts(5, 0, 0, 5, 5, usage, 5000, 0, 0, 0, usage)
        status = columns(of, seen(reading, current=5), clock=f"10:0{reconciliation}", previous=status)
        yield status


def test_texts_are_never_the_reason_for_a_write_but_for_a_column_that_is_new():
    """60 and 61 %: a number that drifts, as it was before it was also a text. An upgrade brings the column."""
    before, after = percents(3000, 3050)
    old = {key: value for key, value in before.items() if key != "columns"}
    retold = {**before, "columns": {**before["columns"], "targets": "cpu: 99%/60%"}}

    assert ("cpu: 60%/60%", "cpu: 61%/60%") == (before["columns"]["targets"], after["columns"]["targets"])
    assert StatusWrite.NUMBERS is needed_between(before, after)  # by status.currentMetrics
    assert StatusWrite.NOTHING is needed_between(before, retold)
    assert StatusWrite.NUMBERS is needed_between(old, before)


def test_a_condition_of_somebody_else_costs_nothing():
    """The API server asks of a condition for its type and its status alone."""
    foreign = {"conditions": [{"type": "Theirs", "status": "False"}]}
    status = columns(spec(), queued(80, current=8), previous=foreign)

    assert {"type": "Theirs", "status": "False"} == status["conditions"][0]
    assert "Deciding" == status["columns"]["status"]
    assert StatusWrite.NOTHING is needed_between(status, status)
