"""One replica of the operator in the simulated world: candidate of the election and controller, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from lives import StubForecasts
from simulated_world import SimulatedClient, World
from virtual_time import process_context

from cronhpa.core.decide import decide
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.kube.clock import Clock
from cronhpa.kube.fence import unfenced
from cronhpa.kube.lease import LeaseName, Leases
from cronhpa.operator.controller import Controller
from cronhpa.operator.leader.election import Elector, Leadership, LeaseTiming
from cronhpa.operator.loop.reconciler import Reconciler
from cronhpa.operator.loop.standing_decisions import StandingDecisions
from cronhpa.operator.objects.installations import NamedLeases
from cronhpa.operator.objects.object_state import ObjectState
from cronhpa.operator.objects.object_watch import InformerWatch

LEASE = LeaseName("cronhpa-system", "cronhpa")
# Of a second installation, which serves an object once that of the other one is gone.
OTHER_LEASE = LeaseName("laptop", "cronhpa")
# Four times client-go's: three quarters of an hour's requests would be those of the election.
TIMING = LeaseTiming(lease=60.0, renew_deadline=40.0, retry=12.0)


class Candidate:
    """`operator.replica.Replica` in the event loop of the operator: virtual time has no threads."""

    timing = TIMING
    part = ""
    free_in = None

    def __init__(self, client: SimulatedClient, leadership: Leadership, clock: Clock, lease: LeaseName) -> None:
        self.lease: LeaseName | None = lease
        self._leadership = leadership
        self._change = asyncio.Event()
        named = NamedLeases(client, ())
        self._elector = Elector(
            Leases(client), lease, client.who, leadership, clock, changed=self._changed, may_have_led=named.may_serve
        )

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    @property
    def term(self) -> int:
        return self._leadership.term

    @property
    def unbroken_since(self) -> int:
        return self._leadership.unbroken_since

    @property
    def holder(self) -> str:
        return self._leadership.holder

    def fence(self, _path: str) -> float:
        return self._leadership.write_seconds()

    async def run(self) -> None:
        await self._elector.run()

    async def first_look(self) -> None:
        await self._elector.step()

    async def acquired(self) -> int:
        while not self.term:
            await self._change.wait()
        return self.term

    async def lost(self, term: int) -> None:
        while self.term == term:
            await self._change.wait()

    async def release(self) -> None:
        await self._elector.release()


class Noting(Protocol):
    """`simulated_invariants.Judge`."""

    def note(self, who: str, spec: Any, decision: Any, term: int) -> None: ...

    def note_standing(self, who: str, namespace: str, name: str) -> None: ...


class Unjudged:
    """Judges nothing."""

    def note(self, who: str, spec: Any, decision: Any, term: int) -> None: ...

    def note_standing(self, who: str, namespace: str, name: str) -> None: ...


class NotedStanding(StandingDecisions):
    """noted(who, namespace, name) is called for each period for which a decision stands."""

    def __init__(self, who: str, reconciler: Reconciler, deciding: Any, noted: Callable[[str, str, str], None]) -> None:
        super().__init__(reconciler.loads, reconciler.crowds, deciding, checks=False)
        self._who, self._told = who, noted

    def note_if_stands(self, state: ObjectState, measured: Any, now: int) -> bool:
        stands = super().note_if_stands(state, measured, now)
        if stands:
            self._told(self._who, state.namespace, state.name)
        return stands


class SimulatedReplica:
    """
    judge: is told each decision, and each period for which one stands. deciding: `core.decide`, or what a mutation
    makes of it.
    """

    def __init__(self, world: World, who: str, judge: Noting, deciding: Any = decide, lease: LeaseName = LEASE) -> None:
        self.who, self.world, self.lease = who, world, lease
        self._judge, self._deciding = judge, deciding
        # How far the clock of its node is ahead of the others'.
        self.drift = 0
        # How fast its monotonic clock runs.
        self.rate = 1.0
        clock = Clock(lambda: world.operators_now() + self.drift, lambda: world.seconds() * self.rate)
        self.lease_client = SimulatedClient(world, who, fence=unfenced, seconds=TIMING.renew_deadline / 2)
        self.candidate = self.candidate_by(clock)
        self.client = SimulatedClient(world, who, fence=self.candidate.fence)
        self.controller = Controller(
            self.client,
            clock,
            StubForecasts(),
            options=ControllerOptions(),
            watch=InformerWatch(self.client),
            decide=self._decide,
            replica=self.candidate,
        )
        reconciler = self.controller.reconciler
        reconciler.standing = NotedStanding(who, reconciler, self._decide, judge.note_standing)
        self._is_cut = self._is_frozen = False
        self._loop: Any = asyncio.get_running_loop()
        self._context = process_context(self)
        self._tasks: list[asyncio.Task[Any]] = []
        self._scaling: asyncio.Task[Any] | None = None

    def candidate_by(self, clock: Clock) -> Any:
        """How it takes part in the election."""
        return Candidate(self.lease_client, Leadership(TIMING, clock.monotonic), clock, self.lease)

    def term_of(self, namespace: str) -> int:  # noqa: ARG002 - of shards each has its own
        """Of the Lease by which it decides for a namespace; 0 without it."""
        return int(self.candidate.term)

    def cut(self) -> None:
        """Drops all traffic to and from the API server, without errors."""
        self._is_cut = True
        for client in (self.client, self.lease_client):
            client.cut()

    def mend(self) -> None:
        self._is_cut = False
        for client in (self.client, self.lease_client):
            client.mend()

    def freeze(self) -> None:
        """SIGSTOP."""
        self._is_frozen = True
        self._loop.freeze(self)

    def thaw(self) -> None:
        self._is_frozen = False
        self._loop.thaw(self)

    @property
    def is_whole(self) -> bool:
        return self.is_running and not (self._is_cut or self._is_frozen)

    @property
    def is_running(self) -> bool:
        return self._scaling is not None and not self.client.is_dead

    @property
    def failed(self) -> list[BaseException]:
        """What ended parts that must never end."""
        ended = [task for task in (*self._tasks, self._scaling) if task is not None and task.done()]
        return [task.exception() or RuntimeError("a part ended") for task in ended if not task.cancelled()]

    def start(self) -> None:
        self._tasks = [self._task(self._elect())]
        self._tasks += [self._task(work) for _, work in self.controller.watching()]
        self._scaling = self._task(self._scale())

    def _task(self, work: Any) -> asyncio.Task[Any]:
        """In this process: frozen with it."""
        return asyncio.create_task(work, context=self._context.copy())

    async def _elect(self) -> None:
        await self.candidate.run()

    async def _scale(self) -> None:
        await self.controller.handover.synced()
        await self.controller.handover.run()

    async def kill(self) -> None:
        for client in (self.client, self.lease_client):
            client.die()
        await self._end(0)

    async def stop(self) -> None:
        """SIGTERM: running reconciliations end, and the Lease is released, in the order of `operator.app`."""
        await self._task(self._stop())

    async def _stop(self) -> None:
        assert self._scaling is not None
        self._scaling.cancel()
        await asyncio.gather(self._scaling, return_exceptions=True)
        await self.controller.control_loop.close(15)
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                await self.controller.events.flushed()
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                await self.candidate.release()
        await self.kill()

    async def _end(self, seconds: float) -> None:
        tasks = [task for task in (*self._tasks, self._scaling) if task is not None]
        for task in tasks:
            task.cancel()
        await self.controller.control_loop.close(seconds)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.controller.targets.close()

    def _decide(self, spec: Any, *given: Any) -> Any:
        decision = self._deciding(spec, *given)
        self._judge.note(self.who, spec, decision, self.term_of(spec.namespace))
        return decision
