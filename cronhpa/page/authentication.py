"""
Who sent a request: the bearer of a token, or the person that a trusted front proxy names in its headers.

A proxy is trusted for a certificate of a given authority, or for a secret in a header; the same headers of anybody else
are ignored. A proxy cannot name a user or a group of the cluster itself (`system:`, `kubeadm:`): a proxy that is
tricked into passing on a header must not give anybody the rights of the control plane.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct
from multidict import MultiMapping

from cronhpa.page.rights import Caller, NotAuthenticatedError, Rights

SECRET_HEADER = "X-Cronhpa-Proxy-Secret"  # noqa: S105 - the name of a header
# kubeadm binds `kubeadm:cluster-admins` to cluster-admin, since Kubernetes 1.29.
_RESERVED = ("system:", "kubeadm:")
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


class Peer(Struct, frozen=True):
    """The other side of a connection."""

    address: str = ""
    certificate_names: frozenset[str] | None = None
    """The common name and the DNS names of its certificate; None without a certificate of the proxy's authority."""


class Authentication(Struct, frozen=True):
    """How callers are recognized."""

    mode: AuthenticationMode = AuthenticationMode.TOKEN
    """NONE shows everything to everybody who reaches the port, so it is for loopback alone."""
    secret: bytes = b""
    """The secret of the proxy; empty if a certificate proves the proxy."""
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    groups_separator: str = ","
    """Stands between the groups of one header line; empty if each group has a line of its own."""
    proxy_names: frozenset[str] = frozenset()
    """A proxy's certificate has one of these names; empty: any certificate of the authority is a proxy's."""

    async def caller(self, fields: MultiMapping[str], rights: Rights, peer: Peer) -> Caller:
        """Who sent a request. Raises NotAuthenticatedError, and the errors of `rights`."""
        if self.mode is AuthenticationMode.NONE:
            return Caller()
        if self._is_proxy(fields, peer):
            return self._named(fields)
        token = _token(fields)
        if not token:
            raise NotAuthenticatedError
        return await rights.caller(token, peer.address)

    def account(self, fields: MultiMapping[str], rights: Rights, peer: Peer) -> str | None:
        """Among what a caller shares requests with others; None if nothing that is known by now proves who calls."""
        if self.mode is AuthenticationMode.NONE:
            return ""
        if not self._is_proxy(fields, peer):
            return rights.account(_token(fields))
        try:
            return self._named(fields).username
        except NotAuthenticatedError:
            return None

    def _is_proxy(self, fields: MultiMapping[str], peer: Peer) -> bool:
        if self.mode is not AuthenticationMode.PROXY:
            return False
        names = peer.certificate_names
        has_certificate = names is not None and (not self.proxy_names or bool(names & self.proxy_names))
        return has_certificate or self._has_secret(fields)

    def _has_secret(self, fields: MultiMapping[str]) -> bool:
        secret = fields.get(SECRET_HEADER, "").encode("utf-8", "replace")
        return bool(self.secret) and hmac.compare_digest(secret, self.secret)

    def _named(self, fields: MultiMapping[str]) -> Caller:
        # A header that comes twice was not written by the proxy alone.
        users = fields.getall(self.user_header, [])
        if len(users) != 1 or not users[0].strip() or len(users[0]) > _NAME_MAX:
            raise NotAuthenticatedError
        username = users[0].strip()
        lines, separator = fields.getall(self.groups_header, []), self.groups_separator
        names = [part.strip() for line in lines for part in (line.split(separator) if separator else (line,))]
        groups = [group for group in names if group and not group.startswith(_RESERVED)]
        if username.startswith(_RESERVED) or len(groups) > _GROUPS_MAX:
            raise NotAuthenticatedError
        return Caller(username, groups=(*dict.fromkeys(groups), _AUTHENTICATED))


def _token(fields: MultiMapping[str]) -> str:
    """The bearer token of a request; empty without one."""
    scheme, _, token = fields.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def certificate_names(certificate: Mapping[str, Any] | None) -> frozenset[str] | None:
    """The common name and the DNS names in what `SSLSocket.getpeercert` returns; None without a certificate."""
    if not certificate:
        return None
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [name for kind, name in (*subject, *certificate.get("subjectAltName", ())) if kind in {"commonName", "DNS"}]
    return frozenset(names)


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
