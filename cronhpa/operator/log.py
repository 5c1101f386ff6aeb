"""Logging of the process: text for people, JSON lines for collectors."""

from __future__ import annotations

import json
import logging
import sys
from typing import Literal

from cronhpa.operator.log_rate import RateLimited


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(form: Literal["json", "text"], level: str) -> None:
    """Sends everything to standard error; kopf's chatter below warnings is left out."""
    stream = RateLimited(sys.stderr)
    stream.setFormatter(
        _JsonLines() if form == "json" else logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[stream], force=True)
    for noisy in ("kopf", "asyncio", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    # It tells each time that it leaves the signals to us, which is what its thread is for.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
