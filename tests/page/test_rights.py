"""cronhpa.page.rights, cronhpa.page.authentication: who calls, and which namespaces they see."""

import pytest
from multidict import CIMultiDict

from cronhpa.page.authentication import (
    SECRET_HEADER,
    Authentication,
    AuthenticationMode,
    Peer,
    certificate_names,
    is_local_host,
    is_same_origin,
)
from cronhpa.page.rights import AllRights, BusyError, Caller, NotAuthenticatedError, scope_of

ANNA = Caller("anna")


class Told:
    """Anna's token is t-anna. allowed: (namespace, name); busy: namespaces that nobody has time for."""

    def __init__(self, *allowed, busy=()):
        self.allowed, self.busy = set(allowed), set(busy)

    def account(self, token):
        return "anna" if token == "t-anna" else None

    async def caller(self, token, address):  # noqa: ARG002 - as of Rights
        if token != "t-anna":
            raise NotAuthenticatedError
        return ANNA

    async def may_get(self, caller, namespace, name):
        if namespace in self.busy:
            raise BusyError
        return caller == ANNA and (namespace, name) in self.allowed


async def test_a_right_to_all_namespaces_is_asked_once_and_covers_those_to_come():
    scope = await scope_of(Told(("", "")), ANNA, ["prod"])

    assert "prod" in scope
    assert "tomorrow" in scope


async def test_other_callers_see_the_namespaces_they_may_get_all_of():
    """A right to one object by name shows no namespace."""
    scope = await scope_of(Told(("prod", ""), ("dev", "shop")), ANNA, ["prod", "dev", "test"])

    assert frozenset({"prod"}) == scope.namespaces


async def test_namespaces_that_nobody_had_time_for_are_pending_and_not_shown():
    scope = await scope_of(Told(("prod", ""), ("dev", ""), busy=["dev"]), ANNA, ["prod", "dev"])

    assert ("prod" in scope, "dev" in scope, scope.pending) == (True, False, 1)


async def test_a_scope_with_other_namespaces_has_another_digest():
    one, other = [await scope_of(Told((name, "")), ANNA, ["prod", "dev"]) for name in ("prod", "dev")]

    assert one.digest != other.digest


def caller(fields, mode=AuthenticationMode.TOKEN, secret=b"", *, certificate=None, **more):
    """certificate: the names in it."""
    peer = Peer("10.1.2.3", None if certificate is None else frozenset(certificate))
    return Authentication(mode, secret, **more).caller(CIMultiDict(fields), Told(), peer)


async def test_a_bearer_token_names_its_caller():
    assert ANNA == await caller([("authorization", "bearer t-anna")])


@pytest.mark.parametrize("fields", [[], [("Authorization", "Basic YTpi")], [("Authorization", "Bearer ")],
                                    [("Authorization", "Bearer t-bob")]])  # fmt: skip
async def test_only_a_bearer_token_names_a_caller(fields):
    with pytest.raises(NotAuthenticatedError):
        await caller(fields)


BOB = [("X-Forwarded-User", "bob"), ("X-Forwarded-Groups", "dev, ops")]
SECRET = b"sixteen bytes at least"


async def test_a_proxy_that_proves_itself_names_user_and_groups():
    """A known caller is authenticated, as by the API server."""
    expected = Caller("bob", groups=("dev", "ops", "system:authenticated"))

    assert expected == await caller([*BOB, (SECRET_HEADER, SECRET.decode())], AuthenticationMode.PROXY, SECRET)
    assert expected == await caller(BOB, AuthenticationMode.PROXY, certificate=["proxy"])


@pytest.mark.parametrize(
    ("mode", "secret", "fields"),
    [
        (AuthenticationMode.PROXY, SECRET, BOB),
        (AuthenticationMode.PROXY, SECRET, [*BOB, (SECRET_HEADER, "another secret of that length")]),
        (AuthenticationMode.PROXY, b"", [*BOB, (SECRET_HEADER, "")]),
        (AuthenticationMode.TOKEN, SECRET, [*BOB, (SECRET_HEADER, SECRET.decode())]),
        (AuthenticationMode.PROXY, SECRET, [*BOB, ("X-Forwarded-User", "root"), (SECRET_HEADER, SECRET.decode())]),
        (AuthenticationMode.PROXY, SECRET, [("X-Forwarded-User", "system:admin"), (SECRET_HEADER, SECRET.decode())]),
        (AuthenticationMode.PROXY, SECRET, [("X-Forwarded-User", ""), (SECRET_HEADER, SECRET.decode())]),
    ],
)
async def test_headers_of_anybody_else_name_nobody(mode, secret, fields):
    """Without the secret, with an empty one where none is set, in another mode, twice, or of the cluster itself."""
    with pytest.raises(NotAuthenticatedError):
        await caller(fields, mode, secret)


async def test_a_proxy_makes_nobody_a_member_of_the_clusters_own_groups():
    fields = [("X-Forwarded-User", "bob"), ("X-Forwarded-Groups", "system:masters,kubeadm:cluster-admins,dev")]

    assert ("dev", "system:authenticated") == (await caller(fields, AuthenticationMode.PROXY, certificate=["p"])).groups


@pytest.mark.parametrize("user", ["system:admin", "kubeadm:admin"])
async def test_a_proxy_makes_nobody_a_user_of_the_clusters_own(user):
    with pytest.raises(NotAuthenticatedError):
        await caller([("X-Forwarded-User", user)], AuthenticationMode.PROXY, certificate=["p"])


async def test_a_group_with_a_comma_is_one_group_where_each_group_has_a_line_of_its_own():
    """An identity provider lets somebody name a group `dev,admins`. With commas between groups it would be two."""
    fields = [("X-Forwarded-User", "bob"), ("X-Forwarded-Groups", "dev,admins"), ("X-Forwarded-Groups", "ops")]
    by_proxy = (AuthenticationMode.PROXY, b"")

    lines = await caller(fields, *by_proxy, certificate=["p"], groups_separator="")
    commas = await caller(fields, *by_proxy, certificate=["p"])

    assert ("dev,admins", "ops", "system:authenticated") == lines.groups
    assert ("dev", "admins", "ops", "system:authenticated") == commas.groups


@pytest.mark.parametrize(
    ("names", "certificate", "is_proxy"),
    [
        ([], ["anything"], True),
        ([], [], True),
        ([], None, False),
        (["page-proxy"], ["page-proxy"], True),
        (["page-proxy"], ["other", "page-proxy"], True),
        (["page-proxy"], ["other"], False),
        (["page-proxy"], [], False),
        (["page-proxy"], None, False),
    ],
)
async def test_where_the_proxy_has_a_name_only_a_certificate_with_it_is_the_proxys(names, certificate, is_proxy):
    """As --requestheader-allowed-names of an API server; without names any certificate of the authority."""
    asking = caller(BOB, AuthenticationMode.PROXY, certificate=certificate, proxy_names=frozenset(names))

    if is_proxy:
        assert "bob" == (await asking).username
    else:
        with pytest.raises(NotAuthenticatedError):
            await asking


def test_the_names_of_a_certificate_are_its_common_name_and_its_dns_names():
    subject = ((("organizationName", "page-proxy"),), (("commonName", "proxy"),))
    names = (("DNS", "proxy.example"), ("IP Address", "10.0.0.1"), ("URI", "spiffe://a/b"))

    assert {"proxy", "proxy.example"} == certificate_names({"subject": subject, "subjectAltName": names})  # type: ignore[comparison-overlap]  # a set equals a frozenset
    assert frozenset() == certificate_names({"serialNumber": "1"})
    assert {None} == {certificate_names(none) for none in (None, {})}


@pytest.mark.parametrize(
    ("fields", "certificate", "account"),
    [
        ([("Authorization", "Bearer t-anna")], None, "anna"),
        ([("Authorization", "Bearer t-bob")], None, None),
        ([], None, None),
        (BOB, ["p"], "bob"),
        ([], ["p"], None),
        ([("X-Forwarded-User", "system:admin")], ["p"], None),
    ],
)
def test_requests_are_shared_out_by_the_caller_that_is_known_or_else_by_address(fields, certificate, account):
    peer = Peer("10.1.2.3", None if certificate is None else frozenset(certificate))

    assert account == Authentication(AuthenticationMode.PROXY).account(CIMultiDict(fields), Told(), peer)


async def test_without_authentication_everybody_may_get_everything():
    assert Caller() == await caller([], AuthenticationMode.NONE)
    assert await AllRights().may_get(Caller(), "prod", "shop")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8083", True), ("localhost", True), ("LOCALHOST:80", True), ("[::1]:8083", True), ("::1", True),
        ("evil.example:8083", False), ("localhost.evil.example", False), ("10.0.0.1", False), ("", False),
        ("127.0.0.1.evil.example:80", False), ("[::1", True), (":80", False),
    ],
)  # fmt: skip
def test_a_host_header_names_this_machine_or_another(host, expected):
    """A name that an attacker points to 127.0.0.1 is another one."""
    assert expected == is_local_host(host)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Origin": "https://page.example", "Host": "page.example"}, True),
        ({"Origin": "https://evil.example", "Host": "page.example"}, False),
        ({"Origin": "null", "Host": "page.example"}, False),
    ],
)
def test_a_request_with_a_body_must_come_from_the_page_itself(fields, expected):
    assert expected == is_same_origin(fields)
