"""
A rate-limited log: the same message once a second, one template a few times a second, with a count of the messages that
were left out.

Messages are the same if their template and their text are equal; in warnings and errors, numbers are ignored. "watch of
/api/v1/pods: HTTP 503" and "...: HTTP 504" are the same, failures of prod/shop and of prod/cart are not. With a
traceback, only the template counts.
"""

from __future__ import annotations

import copy
import logging
import re
import threading
from collections.abc import Callable
from typing import TextIO

SECOND = 1.0
# Different messages of one template in a second, such as one for each object after a failure of the API.
_LINES_OF_TEMPLATE = 20
# Further templates within a second count as one: some libraries put their values into the template.
_TEMPLATES = 200
_CAUSE_CHARACTERS = 200
_NUMBER = re.compile(r"[0-9]+")

_Template = tuple[str, int, str]
_OTHERS: _Template = ("cronhpa", logging.WARNING, "messages of many kinds")


class _Seen:
    """The recent messages of one template."""

    __slots__ = ("left_out", "muted_until", "since", "words")

    def __init__(self) -> None:
        self.words: dict[str, float] = {}
        self.left_out = 0
        self.since = 0.0
        """When the first message was left out."""
        self.muted_until = 0.0

    def forget(self, now: float) -> None:
        self.words = {words: at for words, at in self.words.items() if now - at < SECOND}


class RateLimited(logging.StreamHandler[TextIO]):
    """A stream of records. clock: monotonic seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(stream)
        self._clock = clock
        self._seen: dict[_Template, _Seen] = {}
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """The handler's lock is held."""
        try:
            template, words = _cause(record)
        except (TypeError, ValueError, KeyError):  # arguments that do not fit the template
            self.handleError(record)
            return
        now = self._clock()
        if template not in self._seen and len(self._seen) >= _TEMPLATES:
            self._forget(now)
            if len(self._seen) >= _TEMPLATES:
                template = _OTHERS
        seen = self._seen.setdefault(template, _Seen())
        seen.forget(now)
        if words in seen.words or len(seen.words) >= _LINES_OF_TEMPLATE or now < seen.muted_until:
            if not seen.left_out:
                seen.since = now
            seen.left_out += 1
            self._tell_later()
            return
        seen.words[words] = now
        super().emit(_with_count(record, seen, now) if seen.left_out else record)
        seen.left_out = 0

    def tell(self) -> None:
        """Writes the counts of messages left out, for templates that are quiet now."""
        self.acquire()
        try:
            now = self._clock()
            for template, seen in self._seen.items():
                seen.forget(now)
                if not seen.words and now >= seen.muted_until:
                    self._tell(template, seen, now)
            self._forget(now)
            self._timer = None
            if any(seen.left_out for seen in self._seen.values()):
                self._tell_later()
        finally:
            self.release()

    def close(self) -> None:
        self.acquire()
        try:
            if self._timer is not None:
                self._timer.cancel()
            for template, seen in self._seen.items():
                self._tell(template, seen, self._clock())
            self._seen.clear()
        finally:
            self.release()
        super().close()

    def _tell(self, template: _Template, seen: _Seen, now: float) -> None:
        if seen.left_out:
            name, level, text = template
            summary = f"{_count(seen, now)}: {text}"
            super().emit(logging.LogRecord(name, level, "", 0, "%s", (summary,), None))
            seen.left_out, seen.muted_until = 0, now + SECOND

    def _forget(self, now: float) -> None:
        for template, seen in list(self._seen.items()):
            seen.forget(now)
            if not seen.left_out and not seen.words and now >= seen.muted_until:
                del self._seen[template]

    def _tell_later(self) -> None:
        """Starts a timer that writes the counts: the next record may come hours later."""
        if self._timer is None:
            self._timer = threading.Timer(1.5 * SECOND, self.tell)
            self._timer.daemon = True
            self._timer.start()


def _cause(record: logging.LogRecord) -> tuple[_Template, str]:
    message = record.getMessage()
    if record.exc_info:
        words = ""
    elif record.levelno < logging.WARNING:
        words = message
    else:
        words = _plain(message)
    return (record.name, record.levelno, _plain(str(record.msg))), words


def _plain(text: str) -> str:
    """The first line with its numbers replaced."""
    return _NUMBER.sub("#", text.partition("\n")[0][:_CAUSE_CHARACTERS])


def _with_count(record: logging.LogRecord, seen: _Seen, now: float) -> logging.LogRecord:
    counted = copy.copy(record)
    counted.msg, counted.args = f"{record.getMessage()} [{_count(seen, now)}]", ()
    return counted


def _count(seen: _Seen, now: float) -> str:
    return f"{seen.left_out} more like this left out in {max(1.0, now - seen.since):.0f} s"
