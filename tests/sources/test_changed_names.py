"""cronhpa.sources.pods, cronhpa.sources.server: names whose address changes between a check and its use."""

import asyncio
import socket
import ssl
import threading
from contextlib import closing

import pytest
import trustme
from aiohttp import web

from cronhpa.sources.namespace_shares import NamespaceShare, Reading, scrape_budget
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.pod_page import PageSource, PodPages
from cronhpa.sources.pods import address_of
from sources.answering_sources import measured, pod, serving
from sources.pod_servers import plain, raw_pods
from sources.test_scraping import definition
from sources.test_url_value import source
from sources.virtual_periods import Periods

NAME = "metrics.test"


@pytest.fixture
def resolved(monkeypatch):
    """The addresses that NAME has, in turn, the last one for ever; and each question to the resolver."""
    asked, addresses, lock, real = [], [], threading.Lock(), socket.getaddrinfo

    def getaddrinfo(host, *more, **named):
        with lock:
            asked.append(host)
            if host == NAME:
                host = addresses.pop(0) if len(addresses) > 1 else addresses[0]
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return addresses, asked


def test_a_pod_is_asked_at_the_address_that_was_checked_and_no_name_is_resolved(resolved):
    _, asked = resolved
    clock = Periods()
    pages = PodPages(clock)
    page = PageSource(id=1, metric="inflight", path="/metrics", labels={}, timeout_seconds=1.0)
    with raw_pods(plain(b"inflight 7\n")) as pods:
        stated = definition(pods.port, podNetworks=["127.0.0.0/8"])
        host, port = address_of(pod(1, ip="127.0.0.9"), stated)
        with Reading(NamespaceShare(clock), scrape_budget(1.0, 1, clock), 60.0, clock, Periods()) as work:
            (sample,) = pages.read(page, host, port, work).samples

    assert (7, "127.0.0.9") == (sample.value, host)
    assert [] == [name for name in asked if name is not None]


@pytest.mark.parametrize("name", ["localhost", NAME, "127.1", "0x7f.1", "2130706433", "127.0.0.1 ", "\uff1127.0.0.1"])
def test_a_pods_ip_that_is_a_name_or_an_odd_notation_is_not_asked(name, resolved):
    with pytest.raises(NoAnswerError, match="it has no IP yet"):
        address_of(pod(1, ip=name), definition(80))
    assert [] == resolved[1]


async def test_by_tls_a_name_that_moves_to_another_server_gets_no_login(resolved, tmp_path):
    """Each new connection resolves the name once, and the certificate is checked on that very connection."""
    addresses, asked = resolved
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "token").write_text("secret")
    heard = []

    async def answer(request):
        heard.append((request.transport.get_extra_info("sockname")[0], request.headers["Authorization"]))
        return web.json_response({"queues": [{"length": 42}]}, headers={"Connection": "close"})

    def proving(ca):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert(NAME).configure_cert(context)
        return context

    async with serving(answer, ["127.0.0.1"], proving(authority)) as port:
        with closing(socket.create_server(("127.0.0.2", port))) as listener:
            theirs = await asyncio.start_server(lambda *_: heard.append("theirs"), sock=listener, ssl=proving(stranger))
            for moved_to, expected in (("127.0.0.1", 42_000), ("127.0.0.2", "Untrusted")):
                addresses[:] = [moved_to]
                asked_source = source(
                    port, "https", host=NAME, tokenFile=f"{tmp_path}/token", caFile=f"{tmp_path}/ca.pem"
                )
                got = await asked_source.value(measured())
                await asked_source.close()
                assert expected == getattr(got, "reason", got)
            theirs.close()

    assert [("127.0.0.1", "Bearer secret")] == heard
    assert 2 == asked.count(NAME)


async def test_a_name_that_resolves_to_another_server_at_once_leaves_the_open_connection_where_it_is(resolved):
    """The first address is asked, and kept for as long as the connection: a second answer is unheard."""
    addresses, asked = resolved
    addresses[:] = ["127.0.0.1", "127.0.0.2"]
    with raw_pods(plain(b'{"queues": [{"length": 42}]}'), closes=False) as pods:
        asked_source = source(pods.port, host=NAME)
        got = [await asked_source.value(measured(period=1e-3)) for _ in range(3)]
        await asked_source.close()

    assert ([42_000] * 3, 1, 1) == (got, asked.count(NAME), pods.accepted)
