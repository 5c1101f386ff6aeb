"""cronhpa.migration.dialects.keda_thresholds: the load of one pod, from the field that KEDA uses."""

import pytest

from migration.reading import converted, only, remarks

PROMETHEUS = "http://prometheus:9090"


def scaled(kind, metadata):
    return converted(
        f"""
        apiVersion: keda.sh/v1alpha1
        kind: ScaledObject
        metadata: {{name: shop, namespace: prod}}
        spec:
          scaleTargetRef: {{name: shop}}
          minReplicaCount: 1
          triggers: [{{type: {kind}, metadata: {{{metadata}}}}}]
        """,
        prometheus=PROMETHEUS,
    )


def carried(conversion):
    ((metric,), (source,)) = only(conversion)["metrics"], conversion.sources.values()
    return metric["external"]["target"]["averageValue"], source["prometheus"]["query"]


@pytest.mark.parametrize(
    ("kind", "metadata", "value", "series"),
    [
        ("rabbitmq", "queueName: q, queueLength: '7'", "7", "rabbitmq_queue_messages{"),
        ("rabbitmq", "queueName: q, mode: QueueLength, value: '7'", "7", "rabbitmq_queue_messages{"),
        ("rabbitmq", "queueName: q", "20", "rabbitmq_queue_messages{"),
        ("rabbitmq", "queueName: q, protocol: amqp", "20", "rabbitmq_queue_messages_ready{"),
        ("rabbitmq", "queueName: q, host: 'amqp://u:p@mq:5672/v'", "20", "rabbitmq_queue_messages_ready{"),
        ("rabbitmq", "queueName: q, host: 'http://mq:15672'", "20", "rabbitmq_queue_messages{"),
        ("gcp-pubsub", "subscriptionName: s, subscriptionSize: '3'", "3", "num_undelivered_messages{"),
        ("gcp-pubsub", "subscriptionName: s, mode: NumUndeliveredMessages, value: '3'", "3", "num_undelivered"),
        ("gcp-pubsub", "subscriptionName: s", "10", "num_undelivered_messages{"),
        # With a group pending entries count, its lag where that is stated, and never the length.
        ("redis-streams", "stream: s, consumerGroup: g", "5", "group_messages_pending{"),
        (
            "redis-streams",
            "stream: s, consumerGroup: g, streamLength: '9'",
            "5",
            "group_messages_pending{",
        ),
        (
            "redis-streams",
            "stream: s, consumerGroup: g, pendingEntriesCount: '9', lagCount: '4'",
            "4",
            "redis_stream_group_lag{",
        ),
        ("redis-streams", "stream: s, streamLength: '9'", "9", "redis_stream_length{"),
        ("redis-streams", "stream: s", "5", "redis_stream_length{"),
        ("redis", "listName: l, databaseIndex: '3'", "5", 'redis_key_size{key="l",db="db3"}'),
    ],
)
def test_what_one_pod_carries_and_what_is_counted_are_those_of_keda(kind, metadata, value, series):
    """As Validate() of rabbitmq_scaler, redis_streams_scaler and gcp_pubsub_scaler of KEDA 2.20 has it."""
    told = carried(scaled(kind, metadata))

    assert value == told[0]
    assert series in told[1]


@pytest.mark.parametrize("metadata", ["queueName: q, mode: QueueLength", "queueName: q, mode: MessageRate, value: x"])
def test_what_keda_refuses_too_is_refused(metadata):
    assert () == scaled("rabbitmq", metadata).manifests


@pytest.mark.parametrize(
    ("kind", "metadata", "field"),
    [
        ("kafka", "consumerGroup: g, topic: t, partitionLimitation: '1,2'", "partitionLimitation"),
        ("kafka", "consumerGroup: g, topic: t, excludePersistentLag: 'true'", "excludePersistentLag"),
        ("gcp-pubsub", "subscriptionName: s, aggregation: mean, value: '3'", "aggregation"),
        (
            "metrics-api",
            "url: a, valueLocation: v, targetValue: 3, aggregateFromKubeServiceEndpoints: 'true', aggregationType: max",
            "aggregationType",
        ),
    ],
)
def test_a_field_that_the_query_does_not_count_by_is_a_remark(kind, metadata, field):
    remarks_by_path = remarks(scaled(kind, metadata))

    assert "KEDA counts by it, the query does not" in remarks_by_path[f"spec.triggers[0].metadata.{field}"].meaning


# The query has no limit by partitions, as KEDA has none with allowIdleConsumers: true.
@pytest.mark.parametrize(
    "field", ["allowIdleConsumers: 'false'", "allowIdleConsumers: 'true'", "offsetResetPolicy: latest"]
)
def test_a_field_that_says_what_holds_anyway_is_none(field):
    conversion = scaled("kafka", f"consumerGroup: g, topic: t, {field}")

    assert any("; without allowIdleConsumers KEDA asks for" in remark.meaning for remark in conversion.remarks)
    assert not any("KEDA counts by it" in remark.meaning for remark in conversion.remarks)


@pytest.mark.parametrize(
    ("kind", "metadata", "meaning"),
    [
        ("aws-sqs-queue", "queueURLFromEnv: QUEUE", "write queueURL for queueURLFromEnv"),
        ("rabbitmq", "queueName: ^q$, useRegex: 'true', mode: QueueLength, value: '5'", "no query of RabbitMQ's own"),
    ],
)
def test_a_queue_that_no_query_names_says_why(kind, metadata, meaning):
    conversion = scaled(kind, metadata)

    assert any(meaning in remark.meaning for remark in conversion.remarks)
    assert () == conversion.manifests
