"""Events on the objects, tamed as client-go does: identical ones are counted, and each object has a budget."""

from __future__ import annotations

import logging
from collections import OrderedDict

from cronhpa.api.render import Event
from cronhpa.core.instant import MINUTE, Nanoseconds, format_instant
from cronhpa.kube.client import Client, ClusterError
from cronhpa.operator.inventory import GROUP, VERSION, Item

LOG = logging.getLogger(__name__)

COMPONENT = "cronhpa"
_BURST = 25
_REFILL = 5 * MINUTE
_KEPT = 4096
_REPEAT = 5 * MINUTE


class _Known:
    __slots__ = ("count", "first", "name", "sent")

    def __init__(self, name: str, first: Nanoseconds) -> None:
        self.name, self.first, self.sent, self.count = name, first, first, 1


class Recorder:
    def __init__(self, client: Client) -> None:
        self.dropped = 0
        self._client = client
        self._known: OrderedDict[tuple[str, Event], _Known] = OrderedDict()
        self._spent: dict[str, tuple[float, Nanoseconds]] = {}

    async def record(self, item: Item, event: Event, now: Nanoseconds) -> None:
        """Writes an event, or counts it up, or drops it where the object's budget is spent; never raises."""
        key = (item.uid, event)
        known = self._known.get(key)
        if known is not None:
            known.count += 1
            self._known.move_to_end(key)
            if now - known.sent < _REPEAT:
                return
        if not self._spend(item.uid, now):
            self.dropped += 1
            return
        try:
            if known is None:
                known = await self._create(item, event, now)
                self._known[key] = known
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            else:
                known.sent = now
                path = f"/api/v1/namespaces/{item.namespace}/events/{known.name}"
                await self._client.merge_patch(path, {"count": known.count, "lastTimestamp": format_instant(now)}, dict)
        except ClusterError as error:
            self._known.pop(key, None)
            LOG.debug("event %s of %s/%s: %s", event.reason, item.namespace, item.name, error.message)

    def forget(self, uid: str) -> None:
        self._spent.pop(uid, None)

    async def _create(self, item: Item, event: Event, now: Nanoseconds) -> _Known:
        known = _Known(f"{item.name[:200]}.{now:x}{abs(hash(event)) % 4096:03x}", now)
        stamp = format_instant(now)
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": known.name, "namespace": item.namespace},
            "involvedObject": {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": "CronHPA",
                "namespace": item.namespace,
                "name": item.name,
                "uid": item.uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:1024],
            "source": {"component": COMPONENT},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        await self._client.post(f"/api/v1/namespaces/{item.namespace}/events", body)
        return known

    def _spend(self, uid: str, now: Nanoseconds) -> bool:
        """A token bucket an object: 25 at once, one more each five minutes."""
        left, since = self._spent.get(uid, (float(_BURST), now))
        left = min(float(_BURST), left + (now - since) / _REFILL)
        if left < 1:
            self._spent[uid] = (left, now)
            return False
        self._spent[uid] = (left - 1, now)
        return True
