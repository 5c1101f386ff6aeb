"""
cronhpa.operator.writes.writer, cronhpa.operator.writes.written_status: what people act on is written at once, what
drifts later.
"""

import asyncio
import re
from collections import Counter
from functools import partial

import pytest
from copied import copied
from happenings import EDGE
from hypothesis import assume, given
from hypothesis import strategies as st
from lives import Life, at_rest, condition, cronhpa, deployment, until
from model_api import START as START_OF_MODEL
from model_api import Fault, ModelApi
from model_api import merge as merged
from virtual_time import live

from core.situations import reconciliation_of
from cronhpa.api.patch import merge_patch
from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Withheld
from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Observation, PodCounts, Scale
from cronhpa.core.model.spec import MetricTarget, ResourceMetric, Spec, TargetRef
from cronhpa.operator.writes.written_status import StatusWrite, needed_between

SPEC = Spec(
    target=TargetRef("apps/v1", "Deployment", "web"),
    min_replicas=1,
    max_replicas=10,
    metrics=(ResourceMetric("cpu", MetricTarget("Utilization", average_utilization=50)),),
)
START = 1_800_000_000 * SECOND


def seen(usage):
    """Five ready pods of one core each, with this total usage in milli-cores."""
    tally = PodCounts(5, 0, 0, 5, 5, usage, 5000, 0, 0, 0, usage)
    return Observation(scale=Scale(5, 5, "app=web"), readings=(tally,))


def statuses(*usages):
    """The status after each reconciliation, 15 s apart, for what the pods use at it."""
    memory, status, out = Memory(), {}, []
    for reconciliation, usage in enumerate(usages):
        decision = decide(SPEC, seen(usage), None, memory, START + reconciliation * 15 * SECOND)
        memory = memory.after(decision, Withheld(), SPEC, seen(usage))
        status = render(status, reconciliation_of(SPEC, decision, Withheld(), memory, 1))
        out.append(status)
    return out


def test_where_nothing_changes_nothing_is_written():
    """Only the time of the newest recommendation differs, and a restart takes it to have held until then."""
    before, after = statuses(2500, 2500)

    assert before != after
    assert StatusWrite.NOTHING is needed_between(before, after)


def test_a_metric_that_moves_within_the_tolerance_drifts():
    """2.5 and 2.6 cores of 5: 50 and 52 %, both within a tenth of the target."""
    before, after = statuses(2500, 2600)

    assert StatusWrite.NUMBERS is needed_between(before, after)


def test_another_recommendation_is_written_at_once():
    """1 core of 5 recommends 2 pods; the window still holds 5, and a restart must know of both."""
    before, after = statuses(2500, 1000)

    assert [5, 2] == [recommendation["replicas"] for recommendation in after["memory"]["recommendations"]]
    assert StatusWrite.STATUS is needed_between(before, after)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
MEMORY_KEYS = ("recommendations", "scaleUpEvents", "scaleDownEvents", "replicas", "zero", "intent", "a")


@given(st.dictionaries(st.sampled_from(MEMORY_KEYS), json_values.filter(lambda value: value is not None), min_size=1))
def test_over_any_memory_that_somebody_forged_the_right_one_is_written(forged):
    """The API server takes any JSON as `status.memory`."""
    *_, after = statuses(2500, 1000)
    held = after | {"memory": after["memory"] | forged}
    assume(held["memory"] != after["memory"])

    patched = copied(held)
    merged(patched, merge_patch(held, after))

    assert needed_between(held, after) is not StatusWrite.NOTHING or set(forged) <= {"a"}
    assert after == patched


def test_a_memory_that_somebody_forges_under_way_costs_no_decision():
    """Six pods for three cores; then the recommendations are a number, and the load is that of ten pods."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=6)
        api.load["prod", "shop"] = 3000
        cronhpa(api)
        async with Life(api):
            await until(40)
            api.edit("cronhpas", "prod", "shop", status={"memory": {"recommendations": 5, "scaleUpEvents": "a"}})
            api.load["prod", "shop"] = 5000
            await until(100)
            return api.replicas("prod", "shop"), api.objects["cronhpas"]["prod", "shop"]["status"]["memory"]

    replicas, memory = live(scenario)

    assert 10 == replicas
    assert 10 == memory["recommendations"][-1]["replicas"]


def writes_of_five_minutes(loads):
    """The status writes from 60 to 360 s of a life in which 5 pods use these loads in turn, one a reconciliation."""

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = loads[0]
        cronhpa(api)
        async with Life(api):
            for reconciliation in range(24):
                await until(reconciliation * 15)
                api.load["prod", "shop"] = loads[reconciliation % len(loads)]
            await until(360)
        return [at for at, path, _ in api.writes if path.endswith("status") and at >= START_OF_MODEL + 60 * SECOND]

    return live(scenario)


def test_a_life_in_which_nothing_changes_writes_nothing():
    assert [] == writes_of_five_minutes([2500])


@pytest.mark.parametrize(
    "loads", [[2500, 2502, 2498], [2500, 2600, 2550], [2300, 2700, 2500]], ids=["0.1 %", "4 %", "8 %"]
)
def test_numbers_that_only_drift_are_written_every_five_minutes(loads):
    """
    46 to 54 % of the request are within the tolerance of 50: nobody would scale. No status stays old for ever.

    Where the load is that of the status when the five minutes are over, there is nothing to write.
    """
    assert len(writes_of_five_minutes(loads)) <= 1


async def fleet_that_drifts(objects, seconds, *, restarted_at=None):
    """(instant, object) of the status writes from the second minute on; in all loads move by less than a tenth."""
    api = ModelApi()
    for number in range(objects):
        deployment(api, name=f"shop-{number}", replicas=5)
        cronhpa(api, f"shop-{number}")

    async def move(until_second):
        for reconciliation in range(int(api_seconds(api) // 15), until_second // 15):
            for number in range(objects):
                api.load["prod", f"shop-{number}"] = 2400 + 8 * reconciliation
            await until(reconciliation * 15)

    async with Life(api):
        await move(restarted_at or seconds)
    if restarted_at is not None:
        async with Life(api):
            await move(seconds)
    return [
        ((at - START_OF_MODEL) / SECOND, path)
        for at, path, _ in api.writes
        if path.endswith("status") and at >= START_OF_MODEL + 60 * SECOND
    ]


def api_seconds(api):
    return (api.now() - START_OF_MODEL) / SECOND


def test_drifting_numbers_of_many_objects_are_not_written_in_a_wave():
    """
    40 objects whose statuses are written first in the same second, and then once in five minutes each: of ten half
    minutes none has more than a third of the writes, and each object writes once.
    """
    written = live(lambda: fleet_that_drifts(40, 375))

    first = [(at, path) for at, path in written if at < 360]
    assert len({path for _, path in first}) >= 36
    by_half_minute = Counter(int(at // 30) for at, _ in first)
    assert max(by_half_minute.values()) <= 13


def test_what_a_restart_reads_counts_as_written():
    """Nothing changed but the loads, within the tolerance: the next drift is written when it would have been."""
    written = live(lambda: fleet_that_drifts(20, 180, restarted_at=120))

    assert Counter(at >= 120 for at, _ in written)[True] <= 8


@pytest.mark.parametrize("window", [0, 300])
def test_a_restart_at_rest_writes_nothing(window):
    """
    What the new process assumes of the old one adds nothing to what its own first reconciliation asks for alike.
    Restarts at five seconds of a period of 15 s, on the grid's instant and off it.
    """

    async def scenario():
        api = ModelApi()
        deployment(api, replicas=5)
        api.load["prod", "shop"] = 2500
        cronhpa(api, behavior={"scaleDown": {"stabilizationWindowSeconds": window}})
        async with Life(api):
            await until(40)
        written = len(api.writes)
        for restart in range(5):
            async with Life(api):
                await until(40 + (restart + 1) * 33)
        return api.writes[written:]

    assert [] == live(scenario)


def test_a_status_that_is_refused_at_every_reconciliation_is_complained_of_once(caplog):
    """A right that was taken away: 2,000 objects at a reconciliation every 15 s would write 133 lines a second."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        cronhpa(api)
        api.faults = [Fault("PATCH", "/cronhpas/shop/status$", status=403, times=None)]
        async with Life(api):
            await until(300)

    live(scenario)

    assert 1 == sum("status of prod/shop" in record.message for record in caplog.records)


def test_problems_of_any_length_fit_into_the_status():
    """The API refuses a message of more than 32,768 characters, and with it all of the status."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        cronhpa(api)
        async with Life(api) as life:
            await until(20)
            state = life.inventory.items["prod", "shop"]
            state.served.parsed.problems = tuple(
                f"spec.schedules[{number}].start: {'x' * 1000}" for number in range(50)
            )
            await life.controller.writer.reject(state, api.now())
            return condition(api, "SpecAccepted")["message"]

    message = live(scenario)

    assert 32_768 >= len(message)
    assert message.startswith("spec.schedules[0].start: xxx")


def test_nothing_is_under_way_any_more_once_the_loop_is_closed():
    """
    200 first statuses of one group, whose writes begin by and by. Closed while some have begun and others have not.

    Found: those that had begun went on, and others waited for places, when the shard was already another replica's.
    """

    async def scenario():
        api = ModelApi()
        for number in range(200):
            deployment(api, f"shop-{number}")
            cronhpa(api, f"shop-{number}")
        begun = asyncio.Event()

        def latency(method, path):
            if method == "PATCH":
                begun.set()
            return 0.02

        api.latency = latency
        async with Life(api) as life:
            await begun.wait()
            await life.control_loop.close(0)
            closed = len(api.asked)
            await asyncio.sleep(0.2)
        return [path for _, method, path in api.asked[closed:] if method == "PATCH"]

    assert [] == live(scenario)


@pytest.mark.parametrize(
    "begins",
    [
        lambda api: api.edit("cronhpas", "prod", "rest-0", spec={"maxReplicas": 9}),
        lambda api: api.load.update({("prod", "rest-0"): 1040}),
    ],
    ids=["decided", "drifted"],
)
def test_what_somebody_else_writes_before_our_answer_comes_is_set_right_at_the_next_reconciliation(begins):
    """Their status is seen first, and is not taken for ours: an object at rest would leave it as it is."""

    async def scenario():
        api = ModelApi()
        at_rest(api, "rest-0")
        async with Life(api, check_standing=False):
            await until(100)
            written, answered = asyncio.Event(), asyncio.Event()
            api.faults = [Fault("PATCH", "/cronhpas/rest-0/status$", applied=True, waits=answered)]
            api.on_write = lambda _number, _is_done: written.set()
            begins(api)
            await written.wait()
            await asyncio.sleep(0.1)
            api.edit("cronhpas", "prod", "rest-0", status={"currentReplicas": 77})
            await asyncio.sleep(0.1)
            answered.set()
            await until(api_seconds(api) + 16)
            return api.objects["cronhpas"]["prod", "rest-0"]["status"]["currentReplicas"]

    assert 2 == live(scenario)


@pytest.mark.parametrize("field", ["currentReplicas", "operator"])
def test_what_somebody_else_writes_right_before_our_write_is_done_is_seen_in_its_answer(field):
    """
    The watch tells of both writes after the answer, which has the newest version: nothing else tells of theirs.

    Found: the status was held as we would have it. Another installation that had named itself stayed unseen.
    """
    forged = {"currentReplicas": 77, "operator": "ops/another"}[field]

    async def scenario():
        api = ModelApi()
        at_rest(api, "rest-0")
        async with Life(api, check_standing=False) as life:
            await until(100)
            theirs = [{field: forged}]
            edit = partial(api.edit, "cronhpas", "prod", "rest-0")
            api.on_write = lambda _number, is_done: None if is_done or not theirs else edit(status=theirs.pop())
            edit(spec={"maxReplicas": 9})
            await until(api_seconds(api) + 16)
            assert not theirs
            held = life.inventory.items["prod", "rest-0"].served.status
            return held[field], api.objects["cronhpas"]["prod", "rest-0"]["status"][field]

    held, served = live(scenario)

    assert held == served == {"currentReplicas": 2, "operator": "ops/another"}[field]


def test_what_somebody_else_writes_right_before_our_write_is_told_by_no_event():
    """Found: a window opened and closed that nobody had seen open."""

    async def scenario():
        api = ModelApi()
        at_rest(api, "rest-0")
        edit = partial(api.edit, "cronhpas", "prod", "rest-0")
        edit(spec={"schedules": [{**EDGE, "start": "0 16 * * *", "end": "0 17 * * *"}]})
        async with Life(api, check_standing=False):
            await until(100)
            theirs = [{"schedules": [{"name": "rush", "state": "Open"}]}]
            api.on_write = lambda _number, is_done: None if is_done or not theirs else edit(status=theirs.pop())
            edit(spec={"maxReplicas": 9})
            await until(api_seconds(api) + 31)
            assert not theirs
        return [event["reason"] for event in api.objects["events"].values()]

    assert [] == live(scenario)


def test_fields_that_the_crd_does_not_know_are_not_written_again_and_again_and_are_told_once(caplog):
    """
    The CRD is of an earlier release than the operator, and lacks two fields, of which one changes at 07:02.

    Found: the answer to the write of each told that the other one was missing, and so on at each reconciliation.
    """

    async def scenario():
        api = ModelApi()
        api.unknown = ("nextEdge", "effectiveMinReplicas")
        at_rest(api, "rest-0")
        api.edit("cronhpas", "prod", "rest-0", spec={"schedules": [{**EDGE, "end": "0 17 * * *"}]})
        async with Life(api, check_standing=False):
            await until(170)
            written = len(api.writes)
            await until(170 + 20 * 15)
            return len(api.writes) - written

    # The numbers are due once or twice.
    assert 2 >= live(scenario)
    told = [line for line in caplog.messages if "the API drops status." in line]
    assert ["effectiveMinReplicas", "nextEdge"] == sorted(re.findall(r"status\.(\w+)", " ".join(told)))
