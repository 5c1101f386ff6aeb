"""cronhpa.cli.objects.page_proxy: the page signed in, and who is not."""

from __future__ import annotations

import asyncio
import os

import aiohttp
import pytest

from cronhpa.cli.objects.page_proxy import PageProxy, user_of_peer
from cronhpa.page.authentication import Authentication
from page.made_fleet import MadeObjects, fleet_of
from page.served_page import served
from page.test_rights import Told

BROWSER = {"Sec-Fetch-Site": "same-origin"}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def through():
    """Runs a scenario with a proxy before a real page that knows the token t-anna."""

    def run(scenario, token="t-anna"):
        async def scene(url):
            given, refused, clock = [], [], Clock()

            async def fresh():
                given.append(token)
                return token

            proxy = PageProxy(url, fresh, refused.append, clock=clock)
            await proxy.start()
            try:
                async with aiohttp.ClientSession() as client:
                    return await scenario(proxy, client, clock, given, refused)
            finally:
                await proxy.close()

        with served(MadeObjects(fleet_of(8)), rights=Told(), authentication=Authentication()) as url:
            return asyncio.run(scene(url))

    return run


def code_of(proxy):
    return proxy.sign_in_address.partition("#sign-in=")[2]


async def sign_in(proxy, client, code, headers=BROWSER):
    async with client.post(f"{proxy.address}sign-in", json={"code": code}, headers=headers) as answer:
        return answer.status, await answer.json()


async def user(proxy, client, token, **headers):
    async with client.get(
        f"{proxy.address}api/session", headers={"Authorization": f"Bearer {token}", **headers}
    ) as answer:
        return answer.status, await answer.json()


def test_a_code_becomes_a_session_and_the_session_is_no_token(through):
    async def scenario(proxy, client, _clock, given, _refused):
        assert "sign-in" not in proxy.address
        _, session = await sign_in(proxy, client, code_of(proxy))
        return session["token"], await user(proxy, client, session["token"]), given

    session, (status, told), given = through(scenario)

    assert (200, "anna") == (status, told["user"])
    assert ["t-anna"] == given
    assert "t-anna" not in session


def test_a_body_that_comes_in_parts_is_passed_on_as_a_whole(through):
    """As one of more than some ten kilobytes does, such as a long manifest of a what-if run."""

    async def scenario(proxy, client, _clock, _given, _refused):
        whole = f'{{"code": "{code_of(proxy)}"}}'.encode()

        async def in_parts():
            yield whole[:20]
            await asyncio.sleep(0.1)
            yield whole[20:]

        async with client.post(f"{proxy.address}sign-in", data=in_parts(), headers=BROWSER) as answer:
            return answer.status

    assert 200 == through(scenario)


def test_a_body_that_is_too_long_is_refused(through):
    async def scenario(proxy, client, _clock, _given, _refused):
        async with client.post(f"{proxy.address}api/what-if", data=b"x" * (2**18 + 1), headers=BROWSER) as answer:
            return answer.status

    assert 413 == through(scenario)


def test_a_code_is_good_once(through):
    async def scenario(proxy, client, _clock, _given, refused):
        answers = [await sign_in(proxy, client, code_of(proxy)) for _ in range(2)]
        return [status for status, _ in answers], refused

    statuses, refused = through(scenario)

    assert [200, 403] == statuses
    assert 1 == len(refused), "a person learns that somebody showed the code again"


def test_a_code_is_good_for_two_minutes(through):
    async def scenario(proxy, client, clock, _given, _refused):
        clock.now = 120.0
        return await sign_in(proxy, client, code_of(proxy))

    assert 403 == through(scenario)[0]


@pytest.mark.parametrize("code", ["", "x" * 43, "\u00e9"])
def test_a_wrong_code_takes_nothing_of_the_right_one(through, code):
    async def scenario(proxy, client, _clock, given, _refused):
        wrong = await sign_in(proxy, client, code)
        return wrong[0], (await sign_in(proxy, client, code_of(proxy)))[0], given

    assert (403, 200, []) == through(scenario)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example", **BROWSER}, 421),
        ({"Host": "127.0.0.1:1", **BROWSER}, 421),
    ],
)
def test_another_site_signs_nobody_in_also_by_a_name_that_points_here(through, headers, expected):
    async def scenario(proxy, client, _clock, _given, _refused):
        return await sign_in(proxy, client, code_of(proxy), headers)

    assert expected == through(scenario)[0]


@pytest.mark.parametrize("form", ["//{elsewhere}/", "http://{elsewhere}/", "//u:p@{elsewhere}/"])
def test_a_path_that_names_another_server_reaches_none(through, form):
    """What it answered would be shown as the page's own, and be sent the token of who is signed in."""

    async def scenario(proxy, client, _clock, given, _refused):
        reached = []
        server = await asyncio.start_server(lambda *_: reached.append(True), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        _, session = await sign_in(proxy, client, code_of(proxy))
        own = proxy.address.removeprefix("http://").rstrip("/")
        reader, writer = await asyncio.open_connection(*own.split(":"))
        path = form.format(elsewhere=f"{host}:{port}")
        headers = f"Host: {own}\r\nAuthorization: Bearer {session['token']}\r\nConnection: close\r\n"
        writer.write(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
        answer = await reader.read()
        writer.close()
        server.close()
        return answer.split()[1], reached, given

    status, reached, given = through(scenario)

    assert (b"400", [], []) == (status, reached, given)


def test_whoever_has_no_session_gets_what_the_page_gives_to_nobody(through):
    """A port of loopback is open to each user of the machine: the documents have no data, and data needs a session."""

    async def scenario(proxy, client, _clock, given, _refused):
        async with client.get(proxy.address) as document, client.get(f"{proxy.address}api/fleet") as fleet:
            return document.status, fleet.status, (await user(proxy, client, "guessed"))[0], given

    assert (200, 401, 401, []) == through(scenario)


def test_a_token_is_made_anew_after_four_minutes(through):
    async def scenario(proxy, client, clock, given, _refused):
        session = (await sign_in(proxy, client, code_of(proxy)))[1]["token"]
        for now in (1.0, 240.0, 241.0, 481.0):
            clock.now = now
            assert 200 == (await user(proxy, client, session))[0]
        return len(given)

    assert 2 + 1 == through(scenario), "at 1 s, 241 s and 481 s"


def test_a_page_that_is_gone_is_told_in_words(through):
    async def scenario(_proxy, client, clock, _given, refused):
        async def token():
            return "t"

        lost = PageProxy("http://127.0.0.1:9", token, refused.append, clock=clock)
        await lost.start()
        try:
            return await user(lost, client, "t")
        finally:
            await lost.close()

    status, told = through(scenario)

    assert (502, True) == (status, "does not answer" in told["error"])


def test_the_kernels_table_tells_whose_process_is_at_the_other_end(tmp_path):
    """0x2328 is port 9000, 0x1F90 port 8080; the sixth column behind the addresses is the user."""

    class Request:
        class transport:  # noqa: N801 - as aiohttp has it
            @staticmethod
            def get_extra_info(_name):
                return ("127.0.0.1", 9000)

    table = tmp_path / "tcp"
    table.write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:1F90 0100007F:2328 01 00000000:00000000 00:00000000 00000000     0        0 1\n"
        "   1: 0100007F:2328 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2\n"
    )
    assert 1001 == user_of_peer(Request(), 8080, table)
    assert user_of_peer(Request(), 8081, table) is None
    assert user_of_peer(Request(), 8080, tmp_path / "none") is None


def test_a_process_of_another_user_is_refused_even_with_the_code(through, monkeypatch):
    monkeypatch.setattr("cronhpa.cli.objects.page_proxy.user_of_peer", lambda *_: os.getuid() + 4711)

    async def scenario(proxy, client, _clock, _given, refused):
        return (await sign_in(proxy, client, code_of(proxy)))[0], refused

    status, refused = through(scenario)

    assert 403 == status
    assert str(os.getuid() + 4711) in refused[0]
