"""cronhpa.page.rights, cronhpa.page.authentication: who calls, and which namespaces they see."""

import pytest
from multidict import CIMultiDict

from cronhpa.page.authentication import SECRET_HEADER, Authentication, AuthenticationMode, is_local_host, is_same_origin
from cronhpa.page.rights import BusyError, Caller, Everything, NotAuthenticatedError, scope_of

ANNA = Caller("anna")


class Told:
    """Anna's token is t-anna. allowed: (namespace, name); busy: namespaces that nobody has time for."""

    def __init__(self, *allowed, busy=()):
        self.allowed, self.busy = set(allowed), set(busy)

    async def caller(self, token):
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


def caller(fields, mode=AuthenticationMode.TOKEN, secret=b"", *, has_certificate=False):
    return Authentication(mode, secret).caller(CIMultiDict(fields), Told(), has_certificate=has_certificate)


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
    assert expected == await caller(BOB, AuthenticationMode.PROXY, has_certificate=True)


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
    fields = [("X-Forwarded-User", "bob"), ("X-Forwarded-Groups", "system:masters,dev")]

    assert ("dev", "system:authenticated") == (
        await caller(fields, AuthenticationMode.PROXY, has_certificate=True)
    ).groups


async def test_without_authentication_everybody_may_get_everything():
    assert Caller() == await caller([], AuthenticationMode.NONE)
    assert await Everything().may_get(Caller(), "prod", "shop")


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
