"""
Who may read an object's past: whoever may `get` the object, as the API server says of the bearer of a token.

A token is proven by a TokenReview, the right by a SubjectAccessReview of `get` on this one object. Answers are believed
for half a minute, a right no longer than the user and the groups that it was asked for: a token that expired, a right
that was taken away and a group that was left end within that time. Of a token nothing is kept but its digest. Reviews
are few at a time and few a second, because they share the way to the API with decisions.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from enum import Enum
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from cronhpa.api.identity import GROUP, PLURAL
from cronhpa.kube.client import Client

# What a token is made for that proves somebody to the operator and to nobody else, the API server included.
AUDIENCE = "cronhpa.io"

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_BELIEVED_SECONDS = 30.0
_ENTRIES_MAX = 1024
_AT_ONCE = 2
_PER_SECOND = 10.0
_BURST = 20.0
# Longer than any token that an API server takes.
_TOKEN_MAX = 12_288


class Verdict(Enum):
    ALLOWED = "allowed"
    REFUSED = "refused"  # a user who may not get the object, whether there is one or not
    UNKNOWN = "unknown"  # nobody, as far as the API server can say
    LATER = "later"  # too many are asking


class _User(Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()
    audiences: tuple[str, ...] = ()


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class AccessReviews:
    """Asks the API server, and remembers for a while what it said."""

    def __init__(self, client: Client, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._places = asyncio.Semaphore(_AT_ONCE)
        # By what was asked; the answer, and until when it is believed. The oldest first.
        self._believed: dict[tuple[str, ...], tuple[Any, float]] = {}
        self._reviews, self._counted_at = _BURST, monotonic()

    async def may_get(self, token: str, namespace: str, name: str) -> Verdict:
        """Whether the bearer of a token may get a CronHPA. Raises ClusterError where the API server does not say."""
        if not token or len(token) > _TOKEN_MAX or not token.isascii():
            return Verdict.UNKNOWN
        digest = blake2b(token.encode(), digest_size=16).hexdigest()
        user, until = self._known(digest)
        if user is None:
            if not self._take_review():
                return Verdict.LATER
            until = self._monotonic() + _BELIEVED_SECONDS
            user = await self._user(token)
            self._believe(user, until, digest)
        if not user.username:
            return Verdict.UNKNOWN
        allowed, _ = self._known(digest, namespace, name)
        if allowed is None:
            if not self._take_review():
                return Verdict.LATER
            allowed = await self._is_allowed(user, namespace, name)
            # The groups are as old as the user.
            self._believe(allowed, until, digest, namespace, name)
        return Verdict.ALLOWED if allowed else Verdict.REFUSED

    async def _user(self, token: str) -> _User:
        """Whose token it is; nobody where it is nobody's."""
        audiences = [AUDIENCE] if AUDIENCE in _stated_audiences(token) else []
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, **({"audiences": audiences} if audiences else {})},
        }
        async with self._places:
            status = (await self._client.review(_TOKEN_REVIEWS, asked, _TokenReview)).status
        # An authenticator that knows no audiences would take any token for one that was made for us.
        is_meant = not audiences or AUDIENCE in status.audiences
        return status.user if status.authenticated and is_meant else _User()

    async def _is_allowed(self, user: _User, namespace: str, name: str) -> bool:
        asked = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "resourceAttributes": {
                    "verb": "get",
                    "group": GROUP,
                    "resource": PLURAL,
                    "namespace": namespace,
                    "name": name,
                },
            },
        }
        async with self._places:
            return (await self._client.review(_ACCESS_REVIEWS, asked, _AccessReview)).status.allowed

    def _known(self, *asked: str) -> tuple[Any, float]:
        """The answer, None where it is not believed any more, and until when it is."""
        answer, until = self._believed.get(asked, (None, 0.0))
        return (answer if self._monotonic() < until else None), until

    def _believe(self, answer: Any, until: float, *asked: str) -> None:
        self._believed.pop(asked, None)
        self._believed[asked] = (answer, until)
        while len(self._believed) > _ENTRIES_MAX:
            del self._believed[next(iter(self._believed))]

    def _take_review(self) -> bool:
        now = self._monotonic()
        self._reviews = min(self._reviews + (now - self._counted_at) * _PER_SECOND, _BURST)
        self._counted_at = now
        if self._reviews < 1:
            return False
        self._reviews -= 1
        return True


def _stated_audiences(token: str) -> tuple[str, ...]:
    """What a token says whom it is for; only to know what to ask the API server, which looks at its signature."""
    parts = token.split(".")
    if len(parts) != len(("head", "claims", "signature")):
        return ()
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError, msgspec.MsgspecError):
        return ()
    stated = claims.get("aud") if isinstance(claims, dict) else None
    audiences = stated if isinstance(stated, list) else [stated]
    return tuple(each for each in audiences if isinstance(each, str))
