"""
Logging of the process: text for people, JSON lines for collectors. Its level can be changed while it runs.

A record's `fields` (`state_log.fields`) are members of its JSON line; its text says the same in words.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable
from typing import Any, Literal

from cronhpa.core.model.printable import printable, without_url_secrets
from cronhpa.operator.monitoring.log_rate import RateLimited

LOG = logging.getLogger(__name__)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_url_secrets(record.getMessage()),
            **{key: _plain(value) for key, value in getattr(record, "fields", {}).items()},
        }
        if record.exc_info:
            line["exception"] = without_url_secrets(self.formatException(record.exc_info))
        return printable(json.dumps(line))


def _plain(value: object) -> object:
    return value if isinstance(value, int) else without_url_secrets(str(value))


class _TextLines(logging.Formatter):
    """
    One line for each record; the lines of a traceback are indented.

    So no text from outside can begin a line that looks like a record.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return printable(without_url_secrets(super().formatMessage(record)))

    def formatException(self, exc_info: Any) -> str:  # noqa: N802 - logging's name
        return _indented(super().formatException(exc_info))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"    {printable(line)}" for line in without_url_secrets(text).split("\n"))


def set_level(level: str) -> None:
    """Sets the level; libraries that log too much at this level stay at warnings."""
    logging.getLogger().setLevel(level.upper())
    for noisy in ("kopf", "asyncio", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    # At each start kopf warns that it does not handle signals, which is intended. What ends it is logged twice, with
    # tracebacks, and once more by object_watch.
    for told_elsewhere in ("running", "orchestration"):
        logging.getLogger(f"kopf._core.reactor.{told_elsewhere}").setLevel(logging.CRITICAL)


def follow_signals(loop: asyncio.AbstractEventLoop, level: str) -> None:
    """SIGUSR1 logs everything, down to debug; SIGUSR2 goes back to `level`."""

    def follow(wanted: str) -> None:
        set_level(wanted)
        LOG.warning("the log's level is %s from now on", wanted)

    loop.add_signal_handler(signal.SIGUSR1, follow, "debug")
    loop.add_signal_handler(signal.SIGUSR2, follow, level)


def configure(form: Literal["json", "text"], level: str, monotonic: Callable[[], float]) -> None:
    """Sends everything to standard error; kopf's chatter below warnings is left out. monotonic: seconds."""
    stream = RateLimited(sys.stderr, monotonic)
    stream.setFormatter(
        _JsonLines() if form == "json" else _TextLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    logging.basicConfig(handlers=[stream], force=True)
    set_level(level)
