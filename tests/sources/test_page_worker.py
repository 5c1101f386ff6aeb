"""cronhpa.sources.page_worker: answers to requests, here in threads of the tests."""

import socket
import threading
from contextlib import contextmanager

import msgspec
import pytest

from cronhpa.sources.page_worker import (
    FIRST_SCRAPE,
    PageAddress,
    PodNumber,
    ScrapeAnswer,
    ScrapeRequest,
    ScrapeServer,
    framed,
)
from cronhpa.sources.pod_page import PageSource
from sources.pod_servers import plain, raw_pods
from sources.virtual_periods import Periods


class Operator:
    """The other end of a worker's socket."""

    def __init__(self, connected):
        self.connected = connected
        assert ScrapeAnswer(0, []) == self.receive()  # it has started

    def receive(self):
        length = int.from_bytes(self.connected.recv(4, socket.MSG_WAITALL), "big")
        return msgspec.msgpack.decode(self.connected.recv(length, socket.MSG_WAITALL), type=ScrapeAnswer)

    def scrape(self, *pods, **fields):
        self.connected.sendall(framed(request(*pods, **fields)))
        return self.receive()


@contextmanager
def working(clock, **bounds):
    """A worker by a clock that stands still; it ends when the operator does."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=ScrapeServer(theirs, clock, **bounds).run, daemon=True)
    thread.start()
    with ours:
        yield Operator(ours)
    thread.join()
    theirs.close()


def request(*pods, **fields):
    stated = {
        "id": 5,
        "source": PageSource(id=1, metric="inflight", path="/metrics", labels={}, timeout_seconds=60.0),
        "combine": "sum",
        "max_age_seconds": 120,
        "namespace": "prod",
        "name": "shop",
        "period_seconds": 15.0,
        "now_seconds": 1000.0,
        "pods": list(pods),
    }
    return ScrapeRequest(**(stated | fields))


def at(port, name="a", created=0):
    return PageAddress(name, created, "127.0.0.1", port)


def test_a_request_has_a_number_or_a_reason_for_each_pod():
    two_samples, nonsense = raw_pods(plain(b'inflight{a="1"} 7\ninflight{a="2"} 1\n')), raw_pods(b"nonsense")
    with two_samples as good, nonsense as bad, working(Periods()) as operator:
        answer = operator.scrape(at(good.port), at(bad.port))

    broke = PodNumber(problem="the connection broke before the answer was whole")
    assert ScrapeAnswer(5, [PodNumber(8.0), broke]) == answer


def test_no_pods_have_no_numbers():
    with working(Periods()) as operator:
        assert ScrapeAnswer(5, []) == operator.scrape()


def test_two_requests_at_once_each_have_their_answer():
    with raw_pods(plain(b"inflight 7\n")) as pods, working(Periods()) as operator:
        operator.connected.sendall(framed(request(at(pods.port), id=1)) + framed(request(at(pods.port), id=2)))

        assert {1, 2} == {operator.receive().id, operator.receive().id}


def test_a_counter_is_a_rate_from_the_second_scrape_on_and_a_new_pod_of_its_name_begins_anew():
    """40 in the 2 s between two scrapes."""
    clock = Periods()
    with working(clock) as operator, raw_pods(plain(b"# TYPE inflight counter\ninflight 10\n")) as pods:
        first = operator.scrape(at(pods.port)).numbers
        pods.parts = [plain(b"# TYPE inflight counter\ninflight 50\n")]
        clock.now = 2.0
        second = operator.scrape(at(pods.port)).numbers
        clock.now = 4.0
        replaced = operator.scrape(at(pods.port, created=1)).numbers

    assert [PodNumber(problem=FIRST_SCRAPE)] == first == replaced
    assert [PodNumber(20.0, 2.0)] == second


@pytest.mark.parametrize("period", [15.0, 3600.0])
def test_an_objects_counters_are_forgotten_ten_minutes_after_it_was_due(period):
    """Though its namespace goes on asking for another object, as whose request comes the worker looks."""
    clock = Periods()
    with working(clock) as operator, raw_pods(plain(b"# TYPE inflight counter\ninflight 10\n")) as pods:

        def number_after(seconds):
            clock.now += seconds
            operator.scrape(at(pods.port), name="other")
            (number,) = operator.scrape(at(pods.port), period_seconds=period).numbers
            return number

        numbers = [number_after(seconds) for seconds in (2.0, period + 599.0, period + 601.0)]

    first = PodNumber(problem=FIRST_SCRAPE)
    assert [first, PodNumber(0.0, period + 599.0), first] == numbers


def test_of_too_many_counters_the_namespace_with_most_loses_those_of_the_object_that_came_last():
    """
    A pod of 100 counters takes 600 + 100 * 16 = 2,200 bytes and its object 600: of 6,000 bytes there is place for two.
    Of three objects one is that of a namespace that has no other. All are asked in turn, each after 16 s.
    """
    clock = Periods()
    page = b"# TYPE inflight counter\n" + b"".join(b'inflight{a="%d"} 1\n' % number for number in range(100))
    with working(clock, remembered_bytes=6000) as operator, raw_pods(plain(page)) as pods:

        def number_of(namespace, name):
            clock.now += 16.0
            (number,) = operator.scrape(at(pods.port), namespace=namespace, name=name).numbers
            return number

        rounds = [[number_of(*named) for named in (("dev", "old"), ("dev", "new"), ("prod", "shop"))] for _ in range(4)]

    first, rate = PodNumber(problem=FIRST_SCRAPE), PodNumber(0.0, 48.0)
    assert [[first, first, first], *[[rate, first, rate]] * 3] == rounds


def test_a_sample_that_is_too_old_by_the_operators_clock_is_refused():
    with raw_pods(plain(b"inflight 7 879000\n")) as pods, working(Periods()) as operator:
        (answer,) = operator.scrape(at(pods.port)).numbers

    assert "its number is more than 120 s away from the operator's clock" == answer.problem


def test_a_scrape_that_used_its_cpu_time_up_is_refused_as_a_whole():
    """It has 0 s of its period and 3 ms for 3 pods; 2,000 lines of the metric take more of any machine."""
    lines = b"".join(b'inflight{a="%d"} 1\n' % number for number in range(1900))
    with raw_pods(plain(lines)) as pods, working(Periods()) as operator:
        answer = operator.scrape(at(pods.port, "a"), at(pods.port, "b"), at(pods.port, "c"), period_seconds=0.0)

    assert "its pods' pages take CPU time of more than 20% of its period" in answer.refusal


def test_at_its_deadline_a_request_is_answered_without_the_pods_that_hang():
    clock = Periods()
    with raw_pods(plain(b"inflight 7\n")) as good, raw_pods(b"", closes=False) as hanging, working(clock) as operator:
        operator.connected.sendall(framed(request(at(good.port), at(hanging.port))))
        while not hanging.accepted:
            pass
        clock.now = 61.0
        answer = operator.receive()

    assert PodNumber(problem="it gave no answer within 60 s") == answer.numbers[1]
