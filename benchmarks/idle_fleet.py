"""
What it costs to watch over 500 targets of 5 pods at which nothing changes: the operator beside the upstream HPA.

Both run against one real control plane (tests/testbed), for the same Deployments under the same load, one after the
other: side by side they would need twice the pods, and would take the CPU of a small machine from each other. The
upstream goes first, so its API server is the less used one; its HPAs are deleted before the CronHPAs are created,
because a target has one owner. Both sides get the same spec, the same period of 15 s and no client-side limit that
they reach (the upstream's default of 20 requests a second would not let it keep the period for 500 objects).

CPU is user and system time of the process with all its threads, API calls are counted by the API server (audit log),
and memory is read at the end of the measured minutes.

Settings: BENCH_OBJECTS (500), BENCH_NAMESPACES (10), BENCH_MINUTES (2), BENCH_WARM_UP_SECONDS (45), BENCH_WATCH of the
operator's objects (kopf, its default; informer).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from report import calibration_line, machine, save
from rich.console import Console
from rich.table import Table

from cronhpa.core.model.quantity import parse_milli
from testbed.control_plane import ControlPlane, Request
from testbed.objects import deployment, horizontal_pod_autoscaler, plain_cron_hpa
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant
from testbed.twin import CPU_50
from testbed.usage import cpu_seconds, resident_bytes
from testbed.wait import wait_until

OBJECTS = int(os.environ.get("BENCH_OBJECTS", "500"))
NAMESPACES = int(os.environ.get("BENCH_NAMESPACES", "10"))
MINUTES = int(os.environ.get("BENCH_MINUTES", "2"))
WARM_UP_SECONDS = float(os.environ.get("BENCH_WARM_UP_SECONDS", "45"))
WATCH = os.environ.get("BENCH_WATCH", "kopf")
PODS = 5
# Half of what 5 pods of one core ask for: exactly the target, so nothing is to be scaled.
LOAD_CORES = 2.5
HPA_PROCESS, HPA_USER = "horizontal-pod-autoscaler", "system:horizontal-pod-autoscaler"
OPERATOR_USER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
_SCRAPE_SECONDS = 15.0
_RECONCILIATIONS = re.compile(r"^cronhpa_reconciliations_total ([0-9.e+-]+)$", re.MULTILINE)
_ERRORS = re.compile(r"^cronhpa_reconciliation_errors_total ([0-9.e+-]+)$", re.MULTILINE)
# The first replica of all finds no Lease, and says for how long it waits.
_FIRST_LEASE = ": there is none, and objects may name it or no Lease yet"

CONSOLE = Console(width=None if sys.stdout.isatty() else 120)
_BEGUN = time.monotonic()


class Wrong(Exception):  # noqa: N818 - it is what the benchmark has to say, not an error of its own
    """Something was not as it must be for the figures to mean anything."""


@dataclass
class FleetFigures:
    """One side's figures over the measured minutes. calls: per minute, by "verb group/resource"."""

    cpu_seconds: list[float]
    worker_cpu_seconds: list[float]
    api_server_cpu_seconds: list[float]
    calls: dict[str, float]
    resident_mb: float
    proportional_mb: float
    worker_proportional_mb: float
    reconciliations_a_minute: float | None = None

    @property
    def calls_a_minute(self) -> float:
        return sum(self.calls.values())

    @property
    def status_writes(self) -> float:
        return sum(count for name, count in self.calls.items() if name.endswith("/status"))

    def figures(self) -> dict[str, Any]:
        return {
            "cpu_seconds_a_minute": [round(seconds, 3) for seconds in self.cpu_seconds],
            "worker_cpu_seconds_a_minute": [round(seconds, 3) for seconds in self.worker_cpu_seconds],
            "api_server_cpu_seconds_a_minute": [round(seconds, 3) for seconds in self.api_server_cpu_seconds],
            "api_calls_a_minute": round(self.calls_a_minute, 1),
            "api_calls_an_object_and_minute": round(self.calls_a_minute / OBJECTS, 4),
            "api_calls_a_minute_by_kind": {name: round(count, 1) for name, count in self.calls.items()},
            "status_writes_a_minute": round(self.status_writes, 2),
            "resident_mb": round(self.resident_mb, 1),
            "proportional_mb": round(self.proportional_mb, 1),
            "worker_proportional_mb": round(self.worker_proportional_mb, 1),
            "reconciliations_a_minute": self.reconciliations_a_minute,
        }


def main() -> int:
    say(f"{OBJECTS} targets of {PODS} pods in {NAMESPACES} namespaces; {MINUTES} measured minutes a side")
    calibration = machine()
    CONSOLE.print(calibration_line(calibration))
    try:
        with ControlPlane(hpa=True, audit=True) as plane, Plant(plane.admin_kubeconfig) as plant:
            plane.install_chart()
            set_up(plane, plant)
            upstream = upstream_side(plane)
            ours = our_side(plane)
    except (Wrong, AssertionError) as error:
        CONSOLE.print(f"[red]not measured:[/red] {error}", highlight=False)
        return 1
    show(upstream, ours)
    path = save(
        "idle_fleet",
        {
            "objects": OBJECTS,
            "pods_an_object": PODS,
            "namespaces": NAMESPACES,
            "period_seconds": 15,
            "machine": calibration,
            "upstream": upstream.figures(),
            "cronhpa": ours.figures(),
        },
    )
    say(f"figures: {path}")
    return 0


def names() -> Iterator[tuple[str, str]]:
    """(namespace, name) of every target."""
    for number in range(OBJECTS):
        yield f"fleet-{number % NAMESPACES}", f"app-{number}"


def by_namespace(make: Callable[[str, str], dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    out: dict[str, list[dict[str, Any]]] = {}
    for namespace, name in names():
        out.setdefault(namespace, []).append(make(namespace, name))
    return out


def set_up(plane: ControlPlane, plant: Plant) -> None:
    """Targets with their pods, ready and under load."""
    plane.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in by_namespace(ref)))
    for namespace, documents in by_namespace(
        lambda namespace, name: deployment(name, namespace=namespace, replicas=PODS)
    ).items():
        plane.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", documents)
    for namespace, name in names():
        plant.add_target(namespace, {"app": name}, LOAD_CORES)
    reach("pods are ready", OBJECTS * PODS, lambda: sum(target.ready for target in plant.targets))
    # A window in which some pods were not ready yet shows the others above the target, and the target would be scaled.
    reach("pods are measured at the target", OBJECTS * PODS, lambda: at_target(plane))


def at_target(plane: ControlPlane) -> int:
    """How many pods' newest samples show their full share of the load."""
    share = LOAD_CORES / PODS * 1000
    return sum(
        abs(parse_milli(pod_metrics["containers"][0]["usage"]["cpu"]) - share) <= 1
        for pod_metrics in plane.get("/apis/metrics.k8s.io/v1beta1/pods")["items"]
    )


def ref(namespace: str, name: str) -> dict[str, Any]:
    return {"namespace": namespace, "name": name}


def upstream_side(plane: ControlPlane) -> FleetFigures:
    resource = "/apis/autoscaling/v2/{}/horizontalpodautoscalers"
    for namespace, documents in by_namespace(
        lambda namespace, name: horizontal_pod_autoscaler(name, namespace=namespace)
    ).items():
        plane.create(resource.format(f"namespaces/{namespace}"), documents)
    reach("HPAs have decided", OBJECTS, lambda: decided(plane, "/apis/autoscaling/v2/horizontalpodautoscalers"))
    measured = measure(plane, "upstream HPA", HPA_USER, plane.pids[HPA_PROCESS])
    for namespace in by_namespace(ref):
        # One request a namespace: `kubectl delete --all` asks for each object and waits for it, a minute for 500.
        plane.kubectl("delete", "--raw", resource.format(f"namespaces/{namespace}"))
    return measured


def our_side(plane: ControlPlane) -> FleetFigures:
    for namespace, documents in by_namespace(cron_hpa).items():
        plane.create(f"/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas", documents)
    kubeconfig = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    with (
        tempfile.TemporaryDirectory() as folder,
        Operator(kubeconfig, Path(folder), object_watch=WATCH) as operator,
    ):
        reach("CronHPAs have decided", OBJECTS, lambda: decided(plane, "/apis/cronhpa.io/v1alpha1/cronhpas"))
        measured = measure(plane, "cronhpa", OPERATOR_USER, operator.pid, operator)
        errors = float(found(_ERRORS, operator.get("/metrics")))
        lines = operator.log.read_text().splitlines()
        loud = [line for line in lines if (" ERROR " in line or " WARNING " in line) and _FIRST_LEASE not in line]
        if errors or loud:
            raise Wrong(
                f"the operator had {errors:.0f} reconciliations with errors and logged:\n" + "\n".join(loud[:20])
            )
        return measured


def cron_hpa(namespace: str, name: str) -> dict[str, Any]:
    """The upstream HPA's spec as a CronHPA: the operator's own defaults for all else."""
    return plain_cron_hpa(name, namespace=namespace, metrics=[CPU_50])


def decided(plane: ControlPlane, path: str) -> int:
    """How many objects hold a decision by their metric, and hold at the pods that there are."""
    return sum(
        status.get("currentReplicas") == status.get("desiredReplicas") == PODS
        and any(
            condition["type"] == "ScalingActive" and condition["status"] == "True"
            for condition in status.get("conditions", ())
        )
        for body in plane.get(path)["items"]
        if (status := body.get("status", {}))
    )


def measure(plane: ControlPlane, side: str, user: str, pid: int, operator: Operator | None = None) -> FleetFigures:
    """Warm up, then measure minute by minute."""
    say(f"{side}: warming up for {WARM_UP_SECONDS:.0f} s")
    time.sleep(WARM_UP_SECONDS)
    api_server = plane.pids["kube-apiserver"]
    counts_before, counted_at = plane.requests(), time.monotonic()
    reconciliations = reconciliations_before = 0.0
    if operator:
        reconciliations_before = float(found(_RECONCILIATIONS, operator.get("/metrics")))
    cpu, worker_cpu, api_cpu = [], [], []
    for minute in range(1, MINUTES + 1):
        begun = time.monotonic()
        before = (cpu_seconds(pid), workers_cpu_seconds(pid), cpu_seconds(api_server))
        while (left := begun + 60 - time.monotonic()) > 0:
            time.sleep(min(_SCRAPE_SECONDS, left))
            if operator and left > _SCRAPE_SECONDS:
                operator.get("/metrics")  # as a Prometheus would
        scale = 60 / (time.monotonic() - begun)
        after = (cpu_seconds(pid), workers_cpu_seconds(pid), cpu_seconds(api_server))
        for column, old, new in zip((cpu, worker_cpu, api_cpu), before, after, strict=True):
            column.append((new - old) * scale)
        say(f"{side}: minute {minute} of {MINUTES}, {cpu[-1]:.2f} CPU s")
    if operator:
        reconciliations = float(found(_RECONCILIATIONS, operator.get("/metrics"))) - reconciliations_before
    counts_after = plane.requests()
    minutes = (time.monotonic() - counted_at) / 60
    plane.assert_alive()
    return FleetFigures(
        cpu_seconds=cpu,
        worker_cpu_seconds=worker_cpu,
        api_server_cpu_seconds=api_cpu,
        calls={
            kind: count / minutes for kind, count in by_kind(counts_after - counts_before, user).most_common() if count
        },
        resident_mb=resident_bytes(pid) / 1e6,
        proportional_mb=proportional_bytes(pid) / 1e6,
        worker_proportional_mb=sum(map(proportional_bytes, children(pid))) / 1e6,
        reconciliations_a_minute=round(reconciliations / minutes, 1) if operator else None,
    )


def by_kind(counts: Counter[Request], user: str) -> Counter[str]:
    """A user's requests by "verb group/resource"."""
    out: Counter[str] = Counter()
    for request, count in counts.items():
        if request.user == user:
            out[f"{request.verb} {'/'.join(filter(None, (request.group, request.resource)))}"] += count
    return out


def found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    if match is None:
        raise Wrong(f"/metrics has no line like {pattern.pattern}")
    return match[1]


def children(pid: int) -> list[int]:
    """Every process below one: the forecasting worker, where one was started."""
    out: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            out += [child, *children(child)]
    return out


def workers_cpu_seconds(pid: int) -> float:
    return sum(map(cpu_seconds, children(pid)))


def proportional_bytes(pid: int) -> int:
    """Memory of a process in which each page shared by n processes counts 1/n (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise Wrong(f"/proc/{pid}/smaps_rollup has no Pss")


def show(upstream: FleetFigures, ours: FleetFigures) -> None:
    table = Table(title=f"{OBJECTS} objects, {PODS} pods each, {NAMESPACES} namespaces, 15 s period, nothing changes")
    table.add_column("")
    for heading in ("upstream HPA", "cronhpa", "cronhpa / upstream"):
        table.add_column(heading, justify="right")

    def row(label: str, theirs: float, own: float, digits: int = 1) -> None:
        ratio = f"{own / theirs:.3g}" if theirs else ""
        table.add_row(label, f"{theirs:.{digits}f}", f"{own:.{digits}f}", ratio)

    row("CPU seconds a minute", median(upstream.cpu_seconds), median(ours.cpu_seconds), 2)
    row("CPU seconds a minute, worst minute", max(upstream.cpu_seconds), max(ours.cpu_seconds), 2)
    row("API calls a minute", upstream.calls_a_minute, ours.calls_a_minute)
    row("API calls an object and minute", upstream.calls_a_minute / OBJECTS, ours.calls_a_minute / OBJECTS, 3)
    row("of them writes of a status, a minute", upstream.status_writes, ours.status_writes)
    row(
        "CPU seconds a minute of the API server",
        median(upstream.api_server_cpu_seconds),
        median(ours.api_server_cpu_seconds),
        2,
    )
    row("memory, MB resident (RSS)", upstream.resident_mb, ours.resident_mb)
    row("memory, MB proportional (PSS)", upstream.proportional_mb, ours.proportional_mb)
    CONSOLE.print(table)

    calls = Table(title="API calls a minute, counted at the API server")
    calls.add_column("verb and resource")
    for heading in ("upstream HPA", "cronhpa"):
        calls.add_column(heading, justify="right")
    kinds = sorted(
        {*upstream.calls, *ours.calls}, key=lambda kind: -upstream.calls.get(kind, 0) - ours.calls.get(kind, 0)
    )
    for kind in kinds:
        calls.add_row(kind, f"{upstream.calls.get(kind, 0):.1f}", f"{ours.calls.get(kind, 0):.1f}")
    CONSOLE.print(calls)
    CONSOLE.print(f"cronhpa decided {ours.reconciliations_a_minute:.0f} times a minute")
    if ours.worker_proportional_mb:
        CONSOLE.print(
            f"its forecasting worker, apart: {median(ours.worker_cpu_seconds):.2f} CPU s a minute, "
            f"{ours.worker_proportional_mb:.1f} MB proportional"
        )


def reach(what: str, wanted: int, count: Callable[[], int], within_s: float = 300) -> None:
    """Wait until a count is reached, and tell how it goes. Raises Wrong with the last count."""
    told = time.monotonic()

    def read() -> int:
        nonlocal told
        try:
            now = count()
        except TimeoutError:  # a list of 500 objects takes a busy API server more than ten seconds
            return -1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            say(f"{now} of {wanted} {what}")
        return now

    try:
        wait_until(read, lambda now: now == wanted, within_s=within_s, every_s=1)
    except AssertionError as error:
        raise Wrong(f"{what}: {wanted} wanted; {error}") from None
    say(f"all {wanted} {what}")


def say(text: str) -> None:
    CONSOLE.print(f"[dim]{time.monotonic() - _BEGUN:5.0f} s[/dim]  {text}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
