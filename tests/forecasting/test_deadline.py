"""cronhpa.forecasting.deadline: a method that hangs costs its own answers, and the others go on."""

import signal
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

from cronhpa.forecasting import deadline
from cronhpa.forecasting.deadline import Deadlines, alarmed

# What may take no longer hangs; what is to answer in time has LONG, so that a busy machine does not make it late.
SECONDS = 0.2
# What is interrupted goes on for as long otherwise.
LONG = 60.0


def sleeps():
    time.sleep(LONG)


def computes():
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        pass


def swallows_errors():
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        with suppress(Exception):
            time.sleep(LONG)


def swallows_the_first_alarm():
    try:
        time.sleep(LONG)
    except BaseException:  # noqa: BLE001 - as the most careless method does
        time.sleep(LONG)


def swallows_the_alarm_and_answers():
    try:
        time.sleep(LONG)
    except BaseException:  # noqa: BLE001 - as above
        return "late"


def answers():
    return "in time"


def raises():
    raise ValueError("no load")


def leaves():
    raise SystemExit(3)


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError


def raises_without_a_text():
    raise MuteError


@pytest.mark.parametrize(
    "work", [sleeps, computes, swallows_errors, swallows_the_first_alarm, swallows_the_alarm_and_answers]
)
def test_a_method_that_hangs_is_interrupted_and_another_goes_on(work):
    deadlines = Deadlines(SECONDS)
    attempt = deadlines.attempts()

    slow = attempt("Slow", work)
    deadlines.seconds = LONG
    quick = attempt("Quick", answers)

    assert (None, "in time") == (slow, quick)
    assert {"Slow": "no answer within 0.2 s"} == attempt.failures


def test_what_was_late_once_is_not_asked_again_for_the_same_object():
    attempt = Deadlines(SECONDS).attempts()
    attempt("Slow", sleeps)

    assert attempt("Slow", answers) is None


def test_the_time_of_a_method_is_that_of_all_its_calls_together(monkeypatch):
    """Each call takes 25 of 60 seconds, by a clock of the test's: the third ends after 75."""
    seconds = iter(range(0, 1000, 25))
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    attempt = Deadlines(LONG).attempts()

    results = [attempt("Slow", answers) for _ in range(5)]

    assert ["in time", "in time", None, None, None] == results
    assert {"Slow": "no answer within 60 s"} == attempt.failures


def test_after_it_was_late_for_some_objects_the_others_go_on_without_it():
    deadlines = Deadlines(SECONDS, objects_max=2)
    objects = [deadlines.attempts() for _ in range(4)]

    results = [attempt("Slow", sleeps if number < 2 else answers) for number, attempt in enumerate(objects)]

    assert [None] * 4 == results
    late, skipped = "no answer within 0.2 s", "no answer for 2 other objects"
    assert [late, late, skipped, skipped] == [attempt.failures["Slow"] for attempt in objects]


def test_outside_the_main_thread_a_late_answer_is_not_used():
    deadlines = Deadlines(SECONDS)
    attempt = deadlines.attempts()
    results = []

    def ask():
        results.append(attempt("Slow", lambda: time.sleep(2 * SECONDS) or "late"))
        deadlines.seconds = LONG
        results.append(attempt("Quick", answers))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

    assert [None, "in time"] == results
    assert ["Slow"] == list(attempt.failures)


def test_no_alarm_is_left_behind():
    def mine(*_):
        raise AssertionError

    before = signal.signal(signal.SIGALRM, mine)
    try:
        for work in (answers, sleeps, raises):
            Deadlines(SECONDS).attempts()("Any", work)

        assert (0.0, 0.0) == signal.getitimer(signal.ITIMER_REAL)
        assert mine is signal.getsignal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_one_handler_serves_many_attempts_and_an_alarm_between_two_interrupts_nobody():
    before = signal.getsignal(signal.SIGALRM)
    deadlines = Deadlines(SECONDS)
    attempt = deadlines.attempts()

    with alarmed():
        found = [attempt("Slow", sleeps)]
        handler = signal.getsignal(signal.SIGALRM)
        signal.raise_signal(signal.SIGALRM)
        deadlines.seconds = LONG
        found.append(attempt("Quick", answers))
        deadlines.seconds = SECONDS
        found.append(attempt("Slower", sleeps))
        assert handler is signal.getsignal(signal.SIGALRM)

    assert [None, "in time", None] == found
    assert before is signal.getsignal(signal.SIGALRM)


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (raises, "ValueError: no load"),
        (leaves, "SystemExit: 3"),
        (raises_without_a_text, "MuteError: an error without a text"),
    ],
)
def test_what_a_method_raises_costs_itself_alone(work, why):
    attempt = Deadlines(LONG).attempts()

    results = [attempt("Raising", work), attempt("Quick", answers)]

    assert [None, "in time"] == results
    assert {"Raising": why} == attempt.failures


def test_a_reason_is_one_short_line():
    attempt = Deadlines(LONG).attempts()

    def raises_a_page():
        raise ValueError("a line\n" * 10_000)

    attempt("Wordy", raises_a_page)

    assert "\n" not in attempt.failures["Wordy"]
    assert len(attempt.failures["Wordy"]) < 1000
