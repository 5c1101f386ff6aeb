"""
Triggers of a KEDA ScaledObject, as of KEDA 2.20.

- cron: a window.
- cpu, memory: resource metrics.
- prometheus, predictkube: the query becomes a named metric source, which the operator asks itself.
- metrics-api: a source that asks the same URL.
- scalers of queues and databases: a source on the metric of a Prometheus exporter, if one is in common use and the
  Prometheus is known.
- any other: KEDA's own external metric, if KEDA's HorizontalPodAutoscaler or the status names it. Such an object needs
  KEDA.
"""

from __future__ import annotations

import re

from msgspec import Struct

from cronhpa.core.model.quantity import parse_milli
from cronhpa.migration.dialects.keda_metrics_api import url_source
from cronhpa.migration.dialects.keda_servers import CREDENTIALS, TIMEOUT, UNTRUSTED, address
from cronhpa.migration.dialects.keda_thresholds import is_known, threshold
from cronhpa.migration.documents import edges
from cronhpa.migration.documents.context import ConversionContext, key_of
from cronhpa.migration.documents.document import FieldReader, Json, Unconvertible
from cronhpa.migration.documents.exporters import EXPORTERS, Exporter
from cronhpa.migration.documents.sources import prometheus

_LABEL = "scaledobject.keda.sh/name"
_NAME_MAX = 63
_NEVER_EMPTY = re.compile(r"\bor\s+(on\s*\(\s*\)\s*)?vector\s*\([^)]*\)\s*\)*\s*$")
# A suffix of fields: KEDA takes the value from an environment variable of the target's first container.
_FROM_ENV = "FromEnv"
_ASKED_BY_KEDA = "KEDA asks it itself"
_LIST_ITEM = re.compile(r"\s*([^=,\s]+)=([^,]*)")
# Fields of the prometheus trigger that change KEDA's request, and what to do about each here.
_ASKED = {
    "authModes": CREDENTIALS,
    "namespace": "KEDA sends it as a parameter, and a source sends none: name the namespace in the query",
    "queryParameters": "a source sends no parameters: write what they say into the query",
    "unsafeSsl": UNTRUSTED,
    "awsRegion": "the source signs no requests: put a proxy that signs before the workspace, and name the proxy",
    "timeout": TIMEOUT,
}


class Triggers(Struct, frozen=True):
    """The converted triggers."""

    crons: tuple[Json, ...]
    resources: tuple[Json, ...]
    external: tuple[Json, ...]
    lost: bool
    """Whether a trigger could not be converted."""
    has_external: bool
    """Whether a trigger wakes from 0."""
    predicts: bool
    """Whether a trigger was a prediction."""


def read_triggers(
    document: FieldReader, spec: FieldReader, advanced: FieldReader, context: ConversionContext, *, may_sleep: bool
) -> Triggers:
    """The converted triggers. may_sleep: whether KEDA goes to 0; only then an activation threshold matters."""
    crons: list[Json] = []
    resources: list[Json] = []
    external: list[Json] = []
    from_keda: list[Json] = []
    lost = has_external = predicts = False
    hpa = _own_hpa(document, context)
    formula = "formula" in advanced.mapping("scalingModifiers")
    for index, trigger in enumerate(spec.mappings("triggers")):
        kind = trigger.text("type")
        trigger.ignore("name", "useCachedMetrics")
        try:
            if kind in {"cpu", "memory"}:
                resources.append(_resource(kind, trigger))
            elif formula:
                trigger.ignore("metadata", "metricType", "authenticationRef")
            elif kind == "cron":
                crons.append(_cron(trigger, index, context))
            else:
                has_external = True
                _activation(trigger, may_sleep=may_sleep)
                own_metric = _asked_here(document, trigger, kind, context)
                if isinstance(own_metric, str):
                    from_keda.append(_served_by_keda(document, trigger, index, kind, hpa, own_metric))
                else:
                    external.append(own_metric)
                    predicts = predicts or kind == "predictkube"
        except Unconvertible as refusal:
            lost = True
            trigger.ignore("metadata", "metricType", "authenticationRef")
            field = refusal.path.removeprefix(trigger.path).removeprefix(".")
            trigger.remark(field, f"{kind}: {refusal.finding}", refusal.meaning)
    if formula:
        has_external = True
        from_keda.append(_composite(advanced, hpa))
    advanced.ignore("scalingModifiers")
    if from_keda:
        spec.remark(
            "triggers",
            f"{', '.join(metric['external']['metric']['name'] for metric in from_keda)}: KEDA serves this",
            f"and only while a ScaledObject {document.mapping('metadata').text('name')} with these triggers exists: "
            "keep one on a target of no other use, or name the metric of another adapter here",
        )
    return Triggers(tuple(crons), tuple(resources), (*external, *from_keda), lost, has_external, predicts)


# --- windows and resources ---------------------------------------------------------------------------------------


def _cron(trigger: FieldReader, index: int, context: ConversionContext) -> Json:
    metadata = trigger.mapping("metadata")
    target_type = trigger.text("metricType") or "AverageValue"
    if target_type != "AverageValue":
        raise trigger.unconvertible(
            "metricType", f'found "{target_type}"', "desiredReplicas is a count of pods with AverageValue only"
        )
    replicas = metadata.integer("desiredReplicas")
    if replicas is None:
        raise metadata.unconvertible(
            "desiredReplicas", "there is no desiredReplicas", "say how many replicas the window needs"
        )
    zone = metadata.text("timezone")
    if not zone:
        raise metadata.unconvertible(
            "timezone", "there is no timezone", "KEDA refuses it too: name one, such as Europe/Berlin"
        )
    start, end = metadata.text("start"), metadata.text("end")
    fields = edges.window(metadata, (start, end), zone, "KEDA", context)
    if replicas < 1:
        metadata.remark(
            "desiredReplicas",
            f'found "{replicas}"',
            "KEDA up to 2.15 keeps at least one pod while a trigger is active, later ones refuse 0; the window keeps "
            "at least minReplicas, and 1: for no pods in this window write replicas: 0 instead of minReplicas",
        )
    return {"name": trigger.text("name") or f"cron-{index}"} | fields | {"minReplicas": replicas}


def _resource(kind: str, trigger: FieldReader) -> Json:
    metadata = trigger.mapping("metadata")
    target_type = trigger.text("metricType") or metadata.text("type")
    value = metadata.text("value")
    if target_type == "Utilization":
        target: Json = {"type": target_type, "averageUtilization": metadata.integer("value")}
    elif target_type == "AverageValue":
        target = {"type": target_type, "averageValue": value}
    else:
        raise trigger.unconvertible("metricType", f'found "{target_type}"', "KEDA takes Utilization and AverageValue")
    if "containerName" in metadata:
        source: Json = {"name": kind, "container": metadata.text("containerName"), "target": target}
        return {"type": "ContainerResource", "containerResource": source}
    return {"type": "Resource", "resource": {"name": kind, "target": target}}


# --- metrics that the operator asks itself -----------------------------------------------------------------------


def _asked_here(document: FieldReader, trigger: FieldReader, kind: str, context: ConversionContext) -> Json | str:
    """The metric of a trigger as a named source; else what such a source would need, "" if none can ask for it."""
    metadata = trigger.mapping("metadata")
    label = trigger.text("name") or metadata.text("metricName") or kind
    parts = (*key_of(document), label)
    if kind in {"prometheus", "predictkube"}:
        definition = _prometheus(trigger, metadata, "serverAddress" if kind == "prometheus" else "prometheusAddress")
        if kind == "predictkube":
            trigger.remark(
                "",
                "predictkube: a prediction that a service of its vendor makes",
                "the query is the metric, and forecast looks ahead: it begins once there are two days of load",
            )
            metadata.ignore("predictHorizon", "historyTimeWindow", "queryStep")
            trigger.ignore("authenticationRef")
    elif kind == "metrics-api" and (read := url_source(trigger, metadata)) is not None:
        definition = read
    elif (exporter := EXPORTERS.get(kind)) is not None:
        query = exporter.promql(metadata, "_".join(parts).replace("-", "_"))
        if query is None:
            named = [str(key) for key in metadata if str(key).endswith(_FROM_ENV)]
            meaning = f"no query of {exporter.name} gives this number"
            if named:
                plain = ", ".join(key.removesuffix(_FROM_ENV) for key in named)
                meaning = f"the environment of its pods is not read here: write {plain} for {', '.join(named)}"
            return meaning
        served = _served_by(exporter, query)
        if context.prometheus is None:
            return f"{served}; name that Prometheus with --prometheus to get the source"
        trigger.remark("", f"{kind}: {_ASKED_BY_KEDA}, the source asks Prometheus", served)
        _say_of_servers(trigger, exporter)
        for key, usual in exporter.uncounted.items():
            if (value := metadata.text(key)) not in {"", usual}:
                metadata.remark(key, f"found {value}", "KEDA counts by it, the query does not: change the query")
        metadata.ignore(*metadata)
        trigger.ignore("authenticationRef")
        definition = prometheus(context.prometheus, query)
    else:
        return ""
    target = _target(trigger, metadata, kind)
    return {"type": "External", "external": {"metric": {"name": context.sources.add(parts, definition)}, **target}}


def _say_of_servers(trigger: FieldReader, exporter: Exporter) -> None:
    """A remark that the query counts the servers that the trigger does not name, too."""
    if not exporter.apart:
        return
    metadata = trigger.mapping("metadata")
    server_fields = [key for key in metadata if str(key).removesuffix(_FROM_ENV) in exporter.server]
    trigger.remark(
        f"metadata.{server_fields[0]}" if server_fields else "",
        "the query does not name this server" if server_fields else "the query names no server",
        "all servers that this Prometheus scrapes count: if there are several, such as staging and production, add to "
        f"the query of the source {exporter.apart}",
    )


def _served_by(exporter: Exporter, query: str) -> str:
    note = f"; {exporter.note}" if exporter.note else ""
    return f"{exporter.name} serves the same number as {query} ({exporter.link}){note}"


def _prometheus(trigger: FieldReader, metadata: FieldReader, field: str) -> Json:
    """The source of a PromQL query, with a remark for each difference to KEDA's requests."""
    query = metadata.text("query").strip()
    for key, text in ((field, metadata.text(field).strip()), ("query", query)):
        if not text:
            raise metadata.unconvertible(key, f"there is no {key}", "KEDA refuses it too: say what is asked, and where")
    url = address(metadata, field)
    metadata.ignore("metricName", "metricType", "identityOwner")
    for key, meaning in _ASKED.items():
        if metadata.text(key) not in {"", "false"}:
            # A parameter may be a secret key.
            shown = "parameters" if key == "queryParameters" else metadata.text(key)
            metadata.remark(key, f"found {shown}", meaning)
    if "authenticationRef" in trigger:
        name = trigger.mapping("authenticationRef").text("name")
        trigger.mapping("authenticationRef").ignore("kind")
        if not metadata.text("authModes"):
            trigger.remark("authenticationRef", f'found "{name}"', CREDENTIALS)
    if metadata.text("ignoreNullValues", "true").lower() != "false" and not _NEVER_EMPTY.search(query):
        metadata.remark(
            "ignoreNullValues",
            "an empty answer is 0 for KEDA",
            "here it is no value, and no value never shrinks: write `or vector(0)` behind the query if it means 0",
        )
    headers = dict(_LIST_ITEM.findall(metadata.text("customHeaders")))
    if metadata.text("cortexOrgID"):
        headers["X-Scope-OrgID"] = metadata.text("cortexOrgID")
    return prometheus(url, query, headers)


def _activation(trigger: FieldReader, *, may_sleep: bool) -> None:
    metadata = trigger.mapping("metadata")
    for key in metadata:
        if str(key).startswith("activation"):
            value = metadata.text(key)
            if may_sleep and value not in {"", "0"}:
                metadata.remark(key, f"found {value}", "here any value above 0 wakes the target")


def _target(trigger: FieldReader, metadata: FieldReader, kind: str) -> Json:
    """The target of the metric. Raises Unconvertible if the load of one pod is not stated."""
    carried = threshold(kind, metadata)
    value = carried.text
    if not value:
        raise metadata.unconvertible(
            carried.field or "type", "what the metric aims at is not stated", "say what one pod carries"
        )
    try:
        is_load = parse_milli(value) > 0
    except ValueError:
        is_load = False
    if not is_load:
        raise metadata.unconvertible(carried.field, f'found "{value}"', "a number above 0 belongs here")
    target_type = trigger.text("metricType") or "AverageValue"
    if target_type not in {"AverageValue", "Value"}:
        raise trigger.unconvertible("metricType", f'found "{target_type}"', "KEDA takes AverageValue and Value")
    return {"target": {"type": target_type, "value" if target_type == "Value" else "averageValue": value}}


# --- metrics that only KEDA serves -------------------------------------------------------------------------------


def _served_by_keda(
    document: FieldReader, trigger: FieldReader, index: int, kind: str, hpa: FieldReader | None, source: str
) -> Json:
    """The metric as KEDA serves it. source: what a named source would need, "" if none can ask for it."""
    metadata = trigger.mapping("metadata")
    metadata.ignore(*metadata)
    trigger.ignore("authenticationRef")
    metrics = _from_hpa(hpa, f"s{index}-")
    if metrics is not None:
        trigger.ignore("metricType")
        _say_of_source(trigger, kind, source)
        return metrics
    names = [str(name) for name in document.mapping("status").items("externalMetricNames")]
    name = next((name for name in names if name.startswith(f"s{index}-")), None)
    if name is None or not is_known(kind):
        together = "with KEDA kept, convert it together with KEDA's own HPA: kubectl get scaledobject,hpa -o yaml"
        if source:
            raise trigger.unconvertible("", _ASKED_BY_KEDA, f"{source}; or, {together}")
        raise trigger.unconvertible(
            "type",
            "how KEDA names this metric, or what it aims at, is not stated here",
            f"no exporter in common use serves it: scale by what the pods serve, or, {together}",
        )
    _say_of_source(trigger, kind, source)
    selector = {"matchLabels": {_LABEL: document.mapping("metadata").text("name")[:_NAME_MAX]}}
    target = _target(trigger, metadata, kind)
    return {"type": "External", "external": {"metric": {"name": name, "selector": selector}, **target}}


def _say_of_source(trigger: FieldReader, kind: str, source: str) -> None:
    if source:
        trigger.remark("", f"{kind}: {_ASKED_BY_KEDA}", source)


def _own_hpa(document: FieldReader, context: ConversionContext) -> FieldReader | None:
    """The HPA that KEDA made of this object, if it is in the input."""
    metadata = document.mapping("metadata")
    advanced = document.mapping("spec").mapping("advanced").mapping("horizontalPodAutoscalerConfig")
    default = f"keda-hpa-{metadata.text('name')}"[:_NAME_MAX]
    name = document.mapping("status").text("hpaName") or advanced.text("name") or default
    return context.hpas.get((metadata.text("namespace"), name))


def _from_hpa(hpa: FieldReader | None, prefix: str) -> Json | None:
    """The external metric of KEDA's HPA whose name has this prefix."""
    for metric in [] if hpa is None else hpa.mapping("spec").mappings("metrics"):
        if metric.mapping("external").mapping("metric").text("name").startswith(prefix):
            return dict(metric.body)
    return None


def _composite(advanced: FieldReader, hpa: FieldReader | None) -> Json:
    composite = _from_hpa(hpa, "composite-metric")
    if composite is None:
        raise advanced.unconvertible(
            "scalingModifiers.formula",
            "the formula makes one metric of the triggers",
            "only KEDA computes it: convert it together with KEDA's own HPA: kubectl get scaledobject,hpa -o yaml",
        )
    return composite
