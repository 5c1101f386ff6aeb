"""cronhpa.api.status_memory: a memory reads back as it was written; the effects of a forged one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.situations import (
    DOWN,
    NOW,
    at,
    behavior,
    exactly,
    queued,
    recommended,
    rules,
    spec,
)
from cronhpa.api.status_memory import (
    EVENTS_MAX,
    LEADS_MAX,
    RECOMMENDATIONS_MAX,
    parse_memory,
    read_memory,
    render_memory,
)
from cronhpa.core.behavior import resume
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import DecisionKind, Lead, Recommendation, Scaled, Withheld
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND, format_instant_exact
from cronhpa.core.model.memory import Intent, Memory, ScaleEvent
from cronhpa.core.model.observation import Absent, Crowd, NodeStart, Observation, Scale
from cronhpa.core.model.spec import ControllerOptions

TEN = "2026-11-23T10:00:00Z"
NINE = "2026-11-23T09:00:00Z"
EMPTY = {"version": 1, "recommendations": [], "scaleUpEvents": [], "scaleDownEvents": []}
WHOLE = {
    "version": 1,
    "recommendations": [{"replicas": 5, "time": "2026-11-23T10:00:00.000000001Z"}],
    "scaleUpEvents": [{"change": 2, "time": NINE, "outdated": True, "assumed": True}],
    "scaleDownEvents": [{"change": 3, "time": NINE}],
    "replicas": 8,
    "zero": True,
    "scheduledZero": True,
    "startUpSeconds": 75,
    "nodeStart": {"seconds": 150, "time": NINE},
    "crowd": {"start": TEN, "pods": 1000, "objects": 500, "podsPerMinute": 2400},
    "requestPerPod": {"cpu": "500m"},
    "intent": {"from": 8, "to": 5, "time": TEN, "fromScheduledZero": True},
    "leads": [{"schedule": "night", "start": TEN, "seconds": 90}],
}


def test_a_memory_is_read():
    assert Memory(
        recommendations=(Recommendation(5, NOW + 1),),
        scale_ups=(ScaleEvent(2, NOW - HOUR, outdated=True, assumed=True),),
        scale_downs=(ScaleEvent(3, NOW - HOUR),),
        replicas=8,
        zero=True,
        scheduled_zero=True,
        start_up=75 * SECOND,
        node_start=NodeStart(150 * SECOND, NOW - HOUR),
        request_per_pod={"cpu": 500},
        intent=Intent(8, 5, NOW, from_scheduled_zero=True),
        leads=(Lead("night", NOW, 90 * SECOND),),
        crowd=Crowd(NOW, 1000, 500, 2400),
    ) == parse_memory({"memory": WHOLE})


def test_a_field_of_a_later_operator_is_read_over():
    """A rolled-back operator goes on with what it knows."""
    assert parse_memory({"memory": WHOLE}) == parse_memory({"memory": {**WHOLE, "mood": {"is": "good"}}})


def test_a_memory_that_is_absent_is_empty_and_nothing_is_wrong_with_it():
    assert (Memory(), None) == (read_memory({}).memory, read_memory({"memory": None}).problem)


def rows(number, **fields):
    return [{**fields, "time": TEN}] * number


DAMAGES = {
    "no object": ([], "Expected `object`, got `array`"),
    "nothing in it": ({}, "version: found None: 1 is read"),
    "a merged count of a word": ({**EMPTY, "recommendations": rows(1, replicas=5, merged="9")}, "[0].merged"),
    "a kept count below zero": ({**EMPTY, "recommendations": rows(1, replicas=5, askedAt=TEN, kept=-1)}, "[0].kept"),
    "a word as the instant": ({**EMPTY, "recommendations": rows(1, replicas=5, askedAt="then")}, "then"),
    "replicas below zero": ({**EMPTY, "replicas": -1}, "$.replicas"),
    "a negative count of metrics": ({**EMPTY, "recommendations": rows(1, replicas=5, metrics=-1)}, "Expected `int` >="),
    "a source of any length": (
        {**EMPTY, "recommendations": rows(1, replicas=5, by="a" * 341)},
        "Expected `str` of length <= 340",
    ),
    "another version": ({**WHOLE, "version": 2}, "version: found 2: 1 is read"),
    "version of any length": ({**WHOLE, "version": "2" * 10_000}, "version: found '222"),
    "no list": ({**WHOLE, "recommendations": None}, "$.recommendations"),
    "a text for a count": ({**EMPTY, "recommendations": rows(1, replicas="5")}, "$.recommendations[0].replicas"),
    "a fraction": ({**EMPTY, "recommendations": rows(1, replicas=5.5)}, "Expected `int`, got `float`"),
    "a float": ({**EMPTY, "recommendations": rows(1, replicas=1e308)}, "Expected `int`, got `float`"),
    "a flag for a count": ({**EMPTY, "recommendations": rows(1, replicas=True)}, "Expected `int`, got `bool`"),
    "a negative count": ({**EMPTY, "recommendations": rows(1, replicas=-1)}, "Expected `int` >= 0"),
    "a count beyond int32": ({**EMPTY, "recommendations": rows(1, replicas=2**31)}, "Expected `int` <= 2147483647"),
    "no time": ({**EMPTY, "recommendations": [{"replicas": 5}]}, "missing required field `time`"),
    "a word for a time": ({**EMPTY, "recommendations": [{"replicas": 5, "time": "yesterday"}]}, "yesterday"),
    "a time of any length": (
        {**EMPTY, "recommendations": [{"replicas": 5, "time": TEN + " " * 99}]},
        "Expected `str` of length <= 40",
    ),
    "no event": ({**EMPTY, "scaleUpEvents": [3]}, "$.scaleUpEvents[0]"),
    "a negative change": ({**EMPTY, "scaleDownEvents": rows(1, change=-50)}, "Expected `int` >= 1"),
    "a change of nothing": ({**EMPTY, "scaleDownEvents": rows(1, change=0)}, "Expected `int` >= 1"),
    "a change as large as a float": ({**EMPTY, "scaleUpEvents": rows(2, change=int(1e308))}, "Expected `int` <="),
    "too many recommendations": (
        {**EMPTY, "recommendations": rows(RECOMMENDATIONS_MAX + 1, replicas=5)},
        "Expected `array` of length <= 4000",
    ),
    "too many events": ({**EMPTY, "scaleDownEvents": rows(EVENTS_MAX + 1, change=1)}, "of length <= 2000"),
    "too many leads": (
        {**EMPTY, "leads": [{"schedule": "a", "start": TEN, "seconds": 1}] * (LEADS_MAX + 1)},
        "of length <= 200",
    ),
    "a day between two recommendations": (
        {
            **EMPTY,
            "recommendations": [{"replicas": 5, "time": "2026-11-22T10:00:00Z"}, {"replicas": 5, "time": TEN}],
        },
        "lie 86400 s apart, at most 3900 s are remembered",
    ),
    "a day between an event and a recommendation": (
        {
            **EMPTY,
            "recommendations": rows(1, replicas=5),
            "scaleUpEvents": [{"change": 1, "time": "2026-11-22T10:00:00Z"}],
        },
        "lie 86400 s apart",
    ),
    "a word for a flag": ({**WHOLE, "zero": "yes"}, "$.zero"),
    "a number for a flag": ({**WHOLE, "scheduledZero": 1}, "$.scheduledZero"),
    "a start-up of a word": ({**WHOLE, "startUpSeconds": "soon"}, "$.startUpSeconds"),
    "a start-up that never ends": ({**WHOLE, "startUpSeconds": 1e300}, "$.startUpSeconds"),
    "a start-up of two hours": ({**WHOLE, "startUpSeconds": 7200}, "Expected `int` <= 3605"),
    "a start with a node of two hours": (
        {**WHOLE, "nodeStart": {"seconds": 7200, "time": NINE}},
        "Expected `int` <= 3605",
    ),
    "a negative start-up": ({**WHOLE, "startUpSeconds": -1}, "Expected `int` >= 0"),
    "no quantity": ({**WHOLE, "requestPerPod": {"cpu": "much"}}, '"much" is no quantity'),
    "a negative request": ({**WHOLE, "requestPerPod": {"cpu": "-1"}}, "requestPerPod: found -1"),
    "a request of no resource": ({**WHOLE, "requestPerPod": {"c\npu": "1"}}, "matching regex"),
    "requests in a list": ({**WHOLE, "requestPerPod": ["cpu"]}, "$.requestPerPod"),
    "requests of everything": ({**WHOLE, "requestPerPod": {f"a{i}": "1" for i in range(101)}}, "of length <= 100"),
    "half an intent": ({**WHOLE, "intent": {"from": 8}}, "$.intent"),
    "a lead of two days": (
        {**WHOLE, "leads": [{"schedule": "night", "start": TEN, "seconds": 2 * 86_400}]},
        "Expected `int` <= 97200",
    ),
}


@pytest.mark.parametrize(("memory", "said"), DAMAGES.values(), ids=DAMAGES)
def test_a_memory_that_no_reconciliation_can_have_written_is_empty_and_says_why(memory, said):
    read = read_memory({"memory": memory})

    assert Memory() == read.memory
    assert said in read.problem
    assert len(read.problem) < 300


def test_as_many_entries_as_an_hour_of_reconciliations_each_second_leaves_are_read():
    text = {
        **EMPTY,
        "recommendations": [
            {"replicas": 5, "time": format_instant_exact(NOW - (3600 - second) * SECOND)} for second in range(3601)
        ],
        "scaleUpEvents": rows(1800, change=1),
    }

    assert read_memory({"memory": text}).problem is None


def test_a_longer_window_of_the_operators_settings_is_remembered_as_well():
    """`--downscale-stabilization 24h`: entries that are a day apart are valid."""
    text = {
        **EMPTY,
        "recommendations": [{"replicas": 5, "time": "2026-11-22T10:00:00Z"}, {"replicas": 4, "time": TEN}],
    }

    assert read_memory({"memory": text}, ControllerOptions(downscale_stabilization=24 * HOUR)).problem is None


def test_who_does_not_know_the_operators_window_reads_a_memory_of_any():
    """`--downscale-stabilization 3h`: 2.5 h of recommendations took the start-up time with them."""
    apart = [{"replicas": 20, "time": "2026-11-23T07:30:00Z"}, *rows(1, replicas=12), {"replicas": 8, "time": TEN}]
    text = {"memory": {**WHOLE, "recommendations": apart}}

    memory = parse_memory(text)

    assert "9000 s apart" in read_memory(text).problem
    assert (75 * SECOND, {"cpu": 500}) == (memory.start_up, memory.request_per_pod)
    assert [20, 12, 8] == [recommendation.replicas for recommendation in memory.recommendations]


def test_the_newest_recommendation_may_be_of_any_age():
    """No metric could be read since, and a count above the maximum was brought down meanwhile."""
    text = {
        **EMPTY,
        "recommendations": [{"replicas": 5, "time": "2026-11-20T10:00:00Z"}],
        "scaleDownEvents": rows(1, change=2),
    }

    assert read_memory({"memory": text}).problem is None


def test_an_empty_memory_lowers_nothing():
    """Seeded with the current count, it holds for a whole window."""
    observation = Observation(Scale(5, 5, "app=shop"), (Absent("FailedGetResourceMetric", "gone"),))

    assert 5 == decide(spec(), observation, None, parse_memory({"memory": {"version": 9}}), NOW).desired


def test_a_damaged_memory_does_not_take_a_zero_by_hand_for_a_scheduled_one():
    """The condition still says who made the zero; without it somebody else did."""
    told = {"memory": {"version": 1}, "conditions": [{"type": "ScaledToZero", "status": "True"}]}

    assert True is parse_memory(told).zero
    assert False is parse_memory({"memory": "gone", "conditions": [{"type": "Ready", "status": "True"}]}).zero
    assert None is parse_memory({}).zero


# --- attacks: what a forged memory does at the next start --------------------------------------------------------

SLOWLY = behavior(down=rules(("Pods", 1, 600), window=10 * MINUTE))


def after_a_restart(forged, *, of=None, current=10, load=20, seconds=0, **fields):
    """
    The decision of a process that started at 10:00 with this memory, in the reconciliation `seconds` after that.

    10 pods, a queue of 20 with 10 for each: the metric asks for 2.
    """
    of = of or spec(behavior=SLOWLY)
    memory = resume(parse_memory({"memory": {**EMPTY, **forged}}), current, NOW, of.behavior)
    first = decide(of, queued(load, current=current, **fields), None, memory, NOW)
    if not seconds:
        return first
    outcome = Scaled(NOW) if first.rescales else Withheld()
    memory = memory.after(first, outcome, of, queued(load, current=current, **fields))
    return decide(of, queued(load, current=first.desired, **fields), None, memory, NOW + seconds * SECOND)


FORGED = {
    "an old low recommendation": {"recommendations": [{"replicas": 1, "time": "2020-01-01T00:00:00Z"}]},
    "a low recommendation of now": {"recommendations": rows(1, replicas=1)},
    "pods that went away backwards": {
        "recommendations": [{"replicas": 1, "time": "2020-01-01T00:00:00Z"}],
        "scaleDownEvents": rows(1, change=-50),
    },
    "more than there is": {"scaleDownEvents": rows(2, change=int(1e308))},
    "nothing": {},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_memory_that_does_not_explain_the_count_gives_it_a_whole_window(forged):
    """Held at 10:00 and at 10:09:59 of a window of ten minutes; by the policy one pod goes at 10:10."""
    assert [10, 10, 9] == [after_a_restart(forged, seconds=seconds).desired for seconds in (0, 599, 600)]


def test_what_a_forged_memory_still_does_is_to_forget_one_window_and_one_period():
    """
    docs/engineering/security.md says so: a text that the operator could have written is believed. Here that 10 were
    asked for nine minutes and 59 seconds ago, 2 since, and that eight pods came just now and may go: 2 within a second,
    where a window of ten minutes and a pod in ten are stated.
    """
    forged = {
        "recommendations": [{"replicas": 10, "time": "2026-11-23T09:50:01Z"}, {"replicas": 2, "time": TEN}],
        "scaleUpEvents": rows(1, change=8),
    }

    assert [10, 2] == [after_a_restart(forged, seconds=seconds).desired for seconds in (0, 1)]


HOSTILE = [
    {"recommendations": rows(1, replicas=0)},
    {"recommendations": [{"replicas": 2**31 - 1, "time": "9999-12-31T23:59:59Z"}]},
    {"scaleUpEvents": rows(EVENTS_MAX, change=2**31 - 1)},
    {"scaleDownEvents": rows(EVENTS_MAX, change=2**31 - 1)},
    {"intent": {"from": 10, "to": 0, "time": TEN, "fromScheduledZero": True}},
    {"zero": True, "scheduledZero": True},
    {"startUpSeconds": 3605, "leads": [{"schedule": "day", "start": "2026-11-24T08:00:00Z", "seconds": 97200}]},
]


@pytest.mark.parametrize("forged", HOSTILE)
@pytest.mark.parametrize("current", [2, 10, 60])
@pytest.mark.parametrize("load", [0, 20, 5000])
@pytest.mark.parametrize("schedules", [(), (exactly("day", 5),)])
def test_no_forged_memory_passes_a_bound(forged, current, load, schedules):
    """From outside the bounds, 2 pods where a schedule asks for 5, it can at most stay there for a policy's period."""
    of = spec(2, 60, behavior=behavior(down=replace(DOWN, stabilization_window=0)), schedules=schedules)

    decision = after_a_restart(forged, of=of, current=current, load=load, seconds=1)

    assert min(decision.minimum, current) <= decision.desired <= max(decision.maximum, current)


def test_what_a_forged_memory_holds_back_it_holds_back_for_a_window():
    """Ten million asked for in the year 9999 are ten million now: a window of ten minutes later they are forgotten."""
    forged = {"recommendations": [{"replicas": 10**7, "time": "9999-12-31T23:59:59Z"}]}

    assert [10, 9] == [after_a_restart(forged, seconds=seconds).desired for seconds in (599, 600)]


def test_what_metrics_are_said_to_have_asked_for_is_pursued_for_a_window_without_a_behavior():
    """As upstream: at its rate, up to the maximum of 40, for five minutes. What a floor asked for is held at 10."""
    said = {"recommendations": rows(1, replicas=10**7, by="Metric/queue")}
    floor = {"recommendations": rows(1, replicas=10**7, by="Override")}
    of = spec(2, 40)

    assert [20, 40, 2] == [after_a_restart(said, of=of, seconds=seconds).desired for seconds in (0, 15, 301)]
    assert [10, 10, 2] == [after_a_restart(floor, of=of, seconds=seconds).desired for seconds in (0, 15, 301)]


def test_pods_that_are_said_to_have_come_hold_a_scale_up_for_a_period():
    """Four pods or twice as many in 15 s, as upstream, and 1000 came just now: no more for 15 s."""
    forged = {"recommendations": rows(1, replicas=10), "scaleUpEvents": rows(1, change=1000)}
    of = spec(behavior=behavior())

    counts = [after_a_restart(forged, of=of, load=500, seconds=seconds).desired for seconds in (14, 15)]

    assert [10, 20] == counts


def test_a_forged_zero_wakes_or_keeps_asleep_and_no_more():
    """A zero by hand that is called ours is left, within the bounds; ours that is called by hand stays."""
    of = spec(behavior=None, schedules=(exactly("day", 5),))
    paths = {
        told: after_a_restart({"recommendations": rows(1, replicas=0), **told_by}, of=of, current=0)
        for told, told_by in {"ours": {"zero": True}, "by hand": {"zero": False}}.items()
    }

    assert [(DecisionKind.COMPUTED, 4), (DecisionKind.SUSPENDED, 0)] == [
        (one.kind, one.desired) for one in paths.values()
    ]


def test_the_instant_since_when_a_metric_is_unknown_survives_a_restart():
    memory = Memory(unmeasured_since=at("09:58:30"))

    assert memory == parse_memory({"memory": render_memory(memory)})


def test_an_instant_that_is_none_damages_the_memory():
    forged = {**render_memory(Memory(recommendations=recommended(3, "10:00").recommendations)), "unmeasuredSince": "x"}

    assert read_memory({"memory": forged}).problem is not None
