"""cronhpa.sources.paced_connector: whatever a server sends, its answers take a small part of the event loop."""

import asyncio
import gzip
import time

import pytest

from cronhpa.core.model.observation import Absent
from cronhpa.ports import loop_share
from sources.answering_sources import measured
from sources.pod_servers import head, plain, raw_pods
from sources.test_url_value import source

CHUNKED = "Transfer-Encoding: chunked"
NUMBER = b'{"queues": [{"length": 42}]}'
MANY_MEMBERS = gzip.compress(b"") * 40_000


@pytest.mark.parametrize(
    "parts",
    [
        [b"HTTP/1.1 100 Continue\r\n\r\n" * 200_000],
        [b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" * 100_000],
        [head(CHUNKED), b"1\r\n \r\n" * 900_000],
        [head(CHUNKED), b"1;a=b\r\n \r\n" * 500_000],
        [head("Content-Encoding: gzip", length=len(MANY_MEMBERS)), MANY_MEMBERS],
        [plain(b'{"queues": 0, %b' % b",".join(b'"%d": 0' % key for key in range(90_000)) + b"}")],
        [plain(NUMBER) * 20_000],
    ],
    ids=["100 Continue", "103 Early Hints", "chunks of a byte", "chunk extensions", "members", "keys", "many answers"],
)
async def test_whatever_a_server_answers_to_eight_objects_the_loop_has_time_for_another_server(parts):
    """
    CPU time of the loop's thread. In the two seconds that a request has, 0.15 s are the hostile server's, and a
    millisecond for each request. Without a share it took most of the time, 2 s at a stretch.
    """
    with raw_pods(*parts, closes=False) as hostile, raw_pods(plain(NUMBER), closes=False) as honest:
        theirs, ours = source(hostile.port, timeoutSeconds=2), source(honest.port)
        assert 42_000 == await ours.value(measured())
        before = time.thread_time()
        asking = [
            asyncio.create_task(theirs.value(measured(f"{number}", target=measured().target))) for number in range(8)
        ]
        got = []
        for _ in range(20):
            got.append(await ours.value(measured(period=1e-3)))
            await asyncio.sleep(0.05)
        await asyncio.gather(*asking)
        seconds = time.thread_time() - before
        await theirs.close()
        await ours.close()

    assert [42_000] * 20 == got
    assert seconds < 0.6


async def test_what_stands_behind_an_answer_is_no_answer_to_the_next_request(monkeypatch):
    """The share is used up by the first 4 KiB: the second answer waits in the operator, and not in the parser."""
    monkeypatch.setattr(loop_share, "MOST_SECONDS", 1e-9)
    first = plain(NUMBER + b" " * (2**12 - len(plain(NUMBER + b" " * 1000)) + 1000))
    assert 2**12 == len(first)
    with raw_pods(first + plain(NUMBER.replace(b"42", b"43")), closes=False) as pods:
        asked = source(pods.port)
        got = [await asked.value(measured(period=1e-3)) for _ in range(5)]
        await asked.close()

    assert [42_000] * 5 == got


@pytest.mark.parametrize("closes", [False, True])
async def test_long_honest_answers_come_whole(closes):
    body = b'{"other": "' + b"x" * 900_000 + b'", "queues": [{"length": 42}]}'
    with raw_pods(plain(body), closes=closes) as pods:
        asked = source(pods.port)
        got = [await asked.value(measured(period=1e-3)) for _ in range(10)]
        await asked.close()

    assert [42_000] * 10 == got


async def test_answers_that_take_too_long_to_parse_are_no_value_with_the_reason():
    """90,000 keys take some 20 ms: of eighty a second few can be read."""
    body = b'{"queues": [{"length": 42}], %b' % b",".join(b'"%d": 0' % key for key in range(90_000)) + b"}"
    with raw_pods(plain(body), closes=False) as pods:
        asked = source(pods.port, timeoutSeconds=1, path="/$name")
        got = await asyncio.gather(*(asked.value(measured(f"{number}")) for number in range(80)))
        await asked.close()

    assert 42_000 in got
    assert {True} == {isinstance(one, Absent) or one == 42_000 for one in got}
    assert "to parse its answers takes more than 5% of a CPU: shorten them, or ask less often" in {
        one.message for one in got if isinstance(one, Absent)
    }
