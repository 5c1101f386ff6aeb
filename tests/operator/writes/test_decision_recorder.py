"""cronhpa.operator.writes.decision_recorder, cronhpa.operator.objects.object_state: what is kept, and its cost."""

import asyncio
import json
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from lives import Life, cronhpa, deployment
from model_api import ModelApi
from msgspec.structs import replace
from virtual_time import live

from core.situations import NO_METRICS, NOW, cpu, forecast, queue, recommended, seen, situations, spec
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Failed, Scaled, Withheld
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Observation, PodCounts, ScalarReading, Scale
from cronhpa.core.model.reconciliation import Reconciliation
from cronhpa.core.model.record import Record, decode
from cronhpa.core.model.spec import ExternalMetric, MetricTarget
from cronhpa.history.past.points import POINT_STEP
from cronhpa.operator.objects.object_state import ObjectState, spec_text
from cronhpa.operator.writes.decision_recorder import DecisionRecorder, point_of

SPEC = spec(metrics=(cpu(),))


def shop():
    state = ObjectState("prod", "shop", "uid-7", 0)
    state.served.generation = 1
    state.served.parsed.text = spec_text({"minReplicas": 2, "timeZone": "Europe/Berlin"})
    return state


def pods(count, load):
    return PodCounts(count, 0, 0, count, count, load, 1000 * count, 0, 0, 0, load)


def reconciliation(number=0, load=2400, count=4):
    return Record(SPEC, seen(pods(count, load), current=count), None, Memory(), NOW + number * 15 * SECOND)


def note(recorder, state, record, outcome=None, owner_problem=None, status=None, generation=1):
    decision = decide(record.spec, record.observation, record.forecast, record.memory, record.now)
    outcome = outcome or (Scaled(record.now) if decision.rescales else Withheld())
    recorder.note_point(state, record, decision)
    reconciliation = Reconciliation(record, decision, Memory(), generation, outcome, owner_problem)
    recorder.note(state, reconciliation, {"memory": {}} if status is None else status)


def noted(recorder):
    return recorder.take(10**6)


def test_a_change_is_noted_once_and_a_reconciliation_that_changes_nothing_is_not():
    recorder, state = DecisionRecorder(), shop()

    for number in range(20):
        note(recorder, state, reconciliation(number))
    assert 1 == len(noted(recorder))
    note(recorder, state, reconciliation(20, load=4800))

    (change,) = noted(recorder)
    assert NOW + 300 * SECOND == change.decision.at


@pytest.mark.parametrize(
    "more",
    [
        {"outcome": Failed("no answer")},
        {"owner_problem": "an HPA scales it"},
        {"generation": 2},
    ],
)
def test_what_else_a_person_would_ask_about_is_a_change(more):
    recorder, state = DecisionRecorder(), shop()
    note(recorder, state, reconciliation())

    note(recorder, state, reconciliation(1), **more)

    assert 2 == len(noted(recorder))


def test_a_metric_that_is_missing_and_comes_back_is_two_changes():
    recorder, state = DecisionRecorder(), shop()
    for number, reading in enumerate((pods(4, 2400), NO_METRICS, pods(4, 2400))):
        note(recorder, state, replace(reconciliation(number), observation=seen(reading, current=4)))

    assert 3 == len(noted(recorder))


def test_a_change_is_kept_with_the_object_as_it_was_and_the_inputs_of_its_decision():
    recorder, state = DecisionRecorder(), shop()
    record = reconciliation()

    note(recorder, state, record, status={"desiredReplicas": 4, "memory": {"version": 1}})

    (change,) = noted(recorder)
    assert ("prod", "shop") == (change.namespace, change.name)
    assert {
        "metadata": {"namespace": "prod", "name": "shop", "uid": "uid-7", "generation": 1},
        "spec": {"minReplicas": 2, "timeZone": "Europe/Berlin"},
        "status": {"desiredReplicas": 4, "memory": {"version": 1}},
    } == json.loads(bytes(change.decision.body))
    assert record == decode(bytes(change.decision.inputs))


def test_a_status_waits_as_text():
    """
    A thousand changes of one edge; beside its text a change has its reconciliation. As dicts, these conditions take 7
    kB.
    """
    recorder, states = DecisionRecorder(), [shop() for _ in range(1000)]
    conditions = [{"type": f"Kind{number}", "status": "True", "reason": "Deciding"} for number in range(30)]
    text = len(json.dumps(conditions))
    tracemalloc.start()

    for state in states:
        note(recorder, state, reconciliation(), status={"conditions": [dict(condition) for condition in conditions]})

    waiting = tracemalloc.get_traced_memory()[0] / len(states)
    tracemalloc.stop()
    assert waiting < text + 2500


@given(situations())
def test_the_reconciliation_that_is_kept_is_decided_as_it_was(situation):
    """Without the forecast's loads at other prices, among which the budget has chosen before the decision."""
    recorder, state = DecisionRecorder(), shop()
    now = situation[-1]
    issued_forecast = forecast(1.0, 2.0, 3.0, loads_by_budget_level=((1.0, 1.0, 1.0),), issued_at=now, start=now)
    record = Record(*situation[:2], issued_forecast, *situation[3:])  # type: ignore[call-arg]  # five in all

    note(recorder, state, record)

    (change,) = noted(recorder)
    kept = decode(bytes(change.decision.inputs))
    assert () == kept.forecast.loads_by_budget_level
    assert decide(record.spec, record.observation, record.forecast, record.memory, record.now) == decide(
        kept.spec, kept.observation, kept.forecast, kept.memory, kept.now
    )


def test_an_object_that_was_made_anew_is_another_one_for_the_store_and_after_a_restart_it_is_the_same():
    def digest(uid):
        recorder, state = DecisionRecorder(), ObjectState("prod", "shop", uid, 0)
        note(recorder, state, reconciliation())
        return noted(recorder)[0].digest

    assert digest("uid-7") == digest("uid-7")
    assert digest("uid-7") != digest("uid-8")


def test_a_point_is_noted_every_five_minutes():
    recorder, state = DecisionRecorder(), shop()
    for number in range(60):
        note(recorder, state, reconciliation(number))

    points = recorder.take_points(100)

    assert [0, 1, 2] == [(point.at - NOW) // POINT_STEP for _, _, point in points]
    assert [("prod", "shop", 4, 4, 2.4)] * 3 == [
        (*of, point.replicas, point.ready, point.load) for *of, point in points
    ]


def test_a_point_says_what_the_forecast_asked_for_and_the_bounds_in_force():
    timed = spec(metrics=(cpu(),), minimum=3, maximum=50)
    record = Record(timed, seen(pods(4, 2400), current=4), None, recommended(4, "09:59"), NOW)
    decision = decide(timed, record.observation, None, record.memory, NOW)

    point = point_of(record, decision)

    assert (3, 50, None) == (point.floor, point.cap, point.forecast)


def test_where_no_metric_counts_ready_pods_a_point_has_none():
    """Found: it said 0, and the page hatched each minute of an object with an External metric by AverageValue."""
    average, value = queue(10), ExternalMetric("queue", MetricTarget("Value", value=10_000))
    seen_by = {average: ScalarReading(40_000, 0), value: ScalarReading(10_000, 4)}

    def ready(*metrics):
        observation = Observation(Scale(4, 4, "app=shop"), tuple(seen_by[metric] for metric in metrics))
        record = Record(spec(metrics=metrics), observation, None, Memory(), NOW)
        return point_of(record, decide(record.spec, observation, None, Memory(), NOW)).ready

    assert [None, 4, 4] == [ready(average), ready(value), ready(average, value)]


def test_where_no_metric_can_be_read_a_point_has_no_load():
    record = replace(reconciliation(), observation=seen(NO_METRICS, current=4))

    point = point_of(record, decide(record.spec, record.observation, None, record.memory, record.now))

    assert (4, None, None) == (point.replicas, point.ready, point.load)


def test_an_object_that_changes_at_every_reconciliation_keeps_a_quarter_of_an_hour_of_them_and_then_one_a_minute():
    """60 changes, and 4 a minute of which one is kept; it says how many were left out."""
    recorder, state = DecisionRecorder(), shop()
    for number in range(60 + 40 * 4):
        note(recorder, state, reconciliation(number), generation=number)

    changes = noted(recorder)

    minutes = (60 + 40 * 4) * 15 * SECOND // MINUTE
    assert 60 + minutes - 1 <= len(changes) <= 60 + minutes
    # The last one waits for its room.
    assert 60 + 40 * 4 - len(changes) - 1 == recorder.dropped["rate"]
    assert 3 == changes[-1].decision.left_out


def test_a_change_that_waits_for_room_is_no_change_left_out_however_often_it_is_decided_again():
    """
    60 changes have used the room up. The 61st is left out for the 62nd, which is kept a minute after the 60th. Found:
    each reconciliation until then counted as a change left out.
    """
    recorder, state = DecisionRecorder(), shop()
    for number in range(60):
        note(recorder, state, replace(reconciliation(), now=NOW + number), generation=number)
    noted(recorder)
    for second in range(1, 62):
        record = replace(reconciliation(), now=NOW + second * SECOND)
        note(recorder, state, record, generation=60 if second == 1 else 61)

    (change,) = noted(recorder)
    assert (1, 1) == (change.decision.left_out, recorder.dropped["rate"])
    assert 61 == json.loads(bytes(change.decision.body))["metadata"]["generation"]


def json_of(changes):
    """Bytes of JSON: what the operator holds while they wait."""
    return sum(len(bytes(change.decision.body)) + len(bytes(change.decision.inputs)) for change in changes)


# A change of the tests below has 1,552 bytes.
ONE = 1600


def test_what_the_store_does_not_take_is_bounded_by_its_bytes_and_the_oldest_goes():
    """Five changes of 1.6 kB where 4.8 kB may wait."""
    recorder, state = DecisionRecorder(bytes_max=3 * ONE, points_max=2), shop()
    for number in range(5):
        note(recorder, state, reconciliation(20 * number, load=2400 if number % 2 else 4800))

    assert {"rate": 0, "queue": 2 + 3, "unwritable": 0} == recorder.dropped
    assert [NOW + 20 * 15 * SECOND * number for number in (2, 3, 4)] == [
        change.decision.at for change in noted(recorder)
    ]


def test_large_changes_of_a_tenant_that_cannot_be_written_fit_a_bound_and_displace_none_of_others():
    """
    Found: the bound was 10,000 changes, and one of a large object has 440 kB: 100 objects held 2.6 GB while the store
    could not be written. Here 30 of 10 kB come behind three of 1.6 kB, where 100 kB may wait: nine at most.
    """
    recorder, state, large = DecisionRecorder(bytes_max=100_000), shop(), ObjectState("tenant", "large", "uid-8", 0)
    for number in range(30):
        if number < 3:
            note(recorder, state, reconciliation(number, load=2400 if number % 2 else 4800))
        note(recorder, large, reconciliation(number), status={"filler": 10_000 * "x"}, generation=number)

    changes = noted(recorder)
    of_tenant = [change for change in changes if change.namespace == "tenant"]
    assert json_of(changes) <= 100_000 < json_of([*changes, of_tenant[0]])
    assert 3 == len(changes) - len(of_tenant)
    assert (30 - len(of_tenant), 29) == (recorder.dropped["queue"], (of_tenant[-1].decision.at - NOW) // (15 * SECOND))


def test_what_could_not_be_written_waits_in_its_order():
    recorder, state = DecisionRecorder(bytes_max=3 * ONE), shop()
    for number in range(3):
        note(recorder, state, reconciliation(number, load=2400 if number % 2 else 4800))
    taken = recorder.take(2)
    note(recorder, state, reconciliation(3))

    recorder.put_back(taken)

    assert [1, 2, 3] == [(change.decision.at - NOW) // (15 * SECOND) for change in noted(recorder)]
    assert 1 == recorder.dropped["queue"]


def test_a_text_that_no_json_can_hold_costs_its_own_change_alone():
    recorder, state = DecisionRecorder(), shop()
    note(recorder, state, reconciliation(0), status={"reason": "\ud800"})
    note(recorder, state, reconciliation(1, load=4800))

    assert [NOW + 15 * SECOND] == [change.decision.at for change in noted(recorder)]
    assert 1 == recorder.dropped["unwritable"]


@pytest.mark.parametrize("spec_of", [{"a": "\ud800"}, {"a": object()}])
def test_a_spec_that_cannot_be_kept_is_kept_as_nothing(spec_of):
    assert b"" == spec_text(spec_of)


def test_of_a_life_every_change_of_the_count_is_kept():
    """The load goes up and down."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        api.load["prod", "shop"] = 1000
        cronhpa(api)
        async with Life(api) as life:
            for load in (1000, 4000, 1000, 3000):
                api.load["prod", "shop"] = load
                await asyncio.sleep(400)
            return life.controller.writer.decisions.take(1000), list(api.scalings)

    changes, scalings = live(scenario)

    counts = [json.loads(bytes(change.decision.body))["status"]["desiredReplicas"] for change in changes]
    assert [after for _, _, _, after in scalings] == [after for before, after in pairwise(counts) if after != before]
    assert len(scalings) > 3


@pytest.mark.parametrize("check_standing", [True, False], ids=["compared", "standing"])
def test_of_a_life_the_last_change_is_kept_once_there_is_room_though_nothing_changes_any_more(check_standing):
    """70 edits, one a second, of which 60 and one a minute have room. The last one is kept within five minutes."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        api.load["prod", "shop"] = 1000
        cronhpa(api)
        async with Life(api, check_standing=check_standing) as life:
            for number in range(70):
                await asyncio.sleep(1)
                api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 11 + number})
            await asyncio.sleep(1)
            at_once = life.controller.writer.decisions.take(1000)
            await asyncio.sleep(5 * 60 + 15)
            return at_once, life.controller.writer.decisions.take(1000)

    at_once, (*_, last) = live(scenario)

    assert json.loads(bytes(at_once[-1].decision.body))["spec"]["maxReplicas"] < 80
    assert 80 == json.loads(bytes(last.decision.body))["spec"]["maxReplicas"]
    assert last.decision.left_out > 0
