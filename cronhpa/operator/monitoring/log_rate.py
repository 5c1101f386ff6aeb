"""
A rate-limited log: 20 lines of one template at once, then 20 a second of what was done and one a second of warnings.

A token bucket for each template, as the kernel's printk_ratelimit. Numbers within a template are ignored, because some
libraries put their values there. The next line of any template says how many lines were left out.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

_BURST = 20
# Further templates count as one.
_TEMPLATES = 200
_TEMPLATE_CHARACTERS = 200
_NUMBER = re.compile(r"[0-9]+")

_Template = tuple[str, int, str]
_OTHERS: _Template = ("cronhpa", logging.WARNING, "messages of many kinds")


@dataclass(slots=True)
class _Bucket:
    at: float
    tokens: float = _BURST
    left_out: int = 0

    def refill(self, now: float, level: int) -> None:
        per_second = 1 if level >= logging.WARNING else _BURST
        self.at, self.tokens = now, min(_BURST, self.tokens + per_second * (now - self.at))


class RateLimited(logging.StreamHandler[TextIO]):
    """A stream of records. clock: monotonic seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(stream)
        self._clock = clock
        self._buckets: dict[_Template, _Bucket] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """The handler's lock is held."""
        now = self._clock()
        first_line = str(record.msg).partition("\n")[0][:_TEMPLATE_CHARACTERS]
        template = (record.name, record.levelno, _NUMBER.sub("#", first_line))
        if template not in self._buckets and len(self._buckets) >= _TEMPLATES:
            template = _OTHERS
        bucket = self._buckets.setdefault(template, _Bucket(now))
        bucket.refill(now, template[1])
        if bucket.tokens < 1:
            bucket.left_out += 1
            return
        self._report(now)
        self._buckets[template] = bucket
        bucket.tokens -= 1
        super().emit(record)

    def _report(self, now: float) -> None:
        """Write how many lines were left out of the templates that may be written again; forget the quiet ones."""
        for (name, level, text), bucket in list(self._buckets.items()):
            bucket.refill(now, level)
            if bucket.left_out and bucket.tokens >= 1:
                summary = f"{bucket.left_out} more like this left out: {text}"
                super().emit(logging.LogRecord(name, level, "", 0, "%s", (summary,), None))
                bucket.left_out = 0
            if bucket.tokens == _BURST:
                del self._buckets[name, level, text]
