"""What is logged stays the record that it is, whatever a tenant, a backend or the API has written into it."""

import io
import json
import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.operator.monitoring import log

FORGED = "2026-11-23 12:00:00,000 WARNING cronhpa.operator.writes.writer: shop/web: scaled to 0"
ENDS = ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"]
hostile = st.lists(
    st.sampled_from([*ENDS, "\x1b[2J", "\u202e", "\u2066", "\x9b", "\x00", "\ud800", "%s", FORGED]) | st.text(),
    max_size=5,
).map("".join)  # fmt: skip


@pytest.fixture(autouse=True)
def _as_it_was():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


def written(form, message, *, error=None):
    """What stands on standard error after one record."""
    handlers = logging.getLogger().handlers[:]
    log.configure(form, "info", time.monotonic)
    (stream,) = logging.getLogger().handlers
    assert isinstance(stream, logging.StreamHandler)
    text = io.StringIO()
    stream.setStream(text)
    logging.getLogger("cronhpa.test").warning("history: %s", message, exc_info=error)
    logging.getLogger().handlers[:] = handlers
    return text.getvalue()


@given(hostile)
def test_a_message_is_one_line_in_which_nothing_is_hidden(message):
    for form in ("text", "json"):
        (line,) = written(form, message).splitlines()
        assert not [character for character in line if not character.isprintable() and not character.isspace()]


@given(hostile)
def test_no_line_of_a_traceback_looks_like_a_record(message):
    first, *others = written("text", "x", error=RuntimeError(message)).splitlines()

    assert first.endswith("WARNING cronhpa.test: history: x")
    assert others
    assert [] == [line for line in others if not line.startswith("    ")]


@given(hostile)
def test_json_says_the_same_and_stays_json(message):
    (line,) = written("json", message).splitlines()

    if "://" not in message:
        assert f"history: {message}" == json.loads(line)["message"]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("where", ["message", "error"])
def test_no_password_of_any_address_is_logged(form, where):
    told = "no way to http://alice:s3cr3t@prometheus:9090/api and https://bob:s3cr3t@x?t=s3cr3t"
    said = written(form, told) if where == "message" else written(form, "x", error=RuntimeError(told))

    assert "s3cr3t" not in said
    assert "http://prometheus:9090/api and https://x?..." in said
