"""
Triggers of a KEDA ScaledObject, as of KEDA 2.20.

- cron: a window.
- cpu, memory: resource metrics.
- prometheus, predictkube: the query becomes a named metric source, which the operator asks itself.
- scalers of queues and databases: a source on what a Prometheus exporter serves, where one is in common use and the
  Prometheus is known.
- any other: KEDA's own external metric, if KEDA's HorizontalPodAutoscaler or its status says how it is named. Such an
  object needs KEDA.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from cronhpa.migration import edges
from cronhpa.migration.context import ConversionContext, key_of
from cronhpa.migration.document import FieldReader, Json, Unconvertible
from cronhpa.migration.exporters import EXPORTERS, Exporter
from cronhpa.migration.sources import prometheus

_LABEL = "scaledobject.keda.sh/name"
_NAME_MAX = 63
# The field that says how much one pod carries, and KEDA's default where it has one: pkg/scalers of KEDA 2.20.
_THRESHOLDS: Mapping[str, tuple[str, str | None]] = {
    "prometheus": ("threshold", None),
    "predictkube": ("threshold", None),
    "kafka": ("lagThreshold", "10"),
    "apache-kafka": ("lagThreshold", "10"),
    "rabbitmq": ("value", None),
    "aws-sqs-queue": ("queueLength", "5"),
    "aws-cloudwatch": ("targetMetricValue", None),
    "azure-queue": ("queueLength", "5"),
    "azure-servicebus": ("messageCount", "5"),
    "gcp-pubsub": ("value", "10"),
    "redis": ("listLength", "5"),
    "redis-cluster": ("listLength", "5"),
    "redis-sentinel": ("listLength", "5"),
    "redis-streams": ("pendingEntriesCount", None),
    "redis-cluster-streams": ("pendingEntriesCount", None),
    "redis-sentinel-streams": ("pendingEntriesCount", None),
    "nats-jetstream": ("lagThreshold", "10"),
    "metrics-api": ("targetValue", None),
    "postgresql": ("targetQueryValue", None),
    "mysql": ("queryValue", None),
    "mssql": ("targetValue", None),
    "mongodb": ("queryValue", None),
    "loki": ("threshold", None),
    "graphite": ("threshold", "100"),
    "new-relic": ("threshold", None),
    "kubernetes-workload": ("value", None),
}
_NEVER_EMPTY = re.compile(r"\bor\s+(on\s*\(\s*\)\s*)?vector\s*\([^)]*\)\s*\)*\s*$")
_CREDENTIALS = (
    "KEDA read credentials from a TriggerAuthentication: name tokenFile, or username and passwordFile, in the source"
)
_LIST_ITEM = re.compile(r"\s*([^=,\s]+)=([^,]*)")
# Fields of the prometheus trigger that say how KEDA asks, and what to do about each here.
_ASKED = {
    "authModes": _CREDENTIALS,
    "namespace": "KEDA sends it as a parameter, and a source sends none: name the namespace in the query",
    "queryParameters": "a source sends no parameters: write what they say into the query",
    "unsafeSsl": "name the authority of the server in the source: caFile",
    "awsRegion": "the source signs no requests: put a proxy that signs before the workspace, and name the proxy",
    "timeout": "timeoutSeconds of the source is 5 unless set",
}


class Triggers(Struct, frozen=True):
    """
    The converted triggers. lost: whether one could not be converted. has_external: whether one wakes from 0.
    predicts: whether one was a prediction.
    """

    crons: tuple[Json, ...]
    resources: tuple[Json, ...]
    external: tuple[Json, ...]
    lost: bool
    has_external: bool
    predicts: bool


def read_triggers(
    document: FieldReader, spec: FieldReader, advanced: FieldReader, context: ConversionContext, *, may_sleep: bool
) -> Triggers:
    """may_sleep: whether KEDA goes to 0, which is where an activation threshold counts."""
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
                if (asked := _asked_here(document, trigger, kind, context)) is not None:
                    external.append(asked)
                    predicts = predicts or kind == "predictkube"
                else:
                    from_keda.append(_served_by_keda(document, trigger, index, kind, hpa))
        except Unconvertible as refusal:
            lost = True
            trigger.ignore("metadata", "metricType", "authenticationRef")
            trigger.remark("", f"{kind}: {refusal.found}", refusal.meaning)
    if formula:
        has_external = True
        from_keda.append(_composite(advanced, hpa))
    advanced.ignore("scalingModifiers")
    if from_keda:
        spec.remark(
            "triggers",
            f"{', '.join(item['external']['metric']['name'] for item in from_keda)}: KEDA serves this",
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
            "an active trigger keeps at least one pod at KEDA, so the window keeps at least minReplicas, and 1; "
            "for no pods in this window write replicas: 0 instead of minReplicas",
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


def _asked_here(document: FieldReader, trigger: FieldReader, kind: str, context: ConversionContext) -> Json | None:
    """The metric of a trigger as a named source; None where only KEDA serves it."""
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
    elif (exporter := EXPORTERS.get(kind)) is not None:
        query = exporter.promql(metadata, "_".join(parts).replace("-", "_"))
        if query is None:
            return None
        served = _told(exporter, query)
        if context.prometheus is None:
            trigger.remark(
                "",
                f"{kind}: KEDA asks it itself",
                f"{served}; name that Prometheus with --prometheus to get the source",
            )
            return None
        trigger.remark("", f"{kind}: KEDA asks it itself, the source asks Prometheus", served)
        metadata.ignore(*metadata)
        trigger.ignore("authenticationRef")
        definition = prometheus(context.prometheus, query)
    else:
        return None
    target = _target(trigger, metadata, kind)
    return {"type": "External", "external": {"metric": {"name": context.sources.add(parts, definition)}, **target}}


def _told(exporter: Exporter, query: str) -> str:
    note = f"; {exporter.note}" if exporter.note else ""
    return f"{exporter.name} serves the same number as {query} ({exporter.link}){note}"


def _prometheus(trigger: FieldReader, metadata: FieldReader, address: str) -> Json:
    """The source of a PromQL query, with a remark for each way in which KEDA asks otherwise."""
    url, query = metadata.text(address).strip(), metadata.text("query").strip()
    for key, text in ((address, url), ("query", query)):
        if not text:
            raise metadata.unconvertible(key, f"there is no {key}", "KEDA refuses it too: say what is asked, and where")
    scheme, _, rest = url.rpartition("://")
    user, _, host = rest.rpartition("@")
    if user:
        metadata.remark(address, "found a user in the URL", "name username and passwordFile in the source")
        url = f"{scheme}://{host}"
    if not scheme:
        metadata.remark(address, f'found "{url}"', "KEDA cannot ask it without http:// or https://: took http://")
        url = f"http://{host}"
    metadata.ignore("metricName", "metricType", "identityOwner")
    for key, meaning in _ASKED.items():
        if metadata.text(key) not in {"", "false"}:
            # A parameter may be a key.
            found = "parameters" if key == "queryParameters" else metadata.text(key)
            metadata.remark(key, f"found {found}", meaning)
    if "authenticationRef" in trigger:
        name = trigger.mapping("authenticationRef").text("name")
        trigger.mapping("authenticationRef").ignore("kind")
        if not metadata.text("authModes"):
            trigger.remark("authenticationRef", f'found "{name}"', _CREDENTIALS)
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
    """Raises Unconvertible where it is not stated how much one pod carries."""
    key, default = _THRESHOLDS.get(kind, ("", None))
    value = (metadata.text(key) if key else "") or default
    if value is None:
        raise metadata.unconvertible(key or "type", "what the metric aims at is not stated", "say what one pod carries")
    try:
        float(value)
    except ValueError:
        raise metadata.unconvertible(key, f'found "{value}"', "a number belongs here") from None
    target_type = trigger.text("metricType") or "AverageValue"
    if target_type not in {"AverageValue", "Value"}:
        raise trigger.unconvertible("metricType", f'found "{target_type}"', "KEDA takes AverageValue and Value")
    return {"target": {"type": target_type, "value" if target_type == "Value" else "averageValue": value}}


# --- metrics that only KEDA serves -------------------------------------------------------------------------------


def _served_by_keda(
    document: FieldReader, trigger: FieldReader, index: int, kind: str, hpa: FieldReader | None
) -> Json:
    metadata = trigger.mapping("metadata")
    metadata.ignore(*metadata)
    trigger.ignore("authenticationRef")
    stated = _from_hpa(hpa, f"s{index}-")
    if stated is not None:
        trigger.ignore("metricType")
        return stated
    names = [str(name) for name in document.mapping("status").items("externalMetricNames")]
    name = next((name for name in names if name.startswith(f"s{index}-")), None)
    if name is None or kind not in _THRESHOLDS:
        raise trigger.unconvertible(
            "type",
            "how KEDA names this metric, or what it aims at, is not stated here",
            "with KEDA kept, convert it together with KEDA's own HPA: kubectl get scaledobject,hpa -o yaml"
            if kind in EXPORTERS
            else "no exporter in common use serves it: scale by what the pods serve, or, with KEDA kept, convert it "
            "together with KEDA's own HPA: kubectl get scaledobject,hpa -o yaml",
        )
    selector = {"matchLabels": {_LABEL: document.mapping("metadata").text("name")[:_NAME_MAX]}}
    target = _target(trigger, metadata, kind)
    return {"type": "External", "external": {"metric": {"name": name, "selector": selector}, **target}}


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
    found = _from_hpa(hpa, "composite-metric")
    if found is None:
        raise advanced.unconvertible(
            "scalingModifiers.formula",
            "the formula makes one metric of the triggers",
            "only KEDA computes it: convert it together with KEDA's own HPA: kubectl get scaledobject,hpa -o yaml",
        )
    return found
