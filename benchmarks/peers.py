"""
`make bench-peers`: the plain HPA, KEDA and cronhpa in one run, one after the other, on one control plane.

Scenarios: `idle` (set-up, then nothing changes), `edge` (a cron window that all objects share: start and end), `step`
(a step of CPU, and of an external number, by each product's default and its fastest setting), `outage` (Prometheus is
gone for two minutes while the number changes), `kill` (SIGKILL 10 s before an edge, started again 20 s after it),
`failover` (SIGKILL of the leader of two replicas 10 s before an edge).

Every object has two pods of one core, half of it used: exactly the target of 50 % of CPU. In its window it has four. A
pod is Ready 5 s after it runs. CPU is read from /proc, requests from the API server's audit log, replicas and Ready
pods from watches of a process of its own.

Settings: BENCH_OBJECTS (100), BENCH_PRODUCTS (HPA,KEDA,cronhpa), BENCH_SCENARIOS (all), BENCH_IDLE_SECONDS (120),
BENCH_NAMESPACES (10). KEDA is built at the first run: half an hour on two busy cores.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import peers_times as times
from idle_fleet import CONSOLE, Wrong, reach, say
from peers_meter import Meter
from peers_products import FAR, PODS, PODS_UP, CronHpaProduct, Keda, Missing, Product, Servers, SharedWindow, Upstream
from peers_table import SCENARIOS, missing_of, table_of
from report import calibration_line, machine, save

from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.quantity import parse_milli
from testbed import build
from testbed.control_plane import ControlPlane, die_with
from testbed.loads import Trace
from testbed.objects import deployment
from testbed.plant import Plant
from testbed.prometheus_server import PrometheusServer

OBJECTS = int(os.environ.get("BENCH_OBJECTS") or 100)
NAMESPACES = int(os.environ.get("BENCH_NAMESPACES") or 10)
IDLE_S = float(os.environ.get("BENCH_IDLE_SECONDS") or 120)
PRODUCTS: dict[str, type[Product]] = {product.name: product for product in (Upstream, Keda, CronHpaProduct)}
START_UP = "5s"
_WARM_UP_S = 30.0
# Leads and set-up of the objects end before this long before an edge.
_BEFORE_EDGE_S = 75
_WINDOW_S = 120
# The default stabilization of a scale-down, and what the products take besides.
_END_S = 345
_KILLED_BEFORE_S, _RESTARTED_AFTER_S, _WINDOW_OF_KILL_S = 10, 20, 180
_STEPPED = 10
_STEP_BEFORE, _STEP_AFTER, _STEP_REPLICAS = 5.0, 40.0, 4
_STEP_S = 75
# For a count of objects or pods, before what waits for it is given up.
_WITHIN_S = 600
_OUTAGE_S, _BACK_S = 120, 90
_GIB = 1 << 30
_DISK_GIB = 12


class Numbers:
    """An HTTP server on loopback: `/?of=NAME` answers a number as JSON, `/metrics` all of them for Prometheus."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], float] = {}
        """By namespace and name of a Deployment."""
        numbers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                if url.path == "/metrics":
                    body = numbers.page()
                else:
                    name = parse_qs(url.query).get("of", [""])[0]
                    value = next((value for key, value in numbers.values.items() if key[1] == name), 0.0)
                    body = json.dumps({"value": value})
                self.send_response(200)
                self.send_header("Content-Type", "text/plain" if url.path == "/metrics" else "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True, name="numbers").start()

    def page(self) -> str:
        lines = [f'number{{namespace="{space}",deployment="{name}"}} {value}' for (space, name), value in
                 list(self.values.items())]  # fmt: skip
        return "\n".join(["# TYPE number gauge", *lines, ""])

    def close(self) -> None:
        self._server.shutdown()


class Bench:
    """One run: the control plane with its targets, and what was measured so far."""

    def __init__(self, stack: ExitStack, scenarios: list[str]) -> None:
        self.scenarios = scenarios
        self.figures: dict[str, Any] = {}
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="cronhpa-peers-"))
        self.folder = Path(folder)
        self.plane = stack.enter_context(ControlPlane(hpa=True, audit=True, nodes=10))
        self.plant = stack.enter_context(Plant(self.plane.admin_kubeconfig))
        self.numbers = Numbers()
        stack.callback(self.numbers.close)
        self.prometheus = stack.enter_context(PrometheusServer({"numbers": self.numbers.address}))
        self.servers = Servers(f"http://{self.numbers.address}", self.prometheus.url)
        self._events = self.folder / "events.jsonl"
        self._events.touch()
        watch = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("peers_watch.py")), str(self.plane.admin_kubeconfig),
             str(self._events)],
            preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - two system calls, no lock, no allocation of note
        )  # fmt: skip
        stack.callback(watch.wait)
        stack.callback(watch.kill)

    @property
    def spaces(self) -> list[str]:
        return [f"fleet-{number}" for number in range(min(NAMESPACES, OBJECTS))]

    @property
    def targets(self) -> list[tuple[str, str]]:
        return [(f"fleet-{number % NAMESPACES}", f"app-{number}") for number in range(OBJECTS)]

    @property
    def keys(self) -> list[times.Key]:
        return [f"{space}/{name}" for space, name in self.targets]

    def seen(self) -> times.Seen:
        time.sleep(1.5)  # the watch flushes once a second
        return times.read(self._events)

    def set_up(self) -> None:
        """The targets with their pods, Ready and measured at the target of 50 %."""
        spaces = [*self.spaces, *(f"step-{number}" for number in range(_STEPPED))]
        self.plane.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in spaces))
        for space in self.spaces:
            made = [
                deployment(name, namespace=space, replicas=PODS, start_up_time=START_UP)
                for namespace, name in self.targets
                if namespace == space
            ]
            self.plane.create(f"/apis/apps/v1/namespaces/{space}/deployments", made)
        for space, name in self.targets:
            self.plant.add_target(space, {"app": name}, PODS * 0.5)
        reach("pods are Ready", OBJECTS * PODS, lambda: sum(pod.ready for pod in self.plant.seen_pods()), _WITHIN_S)
        reach("pods are measured at the target", OBJECTS * PODS, self._measured, _WITHIN_S)

    def _measured(self) -> int:
        usages = (
            pod["containers"][0]["usage"]["cpu"] for pod in self.plane.get("/apis/metrics.k8s.io/v1beta1/pods")["items"]
        )
        return sum(abs(parse_milli(usage) - 500) <= 1 for usage in usages)

    def create(self, product: Product, window: SharedWindow) -> float:
        """The objects of all targets; returns how long it took until all had decided."""
        begun = time.monotonic()
        product.create([product.scaled(space, name, window) for space, name in self.targets])
        reach(f"objects of {product.name} have decided", OBJECTS, lambda: product.decided("fleet-"), _WITHIN_S)
        return time.monotonic() - begun

    def clear(self, product: Product) -> None:
        """Without the product's objects, all targets have two pods again."""
        product.delete(self.spaces)

        def reset(key: tuple[str, str]) -> None:
            space, name = key
            self.patch_replicas(space, name, PODS)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(reset, self.targets))
        reach("targets are as at first", OBJECTS, self._settled, _WITHIN_S)

    def patch_replicas(self, space: str, name: str, replicas: int) -> None:
        patch = json.dumps({"spec": {"replicas": replicas}}).encode()
        url = f"{self.plane.url}/apis/apps/v1/namespaces/{space}/deployments/{name}/scale"
        headers = {
            "Authorization": f"Bearer {self.plane.admin_token}",
            "Content-Type": "application/merge-patch+json",
        }
        request = urllib.request.Request(url, data=patch, headers=headers, method="PATCH")
        with urllib.request.urlopen(request, context=self.plane.tls, timeout=60):
            pass

    def _settled(self) -> int:
        return sum(
            one["spec"]["replicas"] == one["status"].get("readyReplicas") == one["status"].get("replicas") == PODS
            for one in self.plane.get("/apis/apps/v1/deployments")["items"]
            if one["metadata"]["namespace"].startswith("fleet-")
        )


def idle(bench: Bench, product: Product) -> dict[str, Any]:
    """What it costs without objects, to set them up, and while nothing changes."""
    time.sleep(10)
    meter = Meter(bench.plane, product.pids, product.users)
    time.sleep(20)
    figures = {"baseline": meter.read()}
    meter = Meter(bench.plane, product.pids, product.users)
    figures["set_up_s"] = round(bench.create(product, FAR), 1)
    figures["set_up"] = meter.read()
    time.sleep(_WARM_UP_S)
    meter = Meter(bench.plane, product.pids, product.users)
    time.sleep(IDLE_S)
    figures["rest"] = meter.read()
    bench.clear(product)
    return figures


def _next_window(seconds: float) -> SharedWindow:
    """A window that opens at a whole minute, this long after all objects could have been set up."""
    start = (int(time.time() + OBJECTS / 8 + _BEFORE_EDGE_S) // 60 + 1) * 60
    return SharedWindow(start, start + seconds)


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.time()))


def edge(bench: Bench, product: Product) -> dict[str, Any]:
    """A window that all objects share: how early or late, and how long after its end the pods go."""
    window = _next_window(_WINDOW_S)
    bench.create(product, window)
    say(f"{product.name}: an edge at {time.strftime('%H:%M:%S', time.gmtime(window.start))} UTC")
    begun = window.start - _BEFORE_EDGE_S + 10
    _sleep_until(begun)
    meter = Meter(bench.plane, product.pids, product.users)
    _sleep_until(window.start + 60)
    figures: dict[str, Any] = {"cost": meter.read()}
    _sleep_until(window.end + _END_S)
    seen = bench.seen()
    figures |= times.edge(seen, bench.keys, window.start, begun, window.end, PODS_UP)
    figures["down"] = times.down(seen, bench.keys, window.end, window.end + _END_S, PODS)
    figures["watches_lost"] = seen.lost
    bench.clear(product)
    return figures


def _killed(bench: Bench, product: Product, *, is_restarted: bool) -> dict[str, Any]:
    window = _next_window(_WINDOW_OF_KILL_S)
    bench.create(product, window)
    _sleep_until(window.start - _KILLED_BEFORE_S)
    product.kill()
    say(f"{product.name} is killed {_KILLED_BEFORE_S} s before an edge")
    if is_restarted:
        _sleep_until(window.start + _RESTARTED_AFTER_S)
        product.restart()
    _sleep_until(window.end)
    since = window.start - _BEFORE_EDGE_S + 10
    figures = times.edge(bench.seen(), bench.keys, window.start, since, window.end, PODS_UP)
    bench.clear(product)
    return figures


def kill(bench: Bench, product: Product) -> dict[str, Any]:
    return _killed(bench, product, is_restarted=True)


def failover(bench: Bench, product: Product) -> dict[str, Any]:
    product.stop()
    product.start(replicas=2)
    time.sleep(10)
    return _killed(bench, product, is_restarted=False)


def _stepping(bench: Bench, product: Product, groups: list[str]) -> Iterator[tuple[str, str, str]]:
    """Makes the Deployments and the objects of groups, ten each, 1.5 s apart so that their phases differ."""
    for number in range(_STEPPED):
        for group in groups:
            space, name = f"step-{number}", f"{group}-{number}"
            bench.numbers.values[space, name] = _STEP_BEFORE
            made = deployment(name, namespace=space, replicas=1, start_up_time="1s")
            bench.plane.create(f"/apis/apps/v1/namespaces/{space}/deployments", [made])
            yield space, name, group
    ready = "pods of the steps are Ready"
    wanted = len(groups) * _STEPPED
    reach(
        ready, wanted, lambda: sum(pod.ready and pod.namespace.startswith("step-") for pod in bench.plant.seen_pods())
    )
    for number in range(_STEPPED):
        product.create([product.stepped(f"step-{number}", f"{group}-{number}", group) for group in groups])
        time.sleep(1.5)
    reach(f"stepping objects of {product.name} have decided", wanted, lambda: product.decided("step-"), _WITHIN_S)
    time.sleep(_WARM_UP_S)


def _unstep(bench: Bench, product: Product) -> None:
    spaces = [f"step-{number}" for number in range(_STEPPED)]
    product.delete(spaces)
    for space in spaces:
        bench.plane.kubectl("delete", "--raw", f"/apis/apps/v1/namespaces/{space}/deployments")
    bench.numbers.values.clear()


def step(bench: Bench, product: Product) -> dict[str, Any]:
    """From a step of the load to the scale write that it asks for: 1 to 4 replicas."""
    groups = [group for group in product.groups if group != "prometheus"]
    loads = {}
    for space, name, group in _stepping(bench, product, groups):
        if group == "cpu":
            loads[space, name] = bench.plant.add_target(space, {"app": name}, _STEP_BEFORE / 10)
    at = time.time_ns() + 2 * SECOND
    for target in loads.values():
        bench.plant.set_load(target, Trace((at - 1, at), (_STEP_BEFORE / 10, _STEP_AFTER / 20)))
    _sleep_until(at / SECOND)
    for key in bench.numbers.values:
        bench.numbers.values[key] = _STEP_AFTER
    time.sleep(_STEP_S)
    seen, begun = bench.seen(), at / SECOND
    figures = {group: times.step(seen, _keys_of(group), begun, begun + _STEP_S, _STEP_REPLICAS) for group in groups}
    for target in loads.values():
        bench.plant.remove_target(target)
    _unstep(bench, product)
    return figures


def _keys_of(group: str) -> list[times.Key]:
    return [f"step-{number}/{group}-{number}" for number in range(_STEPPED)]


def outage(bench: Bench, product: Product) -> dict[str, Any]:
    """Prometheus is gone for two minutes; the number has risen when it comes back."""
    if "prometheus" not in product.groups:
        raise Missing(f"the {product.name} reads no Prometheus by itself")
    for _ in _stepping(bench, product, ["prometheus"]):
        pass
    gone = time.time()
    bench.prometheus.kill()
    for key in bench.numbers.values:
        bench.numbers.values[key] = _STEP_AFTER
    _sleep_until(gone + _OUTAGE_S)
    bench.prometheus.start()
    back = time.time()
    time.sleep(_BACK_S)
    seen, keys = bench.seen(), _keys_of("prometheus")
    figures = {
        "writes_meanwhile": times.writes(seen, keys, gone, back),
        "after": times.step(seen, keys, back, back + _BACK_S, _STEP_REPLICAS)["whole"],
    }
    _unstep(bench, product)
    return figures


def measure(bench: Bench, name: str) -> None:
    """All scenarios of one product. What one of them cannot measure is named, and the next one goes on."""
    figures = bench.figures[name] = {}
    run = {"idle": idle, "edge": edge, "step": step, "outage": outage, "kill": kill, "failover": failover}
    try:
        product = PRODUCTS[name](bench.plane, bench.folder / name, bench.servers)
    except build.BuildError as error:
        figures["missing"] = str(error)
        say(f"[red]{name} is not measured:[/red] {error}")
        return
    try:
        product.start()
        for scenario in bench.scenarios:
            say(f"{name}: {scenario}")
            begun = time.monotonic()
            try:
                figures[scenario] = run[scenario](bench, product)
            except (Missing, Wrong, AssertionError, OSError) as error:
                figures[scenario] = {"missing": str(error)}
                say(f"[yellow]{name}, {scenario}: not measured:[/yellow] {error}")
                if time.monotonic() - begun > 1:  # it had begun
                    _give_back(bench, product)
            keep(bench)
    except Missing as error:
        figures["missing"] = str(error)
        say(f"[red]{name} is not measured:[/red] {error}")
    finally:
        product.stop()


def _give_back(bench: Bench, product: Product) -> None:
    try:
        bench.clear(product)
        _unstep(bench, product)
    except (Missing, Wrong, AssertionError, OSError) as error:
        say(f"[yellow]{product.name} left something behind:[/yellow] {error}")


def figures_of(bench: Bench) -> dict[str, Any]:
    """What was measured so far, with the settings and the machine."""
    settings = {
        "objects": OBJECTS,
        "namespaces": NAMESPACES,
        "pods": PODS,
        "pods_in_window": PODS_UP,
        "start_up": START_UP,
        "keda": build.keda_version(),
        "idle_seconds": IDLE_S,
    }
    measured = {name: bench.figures[name] for name in PRODUCTS if name in bench.figures}
    return {"settings": settings, "machine": bench.figures["machine"]} | measured


def keep(bench: Bench) -> Path:
    """Writes what was measured so far; returns where."""
    return save(f"peers-{OBJECTS}", figures_of(bench))


def _chosen(variable: str, accepted: tuple[str, ...]) -> list[str]:
    chosen = [one for one in os.environ.get(variable, "").split(",") if one] or list(accepted)
    if unknown := [one for one in chosen if one not in accepted]:
        sys.exit(f"{variable}: {', '.join(unknown)}: accepted are {', '.join(accepted)}")
    return [one for one in accepted if one in chosen]


def main() -> int:
    names, scenarios = _chosen("BENCH_PRODUCTS", tuple(PRODUCTS)), _chosen("BENCH_SCENARIOS", SCENARIOS)
    free = shutil.disk_usage(Path.home()).free / _GIB
    if free < _DISK_GIB:
        say(f"[yellow]{free:.0f} GiB of disk are free; the builds and the run take up to {_DISK_GIB}[/yellow]")
    if "KEDA" in names:
        try:
            build.keda()  # before the clock runs
        except build.BuildError as error:
            say(f"[red]KEDA cannot be built and is left out:[/red] {error}")
    calibration = machine()
    CONSOLE.print(calibration_line(calibration))
    with ExitStack() as stack:
        bench = Bench(stack, scenarios)
        bench.figures["machine"] = calibration
        try:
            bench.set_up()
            for name in names:
                measure(bench, name)
        except (Wrong, KeyboardInterrupt) as error:
            say(f"[red]the run ends here:[/red] {error or 'interrupted'}; what was measured is kept")
        path = keep(bench)
    CONSOLE.print(table_of(figures_of(bench)))
    say(f"figures: {path}")
    for line in missing_of(bench.figures):
        CONSOLE.print(f"missing: {line}", highlight=False)
    return 0 if all(bench.figures.get(name) and "missing" not in bench.figures[name] for name in names) else 1


if __name__ == "__main__":
    sys.exit(main())
