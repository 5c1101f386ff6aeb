"""A log that no cause can flood, and that says how much it left out."""

import io
import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.operator.log_rate import RateLimited


class Log:
    """A logger whose clock stands where a test puts it."""

    def __init__(self):
        self.now = 100.0
        self.handler = RateLimited(io.StringIO(), clock=lambda: self.now)
        self.handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.logger = logging.Logger("cronhpa.test")  # noqa: LOG001 - of this test alone
        self.logger.addHandler(self.handler)

    @property
    def lines(self):
        return self.handler.stream.getvalue().splitlines()


@pytest.fixture
def log():
    made = Log()
    yield made
    made.handler.close()


def test_the_same_words_are_written_once_a_second_with_a_count_of_the_rest(log):
    for _ in range(3000):
        log.logger.error("socket.accept() out of system resource")
    log.now += 1.5
    log.logger.error("socket.accept() out of system resource")

    assert [
        "ERROR socket.accept() out of system resource",
        "ERROR socket.accept() out of system resource [2999 more like this left out in 2 s]",
    ] == log.lines


def test_numbers_make_no_other_cause_of_a_warning(log):
    for port in range(50_000, 50_100):
        log.logger.warning("connection from 10.0.0.1:%d", port)
        log.logger.warning(f"file {port} is open")  # noqa: G004 - as libraries do

    assert ["WARNING connection from 10.0.0.1:50000", "WARNING file 50000 is open"] == log.lines


def test_what_was_done_is_told_with_its_numbers(log):
    for number in range(5):
        log.logger.info("scaled prod/web-%d from %d to %d", number, number, number + 1)

    assert 5 == len(log.lines)


def test_other_objects_are_other_causes_up_to_twenty_a_second(log):
    words = [f"{first}{second}" for first in "abcdefgh" for second in "abcdefgh"]
    for name in words:
        log.logger.warning("status of prod/%s: forbidden", name)
    log.now += 1.0
    log.logger.warning("status of prod/%s: forbidden", "aa")

    assert 21 == len(log.lines)
    assert log.lines[-1].endswith("forbidden [44 more like this left out in 1 s]")


def test_a_traceback_is_written_once_a_second_whatever_it_is_about(log):
    for name in ("shop", "cart", "desk"):
        try:
            {}[name]
        except LookupError:
            log.logger.exception("the turn of %s failed", name)

    assert ["ERROR the turn of shop failed"] == [line for line in log.lines if line.startswith("ERROR")]
    assert 1 == log.lines.count("Traceback (most recent call last):")


def test_what_was_left_out_is_told_when_it_is_over(log):
    for _ in range(10):
        log.logger.warning("the API is away")
    log.now += 2.0
    log.handler.tell()

    assert ["WARNING the API is away", "WARNING 9 more like this left out in 2 s: the API is away"] == log.lines


def test_it_is_told_though_nothing_else_is_logged():
    """In real time: a timer of the handler's own."""
    handler = RateLimited(io.StringIO(), time.monotonic)
    logger = logging.Logger("cronhpa.test")  # noqa: LOG001
    logger.addHandler(handler)
    logger.warning("away")
    logger.warning("away")
    deadline = time.monotonic() + 10
    while "1 more like this" not in handler.stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.05)

    assert ["away", "1 more like this left out in 1 s: away"] == [
        line.replace("in 2 s", "in 1 s") for line in handler.stream.getvalue().splitlines()
    ]


def test_it_is_told_at_the_end(log):
    log.logger.warning("away")
    log.logger.warning("away")
    log.handler.close()

    assert "WARNING 1 more like this left out in 1 s: away" == log.lines[-1]


def test_templates_without_number_are_one_and_take_no_memory(log):
    """A library that puts names into the template, and a tenant who makes names."""
    for number in range(5000):
        name = "".join(chr(97 + int(digit)) for digit in str(number))
        log.logger.warning(f"object {name} is odd")  # noqa: G004

    assert 200 <= len(log.lines) <= 220


def test_arguments_that_do_not_fit_raise_nothing(log, capsys):
    log.logger.warning("%d objects", "many")

    assert [] == log.lines
    assert "Logging error" in capsys.readouterr().err


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, 3.0])), max_size=60))
def test_no_words_come_twice_within_a_second_and_every_record_is_written_or_counted(told):
    log, written, at = Log(), 0, {}
    for words, pause in told:
        log.now += pause
        before = len(log.lines)
        log.logger.warning(f"{words} happened")  # noqa: G004
        if len(log.lines) > before:
            assert log.now - at.get(words, -9.0) >= 0.999
            at[words], written = log.now, written + 1
    log.handler.close()

    left_out = [line.partition(" more like")[0].rpartition(" ")[2].strip("[") for line in log.lines if " more " in line]
    assert len(told) == written + sum(int(count) for count in left_out)
