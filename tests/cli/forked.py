"""
Commands, each in a process of its own that is forked from one which has imported them: a start takes some ms.

`python -m cli.forked` is that process: a request a line on standard input, an exit code a line on standard output.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, Self

from typer.main import get_command

TESTS = Path(__file__).parents[1]
# What commands import late, and most of them need.
_IMPORTED = ("api.parse", "api.rules", "cli", "kube.client", "kube.contexts", "migration.convert", "sources.parse")
# What a command may compute; on a machine that is busy with something else, it takes ten times as long.
_CPU_SECONDS = 60
_SECONDS = 10 * _CPU_SECONDS


class ForkedCommands:
    """
    Use as a context manager, in which it runs commands one after the other.

    folder: of what they print; path: where Python looks for modules first.
    """

    def __init__(self, folder: Path, path: Path = TESTS) -> None:
        self._folder, self._path = folder, os.pathsep.join(map(str, (path, TESTS)))

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": self._path, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "cli.forked"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate(timeout=_SECONDS)

    def run(
        self,
        *arguments: object,
        given: bytes = b"",
        memory: int | None = None,
        environment: dict[str, str] | None = None,
        within: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """
        The completed command, of a minute of CPU at most.

        given: its standard input; memory: bytes of address space; within: its working directory.
        """
        files = [self._folder / name for name in ("stdin", "stdout", "stderr")]
        files[0].write_bytes(given)
        request = {
            "arguments": [str(argument) for argument in arguments],
            "files": [str(file) for file in files],
            "memory": memory,
            "environment": environment or {},
            "within": str(within or Path.cwd()),
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, files[1].read_bytes(), files[2].read_bytes())


def _run(request: dict[str, Any]) -> None:
    """Never returns: ends with the exit code of `python -m cronhpa.cli`."""
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    signal.alarm(_SECONDS)
    for number, name in enumerate(request["files"]):
        os.dup2(os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.environ.update(request["environment"])
    os.chdir(request["within"])
    if request["memory"] is not None:
        resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    sys.argv = ["cronhpa", *request["arguments"]]
    from cronhpa.cli import main

    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 1)  # to take down what was imported costs more than most commands


def _serve() -> None:
    for name in _IMPORTED:
        importlib.import_module(f"cronhpa.{name}")
    get_command(importlib.import_module("cronhpa.cli").app)  # typer imports more of itself for it
    gc.freeze()
    # Nothing of them is in a buffer that a fork would copy.
    requests, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.dup(1)
    while line := requests.readline():
        request = json.loads(line)
        if (child := os.fork()) == 0:
            requests.close()
            os.close(answers)
            _run(request)
        _, status = os.waitpid(child, 0)
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _serve()
