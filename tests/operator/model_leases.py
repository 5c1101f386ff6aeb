"""Replicas of an election in virtual time: clocks of their own, and an API with one Lease that hangs and forgets."""

import asyncio
from contextlib import suppress
from typing import Any

from cronhpa.core.model.instant import SECOND, parse_instant
from cronhpa.kube.clock import Clock
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.lease import Lease, LeaseMeta, LeaseName
from cronhpa.operator.leader.election import Elector, Leadership, LeaseTiming

NAME = LeaseName("cronhpa-system", "cronhpa")
START = parse_instant("2027-01-15T07:00:00Z")
TIMING = LeaseTiming()


class ModelLeases:
    """The API's Leases, with one Lease. trouble(): the fault of the next request, and the time for which it hangs."""

    def __init__(self):
        self.lease: Any = None
        self.version = 0
        self.asked = []
        self.trouble = lambda: ("", 0.0)

    async def may_have_led(self, _name):
        """Whether an object may name the Lease: once there was one."""
        return self.version > 0

    async def get(self, _name):
        return await self._answer("get", lambda: self.lease)

    async def create(self, _name, spec):
        return await self._answer("create", lambda: self.put(None, spec))

    async def replace(self, _name, before, spec):
        return await self._answer("replace", lambda: self.put(before.version, spec))

    async def _answer(self, verb, work):
        self.asked.append(verb)
        kind, seconds = self.trouble()
        await asyncio.sleep(0.01)
        if kind == "refused":
            raise ClusterError(500, "InternalError", "refused on purpose")
        answer = None if kind == "hangs" else work()
        if kind == "frozen":  # the process: no timeout of its own ends this wait
            until = asyncio.get_running_loop().time() + seconds
            while (left := until - asyncio.get_running_loop().time()) > 0:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(left)
        elif kind:
            await asyncio.sleep(seconds)
            raise ClusterError(0, "Unreachable", "the answer is lost on purpose")
        return answer

    def put(self, version, spec):
        if version is not None and self.lease is None:
            raise ClusterError(404, "NotFound", "the Lease was deleted")
        if (version is None) != (self.lease is None) or (self.lease is not None and version != self.lease.version):
            raise ClusterError(409, "Conflict", "the Lease was changed")
        self.version += 1
        self.lease = Lease(LeaseMeta(str(self.version)), spec)
        return self.lease


class Replica:
    """offset, rate: its monotonic clock against the loop's. terms: (second, leads) of each change."""

    def __init__(self, leases, name, *, offset=0.0, rate=1.0, timing=TIMING):
        def monotonic():
            return offset + rate * asyncio.get_running_loop().time()

        clock = Clock(lambda: START + round(monotonic() * SECOND), monotonic)
        self.name = name
        self.terms = []
        self.is_dead = False
        self.on_change = lambda: None
        self.leadership = Leadership(timing, monotonic)
        self.elector = Elector(
            leases, NAME, name, self.leadership, clock, changed=self._changed, may_have_led=leases.may_have_led
        )

    async def run(self):
        """As `Elector.run`, until it is dead: a frozen process does not even hear that it is cancelled."""
        while not self.is_dead:
            await self.elector.step()
            await asyncio.sleep(TIMING.retry if self.leadership.is_leading else TIMING.retry / 2)

    def _changed(self):
        self.terms.append((asyncio.get_running_loop().time(), self.leadership.term))
        self.on_change()

    @property
    def may_write(self):
        return self.leadership.write_seconds() > 0


async def until(seconds):
    await asyncio.sleep(seconds - asyncio.get_running_loop().time())


async def two_running(**of_second):
    """(the Leases, the replica that leads, the one that waits, their tasks), half a second after the first began."""
    leases = ModelLeases()
    one, two = Replica(leases, "one"), Replica(leases, "two", **of_second)
    first = asyncio.create_task(one.elector.run())
    await until(0.5)
    return leases, one, two, (first, asyncio.create_task(two.elector.run()))
