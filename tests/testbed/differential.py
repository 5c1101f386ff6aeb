"""
The upstream HPA and our operator on twin Deployments: same spec, same load, same trouble, and what each did at each
of its ticks.

Why ticks can be compared although there are two clocks. Each twin's pods follow its own replicas, and a change of the
world comes when both have ticked and neither will for a while. So the k-th tick behind a change finds the same world
on both sides, whatever the phase: windows and periods that are no multiple of the sync period end between the same two
ticks. What may differ is a tick that found its world in motion, or that came late: `compare` counts those apart, and
only where the two ticks really saw something else.

Each case has a namespace and a thread of its own, so that none waits for the slowest.
"""

from __future__ import annotations

import bisect
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import urllib3

from cronhpa.core.model.instant import SECOND, Nanoseconds, format_instant, parse_instant
from cronhpa.core.sync_grid import following
from testbed.control_plane import HOLD, ControlPlane
from testbed.metrics_api import Fault
from testbed.objects import deployment
from testbed.plant import CUSTOM, EXTERNAL, RESOURCE, Plant
from testbed.wait import wait_until

UPSTREAM_USER = "system:horizontal-pod-autoscaler"
SIDES = ("upstream", "ours")
APIS = (RESOURCE, CUSTOM, EXTERNAL)
CONDITIONS = ("AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero")
_READY = ("Ready", "ContainersReady")
_CONNECTIONS = 10
_POLL_S = 0.05
# A tick is over, with all that it writes, so long after it began.
_GUARD_S = 0.5
# A change of the world comes at least so long before a tick.
_PAUSE_S = 1.75
# The requests of one tick lie closer together.
_SAME_TICK = SECOND // 2
# What a tick leaves behind is stamped at most so long after the tick began.
_STAMPED_WITHIN_S = 1.0
_OVERFLOW = "-9223372036854775808m"
_HPA = "/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
_OURS = "/apis/cronhpa.io/v1alpha1/namespaces/{namespace}/cronhpas"


@dataclass(frozen=True)
class Case:
    """
    One pair of twins.

    feed: what a step's load means for this case, called with (plant, namespace, side, step). A twin is named as its
    side, and its pods carry app=<side>.
    """

    name: str
    metrics: Sequence[Mapping[str, Any]]
    feed: Callable[[Plant, str, str, Step], None]
    behavior: Mapping[str, Any] | None = None
    bounds: tuple[int, int] = (1, 10)
    replicas: int = 2
    start_up_time: str = "300ms"
    held: bool = False
    """Its pods never become ready."""
    containers: Sequence[str] = ("app",)

    def deployment(self, namespace: str, side: str) -> dict[str, Any]:
        made = deployment(
            side,
            namespace=namespace,
            replicas=self.replicas,
            start_up_time=self.start_up_time,
            annotations={HOLD: "true"} if self.held else None,
        )
        pod = made["spec"]["template"]["spec"]
        pod["containers"] = [pod["containers"][0] | {"name": name} for name in self.containers]
        return made

    def autoscaler(self, namespace: str, side: str) -> dict[str, Any]:
        api, kind = (
            ("autoscaling/v2", "HorizontalPodAutoscaler") if side == "upstream" else ("cronhpa.io/v1alpha1", "CronHPA")
        )
        minimum, maximum = self.bounds
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": side},
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "metrics": self.metrics,
        }
        return {
            "apiVersion": api,
            "kind": kind,
            "metadata": {"name": side, "namespace": namespace},
            "spec": spec | ({"behavior": self.behavior} if self.behavior else {}),
        }


@dataclass(frozen=True)
class Step:
    """
    What the world is like for some ticks.

    level: load in pods that it would keep at their target. ratio: of Value metrics to their target, which no number
    of pods changes. trouble: the oldest pod of each twin is deleted and the next one turns unready for good.
    silent: nothing measures the oldest pod. broken: every metrics API answers 500.
    """

    name: str
    level: float
    ratio: float
    ticks: int
    trouble: bool = False
    silent: bool = False
    broken: bool = False


class Api:
    """The API server, asked by the admin over connections that are kept."""

    def __init__(self, plane: ControlPlane) -> None:
        self._url = plane.url
        self._headers = {"Authorization": f"Bearer {plane.admin_token}"}
        self._connections = urllib3.PoolManager(maxsize=_CONNECTIONS, ca_certs=str(plane.ca_file), retries=False)
        self._pool = ThreadPoolExecutor(max_workers=_CONNECTIONS)

    def lines(self, path: str) -> Iterator[bytes]:
        """The lines of a watch until the server ends it."""
        answer = self._connections.request("GET", f"{self._url}{path}", headers=self._headers, preload_content=False)
        rest = b""
        for chunk in answer.stream(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines

    def send(self, *requests: tuple[str, str, object]) -> None:
        """(method, path, body) of each, a few at a time; what is not there any more is no matter."""

        def one(request: tuple[str, str, object]) -> None:
            method, path, body = request
            kind = "application/json" if method == "POST" else "application/merge-patch+json"
            headers = self._headers | {"Content-Type": kind}
            answer = self._connections.request(
                method, f"{self._url}{path}", body=None if body is None else json.dumps(body), headers=headers
            )
            assert answer.status < 400 or answer.status == 404, answer.data.decode()

        list(self._pool.map(one, requests))


@dataclass
class Timeline:
    """What happened to the twins of one case: their replicas, their pods, the ticks of whoever scales them; by side."""

    replicas: dict[str, list[tuple[Nanoseconds, int]]] = field(default_factory=lambda: defaultdict(list))
    pods: dict[str, list[tuple[Nanoseconds, str]]] = field(default_factory=lambda: defaultdict(list))
    ticks: dict[str, list[Nanoseconds]] = field(default_factory=lambda: {side: [] for side in SIDES})
    edits: list[tuple[Nanoseconds, Nanoseconds]] = field(default_factory=list)
    """When the test had our operator take a reconciliation that is no tick."""

    def note_deployment(self, at: Nanoseconds, _kind: str, body: Mapping[str, Any]) -> None:
        count = body["spec"]["replicas"]
        replicas = self.replicas[body["metadata"]["name"]]
        if not replicas or replicas[-1][1] != count:
            replicas.append((at, count))

    def note_pod(self, at: Nanoseconds, kind: str, body: Mapping[str, Any]) -> None:
        ready = next((one["status"] for one in body["status"].get("conditions", ()) if one["type"] == "Ready"), "")
        state = kind if kind == "DELETED" else f"{body['status'].get('phase')} {ready}"
        self.pods[body["metadata"]["labels"]["app"]].append((at, f"{body['metadata']['name']} {state}"))

    def note_tick(self, side: str, at: Nanoseconds) -> None:
        """A request that shows a tick; several close together are one."""
        ticks = self.ticks[side]
        if not ticks or at - ticks[-1] > _SAME_TICK:
            ticks.append(at)

    def ticks_of(self, side: str, since: Nanoseconds, until: Nanoseconds) -> list[Nanoseconds]:
        ticks = self.ticks[side]
        ticks = ticks[bisect.bisect_right(ticks, since) : bisect.bisect_left(ticks, until)]
        return [at for at in ticks if side != "ours" or not any(begun < at < ended for begun, ended in self.edits)]

    def replicas_at(self, side: str, at: Nanoseconds) -> int:
        changes = self.replicas[side]
        return changes[bisect.bisect_right(changes, at, key=lambda change: change[0]) - 1][1]

    def rests(self, since: Nanoseconds, until: Nanoseconds) -> bool:
        """Whether nothing has changed for two ticks of both: no replicas, no pod."""
        for side in SIDES:
            ticks = self.ticks_of(side, since, until)
            if len(ticks) < 2 or any(ticks[-2] < at < until for at, _ in self.replicas[side]):
                return False
            if self.moved(side, ticks[-2], until):
                return False
        return True

    def pods_at(self, side: str, at: Nanoseconds) -> list[str]:
        """The states of a twin's pods, by no name."""
        states: dict[str, str] = {}
        for noted, told in self.pods[side]:
            if noted > at:
                break
            name, _, state = told.partition(" ")
            states[name] = state
        return sorted(state for state in states.values() if state != "DELETED")

    def moved(self, side: str, since: Nanoseconds, until: Nanoseconds) -> bool:
        """Whether pods of a twin came, changed or went in between."""
        return any(since < noted <= until for noted, _ in self.pods[side])


class Witness:
    """
    Tells the timelines, by namespace, of what the API server shows.

    Ticks are in its audit log: at each the upstream GETs the scale, and ours asks for metrics.
    """

    def __init__(self, plane: ControlPlane, timelines: Mapping[str, Timeline]) -> None:
        self._timelines = timelines
        self._log = (plane.folder / "audit.log").open()
        self._log.seek(0, 2)
        self._failure: Exception | None = None
        api = Api(plane)
        for work in (
            lambda: self._watch(api, "/apis/apps/v1/deployments", Timeline.note_deployment),
            lambda: self._watch(api, "/api/v1/pods", Timeline.note_pod),
            self._tail,
        ):
            threading.Thread(target=self._guarded, args=(work,), daemon=True).start()

    def check(self) -> None:
        """Raises what ended a watch."""
        if self._failure:
            raise self._failure

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - `check` raises it
            self._failure = error

    def _watch(
        self, api: Api, path: str, note: Callable[[Timeline, Nanoseconds, str, Mapping[str, Any]], None]
    ) -> None:
        for line in api.lines(f"{path}?watch=1&timeoutSeconds=3600"):
            event = json.loads(line)
            timeline = self._timelines.get(event["object"]["metadata"]["namespace"])
            if timeline:
                note(timeline, time.time_ns(), event["type"], event["object"])

    def _tail(self) -> None:
        rest = ""
        while True:
            *lines, rest = (rest + self._log.read()).split("\n")
            for line in lines:
                self._note_request(json.loads(line))
            time.sleep(_POLL_S)

    def _note_request(self, event: Mapping[str, Any]) -> None:
        reference = event.get("objectRef", {})
        timeline = self._timelines.get(reference.get("namespace", ""))
        if timeline is None:
            return
        user, at = event["user"]["username"], parse_instant(event["requestReceivedTimestamp"])
        if user == UPSTREAM_USER and event["verb"] == "get" and reference.get("subresource") == "scale":
            timeline.note_tick("upstream", at)
        elif user.startswith("system:serviceaccount:") and reference.get("apiGroup") in APIS:
            timeline.note_tick("ours", at)


@dataclass(frozen=True)
class Plateau:
    """A step as it went. Ticks count from `since`, when the world had been changed, to `until`."""

    step: Step
    since: Nanoseconds
    until: Nanoseconds
    conditions: Mapping[str, Mapping[str, Any]]
    """The statuses at its end, by side."""
    measured: Mapping[str, Mapping[str, Any]]
    """The same with all of ours; empty where something was going on."""


class Twins:
    """The twins of a case in a namespace of their own, and the world that they live in."""

    def __init__(
        self, plane: ControlPlane, plant: Plant, api: Api, case: Case, namespace: str, timeline: Timeline, period: float
    ) -> None:
        self.case, self.timeline = case, timeline
        self.plateaus: list[Plateau] = []
        self._plane, self._plant, self._api, self._namespace = plane, plant, api, namespace
        self._period = period
        self._since: Nanoseconds = 0
        self._edits = 0

    def create(self, first: Step) -> None:
        """The pods, under the load of the first step."""
        namespace = self._namespace
        self._api.send(("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
        made = [self.case.deployment(namespace, side) for side in SIDES]
        self._api.send(*(("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", manifest) for manifest in made))
        self._feed(first)

    def are_ready(self) -> bool:
        items = self._plane.get(f"/apis/apps/v1/namespaces/{self._namespace}/deployments")["items"]
        wanted = 0 if self.case.held else self.case.replicas
        return all(listed_item["status"].get("readyReplicas", 0) == wanted for listed_item in items)

    def live(self, script: Sequence[Step]) -> None:
        """Scaled from now on by whoever scales them, through all steps."""
        # Both begin together: then neither ticks for most of each period.
        now = time.time_ns()
        time.sleep((following(self._namespace, round(self._period * SECOND), now) - now) / SECOND)
        # Ours takes a first reconciliation at once, the upstream after a period.
        self._since = time.time_ns() + SECOND
        made = [self.case.autoscaler(self._namespace, side) for side in SIDES]
        self._api.send(*(("POST", path, manifest) for path, manifest in zip(self._paths, made, strict=True)))
        for number, step in enumerate(script):
            if number:
                self._change(step)
            measured = self._wait(step.ticks)
            until = time.time_ns()
            told = self._statuses()
            if measured:
                measured |= {"upstream": told["upstream"]}
            self.plateaus.append(Plateau(step, self._since, until, told, measured))

    @property
    def _paths(self) -> tuple[str, str]:
        return _HPA.format(namespace=self._namespace), _OURS.format(namespace=self._namespace)

    def _change(self, step: Step) -> None:
        self._feed(step)
        pods = {side: self._oldest_pods(side) for side in SIDES}
        self._plant.silence(self._namespace, [names[0] for names in pods.values() if names] if step.silent else [])
        for api in APIS:
            self._plant.set_fault(Fault.SERVER_ERROR if step.broken else None, api, self._namespace)
        if step.trouble:
            base = f"/api/v1/namespaces/{self._namespace}/pods"
            stamp = format_instant(time.time_ns())
            unready = [{"type": kind, "status": "False", "lastTransitionTime": stamp} for kind in _READY]
            held = [f"{base}/{names[1]}" for names in pods.values() if len(names) > 1]
            self._api.send(*(("PATCH", path, {"metadata": {"annotations": {HOLD: "true"}}}) for path in held))
            self._api.send(
                *(("PATCH", f"{path}/status", {"status": {"conditions": unready}}) for path in held),
                *(("DELETE", f"{base}/{names[0]}", None) for names in pods.values() if names),
            )
        self._since = time.time_ns()

    def _feed(self, step: Step) -> None:
        for side in SIDES:
            self.case.feed(self._plant, self._namespace, side, step)

    def _oldest_pods(self, side: str) -> list[str]:
        """Names of a twin's ready pods, the oldest first."""
        created = []
        for listed_pod in self._plane.get(f"/api/v1/namespaces/{self._namespace}/pods?labelSelector=app%3D{side}")[
            "items"
        ]:
            told = listed_pod["status"].get("conditions", ())
            if any(one["type"] == "Ready" and one["status"] == "True" for one in told):
                created.append((listed_pod["metadata"]["creationTimestamp"], listed_pod["metadata"]["name"]))
        return [name for _, name in sorted(created)]

    def _wait(self, ticks: int) -> dict[str, Mapping[str, Any]]:
        """Until both have ticked so often, and neither will for a while; our whole status, if it could be had."""
        deadline = time.monotonic() + 5 * self._period * (ticks + 3)
        measured: dict[str, Mapping[str, Any]] = {}
        while time.monotonic() < deadline:
            time.sleep(_POLL_S)
            now = time.time_ns()
            seen = [self.timeline.ticks_of(side, self._since, now) for side in SIDES]
            if min(map(len, seen)) == 0:
                continue
            ours = (now - seen[1][-1]) / SECOND
            # Before the next window ends: see `_refresh`.
            if not measured and len(seen[1]) >= ticks and _GUARD_S / 2 < ours < _GUARD_S:
                measured = self._refresh() if self.timeline.rests(self._since, now) else {}
                continue
            last, next_ = max(one[-1] for one in seen), min(one[-1] for one in seen) + self._period * SECOND
            is_quiet = now - last >= _GUARD_S * SECOND and next_ - now >= _PAUSE_S * SECOND
            # One of them may have ticked once more only where that made no difference.
            is_even = len(seen[0]) == len(seen[1]) or self.timeline.rests(self._since, now)
            if is_quiet and is_even and min(map(len, seen)) >= ticks:
                return measured
        counts = {side: len(self.timeline.ticks_of(side, self._since, time.time_ns())) for side in SIDES}
        raise AssertionError(f"{self.case.name}: not both have ticked {ticks} times: {counts}")

    def _statuses(self) -> dict[str, Mapping[str, Any]]:
        sides = zip(SIDES, self._paths, strict=True)
        return {side: self._plane.get(f"{path}/{side}").get("status") or {} for side, path in sides}

    def _refresh(self) -> dict[str, Mapping[str, Any]]:
        """
        Has our operator write its whole status: what only drifts is written seldom, but at once behind an edit.

        That is a reconciliation between two ticks and leaves a recommendation. It comes while nothing changes and so
        soon behind a tick that no window tells the two apart.
        """
        path = f"{self._paths[1]}/ours"
        self._edits += 1
        begun = time.time_ns()
        self.timeline.edits.append((begun, begun + SECOND))
        # Of no consequence: there is no schedule.
        self._api.send(("PATCH", path, {"spec": {"timeZone": "Etc/UTC" if self._edits % 2 else "UTC"}}))
        settled = wait_until(
            lambda: self._plane.get(path),
            lambda seen: seen.get("status", {}).get("observedGeneration") == seen["metadata"]["generation"],
            every_s=0.05,
        )
        self.timeline.edits[-1] = (begun, time.time_ns() + round(_POLL_S * SECOND))
        return {"ours": settled["status"]}


def run(
    plane: ControlPlane, plant: Plant, cases: Sequence[Case], script: Sequence[Step], *, prefix: str, period: float
) -> list[Twins]:
    """All cases at once through all steps. period: the sync period of both sides, in seconds."""
    api = Api(plane)
    timelines = {f"{prefix}-{case.name}": Timeline() for case in cases}
    witness = Witness(plane, timelines)
    twins = [
        Twins(plane, plant, api, case, namespace, timeline, period)
        for case, (namespace, timeline) in zip(cases, timelines.items(), strict=True)
    ]
    for twin in twins:
        twin.create(script[0])
    wait_until(lambda: all(one_twin.are_ready() for one_twin in twins), within_s=90, every_s=0.5)
    # Behind the next whole second, so that every sample lies behind the second in which its pod turned ready.
    time.sleep(2)
    with ThreadPoolExecutor(max_workers=len(twins)) as pool:
        for done in [pool.submit(one_twin.live, script) for one_twin in twins]:
            done.result()
    witness.check()
    return twins


def conditions(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Status and reason of the conditions that the upstream knows."""
    by_type = {
        condition["type"]: (condition["status"], condition["reason"]) for condition in status.get("conditions") or ()
    }
    return {kind: by_type[kind] for kind in CONDITIONS if kind in by_type}


def measured(status: Mapping[str, Any]) -> list[Any]:
    """What status.currentMetrics says, but for the upstream's average over no pods: an overflow of its processor."""
    return json.loads(json.dumps(status.get("currentMetrics") or []).replace(_OVERFLOW, "0"))


@dataclass
class Comparison:
    """
    How the twins did.

    exact: ticks behind which both had the same replicas. allowed: those behind which they had not, by what about the
    clocks explains it. unexplained: the others, in words. statuses: how many were compared at the ends of steps.
    """

    exact: int = 0
    allowed: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    statuses: int = 0

    def __str__(self) -> str:
        reasons = "".join(f", {count} {reason}" for reason, count in sorted(self.allowed.items()))
        return (
            f"ticks: {self.exact} exact, {self.allowed.total()} allowed because of the clocks{reasons}, "
            f"{len(self.unexplained)} unexplained; statuses compared: {self.statuses}"
        )


@dataclass(frozen=True)
class Clocks:
    """
    What the clocks can explain.

    settling: seconds until a change of pods or of load has reached every sample. windows: seconds, every window and
    period of the specs and of both sides' settings.
    """

    settling: float
    windows: Sequence[float]

    def hold_alike(self, timeline: Timeline, at: Mapping[str, Nanoseconds]) -> bool:
        """Whether each window that ends with a tick holds as many ticks on both sides, and none at its very edge."""
        for window in self.windows:
            counts = set()
            for side in SIDES:
                for stamped in (0.0, _STAMPED_WITHIN_S):
                    begun = at[side] - round((window + stamped) * SECOND)
                    counts.add(len(timeline.ticks_of(side, begun, at[side])))
            if len(counts) > 1:
                return False
        return True


def compare(all_twins: Sequence[Twins], clocks: Clocks) -> Comparison:
    """
    The k-th tick of each behind a change of the world, for all cases and all steps but the first.

    In that one they begin: ours with a reconciliation at once, the upstream (before v1.37) a period later, so that its
    first recommendation is younger. Behind a tick that saw something else for a reason of the clocks the two remember
    something else: for as long as they do, that is why.
    """
    comparison = Comparison()
    for twins in all_twins:
        history: Nanoseconds = 0
        for plateau in twins.plateaus[1:]:
            history = _compare_step(comparison, twins, plateau, history, clocks)
    return comparison


def _compare_step(
    comparison: Comparison, twins: Twins, plateau: Plateau, history: Nanoseconds, clocks: Clocks
) -> Nanoseconds:
    """Counts one case in one step; until when the two may remember something else."""
    timeline = twins.timeline
    ticks = {side: timeline.ticks_of(side, plateau.since, plateau.until) for side in SIDES}
    after = {
        side: [timeline.replicas_at(side, at - 1) for at in [*seen[1:], plateau.until]] for side, seen in ticks.items()
    }
    for number, replicas in enumerate(zip(after["upstream"], after["ours"], strict=False)):
        at = {side: ticks[side][number] for side in SIDES}
        reason = _reason(timeline, plateau, at, clocks)
        is_exact = replicas[0] == replicas[1]
        if is_exact:
            comparison.exact += 1
        elif reason or min(at.values()) < history:
            comparison.allowed[reason or "because of what they remember"] += 1
        else:
            text = f"{twins.case.name}, {plateau.step.name}, tick {number + 1}: {after}"
            comparison.unexplained.append(f"{text}; {_told(timeline, plateau)}")
        # Two recommendations may differ and be stabilized to the same replicas, until one is forgotten.
        if reason or not is_exact:
            history = max(at.values()) + round(max(clocks.windows) * SECOND)
    is_same = after["upstream"][-1] == after["ours"][-1]
    is_same = is_same and timeline.pods_at("upstream", plateau.until) == timeline.pods_at("ours", plateau.until)
    if is_same and plateau.until > history and timeline.rests(plateau.since, plateau.until):
        for what, statuses in ((conditions, plateau.conditions), (measured, plateau.measured)):
            if not statuses:
                continue
            theirs, ours = (what(statuses[side]) for side in SIDES)
            comparison.statuses += 1
            if theirs != ours:
                comparison.unexplained.append(f"{twins.case.name}, {plateau.step.name}: {theirs} and {ours}")
    return history


def _reason(timeline: Timeline, plateau: Plateau, at: Mapping[str, Nanoseconds], clocks: Clocks) -> str:
    """What about the clocks explains that the two did not do the same at a tick; "" for nothing."""
    span = round(clocks.settling * SECOND)
    if any(at[side] - plateau.since < span for side in SIDES):
        return "too soon behind a change"
    if any(timeline.moved(side, at[side] - span, at[side]) for side in SIDES):
        return "while pods came or went"
    if not clocks.hold_alike(timeline, at):
        return "with another number of ticks in a window"
    if timeline.pods_at("upstream", at["upstream"]) != timeline.pods_at("ours", at["ours"]):
        return "with other pods"
    return ""


def _told(timeline: Timeline, plateau: Plateau) -> str:
    """Ticks and changes of replicas around a step, in seconds from the change of the world."""

    def seconds(at: Nanoseconds) -> float:
        return round((at - plateau.since) / SECOND, 2)

    since, parts = plateau.since - 20 * SECOND, []
    for side in SIDES:
        ticks = [seconds(at) for at in timeline.ticks_of(side, since, plateau.until)]
        changes = {seconds(at): count for at, count in timeline.replicas[side] if since < at < plateau.until}
        parts.append(f"{side} ticked at {ticks}, replicas {changes}, pods {timeline.pods_at(side, plateau.until)}")
    return "; ".join(parts)
