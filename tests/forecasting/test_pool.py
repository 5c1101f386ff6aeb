"""ProcessPool of our own: whatever a task does in one, it is an answer or a WorkerError here."""

import asyncio
import errno
import gc
import multiprocessing.popen_spawn_posix
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from cronhpa.forecasting.pool import ProcessPool, WorkerError
from forecasting.worker_tasks import is_running
from testbed.wait import wait_until

# What follows runs in the worker, found there by its name.


def echoes(payload):
    return payload


def is_cancelled(_payload):
    """As a dask client is when its scheduler dies under it."""
    raise asyncio.CancelledError


def times_out(_payload):
    raise TimeoutError("the scheduler did not answer")


def exits(_payload):
    sys.exit(3)


def answers_what_cannot_be_sent(_payload):
    return lambda: None


def eats_memory(_payload):
    """Two gigabytes, more than a worker may have."""
    return b"".join([bytes(50 * 2**20) for _ in range(40)])


def is_killed(_payload):
    os.kill(os.getpid(), 9)
    time.sleep(60)


def forks(payload):
    """Leaves a child behind, whose id is in the file that the payload names; then hangs, or dies."""
    path, _, how = payload.decode().partition(" ")
    child = os.fork()
    if not child:
        time.sleep(600)
    Path(path).write_text(str(child))
    if how == "dies":
        os._exit(1)
    os.waitpid(child, 0)
    return b""


def counts_frozen(_payload):
    return b"%d" % gc.get_freeze_count()


@pytest.fixture
async def processes():
    made = ProcessPool(1)
    yield made
    await made.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "said"),
    [
        (is_cancelled, "CancelledError: "),
        (times_out, "TimeoutError: the scheduler did not answer"),
        (exits, "SystemExit: 3"),
        (answers_what_cannot_be_sent, "local object 'answers_what_cannot_be_sent"),
        (eats_memory, "MemoryError: "),
        (is_killed, "the worker process died"),
    ],
)
async def test_whatever_a_task_raises_is_told_and_the_next_one_is_answered(processes, task, said):
    with pytest.raises(WorkerError, match=said):
        await processes.run(task, b"", 30)

    assert b"next" == await processes.run(echoes, b"next", 30)


async def test_a_deadline_ends_the_process_and_the_next_task_has_another(processes):
    await processes.run(echoes, b"", 30)
    (before,) = processes.pids

    with pytest.raises(WorkerError, match=r"no answer within 0.2 s"):
        await processes.run(time.sleep, 60, 0.2)

    assert b"next" == await processes.run(echoes, b"next", 30)
    assert (before,) != processes.pids


@pytest.mark.parametrize("stopped_by", ["its deadline", "its caller"])
async def test_a_process_goes_on_starting_for_the_next_task(tmp_path, monkeypatch, stopped_by):
    """Where processors are so busy that a start takes longer than a task may, the page never drew an object."""
    monkeypatch.setenv("MAY_START", str(tmp_path / "may start"))
    processes = ProcessPool(1, "forecasting.slow_to_import")

    if stopped_by == "its deadline":
        with pytest.raises(WorkerError, match=r"did not start within 0.2 s"):
            await processes.run(echoes, b"first", 0.2)
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(processes.run(echoes, b"first", 600), 0.2)
    wait_until((tmp_path / "importing").exists, within_s=600)
    (tmp_path / "may start").touch()

    assert b"next" == await processes.run(echoes, b"next", 600)
    assert [*map(str, processes.pids)] == (tmp_path / "importing").read_text().split()
    await processes.close()


async def test_a_module_that_cannot_be_imported_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    processes = ProcessPool(1, "written_later")

    with pytest.raises(WorkerError, match="No module named 'written_later'"):
        await processes.run(echoes, b"first", 600)
    (tmp_path / "written_later.py").touch()

    assert b"next" == await processes.run(echoes, b"next", 600)
    await processes.close()


async def test_a_start_that_hangs_is_ended_at_the_fifth_deadline_and_the_next_task_has_another_process(
    tmp_path, monkeypatch
):
    """Found: every task failed until the operator started again."""
    monkeypatch.setenv("MAY_START", str(tmp_path / "may start"))
    processes = ProcessPool(1, "forecasting.slow_to_import")
    started = []

    for _ in range(5):
        with pytest.raises(WorkerError, match=r"did not start within 0.1 s"):
            await processes.run(echoes, b"", 0.1)
        started += processes.pids
    (tmp_path / "may start").touch()

    assert b"next" == await processes.run(echoes, b"next", 600)
    assert (4, 1) == (len(started), len({*started}))  # the fifth ends it
    assert {*started}.isdisjoint(processes.pids)
    wait_until(lambda: not is_running(started[0]), within_s=60)
    await processes.close()


@pytest.mark.parametrize("has_begun_to_import", [False, True])
async def test_a_process_that_is_starting_ends_with_the_pool(tmp_path, monkeypatch, has_begun_to_import):
    """Found: it was not killed, and Python does not exit before such a process has."""
    monkeypatch.setenv("MAY_START", str(tmp_path / "may start"))
    processes = ProcessPool(1, "forecasting.slow_to_import")
    with pytest.raises(WorkerError, match=r"did not start within 0.01 s"):
        await processes.run(echoes, b"", 0.01)
    if has_begun_to_import:
        wait_until((tmp_path / "importing").exists, within_s=600)
    (starting,) = processes.pids

    await processes.close()

    wait_until(lambda: not is_running(starting), within_s=60)


async def test_a_task_whose_process_is_ended_in_its_start_says_so(tmp_path, monkeypatch):
    """Found: TypeError: object NoneType can't be used in 'await' expression."""
    monkeypatch.setenv("MAY_START", str(tmp_path / "may start"))
    processes = ProcessPool(1, "forecasting.slow_to_import")
    task = asyncio.create_task(processes.run(echoes, b"", 600))
    await asyncio.sleep(0.1)

    await processes.close()

    with pytest.raises(WorkerError, match="was ended while it started"):
        await task


async def test_a_module_whose_import_times_out_is_tried_again(tmp_path, monkeypatch):
    """Found: its TimeoutError was taken for a deadline, and raised again for each later task."""
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "waits_for_a_server.py"
    module.write_text("raise TimeoutError('the server did not answer')")
    processes = ProcessPool(1, "waits_for_a_server")

    with pytest.raises(WorkerError, match="TimeoutError: the server did not answer"):
        await processes.run(echoes, b"first", 600)
    module.write_text("is_there = True")

    assert b"next" == await processes.run(echoes, b"next", 600)
    await processes.close()


async def test_after_a_process_could_not_be_started_a_task_that_hangs_is_still_ended(processes, monkeypatch):
    """As at a limit of processes. Found: the next process had no known id, and went on for ever."""

    def refuses(*_):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with monkeypatch.context() as limited:
        limited.setattr(multiprocessing.popen_spawn_posix, "Popen", refuses)
        with pytest.raises(WorkerError, match=r"BlockingIOError: .*Resource temporarily unavailable"):
            await processes.run(echoes, b"", 30)
    await processes.run(echoes, b"", 600)
    (hung,) = processes.pids

    with pytest.raises(WorkerError, match=r"no answer within 0.2 s"):
        await processes.run(time.sleep, 60, 0.2)

    wait_until(lambda: not is_running(hung), within_s=60)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["hangs", "dies"])
async def test_what_a_task_has_forked_ends_with_its_process(processes, tmp_path, how):
    """The child has the pipes of a process that died, whose end is therefore known at the deadline alone."""
    file = tmp_path / "child"
    await processes.run(echoes, b"", 30)  # a process that has started forks in time, on a busy machine too

    with pytest.raises(WorkerError, match="no answer within 5 s"):
        await processes.run(forks, f"{file} {how}".encode(), 5)

    child = int(file.read_text())
    wait_until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
    assert b"next" == await processes.run(echoes, b"next", 30)


async def test_what_a_process_has_after_its_first_task_is_frozen_and_nothing_later(processes):
    """A collection does not look through it again, and what a later task leaves behind is still collected."""
    for _ in range(2):
        counts = [int(await processes.run(counts_frozen, b"", 30)) for _ in range(3)]
        assert 0 == counts[0] < counts[1] == counts[2]
        with pytest.raises(WorkerError):
            await processes.run(is_killed, b"", 30)
