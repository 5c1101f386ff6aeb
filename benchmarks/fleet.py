"""
What a fleet costs: the real operator (`cronhpa run`) under an API server that lives in memory, in a process of its own.

Scenarios, one after the other on one fleet, a row each:

- start: no status yet; until every object has one.
- idle: no load moves.
- wobble: every load moves by up to 8 % with each sample, within the tolerance of 10 %.
- scaling: a tenth of the objects a minute gets another load, and is scaled.
- restart: the operator is ended and started again; until as many decisions are made as there are objects, and half a
  minute more.
- edge: all objects have a window that begins in the same minute: four of five go up by two pods, one of five down.
  Its picture is build/bench/fleet-edge.svg.
- edit: with BENCH_EVENTS, after the edge: each event is edited, so that every object is concerned; a minute from then
  on.
- one namespace: a fleet of its own, all in one namespace; start and idle.
- floor: for each steady load that was measured, the same number of LISTs of pod metrics, of external metrics and of
  writes by a process that does nothing else (fleet_floor.py): what no operator with this client can go below.
- external: a fleet of its own, a tenth as many objects in as many namespaces, each with an external metric of its own
  and a period of 1 s; start and idle.

CPU is user and system time of each process with its threads. Lag is from the instant at which an object was due to its
decision, read off the operator's histogram (a percentile is the upper bound of its bucket). Peak is the largest
resident size within the scenario.

Settings: BENCH_OBJECTS (2000), BENCH_PODS an object (10), BENCH_NAMESPACES (one for each 100 objects), BENCH_SCENARIOS
(start,idle,wobble,scaling,restart,edge,one-namespace; external and floor where they are named), BENCH_MINUTES of idle,
wobble, scaling, external (1), BENCH_NAME of the file with the figures (fleet), BENCH_WATCH of the objects (informer;
kopf), BENCH_EVENTS (0): the edge comes by so many planned events, a multiple of five, each of which picks its part of
the objects, instead of by a window of each.
BENCH_PROFILE=1 names the ten functions of the operator that take most CPU themselves in each scenario, by samples,
which cost a few percent. With --real it is held against the real API server instead (fleet_beside_real.py).
"""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import yaml
from fleet_beside_real import main as beside_real
from fleet_edge import draw as draw_edge
from fleet_floor import floor_of
from report import FOLDER, calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from testbed.control_plane import die_with
from testbed.operator import Operator
from testbed.usage import cpu_seconds, resident_bytes
from testbed.wait import wait_until

OBJECTS = int(os.environ.get("BENCH_OBJECTS", "2000"))
PODS = int(os.environ.get("BENCH_PODS", "10"))
NAMESPACES = int(os.environ.get("BENCH_NAMESPACES", str(max(1, OBJECTS // 100))))
MINUTES = float(os.environ.get("BENCH_MINUTES", "1"))
SCENARIOS = os.environ.get("BENCH_SCENARIOS", "start,idle,wobble,scaling,restart,edge,one-namespace").split(",")
EVENTS = int(os.environ.get("BENCH_EVENTS", "0"))
NAME = os.environ.get("BENCH_NAME", "fleet")
WATCH = os.environ.get("BENCH_WATCH", "informer")
PROFILE = bool(os.environ.get("BENCH_PROFILE"))
_BUCKET = re.compile(r'^cronhpa_decision_lag_seconds_bucket\{le="([^"]+)"\} ([0-9.e+]+)$', re.MULTILINE)
_RECONCILIATIONS = re.compile(r"^cronhpa_reconciliations_total ([0-9.e+-]+)$", re.MULTILINE)
_ERRORS = re.compile(r"^cronhpa_reconciliation_errors_total ([0-9.e+-]+)$", re.MULTILINE)
_DROPPED = re.compile(r"^cronhpa_events_dropped_total ([0-9.e+-]+)$", re.MULTILINE)
# Until the loads, who is due when, and 45 s after the start the operator's memory have settled.
_WARM_UP_S = 45.0
_EDGE_AHEAD_S, _EDGE_BEHIND_S = 75.0, 75.0
_START_S = 240.0
_STEADY: dict[str, dict[str, Any]] = {
    "idle": {"load": "idle"},
    "wobble": {"load": "wobble"},
    "scaling": {"load": "scaling", "percent_a_minute": 10},
}

CONSOLE = Console(width=None if sys.stdout.isatty() else 140)
_BEGUN = time.monotonic()


class Fleet:
    """The API server and the operator, two processes."""

    def __init__(self, folder: Path, namespaces: int, objects: int = OBJECTS, *, queues: bool = False) -> None:
        self.folder, self.objects = folder, objects
        # Of the edge of all objects, once it was made.
        self._edge, self._ends = "", 0
        command = [sys.executable, str(Path(__file__).with_name("fleet_api.py")), "--folder", str(folder)]
        for name, value in (("objects", objects), ("namespaces", namespaces), ("pods", PODS)):
            command += [f"--{name}", str(value)]
        command += ["--events", str(EVENTS), *(["--queues"] if queues else [])]
        self._api = subprocess.Popen(command, preexec_fn=die_with(os.getpid()))  # noqa: PLW1509 - as in testbed.operator
        self.kubeconfig = folder / "kubeconfig"
        wait_until(self.kubeconfig.exists, within_s=60)
        self._url = yaml.safe_load(self.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        self._tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        # The metrics of 10,000 objects take a second at each look, which no scenario is about (`scrape.py`).
        # docs/engineering/scale.md states what the informer takes, which is meant for such fleets; kopf is the default.
        settings = {"metrics_objects": "false", "object_watch": WATCH}
        if PROFILE:
            os.environ["SAMPLES"] = str(folder / "samples")
            sampled = (str(Path(__file__).with_name("sampled_operator.py")),)
            self.operator = Operator(self.kubeconfig, folder, program=sampled, **settings)
        else:
            self.operator = Operator(self.kubeconfig, folder, **settings)

    def close(self) -> None:
        self.operator.__exit__(None, None, None)
        self._api.kill()
        self._api.wait()

    def seen(self, *, scalings: bool = False, **order: Any) -> dict[str, Any]:
        """What the API server has counted; with an order, after it."""
        url = f"{self._url}/fleet" + ("?scalings=1" if scalings else "")
        body = json.dumps(order).encode() if order else None
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=self._tls, timeout=60) as answer:
            counts: dict[str, Any] = json.load(answer)
        return counts

    def metrics(self) -> dict[str, Any]:
        text = wait_until(self._metrics_text, within_s=60)
        values = {name: float(pattern.findall(text)[0]) for name, pattern in
                  (("reconciliations", _RECONCILIATIONS), ("errors", _ERRORS), ("dropped", _DROPPED))}  # fmt: skip
        return {**values, "lag": [(float(bound), float(count)) for bound, count in _BUCKET.findall(text)]}

    def _metrics_text(self) -> str:
        """What /metrics says; nothing within the five seconds of a look where the machine is busy."""
        try:
            return self.operator.get("/metrics")
        except OSError:
            return ""

    @contextmanager
    def measured(
        self, scenario: str, rows: list[dict[str, Any]], *, from_start: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Counts what happens within the block into a row. from_start: the operator is started in the block."""
        say(scenario)
        row: dict[str, Any] = {"scenario": scenario}
        before = self.seen()
        metrics_before = {"reconciliations": 0.0, "dropped": 0.0, "lag": []} if from_start else self.metrics()
        cpu_before = 0.0 if from_start else cpu_seconds(self.operator.pid)
        if not from_start:
            Path(f"/proc/{self.operator.pid}/clear_refs").write_text("5")
            self.samples()
        api_before, begun = cpu_seconds(self._api.pid), time.monotonic()
        yield row
        seconds = time.monotonic() - begun
        pid = self.operator.pid
        cpu, api_cpu = cpu_seconds(pid) - cpu_before, cpu_seconds(self._api.pid) - api_before
        after, metrics = self.seen(), self.metrics()
        calls = {kind: count - before["calls"].get(kind, 0) for kind, count in after["calls"].items()}
        lag = difference(metrics_before["lag"], metrics["lag"])
        row |= {
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu, 2),
            "cpu_percent_of_a_core": round(cpu / seconds * 100, 2),
            "api_server_cpu_seconds": round(api_cpu, 2),
            "reconciliations": metrics["reconciliations"] - metrics_before["reconciliations"],
            "errors": metrics["errors"],
            "events_dropped": metrics["dropped"] - metrics_before["dropped"],
            "lag_s": {"p50": percentile(lag, 0.5), "p99": percentile(lag, 0.99), "max": percentile(lag, 1.0)},
            "resident_mb": round(resident_bytes(pid) / 1e6, 1),
            "peak_mb": round(peak_bytes(pid) / 1e6, 1),
            "calls": {kind: count for kind, count in sorted(calls.items()) if count},
            "scalings": after["scalings"] - before["scalings"],
        }
        if PROFILE:
            row["most_expensive"] = most_expensive(self.samples())
        rows.append(row)
        say(
            f"{scenario}: {row['cpu_seconds']} CPU s in {row['seconds']} s, lag {row['lag_s']}, {row['resident_mb']} MB"
        )

    def samples(self) -> dict[str, int]:
        """How often each function was found at work since the last look."""
        if not PROFILE:
            return {}
        file = self.folder / "samples"
        file.unlink(missing_ok=True)
        self.operator.signal(signal.SIGVTALRM)
        wait_until(file.exists, within_s=60)
        samples: dict[str, int] = json.loads(file.read_text())
        return samples

    def start(self, rows: list[dict[str, Any]], scenario: str = "start") -> None:
        with self.measured(scenario, rows, from_start=True) as row:
            begun = time.monotonic()
            self.operator.start()
            row["ready_s"] = round(time.monotonic() - begun, 1)
            wait_until(self.seen, lambda seen: seen["reported"] == self.objects, within_s=_START_S, every_s=0.25)
            row["all_decided_s"] = round(time.monotonic() - begun, 1)
        if not any(kind == "watch cronhpas" for kind in self.seen()["calls"]):
            raise AssertionError("the operator does not watch its objects, so no figure would be what it costs")

    def restart(self, rows: list[dict[str, Any]]) -> None:
        self.seen(load="idle")
        begun = time.monotonic()
        self.operator.__exit__(None, None, None)
        say(f"ended in {time.monotonic() - begun:.1f} s")
        with self.measured("restart", rows, from_start=True) as row:
            begun = time.monotonic()
            self.operator.start()
            row["ready_s"] = round(time.monotonic() - begun, 1)
            wait_until(
                self.metrics, lambda metrics: metrics["reconciliations"] >= OBJECTS, within_s=_START_S, every_s=0.5
            )
            row["all_decided_s"] = round(time.monotonic() - begun, 1)
            row["all_decided_cpu_seconds"] = round(cpu_seconds(self.operator.pid), 2)
            time.sleep(30)

    def steady(self, scenario: str, rows: list[dict[str, Any]], order: dict[str, Any]) -> None:
        self.seen(**order)
        time.sleep(_WARM_UP_S)
        with self.measured(scenario, rows):
            time.sleep(MINUTES * 60)

    def floor(self, rows: list[dict[str, Any]]) -> None:
        """Adds to each row of a steady load what its calls take by themselves, if asked for. Ends the operator."""
        if "floor" not in SCENARIOS:
            return
        self.seen(load="idle")
        self.operator.__exit__(None, None, None)
        for row in rows:
            if row["scenario"].rpartition(": ")[2] in _STEADY:
                say(f"floor of {row['scenario']}")
                row["floor_percent_of_a_core"] = floor_of(row["calls"], row["seconds"], self.kubeconfig)

    def edit(self, rows: list[dict[str, Any]]) -> None:
        """Every event ends an hour later: all objects take over another schedule, and none is scaled."""
        self.seen(load="idle", events=EVENTS, event_edge=self._edge, ends=_wall(self._ends + 3600))
        with self.measured("edit", rows):
            time.sleep(60)

    def edge(self, rows: list[dict[str, Any]]) -> None:
        """All objects get the window, and the edge is a full minute later."""
        at = (int(time.time() + OBJECTS / 300 + 40 + _EDGE_AHEAD_S) // 60 + 1) * 60
        self._ends = at + 7200
        self._edge = edge = _wall(at)
        ends = _wall(self._ends)
        if EVENTS:
            self.seen(load="idle", events=EVENTS, event_edge=edge, ends=ends)
        else:
            self.seen(load="idle", edge=edge, ends=ends)
        wait_until(self.seen, lambda seen: seen["edited"], within_s=OBJECTS / 20 + 30, every_s=1)
        time.sleep(max(0.0, at - _EDGE_AHEAD_S - time.time()))
        scalings_before = len(self.seen(scalings=True)["scalings"])
        with self.measured("edge", rows) as row:
            time.sleep(max(0.0, at + _EDGE_BEHIND_S - time.time()))
        seen = self.seen(scalings=True)
        made = seen["scalings"][scalings_before:]
        due = [number for number in range(OBJECTS) if number % 5 != 4]
        times = {
            "ups": [when - at for when, _, before, after in made if after > before],
            "downs": [when - at for when, _, before, after in made if after < before],
            "ready": [seen["ready"][str(number)] - at for number in due if str(number) in seen["ready"]],
        }
        row["ups"], row["downs"] = spread(sorted(times["ups"])), spread(sorted(times["downs"]))
        row["ready_at_edge"] = sum(ready <= 0 for ready in times["ready"])
        row["ready_wanted"] = len(due)
        draw_edge(times, OBJECTS, FOLDER / f"{NAME}-edge.svg")


def _wall(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.gmtime(at))


def difference(before: list[tuple[float, float]], after: list[tuple[float, float]]) -> list[tuple[float, float]]:
    old = dict(before)
    return [(bound, count - old.get(bound, 0.0)) for bound, count in after]


def percentile(cumulative: list[tuple[float, float]], share: float) -> float | None:
    """The upper bound in seconds of the bucket in which this share of the lags is reached; None without any."""
    total = cumulative[-1][1] if cumulative else 0.0
    return next((bound for bound, count in cumulative if count >= share * total), None) if total else None


def spread(times: list[float]) -> dict[str, float]:
    if len(times) < 2:
        return {"count": len(times)}
    hundredths = quantiles(times, n=100)
    order_statistics = {"first": times[0], "p50": hundredths[49], "p99": hundredths[98], "last": times[-1]}
    return {"count": len(times), **{name: round(value, 1) for name, value in order_statistics.items()}}


def most_expensive(samples: dict[str, int]) -> list[str]:
    total = max(sum(samples.values()), 1)
    most = sorted(samples.items(), key=lambda name_and_count: -name_and_count[1])[:10]
    return [f"{count / total:6.1%} of {total} samples: {name}" for name, count in most]


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[0]) * 1024


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"{OBJECTS} objects of {PODS} pods in {NAMESPACES} namespaces, 15 s period")
    table.add_column("")
    for row in rows:
        table.add_column(row["scenario"], justify="right")
    for label, told in _LINES:
        table.add_row(label, *(told(row) for row in rows))
    CONSOLE.print(table)
    for row in rows:
        extra = {name: row[name] for name in _ONLY_SOMETIMES if name in row}
        if extra:
            CONSOLE.print(f"{row['scenario']}: {extra}", highlight=False)
        for line in row.get("most_expensive", ()):
            CONSOLE.print(f"{row['scenario']}: {line}", highlight=False)


def _calls(kind: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: f"{row['calls'].get(kind, 0)}"


def _lag(row: dict[str, Any]) -> str:
    return " / ".join("-" if lag is None else f"{lag:.2f}" for lag in row["lag_s"].values())


_LINES: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("CPU s", lambda row: f"{row['cpu_seconds']:.2f}"),
    ("in s", lambda row: f"{row['seconds']:.0f}"),
    ("% of a core", lambda row: f"{row['cpu_percent_of_a_core']:.1f}"),
    ("floor of the calls, %", lambda row: f"{row.get('floor_percent_of_a_core', '-')}"),
    ("API server's CPU s", lambda row: f"{row['api_server_cpu_seconds']:.2f}"),
    ("decisions", lambda row: f"{row['reconciliations']:.0f}"),
    ("lag p50 / p99 / max, s", _lag),
    ("MB", lambda row: f"{row['resident_mb']:.0f}"),
    ("MB at the peak", lambda row: f"{row['peak_mb']:.0f}"),
    ("status writes", _calls("patch cronhpas/status")),
    ("scale writes", _calls("patch deployments/scale")),
    ("conflicts", _calls("conflicts")),
    ("get scale", _calls("get deployments/scale")),
    ("lists of pod metrics", _calls("list metrics.k8s.io/pods")),
    ("external metrics", _calls("get external.metrics.k8s.io")),
    ("event writes", _calls("post events")),
    ("events dropped", lambda row: f"{row['events_dropped']:.0f}"),
)
_ONLY_SOMETIMES = (
    "ready_s", "all_decided_s", "all_decided_cpu_seconds", "ups", "downs", "ready_at_edge", "ready_wanted",
)  # fmt: skip


def complaints(fleet: Fleet) -> list[str]:
    lines = fleet.operator.log.read_text(errors="replace").splitlines()
    return [line for line in lines if " ERROR " in line or " WARNING " in line]


def main() -> int:
    calibration = machine()
    CONSOLE.print(calibration_line(calibration))
    rows: list[dict[str, Any]] = []
    loud: list[str] = []
    with ExitStack() as stack:
        if set(SCENARIOS) - {"one-namespace", "external", "floor"}:
            fleet = fleet_in(stack, NAMESPACES)
            fleet.start(rows)
            for scenario in SCENARIOS:
                if scenario in _STEADY:
                    fleet.steady(scenario, rows, _STEADY[scenario])
                elif scenario == "restart":
                    fleet.restart(rows)
                elif scenario == "edge":
                    fleet.edge(rows)
                    if EVENTS:
                        fleet.edit(rows)
            loud += complaints(fleet)
            fleet.floor(rows)
            fleet.close()
        if "external" in SCENARIOS:
            fleet = fleet_in(stack, max(1, NAMESPACES // 10), OBJECTS // 10, queues=True)
            fleet.start(rows, "external: start")
            fleet.steady("external: idle", rows, _STEADY["idle"])
            loud += complaints(fleet)
            fleet.floor(rows[-1:])
            fleet.close()
        if "one-namespace" in SCENARIOS:
            fleet = fleet_in(stack, 1)
            fleet.start(rows, "one namespace: start")
            fleet.steady("one namespace: idle", rows, _STEADY["idle"])
            loud += complaints(fleet)
            fleet.floor(rows[-1:])
            fleet.close()
    show(rows)
    for line in loud[:10]:
        CONSOLE.print(line, highlight=False)
    figures = {
        "objects": OBJECTS,
        "pods_an_object": PODS,
        "namespaces": NAMESPACES,
        "machine": calibration,
        "rows": rows,
    }
    say(f"figures: {save(NAME, figures)}; {len(loud)} warnings and errors in the operator's log")
    return 0


def fleet_in(stack: ExitStack, namespaces: int, objects: int = OBJECTS, *, queues: bool = False) -> Fleet:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    fleet = Fleet(folder, namespaces, objects, queues=queues)
    stack.callback(fleet.close)
    return fleet


def say(text: str) -> None:
    CONSOLE.print(f"[dim]{time.monotonic() - _BEGUN:5.0f} s[/dim]  {text}", highlight=False)


if __name__ == "__main__":
    sys.exit(beside_real() if "--real" in sys.argv[1:] else main())
