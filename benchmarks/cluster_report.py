"""
`cronhpa report` of 20 HPAs on a real API server, over recorded series in a real Prometheus: what it finds, and whether
it holds in the week after.

Each series is cut: what lies before the cut is in the Prometheus, by the minute, up to four weeks of it; what lies
behind, a week or a third of a short series, is what comes next. HPAs differ in target, bounds, behavior and requests.
The report reads both by the rights of --print-rbac alone. Then today's settings and the first proposal of each target
are replayed on what came next. Printed: the first three, three with nothing to gain, both sums, requests by verb, time
and memory.

Series end where they end: a cut keeps the time of the day, and where four weeks are left, the day of the week.

Settings: BENCH_TARGETS (20; more use the series again, with other settings). Argument: the folder of the series.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from idle_fleet import CONSOLE, Wrong, reach, say
from real_edge import ready_at
from report import FOLDER, calibration_line, machine, save

from cronhpa.core.model.instant import DAY, MINUTE, SECOND, Nanoseconds
from cronhpa.core.model.spec import Span
from cronhpa.forecasting.pool import use_one_thread
from cronhpa.history.imports.files import read_points
from cronhpa.reporting.cases import Replays
from cronhpa.reporting.gathering import metric_of, reported_target
from cronhpa.reporting.objects import PodRequests, autoscalers_of
from cronhpa.reporting.reported_target import ReportedTarget
from testbed.build import promtool
from testbed.control_plane import ControlPlane
from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.prometheus import running

TARGETS = int(os.environ.get("BENCH_TARGETS", "20"))
NAMESPACES = 4
REPORTED, NEXT = 28 * DAY, 7 * DAY
PODS = 3
# Pods that the mean load needs at the target.
_MEAN_PODS = 12
# With more than this missing, a gap means that the place is closed: a bank's calls by night are zero calls.
_CLOSED_SHARE = 0.25
_GAP_MINUTES = 180
_SLOW_UP = {
    "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}
}
_QUICK_DOWN = {"scaleDown": {"stabilizationWindowSeconds": 60}}
_BEHAVIORS: tuple[dict[str, Any] | None, ...] = (None, None, _SLOW_UP, None, _QUICK_DOWN)
_UTILIZATION = (60, 50, 70, 80)
_BOUNDS = ((2, 100), (2, 100), (10, 200), (2, 24), (3, 60), (1, 100))
_REQUESTS = ("1", "500m", "2")
_START_UPS = ("5s", "20s", "45s")


def main() -> int:
    traces = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "traces")
    calibration = machine()
    CONSOLE.print(calibration_line(calibration))
    now = time.time_ns() // MINUTE * MINUTE
    names = sorted(path.name.removesuffix(".csv.gz") for path in traces.glob("*.csv.gz"))
    figures: dict[str, Any] = {"targets": TARGETS, "machine": calibration}
    try:
        with ControlPlane(audit=True) as plane, tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            loads = {name: minutes_of_series(traces / f"{name}.csv.gz", now) for name in names}
            targets = {app(number, names): names[number % len(names)] for number in range(TARGETS)}
            fill_prometheus(folder, {key: loads[name] for key, name in targets.items()}, now)
            set_up(plane, list(targets))
            kubeconfig = reader(plane)
            with running(folder, {}, ["--storage.tsdb.retention.time=90d"]) as prometheus:
                out = FOLDER / "cluster_report"
                figures["run"] = reported(prometheus.url, kubeconfig, out)
            verbs = Counter(one.verb for one in plane.requests().elements() if "reporter" in one.user)
            figures["verbs"] = dict(verbs)
            bodies = plane.get("/apis/autoscaling/v2/horizontalpodautoscalers")["items"]
        answer = json.loads((out / "report.json").read_text())
        figures["next"] = on_next(answer, bodies, {key: loads[name] for key, name in targets.items()}, now)
        tell(answer, figures)
    except (Wrong, AssertionError) as error:
        CONSOLE.print(f"[red]not measured:[/red] {error}", highlight=False)
        return 1
    say(f"figures: {save('cluster_report', figures)}; the page: {out / 'report.html'}")
    return 0 if set(verbs) <= {"get", "list"} else 1


def app(number: int, names: list[str]) -> tuple[str, str]:
    round_ = number // len(names)
    name = names[number % len(names)].replace("_", "-") + (f"-{round_}" if round_ else "")
    return f"team-{number % NAMESPACES}", name


def minutes_of_series(path: Path, now: Nanoseconds) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(seconds, values) of a series by the minute, at mean 1, shifted so that it is cut at about `now`."""
    points = read_points(path)
    at = np.array([one for one, _ in points])
    values = np.array([value for _, value in points])
    usual = float(np.median(np.diff(at)))
    ahead = min(NEXT, (at[-1] - at[0]) // 3)
    cut = at[-1] - ahead
    # The cut falls back to the present's time of the day, or of the week.
    cycle = NEXT if cut - at[0] > REPORTED + NEXT else DAY
    cut -= (cut - now) % cycle
    grid = np.arange(max(at[0], cut - REPORTED) // MINUTE + 1, min(at[-1], cut + ahead) // MINUTE) * MINUTE
    loads = np.interp(grid, at, values)
    expected = (at[-1] - at[0]) / usual
    before = at[np.searchsorted(at, grid, side="right") - 1]
    after = at[np.minimum(np.searchsorted(at, grid), len(at) - 1)]
    is_gap = after - before > max(_GAP_MINUTES * MINUTE, 3 * usual)
    if len(at) < (1 - _CLOSED_SHARE) * expected:
        loads[after - before > 3 * usual] = 0.0
    else:
        grid, loads = grid[~is_gap], loads[~is_gap]
    return (grid - cut + now) // SECOND, loads / loads.mean()


def settings(number: int) -> dict[str, Any]:
    utilization, cpu = _UTILIZATION[number % 4], _REQUESTS[number % 3]
    return {"utilization": utilization, "cpu": cpu, "bounds": _BOUNDS[number % 6], "behavior": _BEHAVIORS[number % 5],
            "cores": {"1": 1.0, "500m": 0.5, "2": 2.0}[cpu] * utilization / 100 * _MEAN_PODS}  # fmt: skip


def fill_prometheus(folder: Path, loads: dict[tuple[str, str], Any], now: Nanoseconds) -> None:
    """A counter of CPU seconds of one pod for each target, as cAdvisor has it."""
    path = folder / "loads.txt"
    with path.open("w") as file:
        file.write("# TYPE container_cpu_usage_seconds counter\n")
        for number, ((namespace, name), (seconds, values)) in enumerate(loads.items()):
            labels = f'namespace="{namespace}",pod="{name}-7c9d8f5b6d-abcde",container="app"'
            cores, counted = settings(number)["cores"], 0.0
            for second, value in zip(seconds.tolist(), values.tolist(), strict=True):
                counted += value * cores * 60
                if second * SECOND <= now:
                    file.write(f"container_cpu_usage_seconds_total{{{labels}}} {counted:.6f} {second}\n")
        file.write("# EOF\n")
    command = [
        promtool(),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--max-block-duration=20d",
        path,
        folder / "data",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    path.unlink()


def set_up(plane: ControlPlane, keys: list[tuple[str, str]]) -> None:
    spaces = sorted({namespace for namespace, _ in keys})
    plane.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in spaces))
    for number, (namespace, name) in enumerate(keys):
        chosen, start_up = settings(number), _START_UPS[number % 3]
        workload = deployment(name, namespace=namespace, replicas=PODS, cpu=chosen["cpu"], start_up_time=start_up)
        scaler = horizontal_pod_autoscaler(
            name,
            namespace=namespace,
            cpu_percent=chosen["utilization"],
            bounds=chosen["bounds"],
            behavior=chosen["behavior"],
        )
        plane.apply(workload, scaler)
    reach("targets have their pods Ready", len(keys), lambda: sum(len(at) >= PODS for at in ready_at(plane).values()))


def reader(plane: ControlPlane) -> Path:
    """An account with the rights of --print-rbac alone."""
    printed = subprocess.run([_program(), "report", "--print-rbac"], check=True, capture_output=True, text=True)
    role = yaml.safe_load(printed.stdout)
    subject = {"kind": "ServiceAccount", "name": "reporter", "namespace": "default"}
    plane.apply(
        role,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reporter", "namespace": "default"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "reporter"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role["metadata"]["name"],
            },
            "subjects": [subject],
        },
    )
    return plane.service_account_kubeconfig("default", "reporter")


def reported(url: str, kubeconfig: Path, out: Path) -> dict[str, float]:
    """Runs the command; its seconds, its CPU seconds, and the largest sum of the memory of its processes, MB."""
    out.mkdir(parents=True, exist_ok=True)
    command = [
        _program(), "report", "--prometheus", url, "-A", "--kubeconfig", str(kubeconfig), "-o", "json",
        "--html", str(out / "report.html"), "--write", str(out / "proposals"), "--core-price", "0.03",
    ]  # fmt: skip
    begun, before = time.monotonic(), os.times()
    with (out / "report.json").open("w") as answer, subprocess.Popen(command, stdout=answer) as process:
        most = [0.0]
        watcher = threading.Thread(target=_watch_memory, args=(process, most), daemon=True)
        watcher.start()
        code = process.wait()
        watcher.join()
    after = os.times()
    assert code == 0, f"cronhpa report ended with {code}"
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": round(time.monotonic() - begun, 1), "cpuSeconds": round(cpu, 1), "megabytes": round(most[0])}


def _program() -> str:
    return str(Path(sys.executable).parent / "cronhpa")


def _watch_memory(process: subprocess.Popen[bytes], most: list[float]) -> None:
    while process.poll() is None:
        most[0] = max(most[0], sum(map(_proportional_megabytes, _tree(process.pid))))
        time.sleep(1)


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(below for child in children for below in _tree(int(child)))]


def _proportional_megabytes(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("Pss:")), 0.0)


def on_next(
    answer: dict[str, Any], bodies: list[dict[str, Any]], loads: dict[tuple[str, str], Any], now: Nanoseconds
) -> dict[str, Any]:
    """By target: minutes short and pod-hours in the time after the report, as it is and with its best proposal."""
    bodies = [{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", **body} for body in bodies]
    numbers = {key: number for number, key in enumerate(loads)}
    tasks = []
    for autoscaler in autoscalers_of(bodies, now)[0]:
        key = autoscaler.namespace, autoscaler.name
        chosen = settings(numbers[key])
        requests = PodRequests({"cpu": round(1000 * {"1": 1.0, "500m": 0.5, "2": 2.0}[chosen["cpu"]])})
        metric = metric_of(autoscaler, requests)
        seconds, values = loads[key]
        points = [
            (second * SECOND, value * chosen["cores"])
            for second, value in zip(seconds.tolist(), values.tolist(), strict=True)
        ]
        target = reported_target(autoscaler, metric, requests, points)
        assert isinstance(target, ReportedTarget), target
        found = next((one for one in answer["targets"] if one["target"] == target.label), None)
        if found is not None:
            best = found.get("together") or next(iter(found["suggestions"]), None)
            tasks.append((target, now, points[-1][0], None if best is None else best["spec"]))
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=use_one_thread) as pool:
        return dict(pool.map(_both, tasks))


def _both(task: tuple[ReportedTarget, Nanoseconds, Nanoseconds, dict[str, Any] | None]) -> tuple[str, dict[str, Any]]:
    target, begin, end, proposed = task
    replays = Replays(target, Span(begin, end))
    figures: dict[str, Any] = {"days": (end - begin) / DAY}
    for name, spec in (("before", target.manifest["spec"]), ("after", proposed)):
        score = replays.run(spec).score if spec is not None else None
        if score is not None:
            figures[name] = {"minutes": score.under_provisioned_minutes, "podHours": score.pod_hours}
    return target.label, figures


def tell(answer: dict[str, Any], figures: dict[str, Any]) -> None:
    run, following = figures["run"], figures["next"]
    judged = answer["targets"]
    say(f"{len(judged)} judged, {len(answer['leftOut'])} left out: {answer['leftOut']}")
    say(f"{run['seconds']} s, {run['cpuSeconds']} CPU s, {run['megabytes']} MB; requests: {figures['verbs']}")
    worthwhile = [one for one in judged if one["suggestions"]]
    for one in worthwhile:
        best = one.get("together") or one["suggestions"][0]
        say(f"{one['target']}: {best['change']}: {_line(one['today'], best)}; next: {following[one['target']]}")
    for one in judged:
        if not one["suggestions"]:
            say(f"nothing to gain: {one['target']}: {one['nothingToGain']}; next: {following[one['target']]}")
    both = [following[one["target"]] for one in worthwhile]
    figures["sums"] = {
        "proposals": len(both),
        "minutesBefore": sum(one["before"]["minutes"] for one in both),
        "minutesAfter": sum(one["after"]["minutes"] for one in both),
        "podHoursBefore": sum(one["before"]["podHours"] for one in both),
        "podHoursAfter": sum(one["after"]["podHours"] for one in both),
        "minutesOfAll": sum(one["before"]["minutes"] for one in following.values()),
        "podHoursOfAll": sum(one["before"]["podHours"] for one in following.values()),
    }
    say(f"after the report, with all proposals: {figures['sums']}")


def _line(today: dict[str, Any], best: dict[str, Any]) -> str:
    return (
        f"{today['underProvisionedMinutes']:.0f} -> {best['underProvisionedMinutes']:.0f} minutes, "
        f"{today['podHours']:.0f} -> {best['podHours']:.0f} pod-hours"
    )


if __name__ == "__main__":
    sys.exit(main())
