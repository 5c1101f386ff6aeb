"""
What pods' pages cost the operator's event loop, and what an honest neighbour gets meanwhile.

For each form of page, PAGES_PODS (30 and 200) hostile pods of one object are asked each second beside 5 honest pods of
another namespace, on loopback, for PAGES_SECONDS (6). PAGES_ONLY names forms. The figures: the worst and the total time
for which the loop was away, by the clock and in its own CPU time; the CPU of the worker; the neighbour's numbers.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import multiprocessing
import os
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from report import calibration_line, machine, save

from cronhpa.core.model.observation import Container, Pod
from cronhpa.core.model.spec import MetricTarget, PodsMetric, TargetRef
from cronhpa.sources.metric_sources import MetricSources
from cronhpa.sources.parse import parse_sources
from cronhpa.sources.source import MeasuredObject

SECONDS = int(os.environ.get("PAGES_SECONDS", "6"))
PODS = [int(count) for count in os.environ.get("PAGES_PODS", "30,200").split(",")]
_BEAT = 0.005
# Timers are late by as much where nothing happens.
_NOISE = 0.002
_HONEST = 5
_SECOND_NS = 10**9


def _head(*headers: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: text/plain", *headers, "", ""]).encode()


def _plain(body: bytes) -> bytes:
    return _head(f"Content-Length: {len(body)}") + body


def _packed(body: bytes) -> bytes:
    packed = gzip.compress(body)
    return _head(f"Content-Length: {len(packed)}", "Content-Encoding: gzip") + packed


def _bomb() -> bytes:
    """1 GB of zeros in 1 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    block = bytes(2**20)
    packed = b"".join([*(packer.compress(block) for _ in range(1000)), packer.flush()])
    return _head(f"Content-Length: {len(packed)}", "Content-Encoding: gzip") + packed


def _members() -> bytes:
    packed = gzip.compress(b"\n") * 30_000
    return _head(f"Content-Length: {len(packed)}", "Content-Encoding: gzip") + packed


def _chunks(chunk: bytes, count: int) -> bytes:
    return _head("Transfer-Encoding: chunked") + chunk * count + b"0\r\n\r\n"


FORMS: dict[str, Callable[[], bytes]] = {
    "one sample": lambda: _plain(b"inflight 7\n"),
    "empty lines, gzip": lambda: _packed(b"\n" * 99_990),
    "comments, gzip": lambda: _packed(b"# HELP a b\n" * 99_990),
    "near misses, gzip": lambda: _packed(b"inflighty 1\n" * 99_990),
    "500 samples": lambda: _plain(b"".join(b'inflight{path="/%d"} 1\n' % number for number in range(500))),
    "1,900 samples": lambda: _plain(b"".join(b'inflight{path="/%d"} 1\n' % number for number in range(1900))),
    "4 MiB of lines": lambda: _plain(b'http_requests_total{path="/a",code="200"} 12345\n' * 80_000),
    "100 Continue": lambda: b"HTTP/1.1 100 Continue\r\n\r\n" * 200_000 + _plain(b"inflight 7\n"),
    "100 headers": lambda: _head(*(f"X-{number}: {'x' * 8000}" for number in range(100))) + b"\r\n",
    "chunks of a byte": lambda: _chunks(b"1\r\n\n\r\n", 99_990),
    "chunk extensions": lambda: _chunks(b"1;" + b"x" * 4000 + b"\r\n\n\r\n", 5000),
    "bomb of gzip": _bomb,
    "members of gzip": _members,
    "a byte a millisecond": lambda: _head("Content-Length: 100000") + b"\n" * 100_000,
    "hang": lambda: b"",
}


async def _serve(payload: bytes, *, is_slow: bool) -> int:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                if not is_slow:
                    writer.write(payload)
                    await writer.drain()
                    continue
                for byte in payload:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.001)
        writer.close()

    server = await asyncio.start_server(answer, "0.0.0.0", 0, backlog=1024)  # all of 127.0.0.0/8
    return int(server.sockets[0].getsockname()[1])


def pods_of(form: str, pipe: Connection) -> None:
    """Runs in a process of its own: pods at a port of every loopback address. Real ones have CPUs of their own."""

    async def run() -> None:
        pipe.send(await _serve(FORMS[form](), is_slow=form == "a byte a millisecond"))
        await asyncio.to_thread(pipe.recv)
        os._exit(0)

    os.nice(10 if form != "one sample" else 0)
    asyncio.run(run())


def _pod(name: str, number: int) -> Pod:
    address = f"127.0.{1 + number // 250}.{1 + number % 250}"
    return Pod(f"{name}-{number}", "Running", False, "True", 0, 0, 0, (Container("app", {}),), ip=address)


def _measured(namespace: str, count: int) -> MeasuredObject:
    pods = tuple(_pod(namespace, number) for number in range(count))
    return MeasuredObject(namespace, "shop", TargetRef("apps/v1", "Deployment", "shop"), pods, _SECOND_NS)


def _children_cpu() -> float:
    """CPU seconds of this process's children that run, but of the pods'."""
    pods = {child.pid for child in multiprocessing.active_children()}
    total = 0.0
    for folder in Path("/proc/self/task").iterdir():
        for pid in map(int, (folder / "children").read_text().split()):
            if pid not in pods:
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return total


async def _measure(ports: tuple[int, int], count: int) -> dict[str, float]:
    stated = {
        name: {"pods": {"port": port, "metric": "inflight", "podNetworks": ["127.0.0.0/8"]}}
        for name, port in zip(("hostile", "honest"), ports, strict=True)
    }
    sources = MetricSources(time.time_ns)
    await sources.replace(parse_sources(json.dumps({"sources": stated}), "benchmark"), {})
    gaps: list[float] = []
    cpu_gaps: list[float] = []
    target = MetricTarget("AverageValue", average_value=10_000)

    async def beat() -> None:
        at, cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(_BEAT)
            now, used = time.perf_counter(), time.thread_time()
            late = now - at - _BEAT
            gaps.append(late if late > _NOISE else 0.0)
            cpu_gaps.append(used - cpu)
            at, cpu = now, used

    async def neighbour() -> list[float]:
        """Seconds until each number, infinite where none came."""
        waits = []
        for _ in range(SECONDS):
            begun = time.perf_counter()
            answer = await sources.value(PodsMetric("honest", target), _measured("neighbour", _HONEST))
            waits.append(time.perf_counter() - begun if isinstance(answer, dict) else float("inf"))
            await asyncio.sleep(max(0.0, 1.0 - (time.perf_counter() - begun)))
        return waits

    async def hostile() -> str:
        told = ""
        while True:
            begun = time.perf_counter()
            answer = await sources.value(PodsMetric("hostile", target), _measured("hostile", count))
            told = f"{len(answer)} numbers" if isinstance(answer, dict) else answer.message
            messages.append(told)
            await asyncio.sleep(max(0.0, 1.0 - (time.perf_counter() - begun)))

    messages: list[str] = []
    # The first answer starts what there is to start.
    await sources.value(PodsMetric("honest", target), _measured("neighbour", _HONEST))
    await asyncio.sleep(1)
    gc.collect()
    gc.freeze()  # as the operator does
    cpu, workers, begun = time.process_time(), _children_cpu(), time.perf_counter()
    tasks = [asyncio.create_task(beat()), asyncio.create_task(hostile())]
    waits = await neighbour()
    seconds = time.perf_counter() - begun
    worker = _children_cpu() - workers
    cpu = time.process_time() - cpu
    for task in tasks:
        task.cancel()
    await sources.close()
    came = [wait for wait in waits if wait < float("inf")]
    return {
        "away_worst_ms": round(1000 * max(gaps), 1),
        "away_percent": round(100 * sum(gaps) / seconds, 1),
        "loop_cpu_worst_ms": round(1000 * max(cpu_gaps), 1),
        "loop_cpu_percent": round(100 * cpu / seconds, 1),
        "worker_cpu_percent": round(100 * worker / seconds, 1),
        "neighbours_numbers_percent": round(100 * len(came) / len(waits)),
        "neighbour_waits_worst_ms": round(1000 * max(came, default=0.0)),
        "told": messages[-1] if messages else "",
    }


def main() -> None:
    names = [name for name in FORMS if os.environ.get("PAGES_ONLY", "") in name]
    document: dict[str, Any] = {}
    print("| page | pods | loop away: worst, ms | % | loop's CPU: worst, ms | % | worker's CPU, %", end=" ")
    print("| neighbour's numbers, % | latest, ms |")
    print("| --- " * 9 + "|")
    context = multiprocessing.get_context("spawn")
    for name in names:
        for count in PODS:
            pipes = [context.Pipe() for _ in range(2)]
            processes = [
                context.Process(target=pods_of, args=(form, theirs), daemon=True)
                for form, (_, theirs) in zip((name, "one sample"), pipes, strict=True)
            ]
            for process in processes:
                process.start()
            hostile, honest = (ours.recv() for ours, _ in pipes)
            figures = asyncio.run(_measure((hostile, honest), count))
            for process, (ours, _) in zip(processes, pipes, strict=True):
                ours.send(None)
                process.join()
            document[f"{name}, {count} pods"] = figures
            *row, told = figures.values()
            print("|", " | ".join(map(str, (name, count, *row))), "|", told, flush=True)
    document["machine"] = machine()
    print(calibration_line(document["machine"]))
    save("pod_pages", document)


if __name__ == "__main__":
    main()
