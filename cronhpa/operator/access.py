"""
Access to an object and its past: granted to everybody who may `get` the object.

A TokenReview identifies the user, a SubjectAccessReview checks `get` on this one object. Answers are cached for half a
minute: expired tokens and revoked rights end within that time. Only the digest of a token is kept. The rate and the
number of reviews are limited, because they share the connections to the API with decisions.
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

from cronhpa.api.identity import AUDIENCE, GROUP, PLURAL
from cronhpa.kube.client import Client

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_BELIEVED_SECONDS = 30.0
_AT_ONCE = 2
# Longer than any token that an API server accepts.
_TOKEN_MAX = 12_288
_ENCODER = msgspec.json.Encoder(order="sorted")


class Verdict(Enum):
    ALLOWED = "allowed"
    REFUSED = "refused"  # the user may not get the object, whether it exists or not
    UNKNOWN = "unknown"  # the API server knows no user of the token
    LATER = "later"  # too many reviews


class User(Struct, frozen=True):
    """A user by the API server's TokenReview. An empty name: the token belongs to no user."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: User = User()
    audiences: tuple[str, ...] = ()


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class ReviewPace(Struct, frozen=True):
    """Limits: reviews a second, more reviews at once after a pause, cached answers."""

    per_second: float = 10.0
    burst: float = 20.0
    entries_max: int = 1024


class AccessReviews:
    """Sends reviews to the API server, and caches its answers for a while."""

    def __init__(self, client: Client, monotonic: Callable[[], float], pace: ReviewPace | None = None) -> None:
        self._client = client
        self._monotonic = monotonic
        self._pace = pace or ReviewPace()
        self._places = asyncio.Semaphore(_AT_ONCE)
        # By the fields of a review: the answer, and until when it is valid. The oldest first.
        self._believed: dict[tuple[str, ...], tuple[Any, float]] = {}
        self._reviews, self._counted_at = self._pace.burst, monotonic()

    async def may_get(self, token: str, namespace: str, name: str) -> Verdict:
        """Whether the bearer of a token may get a CronHPA. Raises ClusterError if the API server does not answer."""
        user = await self.user(token)
        return user if isinstance(user, Verdict) else await self.verdict(user, namespace, name)

    async def user(self, token: str) -> User | Verdict:
        """The user of a token; UNKNOWN without a user. Raises ClusterError if the API server does not answer."""
        if not token or len(token) > _TOKEN_MAX or not token.isascii():
            return Verdict.UNKNOWN
        digest = blake2b(token.encode(), digest_size=16).hexdigest()
        user: User | None = self._known(digest)
        if user is None:
            if not self._take_review():
                return Verdict.LATER
            asked_at = self._monotonic()
            user = await self._user(token)
            self._believe(user, asked_at, digest)
        return user if user.username else Verdict.UNKNOWN

    async def verdict(self, user: User, namespace: str, name: str) -> Verdict:
        """
        Whether a user may get a CronHPA; with "" as its name all of the namespace, with "" for both all CronHPAs.

        Raises ClusterError if the API server does not answer.
        """
        who = blake2b(_ENCODER.encode(user), digest_size=16).hexdigest()
        allowed = self._known(who, namespace, name)
        if allowed is None:
            if not self._take_review():
                return Verdict.LATER
            asked_at = self._monotonic()
            allowed = await self._is_allowed(user, namespace, name)
            self._believe(allowed, asked_at, who, namespace, name)
        return Verdict.ALLOWED if allowed else Verdict.REFUSED

    async def _user(self, token: str) -> User:
        """The user of a token; a User with an empty name if the token belongs to no user."""
        audiences = [AUDIENCE] if AUDIENCE in _stated_audiences(token) else []
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, **({"audiences": audiences} if audiences else {})},
        }
        async with self._places:
            status = (await self._client.review(_TOKEN_REVIEWS, asked, _TokenReview)).status
        # An authenticator that ignores audiences would accept tokens that were issued for other services.
        is_meant = not audiences or AUDIENCE in status.audiences
        return status.user if status.authenticated and is_meant else User()

    async def _is_allowed(self, user: User, namespace: str, name: str) -> bool:
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

    def _known(self, *asked: str) -> Any:
        answer, until = self._believed.get(asked, (None, 0.0))
        return answer if self._monotonic() < until else None

    def _believe(self, answer: Any, asked_at: float, *asked: str) -> None:
        self._believed.pop(asked, None)
        self._believed[asked] = (answer, asked_at + _BELIEVED_SECONDS)
        while len(self._believed) > self._pace.entries_max:
            del self._believed[next(iter(self._believed))]

    def _take_review(self) -> bool:
        now = self._monotonic()
        self._reviews = min(self._reviews + (now - self._counted_at) * self._pace.per_second, self._pace.burst)
        self._counted_at = now
        if self._reviews < 1:
            return False
        self._reviews -= 1
        return True


def _stated_audiences(token: str) -> tuple[str, ...]:
    """The audiences that a token claims. They only choose the review; the API server verifies the signature."""
    parts = token.split(".")
    if len(parts) != len(("head", "claims", "signature")):
        return ()
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError, msgspec.MsgspecError):
        return ()
    stated = claims.get("aud") if isinstance(claims, dict) else None
    audiences = stated if isinstance(stated, list) else [stated]
    return tuple(audience for audience in audiences if isinstance(audience, str))
