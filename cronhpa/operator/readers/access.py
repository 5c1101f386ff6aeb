"""
Access to an object and its past: granted to everybody who may `get` the object.

A TokenReview identifies the user, a SubjectAccessReview checks `get` on this one object. Answers are cached for half a
minute: expired tokens and revoked rights end within that time. Only the digest of a token is kept.

Reviews share the connections to the API with decisions, so their number is limited, for each caller and in total:

- A caller whose own bucket is empty is told to come later. No caller empties the bucket of another one.
- Reviews of different callers take turns at the total pace, and wait for them. The ServiceAccounts of a namespace have
  one turn together: whoever may create one may create a thousand.
- Tokens that were never accepted have buckets by address, and turns of their own: made-up tokens delay no known caller.
- A refused list of a namespace is believed on for as long as the caller's bucket is needed for other questions. So a
  caller with rights in some of ten thousand namespaces gets an answer about each of them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from enum import Enum
from hashlib import blake2b
from typing import TypeVar

import msgspec
from msgspec import Struct

from cronhpa.api.identity import AUDIENCE, GROUP, PLURAL
from cronhpa.kube.client import Client
from cronhpa.ports.fair_places import FairPace
from cronhpa.ports.token_bucket import Pace, TokenBuckets

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_BELIEVED_SECONDS = 30.0
# An older refusal of a list is asked about again before the others.
_REFUSAL_SECONDS = 300.0
_AT_ONCE = 2
_OF_A_CALLER = Pace(per_second=50, burst=200)
_OF_ALL_CALLERS = Pace(per_second=100, burst=200)
_OF_AN_ADDRESS = Pace(per_second=5, burst=20)
_OF_ALL_ADDRESSES = Pace(per_second=20, burst=20)
# Longer than any token that an API server accepts.
_TOKEN_MAX = 12_288
_TOKENS_MAX = 1024
# Answers about rights, of all callers: some 10 MB.
_ANSWERS_MAX = 50_000
_ACCOUNT_PREFIX = "system:serviceaccount:"
_ENCODER = msgspec.json.Encoder(order="sorted")

T = TypeVar("T")


class Verdict(Enum):
    ALLOWED = "allowed"
    REFUSED = "refused"  # the user may not get the object, whether it exists or not
    UNKNOWN = "unknown"  # the API server knows no user of the token
    LATER = "later"  # too many reviews of this caller


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


class _Answers:
    """
    What the API server answered about rights, with the times of the questions, by user and (namespace, name).

    If there are too many, the user with the most answers loses the oldest one.
    """

    def __init__(self) -> None:
        self._by_user: dict[bytes, dict[tuple[str, str], tuple[bool, float]]] = {}
        self._count = 0

    def get(self, user: bytes, question: tuple[str, str]) -> tuple[bool, float] | None:
        return self._by_user.get(user, {}).get(question)

    def put(self, user: bytes, question: tuple[str, str], allowed: bool, asked_at: float) -> None:  # noqa: FBT001 - the answer
        answers = self._by_user.setdefault(user, {})
        self._count += answers.pop(question, None) is None
        answers[question] = (allowed, asked_at)
        while self._count > _ANSWERS_MAX:
            largest = max(self._by_user, key=lambda user: len(self._by_user[user]))
            del self._by_user[largest][next(iter(self._by_user[largest]))]
            if not self._by_user[largest]:
                del self._by_user[largest]
            self._count -= 1


class AccessReviews:
    """Sends reviews to the API server, and caches its answers for a while. monotonic: a clock of seconds."""

    def __init__(self, client: Client, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._callers = TokenBuckets(_OF_A_CALLER)
        self._addresses = TokenBuckets(_OF_AN_ADDRESS)
        self._caller_turns = FairPace(_OF_ALL_CALLERS, _AT_ONCE)
        self._stranger_turns = FairPace(_OF_ALL_ADDRESSES, _AT_ONCE)
        # By the digest of a token, with the time of the review: users of accepted tokens, and tokens of nobody. The one
        # that was used or reviewed last stands last.
        self._accepted: dict[bytes, tuple[User, float]] = {}
        self._unknown: dict[bytes, float] = {}
        self._answers = _Answers()

    def account(self, token: str) -> str | None:
        """Among what the user of a token shares requests with others; None for a token that was not accepted lately."""
        accepted = self._accepted.get(_digest(token))
        return None if accepted is None else account_of(accepted[0].username)

    async def may_get(self, token: str, namespace: str, name: str, address: str = "") -> Verdict:
        """
        Whether the bearer of a token may get a CronHPA. address: where the bearer is.

        Raises ClusterError if the API server does not answer.
        """
        user = await self.user(token, address)
        return user if isinstance(user, Verdict) else await self.verdict(user, namespace, name)

    async def user(self, token: str, address: str = "") -> User | Verdict:
        """The user of a token; UNKNOWN without a user. Raises ClusterError if the API server does not answer."""
        if not token or len(token) > _TOKEN_MAX or not token.isascii():
            return Verdict.UNKNOWN
        digest, now = _digest(token), self._monotonic()
        if (accepted := self._accepted.pop(digest, None)) is not None:
            user, asked_at = self._accepted[digest] = accepted
            if now - asked_at < _BELIEVED_SECONDS:
                return user
            if not self._callers.take(user.username, now):
                return Verdict.LATER
            turn = self._caller_turns.turn(account_of(user.username))
        else:
            if now - self._unknown.get(digest, -_BELIEVED_SECONDS) < _BELIEVED_SECONDS:
                return Verdict.UNKNOWN
            if not self._addresses.take(address, now):
                return Verdict.LATER
            turn = self._stranger_turns.turn(address)
        async with turn:
            asked_at = self._monotonic()
            user = await self._user(token)
        self._accepted.pop(digest, None)
        self._unknown.pop(digest, None)
        if not user.username:
            _remember(self._unknown, digest, asked_at)
            return Verdict.UNKNOWN
        _remember(self._accepted, digest, (user, asked_at))
        return user

    async def verdict(self, user: User, namespace: str, name: str) -> Verdict:
        """
        Whether a user may get a CronHPA; with "" as its name all of the namespace, with "" for both all CronHPAs.

        Raises ClusterError if the API server does not answer.
        """
        who, question = blake2b(_ENCODER.encode(user), digest_size=16).digest(), (namespace, name)
        known = self._believed(user, who, question)
        if known is None:
            if not self._callers.take(user.username, self._monotonic()):
                return Verdict.LATER
            async with self._caller_turns.turn(account_of(user.username)):
                # While it waited, another request of the same user may have had the answer.
                known = self._believed(user, who, question)
                if known is None:
                    asked_at = self._monotonic()
                    known = await self._is_allowed(user, namespace, name)
                    self._answers.put(who, question, known, asked_at)
        return Verdict.ALLOWED if known else Verdict.REFUSED

    def _believed(self, user: User, who: bytes, question: tuple[str, str]) -> bool | None:
        """The known answer; None where the API server should be asked."""
        answer = self._answers.get(who, question)
        if answer is None:
            return None
        allowed, asked_at = answer
        now = self._monotonic()
        age = now - asked_at
        if age < _BELIEVED_SECONDS:
            return allowed
        is_list = not question[1]
        if allowed or not is_list:
            return None
        # A refusal gives nobody anything. Questions without an answer, and rights to be confirmed, come first: a part
        # of the bucket is left for them.
        needed = _OF_A_CALLER.burst / (2 if age < _REFUSAL_SECONDS else 4)
        return None if self._callers.left(user.username, now) >= needed else False

    async def _user(self, token: str) -> User:
        """The user of a token; a User with an empty name if the token belongs to no user."""
        audiences = [AUDIENCE] if AUDIENCE in _stated_audiences(token) else []
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, **({"audiences": audiences} if audiences else {})},
        }
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
        return (await self._client.review(_ACCESS_REVIEWS, asked, _AccessReview)).status.allowed


def account_of(username: str) -> str:
    """Among what a user shares requests with others: a ServiceAccount's namespace, or the user's own name."""
    if not username.startswith(_ACCOUNT_PREFIX):
        return username
    return _ACCOUNT_PREFIX + username.removeprefix(_ACCOUNT_PREFIX).partition(":")[0]


def _digest(token: str) -> bytes:
    return blake2b(token.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _remember(known: dict[bytes, T], digest: bytes, value: T) -> None:
    known[digest] = value
    while len(known) > _TOKENS_MAX:
        del known[next(iter(known))]


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
