"""
The bounds in force at an instant, and who set them: override, then open schedules by rank, then the spec.

The effective minimum and the effective maximum are resolved separately: for each, the highest rank that states one
wins; at equal rank the largest minimum and the smallest maximum win.

Ahead of its start a schedule leads: its floor and its headroom count already, so that the pods are Ready when the
window opens. A cap, and a floor below the one before it, count from the start on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.behavior import ramp
from cronhpa.core.cache import OwnedCache
from cronhpa.core.decision import (
    Abstention,
    Ahead,
    Edge,
    Lead,
    Proposal,
    Role,
    Source,
    SourceRef,
    Window,
    WindowState,
    Yielding,
)
from cronhpa.core.instant import DAY, MINUTE, Nanoseconds
from cronhpa.core.memory import lead_time
from cronhpa.core.scheduled import windows
from cronhpa.core.spec import CronWindow, OnceWindow, Override, Schedule, Spec

# gc=False below: these values have no cycles, and an edge that all objects share creates very many at once.
Rank = tuple[int, int, int]
_SPEC: Rank = (0, 0, 0)
_OVERRIDE: Rank = (1, 0, 0)
FOR_EVER: Nanoseconds = 1 << 80
# The bounds behind an edge are computed at most this long before it. A longer time would keep two sets all day.
_AHEAD_MAX = 15 * MINUTE
_EDGES_AHEAD_MAX = 4
_AHEAD_PLACES = 1 << 16


class Bounds(Struct, frozen=True, gc=False):
    """
    minimum, maximum: the effective bounds. floor, cap: the same if a schedule or an override set them, else None.
    minimum_by, maximum_by: who set them. conflict: bounds that contradict each other now, in words.
    headroom_percent: the largest among the schedules that are open or lead. leads: the measured leads that have begun.
    unreadable: whether a schedule cannot be read and abstains.
    """

    minimum: int
    maximum: int
    floor: int | None
    cap: int | None
    minimum_by: SourceRef
    maximum_by: SourceRef
    headroom_percent: int
    proposals: tuple[Proposal, ...]
    abstentions: tuple[Abstention, ...]
    windows: tuple[Window, ...]
    leads: tuple[Lead, ...]
    next_edge: Edge | None
    conflict: str
    unreadable: bool


class RankedBound(Struct, frozen=True, gc=False):
    """A bound and the rank of whoever states it."""

    rank: Rank
    proposal: Proposal

    @property
    def number(self) -> int:
        return self.proposal.replicas

    @property
    def by(self) -> SourceRef:
        return self.proposal.by


class Settled(Struct, frozen=True, gc=False):
    """
    low: the minimum of the highest rank; high: the maximum of the highest rank. minimum, maximum: the bounds in force.
    They equal low and high, unless low is above high: then one of the two is both bounds.
    """

    low: RankedBound
    high: RankedBound
    minimum: RankedBound
    maximum: RankedBound


class _Leading(Struct, frozen=True, gc=False):
    """A schedule that leads. floor: the minimum that it asks for, None if it does not raise the minimum."""

    schedule: Schedule
    start: Nanoseconds
    length: Nanoseconds
    floor: int | None


class _Seen(Struct):
    """The states of schedules and override at an instant. closed: index and start of the schedules that may lead."""

    states: list[Window]
    stated: list[RankedBound]
    abstentions: list[Abstention]
    closed: list[tuple[int, Nanoseconds]]
    headroom: int = 0
    edge: Edge | None = None

    def meets(self, at: Nanoseconds | None, name: str, state: WindowState) -> None:
        """Notes an edge; the earliest noted one is the next edge."""
        if at is not None and (self.edge is None or at < self.edge.at):
            self.edge = Edge(at, name, state)


def resolve(spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None = None, leads: tuple[Lead, ...] = ()) -> Bounds:
    """
    The bounds in force at `now`.

    start_up: how long the target's pods take to become Ready, None while unknown. leads: the leads that have begun.
    Both come from the memory and only affect measured leads.

    Bounds are constant between edges, so they are cached until the next edge. Shortly before an edge the bounds behind
    it are computed: when an edge that thousands of objects share arrives, each finds its bounds in the cache.
    """
    asked = _ASKED.get(spec)
    held = None if asked is None else asked.answer(now, start_up, leads)
    if held is None:
        asked = _shared(spec, start_up, leads)
        held = asked.answer(now, start_up, leads)
        if held is None:
            held = _worked_out(spec, now, start_up, leads)
            _hold(asked, (held, *asked.held[:_EDGES_AHEAD_MAX]), held.end)
    elif now >= held.look_ahead and asked is not None and held.end >= asked.until:
        ahead = (*_behind(spec, held),)
        _hold(asked, (held, *ahead), max((item.end for item in ahead), default=FOR_EVER))
    return held.bounds


def quiet_until(spec: Spec, edge: Nanoseconds | None, now: Nanoseconds) -> Nanoseconds:
    """
    The instant until which `resolve` answers from its cache for an object that was decided at `now`.

    edge: the object's next edge. Later the cached bounds end, or `resolve` computes those behind them, which can take
    milliseconds for an object of 50 windows.
    """
    end = (now // DAY + 1) * DAY
    return (end if edge is None else min(edge, end)) - _AHEAD_MAX - spec.options.sync_period


class _Held(Struct, frozen=True, gc=False):
    """
    Cached bounds, valid in [begin, end) for a caller with this start-up time and either the leads that it passed in or
    the leads that were computed. look_ahead: from this instant on the bounds behind them are computed.
    """

    begin: Nanoseconds
    end: Nanoseconds
    start_up: Nanoseconds | None
    leads: tuple[Lead, ...]
    bounds: Bounds
    look_ahead: Nanoseconds


class _Asked:
    """
    The cache entry that specs with equal schedules and bounds share. The specs keep it alive.

    held: the bounds that were computed last. until: the end of the last consecutive ones.
    """

    __slots__ = ("__weakref__", "held", "until")

    def __init__(self) -> None:
        self.held: tuple[_Held, ...] = ()
        self.until: Nanoseconds = 0

    def answer(self, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> _Held | None:
        held = self.held
        for item in held:
            if item.begin <= now < item.end and item.start_up == start_up and leads in (item.bounds.leads, item.leads):
                if item is not held[0]:  # so that the next turn finds it first
                    self.held = (item, *(other for other in held if other is not item))
                return item
        return None

    def forget(self) -> None:
        self.held = ()


# By everything that bounds depend on: objects that differ only in targets and metrics share an entry.
_SHARED: WeakValueDictionary[tuple[Hashable, ...], _Asked] = WeakValueDictionary()
# The entries of 65,536 objects; and their bounds, 3 kB for five schedules: those of 20,000 objects that share nothing.
# The bounds of more objects are computed at each turn.
_ASKED: OwnedCache[Spec, _Asked] = OwnedCache(32 * 2**20)
_HELD: OwnedCache[_Asked, None] = OwnedCache(96 * 2**20, dropped=_Asked.forget)
# Bytes of an entry of each, of bounds without their parts, and of a part of each kind without its text.
_ASKED_WEIGHT, _BOUNDS_WEIGHT, _WINDOW_WEIGHT, _PROPOSAL_WEIGHT = 500, 700, 110, 240


def _shared(spec: Spec, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> _Asked:
    """The entry that this spec shares with all specs of equal schedules and bounds."""
    question = (
        spec.schedules,
        spec.override,
        spec.min_replicas,
        spec.max_replicas,
        spec.behavior,
        spec.options.sync_period,
        start_up,
        leads,
    )
    asked = _SHARED.get(question)
    if asked is None:
        asked = _SHARED[question] = _Asked()
    _ASKED.put(spec, asked, _ASKED_WEIGHT)
    return asked


def _hold(asked: _Asked, held: tuple[_Held, ...], until: Nanoseconds) -> None:
    asked.held, asked.until = held, until
    _HELD.put(asked, None, sum(_weight(item.bounds) for item in held))


def _weight(bounds: Bounds) -> int:
    """The approximate size of bounds in bytes, including parts that they share with others."""
    texts = sum(len(item.message) for item in bounds.abstentions)
    parts = len(bounds.proposals) + len(bounds.abstentions) + len(bounds.leads)
    return (
        _BOUNDS_WEIGHT + _WINDOW_WEIGHT * len(bounds.windows) + _PROPOSAL_WEIGHT * parts + texts + len(bounds.conflict)
    )


def _behind(spec: Spec, held: _Held) -> Iterator[_Held]:
    """The bounds that follow these: of a lead that begins, also the bounds after it."""
    until = held.end + _AHEAD_MAX
    for _ in range(_EDGES_AHEAD_MAX):
        if held.end >= min(until, FOR_EVER):
            return
        held = _worked_out(spec, held.end, held.start_up, held.bounds.leads)
        yield held


def _worked_out(spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> _Held:
    """The bounds in force at `now`, with the instant until which they hold."""
    bounds = resolve_anew(spec, now, start_up, leads)
    end = holds_until(spec, bounds, now)
    # Objects are spread over the minutes before the edge, and none computes in the last turn before it.
    last = end - spec.options.sync_period
    place = max(min(last - now, _AHEAD_MAX), 0) * (hash(spec) % _AHEAD_PLACES) // _AHEAD_PLACES
    return _Held(now, end, start_up, leads, bounds, last - place)


def holds_until(spec: Spec, found: Bounds, at: Nanoseconds) -> Nanoseconds:
    """Until when `resolve` gives the same as at `at`: the next edge, or the end of the day if no edge is known."""
    edge = FOR_EVER if found.next_edge is None else found.next_edge.at
    # The end of a window that its own starts keep open is only known from a year before it on.
    is_open_end = any(
        state.changes is None and isinstance(schedule.window, CronWindow)
        for schedule, state in zip(spec.schedules, found.windows, strict=True)
        if state.state in {WindowState.OPEN, WindowState.CLOSED}
    )
    return min(edge, (at // DAY + 1) * DAY) if is_open_end else edge


def resolve_anew(spec: Spec, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]) -> Bounds:
    """`resolve` without its cache."""
    seen = _look(spec, now)
    settled = _settle(spec, seen.stated)
    leading = _leading(spec, seen, settled, now, start_up, leads) if seen.closed else []
    if seen.edge is not None and seen.edge.state is WindowState.CLOSED:
        _look_behind(spec, seen, start_up)
    conflict = contradiction(settled)
    proposals = [item.proposal for item in seen.stated]
    low, high = settled.minimum, settled.maximum
    if leading:
        stated = [_yielding(item, leading) for item in seen.stated]
        ahead = [_ahead(item) for item in leading if item.floor is not None]
        for item in ahead:
            # Resolve each leading floor separately and keep the highest result: next to a higher-ranked cap, the
            # largest floor can resolve to the lowest bound.
            found = _settle(spec, stated, item)
            low, high = max(low, found.minimum, key=_number), max(high, found.maximum, key=_number)
        proposals = [item.proposal for item in (*stated, *ahead)]
    return Bounds(
        minimum=low.number,
        maximum=high.number,
        floor=None if low.rank == _SPEC else low.number,
        cap=None if high.rank == _SPEC else high.number,
        minimum_by=low.by,
        maximum_by=high.by,
        headroom_percent=seen.headroom,
        proposals=tuple(proposals),
        abstentions=tuple(seen.abstentions),
        windows=tuple(seen.states),
        leads=_kept_leads(spec, seen, leading, now, leads),
        next_edge=seen.edge,
        conflict=conflict,
        unreadable=bool(seen.abstentions),
    )


def _look(spec: Spec, now: Nanoseconds) -> _Seen:
    seen = _Seen([], [], [], [])
    for index, schedule in enumerate(spec.schedules):
        if schedule.problem is not None:
            seen.abstentions.append(Abstention(Source.SCHEDULE, schedule.name, "Unreadable", schedule.problem))
            seen.states.append(Window(schedule.name, WindowState.UNREADABLE, None))
        elif schedule.suspend:
            seen.states.append(Window(schedule.name, WindowState.SUSPENDED, None))
        else:
            _look_at(seen, index, schedule, now)
    override = spec.override
    if override is not None and now < override.until:
        seen.stated += _statements(Source.OVERRIDE, override, _OVERRIDE, override.until)
        seen.meets(override.until, "override", WindowState.CLOSED)
    return seen


def _look_at(seen: _Seen, index: int, schedule: Schedule, now: Nanoseconds) -> None:
    state = windows.state(schedule.window, now)
    if state.is_open:
        seen.states.append(Window(schedule.name, WindowState.OPEN, state.until))
        seen.stated += _stated_by(schedule, state.until)
        seen.headroom = max(seen.headroom, schedule.headroom_percent)
        seen.meets(state.until, schedule.name, WindowState.CLOSED)
        return
    seen.states.append(Window(schedule.name, WindowState.CLOSED, state.until))
    seen.meets(state.until, schedule.name, WindowState.OPEN)
    if state.until is not None and (schedule.floor is not None or schedule.headroom_percent):
        seen.closed.append((index, state.until))


def settled_at(spec: Spec, at: Nanoseconds) -> Settled:
    """The bounds of the windows that are open at an instant, the override and the spec, without leads."""
    stated: list[RankedBound] = []
    for schedule in spec.schedules:
        if schedule.problem is None and not schedule.suspend:
            state = windows.state(schedule.window, at)
            if state.is_open:
                stated += _stated_by(schedule, state.until)
    if spec.override is not None and at < spec.override.until:
        stated += _statements(Source.OVERRIDE, spec.override, _OVERRIDE, spec.override.until)
    return _settle(spec, stated)


def contradiction(settled: Settled) -> str:
    """
    A minimum above a maximum and which of them wins, in words; "" if there is none.

    An override is meant to contradict schedules, so it is never named.
    """
    low, high = settled.low, settled.high
    if low.number <= high.number or _OVERRIDE in {low.rank, high.rank}:
        return ""
    asked = f"{low.by} asks for at least {low.number}, {high.by} for at most {high.number}"
    if low.rank == high.rank:
        return f"{asked}, at equal rank: the maximum wins"
    return f"{asked}: {settled.minimum.by} is of higher rank and wins"


def _settle(spec: Spec, stated: Sequence[RankedBound], ahead: RankedBound | None = None) -> Settled:
    """ahead: a leading floor. It raises the minimum, whatever its rank."""
    low, high = _of_spec(spec.min_replicas, spec.max_replicas)
    for item in stated:
        if item.proposal.role is Role.FLOOR:
            if (item.rank, item.number) > (low.rank, low.number):
                low = item
        elif (item.rank, -item.number) > (high.rank, -high.number):
            high = item
    if ahead is not None and ahead.number > low.number:
        low = ahead
    if low.number <= high.number:
        return Settled(low, high, low, high)
    # The higher rank moves the other; at equal rank the maximum wins.
    winner = low if low.rank > high.rank else high
    return Settled(low, high, winner, winner)


def _number(item: RankedBound) -> int:
    return item.number


# 600 bytes each.
@lru_cache(maxsize=4096)
def _of_spec(minimum: int, maximum: int) -> tuple[RankedBound, RankedBound]:
    return (
        RankedBound(_SPEC, Proposal(Source.SPEC, "", Role.FLOOR, minimum)),
        RankedBound(_SPEC, Proposal(Source.SPEC, "", Role.CAP, maximum)),
    )


def _stated_by(schedule: Schedule, until: Nanoseconds | None) -> list[RankedBound]:
    return _statements(Source.SCHEDULE, schedule, _rank(schedule), until)


def _rank(schedule: Schedule) -> Rank:
    """Above the spec's own bounds, by priority; at equal priority a planned event beats a recurring window."""
    return (0, 1, 2 * schedule.priority + isinstance(schedule.window, OnceWindow))


def _statements(source: Source, by: Schedule | Override, rank: Rank, until: Nanoseconds | None) -> list[RankedBound]:
    """The bounds that a schedule or an override states while it holds."""
    name = by.name if isinstance(by, Schedule) else ""
    return [
        RankedBound(rank, Proposal(source, name, role, number, until))
        for role, number in ((Role.FLOOR, by.floor), (Role.CAP, by.cap))
        if number is not None
    ]


# --- leads -------------------------------------------------------------------------------------------------------


def _leading(
    spec: Spec, seen: _Seen, settled: Settled, now: Nanoseconds, start_up: Nanoseconds | None, leads: tuple[Lead, ...]
) -> list[_Leading]:
    """The closed schedules that lead. Their states and the next lead's begin are noted in `seen`."""
    assert seen.edge is not None
    first = seen.edge.at
    then: Settled | None = None
    begun = {(item.schedule, item.start): item.length for item in leads}
    # By instant: schedules that open together share the bounds around it.
    settled_then: dict[Nanoseconds, Settled] = {}
    out: list[_Leading] = []
    for index, start in seen.closed:
        length = begun.get((spec.schedules[index].name, start))
        # A lead that has not begun and cannot begin before the next edge is not computed.
        if length is None and start - _longest(spec, index, start_up) >= seen.edge.at:
            continue
        if start == first:
            then = then or _then(spec, seen, first)
            found = _lead(spec, index, start, start_up, settled, then)
        else:
            for at in (start - 1, start):
                if at not in settled_then:
                    settled_then[at] = settled_at(spec, at)
            found = _lead(spec, index, start, start_up, settled_then[start - 1], settled_then[start])
        if found is None:
            continue
        if length is not None and found.schedule.lead is None:
            found = replace(found, length=length)  # a lead keeps the length that it began with
        name, begin = found.schedule.name, start - found.length
        if now < begin:
            seen.meets(begin, name, WindowState.LEADING)
            continue
        out.append(found)
        seen.states[index] = Window(name, WindowState.LEADING, start, found.length)
        seen.headroom = max(seen.headroom, found.schedule.headroom_percent)
    return out


def _kept_leads(
    spec: Spec, seen: _Seen, leading: Sequence[_Leading], now: Nanoseconds, begun: tuple[Lead, ...]
) -> tuple[Lead, ...]:
    """
    The measured leads in force, and those that have begun and are hidden now.

    An override hides a lead while it holds. If it is removed before the start, the lead goes on with its length.
    """
    kept = [Lead(item.schedule.name, item.start, item.length) for item in leading if item.schedule.lead is None]
    if begun:
        measured = {
            (spec.schedules[index].name, start) for index, start in seen.closed if spec.schedules[index].lead is None
        }
        measured -= {(item.schedule, item.start) for item in kept}
        kept += [item for item in begun if (item.schedule, item.start) in measured and item.start - item.length <= now]
    return tuple(kept)


def _look_behind(spec: Spec, seen: _Seen, start_up: Nanoseconds | None) -> None:
    """Corrects the next edge for a window that passes from its end straight into its next lead."""
    assert seen.edge is not None
    at = seen.edge.at
    for index, (schedule, window) in enumerate(zip(spec.schedules, seen.states, strict=True)):
        if window.state is not WindowState.OPEN or (window.changes, window.name) != (at, seen.edge.schedule):
            continue
        start = windows.state(schedule.window, at).until
        if start is None or start - _longest(spec, index, start_up) > at:
            return
        found = _lead(spec, index, start, start_up, settled_at(spec, start - 1), settled_at(spec, start))
        if found is not None and start - found.length <= at:
            seen.edge = Edge(at, schedule.name, WindowState.LEADING)


def _then(spec: Spec, seen: _Seen, edge: Nanoseconds) -> Settled:
    """`settled_at` for the first edge after `seen`, without evaluating all windows again."""
    stated = [item for item in seen.stated if item.proposal.until != edge]
    for schedule, window in zip(spec.schedules, seen.states, strict=True):
        if window.changes == edge and window.state is not WindowState.OPEN:
            stated += _stated_by(schedule, None)
    return _settle(spec, stated)


def _longest(spec: Spec, index: int, start_up: Nanoseconds | None) -> Nanoseconds:
    """An upper bound of this schedule's lead: a rise from zero takes the longest."""
    schedule = spec.schedules[index]
    if schedule.lead is not None:
        return schedule.lead
    return lead_time(start_up, spec.options) + ramp(spec.behavior, 0, schedule.floor or 0, spec.options.sync_period)


def _lead(
    spec: Spec, index: int, start: Nanoseconds, start_up: Nanoseconds | None, before: Settled, then: Settled
) -> _Leading | None:
    """
    The lead of a schedule that opens at `start`; None if nothing rises there.

    before, then: the bounds just before it opens, and from then on. A floor that is outranked raises nothing.
    """
    schedule = spec.schedules[index]
    low = high = before.minimum.number
    if schedule.floor is not None and then.low.rank <= _rank(schedule):
        high = min(schedule.floor, then.minimum.number)
    floor = high if high > low else None
    if floor is None and not schedule.headroom_percent:
        return None
    length = schedule.lead
    if length is None:
        length = lead_time(start_up, spec.options) + ramp(spec.behavior, low, high, spec.options.sync_period)
    return _Leading(schedule, start, length, floor)


def _ahead(item: _Leading) -> RankedBound:
    assert item.floor is not None
    basis = Ahead(item.start, item.length)
    proposal = Proposal(Source.SCHEDULE, item.schedule.name, Role.FLOOR, item.floor, basis=basis)
    return RankedBound(_rank(item.schedule), proposal)


def _yielding(item: RankedBound, leading: Iterable[_Leading]) -> RankedBound:
    """A cap that ends by the start of a leading schedule is raised to that schedule's floor, unless it outranks it."""
    until = item.proposal.until
    if item.proposal.role is not Role.CAP or until is None:
        return item
    yields_to = (lead for lead in leading if until <= lead.start and item.rank <= _rank(lead.schedule))
    needed = max((lead.floor for lead in yields_to if lead.floor is not None), default=0)
    if needed <= item.number:
        return item
    return RankedBound(item.rank, replace(item.proposal, replicas=needed, basis=Yielding(item.number)))
