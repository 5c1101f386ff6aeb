"""cronhpa.page.paced_tls: the page by TLS; a proxy that proves itself by its certificate, and everybody else."""

import json
import ssl
import time
import urllib.error
import urllib.request
from itertools import count

import pytest
import trustme

from cronhpa.page import server
from cronhpa.page.authentication import Authentication, AuthenticationMode
from cronhpa.page.paced_tls import PIECE_BYTES
from cronhpa.page.responses import PageProtocol
from cronhpa.ports.loop_share import LoopShare
from page.made_fleet import MadeObjects, fleet_of
from page.served_page import served
from page.test_rights import Told

BOB = {"X-Forwarded-User": "bob"}


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def tls_of(authority):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_OPTIONAL
    return tls


@pytest.fixture(scope="module")
def page(authority):
    authentication = Authentication(AuthenticationMode.PROXY)
    with served(MadeObjects(fleet_of(3)), rights=Told(), authentication=authentication, tls=tls_of(authority)) as url:
        yield url.replace("http:", "https:")


def session(url, authority, headers, *, of=None):
    """(status, who it says the caller is). of: the authority of the client's certificate."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if of is not None:
        of.issue_cert("proxy.example").configure_cert(context)
    try:
        request = urllib.request.Request(f"{url}/api/session", headers=headers)
        with urllib.request.urlopen(request, context=context, timeout=120) as answer:
            return answer.status, json.loads(answer.read())["user"]
    except urllib.error.HTTPError as error:
        return error.code, None


def test_a_certificate_of_the_authority_makes_a_proxy(page, authority):
    assert (200, "bob") == session(page, authority, BOB, of=authority)


@pytest.mark.parametrize(("name", "expected"), [("proxy.example", (200, "bob")), ("page-proxy.example", (401, None))])
def test_where_the_proxy_has_a_name_another_certificate_of_the_authority_is_none_of_it(authority, name, expected):
    authentication = Authentication(AuthenticationMode.PROXY, proxy_names=frozenset([name]))
    with served(MadeObjects(fleet_of(3)), rights=Told(), authentication=authentication, tls=tls_of(authority)) as url:
        assert expected == session(url.replace("http:", "https:"), authority, BOB, of=authority)


def test_without_a_certificate_the_same_headers_name_nobody_and_a_token_still_does(page, authority):
    assert (401, None) == session(page, authority, BOB)
    assert (200, "anna") == session(page, authority, {**BOB, "Authorization": "Bearer t-anna"})


def test_a_certificate_of_another_authority_gets_no_connection(page, authority):
    with pytest.raises(OSError, match=r"(?i)unknown ca|certificate|reset|closed"):
        session(page, authority, BOB, of=trustme.CA())


def test_clear_text_gets_no_answer(page):
    with pytest.raises(OSError, match=r"(?i)reset|closed|disconnect|refused"):
        urllib.request.urlopen(page.replace("https:", "http:"), timeout=120)


def test_long_answers_and_long_bodies_come_whole(authority):
    """Each is more than a piece that is read at once, and more than a record of TLS."""
    rights, context = Told(("", "")), ssl.create_default_context()
    authority.configure_trust(context)
    headers = {"Authorization": "Bearer t-anna", "Content-Type": "application/json"}
    text = json.dumps({"namespace": "prod", "name": "none", "yaml": "x" * 60_000}).encode()
    settings = {"authentication": Authentication(), "tls": tls_of(authority)}
    with served(MadeObjects(fleet_of(300)), rights=rights, **settings) as clear:
        url = clear.replace("http:", "https:")
        fleet = urllib.request.Request(f"{url}/api/fleet", headers=headers)
        with urllib.request.urlopen(fleet, context=context, timeout=120) as answer:
            rows = json.loads(answer.read())["rows"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(
                urllib.request.Request(f"{url}/api/what-if", text, headers), context=context, timeout=120
            )

    assert 300 == len(rows)
    assert b"there is no such object" in refused.value.read()


def test_while_nobody_reads_a_body_no_more_than_a_piece_of_it_waits_to_be_decrypted(authority, monkeypatch):
    """A request that waits for its turn reads no body; asyncio would keep 256 KiB for one callback."""
    limits = []

    class Noted(PageProtocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            limits.append(transport.get_read_buffer_limits()[1])

    monkeypatch.setattr(server, "PageProtocol", Noted)
    settings = {"authentication": Authentication(AuthenticationMode.PROXY), "tls": tls_of(authority)}
    with served(MadeObjects(fleet_of(3)), rights=Told(), **settings) as url:
        session(url.replace("http:", "https:"), authority, BOB)

    assert [PIECE_BYTES] == limits


def test_handshakes_are_read_within_a_share(authority, monkeypatch):
    """Each of ten has two pieces at least, of 10 ms here: 200 ms, of which 50 ms at once, and the rest in 1.5 s."""
    readings = count()
    monkeypatch.setattr(server, "page_share", lambda: LoopShare(time.monotonic, lambda: next(readings) * 0.01, 0.1))
    begun = time.monotonic()
    settings = {"authentication": Authentication(AuthenticationMode.PROXY), "tls": tls_of(authority)}
    with served(MadeObjects(fleet_of(3)), rights=Told(), **settings) as url:
        got = {session(url.replace("http:", "https:"), authority, BOB) for _ in range(10)}

    assert {(401, None)} == got
    assert 1.2 < time.monotonic() - begun
