"""cronhpa.operator.monitoring.log: the lines on standard error."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import logging, time
from cronhpa.operator.monitoring.log import configure
configure(FORM, LEVEL, time.monotonic)
logging.getLogger("kopf.objects").info("chatter")
logging.getLogger("kopf.objects").warning("a warning of kopf")
logging.getLogger("cronhpa").debug("detail")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("cronhpa").exception("prod/shop: %s", "no decision")
"""


def lines(form, level):
    """What a process of its own says: logging is set for a whole process."""
    script = SCRIPT.replace("FORM", repr(form)).replace("LEVEL", repr(level))
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not ended.stdout
    return ended.stderr.splitlines()


def test_a_line_of_json_has_time_level_logger_message_and_exception():
    first, second = map(json.loads, lines("json", "info"))

    assert ("warning", "kopf.objects", "a warning of kopf") == (first["level"], first["logger"], first["message"])
    assert ("error", "cronhpa", "prod/shop: no decision") == (second["level"], second["logger"], second["message"])
    assert second["exception"].endswith("ZeroDivisionError: division by zero")
    assert {"time", "level", "logger", "message"} == set(first)


@pytest.mark.parametrize(("level", "is_shown"), [("debug", True), ("info", False)])
def test_kopf_is_never_below_warnings_and_we_are_where_it_is_asked_for(level, is_shown):
    text = "\n".join(lines("text", level))

    assert "chatter" not in text
    assert "WARNING kopf.objects: a warning of kopf" in text
    assert is_shown == ("DEBUG   cronhpa: detail" in text)
