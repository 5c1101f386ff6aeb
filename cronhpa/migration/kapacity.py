"""
Kapacity IntelligentHorizontalPodAutoscaler (autoscaling.kapacitystack.io/v1alpha1), as of its last commit in 2024.

The provider of the highest priority that has a count decides alone; of equal priorities the larger count. Cron windows
are active if the next edge is an end; outside of them a Cron provider has no count.
"""

from __future__ import annotations

from msgspec import Struct

from cronhpa.migration import edges, jobs
from cronhpa.migration.context import ConversionContext
from cronhpa.migration.document import FieldReader, Json
from cronhpa.migration.manifest import cron_hpa, has_load, metadata_of, unique_names

_BELOW = -1


class _Providers(Struct):
    """The providers by type. crons and static with their priority; reactive: the priority of the metrics."""

    crons: list[tuple[int, FieldReader]] = []
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
    found = _providers(spec)
    schedules = _windows(found, lowest, highest, context)
    static = None if found.static is None else min(max(found.static[1], lowest), highest)
    if found.reactive is not None and found.static is not None and found.static[0] != found.reactive:
        wins = found.static[0] > found.reactive
        spec.remark(
            "portraitProviders",
            "found a static count and metrics",
            "the static one decides alone: metrics are left out" if wins else "the metrics decide: it is left out",
        )
        found.metrics, static = ([], static) if wins else (found.metrics, None)
    out: Json = {
        "mode": "Preview" if spec.text("scaleMode", "Auto") == "Preview" or spec.raw("paused") else None,
        "scaleTargetRef": spec.raw("scaleTargetRef"),
        "minReplicas": lowest,
        "maxReplicas": highest,
        "metrics": found.metrics or None,
        "behavior": _behavior(spec),
        "forecast": {} if found.predicts and has_load(found.metrics) else None,
    }
    if static is not None and found.metrics:
        out["minReplicas"] = static
    elif static is not None:
        always = {"start": "@daily", "durationMinutes": 2 * 24 * 60, "replicas": static, "priority": _BELOW}
        schedules.append({"name": "static", **always})
    out["schedules"] = unique_names(schedules) or None
    if found.metrics:
        spec.remark(
            "behavior",
            "Kapacity has no stabilization window and no rate policies",
            "those of an HPA hold: scaleDown waits for 300 s; state a behavior for another time",
        )
    return cron_hpa(metadata_of(document), out)


def _providers(spec: FieldReader) -> _Providers:
    out = _Providers()
    for provider in spec.mappings("portraitProviders"):
        kind, priority = provider.text("type"), provider.integer("priority") or 0
        if kind == "Static":
            out.static = (priority, provider.mapping("static").integer("replicas") or 0)
        elif kind == "Cron":
            out.crons += [(priority, item) for item in provider.mapping("cron").mappings("crons")]
        elif kind == "Dynamic":
            dynamic = provider.mapping("dynamic")
            portrait = dynamic.text("portraitType")
            metrics = [_metric(item) for item in dynamic.items("metrics")]
            dynamic.ignore("externalGeneratorName")
            if portrait == "Predictive":
                out.predicts = True
                dynamic.ignore("algorithm")
                dynamic.remark(
                    "", "found a prediction by a job", "forecast learns from the metrics that decide: two days of load"
                )
                out.metrics = out.metrics or [item for item in metrics[:1] if has_load([item])]
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
    """A metric of autoscaling/v2; those of Kapacity have a name of their own beside it."""
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


def _windows(found: _Providers, lowest: int, highest: int, context: ConversionContext) -> list[Json]:
    out = []
    for priority, item in found.crons:
        item.ignore("description")
        zone = item.text("timeZone") or jobs.zone_of(item, "timeZone", context, "UTC", "the zone of most images")
        fields = edges.window(item, (item.text("start"), item.text("end")), zone, "Kapacity", context)
        replicas = item.integer("replicas")
        if replicas is None:
            raise item.unconvertible("replicas", "there is no replicas", "say how many the window has")
        replicas = min(max(replicas, lowest), highest)
        if found.reactive is not None and priority < found.reactive:
            item.remark("", "a provider of higher priority always has a count", "left out: it never decides")
            continue
        bound = "minReplicas" if priority == found.reactive else "replicas"
        out.append({"name": item.text("name") or "cron"} | fields | {bound: replicas})
    return out


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
