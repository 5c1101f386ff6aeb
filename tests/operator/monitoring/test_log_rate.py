"""A log that no cause can flood, and that says how much it left out."""

import io
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.operator.monitoring.log_rate import RateLimited


class Log:
    """A logger whose clock stands where a test puts it."""

    def __init__(self):
        self.now = 100.0
        self.written = io.StringIO()
        self.handler = RateLimited(self.written, clock=lambda: self.now)
        self.handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.logger = logging.Logger("cronhpa.test")  # noqa: LOG001 - of this test alone
        self.logger.addHandler(self.handler)

    @property
    def lines(self):
        return self.written.getvalue().splitlines()


@pytest.fixture
def log():
    return Log()


def test_a_warning_is_written_twenty_times_and_then_once_a_second_with_a_count_of_the_rest(log):
    for _ in range(3000):
        log.logger.error("socket.accept() out of system resource")
    log.now += 1.0
    for _ in range(10):
        log.logger.error("socket.accept() out of system resource")

    assert [
        *20 * ["ERROR socket.accept() out of system resource"],
        "ERROR 2980 more like this left out: socket.accept() out of system resource",
        "ERROR socket.accept() out of system resource",
    ] == log.lines


def test_what_was_done_is_written_twenty_times_a_second(log):
    for number in range(30):
        log.logger.info("scaled prod/web-%d from %d to %d", number, number, number + 1)
    log.now += 1.0
    for number in range(30):
        log.logger.info("scaled prod/web-%d from %d to %d", number, number, number + 1)

    assert [
        "INFO scaled prod/web-19 from 19 to 20",
        "INFO 10 more like this left out: scaled prod/web-%d from %d to %d",
    ] == (log.lines[19:21])
    assert 20 + 1 + 20 == len(log.lines)


def test_values_within_a_template_make_no_other_template(log):
    for number in range(100):
        log.logger.warning(f"file {number} is open")  # noqa: G004 - as libraries do

    assert 20 == len(log.lines)


def test_the_next_line_of_any_template_tells_what_was_left_out_of_one_that_is_quiet(log):
    for _ in range(25):
        log.logger.warning("the API is away")
    log.now += 0.5
    log.logger.info("half a second later")
    log.now += 0.5
    log.logger.info("a second later")

    assert [
        "INFO half a second later",
        "WARNING 5 more like this left out: the API is away",
        "INFO a second later",
    ] == log.lines[20:]


def test_templates_without_number_are_one_and_take_no_memory(log):
    """A library that puts names into the template, and a tenant who makes names: 200, and 20 lines of all others."""
    for number in range(5000):
        name = "".join(chr(97 + int(digit)) for digit in str(number))
        log.logger.warning(f"object {name} is odd")  # noqa: G004

    assert 200 + 20 == len(log.lines)


def test_templates_are_forgotten_once_they_are_quiet(log):
    """A bucket of 20 tokens is full again 20 s after its last line, so that new templates have their own."""
    for number in range(250):
        log.logger.warning("object " + "a" * number)  # noqa: G003
    log.now += 20.0
    for number in range(30):
        log.logger.warning("object " + "b" * number)  # noqa: G003

    assert ["WARNING object " + "b" * number for number in range(30)] == log.lines[-30:]


def test_arguments_that_do_not_fit_raise_nothing(log, capsys):
    log.logger.warning("%d objects", "many")

    assert [] == log.lines
    assert "Logging error" in capsys.readouterr().err


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.01, 0.1, 0.9, 3.0])), max_size=150))
def test_every_record_is_written_or_counted_and_none_of_a_template_comes_oftener_than_allowed(records):
    log = Log()
    for words, pause in records:
        log.now += pause
        log.logger.warning(f"{words} happened")  # noqa: G004
    log.now += 20.0
    log.logger.warning("the end")

    written = [line for line in log.lines[:-1] if line.endswith("happened") and "more like this" not in line]
    left_out = [int(line.split()[1]) for line in log.lines if "more like this" in line]
    assert len(records) == len(written) + sum(left_out)
    for words in "abc":
        assert written.count(f"WARNING {words} happened") <= 20 + log.now - 100.0
