"""
Objects at rest: those of a namespace whose turns are taken together while each of them repeats its last one.

A turn that all of them repeat is stored once, as its instant. The memory and the newest decision of an object are
brought up to date when they are read, or when the object leaves: by the same function and in the same order as in turns
of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from cronhpa.core.decision import Recommendation
from cronhpa.core.instant import Nanoseconds
from cronhpa.core.memory import Memory
from cronhpa.core.steady import Repetition, SharedRecommendation, Steady
from cronhpa.kube.informer import Informer
from cronhpa.kube.pod_indexer import Match
from cronhpa.kube.scale import WatchedTarget, Workload
from cronhpa.operator.delaying_queue import Key
from cronhpa.operator.repeatable import Repeatable
from cronhpa.operator.said import Said

if TYPE_CHECKING:
    from cronhpa.operator.newest import Newest
    from cronhpa.operator.object_state import ObjectState

# The most objects that rest together: their turn takes less than a millisecond, in which nothing else runs.
_MEMBERS_MAX = 128


class Member(Struct):
    """
    An object at rest, with its state when it came to rest: whatever is replaced since then has changed.

    until: the instant before which nothing of its own is due. usages: of its newest turn, () if they are unknown.
    undrifted: as in `Said`. caught_up: the number of turns taken together that are in its memory.
    """

    state: ObjectState
    status: bytes
    generation: int
    said: Said
    kept: Repeatable
    steady: Steady
    match: Match
    target: WatchedTarget
    names: tuple[str, ...]
    memory: Memory
    newest: Newest | None
    until: Nanoseconds
    usages: tuple[int, ...]
    undrifted: tuple[int, ...] | None
    caught_up: int

    @property
    def is_as_before(self) -> bool:
        """Whether the object, its target and its pods are unchanged, as far as the watches have told."""
        state = self.state
        return (
            state.generation == self.generation
            and state.packed_status is self.status
            and state.kept_memory is self.memory
            and not state.in_doubt
            and self.match.is_current
            and self.target.is_newest
        )


class _Turn(Struct, gc=False):
    """A turn of all members. at: the instant under which it is remembered. made: its recommendations."""

    now: Nanoseconds
    at: Nanoseconds
    made: dict[int, tuple[SharedRecommendation, Recommendation]] = field(default_factory=dict)

    def recommended(self, shared: SharedRecommendation) -> Recommendation:
        made = self.made.get(id(shared))
        if made is None:  # with what has this id, so that nothing else ever has
            made = self.made[id(shared)] = (shared, shared.at(self.at))
        return made[1]


class Rest:
    """
    key: of their turn in the queue; no object has such a name. due_at: when the turn under way was due.
    last: the instants of the oldest and the newest of the members' last turns. changes: the number of changes of owners
    and objects of the namespace at the oldest of these turns. operators: named by the members' statuses. informers: of
    the members' targets.
    """

    def __init__(self, namespace: str, period: Nanoseconds, number: int) -> None:
        self.namespace = namespace
        self.key: Key = (namespace, f"/{number}")
        self.period = period
        self.members: dict[Key, Member] = {}
        self.operators: set[str | None] = set()
        self.informers: set[Informer[Workload] | None] = set()
        self.due_at: Nanoseconds = 0
        self.last: tuple[Nanoseconds, Nanoseconds] = (0, 0)
        self.changes = -1
        self._turns: list[_Turn] = []

    def join(self, state: ObjectState, changes: int) -> None:
        """Takes in an object that has just repeated its last turn."""
        said = state.said
        assert said is not None
        assert said.repeatable is not None
        assert state.checked is not None
        kept, newest = said.repeatable, state.newest
        repetition = None if newest is None else newest.repetition
        steady = kept.steady
        self.members[state.key] = Member(
            state,
            state.packed_status,
            state.generation,
            said,
            kept,
            steady,
            kept.match,
            kept.target,
            kept.names,
            state.kept_memory,
            newest,
            min(steady.until, steady.ends, state.checked[1] + self.period),
            () if repetition is None else repetition.usages,
            said.undrifted,
            len(self._turns),
        )
        self.operators.add(state.operator)
        self.informers.add(kept.target.informer)
        is_first = len(self.members) == 1
        oldest, newest_at = (said.at, said.at) if is_first else self.last
        self.last = min(oldest, said.at), max(newest_at, said.at)
        # A change after the first member joined is not checked for that member yet.
        self.changes = changes if is_first else min(self.changes, changes)
        state.rest = self

    def leave(self, states: Iterable[ObjectState]) -> None:
        """Members whose next turn is their own."""
        for state in states:
            self.catch_up(state)
            del self.members[state.key]
            state.rest = None
        if not self.members:
            for values in (self._turns, self.operators, self.informers):
                values.clear()

    def leave_all(self) -> list[ObjectState]:
        """All members, whose next turn is their own."""
        states = [member.state for member in self.members.values()]
        self.leave(states)
        return states

    def note_turn(self, now: Nanoseconds, at: Nanoseconds) -> None:
        """Notes a turn that all members have repeated."""
        self._turns.append(_Turn(now, at))
        self.last = now, now

    def catch_up(self, state: ObjectState) -> None:
        """Brings what the turns have left in a member to the newest of them."""
        member = self.members[state.key]
        turns = self._turns[member.caught_up :]
        member.caught_up = len(self._turns)
        if not turns or state.kept_memory is not member.memory:
            return
        steady = member.steady
        recommended = [turn.recommended(steady.recommended) for turn in turns]
        memory = member.memory.recommending_within(steady.window, *recommended)
        state.kept_memory = member.memory = member.said.memory = memory
        newest = turns[-1]
        member.said.at = newest.now
        if member.newest is not None:
            member.newest.repetition = Repetition(steady, newest.now, newest.at, member.usages, memory)


class Rests:
    """All of them, by the key under which their turn is due."""

    def __init__(self) -> None:
        self._by_key: dict[Key, Rest] = {}
        self._open: dict[tuple[str, Nanoseconds], Rest] = {}
        self._numbers = itertools.count()

    def get(self, key: Key) -> Rest | None:
        return self._by_key.get(key)

    def open_to(self, namespace: str, period: Nanoseconds) -> Rest:
        """The one that an object of a namespace with this period may join."""
        rest = self._open.get((namespace, period))
        if rest is None or len(rest.members) >= _MEMBERS_MAX:
            rest = self._open[namespace, period] = Rest(namespace, period, next(self._numbers))
            self._by_key[rest.key] = rest
        return rest

    def forget(self, rest: Rest) -> None:
        """Forgets one whose members have all left."""
        self._by_key.pop(rest.key, None)
        if self._open.get((rest.namespace, rest.period)) is rest:
            del self._open[rest.namespace, rest.period]
