"""
HorizontalPodAutoscaler, autoscaling/v1, v2beta1, v2beta2 and v2.

v2 is copied. v1 has annotations, with the field names of v2beta1, in place of the fields that it lacks. v2beta2 has the
field names of v2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.manifest import DEFAULT_METRICS, cron_hpa, metadata_of

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


_ADAPTER = "metric-config."
_DATADOG = "datadogmetric@"
_SOURCE = "define it as a metric source of the operator, or have it served by an adapter that needs no HPA"


def to_cron_hpa(document: FieldReader) -> Json:
    document.ignore("apiVersion", "kind", "status")
    spec = spec_of(document)
    _remark_who_serves(document, spec["metrics"])
    return cron_hpa(metadata_of(document), spec)


def datadog_metrics(metrics: Iterable[Any]) -> Iterator[tuple[int, str, str]]:
    """(index, namespace and name of the object) of each metric that is a DatadogMetric."""
    for index, metric in enumerate(metrics):
        named = metric
        for key in ("external", "metric", "name"):
            named = named.get(key) if isinstance(named, Mapping) else None
        if isinstance(named, str) and named.startswith(_DATADOG):
            namespace, _, name = named.removeprefix(_DATADOG).partition(":")
            yield index, namespace, name


def _remark_who_serves(document: FieldReader, metrics: list[Any]) -> None:
    """A remark for each metric that an adapter serves only while a HorizontalPodAutoscaler names it."""
    for key in document.mapping("metadata").texts("annotations"):
        if key.startswith(_ADAPTER):
            document.remark(
                f"metadata.annotations[{key}]",
                "kube-metrics-adapter serves this metric only while an HPA with this annotation names it",
                f"it goes with the HPA: {_SOURCE}",
            )
    for index, namespace, name in datadog_metrics(metrics):
        document.remark(
            f"spec.metrics[{index}]",
            f"Datadog asks for DatadogMetric {namespace}/{name} only while an HPA names it",
            "its value ends with the HPA: annotate the DatadogMetric with "
            f'external-metrics.datadoghq.com/always-active: "true", or {_SOURCE}',
        )


def spec_of(document: FieldReader) -> Json:
    """The spec with the field names of autoscaling/v2 and the upstream's defaults, except those of behavior."""
    version = document.text("apiVersion").rpartition("/")[2]
    spec = document.mapping("spec")
    behavior = spec.raw("behavior")
    if version == "v1":
        metrics = _of_v1(document, spec)
        behavior = behavior or _annotated(document, _BEHAVIOR)
        if isinstance(behavior, dict):
            behavior = _uncapitalised(behavior)
    elif version == "v2beta1":
        metrics = [_from_v2beta1(metric) for metric in spec.mappings("metrics")]
    else:
        metrics = spec.items("metrics")
    minimum, maximum = spec.integer("minReplicas"), spec.integer("maxReplicas")
    if maximum is None:
        raise spec.unconvertible("maxReplicas", "there is no maxReplicas", "the API server refuses it too")
    return {
        "scaleTargetRef": spec.raw("scaleTargetRef"),
        "minReplicas": 1 if minimum is None else minimum,
        "maxReplicas": maximum,
        "metrics": metrics or DEFAULT_METRICS,
        "behavior": behavior,
    }


def _of_v1(document: FieldReader, spec: FieldReader) -> list[Json]:
    percent = spec.integer("targetCPUUtilizationPercentage")
    metrics = [] if percent is None else [_resource("cpu", {"type": "Utilization", "averageUtilization": percent})]
    annotated = _annotated(document, _METRICS) or []
    holder = FieldReader({"metrics": annotated}, f"{document.path}.metadata.annotations[{_METRICS}]", [])
    return metrics + [_from_v2beta1(metric) for metric in holder.mappings("metrics")]


def _annotated(document: FieldReader, key: str) -> Any:
    text = document.mapping("metadata").texts("annotations").get(key)
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise document.unconvertible(
            f"metadata.annotations[{key}]", f"found {text!r}", f"JSON belongs here: {error}"
        ) from None


def _uncapitalised(value: Any) -> Any:
    """The value with lower-case keys: the upstream writes the annotation with Go's names, such as ScaleDown."""
    if isinstance(value, Mapping):
        return {key[:1].lower() + key[1:]: _uncapitalised(field) for key, field in value.items() if field is not None}
    if isinstance(value, list):
        return [_uncapitalised(element) for element in value]
    return value


def _resource(name: str, target: Json) -> Json:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def _from_v2beta1(metric: FieldReader) -> Json:
    kind = metric.text("type")
    read = _SOURCES.get(kind)
    if read is None:
        raise metric.unconvertible("type", f'found "{kind}"', f"accepted are {', '.join(_SOURCES)}")
    source = kind[:1].lower() + kind[1:]
    return {"type": kind, source: read(metric.mapping(source))}


def _of_resource(source: FieldReader) -> Json:
    out: Json = {"name": source.text("name")}
    if "container" in source:
        out["container"] = source.text("container")
    percent = source.integer("targetAverageUtilization")
    average = source.raw("targetAverageValue")
    if percent is not None:
        return out | {"target": {"type": "Utilization", "averageUtilization": percent}}
    return out | {"target": {"type": "AverageValue", "averageValue": average}}


def _of_pods(source: FieldReader) -> Json:
    target = {"type": "AverageValue", "averageValue": source.raw("targetAverageValue")}
    return {"metric": _identifier(source, "selector"), "target": target}


def _of_object(source: FieldReader) -> Json:
    average = source.raw("averageValue")
    value = source.raw("targetValue")
    target = {"type": "Value", "value": value} if average is None else {"type": "AverageValue", "averageValue": average}
    return {"describedObject": source.raw("target"), "metric": _identifier(source, "selector"), "target": target}


def _of_external(source: FieldReader) -> Json:
    average = source.raw("targetAverageValue")
    value = source.raw("targetValue")
    target = {"type": "Value", "value": value} if average is None else {"type": "AverageValue", "averageValue": average}
    return {"metric": _identifier(source, "metricSelector"), "target": target}


def _identifier(source: FieldReader, selector: str) -> Json:
    out: Json = {"name": source.text("metricName")}
    if selector in source:
        out["selector"] = source.raw(selector)
    return out


_SOURCES = {
    "Resource": _of_resource,
    "ContainerResource": _of_resource,
    "Pods": _of_pods,
    "Object": _of_object,
    "External": _of_external,
}
