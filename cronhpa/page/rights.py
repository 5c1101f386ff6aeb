"""Callers of the page and what they may get: the interface that the page asks, implemented where it is wired."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

_SLICE = 200


class Caller(Struct, frozen=True):
    """A caller, as the API server names users. Without a username: any caller of a page without authentication."""

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
    """Too many requests of this caller: the same one may be answered in a second."""


class UnavailableError(Exception):
    """The request cannot be answered now; the text is for the caller."""


class Rights(Protocol):
    """Raises BusyError for too many requests of one caller, UnavailableError where the API server does not answer."""

    async def caller(self, token: str, address: str) -> Caller:
        """The user of a token that came from an address. Raises NotAuthenticatedError for a token without a user."""

    def account(self, token: str) -> str | None:
        """Among what the user of a token shares requests with others; None for a token that was not accepted lately."""

    async def may_get(self, caller: Caller, namespace: str, name: str) -> bool:
        """Whether the caller may get a CronHPA; name "" means all of the namespace, both "" all of the cluster."""


class AllRights:
    """The rights of a page without authentication: everybody who reaches the port sees everything."""

    async def caller(self, token: str, address: str) -> Caller:
        del token, address
        return Caller()

    def account(self, token: str) -> str | None:
        del token
        return ""

    async def may_get(self, caller: Caller, namespace: str, name: str) -> bool:
        del caller, namespace, name
        return True


class Scope(Struct, frozen=True):
    """The namespaces of which a caller may get all objects; None: every namespace."""

    namespaces: frozenset[str] | None
    pending: int = 0
    """The number of namespaces without an answer yet, because too many were asked about at once."""

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
    The scope of a caller within these namespaces.

    An object that a caller may get only by its name is shown when the caller asks for it, and is in no list: a list
    would need a review for each object.
    """
    if await rights.may_get(caller, "", ""):
        return Scope(None)
    allowed, pending = set(), 0
    for number, namespace in enumerate(sorted(namespaces)):
        if number % _SLICE == 0:
            await asyncio.sleep(0)  # known answers take no time of others
        try:
            if await rights.may_get(caller, namespace, ""):
                allowed.add(namespace)
        except BusyError:
            pending += 1
    return Scope(frozenset(allowed), pending)
