"""
This replica in the election: the election runs in a thread of its own and reports to the operator's event loop.

In a thread, because the Lease must be renewed while a decision or a list keeps the operator's loop busy for seconds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from cronhpa.kube.client import Client
from cronhpa.kube.clock import Clock
from cronhpa.kube.lease import LeaseName, Leases
from cronhpa.operator.leader.election import Elector, Leadership, LeaseTiming
from cronhpa.operator.leader.thread_loop import run_in_thread
from cronhpa.operator.objects.installations import NamedLeases

_RELEASE_SECONDS = 3.0
# The event loop of a working operator is never busy for so long.
_STUCK_SECONDS = 30.0
# Only needed if the notification of a change is lost because its loop is just being closed.
_LOOK_SECONDS = 1.0


class Replica(Protocol):
    """One replica of the operator, which leads, waits, or has a part of the fleet."""

    lease: LeaseName | None
    """Names the leader for other replicas, None without an election."""
    timing: LeaseTiming

    @property
    def term(self) -> int:
        """0 while this replica does not lead."""

    @property
    def unbroken_since(self) -> int:
        """The first term since which nobody else has led."""

    @property
    def holder(self) -> str:
        """The leader's identity, "" while nobody leads."""

    @property
    def part(self) -> str:
        """The part of the objects for which this replica decides, in words; "" for all or none."""

    @property
    def free_in(self) -> float | None:
        """Seconds until this replica takes the Lease of a holder that does not renew it; None without such a holder."""

    def fence(self, path: str) -> float: ...

    async def run(self) -> None: ...

    async def first_look(self) -> None: ...

    async def acquired(self) -> int: ...

    async def lost(self, term: int) -> None: ...

    async def release(self) -> None: ...


class Election(Protocol):
    """Runs in the election's thread: an `Elector`, or a `ShardElection`."""

    async def run(self) -> None: ...

    async def step(self) -> None: ...

    async def release(self) -> None: ...


class OnlyReplica:
    """The one replica of an operator without leader election: it leads from the start to the end."""

    lease: LeaseName | None = None
    timing = LeaseTiming()
    term = unbroken_since = 1
    holder = ""
    part = ""
    free_in: float | None = None

    def fence(self, path: str) -> float:
        del path
        return math.inf

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def first_look(self) -> None:
        return

    async def acquired(self) -> int:
        return self.term

    async def lost(self, term: int) -> None:
        del term
        await asyncio.Event().wait()

    async def release(self) -> None:
        return


class LeaderElectionConfig(NamedTuple):
    connect: Callable[[], Client]
    """Opens the client of the election; called in the election's thread."""
    lease: LeaseName
    identity: str
    """Unlike that of any other replica."""
    timing: LeaseTiming
    clock: Clock
    namespaces: tuple[str, ...] = ()
    """Those in which the replica serves objects; none for all."""


class ElectedReplica:
    """A replica whose event loop is stuck does not renew its Lease, so that another one can lead."""

    def __init__(self, config: LeaderElectionConfig) -> None:
        self._connect, self._name, self._identity, self.timing, self._clock, self._namespaces = config
        self.lease: LeaseName | None = config.lease
        self._leadership = Leadership(self.timing, self._clock.monotonic)
        self._change = asyncio.Event()
        self._looked = asyncio.Event()
        self._ended: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._alive_at = self._clock.monotonic()
        self._election: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._is_stopped = False

    @property
    def term(self) -> int:
        return self._leadership.term

    @property
    def unbroken_since(self) -> int:
        return self._leadership.unbroken_since

    @property
    def holder(self) -> str:
        return self._leadership.holder

    @property
    def part(self) -> str:
        return ""

    @property
    def free_in(self) -> float | None:
        return self._leadership.free_in()

    def fence(self, path: str) -> float:
        """Seconds from now within which a write must end; 0 or less: no write may begin."""
        del path
        return self._leadership.write_seconds()

    async def run(self) -> None:
        """Takes part in the election until cancelled. Raises the error that ended the election's thread."""
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False
        self._note_alive()
        self._ended = run_in_thread("election", self._elect, called="the election")
        try:
            # `release` waits for the end of the thread, too.
            await asyncio.shield(self._ended)
        finally:
            self._stop()

    async def first_look(self) -> None:
        """Waits for the first attempt to lead: lists after it are at least as new as this replica's term."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.timing.retry):
                await self._looked.wait()

    async def acquired(self) -> int:
        """Waits until this replica leads; returns its term."""
        while not self.term:
            await self.changed()
        return self.term

    async def lost(self, term: int) -> None:
        """Waits until this term has ended."""
        while self.term == term:
            await self.changed()

    async def release(self) -> None:
        """Ends the election, and gives up the Lease if this replica has it."""
        self._stop()
        if self._ended is not None:
            await asyncio.wait((self._ended,), timeout=_RELEASE_SECONDS)

    async def _elect(self) -> None:
        stop = asyncio.Event()
        self._election = (asyncio.get_running_loop(), stop)
        try:
            if self._is_stopped:  # before there was an election to stop
                return
            async with self._connect() as client:
                election = self._election_by(Leases(client), NamedLeases(client, self._namespaces))
                stopped = asyncio.create_task(stop.wait())
                running = asyncio.create_task(self._run(election))
                await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
                for task in (running, stopped):
                    task.cancel()
                await _end_of(running)
                await election.release()
        finally:
            self._election = None  # its loop is about to be closed

    def _election_by(self, leases: Leases, named: NamedLeases) -> Election:
        return Elector(
            leases,
            self._name,
            self._identity,
            self._leadership,
            self._clock,
            changed=self._tell_change,
            may_lead=self._may_lead,
            may_have_led=named.may_serve,
        )

    async def _run(self, election: Election) -> None:
        await election.step()
        self._tell(self._looked.set)
        await election.run()

    def _tell_change(self) -> None:
        self._tell(self._change.set)

    def _note_alive(self) -> None:
        self._alive_at = self._clock.monotonic()

    def _may_lead(self) -> bool:
        self._tell(self._note_alive)
        return self._clock.monotonic() - self._alive_at < _STUCK_SECONDS

    async def changed(self) -> None:
        """Waits for a change of who leads, or a second."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._change.wait()
        self._change.clear()

    def _stop(self) -> None:
        # In this order: the thread sets the one and looks at the other.
        self._is_stopped = True
        election = self._election
        if election is not None:
            loop, stop = election
            with suppress(RuntimeError):  # that loop may be closed by now
                loop.call_soon_threadsafe(stop.set)

    def _tell(self, call: Callable[[], Any]) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the operator's loop may be closed by now
            self._loop.call_soon_threadsafe(call)


async def _end_of(task: asyncio.Task[None]) -> None:
    with suppress(asyncio.CancelledError):
        await task
