"""
Events on the objects, limited as in client-go: identical events are counted, and each object has a budget.

No reconciliation waits for an event: they are written from a queue, warnings first, and namespaces take turns. A full
queue drops what is least worth seeing, and counts it: of the namespace that has most, the newest event that is no
warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from http import HTTPStatus
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from cronhpa.api.events import Event
from cronhpa.api.identity import API_VERSION
from cronhpa.core.model.instant import MINUTE, Nanoseconds, format_instant
from cronhpa.kube.client import Client, path_of
from cronhpa.kube.errors import ClusterError, is_ambiguous
from cronhpa.operator.writes.write_places import WritePlaces

LOG = logging.getLogger(__name__)

COMPONENT = "cronhpa"
_BURST = 25
_REFILL = 5 * MINUTE
_REPEAT = 5 * MINUTE
_KEPT = 4096
# Beyond this many objects the least recently used budget is forgotten, and so full again.
_BUDGETS_KEPT = 65_536
# An edge that 10,000 objects share is as many events. A kilobyte each at most.
_QUEUE = 20_000
_WRITERS = 4
# Scale writes go first; where there are always some, each of the writers goes on after so long, and an event that has
# waited for longer than the second waits for none: ten thousand objects may well scale ten times a second for ever.
_CALM_SECONDS = 1.0
_WAITED_SECONDS = 10.0
_MESSAGE_MAX = 1024
# An API server that is restarted, or refuses for a while what is not urgent, has the events all the same. Another event
# is written meanwhile: what is refused may be that of one namespace.
_AGAIN_SECONDS = (5.0, 20.0, 60.0)


class InvolvedObject(Protocol):
    """What an event is about. namespace: "" for an object of the cluster, whose events lie in `default`."""

    @property
    def kind(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...


class _SentEvent:
    """
    An event: its name, how often it happened (0: its object is gone), when it was sent last, whether the API holds it.
    """

    __slots__ = ("at", "count", "exists", "name")

    def __init__(self, name: str, at: Nanoseconds) -> None:
        self.name, self.at, self.count, self.exists = name, at, 1, False


class _Queued(NamedTuple):
    involved: InvolvedObject
    event: Event
    at: Nanoseconds
    sent: _SentEvent
    queued_at: float
    """By the event loop's clock."""
    failures: int = 0


class _Rank:
    """Events of one rank: namespaces take turns, and those of a namespace are served first come first served."""

    def __init__(self) -> None:
        self.count = 0
        # In the order of turns.
        self._lines: dict[str, deque[_Queued]] = {}

    def add(self, queued: _Queued) -> None:
        self.count += 1
        self._lines.setdefault(queued.involved.namespace, deque()).append(queued)

    def take_first(self) -> _Queued:
        namespace = next(iter(self._lines))
        line = self._lines.pop(namespace)
        queued = line.popleft()
        if line:
            self._lines[namespace] = line
        self.count -= 1
        return queued

    def take_newest_of_most(self) -> _Queued:
        """The newest event of the namespace that has most."""
        namespace = max(self._lines, key=lambda namespace: len(self._lines[namespace]))
        queued = self._lines[namespace].pop()
        if not self._lines[namespace]:
            del self._lines[namespace]
        self.count -= 1
        return queued


class _Queue:
    """Events, warnings before others; at most so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._warnings, self._others = _Rank(), _Rank()
        # One for each event that waits.
        self._waiting: asyncio.Queue[None] = asyncio.Queue()

    def put(self, queued: _Queued) -> _Queued | None:
        """Queues an event. Returns the one dropped for lack of room, which may be this one; else None."""
        rank = self._warnings if queued.event.type == "Warning" else self._others
        rank.add(queued)
        if self._warnings.count + self._others.count <= self._most:
            self._waiting.put_nowait(None)
            return None
        return (self._others if self._others.count else self._warnings).take_newest_of_most()

    async def get(self) -> _Queued:
        await self._waiting.get()
        return (self._warnings if self._warnings.count else self._others).take_first()

    def task_done(self) -> None:
        self._waiting.task_done()

    async def join(self) -> None:
        await self._waiting.join()


class EventRecorder:
    def __init__(self, client: Client, places: WritePlaces) -> None:
        self.dropped = 0
        self._client = client
        self._places = places
        self._known: OrderedDict[tuple[str, Event], _SentEvent] = OrderedDict()
        self._known_of: dict[str, set[Event]] = {}
        self._spent: dict[str, tuple[float, Nanoseconds]] = {}
        self._queue = _Queue(_QUEUE)
        # The events that failed, and are queued again later.
        self._held_back = 0

    def record(self, involved: InvolvedObject, event: Event, now: Nanoseconds) -> None:
        """Queues an event; only counts a recent repetition; drops it if the object's budget is spent."""
        if len(event.message) > _MESSAGE_MAX:
            event = replace(event, message=event.message[:_MESSAGE_MAX])
        sent = self._known.get((involved.uid, event))
        if sent is not None:
            sent.count += 1
            self._known.move_to_end((involved.uid, event))
            if 0 <= now - sent.at < _REPEAT:  # not where the clock was set back since
                return
            sent.at = now
        if not self._spend(involved.uid, now):
            self.dropped += 1
            return
        if sent is None:
            # A name that was cut may end with a character that must not precede a dot. The hash keeps events of one
            # instant apart.
            name = f"{involved.name[:200].rstrip('-.')}.{now:x}{abs(hash(event)) % 2**32:08x}"
            sent = self._known[involved.uid, event] = _SentEvent(name, now)
            self._known_of.setdefault(involved.uid, set()).add(event)
            if len(self._known) > _KEPT:
                self._drop(*next(iter(self._known)))
        self._put(_Queued(involved, event, now, sent, asyncio.get_running_loop().time()))

    def _put(self, queued: _Queued) -> None:
        crowded_out = self._queue.put(queued)
        if crowded_out is not None:
            self.dropped += 1
            self._drop(crowded_out.involved.uid, crowded_out.event)

    def forget(self, involved: InvolvedObject) -> None:
        self._spent.pop(involved.uid, None)
        for event in self._known_of.pop(involved.uid, ()):
            sent = self._known.pop((involved.uid, event), None)
            if sent is not None:
                sent.count = 0

    def _drop(self, uid: str, event: Event) -> None:
        self._known.pop((uid, event), None)
        events = self._known_of.get(uid, set())
        events.discard(event)
        if not events:
            self._known_of.pop(uid, None)

    @property
    def kept_events(self) -> int:
        """Number of events that are kept to count their repetitions."""
        return len(self._known)

    @property
    def kept_budgets(self) -> int:
        """Number of objects whose budget is kept."""
        return len(self._spent)

    async def run(self) -> None:
        """Writes what is queued until cancelled."""
        await asyncio.gather(*(self._write_on() for _ in range(_WRITERS)))

    async def flushed(self) -> None:
        """Returns when the queue is written."""
        await self._queue.join()

    async def _write_on(self) -> None:
        while True:
            queued = await self._queue.get()
            if asyncio.get_running_loop().time() - queued.queued_at < _WAITED_SECONDS:
                await self._places.calm(_CALM_SECONDS)
            involved, event = queued.involved, queued.event
            try:
                await self._write(involved, event, queued.at, queued.sent)
            except ClusterError as error:
                LOG.debug("event %s of %s/%s: %s", event.reason, involved.namespace, involved.name, error.message)
                self._note_failed(queued, error)
            except Exception:
                LOG.exception("an event of %s/%s could not be written", involved.namespace, involved.name)
            finally:
                self._queue.task_done()

    def _note_failed(self, queued: _Queued, error: ClusterError) -> None:
        """Queues an event again where that may help; else the next one of its words is a new one."""
        is_passing = is_ambiguous(error) or error.status == HTTPStatus.TOO_MANY_REQUESTS
        if is_passing and queued.failures < len(_AGAIN_SECONDS) and self._held_back < _QUEUE:
            self._held_back += 1
            again = queued._replace(failures=queued.failures + 1)
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS[queued.failures], self._put_again, again)
        else:
            self.dropped += 1
            self._drop(queued.involved.uid, queued.event)

    def _put_again(self, queued: _Queued) -> None:
        self._held_back -= 1
        self._put(queued)

    async def _write(self, involved: InvolvedObject, event: Event, now: Nanoseconds, sent: _SentEvent) -> None:
        # More events may wait than are kept to be counted.
        if not sent.count:
            return
        namespace = involved.namespace or "default"
        path = path_of("api", "v1", "namespaces", namespace, "events")
        stamp = format_instant(now)
        if sent.exists:
            change = {"count": sent.count, "lastTimestamp": stamp}
            try:
                await self._client.merge_patch(path + path_of(sent.name), change, dict)
            except ClusterError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                sent.exists, sent.count = False, 1  # it has expired, after an hour by default: this is a new one
            else:
                return
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": sent.name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": involved.kind,
                **({"namespace": involved.namespace} if involved.namespace else {}),
                "name": involved.name,
                "uid": involved.uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": COMPONENT},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": sent.count,
        }
        try:
            await self._client.post(path, body)
        except ClusterError as error:
            if error.status != HTTPStatus.CONFLICT:  # written, and the answer was lost
                raise
        sent.exists = True

    def _spend(self, uid: str, now: Nanoseconds) -> bool:
        """A token bucket an object: 25 at once, one more each five minutes."""
        left, since = self._spent.pop(uid, (float(_BURST), now))
        if len(self._spent) >= _BUDGETS_KEPT:
            del self._spent[next(iter(self._spent))]
        left = min(float(_BURST), left + max(0, now - since) / _REFILL)
        if left < 1:
            self._spent[uid] = (left, now)
            return False
        self._spent[uid] = (left - 1, now)
        return True
