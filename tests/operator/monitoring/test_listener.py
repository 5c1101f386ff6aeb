"""The ports under attack: half-open connections, slow heads, slow readers, bodies, one address against the others."""

import asyncio
import contextlib
import socket
from http import HTTPStatus

import pytest

from cronhpa.operator.monitoring.listener import Listener, limits_within, response
from cronhpa.ports.connections import ConnectionLimits

ASK = b"GET /healthz HTTP/1.1\r\nHost: operator\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nHost: oper"
LONG = 8_000_000  # more than the kernel takes for a reader that reads nothing


@contextlib.asynccontextmanager
async def listening(connections=32, per_peer=8, life_seconds=15.0):
    routes = {
        "/healthz": lambda: response(HTTPStatus.OK, "ok\n"),
        "/long": lambda: response(HTTPStatus.OK, b"x" * LONG),
        "/broken": lambda: 1 // 0,
    }
    listener = Listener("127.0.0.1", 0, routes, ConnectionLimits(connections, per_peer, life_seconds))
    served = asyncio.create_task(listener.run())
    try:
        yield listener
    finally:
        served.cancel()
        await asyncio.gather(served, return_exceptions=True)


async def connected(listener, sent=b"", source="127.0.0.1"):
    """A connection from an address; all of 127.0.0.0/8 is this machine's."""
    sock = socket.socket()
    sock.bind((source, 0))
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, listener.address)
    await loop.sock_sendall(sock, sent)
    return sock


async def received(sock, seconds=60):
    """All that comes until the other side ends; None where it ends with a reset."""
    loop, data = asyncio.get_running_loop(), b""
    async with asyncio.timeout(seconds):
        try:
            while part := await loop.sock_recv(sock, 1 << 20):
                data += part
        except ConnectionResetError:
            return None
        finally:
            sock.close()
    return data


async def dropped(listener):
    """Waits until one connection was dropped."""
    async with asyncio.timeout(60):
        while listener.dropped != 1:  # noqa: ASYNC110 - the listener tells nobody
            await asyncio.sleep(0.01)


async def asked(listener, sent=ASK, source="127.0.0.1"):
    return await received(await connected(listener, sent, source))


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


async def half_open(listener, count, source="127.0.0.1"):
    return [await connected(listener, HALF, source) for _ in range(count)]


async def ended_of(socks, least):
    """How many of them the other side has ended half a second after it has ended `least`; all are closed."""
    for _ in range(1200):
        if sum(map(has_ended, socks)) >= least:
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)
    ended = sum(map(has_ended, socks))
    end(socks)
    return ended


def has_ended(sock):
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def end(socks):
    for sock in socks:
        sock.close()


async def test_a_request_is_answered_and_the_connection_ends_with_it():
    async with listening() as listener:
        answer = await asked(listener)
        await asyncio.sleep(0.1)  # until it has seen that the other side is done

    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"ok\n" == body
    assert {b"Content-Length: 3", b"Connection: close", b"Server: cronhpa"} < {*head.split(b"\r\n")}
    assert 0 == listener.dropped


async def test_connections_that_had_their_answer_are_over_at_once():
    """One after the other from one address: none of them takes the place of the next, or counts as dropped."""
    async with listening(connections=2, per_peer=2) as listener:
        for _ in range(50):
            assert 200 == status_of(await asked(listener))

    assert 0 == listener.dropped


async def test_a_probe_is_answered_while_several_hundred_half_open_connections_are_held():
    """From five addresses beside the kubelet's: each answer within its time, none of the others is waited for."""
    async with listening() as listener:
        held = [sock for number in range(2, 7) for sock in await half_open(listener, 100, f"127.0.0.{number}")]
        answers = [await asked(listener) for _ in range(10)]
        end(held)

    assert {200} == {status_of(answer) for answer in answers}


async def test_a_probe_is_answered_where_its_own_address_holds_them():
    """A pod of the node's network has the kubelet's address."""
    async with listening() as listener:
        held = await half_open(listener, 300)
        answers = [await asked(listener) for _ in range(10)]
        end(held)

    assert {200} == {status_of(answer) for answer in answers}


async def test_no_more_connections_are_open_than_the_budget_says():
    """40 from each of ten addresses: 8 of each would be 80, all together may be 20. The rest are closed."""
    async with listening(connections=20, per_peer=8, life_seconds=600) as listener:
        held = [sock for number in range(2, 12) for sock in await half_open(listener, 40, f"127.0.0.{number}")]
        ended = await ended_of(held, 400 - 20)

    assert 400 - 20 == ended


async def test_no_more_connections_are_open_of_one_address_than_the_budget_says():
    async with listening(connections=20, per_peer=8, life_seconds=600) as listener:
        ended = await ended_of(await half_open(listener, 15), 15 - 8)

    assert 15 - 8 == ended


async def test_connections_that_are_over_take_no_room():
    """Twenty requests are answered, and each of eight connections of the same address is held then."""
    async with listening(per_peer=8, life_seconds=600) as listener:
        for _ in range(20):
            await asked(listener)
        ended = await ended_of(await half_open(listener, 8), 0)

    assert 0 == ended


async def test_an_answer_that_is_not_taken_holds_its_place_until_the_deadline():
    """The kernel would keep it, and thousands of them would be memory."""
    async with listening(life_seconds=1.0) as listener:
        sock = await connected(listener, ASK)
        await asyncio.sleep(0.1)
        before = listener.dropped
        await dropped(listener)
        sock.close()

    assert 0 == before


async def test_one_address_does_not_push_out_another():
    """The other's two are the oldest, and stay: the one that holds most gives way to its own newcomers."""
    async with listening(connections=6, per_peer=5, life_seconds=60) as listener:
        others = await half_open(listener, 2, "127.0.0.2")
        held = await half_open(listener, 50, "127.0.0.3")
        for sock in others:
            await asyncio.get_running_loop().sock_sendall(sock, b"ator\r\n\r\n")
        answers = [await received(sock) for sock in others]
        end(held)

    assert [200, 200] == [status_of(answer) for answer in answers]


@pytest.mark.parametrize("sent", [b"", HALF])
async def test_a_head_that_does_not_end_ends_the_connection(sent):
    async with listening(life_seconds=0.2) as listener:
        assert await asked(listener, sent) is None

    assert 1 == listener.dropped


async def test_the_deadline_is_for_the_head_as_a_whole():
    """A byte every 50 ms is progress at every moment; after ten of them the half second is over."""
    sent = 0
    async with listening(life_seconds=0.5) as listener:
        loop, sock = asyncio.get_running_loop(), await connected(listener)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for byte in HALF * 10:
                await loop.sock_sendall(sock, bytes([byte]))
                sent += 1
                await asyncio.sleep(0.05)
        sock.close()

    assert 1 == listener.dropped
    assert sent < len(HALF)


async def test_a_head_in_pieces_is_a_head():
    async with listening() as listener:
        loop, sock = asyncio.get_running_loop(), await connected(listener)
        for start in range(0, len(ASK), 15):
            await loop.sock_sendall(sock, ASK[start : start + 15])
            await asyncio.sleep(0.01)

        assert 200 == status_of(await received(sock))


async def test_who_does_not_read_the_answer_is_ended():
    async with listening(life_seconds=0.3) as listener:
        sock = await connected(listener, b"GET /long HTTP/1.1\r\nHost: operator\r\n\r\n")
        await dropped(listener)
        answer = await received(sock)

    assert answer is None or len(answer) < LONG


async def test_slow_readers_starve_nobody_who_reads():
    """Eight of them from each of four addresses fill the budget; a scrape from a fifth has all of its answer."""
    async with listening() as listener:
        ask = b"GET /long HTTP/1.1\r\nHost: operator\r\n\r\n"
        held = [await connected(listener, ask, f"127.0.0.{number}") for number in range(2, 6) for _ in range(8)]
        answer = await asked(listener, ask)
        end(held)

    assert LONG + answer.index(b"\r\n\r\n") + 4 == len(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", [HALF, ASK, b"GET /long HTTP/1.1\r\nHost: operator\r\n\r\n"], ids=["half", "unread", "long"]
)
@pytest.mark.parametrize("sources", [("127.0.0.1",), tuple(f"127.0.0.{number}" for number in range(2, 42))])
async def test_probes_are_answered_while_connections_are_held_and_made_anew(sent, sources):
    """New ones come all the time, ten between two probes, from the kubelet's own address or from forty others."""
    async with listening() as listener:
        held, answers = [], []
        for turn in range(30):
            held += [
                await connected(listener, sent, sources[(turn * 10 + number) % len(sources)]) for number in range(10)
            ]
            answers.append(await asked(listener))
        end(held)

    assert [200] * 30 == [status_of(answer) if answer else None for answer in answers]


async def test_a_probe_that_has_just_connected_outlives_readers_that_do_not_read():
    """Others come between its connection and its request, as they do in a flood: the oldest of them gives way."""
    async with listening() as listener:
        ask = b"GET /long HTTP/1.1\r\nHost: operator\r\n\r\n"
        held = [await connected(listener, ask, f"127.0.0.{number}") for number in range(2, 34)]
        await asyncio.sleep(0.1)
        probe = await connected(listener)
        held += [await connected(listener, ask, f"127.0.0.{number}") for number in range(34, 50)]
        await asyncio.sleep(0.1)
        await asyncio.get_running_loop().sock_sendall(probe, ASK)
        answer = await received(probe)
        end(held)

    assert answer is not None
    assert 200 == status_of(answer)


async def test_a_second_request_is_not_answered():
    async with listening() as listener:
        answer = await asked(listener, ASK + ASK)

    assert 1 == answer.count(b"HTTP/1.1")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /healthz?verbose HTTP/1.1\r\nHost: operator\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nHost: operator\r\nContent-Length: 0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: operator\r\n\r\n", 404),
        (b"GET /healthz/../secret HTTP/1.1\r\nHost: operator\r\n\r\n", 404),
        (b"POST /healthz HTTP/1.1\r\nHost: operator\r\n\r\n", 405),
        (b"DELETE /metrics HTTP/1.1\r\nHost: operator\r\n\r\n", 405),
        (b"GET /healthz HTTP/1.1\r\nHost: operator\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET /healthz HTTP/1.1\r\nHost: operator\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"GET /healthz HTTP/1.1\r\nHost: operator\r\ncontent-length : 99999999999\r\n\r\n", 400),
        (b"POST /healthz HTTP/1.1\r\nHost: operator\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 413),
        (b"GET /healthz HTTP/1.1\r\nHost: operator\r\nCookie: " + b"x" * 17_000 + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\nHost: operator\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xff\x00 HTTP/1.1\r\nHost: operator\r\n\r\n", 400),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else None,
)
async def test_nothing_but_a_plain_request_is_accepted(sent, status):
    async with listening() as listener:
        assert status == status_of(await asked(listener, sent))


async def test_head_is_answered_without_a_body():
    async with listening() as listener:
        answer = await asked(listener, b"HEAD /healthz HTTP/1.1\r\nHost: operator\r\n\r\n")

    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"" == body
    assert b"Content-Length: 3" in head.split(b"\r\n")


async def test_a_peer_that_has_nothing_more_to_send_has_its_answer():
    async with listening() as listener:
        sock = await connected(listener, ASK)
        sock.shutdown(socket.SHUT_WR)
        answer = await received(sock)

    assert answer.endswith(b"\r\n\r\nok\n")


async def test_what_is_no_request_is_answered_without_a_word_of_it_and_not_logged(caplog):
    async with listening() as listener:
        answer = await asked(listener, b"GET / HTTP/1.1\r\nHost: operator\r\nAuthorization : Bearer s3cr3t\r\n\r\n")

    assert 400 == status_of(answer)
    assert b"s3cr3t" not in answer
    assert b"aiohttp" not in answer
    assert [] == caplog.records


async def test_an_answer_in_the_making_ends_with_its_connection():
    """A reader that is pushed out leaves nothing behind that goes on waiting."""
    ended = asyncio.Event()

    async def waits(_request):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    listener = Listener("127.0.0.1", 0, {}, ConnectionLimits(2, 1), {"/v1/": waits})
    served = asyncio.create_task(listener.run())
    first = await connected(listener, b"GET /v1/x HTTP/1.1\r\nHost: operator\r\n\r\n")
    await asyncio.sleep(0.1)
    second = await connected(listener)
    async with asyncio.timeout(60):
        await ended.wait()
    end([first, second])
    served.cancel()
    await asyncio.gather(served, return_exceptions=True)


async def test_a_route_that_fails_is_answered_and_logged(caplog):
    async with listening() as listener:
        assert 500 == status_of(await asked(listener, b"GET /broken HTTP/1.1\r\nHost: operator\r\n\r\n"))
        assert 200 == status_of(await asked(listener))

    assert ["/broken cannot be answered"] == [record.message for record in caplog.records]


async def test_a_port_that_is_taken_is_named():
    async with listening() as listener:
        with pytest.raises(OSError, match=f"127.0.0.1, port {listener.address[1]}: Address already in use"):
            Listener(*listener.address, {})  # type: ignore[call-arg]  # the star gives host and port


@pytest.mark.parametrize(
    ("files", "connections", "per_peer"), [(256, 16, 8), (1024, 32, 8), (10**6, 32, 8), (64, 4, 4)]
)
def test_two_listeners_take_an_eighth_of_the_files_at_most(files, connections, per_peer):
    limits = limits_within(files)

    assert (connections, per_peer) == (limits.connections, limits.per_peer)
