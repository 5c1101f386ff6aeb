"""cronhpa.page.what_if, cronhpa.page.rerun, cronhpa.page.worker_pools: the last week decided by another spec."""

import asyncio
import json
import tempfile

import msgspec
import pytest
import yaml

from cronhpa.core.instant import DAY
from cronhpa.forecasting.pool import WorkerError
from cronhpa.page.questions import ENCODER, RerunQuestion, rerun
from cronhpa.page.rerun import NotReadableError, spec_of
from cronhpa.page.rights import BusyError, UnavailableError
from cronhpa.page.what_if import WhatIf
from cronhpa.page.worker_pools import PageWorker
from page.made_fleet import NOW, SPEC, live, lived_week

# Without a forecast, and with a turn a minute: quick to decide again.
PLAIN = {**{key: value for key, value in SPEC.items() if key != "forecast"}, "syncPeriodSeconds": 60}
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(9 * [f'*{of}'])}]\n" for of, name in zip("abcd", "bcde", strict=True)
)


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    path = tmp_path_factory.mktemp("what-if") / "history.db"
    return path, lived_week(path, turn=10 * 60 * 10**9)


def question(lived, spec=PLAIN, text=None, **more):
    path, shop = lived
    body = msgspec.json.encode({**shop.body(), "spec": PLAIN})
    text = yaml.safe_dump({"spec": spec}) if text is None else text
    return RerunQuestion(
        str(path), "prod", "shop", NOW, body, yaml.safe_dump({"spec": spec}) if text is None else text, **more
    )


def result(lived, spec=PLAIN, text=None, **more):
    return json.loads(rerun(ENCODER.encode(question(lived, spec, text, **more))))


def test_the_week_is_decided_as_it_is_and_as_it_would_be(lived, tmp_path):
    """
    Six pods at least instead of three: more pod-hours in the nights and at the weekend, no minute less.

    Every second five minutes were recorded: 84 of 168 hours.
    """
    progress = tmp_path / "progress"
    progress.touch()
    document = result(lived, {**PLAIN, "minReplicas": 6}, progress=str(progress))

    as_it_is, changed = document["asItIs"], document["changed"]
    assert changed["podHours"] > as_it_is["podHours"] + 100
    assert 6 <= min(count for _, count in changed["replicas"]) > min(count for _, count in as_it_is["replicas"])
    assert 168 == pytest.approx(as_it_is["hours"], abs=1)
    assert changed["minutes"] <= as_it_is["minutes"]
    assert 84 == pytest.approx(document["happened"]["hours"], abs=1)
    assert 1 == pytest.approx(float(progress.read_text()), abs=0.02)


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


def test_a_spec_may_stand_alone_and_its_fields_may_be_empty():
    assert 3 == spec_of(yaml.safe_dump({**SPEC, "behavior": None}), "prod").min_replicas


def test_only_the_spec_of_a_text_counts():
    """The page has reviewed only the object of the request, in its own namespace."""
    text = yaml.safe_dump({"metadata": {"name": "other", "namespace": "secret"}, "spec": PLAIN})

    assert "prod" == spec_of(text, "prod").namespace


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
        spec_of(yaml.safe_dump(wrong), "prod")
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


ASKED = RerunQuestion("x.db", "prod", "shop", NOW, b"{}", "spec: {}")


async def test_a_run_tells_its_progress_and_then_its_result_to_whoever_began_it():
    pool = Pool()
    runs = WhatIf(PageWorker(4, 1.0, pool))
    name = runs.begin("anna", ASKED)

    assert {"done": 0.0} == json.loads(runs.answer("anna", name))
    assert None is runs.answer("bob", name)
    assert None is runs.answer("anna", "another")
    pool.goes_on.set()
    await asyncio.sleep(0.05)
    assert {"result": {"answer": 1}} == json.loads(runs.answer("anna", name))


async def test_a_caller_has_one_run_and_another_takes_its_place():
    runs = WhatIf(PageWorker(4, 1.0, Pool()))
    first, second = runs.begin("anna", ASKED), runs.begin("anna", ASKED)

    assert (None, {"done": 0.0}) == (runs.answer("anna", first), json.loads(runs.answer("anna", second)))


async def test_runs_that_replace_each_other_at_once_leave_no_file(tmp_path, monkeypatch):
    """A task that is cancelled before its first step runs nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runs = WhatIf(PageWorker(4, 1.0, Pool()))

    for _ in range(5):
        runs.begin("anna", ASKED)
    await runs.close()
    await asyncio.sleep(0)

    assert [] == [*tmp_path.iterdir()]


async def test_when_too_many_run_another_is_refused_and_none_is_ended():
    runs = WhatIf(PageWorker(20, 1.0, Pool()))
    names = [runs.begin(f"caller {number}", ASKED) for number in range(8)]

    with pytest.raises(BusyError):
        runs.begin("one more", ASKED)
    assert all(runs.answer(f"caller {number}", name) for number, name in enumerate(names))
    await runs.close()


async def test_a_run_whose_process_dies_says_so():
    pool = Pool(WorkerError("no answer within 180 s"))
    runs = WhatIf(PageWorker(4, 1.0, pool))
    name = runs.begin("anna", ASKED)
    pool.goes_on.set()
    await asyncio.sleep(0.05)

    assert ["this could not be computed: no answer within 180 s"] == json.loads(
        runs.answer("anna", name))["result"]["problems"]  # fmt: skip


async def test_a_worker_refuses_what_would_wait_too_long():
    worker = PageWorker(1, 1.0, Pool())
    first = asyncio.create_task(worker.run(rerun, b""))
    await asyncio.sleep(0)

    with pytest.raises(BusyError):
        await worker.run(rerun, b"")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_a_worker_that_gives_no_answer_is_told_as_unavailable():
    pool = Pool(WorkerError("the worker process died"))
    pool.goes_on.set()

    with pytest.raises(UnavailableError):
        await PageWorker(4, 1.0, pool).run(rerun, b"")


def test_a_week_needs_a_load(tmp_path):
    from cronhpa.history.store import Store

    Store(tmp_path / "empty.db").close()
    new = live("prod", "shop", PLAIN, {"memory": {"version": 1, "requestPerPod": {"cpu": "1"}}})
    asked = RerunQuestion(str(tmp_path / "empty.db"), "prod", "shop", NOW + DAY, msgspec.json.encode(new.body()),
                          yaml.safe_dump(PLAIN))  # fmt: skip

    (problem,) = json.loads(rerun(ENCODER.encode(asked)))["problems"]
    assert "cpu" in problem
