"""
The past decisions and the recorded load of one object over HTTP, for users who may get the object.

    GET /v1/namespaces/NAMESPACE/cronhpas/NAME/decision?at=INSTANT
    GET /v1/namespaces/NAMESPACE/cronhpas/NAME/timeline?from=INSTANT&to=INSTANT
    GET /v1/namespaces/NAMESPACE/cronhpas/NAME/load?metric=METRIC
    Authorization: Bearer TOKEN

INSTANT: RFC 3339. A user who may not get the object gets the same answer as for an object that does not exist. An
answer has at most CHANGES_MAX changes and names the instant from which to continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

from cronhpa.core.model.instant import Nanoseconds, parse_instant
from cronhpa.history.database.address import StoreAddress
from cronhpa.history.database.database import StoreError
from cronhpa.history.database.series import Series
from cronhpa.history.past.past_answers import (
    DecisionAnswer,
    LoadAnswer,
    TimelineAnswer,
    decision_answer,
    encoded_answer,
    load_answer,
    timeline_answer,
)
from cronhpa.history.store import Store
from cronhpa.kube.errors import ClusterError
from cronhpa.operator.monitoring.listener import Answer, Request, response
from cronhpa.operator.readers.access import AccessReviews, Verdict

BELOW = "/v1/namespaces/"

_JSON = "application/json"
_PARTS = len(("NAMESPACE", "cronhpas", "NAME", "decision"))
# Each read runs in a thread of this endpoint, and continues if its connection is closed for a new one. So readers with
# many connections keep at most this number of threads busy.
_READS_AT_ONCE = 2
_NOTHING = "nothing is known here of this object, or not to you\n"
_WHO = Answer(HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"})


class PastEndpoint:
    """clock: wall-clock time. open_store: opens the store to read it."""

    def __init__(
        self,
        store: StoreAddress,
        access: AccessReviews,
        clock: Callable[[], Nanoseconds],
        open_store: Callable[[StoreAddress], Store] = Store.open_to_read,
    ) -> None:
        self._store = store
        self._access = access
        self._clock = clock
        self._open_store = open_store
        self._readers = ThreadPoolExecutor(_READS_AT_ONCE, thread_name_prefix="past")

    async def answer(self, request: Request) -> Answer:
        """A response to a request below BELOW."""
        parts = [unquote(part) for part in request.path.removeprefix(BELOW).split("/")]
        scheme, _, token = request.fields.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return _WHO
        if len(parts) != _PARTS or parts[1] != "cronhpas" or not all(parts):
            return response(HTTPStatus.NOT_FOUND, _NOTHING)
        namespace, _, name, resource = parts
        try:
            verdict = await self._access.may_get(token.strip(), namespace, name)
        except ClusterError:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, "the API server does not say who you are\n")
        if verdict is Verdict.UNKNOWN:
            return _WHO
        if verdict is Verdict.LATER:
            return response(HTTPStatus.TOO_MANY_REQUESTS, "too many requests: ask again in a second\n")
        if verdict is not Verdict.ALLOWED:
            return response(HTTPStatus.NOT_FOUND, _NOTHING)
        return await self._read(namespace, name, resource, request.query)

    async def _read(self, namespace: str, name: str, resource: str, query: str) -> Answer:
        try:
            answered = _answered(
                namespace, name, resource, parse_qsl(query, keep_blank_values=True, max_num_fields=8), self._clock()
            )
        except ValueError as error:
            return response(HTTPStatus.BAD_REQUEST, f"{error}\n")

        def read() -> bytes | None:
            store = self._open_store(self._store)
            try:
                answer = answered(store)
                return None if answer is None else encoded_answer(answer)
            finally:
                store.close()

        try:
            body = await asyncio.get_running_loop().run_in_executor(self._readers, read)
        except StoreError:
            return response(HTTPStatus.SERVICE_UNAVAILABLE, "the operator's store cannot be read: its log says why\n")
        return response(HTTPStatus.NOT_FOUND, _NOTHING) if body is None else response(HTTPStatus.OK, body, _JSON)


def _answered(
    namespace: str, name: str, resource: str, query: list[tuple[str, str]], now: Nanoseconds
) -> Callable[[Store], DecisionAnswer | TimelineAnswer | LoadAnswer | None]:
    """Returns the function that reads the answer from the store. Raises ValueError for an unknown path or query."""
    fields = dict(query)
    match resource, sorted(fields):
        case "decision", ["at"]:
            at = _instant("at", fields["at"])
            return lambda store: decision_answer(store.decisions, namespace, name, at)
        case "timeline", ["from", "to"]:
            begin, end = (_instant(key, fields[key]) for key in ("from", "to"))
            return lambda store: timeline_answer(store.decisions, namespace, name, begin, end)
        case "load", ["metric"]:
            series = Series(namespace, name, fields["metric"])
            return lambda store: load_answer(store.loads, series, now)
    raise ValueError("decision?at=INSTANT, timeline?from=INSTANT&to=INSTANT and load?metric=METRIC are answered")


def _instant(key: str, text: str) -> Nanoseconds:
    """The instant of a query's text. Raises ValueError for any other text."""
    try:
        return parse_instant(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{key}: RFC 3339 is read, such as 2026-11-23T08:00:00Z") from None
