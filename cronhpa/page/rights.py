"""Who calls the page and what they may get: the page asks, whoever wires it answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct


class Caller(Struct, frozen=True):
    """Who calls, as the API server names users. Without a username: whoever reaches a page without authentication."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}

    @property
    def label(self) -> str:
        return self.username or "everybody who reaches this port"


class NotAuthenticatedError(Exception):
    """The request does not prove who calls."""


class BusyError(Exception):
    """Too many are asking: the same request may be answered in a second."""


class UnavailableError(Exception):
    """What is asked for cannot be answered now, in words for the caller."""


class Rights(Protocol):
    """Raises BusyError where too many are asking, UnavailableError where the API server does not answer."""

    async def caller(self, token: str) -> Caller:
        """Who the bearer of a token is. Raises NotAuthenticatedError for a token that is nobody's."""

    async def may_get(self, caller: Caller, namespace: str, name: str) -> bool:
        """Whether a CronHPA may be got; name "" asks for all of the namespace, both "" for all there are."""


class Everything:
    """The rights of a page without authentication: whoever reaches the port sees everything."""

    async def caller(self, token: str) -> Caller:
        del token
        return Caller()

    async def may_get(self, caller: Caller, namespace: str, name: str) -> bool:
        del caller, namespace, name
        return True


class Scope(Struct, frozen=True):
    """
    The namespaces of which a caller may get all objects; None: every namespace.

    pending: namespaces whose answer is not there yet, because too many were asked about at once.
    """

    namespaces: frozenset[str] | None
    pending: int = 0

    def __contains__(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces

    @property
    def digest(self) -> str:
        """Changes when the caller may see other namespaces than before."""
        if self.namespaces is None:
            return "all"
        return hashlib.blake2b("/".join(sorted(self.namespaces)).encode(), digest_size=8).hexdigest()


async def scope_of(rights: Rights, caller: Caller, namespaces: Iterable[str]) -> Scope:
    """
    What a caller may get of these namespaces.

    A right to single objects by name shows those objects when they are asked for, and not in a list: to find them, each
    object would need a review of its own.
    """
    if await rights.may_get(caller, "", ""):
        return Scope(None)
    allowed, pending = set(), 0
    for namespace in sorted(namespaces):
        try:
            if await rights.may_get(caller, namespace, ""):
                allowed.add(namespace)
        except BusyError:
            pending += 1
    return Scope(frozenset(allowed), pending)
