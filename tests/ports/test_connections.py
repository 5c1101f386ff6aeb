"""cronhpa.ports.connections: connections are few, of one address fewer, and none lasts."""

import asyncio
from contextlib import suppress
from functools import partial

from cronhpa.ports.connections import ConnectionLimits, Connections


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


async def opened(limits, scenario):
    connections, made = Connections("127.0.0.1", 0, Echo, limits=limits), []
    running = asyncio.create_task(connections.run())
    try:
        return await scenario(partial(connect, connections, made), connections)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for _, writer in made:
            writer.close()


async def connect(connections, made, count):
    """So many more; each is answered before the next one opens, so that all are accepted in order."""
    for _ in range(count):
        reader, writer = await asyncio.open_connection(*connections.address)
        writer.write(b"x")
        assert b"x" == await asyncio.wait_for(reader.read(1), 60)
        made.append((reader, writer))
    return made[-count:]


async def is_open(reader):
    try:
        await asyncio.wait_for(reader.read(1), 0.1)
    except TimeoutError:
        return True
    except OSError:
        return False
    return False


async def test_a_new_connection_pushes_out_the_oldest():
    async def scenario(connect, connections):
        made = await connect(4)
        return [await is_open(reader) for reader, _ in made]

    assert [False, True, True, True] == await opened(ConnectionLimits(connections=3, per_peer=3), scenario)


async def test_one_address_has_fewer_than_there_are():
    async def scenario(connect, connections):
        await connect(5)
        return connections.count

    assert 2 == await opened(ConnectionLimits(connections=8, per_peer=2), scenario)


async def test_a_connection_ends_whatever_it_does():
    """Otherwise a client that sends a byte now and then would hold its place for ever."""

    async def scenario(connect, connections):
        ((reader, _),) = await connect(1)
        return await asyncio.wait_for(reader.read(1), 60)

    with suppress(ConnectionResetError):
        assert b"" == await opened(ConnectionLimits(life_seconds=0.2), scenario)


async def test_connections_that_ended_give_their_place_back():
    async def scenario(connect, connections):
        for _, writer in await connect(2):
            writer.close()
        await asyncio.sleep(0.1)
        made = await connect(2)
        return [await is_open(reader) for reader, _ in made]

    assert [True, True] == await opened(ConnectionLimits(connections=2, per_peer=2), scenario)
