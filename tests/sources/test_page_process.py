"""cronhpa.sources.page_process: the process that reads pods' pages is started, replaced and ended."""

import asyncio
import os
import signal

from cronhpa.sources.page_process import PageProcess
from cronhpa.sources.page_worker import PodNumber
from sources.pod_servers import plain, raw_pods
from sources.test_page_worker import at, request


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_process_is_started_by_the_first_scrape_and_ended_by_the_last_close():
    process = PageProcess()
    with raw_pods(plain(b"inflight 7\n")) as pods:
        assert process.pid is None
        answers = await asyncio.gather(*(process.scrape(request(at(pods.port))) for _ in range(3)))
    pid = process.pid
    assert is_running(pid)
    await process.close()

    assert [[PodNumber(7.0)]] * 3 == [answer.numbers for answer in answers]
    assert not is_running(pid)


async def test_a_process_that_was_killed_costs_the_scrapes_under_way_and_no_later_ones():
    process = PageProcess()
    with raw_pods(b"", closes=False) as hanging, raw_pods(plain(b"inflight 7\n")) as pods:
        under_way = asyncio.create_task(process.scrape(request(at(hanging.port))))
        while not hanging.accepted:  # noqa: ASYNC110 - a pod in a thread has no event of asyncio
            await asyncio.sleep(0.01)
        killed = process.pid
        os.kill(killed, signal.SIGKILL)
        lost = await under_way
        answer = await process.scrape(request(at(pods.port)))
        started = process.pid
        await process.close()

    assert [
        PodNumber(problem="the operator's process that reads pods' pages ended, and is started again")
    ] == lost.numbers
    assert [PodNumber(7.0)] == answer.numbers
    assert killed != started
    assert not is_running(killed)


async def test_closing_ends_the_scrapes_that_wait():
    process = PageProcess()
    with raw_pods(b"", closes=False) as hanging:
        under_way = asyncio.create_task(process.scrape(request(at(hanging.port))))
        while not hanging.accepted:  # noqa: ASYNC110 - a pod in a thread has no event of asyncio
            await asyncio.sleep(0.01)
        await process.close()

        assert "ended" in (await under_way).numbers[0].problem
