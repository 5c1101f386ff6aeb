"""A real Prometheus on loopback, built from pinned Go modules, as a process of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml

from testbed.build import prometheus as program
from testbed.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class Prometheus:
    """url: where it answers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The vector of an expression now. A refusal raises HTTPError with Prometheus' own words."""
        return self._get("query", query=expression)["result"]

    def firing(self) -> set[tuple[str, str]]:
        """(alert, name of the object) of the alerts that fire."""
        alerts = self._get("alerts")["alerts"]
        return {(alert["labels"]["alertname"], alert["labels"].get("name", "")) for alert in alerts if _fires(alert)}

    def _get(self, path: str, **asked: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.loads(answer.read())["data"]


def _fires(alert: Mapping[str, Any]) -> bool:
    return alert["state"] == "firing"


@contextmanager
def running(folder: Path, config: Mapping[str, Any], arguments: Sequence[str] = ()) -> Iterator[Prometheus]:
    """A Prometheus with this configuration, ready; it ends with the block."""
    (folder / "prometheus.yml").write_text(yaml.safe_dump(dict(config)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        program(), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn", *arguments,
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=folder) as process:
        try:
            wait_until(lambda: _is_ready(f"http://127.0.0.1:{port}"), within_s=60)
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready") as answer:
            return answer.status == 200
    except OSError:
        return False
