"""cronhpa.page.paced_tls: what clients send by TLS takes a share of the event loop."""

import asyncio
from contextlib import asynccontextmanager

from cronhpa.page.paced_tls import PIECE_BYTES, PacedTls
from cronhpa.ports.connections import Connections
from cronhpa.ports.loop_share import LoopShare
from sources.virtual_periods import Periods

PIECE_SECONDS = 0.01


class Tls(asyncio.BufferedProtocol):
    """Takes 10 ms of CPU for each piece that it is given."""

    def __init__(self, cpu):
        self.pieces, self._cpu = [], cpu

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):  # noqa: ARG002 - as of asyncio's own
        return bytearray(2**16)

    def buffer_updated(self, nbytes):
        self.pieces.append(nbytes)
        self._cpu.now += PIECE_SECONDS

    async def has(self, pieces):
        async with asyncio.timeout(60):
            while len(self.pieces) < pieces:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.001)


@asynccontextmanager
async def received(count):
    """What serves so many connections, each of which has sent 200 KiB."""
    cpu, made = Periods(), []
    share = LoopShare(asyncio.get_running_loop().time, cpu, share=0.1)
    await share.available()

    def protocol():
        made.append(Tls(cpu))
        return PacedTls(made[-1], share)

    connections = Connections("127.0.0.1", 0, protocol)
    running = asyncio.create_task(connections.run())
    writers = [(await asyncio.open_connection(*connections.address))[1] for _ in range(count)]
    for writer in writers:
        writer.write(b"x" * 200 * 2**10)
    while len(made) < count:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for writer in writers:
        writer.close()


async def test_all_connections_together_are_read_within_one_share():
    """Three read 4 pieces each, and so 120 ms of CPU: 50 ms at once, 30 in one pass, and the rest in 0.4 s."""
    begun = asyncio.get_running_loop().time()
    async with received(3) as made:
        for each in made:
            await each.has(4)
        seconds = asyncio.get_running_loop().time() - begun
        pieces = [piece for each in made for piece in each.pieces]

    assert len(pieces) * PIECE_SECONDS <= 0.05 + 3 * PIECE_SECONDS + 0.1 * seconds
    assert max(pieces) <= PIECE_BYTES


async def test_what_tls_does_not_want_to_read_stays_unread_until_it_wants_to():
    """Also once the share has something left again: six pieces are too much, by 10 ms, for a tenth of a second."""
    async with received(1) as (tls,):
        await tls.has(6)
        tls.transport.pause_reading()
        await asyncio.sleep(0)
        before = len(tls.pieces)
        await asyncio.sleep(1)
        unread = len(tls.pieces) - before
        tls.transport.resume_reading()
        await tls.has(before + 3)

    assert 0 == unread
