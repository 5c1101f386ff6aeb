"""
The load of one pod in each kind of KEDA trigger: the field that states it, and KEDA's default if there is one.

From pkg/scalers of KEDA 2.20, and of earlier releases for fields that have been removed since.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cronhpa.migration.documents.document import FieldReader

_FIELDS: Mapping[str, tuple[str, str | None]] = {
    "prometheus": ("threshold", None),
    "predictkube": ("threshold", None),
    "kafka": ("lagThreshold", "10"),
    "apache-kafka": ("lagThreshold", "10"),
    "aws-sqs-queue": ("queueLength", "5"),
    "aws-cloudwatch": ("targetMetricValue", None),
    "azure-queue": ("queueLength", "5"),
    "azure-servicebus": ("messageCount", "5"),
    "redis": ("listLength", "5"),
    "redis-cluster": ("listLength", "5"),
    "redis-sentinel": ("listLength", "5"),
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


class Threshold(Struct, frozen=True):
    field: str
    """The field that states the threshold, "" for an unknown scaler."""
    text: str
    """The threshold as text; empty if the trigger does not state it."""


def is_known(kind: str) -> bool:
    return kind in _FIELDS or kind in _CHOSEN


def threshold(kind: str, metadata: FieldReader) -> Threshold:
    """The load of one pod by a trigger of this kind."""
    field, default = _CHOSEN[kind](metadata) if kind in _CHOSEN else _FIELDS.get(kind, ("", None))
    return Threshold(field, (metadata.text(field) if field else "") or default or "")


def _rabbitmq(metadata: FieldReader) -> tuple[str, str | None]:
    """queueLength, which is older than mode and value; 20 if the trigger has none of the three."""
    if metadata.text("queueLength"):
        return "queueLength", None
    return "value", None if metadata.text("mode") else "20"


def _redis_streams(metadata: FieldReader) -> tuple[str, str | None]:
    """Without a group the length of the stream counts; with one its lag, or else its pending entries."""
    if not metadata.text("consumerGroup"):
        return "streamLength", "5"
    return ("lagCount", None) if metadata.text("lagCount") else ("pendingEntriesCount", "5")


def _pubsub(metadata: FieldReader) -> tuple[str, str | None]:
    """subscriptionSize until KEDA 2.19."""
    return ("subscriptionSize", None) if metadata.text("subscriptionSize") else ("value", "10")


_CHOSEN = {
    "rabbitmq": _rabbitmq,
    "gcp-pubsub": _pubsub,
    "redis-streams": _redis_streams,
    "redis-cluster-streams": _redis_streams,
    "redis-sentinel-streams": _redis_streams,
}
