"""CPU and memory of processes, and requests by user, between two instants."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from testbed.control_plane import ControlPlane
from testbed.usage import cpu_seconds, resident_bytes

_CONTROL_PLANE = ("kube-apiserver", "etcd")


class Meter:
    """What processes used, and what their users asked of the API server, since it was made."""

    def __init__(self, plane: ControlPlane, pids: Mapping[str, int], users: tuple[str, ...]) -> None:
        self._audit, self._users = plane.folder / "audit.log", users
        self._own = tuple(pids)
        self._pids = dict(pids) | {name: plane.pids[name] for name in _CONTROL_PLANE}
        self._cpu = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        self._begun, self._offset = time.time(), self._audit.stat().st_size

    def read(self) -> dict[str, Any]:
        """
        CPU seconds a minute, and in all, by process; resident MB by process; requests a minute by verb and resource.

        A process that has ended meanwhile is left out.
        """
        seconds, cpu, memory = time.time() - self._begun, {}, {}
        for name, pid in self._pids.items():
            if Path(f"/proc/{pid}").exists():
                cpu[name] = round(cpu_seconds(pid) - self._cpu[name], 2)
                memory[name] = round(resident_bytes(pid) / 1e6, 1)
        requests = Counter(_kind(event) for event in self._events() if event["user"]["username"] in self._users)
        return {
            "seconds": round(seconds, 1),
            "cpu_s": cpu,
            "cpu_s_a_minute": {name: round(used * 60 / seconds, 3) for name, used in cpu.items()},
            "own_cpu_s_a_minute": round(sum(cpu.get(name, 0) for name in self._own) * 60 / seconds, 3),
            "own_cpu_s": round(sum(cpu.get(name, 0) for name in self._own), 2),
            "resident_mb": memory,
            "own_resident_mb": round(sum(memory.get(name, 0) for name in self._own), 1),
            "requests": requests.total(),
            "requests_a_minute": round(requests.total() * 60 / seconds, 1),
            "requests_a_minute_by_kind": {
                kind: round(count * 60 / seconds, 1) for kind, count in requests.most_common(20)
            },
            "load_average": round(os.getloadavg()[0], 1),
        }

    def _events(self) -> Iterator[dict[str, Any]]:
        """The requests that were answered since then, watches when they began."""
        with self._audit.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # the API server is still writing it
                event = json.loads(line)
                if (event["stage"] == "ResponseStarted") is (event["verb"] == "watch"):
                    yield event


def _kind(event: dict[str, Any]) -> str:
    of = event.get("objectRef", {})
    if "resource" not in of:
        return f"{event['verb']} {event['requestURI'].partition('?')[0]}"
    if of.get("apiGroup") == "external.metrics.k8s.io":  # its resources are names of metrics
        return f"{event['verb']} external.metrics.k8s.io"
    named = (of.get("apiGroup"), of["resource"], of.get("subresource"))
    return f"{event['verb']} {'/'.join(filter(None, named))}"
