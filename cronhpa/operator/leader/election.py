"""
Leader election: one replica holds the Lease and writes, the others wait for the Lease.

The rules are those of client-go's leader election. A replica never compares its clock with the times in the Lease: it
measures the time since it saw the Lease change. So clocks may differ, as long as none runs much faster than another.

Three rules are stricter than client-go's:

- A Lease is respected for at most `LEASE_SECONDS_MAX` without a renewal, whatever duration it states.
- A replica that finds no Lease creates one that names `UNKNOWN` as the holder, and waits for the end of that one. The
  leader may be the one whose Lease somebody deleted: it takes the Lease back at its next renewal, and if it cannot,
  its fence closes in time. Where every object names another Lease, nobody can have led by this one: the replica leads
  at once.
- A Lease whose version fell comes from a restored store. It is waited for, whomever it names: whoever led since the
  backup may still write, and knows more.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from cronhpa.core.metrics.arithmetic import INT32_MAX
from cronhpa.kube.clock import Clock
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.lease import Lease, LeaseName, LeaseSpec, micro_time
from cronhpa.kube.resource_versions import version_number

LOG = logging.getLogger(__name__)

# No setting allows a longer duration, so no leader writes for longer without a renewal. A longer one in a record is a
# mistake or a forgery; believed, 2**31 - 1 s would stop all decisions for 68 years.
LEASE_SECONDS_MAX = 60
# The holder in a Lease that took the place of one that somebody deleted.
UNKNOWN = "unknown"
_DELETED = "somebody deleted it, and its last holder may still write"
_NOT_FOUND = (
    "there is none, and objects may name it or no Lease yet: a leader whose Lease was just deleted may still write"
)
_RESTORED = "its version fell, as after a restore of etcd, and whoever led since may still write"
# A released Lease is free at once; client-go writes this duration into it.
_RELEASED_SECONDS = 1
# If the API server hangs, a process that may not even hold the Lease must still be able to end.
_UNANSWERED_SECONDS = 1.0


class LeaseTiming(Struct, frozen=True):
    """Times in seconds. A write ends `margin` before others may take the Lease, or earlier."""

    lease: float = 15.0
    """How long others respect a Lease that is not renewed."""
    renew_deadline: float = 10.0
    """How long a leader that cannot renew may begin writes."""
    retry: float = 2.0
    """Time between two renewals; waiting replicas look twice as often."""

    @property
    def margin(self) -> float:
        return (self.lease - self.renew_deadline) / 5


class Leadership:
    """
    The process's view of the Lease; one thread writes it, all may read it.

    term: 0 while this replica does not lead, else a number that grows each time that this replica begins to lead.
    unbroken_since: the first term of those since which nobody else has led.
    holder: the leader's identity, "" if nobody leads or the leader is not known.
    waiting: when another replica renewed the Lease last, and when this one takes it unless it is renewed again; by the
    monotonic clock.
    """

    def __init__(self, timing: LeaseTiming, monotonic: Callable[[], float]) -> None:
        self.term = self.unbroken_since = 0
        self.holder = ""
        self.waiting = (-math.inf, -math.inf)
        self.timing = timing
        self._monotonic = monotonic
        # When the last successful renewal began: the others measure from a later moment.
        self._renewed_at = -math.inf

    @property
    def is_leading(self) -> bool:
        return self.term > 0

    def write_seconds(self) -> float:
        """Seconds from now within which a write must end; 0 or less: no write may begin."""
        age = self._monotonic() - self._renewed_at
        if self.term == 0 or age >= self.timing.renew_deadline:
            return 0.0
        return self.timing.lease - self.timing.margin - age

    def unrenewed_seconds(self) -> float:
        """Seconds since the last renewal began."""
        return self._monotonic() - self._renewed_at

    def free_in(self) -> float | None:
        """
        Seconds until this replica takes the Lease of a holder that has missed the renew deadline; None if this replica
        leads, if nobody holds the Lease, or if its holder renews it.
        """
        renewed_at, free_at = self.waiting
        now = self._monotonic()
        if self.term or not self.holder or now - renewed_at < self.timing.renew_deadline:
            return None
        return max(free_at - now, 0.0)

    def renewed(self, at: float, term: int, holder: str) -> None:
        # In this order: the fence must not open for a term that has not begun.
        self._renewed_at, self.holder = at, holder
        self.term = term

    def ended(self, holder: str) -> None:
        self.term, self.holder = 0, holder
        self._renewed_at = -math.inf


class LeaseStore(Protocol):
    """`kube.lease.Leases`, or a model of it in tests."""

    async def get(self, name: LeaseName) -> Lease | None: ...

    async def create(self, name: LeaseName, spec: LeaseSpec) -> Lease: ...

    async def replace(self, name: LeaseName, before: Lease, spec: LeaseSpec) -> Lease: ...


def respected_seconds(spec: LeaseSpec, default: float) -> float:
    """How long others respect a Lease that is not renewed. default: of a record without a duration."""
    return min(spec.lease_duration_seconds or default, LEASE_SECONDS_MAX)


async def never_led(name: LeaseName) -> bool:
    """The answer where no object names a Lease."""
    del name
    return False


class Elector:
    """
    Takes and renews one Lease.

    identity: of this replica, unlike that of any other. changed() is called after each change of `leadership`.
    may_lead: whether the process makes progress; one that is stuck gives the Lease to a replica that is not.
    may_have_led: whether a replica may have led by this Lease, asked where there is none at the first look.
    """

    def __init__(  # noqa: PLR0913 - its parts by their names
        self,
        leases: LeaseStore,
        name: LeaseName,
        identity: str,
        leadership: Leadership,
        clock: Clock,
        *,
        changed: Callable[[], None],
        may_lead: Callable[[], bool] = lambda: True,
        may_have_led: Callable[[LeaseName], Awaitable[bool]] = never_led,
    ) -> None:
        self.leadership = leadership
        self._leases = leases
        self._name = name
        self._identity = identity
        self._timing = leadership.timing
        self._clock = clock
        self._changed = changed
        self._may_lead = may_lead
        self._may_have_led = may_have_led
        # As it was last seen; None if there was none, or if it has changed since.
        self._lease: Lease | None = None
        # Of the last Lease that there was. Empty: this replica did not see it. None: there was none at any look.
        self._record: LeaseSpec | None = None
        # The version of that one; of a later one it falls only where the store was restored.
        self._version = 0
        # When this replica saw the record change last.
        self._seen_at = -math.inf
        self._is_overdue = False
        self._terms = 0
        # Acquire time and transitions of the Lease when this replica led last.
        self._led: tuple[str | None, int | None] | None = None
        self._is_over = False
        self._is_restored = False
        # A write of the Lease was sent, and its answer has not arrived.
        self._is_unanswered = False
        self._problem = ""

    async def run(self) -> None:
        """Takes and renews the Lease until cancelled."""
        while True:
            await self.step()
            is_leading = self.leadership.is_leading
            await asyncio.sleep(self._timing.retry if is_leading else self._timing.retry / 2)

    async def step(self) -> None:
        """One attempt to take or to renew the Lease. Failures are logged once for each cause."""
        try:
            # Two attempts fit into the renew deadline: a single request that hangs must not lose the Lease.
            async with asyncio.timeout(self._timing.renew_deadline / 2):
                try:
                    await self._take_or_renew()
                except ClusterError as error:
                    if error.status not in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                        raise
                    # Somebody else wrote or deleted it, or the answer to our own write was lost.
                    self._lease, self._record = None, self._record or LeaseSpec()
                    await self._take_or_renew()
            self._problem = ""
        except (ClusterError, TimeoutError) as error:
            text = error.message if isinstance(error, ClusterError) else "the API server does not answer"
            if text != self._problem:
                LOG.warning("Lease %s: %s", self._name, text)
                self._problem = text
        if self.leadership.is_leading and self.leadership.unrenewed_seconds() >= self._timing.lease:
            self._end("", "it could not be renewed in time")

    @property
    def holder(self) -> str:
        """
        The holder of the Lease, as this replica last saw it; "" if the Lease is free.

        A Lease that names this replica while it does not lead was taken by the same container before a restart.
        """
        if self.leadership.is_leading:
            return self._identity
        spec = None if self._lease is None else self._lease.spec
        if spec is None or not self._is_live(spec):
            return ""
        if self._is_restored:
            return UNKNOWN
        return "" if spec.holder == self._identity else spec.holder

    @property
    def is_deleted(self) -> bool:
        """Whether there was a Lease at an earlier look, and none at the last one; never while this replica leads."""
        return self._lease is None and self._record is not None and not self.leadership.is_leading

    def observe(self, lease: Lease | None) -> None:
        """Records the listed Lease, None for none, unless this replica holds it: then its own record is newer."""
        if self.leadership.is_leading:
            return
        if lease is None:
            self._lease = None
        else:
            self._note(lease)

    async def release(self) -> None:
        """Releases the Lease and ends the election, so that another replica need not wait for the Lease's end."""
        self._is_over = True
        await self.give_up()

    async def give_up(self) -> None:
        """Releases the Lease if this replica has it; call it between two steps."""
        lease = self._lease if self.leadership.is_leading else None
        if self.leadership.is_leading:
            # Also where the last answer was a conflict, so that it is not known which record is released.
            self._end("", "it is released", logging.INFO)
        elif not self._is_unanswered:
            return
        try:
            if lease is None:
                async with asyncio.timeout(_UNANSWERED_SECONDS):
                    await self._give_up(await self._own())
                return
            try:
                await self._give_up(lease)
            except ClusterError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                # The last renewal before the end of the election may have succeeded: nobody waited for its answer.
                await self._give_up(await self._own())
        except TimeoutError:
            LOG.warning("the Lease %s may have been taken by this replica, and runs out", self._name)
        except ClusterError as error:
            LOG.warning("the Lease %s cannot be released: %s", self._name, error.message)

    async def _own(self) -> Lease | None:
        """The present Lease; None if this replica does not hold it."""
        lease = await self._leases.get(self._name)
        return lease if lease is not None and lease.spec.holder == self._identity else None

    async def _give_up(self, lease: Lease | None) -> None:
        if lease is None:
            return
        now = micro_time(self._clock.now())
        spec = replace(
            lease.spec,
            holder_identity="",
            lease_duration_seconds=_RELEASED_SECONDS,
            renew_time=now,
            acquire_time=now,
        )
        self._note(await self._leases.replace(self._name, lease, spec))

    async def _take_or_renew(self) -> None:
        if not self._may_lead():
            if self.leadership.is_leading:
                LOG.error("the control loop is stuck: the Lease %s is not renewed", self._name)
            return
        begun = self._clock.monotonic()
        if not self.leadership.is_leading or self._lease is None:
            lease = await self._leases.get(self._name)
            if lease is None:
                self._lease = None
                is_deleted = self._record is not None
                is_free = self._leads_still() if is_deleted else not await self._may_somebody_lead()
                spec = self._spec(LeaseSpec()) if is_free else self._unknown()
                # If the creation fails, it may have been done, and somebody else may lead at the next attempt.
                self._record = self._record or LeaseSpec()
                self._note(await self._answered(self._leases.create(self._name, spec)))
                if is_free:
                    self._lead(begun)
                    return
                LOG.warning(
                    "Lease %s: %s: a replica takes it in %d s",
                    self._name,
                    _DELETED if is_deleted else _NOT_FOUND,
                    spec.lease_duration_seconds,
                )
            else:
                self._note(lease)
        assert self._lease is not None
        spec = self._lease.spec
        may_take_back = spec.holder == UNKNOWN and self._leads_still()
        is_others = self._is_restored or spec.holder not in {"", self._identity}
        if is_others and self._is_live(spec) and not may_take_back:
            self._wait_for(spec)
            return
        self._note(await self._answered(self._leases.replace(self._name, self._lease, self._spec(spec))))
        self._lead(begun)

    def _wait_for(self, spec: LeaseSpec) -> None:
        leadership, free_at = self.leadership, self._seen_at + self._respected_seconds(spec)
        leadership.waiting = (self._seen_at, free_at)
        if spec.holder != UNKNOWN:
            # Also where a restored store takes the acquire time back to that of this replica.
            self._led = None
        if leadership.is_leading:
            self._end(spec.holder, _RESTORED if self._is_restored else f"{spec.holder} has it")
        elif leadership.holder != spec.holder:
            leadership.ended(spec.holder)
            if self._is_restored:
                LOG.warning(
                    "Lease %s: %s: a replica takes it in %.0f s",
                    self._name,
                    _RESTORED,
                    free_at - self._clock.monotonic(),
                )
            elif spec.holder != UNKNOWN:
                LOG.info("%s leads by Lease %s", spec.holder, self._name)
            self._changed()
        # Who put `UNKNOWN` there, or found it restored, has said when a replica takes it.
        is_told = self._is_restored or spec.holder == UNKNOWN or self._is_overdue
        if not is_told and leadership.free_in() is not None:
            self._is_overdue = True
            LOG.warning(
                "Lease %s: %s, which holds it for %s s, has not renewed it for %.0f s: this replica takes it in %.0f s",
                self._name,
                spec.holder,
                spec.lease_duration_seconds,
                self._clock.monotonic() - self._seen_at,
                leadership.free_in() or 0,
            )

    def _leads_still(self) -> bool:
        """Whether no other replica can have led since the last renewal: each waits for the Lease's duration first."""
        return self.leadership.is_leading and self.leadership.unrenewed_seconds() < self._timing.lease

    async def _may_somebody_lead(self) -> bool:
        try:
            async with asyncio.timeout(self._timing.renew_deadline / 4):
                return await self._may_have_led(self._name)
        except (ClusterError, TimeoutError):
            return True

    def _unknown(self) -> LeaseSpec:
        """The record in the place of a deleted one; it lasts as long as the last holder may believe in that one."""
        before = self._record or LeaseSpec()
        seconds, now = before.lease_duration_seconds or 0, micro_time(self._clock.now())
        return LeaseSpec(
            holder_identity=UNKNOWN,
            # A longer duration than allowed is no holder's own.
            lease_duration_seconds=math.ceil(max(self._timing.lease, seconds if seconds <= LEASE_SECONDS_MAX else 0)),
            acquire_time=now,
            renew_time=now,
            lease_transitions=before.lease_transitions,
        )

    async def _answered(self, writing: Awaitable[Lease]) -> Lease:
        """The answer to a write of the Lease. A write without an answer may have succeeded."""
        self._is_unanswered = True
        answer = await writing
        self._is_unanswered = False
        return answer

    def _lead(self, begun: float) -> None:
        if self._is_over:  # a renewal that ended after the release
            return
        # After a pause longer than a Lease lasts another replica may have led: this is a new term.
        is_new = not self.leadership.is_leading or self.leadership.unrenewed_seconds() >= self._timing.lease
        assert self._lease is not None
        # Taking the Lease from another holder changes its acquire time and its transitions. That reveals a takeover by
        # a write of this replica whose answer was lost; the holder alone would look unchanged.
        led = (self._lease.spec.acquire_time, self._lease.spec.lease_transitions)
        if is_new:
            self._terms += 1
            if led != self._led:
                self.leadership.unbroken_since = self._terms
            LOG.info("this replica, %s, leads by Lease %s", self._identity, self._name)
        self._led, self._is_restored = led, False
        self.leadership.renewed(begun, self._terms, self._identity)
        if is_new:
            self._changed()

    def _end(self, holder: str, why: str, level: int = logging.WARNING) -> None:
        LOG.log(level, "this replica does not lead any more: Lease %s: %s", self._name, why)
        self.leadership.ended(holder)
        self._changed()

    def _note(self, lease: Lease) -> None:
        # Only the record counts, as in client-go: an edit of a label is no sign of life.
        if self._lease is None or lease.spec != self._lease.spec:
            is_older = version_number(lease.version) < self._version
            self._is_restored = is_older and not self._leads_still()
            self._seen_at = self._clock.monotonic()
            self._is_overdue = False
        self._lease, self._record, self._version = lease, lease.spec, version_number(lease.version)

    def _is_live(self, spec: LeaseSpec) -> bool:
        return self._clock.monotonic() < self._seen_at + self._respected_seconds(spec)

    def _respected_seconds(self, spec: LeaseSpec) -> float:
        seconds = respected_seconds(spec, self._timing.lease)
        # A Lease that was free at the backup states a second.
        return max(seconds, self._timing.lease) if self._is_restored else seconds

    def _spec(self, before: LeaseSpec) -> LeaseSpec:
        now = micro_time(self._clock.now())
        is_ours = before.holder == self._identity
        is_new = 0 if is_ours or not before.holder_identity else 1
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=math.ceil(self._timing.lease),
            acquire_time=before.acquire_time if is_ours else now,
            renew_time=now,
            lease_transitions=min((before.lease_transitions or 0) + is_new, INT32_MAX),
        )
