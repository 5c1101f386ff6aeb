"""Other autoscalers' windows on days of the week: from one time of the day to another, perhaps past midnight."""

from __future__ import annotations

from collections.abc import Sequence

from cronhpa.migration.documents.document import Json

DAY_MINUTES = 24 * 60
_WEEK = 7


def on_weekdays(start: int, end: int, days: Sequence[int]) -> Json:
    """
    Start and end of a schedule, as cron texts.

    start, end: minutes after midnight of the day on which the window opens. days: of the start, 0 is Sunday.
    """
    after, minute = divmod(end, DAY_MINUTES)
    return {"start": _text(start, days), "end": _text(minute, [(day + after) % _WEEK for day in days])}


def _text(minute: int, days: Sequence[int]) -> str:
    named = "*" if len(set(days)) == _WEEK else ",".join(map(str, sorted(set(days))))
    return f"{minute % 60} {minute // 60} * * {named}"
