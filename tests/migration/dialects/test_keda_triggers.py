"""
cronhpa.migration.dialects.keda_triggers, cronhpa.migration.documents.exporters, cronhpa.migration.documents.sources:
KEDA can go.
"""

import pytest

from migration.reading import converted, only, remarks

BASE = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{name: shop, namespace: prod}}
spec:
  scaleTargetRef: {{name: shop}}
  minReplicaCount: {lowest}
  triggers: [{triggers}]
"""
RATE = "sum(rate(http_requests_total[1m])) or vector(0)"


def scaled_object(*triggers, lowest=1):
    return BASE.format(triggers=", ".join(triggers), lowest=lowest)


def prometheus(extra="", query=RATE, kind="prometheus", address="serverAddress"):
    return (
        f"{{type: {kind}, metadata: {{{address}: 'http://prometheus.monitoring:9090', threshold: '100', "
        f"query: '{query}'{extra}}}}}"
    )


def test_a_query_becomes_a_source_that_the_metric_names():
    """metricName is left over from KEDA 2.9: it names the source."""
    conversion = converted(scaled_object(prometheus(", metricName: http_requests_total")))

    name = "prod-shop-http-requests-total"
    metric = {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": "100"}}
    assert [{"type": "External", "external": metric}] == only(conversion)["metrics"]
    assert {name: {"prometheus": {"url": "http://prometheus.monitoring:9090", "query": RATE}}} == conversion.sources
    assert () == conversion.remarks


def test_two_objects_that_ask_for_the_same_share_a_source():
    other = scaled_object(prometheus()).replace("name: shop", "name: cart")

    conversion = converted(f"{scaled_object(prometheus())}---\n{other}")

    assert ["prod-shop-prometheus"] == list(conversion.sources)
    assert 2 == len(conversion.manifests)


def test_two_queries_of_one_object_are_two_sources():
    conversion = converted(scaled_object(prometheus(), prometheus(query="sum(queue) or vector(0)")))

    assert ["prod-shop-prometheus", "prod-shop-prometheus-2"] == list(conversion.sources)


@pytest.mark.parametrize(
    ("trigger", "key", "words"),
    [
        (prometheus(", authModes: bearer"), "metadata.authModes", "tokenFile"),
        (prometheus(query="sum(up)"), "metadata.ignoreNullValues", "or vector(0)"),
        (prometheus(", namespace: shop"), "metadata.namespace", "name the namespace"),
        (prometheus(", unsafeSsl: 'true'"), "metadata.unsafeSsl", "caFile"),
        (prometheus(", awsRegion: eu-west-1"), "metadata.awsRegion", "proxy that signs"),
        (prometheus(", queryParameters: a=b"), "metadata.queryParameters", "no parameters"),
        (prometheus().replace("prometheus.monitoring", "prometheus"), "metadata.serverAddress", "prometheus.NAMESPACE"),
    ],
)
def test_each_way_in_which_keda_asks_otherwise_is_a_remark(trigger, key, words):
    conversion = converted(scaled_object(trigger))

    assert words in remarks(conversion)[f"spec.triggers[0].{key}"].meaning
    assert 1 == len(conversion.sources)


def test_an_empty_answer_that_keda_takes_for_an_error_is_none_here_either():
    conversion = converted(scaled_object(prometheus(", ignoreNullValues: 'false'", query="sum(up)")))

    assert () == conversion.remarks


def test_a_dollar_sign_is_two_in_a_source():
    """One begins a placeholder there."""
    conversion = converted(scaled_object(prometheus(query='sum(up{pod=~"shop-.*$"}) or vector(0)')))

    assert 'sum(up{pod=~"shop-.*$$"}) or vector(0)' == conversion.sources["prod-shop-prometheus"]["prometheus"]["query"]
    assert () == conversion.remarks


def test_headers_go_along_and_a_user_in_the_url_does_not():
    extra = ", cortexOrgID: me, customHeaders: 'X-One=1,X-Two=2'"
    conversion = converted(scaled_object(prometheus(extra).replace("http://prometheus", "http://me:secret@prometheus")))

    source = conversion.sources["prod-shop-prometheus"]["prometheus"]
    assert {"X-One": "1", "X-Two": "2", "X-Scope-OrgID": "me"} == source["headers"]
    assert "http://prometheus.monitoring:9090" == source["url"]
    assert ["found a user in the URL"] == [remark.finding for remark in conversion.remarks]


@pytest.mark.parametrize(("lowest", "count"), [(0, 1), (1, 0)])
def test_an_activation_threshold_counts_where_the_target_sleeps(lowest, count):
    conversion = converted(scaled_object(prometheus(", activationThreshold: '5'"), lowest=lowest))

    assert count == len(conversion.remarks)


def test_predictkube_is_its_query_with_a_forecast():
    extra = ", predictHorizon: 2h, historyTimeWindow: 7d, queryStep: 2m"
    conversion = converted(scaled_object(prometheus(extra, kind="predictkube", address="prometheusAddress")))

    assert {} == only(conversion)["forecast"]
    assert RATE == conversion.sources["prod-shop-predictkube"]["prometheus"]["query"]
    assert "two days of load" in remarks(conversion)["spec.triggers[0]"].meaning


@pytest.mark.parametrize(
    ("trigger", "query"),
    [
        (
            "{type: kafka, metadata: {consumerGroup: g, topic: t, lagThreshold: '50'}}",
            'sum(kafka_consumergroup_lag{consumergroup="g",topic="t"})',
        ),
        (
            "{type: rabbitmq, metadata: {queueName: q, mode: QueueLength, value: '50', excludeUnacknowledged: 'true'}}",
            'sum(rabbitmq_queue_messages_ready{queue="q"})',
        ),
        (
            "{type: rabbitmq, metadata: {queueName: q, mode: MessageRate, value: '50'}}",
            'sum(rate(rabbitmq_queue_messages_published_total{queue="q"}[1m]))',
        ),
        (
            "{type: aws-sqs-queue, metadata: {queueURL: 'https://sqs.eu/1/q', scaleOnInFlight: 'false'}}",
            'max(aws_sqs_approximate_number_of_messages_visible_average{queue_name="q"})',
        ),
        ("{type: redis, metadata: {listName: 'a\"b'}}", r'sum(redis_key_size{key="a\"b"})'),
        (
            "{type: redis-streams, metadata: {stream: s, consumerGroup: g, pendingEntriesCount: '5'}}",
            'sum(redis_stream_group_messages_pending{stream="s",group="g"})',
        ),
        ("{type: postgresql, metadata: {query: SELECT 1, targetQueryValue: '5'}}", "max(prod_shop_postgresql)"),
        # A URL cannot ask for what chooses among the elements of an answer.
        ("{type: metrics-api, metadata: {url: 'http://a/b', valueLocation: 'c.#(d==1).e', targetValue: '3'}}", None),
        ("{type: azure-servicebus, metadata: {queueName: q}}", None),
        ("{type: gcp-pubsub, metadata: {subscriptionName: s}}", None),
        ("{type: nats-jetstream, metadata: {stream: s, consumer: c}}", None),
    ],
)
def test_a_queue_is_asked_by_way_of_an_exporter_if_its_prometheus_is_known(trigger, query):
    without, with_url = (converted(scaled_object(trigger, prometheus()), prometheus=url) for url in (None, "http://p"))

    told = remarks(without)["spec.triggers[0]"].meaning
    assert all(words in told for words in ("https://", "--prometheus", "convert it together with KEDA's own HPA"))
    (made,) = (
        source["prometheus"] for source in with_url.sources.values() if source["prometheus"]["url"] == "http://p"
    )
    assert query is None or query == made["query"]
    assert 2 == len(only(with_url)["metrics"])
    others = [remark for remark in with_url.remarks if "all servers that this Prometheus" not in remark.meaning]
    assert (2 if "metrics-api" in trigger else 1) == len(others)


def test_a_scaler_that_no_exporter_serves_is_named():
    conversion = converted(scaled_object("{type: external-push, metadata: {scalerAddress: 'a:1'}}", prometheus()))

    assert "no exporter in common use serves it" in remarks(conversion)["spec.triggers[0].type"].meaning
    assert 1 == len(only(conversion)["metrics"])


@pytest.mark.parametrize("threshold", ["", "many", "nan", "inf", "1_000", "0", "-5"])
def test_a_threshold_that_says_nothing_is_refused(threshold):
    trigger = f"{{type: prometheus, metadata: {{serverAddress: 'http://p', query: up, threshold: '{threshold}'}}}}"

    conversion = converted(scaled_object(trigger))

    assert () == conversion.manifests
    assert "spec.triggers[0].metadata.threshold" in remarks(conversion)
    assert {} == conversion.sources


@pytest.mark.parametrize("threshold", ["nan", "1_000", "0"])
def test_a_threshold_that_says_nothing_costs_its_own_trigger_alone(threshold):
    odd = f"{{type: prometheus, metadata: {{serverAddress: 'http://p', query: up, threshold: '{threshold}'}}}}"

    conversion = converted(scaled_object(odd, prometheus()))

    assert 1 == len(only(conversion)["metrics"])
    assert f'found "{threshold}"' in remarks(conversion)["spec.triggers[0].metadata.threshold"].finding


def queue(kind, fields):
    """What becomes of a trigger for a queue, where one Prometheus scrapes the exporters."""
    trigger = f"{{type: {kind}, metadata: {{{fields}}}}}"
    return converted(scaled_object(trigger), prometheus="http://prometheus.monitoring:9090")


@pytest.mark.parametrize(
    ("kind", "fields", "key", "words"),
    [
        ("kafka", "bootstrapServers: 'k:9092', consumerGroup: g, topic: t", "bootstrapServers", 'instance="..."'),
        ("redis", "address: 'redis:6379', listName: l", "address", 'instance="..."'),
        ("redis", "addressFromEnv: REDIS, listName: l", "addressFromEnv", 'instance="..."'),
        ("rabbitmq", "host: 'amqp://u:secret@r:5672/shop', queueName: q", "host", "rabbitmq_cluster"),
        ("aws-sqs-queue", "queueURL: 'https://sqs.eu-west-1.amazonaws.com/1/q'", "queueURL", 'job="..."'),
        ("nats-jetstream", "natsServerMonitoringEndpoint: 'n:8222', stream: s, consumer: c", "natsServer", "cluster"),
        ("azure-servicebus", "queueName: q, namespace: bus", "namespace", "resourceID"),
    ],
)
def test_a_query_that_counts_all_servers_says_so(kind, fields, key, words):
    """Found: a Redis and its replica, or staging beside production, doubled the number without a word."""
    conversion = queue(kind, fields)

    remark = next(remark for remark in conversion.remarks if "does not name this server" in remark.finding)
    assert remark.path.startswith(f"ScaledObject/shop.spec.triggers[0].metadata.{key}")
    assert "all servers that this Prometheus scrapes count" in remark.meaning
    assert words in remark.meaning
    assert not any("secret" in str(remark) for remark in conversion.remarks)


def test_a_queue_whose_metric_is_known_to_nobody_gets_one_remark_with_both_ways_out():
    """Found: two remarks, one of which named --prometheus, the other KEDA's HPA."""
    trigger = "{type: kafka, metadata: {consumerGroup: g, topic: t}}"

    (remark,) = converted(scaled_object(trigger, prometheus())).remarks

    assert "ScaledObject/shop.spec.triggers[0]" == remark.path
    assert "kafka: KEDA asks it itself" == remark.finding
    assert "name that Prometheus with --prometheus to get the source" in remark.meaning
    assert "with KEDA kept, convert it together with KEDA's own HPA" in remark.meaning


def test_a_server_that_stands_in_a_trigger_authentication_is_not_named_either():
    conversion = queue("redis", "listName: l")

    assert any("the query names no server" == remark.finding for remark in conversion.remarks)


@pytest.mark.parametrize(
    ("host", "labels"),
    [
        ("amqp://rabbit:5672/shop", 'queue="q",vhost="shop"'),
        ("amqp://rabbit:5672", 'queue="q",vhost="/"'),
        ("amqp://rabbit:5672/%2F", 'queue="q",vhost="/"'),
        ("http://rabbit:15672/api-prefix/shop", 'queue="q",vhost="shop"'),
        ("amqp://rabbit:5672/shop', vhostName: 'cart", 'queue="q",vhost="cart"'),
    ],
)
def test_the_virtual_host_is_the_one_that_keda_asks(host, labels):
    """Found: without vhostName the queues of this name in all virtual hosts were summed (getVhostAndPathFromURL)."""
    conversion = queue("rabbitmq", f"host: '{host}', queueName: q")

    assert labels in next(iter(conversion.sources.values()))["prometheus"]["query"]


def test_a_subscription_of_another_project_is_asked_by_project():
    conversion = queue("gcp-pubsub", "subscriptionName: projects/billing/subscriptions/orders")

    query = next(iter(conversion.sources.values()))["prometheus"]["query"]
    assert '{project_id="billing",subscription_id="orders"}' in query
