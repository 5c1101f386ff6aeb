"""The past that the replicas of an operator kept, each while it led, joined; without a replica its part is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from cronhpa.cli.terminal.console import say
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.history.database.series import Series
from cronhpa.history.past.past_answers import DecisionAnswer, LoadAnswer, RecordedMaximum, TimelineAnswer

# A week at one change a minute.
_CHANGES_MAX = 10_080
_T = TypeVar("_T")


class PastSourceError(Exception):
    """The past cannot be read; the text says where, what was found, what to do."""


class PastSource(Protocol):
    """Answers about the past; None for an unknown object or series. Each method raises PastSourceError."""

    async def decision(self, namespace: str, name: str, at: Nanoseconds) -> DecisionAnswer | None: ...

    async def timeline(
        self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
    ) -> TimelineAnswer | None: ...

    async def load(self, series: Series) -> LoadAnswer | None: ...


async def whole_timeline(
    source: PastSource, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
) -> TimelineAnswer | None:
    """All changes of a span, requested part by part. Raises PastSourceError."""
    whole = await source.timeline(namespace, name, since, until)
    while whole is not None and whole.go_on is not None and len(whole.changes) < _CHANGES_MAX:
        rest = await source.timeline(namespace, name, whole.go_on, until)
        if rest is None or not rest.changes:
            break
        whole = msgspec.structs.replace(whole, changes=whole.changes + rest.changes, go_on=rest.go_on)
    return whole


class Replicas:
    """The replicas of an operator as one source; each kept the past of the time in which it led."""

    def __init__(self, sources: list[PastSource]) -> None:
        self._sources = sources

    async def _asked(self, ask: Callable[[PastSource], Awaitable[_T]]) -> list[_T]:
        """
        The answers of the replicas. A replica without an answer is named on stderr and not asked again.

        A port can be forwarded before an operator listens there. Raises PastSourceError if no replica answers.
        """
        answers: list[_T] = []
        problems: dict[int, PastSourceError] = {}
        for number, source in enumerate(self._sources):
            try:
                answers.append(await ask(source))
            except PastSourceError as error:
                problems[number] = error
        if not answers:
            raise next(iter(problems.values()))
        for problem in problems.values():
            say(f"left out: {problem}", err=True)
        self._sources = [source for number, source in enumerate(self._sources) if number not in problems]
        return answers

    async def decision(self, namespace: str, name: str, at: Nanoseconds) -> DecisionAnswer | None:
        """The latest decision of any replica; the first decision after it, of any replica, is its end."""

        async def ask(source: PastSource) -> tuple[DecisionAnswer | None, Nanoseconds | None]:
            """(the replica's decision, its end); without one (None, the instant of its first one after `at`)."""
            if (answer := await source.decision(namespace, name, at)) is not None:
                return answer, answer.until
            later = await source.timeline(namespace, name, at, at)
            return None, None if later is None else later.first

        replies = await self._asked(ask)
        answers = [answer for answer, _ in replies if answer is not None]
        ends = [end for _, end in replies if end is not None]
        if not answers:
            return None
        newest = max(answers, key=lambda answer: answer.decision.at)
        first = min(answer.first for answer in answers)
        return DecisionAnswer(newest.decision, min(ends, default=None), first)

    async def timeline(
        self, namespace: str, name: str, since: Nanoseconds, until: Nanoseconds
    ) -> TimelineAnswer | None:
        replies = await self._asked(lambda source: whole_timeline(source, namespace, name, since, until))
        answers = [answer for answer in replies if answer is not None]
        if not answers:
            return None
        befores = [answer.before for answer in answers if answer.before is not None]
        firsts = [answer.first for answer in answers if answer.first is not None]
        goings = [answer.go_on for answer in answers if answer.go_on is not None]
        end = min(goings, default=until)
        changes = [change for answer in answers for change in answer.changes if change.at < end]
        return TimelineAnswer(
            before=max(befores, key=lambda change: change.at, default=None),
            changes=sorted(changes, key=lambda change: change.at),
            points=sorted((point for answer in answers for point in answer.points), key=lambda point: point.at),
            first=min(firsts, default=None),
            go_on=min(goings, default=None),
        )

    async def load(self, series: Series) -> LoadAnswer | None:
        """The loads of all replicas; of an instant that several recorded the largest one."""
        largest: dict[Nanoseconds, RecordedMaximum] = {}
        for answer in await self._asked(lambda source: source.load(series)):
            for maximum in () if answer is None else answer.maxima:
                other = largest.get(maximum.end)
                if other is None or other.value < maximum.value:
                    largest[maximum.end] = maximum
        return LoadAnswer([largest[end] for end in sorted(largest)]) if largest else None
