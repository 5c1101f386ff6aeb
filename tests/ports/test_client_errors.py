"""cronhpa.ports.client_errors: what is told of an error of a request, whatever the server repeats of it."""

import asyncio
import ssl

import aiohttp
import pytest

from cronhpa.ports.client_errors import error_text

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ECHO = b"Authorization Bearer s3cr3t"


async def error_of(answer):
    """The error of a request whose server answers with these bytes, and closes."""

    async def answers(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(answers, "127.0.0.1", 0) as server, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/private-s3cr3t/c.ics?key=s3cr3t"
        with pytest.raises(aiohttp.ClientError) as raised:
            async with session.get(url) as response:
                await response.read()
    return raised.value


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(b"HTTP/1.1 " + ECHO + b"\r\n\r\n", "ClientResponseError: Bad status line", id="status"),
        pytest.param(HEAD + ECHO + b"\r\n\r\n", "ClientResponseError: Invalid header token", id="header"),
        pytest.param(
            HEAD + b"X: " + ECHO + b"\0\r\n\r\n", "ClientResponseError: Invalid HTTP header", id="value of a header"
        ),
        pytest.param(
            HEAD + b"X: " + ECHO * 1000 + b"\r\n\r\n",
            "ClientResponseError: Got more than 8190 bytes when reading",
            id="long header",
        ),
        pytest.param(
            CHUNKED + b"1\r\na\r\n" + ECHO + b"\r\n", "ClientResponseError: Invalid character in chunk size", id="chunk"
        ),
        pytest.param(HEAD + b"X: " + ECHO + b"\r\n", "ServerDisconnectedError", id="half a head"),
        pytest.param(b"", "ServerDisconnectedError: Server disconnected", id="nothing"),
        pytest.param(
            HEAD + b"Content-Length: 99\r\n\r\n" + ECHO,
            "ClientPayloadError: Response payload is not completed",
            id="half a body",
        ),
        pytest.param(
            HEAD + b"Content-Encoding: gzip\r\nContent-Length: 27\r\n\r\n" + ECHO, "ClientPayloadError", id="no gzip"
        ),
    ],
)
async def test_what_an_answer_repeats_of_the_request_is_not_told(answer, told):
    """Found: the log held tokens that a server repeats in a line of its own, and the secret address of a calendar."""
    assert told == error_text(await error_of(answer))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "[Errno 104] Connection reset by peer"),
        (aiohttp.ClientOSError(104, "Connection reset by peer"), "[Errno 104] Connection reset by peer"),
        (aiohttp.ClientOSError(1, "[SSL] alert bad certificate"), "[Errno 1] [SSL] alert bad certificate"),
        (ssl.SSLError(1, "[SSL] wrong version"), "[SSL] wrong version"),
        (TimeoutError(), "TimeoutError"),
        (aiohttp.InvalidURL("http://h/private-s3cr3t"), "InvalidURL"),
        (aiohttp.ConnectionTimeoutError("Connection timeout to host http://h/private-s3cr3t"),
         "ConnectionTimeoutError: Connection timeout to host http"),
        (ValueError("Bearer s3cr3t \ud800 of http://h/?key=1"), "Bearer ... \\ud800 of http://h/?..."),
    ],
)  # fmt: skip
def test_the_words_of_the_system_and_of_tls_are_told_without_secrets(error, told):
    assert told == error_text(error, ["s3cr3t"])


async def test_a_server_that_cannot_be_reached_is_told_with_its_address():
    async with await asyncio.start_server(print, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError) as raised:
            await session.get(f"http://127.0.0.1:{port}/private-s3cr3t")

    told = error_text(raised.value)
    assert f"Cannot connect to host 127.0.0.1:{port} ssl:default [Connect call failed ('127.0.0.1', {port})]" == told
