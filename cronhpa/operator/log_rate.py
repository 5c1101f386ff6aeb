"""
A log that no cause can flood: the same words once a second, one template a few times a second, and what was left out.

A cause is a template and its words, in warnings and errors without numbers: "watch of /api/v1/pods: HTTP 503" and
"...: HTTP 504" are one, a failure of prod/shop and one of prod/cart are two. With a traceback it is the template alone.
"""

from __future__ import annotations

import copy
import logging
import re
import threading
from collections.abc import Callable
from typing import TextIO

SECOND = 1.0
# Different words of one template, such as the objects that one failure of the API is about.
_LINES_OF_TEMPLATE = 20
# More templates within a second are one: some libraries put their words into the template.
_TEMPLATES = 200
_CAUSE_CHARACTERS = 200
_NUMBER = re.compile(r"[0-9]+")

_Template = tuple[str, int, str]
_OTHERS: _Template = ("cronhpa", logging.WARNING, "messages of many kinds")


class _Seen:
    """What was lately written of one template."""

    __slots__ = ("left_out", "muted_until", "since", "words")

    def __init__(self) -> None:
        self.words: dict[str, float] = {}
        self.left_out = 0
        self.since = 0.0
        """When the first of those that were left out came."""
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
        """Writes what was left out of templates that are quiet now."""
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
            told = f"{_count(seen, now)}: {text}"
            super().emit(logging.LogRecord(name, level, "", 0, "%s", (told,), None))
            seen.left_out, seen.muted_until = 0, now + SECOND

    def _forget(self, now: float) -> None:
        for template, seen in list(self._seen.items()):
            seen.forget(now)
            if not seen.left_out and not seen.words and now >= seen.muted_until:
                del self._seen[template]

    def _tell_later(self) -> None:
        """Nothing else may be logged for hours: what was left out is told all the same."""
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
    """The first line, numbers aside."""
    return _NUMBER.sub("#", text.partition("\n")[0][:_CAUSE_CHARACTERS])


def _with_count(record: logging.LogRecord, seen: _Seen, now: float) -> logging.LogRecord:
    told = copy.copy(record)
    told.msg, told.args = f"{record.getMessage()} [{_count(seen, now)}]", ()
    return told


def _count(seen: _Seen, now: float) -> str:
    return f"{seen.left_out} more like this left out in {max(1.0, now - seen.since):.0f} s"
