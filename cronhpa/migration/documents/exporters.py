"""
The Prometheus exporters that serve the numbers of KEDA's scalers for queues and databases, and the PromQL for them.

There is a row for each scaler that an exporter in common use covers. Metric names are those of the exporter's own
documentation, at `link`. If an exporter counts in another way than KEDA, `note` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from cronhpa.migration.documents.document import FieldReader
from cronhpa.migration.documents.sources import label_value


class Exporter(Struct, frozen=True):
    name: str
    link: str
    promql: Callable[[FieldReader, str], str | None]
    """Makes a query from the trigger's metadata and an unused metric name; None without such a metric."""
    note: str = ""
    """What to set, or how the number differs from KEDA's; "" for neither."""
    uncounted: Mapping[str, str] = {}
    """Fields of the trigger that change KEDA's count and not the query's, with the value that changes neither."""
    server: tuple[str, ...] = ()
    """The fields of the trigger that name the server, of which the query says nothing."""
    apart: str = ""
    """What tells the servers of one Prometheus apart; "" if the query's own name does."""


def _labels(**labels: str) -> str:
    return ",".join(f"{name}={label_value(value)}" for name, value in labels.items() if value)


def _is_true(text: str) -> bool:
    return text.lower() in {"true", "1", "t"}


def _kafka(metadata: FieldReader, _: str) -> str | None:
    labels = _labels(consumergroup=metadata.text("consumerGroup"), topic=metadata.text("topic"))
    return f"sum(kafka_consumergroup_lag{{{labels}}})" if labels else None


def _rabbitmq(metadata: FieldReader, _: str) -> str | None:
    labels = _labels(queue=metadata.text("queueName"), vhost=_virtual_host(metadata))
    mode = metadata.text("mode") or "QueueLength"
    if not metadata.text("queueName") or _is_true(metadata.text("useRegex")):
        return None
    if mode == "MessageRate":
        return f"sum(rate(rabbitmq_queue_messages_published_total{{{labels}}}[1m]))"
    if mode != "QueueLength":
        return None
    # Over AMQP KEDA counts ready messages; over HTTP (the management API) also messages that are not acknowledged.
    protocol = metadata.text("protocol") or metadata.text("host").partition("://")[0]
    is_amqp = protocol in {"amqp", "amqps"}
    ready = "_ready" if is_amqp or _is_true(metadata.text("excludeUnacknowledged")) else ""
    return f"sum(rabbitmq_queue_messages{ready}{{{labels}}})"


def _virtual_host(metadata: FieldReader) -> str:
    """vhostName, else the last part of the path of host, else "/"; "" if neither is stated here."""
    host = metadata.text("host")
    if metadata.text("vhostName") or not host:
        return metadata.text("vhostName")
    return unquote(urlsplit(host).path.rpartition("/")[2]) or "/"


def _sqs(metadata: FieldReader, _: str) -> str | None:
    queue = metadata.text("queueURL").rstrip("/").rpartition("/")[2]
    if not queue:
        return None
    kinds = ["visible"]
    if metadata.text("scaleOnInFlight", "true") != "false":
        kinds.append("not_visible")
    if _is_true(metadata.text("scaleOnDelayed")):
        kinds.append("delayed")
    label = _labels(queue_name=queue)
    return " + ".join(f"max(aws_sqs_approximate_number_of_messages_{kind}_average{{{label}}})" for kind in kinds)


def _redis_list(metadata: FieldReader, _: str) -> str | None:
    name = metadata.text("listName")
    return f"sum(redis_key_size{{{_labels(key=name, db=_database(metadata))}}})" if name else None


def _redis_streams(metadata: FieldReader, _: str) -> str | None:
    stream, group = metadata.text("stream"), metadata.text("consumerGroup")
    if not stream:
        return None
    labels = _labels(stream=stream, group=group, db=_database(metadata))
    if not group:
        return f"sum(redis_stream_length{{{labels}}})"
    return f"sum(redis_stream_group_{'lag' if metadata.text('lagCount') else 'messages_pending'}{{{labels}}})"


def _database(metadata: FieldReader) -> str:
    index = metadata.text("databaseIndex")
    return f"db{index}" if index else ""


def _sql(metadata: FieldReader, free: str) -> str | None:
    return f"max({free})" if metadata.text("query") else None


def _nats(metadata: FieldReader, _: str) -> str | None:
    account = metadata.text("account")
    labels = _labels(stream_name=metadata.text("stream"), consumer_name=metadata.text("consumer"), account=account)
    if not labels:
        return None
    leader = f'{labels},is_consumer_leader="true"'
    return f"sum(jetstream_consumer_num_pending{{{leader}}}) + sum(jetstream_consumer_num_ack_pending{{{leader}}})"


def _service_bus(metadata: FieldReader, _: str) -> str | None:
    entity = metadata.text("queueName") or metadata.text("topicName")
    if not entity or _is_true(metadata.text("useRegex")):
        return None
    return f'max(azurerm_resource_metric{{metric="ActiveMessages",{_labels(dimensionEntityName=entity)}}})'


def _pubsub(metadata: FieldReader, _: str) -> str | None:
    project, _, name = metadata.text("subscriptionName").removeprefix("projects/").rpartition("/subscriptions/")
    if not name or metadata.text("mode", "SubscriptionSize") not in {"SubscriptionSize", "NumUndeliveredMessages"}:
        return None
    series = "stackdriver_pubsub_subscription_pubsub_googleapis_com_subscription_num_undelivered_messages"
    return f"max({series}{{{_labels(project_id=project, subscription_id=name)}}})"


def _json_value(metadata: FieldReader, free: str) -> str | None:
    return f"max({free})" if metadata.text("url") and metadata.text("format", "json") == "json" else None


_OF_INSTANCE = 'instance="..." inside its braces, the exporter of that server'
_SQL_NOTE = "make the query a metric of the name that the PromQL has"
_KAFKA = Exporter(
    "kafka_exporter",
    "https://github.com/danielqsj/kafka_exporter",
    _kafka,
    "without allowIdleConsumers KEDA asks for no more pods than the topic has partitions: set maxReplicas to them",
    {
        "partitionLimitation": "",
        "excludePersistentLag": "false",
        "limitToPartitionsWithLag": "false",
        "ensureEvenDistributionOfPartitions": "false",
        "scaleToZeroOnInvalidOffset": "false",
        "offsetResetPolicy": "latest",
    },
    ("bootstrapServers",),
    _OF_INSTANCE,
)
_SQL = Exporter("sql_exporter", "https://github.com/burningalchemist/sql_exporter", _sql, _SQL_NOTE)
_REDIS_LINK = "https://github.com/oliver006/redis_exporter"
_REDIS = ("address", "addresses", "host", "hosts")
_REDIS_LIST = Exporter(
    "redis_exporter",
    _REDIS_LINK,
    _redis_list,
    "name the list in its option --check-single-keys",
    {},
    _REDIS,
    _OF_INSTANCE,
)
_REDIS_STREAMS = Exporter(
    "redis_exporter", _REDIS_LINK, _redis_streams, "name the stream in --check-single-streams", {}, _REDIS, _OF_INSTANCE
)

EXPORTERS: Mapping[str, Exporter] = {
    "kafka": _KAFKA,
    "apache-kafka": _KAFKA,
    "rabbitmq": Exporter(
        "RabbitMQ's own plugin rabbitmq_prometheus",
        "https://www.rabbitmq.com/docs/prometheus",
        _rabbitmq,
        "scrape its path /metrics/per-object: /metrics has no value for each queue; over HTTP KEDA counts messages "
        "that are not acknowledged, over AMQP not",
        {},
        ("host",),
        'vhost="..." inside its braces if it is not there, and behind them `* on (instance) group_left () '
        'rabbitmq_identity_info{rabbitmq_cluster="..."}`',
    ),
    "aws-sqs-queue": Exporter(
        "cloudwatch_exporter",
        "https://github.com/prometheus/cloudwatch_exporter",
        _sqs,
        "CloudWatch is a minute or more behind the queue",
        {},
        ("queueURL",),
        'job="..." inside its braces, the exporter of that account and region',
    ),
    "redis": _REDIS_LIST,
    "redis-cluster": _REDIS_LIST,
    "redis-sentinel": _REDIS_LIST,
    "redis-streams": _REDIS_STREAMS,
    "redis-cluster-streams": _REDIS_STREAMS,
    "redis-sentinel-streams": _REDIS_STREAMS,
    "postgresql": _SQL,
    "mysql": _SQL,
    "mssql": _SQL,
    "nats-jetstream": Exporter(
        "prometheus-nats-exporter",
        "https://github.com/nats-io/prometheus-nats-exporter",
        _nats,
        "run it with -jsz=all",
        {},
        ("natsServerMonitoringEndpoint",),
        'job="..." inside its braces, the exporters of that cluster',
    ),
    "azure-servicebus": Exporter(
        "azure-metrics-exporter",
        "https://github.com/webdevops/azure-metrics-exporter",
        _service_bus,
        "probe ActiveMessages by the dimension EntityName; of a topic it counts all subscriptions",
        {},
        ("namespace", "connection"),
        'resourceID=~".*/NAMESPACE" inside its braces',
    ),
    "gcp-pubsub": Exporter(
        "stackdriver_exporter",
        "https://github.com/prometheus-community/stackdriver_exporter",
        _pubsub,
        "Cloud Monitoring is a minute or more behind the subscription",
        {"aggregation": "", "timeHorizon": "", "valueIfNull": ""},
    ),
    "metrics-api": Exporter(
        "json_exporter",
        "https://github.com/prometheus-community/json_exporter",
        _json_value,
        "make a module that serves valueLocation as a metric of the name that the PromQL has",
        {"aggregateFromKubeServiceEndpoints": "false", "aggregationType": "average"},
    ),
}
