"""
Who sent a request: the bearer of a token, or the person that a trusted front proxy names in its headers.

A proxy is trusted for a certificate of a given authority, or for a secret in a header; the same headers of anybody else
are ignored. A proxy cannot name a user or a group of the cluster itself (`system:`): a proxy that is tricked into
passing on a header must not give anybody the rights of the control plane.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct
from multidict import MultiMapping

from cronhpa.page.rights import Caller, NotAuthenticatedError, Rights

SECRET_HEADER = "X-Cronhpa-Proxy-Secret"  # noqa: S105 - the name of a header
_RESERVED = "system:"
# The group that an API server adds to every authenticated user.
_AUTHENTICATED = "system:authenticated"
_NAME_MAX = 1024
_GROUPS_MAX = 1000
_LOCAL_NAMES = {"localhost", ""}


class AuthenticationMode(StrEnum):
    """How callers prove who they are."""

    NONE = "none"
    TOKEN = "token"  # noqa: S105 - a word
    PROXY = "proxy"


class Authentication(Struct, frozen=True):
    """
    mode: NONE shows everything to everybody who reaches the port, so it is for loopback alone. secret: of the proxy;
    empty if a certificate proves the proxy. user_header, groups_header: the headers in which it names user and groups.
    """

    mode: AuthenticationMode = AuthenticationMode.TOKEN
    secret: bytes = b""
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"

    async def caller(self, fields: MultiMapping[str], rights: Rights, *, has_certificate: bool) -> Caller:
        """
        Who sent a request. has_certificate: whether the connection has a certificate of the proxy's authority.

        Raises NotAuthenticatedError, and the errors of `rights`.
        """
        if self.mode is AuthenticationMode.NONE:
            return Caller()
        if self.mode is AuthenticationMode.PROXY and (has_certificate or self._has_secret(fields)):
            return self._named(fields)
        scheme, _, token = fields.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAuthenticatedError
        return await rights.caller(token.strip())

    def _has_secret(self, fields: MultiMapping[str]) -> bool:
        stated = fields.get(SECRET_HEADER, "").encode("utf-8", "replace")
        return bool(self.secret) and hmac.compare_digest(stated, self.secret)

    def _named(self, fields: MultiMapping[str]) -> Caller:
        # A header that comes twice was not written by the proxy alone.
        users = fields.getall(self.user_header, [])
        if len(users) != 1 or not users[0].strip() or len(users[0]) > _NAME_MAX:
            raise NotAuthenticatedError
        username = users[0].strip()
        stated = [part.strip() for line in fields.getall(self.groups_header, []) for part in line.split(",")]
        groups = [group for group in stated if group and not group.startswith(_RESERVED)]
        if username.startswith(_RESERVED) or len(groups) > _GROUPS_MAX:
            raise NotAuthenticatedError
        return Caller(username, groups=(*dict.fromkeys(groups), _AUTHENTICATED))


def is_local_host(host: str) -> bool:
    """
    Whether a Host header names this machine.

    A page without authentication answers to no other name: a website could point a name of its own to 127.0.0.1, and
    have its visitors' browsers read the page.
    """
    name = host.rpartition(":")[0] if host.count(":") == 1 else host.partition("]")[0].lstrip("[")
    name = name or host
    if name.lower() in _LOCAL_NAMES:
        return bool(host)
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_same_origin(fields: Mapping[str, str]) -> bool:
    """Whether a request that has a body comes from the page itself, or from no browser at all."""
    site = fields.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    origin = fields.get("Origin")
    return origin is None or origin.partition("://")[2] == fields.get("Host", "")
