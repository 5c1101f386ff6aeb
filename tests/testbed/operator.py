"""The real operator as a process of its own, with the rights that the chart gives it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.control_plane import die_with
from testbed.wait import wait_until

NAMESPACE = "cronhpa-system"
SERVICE_ACCOUNT = "cronhpa"
_ADDRESS = re.compile(r"serving /.* on [^:\s]+:(\d+)")
_PAST_ADDRESS = re.compile(r"serving past decisions on (127\.0\.0\.1:\d+)")
_PAGE_ADDRESS = re.compile(r"serving the page on (127\.0\.0\.1:\d+)")


class Operator:
    """
    `with Operator(kubeconfig, folder) as operator:` starts it and returns when it is ready.

    kubeconfig: of the chart's ServiceAccount: `plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)`.
    folder: where its store and its log are; a second operator on the same folder is a restart of the first.
    code: where its packages are, None for this checkout's. program: what Python runs, with `run` as its argument.
    settings: its environment, CRONHPA_*.
    """

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        code: Path | None = None,
        program: Sequence[str] = ("-m", "cronhpa.cli"),
        **settings: str,
    ) -> None:
        self.store = folder / "history.db"
        self.log = folder / "operator.log"
        self._environment = os.environ | {
            "CRONHPA_KUBECONFIG": str(kubeconfig),
            "CRONHPA_STORE": str(self.store),
            "CRONHPA_LISTEN_HOST": "127.0.0.1",
            "CRONHPA_LISTEN_PORT": "0",
            "CRONHPA_PROBE_PORT": "0",
            "CRONHPA_HISTORY_PORT": "0",
            "CRONHPA_PAGE_PORT": "0",
            "CRONHPA_LEADER_ELECT_RESOURCE_NAMESPACE": NAMESPACE,
            # One name for all of them: they run one after the other, and none waits for the Lease of a killed one.
            "CRONHPA_LEADER_ELECT_IDENTITY": "testbed",
            **{f"CRONHPA_{name.upper()}": value for name, value in settings.items()},
        }
        self._code, self._program = code, program
        if code is not None:
            self._environment["PYTHONPATH"] = f"{code}:{code / 'models'}"
        self._process: subprocess.Popen[bytes] | None = None
        self._logged = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it and waits until it is ready. Raises AssertionError with the end of its log where it is not."""
        self._logged = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._program, "run"],
                env=self._environment,
                cwd=self._code,  # where `-m` looks first
                stdout=log,
                stderr=log,
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - two system calls, no lock, no allocation of note
            )
        try:
            wait_until(lambda: not self.is_running or self._answers("/readyz"), within_s=60)
            assert self.is_running, "it ended"
        except AssertionError as error:
            raise AssertionError(f"the operator is not ready: {error}\n{self.tail()}") from None

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def ended(self, within_s: float = 30) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        assert self._process is not None
        return self._process.wait(within_s)

    def get(self, path: str) -> str:
        """What an endpoint answers."""
        return self._get(self.ports[0], path)

    def probe(self, path: str = "/healthz") -> str:
        """What the kubelet is answered, at the port of its own."""
        return self._get(self.ports[1], path)

    @staticmethod
    def _get(port: int, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.read().decode()

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _answers(self, path: str) -> bool:
        try:
            return bool(self.get(path))
        except (OSError, LookupError):
            return False

    @property
    def page_url(self) -> str:
        """Where the page is, as a port that is forwarded already."""
        with self.log.open(errors="replace") as log:
            log.seek(self._logged)
            return f"http://{_PAGE_ADDRESS.findall(log.read())[-1]}"

    @property
    def past_url(self) -> str:
        """Where past decisions are told, as a port that is forwarded already."""
        with self.log.open(errors="replace") as log:
            log.seek(self._logged)
            return f"http://{_PAST_ADDRESS.findall(log.read())[-1]}"

    @property
    def ports(self) -> tuple[int, int]:
        """Of the metrics and of the probes. Raises LookupError until it listens."""
        with self.log.open(errors="replace") as log:
            log.seek(self._logged)
            addresses = _ADDRESS.findall(log.read())
        if len(addresses) < 2:
            raise LookupError("it does not listen yet")
        return int(addresses[0]), int(addresses[1])
