"""
The installation of the operator that serves an object: the one whose Lease the object's status names.

Another installation, a second release or a laptop, holds as long as that Lease is renewed. The Lease is renewed for the
election anyway, so keeping an object needs no writes to the object.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable
from heapq import nsmallest
from http import HTTPStatus

import msgspec
from msgspec import Struct

from cronhpa.api.identity import GROUP, PLURAL, VERSION
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.lease import LeaseName, LeaseSpec
from cronhpa.operator.leader.election import LeaseStore, respected_seconds

# A forged status can name any Lease. So at most _KEPT names are kept, _KEPT_OF_ONE of a namespace, and _LOOKS of their
# Leases are read every few seconds: with thousands of names it takes minutes to find the dead ones. Namespaces take
# turns, so that the names of one hide no dead installation from another.
_KEPT, _KEPT_OF_ONE = 4096, 512
_LOOKS = 64
_LOOK_SECONDS = 5.0
# After looks that failed for longer, the API server may have been away, and the other installation could not renew its
# Lease either. A single look may fail without that: a holder renews every two seconds, so again in time. Of a Lease
# that is respected for less than twice as long, half of that counts.
_UNREADABLE_SECONDS = 2.5 * _LOOK_SECONDS
# So many durations of its Lease another installation is respected whose holder does not renew it. After one, a replica
# of its own takes the Lease, within half of a duration; a Lease without a holder is taken at once.
_DURATIONS = 1.5
# Longer than the longest sync period: then no object names the Lease any more.
_UNASKED_SECONDS = 2 * 3600.0


class _Other:
    """
    Another installation's Lease as last seen.

    spec: without a holder if the Lease does not exist, None before the first answer. changed_at: when `spec` changed
    last, or could be read again after it could not for long. tried_at, looked_at: when the Lease was asked for last,
    and read. problem: why it cannot be read, "" if it can.
    """

    __slots__ = ("changed_at", "looked_at", "problem", "spec", "tried_at")

    def __init__(self) -> None:
        self.spec: LeaseSpec | None = None
        self.changed_at = math.inf
        self.tried_at = self.looked_at = -math.inf
        self.problem = ""


class Installations:
    """
    own: the Lease of this installation; None without leader election, then it claims nothing. own_of: with shards, the
    Lease of a namespace's shard.
    """

    def __init__(
        self,
        own: LeaseName | None,
        leases: LeaseStore,
        lease_seconds: float,
        monotonic: Callable[[], float],
        own_of: Callable[[str], LeaseName] | None = None,
    ) -> None:
        # The Lease of all namespaces; "" with shards, or without a Lease.
        self._own_text = "" if own is None or own_of is not None else str(own)
        self._own_of: Callable[[str], LeaseName | None] = own_of or (lambda _: own)
        self._leases = leases
        self._lease_seconds = lease_seconds
        self._monotonic = monotonic
        self._others: OrderedDict[LeaseName, _Other] = OrderedDict()
        # By namespace, the names that its objects have, and when one named it last.
        self._asked: dict[str, OrderedDict[LeaseName, float]] = {}
        # When one of its Leases was last among those to look at.
        self._turn_of: defaultdict[str, float] = defaultdict(lambda: -math.inf)
        self._is_new = asyncio.Event()

    def claim(self, named: str | None, namespace: str) -> str | None:
        """The name to write to the object before serving it; None if its status has it already."""
        own = self._own_of(namespace)
        return None if own is None or named == str(own) else str(own)

    def problem(self, text: str | None, namespace: str) -> str | None:
        """
        Why this installation must not serve an object with this text in its status; None if it may.

        text: None if the status names no installation; a text that is not the name of a Lease counts as none.
        """
        if text is None or text == self._own_text:  # first, because this is called in each reconciliation
            return None
        own = self._own_of(namespace)
        if own is not None and text == str(own):
            return None
        named = LeaseName.parse(text)
        if named is None or named == own:
            return None
        other = self._asked_for(named, namespace)
        if other.problem:
            return (
                f"the operator of Lease {named} serves this object, and whether it still runs cannot be seen:"
                f" {other.problem}"
            )
        # An answer that is on its way may say that it is back.
        is_asked = other.tried_at > other.looked_at
        if other.spec is None or is_asked or other.looked_at - other.changed_at < self._respected_seconds(other.spec):
            return f"the operator of Lease {named} serves this object, so this one holds: remove one of the two"
        return None

    def _asked_for(self, named: LeaseName, namespace: str) -> _Other:
        asked = self._asked.setdefault(namespace, OrderedDict())
        asked[named] = self._monotonic()
        asked.move_to_end(named)
        if len(asked) > _KEPT_OF_ONE:
            asked.popitem(last=False)
        other = self._others.get(named)
        if other is None:
            other = self._others[named] = _Other()
            while len(self._others) > _KEPT:
                self._others.popitem(last=False)
            self._is_new.set()
        self._others.move_to_end(named)
        return other

    def _respected_seconds(self, spec: LeaseSpec) -> float:
        # The longer of both durations counts: the other's renewals may be further apart than ours.
        longer = max(self._lease_seconds, respected_seconds(spec, self._lease_seconds))
        return _DURATIONS * longer if spec.holder else longer

    async def run(self) -> None:
        """Reads the Leases of other installations that objects name, until cancelled."""
        while True:
            self._forget_unasked()
            for named, other in self._next():
                await self._look(named, other)
            if self._others:
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                self._is_new.clear()
                await self._is_new.wait()

    def _forget_unasked(self) -> None:
        oldest = self._monotonic() - _UNASKED_SECONDS
        for namespace, asked in [*self._asked.items()]:
            while asked and next(iter(asked.values())) < oldest:
                asked.popitem(last=False)
            if not asked:
                del self._asked[namespace]
                self._turn_of.pop(namespace, None)
        for named in self._others.keys() - {named for asked in self._asked.values() for named in asked}:
            del self._others[named]

    def _next(self) -> list[tuple[LeaseName, _Other]]:
        """
        The Leases to look at: the first one of each namespace, then the second ones, and so on. Among those the one of
        the namespace whose turn was longest ago; of a namespace those first that were asked for longest ago, or never.
        """
        turns: dict[LeaseName, tuple[int, float, str]] = {}
        for namespace, asked in self._asked.items():
            known = sorted((named for named in asked if named in self._others), key=self._tried_at)
            for number, named in enumerate(known):
                turn = (number, self._turn_of[namespace], namespace)
                turns[named] = min(turn, turns.get(named, turn))
        chosen = nsmallest(_LOOKS, turns, key=turns.__getitem__)
        now = self._monotonic()
        for named in chosen:
            self._turn_of[turns[named][2]] = now
        return [(named, self._others[named]) for named in chosen]

    def _tried_at(self, named: LeaseName) -> float:
        return self._others[named].tried_at

    async def _look(self, named: LeaseName, other: _Other) -> None:
        other.tried_at = self._monotonic()
        try:
            lease = await self._leases.get(named)
        except ClusterError as error:
            other.problem = error.message
            return
        now, former = self._monotonic(), other.spec or LeaseSpec()
        unreadable_max = min(_UNREADABLE_SECONDS, self._respected_seconds(former) / 2)
        was_away = bool(other.problem) and now - other.looked_at > unreadable_max
        # The holder of a deleted Lease may believe in it for as long as in that one.
        spec = LeaseSpec(lease_duration_seconds=former.lease_duration_seconds) if lease is None else lease.spec
        other.looked_at, other.problem = now, ""
        if spec != other.spec or was_away:
            other.spec, other.changed_at = spec, now


class _Status(Struct, frozen=True):
    operator: str | None = None


class _Object(Struct, frozen=True):
    status: _Status = _Status()


class NamedLeases:
    """
    The Leases by which somebody may serve objects: those that objects name in their statuses, and any, if an object
    names none.

    A replica that finds no Lease when it starts asks this: only under a Lease of these can another replica have
    written. namespaces: those of the objects; none for all.
    """

    def __init__(self, client: Client, namespaces: tuple[str, ...]) -> None:
        self._client, self._namespaces = client, namespaces
        # "" stands for an object that names none.
        self._names: frozenset[str] = frozenset()
        # The number of the list that gave the names.
        self._number = 0
        self._reading = asyncio.Lock()

    async def may_serve(self, name: LeaseName) -> bool:
        """
        Whether some object names the Lease or none, by a list that begins after the call. Raises ClusterError.

        A leader may be about to write its name into an object that names none.

        Callers at one time, such as one for each shard, share a list.
        """
        # The list that is under way may have passed an object before its status was written.
        needed = self._number + 1 + self._reading.locked()
        async with self._reading:
            if self._number < needed:
                names = frozenset([text async for text in self._read()])
                self._names, self._number = names, self._number + 1
        return not self._names.isdisjoint((str(name), ""))

    async def _read(self) -> AsyncIterator[str]:
        for namespace in self._namespaces or ("",):
            within = ("namespaces", namespace) if namespace else ()
            try:
                async for items, _ in self._client.pages(path_of("apis", GROUP, VERSION, *within, PLURAL)):
                    for item in items:
                        yield _named_in(item)
            except ClusterError as error:
                if error.status != HTTPStatus.NOT_FOUND:  # else the kind is not installed, and there are no objects
                    raise


def _named_in(item: msgspec.Raw) -> str:
    """The Lease in a status; "" for a status without the name of one."""
    try:
        text = msgspec.json.decode(item, type=_Object).status.operator or ""
    except msgspec.MsgspecError:
        return ""
    return text if LeaseName.parse(text) else ""
