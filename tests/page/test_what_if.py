"""cronhpa.page.what_if, cronhpa.page.rerun, cronhpa.page.worker_pools: the last week decided by another spec."""

import asyncio
import json
import tempfile

import msgspec
import pytest
import yaml

from cli.glance import body, pods_of, stated
from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.core.model.instant import DAY
from cronhpa.core.model.prices import Prices
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.forecasting.pool import WorkerError
from cronhpa.page import worker_pools
from cronhpa.page.loop_time import page_share
from cronhpa.page.questions import ENCODER, RerunQuestion, rerun
from cronhpa.page.rerun import NotReadableError, spec_of
from cronhpa.page.rights import BusyError, UnavailableError
from cronhpa.page.what_if import WhatIf
from cronhpa.page.worker_pools import PageWorker
from page.made_fleet import NOW, SPEC, live, lived_week, sale

# Without a forecast, and with a reconciliation a minute: quick to decide again.
PLAIN = {**{key: value for key, value in SPEC.items() if key != "forecast"}, "syncPeriodSeconds": 60}
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(9 * [f'*{of}'])}]\n" for of, name in zip("abcd", "bcde", strict=True)
)


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    path = tmp_path_factory.mktemp("what-if") / "history.db"
    return path, lived_week(path, period=10 * 60 * 10**9)


def question(lived, spec=PLAIN, text=None, **more):
    path, shop = lived
    body = msgspec.json.encode({**shop.body(), "spec": PLAIN})
    text = yaml.safe_dump({"spec": spec}) if text is None else text
    return RerunQuestion(str(path), "prod", "shop", NOW, body, text, **{"options": ControllerOptions(), **more})


def result(lived, spec=PLAIN, text=None, **more):
    return json.loads(rerun(ENCODER.encode(question(lived, spec, text, **more))))


@pytest.mark.slow
def test_the_week_is_decided_as_it_is_and_as_it_would_be(lived, tmp_path):
    """
    Six pods at least instead of three: more pod-hours in the nights and at the weekend, no minute less.

    Every second five minutes were recorded: 84 of 168 hours.
    """
    progress = tmp_path / "progress"
    progress.touch()
    document = result(lived, {**PLAIN, "minReplicas": 6}, progress=str(progress), prices=Prices(pod=0.5))

    as_it_is, changed = document["asItIs"], document["changed"]
    assert changed["podHours"] > as_it_is["podHours"] + 100
    assert 6 <= min(count for _, count in changed["replicas"]) > min(count for _, count in as_it_is["replicas"])
    assert 168 == pytest.approx(as_it_is["hours"], abs=1)
    assert changed["minutes"] <= as_it_is["minutes"]
    assert 84 == pytest.approx(document["happened"]["hours"], abs=1)
    assert 1 == pytest.approx(float(progress.read_text()), abs=0.02)
    assert (0.5, "") == (document["podPrice"], document["unpriced"])


@pytest.mark.slow
def test_both_weeks_are_decided_by_the_operators_own_settings(lived):
    """A tolerance of half a target scales seldom. Found: both ran by the defaults."""
    usual, tolerant = (result(lived, options=ControllerOptions(tolerance=share)) for share in (0.1, 0.5))

    for week in ("asItIs", "changed"):
        assert len(tolerant[week]["replicas"]) < len(usual[week]["replicas"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("spec: {minReplicas: [}", "line 1"),
        ("", "one object"),
        ("[1, 2]", "one object"),
        ("spec: 3", "its spec alone"),
        (BOMB, "values"),
        ("!!python/object/apply:os.system [reboot]", "could not determine a constructor"),
        ("spec: {" + "[" * 5000, ""),
        (yaml.safe_dump({"spec": {**SPEC, "maxReplica": 3}}), "maxReplica"),
        (yaml.safe_dump({"spec": {**SPEC, "minReplicas": 61}}), "minReplicas"),
        (yaml.safe_dump({"spec": {**SPEC, "timeZone": "Berlin"}}), "Berlin"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_object_is_told_what_is_wrong_with_it(lived, text, told):
    (problem, *_) = result(lived, text=text)["problems"]

    assert told in problem


def test_every_mistake_is_told_with_its_line_as_preview_tells_them():
    text = """\
apiVersion: cronhpa.io/v1alpha1
kind: CronHPA
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  minReplica: 3
  maxReplicas: many
  timeZone: Berlin
  schedules:
  - {name: day, start: 0 25 * * *, end: 0 18 * * *, minReplicas: 3}
"""
    with pytest.raises(NotReadableError) as caught:
        spec_of(text, "prod", ControllerOptions())

    assert [
        "line 5: spec.minReplica: there is no such field: did you mean minReplicas?",
        "line 6: spec.maxReplicas: found 'many': a whole number belongs here",
    ] == caught.value.problems[:2]
    assert ["line 7: spec.timeZone", "line 9: spec.schedules"] == [
        problem[: len(begin)]
        for problem, begin in zip(
            caught.value.problems[2:], ("line 7: spec.timeZone", "line 9: spec.schedules"), strict=True
        )
    ]


def test_the_request_of_a_pod_is_known_of_an_object_without_schedule_and_forecast():
    """What its pods request stands in its status, from which the page runs it."""
    made = body(stated(), pods_of(12, 580))

    assert {"cpu": "1"} == made["status"]["memory"]["requestPerPod"]


def test_without_a_known_request_the_page_says_so_and_names_no_option_of_a_command(lived):
    path, shop = lived
    bare = live("prod", "shop", shop.body()["spec"], {})

    (problem,) = result((path, bare), SPEC)["problems"]

    assert "cpu: its Utilization target needs what a pod requests; no pod of the target has been seen" in problem
    assert "--" not in problem


def test_a_spec_may_stand_alone_and_its_fields_may_be_empty():
    assert 3 == spec_of(yaml.safe_dump({**SPEC, "behavior": None}), "prod", ControllerOptions()).min_replicas


def test_only_the_spec_of_a_text_counts():
    """The page has reviewed only the object of the request, in its own namespace."""
    text = yaml.safe_dump({"metadata": {"name": "other", "namespace": "secret"}, "spec": PLAIN})

    assert "prod" == spec_of(text, "prod", ControllerOptions()).namespace


def test_a_run_that_cannot_be_made_says_why(lived, tmp_path):
    no_metrics = {key: value for key, value in PLAIN.items() if key != "metrics"}
    target = {"type": "AverageValue", "averageValue": "5"}
    other = {**PLAIN, "metrics": [{"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": target}}]}

    assert ["without a metric there is no load to decide under: its bounds alone are its replicas"] == result(
        lived, no_metrics)["problems"]  # fmt: skip
    assert ["rps: the load that is known is of cpu"] == result(lived, other)["problems"]
    assert "none.db" in result((tmp_path / "none.db", lived[1]))["problems"][0]


def test_an_unreadable_schedule_is_named():
    wrong = {**PLAIN, "schedules": [{"name": "day", "start": "0 25 * * *", "end": "0 18 * * *", "minReplicas": 3}]}

    with pytest.raises(NotReadableError) as caught:
        spec_of(yaml.safe_dump(wrong), "prod", ControllerOptions())
    assert any("25" in problem for problem in caught.value.problems)


# --- runs -------------------------------------------------------------------------------------------------------


class Pool:
    """Answers when it is let go on."""

    width = 1

    def __init__(self, error=None):
        self.goes_on, self.error, self.closed = asyncio.Event(), error, 0

    async def run(self, _task, _payload, _seconds):
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error
        return b'{"answer": 1}'

    async def close(self):
        self.closed += 1


ASKED = RerunQuestion("x.db", "prod", "shop", NOW, b"{}", "spec: {}", ControllerOptions())


async def test_a_run_tells_its_progress_and_then_its_result_to_whoever_began_it():
    pool = Pool()
    runs = WhatIf(PageWorker(4, 1.0, page_share(), pool))
    name = runs.begin("anna", ASKED)

    assert {"done": 0.0} == json.loads(runs.answer("anna", name))
    assert None is runs.answer("bob", name)
    assert None is runs.answer("anna", "another")
    pool.goes_on.set()
    await asyncio.sleep(0.05)
    assert {"result": {"answer": 1}} == json.loads(runs.answer("anna", name))


async def test_a_caller_has_one_run_and_another_takes_its_place():
    runs = WhatIf(PageWorker(4, 1.0, page_share(), Pool()))
    first, second = runs.begin("anna", ASKED), runs.begin("anna", ASKED)

    assert (None, {"done": 0.0}) == (runs.answer("anna", first), json.loads(runs.answer("anna", second)))


async def test_runs_that_replace_each_other_at_once_leave_no_file(tmp_path, monkeypatch):
    """A task that is cancelled before its first step runs nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runs = WhatIf(PageWorker(4, 1.0, page_share(), Pool()))

    for _ in range(5):
        runs.begin("anna", ASKED)
    await runs.close()
    await asyncio.sleep(0)

    assert [] == [*tmp_path.iterdir()]


def asked_by(namespace):
    return msgspec.structs.replace(ASKED, namespace=namespace)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0)


def is_alive(runs, caller, name):
    return runs.answer(caller, name) is not None


async def test_accounts_of_one_namespace_take_no_run_of_another():
    """Of 40 accounts of `hostile` 32 have a run, the others are refused. Each of `prod` takes the place of one."""
    runs = WhatIf(PageWorker(32, 1.0, page_share(), Pool()))
    theirs = [runs.begin(f"hostile {number}", asked_by("hostile")) for number in range(32)]
    for number in range(32, 40):
        with pytest.raises(BusyError):
            runs.begin(f"hostile {number}", asked_by("hostile"))
    ours = [runs.begin(f"anna {number}", asked_by("prod")) for number in range(16)]

    with pytest.raises(BusyError):
        runs.begin("anna 16", asked_by("prod"))
    with pytest.raises(BusyError):
        runs.begin("hostile 40", asked_by("hostile"))
    # Each has half of them now; those of `hostile` that waited longest are still there.
    assert [True] * 16 + [False] * 16 == [
        is_alive(runs, f"hostile {number}", name) for number, name in enumerate(theirs)
    ]
    assert all(is_alive(runs, f"anna {number}", name) for number, name in enumerate(ours))
    await runs.close()


async def test_an_answer_that_nobody_has_read_yet_gives_way_to_no_namespace_with_more_runs():
    class Prod(Pool):
        """Answers at once for the first run, and never for the others."""

        answers = 1

        async def run(self, task, payload, seconds):
            self.answers -= 1
            if self.answers == 0:
                self.goes_on.set()
            else:
                self.goes_on.clear()
            return await super().run(task, payload, seconds)

    runs = WhatIf(PageWorker(32, 1.0, page_share(), Prod()))
    ours = runs.begin("anna", asked_by("prod"))
    await until(lambda: "result" in json.loads(runs.answer("anna", ours)))
    for number in range(31):
        runs.begin(f"hostile {number}", asked_by("hostile"))

    with pytest.raises(BusyError):
        runs.begin("hostile 31", asked_by("hostile"))
    assert {"result": {"answer": 1}} == json.loads(runs.answer("anna", ours))
    await runs.close()


async def test_an_answer_gives_way_to_a_new_run():
    pool = Pool()
    pool.goes_on.set()
    runs = WhatIf(PageWorker(32, 1.0, page_share(), pool))
    first, *_, last = [runs.begin(f"anna {number}", ASKED) for number in range(32)]
    await until(lambda: "result" in json.loads(runs.answer("anna 31", last)))
    runs.begin("bob", ASKED)

    assert not is_alive(runs, "anna 0", first)
    await runs.close()


async def test_the_runs_of_namespaces_take_turns():
    """Eight of `hostile` begin before one of `prod`: two of them run before it, and not eight."""

    class Counting(Pool):
        begun: tuple[str, ...] = ()

        async def run(self, task, payload, seconds):
            self.begun += (msgspec.msgpack.decode(payload)["namespace"],)
            await super().run(task, payload, seconds)
            self.goes_on.clear()
            return b"1"

    pool = Counting()
    runs = WhatIf(PageWorker(32, 1.0, page_share(), pool))
    for number in range(8):
        runs.begin(f"hostile {number}", asked_by("hostile"))
    await asyncio.sleep(0)
    runs.begin("anna", asked_by("prod"))
    for count in range(1, 4):
        await until(lambda count=count: len(pool.begun) >= count)
        pool.goes_on.set()
    await runs.close()

    assert ("hostile", "hostile", "prod") == pool.begun[:3]


async def test_a_run_whose_process_dies_says_so():
    pool = Pool(WorkerError("no answer within 180 s"))
    runs = WhatIf(PageWorker(4, 1.0, page_share(), pool))
    name = runs.begin("anna", ASKED)
    pool.goes_on.set()
    await asyncio.sleep(0.05)

    assert ["this could not be computed: no answer within 180 s"] == json.loads(
        runs.answer("anna", name))["result"]["problems"]  # fmt: skip


async def test_a_run_is_encoded_when_it_has_its_place(monkeypatch):
    """Each holds all calendars, some ten megabytes: of 20 runs one is encoded, and 19 wait."""
    encoded = []

    class Counted:
        def encode(self, question):
            encoded.append(question.namespace)
            return b""

    monkeypatch.setattr(worker_pools, "ENCODER", Counted())
    runs = WhatIf(PageWorker(32, 1.0, page_share(), Pool()))
    for number in range(20):
        runs.begin(f"anna {number}", asked_by(f"team-{number}"))
    await asyncio.sleep(0.01)

    assert ["team-0"] == encoded
    await runs.close()


async def test_a_worker_refuses_what_would_wait_too_long():
    worker = PageWorker(1, 1.0, page_share(), Pool())
    first = asyncio.create_task(worker.run(rerun, b""))
    await asyncio.sleep(0)

    with pytest.raises(BusyError):
        await worker.run(rerun, b"")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_tasks_of_one_namespace_that_wait_leave_room_for_another():
    pool = Pool()
    worker = PageWorker(2, 1.0, page_share(), pool)
    hostile = [asyncio.create_task(worker.run(rerun, b"", "hostile")) for _ in range(2)]
    await asyncio.sleep(0)
    ours = asyncio.create_task(worker.run(rerun, b"", "prod"))

    with pytest.raises(BusyError):
        await worker.run(rerun, b"", "hostile")
    pool.goes_on.set()
    assert [b'{"answer": 1}'] * 3 == await asyncio.gather(ours, *hostile)


async def test_a_worker_that_gives_no_answer_is_told_as_unavailable():
    pool = Pool(WorkerError("the worker process died"))
    pool.goes_on.set()

    with pytest.raises(UnavailableError):
        await PageWorker(4, 1.0, page_share(), pool).run(rerun, b"")


def test_a_week_needs_a_load(tmp_path):
    from cronhpa.history.store import Store

    Store(tmp_path / "empty.db").close()
    new = live("prod", "shop", PLAIN, {"memory": {"version": 1, "requestPerPod": {"cpu": "1"}}})
    asked = RerunQuestion(str(tmp_path / "empty.db"), "prod", "shop", NOW + DAY, msgspec.json.encode(new.body()),
                          yaml.safe_dump(PLAIN), ControllerOptions())  # fmt: skip

    (problem,) = json.loads(rerun(ENCODER.encode(asked)))["problems"]
    assert "cpu" in problem


@pytest.mark.slow
def test_a_planned_event_holds_in_both_runs(lived):
    """It held all week, with 40 pods at least: as it is, and with six pods at least instead of three."""
    picked = live("prod", "shop", PLAIN, {}, events=[sale(opens="2026-11-01T00:00", closes="2026-12-01T00:00")])
    document = result(lived, {**PLAIN, "minReplicas": 6}, events=picked.events)

    assert {40} == {count for run in ("asItIs", "changed") for _, count in document[run]["replicas"]}


def test_a_calendar_that_the_changed_text_names_holds_in_its_run_alone(lived):
    """Its event lasted all week; the object as it is names none."""
    week = Calendar("week", (CalendarEvent("Sale", "2026-11-01T00:00", "2026-12-01T00:00"),), begin=NOW - DAY)
    wanted = {**PLAIN, "schedulesFrom": [{"calendar": "week", "matching": "*", "minReplicas": 40}]}
    document = result(lived, wanted, calendars=(week,))

    assert {40} == {count for _, count in document["changed"]["replicas"]}
    assert 40 not in {count for _, count in document["asItIs"]["replicas"]}
