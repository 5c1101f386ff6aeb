"""
Kapacity IntelligentHorizontalPodAutoscaler (autoscaling.kapacitystack.io/v1alpha1, before its first release
autoscaling.kapacity.traas.io/v1alpha1), as of its last commit in 2024.

Of the providers with a count, the one with the highest priority decides alone; of equal priorities the larger count.
Cron windows are active while the next edge is an end; outside of them a Cron provider has no count. While two windows
of one provider are active, it has an error and no count (getActiveReplicaCron in pkg/portrait/provider/common.go).
While no provider has a count, nothing is scaled ("no valid portrait value for now" in Reconcile of
controllers/autoscaling/intelligenthorizontalpodautoscaler_controller.go): the last window's count stays.
"""

from __future__ import annotations

from itertools import combinations

from msgspec import Struct

from cronhpa.migration.documents import edges, job_windows
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.job_windows import Job, NoWindows
from cronhpa.migration.documents.manifest import ALWAYS, cron_hpa, has_load, metadata_of, unique_names, with_priorities

GROUPS = ("autoscaling.kapacitystack.io", "autoscaling.kapacity.traas.io")
KIND = "IntelligentHorizontalPodAutoscaler"
_BELOW, _NONE = -1, -(2**31) - 1


class _Cron(Struct, frozen=True):
    """A window."""

    priority: int
    provider: int
    """The place of the cron among the providers."""
    reader: FieldReader


class _Providers(Struct):
    """The providers by type. static with its priority; reactive: the priority of the metrics."""

    crons: list[_Cron] = []
    static: tuple[int, int] | None = None
    reactive: int | None = None
    metrics: list[Json] = []
    predicts: bool = False


def to_cron_hpa(document: FieldReader, context: ConversionContext) -> Json:
    document.ignore("apiVersion", "kind", "status")
    spec = document.mapping("spec")
    lowest, highest = spec.integer("minReplicas"), spec.integer("maxReplicas")
    lowest = 1 if lowest is None else lowest
    if highest is None:
        raise spec.unconvertible("maxReplicas", "there is no maxReplicas", "Kapacity refuses it too")
    providers = _providers(spec)
    schedules = _windows(providers, lowest, highest, context)
    if schedules and _always(providers) == _NONE:
        gaps = _held(schedules, context)
        if gaps is None:
            spec.remark(
                "portraitProviders",
                "found crons alone: while none is active Kapacity keeps the replicas that it finds",
                f"here minReplicas ({lowest}) holds then: set it to what is meant",
            )
        schedules = schedules if gaps is None else gaps
    static = None if providers.static is None else min(max(providers.static[1], lowest), highest)
    if providers.reactive is not None and providers.static is not None and providers.static[0] != providers.reactive:
        wins = providers.static[0] > providers.reactive
        spec.remark(
            "portraitProviders",
            "found a static count and metrics",
            "the static one decides alone: metrics are left out" if wins else "the metrics decide: it is left out",
        )
        providers.metrics, static = ([], static) if wins else (providers.metrics, None)
    out: Json = {
        "mode": "Preview" if spec.text("scaleMode", "Auto") == "Preview" or spec.raw("paused") else None,
        "scaleTargetRef": spec.raw("scaleTargetRef"),
        "minReplicas": lowest,
        "maxReplicas": highest,
        "metrics": providers.metrics or None,
        "behavior": _behavior(spec),
        "forecast": {} if providers.predicts and has_load(providers.metrics) else None,
    }
    if static is not None and providers.metrics:
        out["minReplicas"] = static
    elif static is not None:
        schedules.append({"name": "static"} | ALWAYS | {"replicas": static, "priority": _BELOW})
    out["schedules"] = unique_names(schedules) or None
    if providers.metrics:
        spec.remark(
            "behavior",
            "Kapacity has no stabilization window and no rate policies",
            "those of an HPA hold: scaleDown waits for 300 s; state a behavior for another time",
        )
    return cron_hpa(metadata_of(document), out)


def _providers(spec: FieldReader) -> _Providers:
    out = _Providers()
    for index, provider in enumerate(spec.mappings("portraitProviders")):
        kind, priority = provider.text("type"), provider.integer("priority") or 0
        if kind == "Static":
            out.static = (priority, provider.mapping("static").integer("replicas") or 0)
        elif kind == "Cron":
            out.crons += [_Cron(priority, index, cron) for cron in provider.mapping("cron").mappings("crons")]
        elif kind == "Dynamic":
            dynamic = provider.mapping("dynamic")
            portrait = dynamic.text("portraitType")
            metrics = [_metric(metric) for metric in dynamic.items("metrics")]
            dynamic.ignore("externalGeneratorName")
            if portrait == "Predictive":
                out.predicts = True
                dynamic.ignore("algorithm")
                dynamic.remark(
                    "", "found a prediction by a job", "forecast learns from the metrics that decide: two days of load"
                )
                out.metrics = out.metrics or [metric for metric in metrics[:1] if has_load([metric])]
                out.reactive = priority if out.reactive is None else out.reactive
            elif portrait == "Reactive":
                out.reactive, out.metrics = priority, metrics
                _kube_hpa(dynamic)
            else:
                raise dynamic.unconvertible("portraitType", f'found "{portrait}"', "Reactive and Predictive are read")
        else:
            raise provider.unconvertible("type", f'found "{kind}"', "Static, Cron and Dynamic are read")
    return out


def _metric(metric: object) -> Json:
    """A metric of autoscaling/v2, without the name and operator that Kapacity adds."""
    return (
        {key: value for key, value in metric.items() if key not in {"name", "operator"}}
        if isinstance(metric, dict)
        else {}
    )


def _kube_hpa(dynamic: FieldReader) -> None:
    algorithm = dynamic.mapping("algorithm")
    algorithm.ignore("type")
    settings = algorithm.mapping("kubeHPA")
    for key in settings:
        settings.raw(key)
        settings.remark(key, f"found {settings.body[key]}", "the operator's own setting holds: see spec of a CronHPA")


def _windows(providers: _Providers, lowest: int, highest: int, context: ConversionContext) -> list[Json]:
    readable: list[tuple[_Cron, Json]] = []
    for cron in providers.crons:
        reader = cron.reader
        reader.ignore("description")
        zone = reader.text("timeZone") or "UTC"  # the default of Kapacity's CRD
        pair = reader.text("start"), reader.text("end")
        # nextStart.After(nextEnd), in IsCronActive of pkg/util/time.go
        fields = edges.window(reader, pair, zone, "Kapacity", context, tie_is_active=False)
        replicas = reader.integer("replicas")
        if replicas is None:
            raise reader.unconvertible("replicas", "there is no replicas", "say how many the window has")
        replicas = min(max(replicas, lowest), highest)
        if cron.priority < _always(providers):
            reader.remark("", "a provider of higher priority always has a count", "left out: it never decides")
            continue
        if providers.static is not None and cron.priority == providers.static[0]:
            replicas = min(max(replicas, providers.static[1]), highest)
        bound = "minReplicas" if cron.priority == providers.reactive else "replicas"
        readable.append((cron, {"name": reader.text("name") or "cron"} | fields | {bound: replicas}))
    return _ranked(readable, context)


def _held(windows: list[Json], context: ConversionContext) -> list[Json] | None:
    """The windows, each until the next one begins; None if that is not always what the last active one asked for."""
    wall = context.wall(windows[0]["timeZone"])
    apart = any(
        job_windows.difference(window["start"], window["end"], wall, tie_is_active=False) is not None
        for window in windows
    )
    if apart or any(_overlap(one, other, context) is not None for one, other in combinations(windows, 2)):
        return None
    crons = [Job(window["name"], window["replicas"], cron=window["start"]) for window in windows]
    try:
        gap_windows = job_windows.jobs_to_windows(crons, wall)
    except NoWindows:
        return None
    zone = windows[0]["timeZone"]
    return [{"name": cron.name} | fields | {"timeZone": zone, "replicas": cron.size} for cron, fields in gap_windows.of]


def _always(providers: _Providers) -> int:
    """The highest priority of the providers that always have a count: metrics, or a static count."""
    static = () if providers.static is None else (providers.static[0],)
    return max((*static, *(() if providers.reactive is None else (providers.reactive,))), default=_NONE)


def _ranked(windows: list[tuple[_Cron, Json]], context: ConversionContext) -> list[Json]:
    """The windows; if any two are open together, all with priorities: by the provider's priority, then by count."""
    is_ranked = False
    for (one, window), (other, later) in combinations(windows, 2):
        at = _overlap(window, later, context)
        if at is None:
            continue
        is_ranked = True
        if one.provider == other.provider:
            other.reader.remark(
                "start",
                f"it is active together with {window['name']}{at}",
                "Kapacity has no count then and keeps the one that it had; here the larger one holds",
            )
    if not is_ranked:
        return [window for _, window in windows]
    return with_priorities([window for _, window in windows], [_rank(cron, window) for cron, window in windows])


def _rank(cron: _Cron, window: Json) -> tuple[int, int]:
    return cron.priority, int(window["replicas"] if "replicas" in window else window["minReplicas"])


def _overlap(one: Json, other: Json, context: ConversionContext) -> str | None:
    """The time from which two windows are open together, in words, "" if unknown because of two zones; None: never."""
    if one["timeZone"] != other["timeZone"]:
        return ""
    wall = context.wall(one["timeZone"])
    at = job_windows.overlap((one["start"], one["end"]), (other["start"], other["end"]), wall)
    return None if at is None else f" from {at:%a %Y-%m-%d %H:%M}"


def _behavior(spec: FieldReader) -> Json | None:
    behavior = spec.mapping("behavior")
    out: Json = {}
    for key in ("scaleUp", "scaleDown"):
        rules = behavior.mapping(key)
        if rules.raw("disabled"):
            out[key] = {"selectPolicy": "Disabled"}
        if "grayStrategy" in rules:
            rules.raw("grayStrategy")
            rules.remark(
                "grayStrategy", "found steps with pods that are cut off", "write policies for the rate instead"
            )
    for key in ("replicaProfile", "stabilityCheckers"):
        if key in behavior:
            behavior.raw(key)
            behavior.remark(key, "found settings", "there is no counterpart")
    return out or None
