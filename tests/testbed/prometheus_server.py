"""A real Prometheus on loopback, which scrapes what it is told to."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml

from testbed.build import prometheus as program
from testbed.control_plane import die_with
from testbed.wait import wait_until

if TYPE_CHECKING:
    from types import TracebackType


class PrometheusServer:
    """`with PrometheusServer({"ingress": "127.0.0.1:9100"}) as server:` returns when it answers. url: where."""

    def __init__(self, targets: dict[str, str], *, scrape_interval: str = "1s") -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        self._configuration = {
            "global": {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval},
            "scrape_configs": [
                {"job_name": job, "honor_labels": True, "static_configs": [{"targets": [address]}]}
                for job, address in targets.items()
            ],
        }

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="cronhpa-prometheus-")
        folder = Path(self._folder.name)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(self._configuration))
        self.start()
        return self

    def start(self) -> None:
        """Starts it, again after a `kill`, with what it had stored; returns when it answers."""
        folder = Path(self._folder.name)
        command = [
            str(program()), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - two system calls, no lock, no allocation of note
        )
        wait_until(self._is_ready, within_s=60)

    def kill(self) -> None:
        """SIGKILL: it is gone until `start`."""
        self._process.kill()
        self._process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._folder.cleanup()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
