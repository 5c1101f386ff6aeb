"""cronhpa.operator.readers.past_endpoint: past decisions over HTTP, and what those are told who may not read them."""

import asyncio
import threading
import time
from http import HTTPStatus

import aiohttp
import msgspec
import pytest
from msgspec import Raw

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, format_instant, parse_instant
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.history.past.decisions import KeptDecision
from cronhpa.history.past.past_answers import CHANGES_MAX, DecisionAnswer, LoadAnswer, TimelineAnswer
from cronhpa.history.past.past_decision import PastDecision
from cronhpa.history.past.points import Point
from cronhpa.history.store import Store
from cronhpa.kube.errors import ClusterError
from cronhpa.operator.monitoring.listener import Listener, Request, response
from cronhpa.operator.readers.access import Verdict
from cronhpa.operator.readers.past_endpoint import BELOW, PastEndpoint

NOW = parse_instant("2026-11-23T08:00:00Z")
ANNA = {"Authorization": "Bearer t-anna"}


class Rights:
    """Anna may get prod/shop and prod/gone."""

    def __init__(self, error=None):
        self.error = error

    async def may_get(self, token, namespace, name):
        if self.error is not None:
            raise self.error
        if token == "t-busy":
            return Verdict.LATER
        if token != "t-anna":
            return Verdict.UNKNOWN
        return Verdict.ALLOWED if (namespace, name) in {("prod", "shop"), ("prod", "gone")} else Verdict.REFUSED


def kept(namespace, name, at, replicas):
    status = {"desiredReplicas": replicas, "decision": {"decidedBy": "Metric/cpu"}}
    body = {"metadata": {"namespace": namespace, "name": name}, "status": status}
    return KeptDecision(namespace, name, str(at), PastDecision(at, Raw(msgspec.json.encode(body)), Raw(b'{"now":1}')))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "history.db"
    store = Store(path)
    store.decisions.record([kept("prod", "shop", NOW + number * HOUR, number) for number in range(3)])
    store.decisions.record([kept("prod", "secret", NOW, 99)])
    store.decisions.record_points([("prod", "shop", Point(NOW, 4, 4, 1.5, 2, 9, None))])
    store.close()
    return path


def ask(path, *requests, rights=None):
    """(status, body, headers) of each request (target, headers)."""

    async def scenario():
        endpoint = PastEndpoint(path, rights or Rights(), lambda: NOW + 3 * HOUR)
        listener = Listener("127.0.0.1", 0, {}, None, {BELOW: endpoint.answer})
        serving = asyncio.create_task(listener.run())
        answers = []
        async with aiohttp.ClientSession(f"http://127.0.0.1:{listener.address[1]}") as session:
            for target, headers in requests:
                async with session.get(target, headers=headers) as answer:
                    answers.append((answer.status, await answer.read(), dict(answer.headers)))
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return answers

    return asyncio.run(scenario())


def decision(at=NOW + HOUR, name="shop", namespace="prod"):
    return f"{BELOW}{namespace}/cronhpas/{name}/decision?at={format_instant(at)}"


def timeline(begin, end, name="shop"):
    return f"{BELOW}prod/cronhpas/{name}/timeline?from={begin}&to={end}"


def test_the_decision_of_an_instant_is_told_to_who_may_get_the_object(path):
    ((status, body, headers),) = ask(path, (decision(NOW + HOUR + 1), ANNA))

    answer = msgspec.json.decode(body, type=DecisionAnswer)
    assert (200, "application/json") == (status, headers["Content-Type"])
    assert (NOW + HOUR, NOW + 2 * HOUR, NOW) == (answer.decision.at, answer.until, answer.first)


def test_a_timeline_is_told_with_what_was_in_force_at_its_begin(path):
    begin, end = format_instant(NOW + HOUR // 2), format_instant(NOW + DAY)
    ((status, body, _),) = ask(path, (timeline(begin, end), ANNA))

    answer = msgspec.json.decode(body, type=TimelineAnswer)
    assert 200 == status
    assert (0, [1, 2], None) == (answer.before.desired, [change.desired for change in answer.changes], answer.go_on)


def test_the_recorded_load_is_told_to_who_may_get_the_object(path):
    """Of the metric that is asked for; of one without a load as much as of an object that never was."""
    store = Store(path)
    store.loads.record([LoadSample(Series("prod", "shop", "cpu"), NOW + at * MINUTE, 1.5 + at) for at in range(2)])
    store.loads.record([LoadSample(Series("prod", "secret", "cpu"), NOW, 9.0)])
    store.close()

    def load(name, metric):
        return f"{BELOW}prod/cronhpas/{name}/load?metric={metric}", ANNA

    recorded, unknown, nameless, secret = ask(
        path, load("shop", "cpu"), load("shop", "memory"), load("shop", ""), load("secret", "cpu")
    )

    answer = msgspec.json.decode(recorded[1], type=LoadAnswer)
    assert 200 == recorded[0]
    assert [(NOW + MINUTE, NOW + MINUTE // 2, 1.5), (NOW + 2 * MINUTE, NOW + 3 * MINUTE // 2, 2.5)] == [
        (maximum.end, maximum.middle, maximum.value) for maximum in answer.maxima
    ]
    assert {(404, b"nothing is known here of this object, or not to you\n")} == {
        answer[:2] for answer in (unknown, nameless, secret)
    }


def test_a_row_of_the_far_future_costs_a_reader_nothing(path):
    """
    A clock that was wrong for a moment leaves one. Up to the year 2260 there are 123 million minutes, which took
    minutes of CPU and a gigabyte when each was looked up.
    """
    store = Store(path)
    series = Series("prod", "shop", "cpu")
    far = [parse_instant("2260-01-01T00:00:00Z"), parse_instant("1970-01-01T00:00:00Z")]
    store.loads.record([LoadSample(series, at, 1.5) for at in (NOW, *far)])
    store.close()
    begun = time.process_time()

    ((status, body, _),) = ask(path, (f"{BELOW}prod/cronhpas/shop/load?metric=cpu", ANNA))

    assert time.process_time() - begun < 10
    assert (200, [NOW + MINUTE]) == (status, [end for end, _, _ in msgspec.json.decode(body)["maxima"]])


def test_who_may_not_get_an_object_is_told_as_much_as_of_one_that_never_was(path):
    """
    Every byte but the date is the same: of an object that is there, of one that is not, and of one to which there is a
    right.
    """
    refused = ask(path, *((decision(name=name), ANNA) for name in ("secret", "never-was", "gone")))

    assert {(404, b"nothing is known here of this object, or not to you\n")} == {answer[:2] for answer in refused}
    headers = [{name: text for name, text in answer[2].items() if name != "Date"} for answer in refused]
    assert headers == [headers[0]] * 3


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer t-expired"},
        {"Authorization": "Basic YW5uYTphbm5h"},
        {"X-Remote-User": "anna"},
        {"Impersonate-User": "anna"},
        {"Cookie": "token=t-anna"},
    ],
)
def test_without_a_token_of_somebody_nothing_is_told(path, headers):
    """An expired token is nobody's, and headers that a proxy in front would set mean nothing here."""
    answers = ask(path, (decision(), headers), (decision(name="secret"), headers), (f"{BELOW}x/y", headers))

    assert {(401, b"")} == {answer[:2] for answer in answers[:2]}
    assert {"Bearer"} == {answer[2]["WWW-Authenticate"] for answer in answers[:2]}
    assert b"shop" not in b"".join(answer[1] for answer in answers)


@pytest.mark.parametrize(
    "target",
    [
        f"{BELOW}test/cronhpas/shop/decision?at=2026-11-23T09:00:00Z",
        f"{BELOW}prod%2Fcronhpas/shop/decision?at=2026-11-23T09:00:00Z",
        f"{BELOW}prod/cronhpas/shop%2F..%2Fsecret/decision?at=2026-11-23T09:00:00Z",
        f"{BELOW}prod/cronhpas/shop/../secret/decision?at=2026-11-23T09:00:00Z",
        f"{BELOW}prod/deployments/shop/decision?at=2026-11-23T09:00:00Z",
        f"{BELOW}prod/cronhpas//decision?at=2026-11-23T09:00:00Z",
        f"{BELOW}prod/cronhpas/shop' OR name='secret/decision?at=2026-11-23T09:00:00Z",
    ],
)
def test_no_path_leads_to_another_object(path, target):
    ((status, body, _),) = ask(path, (target, ANNA))

    assert 404 == status
    assert b"99" not in body


@pytest.mark.parametrize(
    "query",
    [
        "",
        "at=yesterday",
        "at=2026-11-23",
        "at=2026-11-23T09:00:00Z&at2=2026-11-23T09:00:00Z",
        "at=" + "9" * 4000,
        "from=2026-11-23T09:00:00Z",
        "&".join(f"a{number}=2026-11-23T09:00:00Z" for number in range(200)),
    ],
)
def test_a_query_that_is_none_is_refused_with_what_is_read(path, query):
    ((status, body, _),) = ask(path, (f"{BELOW}prod/cronhpas/shop/decision?{query}", ANNA))

    assert 400 == status
    assert b"2026-11-23T08:00:00Z" in body or b"decision?at=" in body or b"fields" in body


def test_a_span_of_ten_thousand_years_is_answered_like_any_other(path):
    ((status, body, _),) = ask(path, (timeline("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"), ANNA))

    answer = msgspec.json.decode(body, type=TimelineAnswer)
    assert (200, 3, 1) == (status, len(answer.changes), len(answer.points))


def test_of_very_many_changes_an_answer_holds_the_first_and_says_where_to_go_on(path):
    store = Store(path)
    store.decisions.record([kept("prod", "shop", NOW + DAY + number, number) for number in range(2 * CHANGES_MAX)])
    store.close()
    begin, end = format_instant(NOW + DAY - 1), format_instant(NOW + 2 * DAY)

    ((_, body, _),) = ask(path, (timeline(begin, end), ANNA))

    answer = msgspec.json.decode(body, type=TimelineAnswer)
    assert (CHANGES_MAX, NOW + DAY + CHANGES_MAX) == (len(answer.changes), answer.go_on)


def test_a_flood_of_headers_is_refused_before_anybody_is_asked(path):
    class Never:
        async def may_get(self, *_):
            raise AssertionError("a review")

    flood = {f"X-{number}": "v" * 200 for number in range(90)} | ANNA
    ((status, _, _),) = ask(path, (decision(), flood), rights=Never())

    assert 431 == status


def test_too_many_who_ask_are_told_to_come_later(path):
    ((status, _, _),) = ask(path, (decision(), {"Authorization": "Bearer t-busy"}))

    assert 429 == status


def test_where_the_api_server_does_not_say_who_asks_nothing_is_told(path):
    rights = Rights(ClusterError(0, "Unreachable", "https://10.0.0.1: no route"))

    ((status, body, _),) = ask(path, (decision(), ANNA), rights=rights)

    assert (503, b"the API server does not say who you are\n") == (status, body)


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"no store at all" * 99)])
def test_a_store_that_cannot_be_read_is_told_without_its_path(path, damage):
    damage(path)

    ((status, body, _),) = ask(path, (decision(), ANNA))

    assert 503 == status
    assert str(path).encode() not in body


def test_connections_that_are_pushed_out_leave_two_reads_under_way(path):
    """Thirty readers are gone before their reads end. Two threads read on; the reads that wait are never begun."""
    busy, most, begun, go_on = [], [], [], threading.Event()

    def slow(_):
        begun.append(1)
        busy.append(1)
        most.append(len(busy))
        go_on.wait(10)
        busy.pop()
        return Store.open_to_read(path)

    async def scenario():
        endpoint = PastEndpoint(path, Rights(), lambda: NOW + 3 * HOUR, slow)
        request = Request(*decision().split("?"), ANNA)  # type: ignore[call-arg]  # a path and a query
        for _ in range(3):
            asking = [asyncio.create_task(endpoint.answer(request)) for _ in range(10)]
            await asyncio.sleep(0.05)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        go_on.set()
        return await endpoint.answer(request)

    assert 200 == asyncio.run(scenario()).status
    assert (2, 3) == (max(most), len(begun))


def test_a_slow_store_keeps_no_other_route_waiting(path):
    """It is read in a thread: a probe beside it is answered at once."""

    reads, probing = threading.Event(), threading.Event()

    def slow(_):
        reads.set()
        probing.wait(60)
        return Store.open_to_read(path)

    async def scenario():
        endpoint = PastEndpoint(path, Rights(), lambda: NOW + 3 * HOUR, slow)
        listener = Listener(
            "127.0.0.1",
            0,
            {"/ok": lambda: response(HTTPStatus.OK, "ok\n")},
            None,
            {BELOW: endpoint.answer},
        )
        serving = asyncio.create_task(listener.run())
        async with aiohttp.ClientSession(f"http://127.0.0.1:{listener.address[1]}") as session:

            async def get(target):
                async with session.get(target, headers=ANNA) as answer:
                    return answer.status

            asked = asyncio.create_task(get(decision()))
            await asyncio.to_thread(reads.wait, 60)
            probed = await get("/ok")
            is_still_reading = not asked.done()
            probing.set()
            answers = probed, is_still_reading, await asked
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return answers

    assert (200, True, 200) == asyncio.run(scenario())
