"""
cronhpa.migration.dialects.keda_metrics_api, cronhpa.migration.dialects.keda_servers: a metrics-api trigger's URL,
without KEDA.
"""

import json

import pytest
import yaml

from cronhpa.core.model.instant import parse_instant
from cronhpa.sources.parse import parse_sources
from cronhpa.sources.url import read_number
from migration.reading import converted, only, remarks

NOON = parse_instant("2026-03-01T12:00:00Z")
URL = "http://channel.games:8080/scale"


def scaled(reference=None, lowest=1, metric_type=None, **metadata):
    stated = {"url": URL, "valueLocation": "total", "targetValue": "3"} | metadata
    trigger = {"type": "metrics-api", "metadata": {key: value for key, value in stated.items() if value is not None}}
    if reference:
        trigger["authenticationRef"] = {"name": reference}
    if metric_type:
        trigger["metricType"] = metric_type
    spec = {"scaleTargetRef": {"name": "shop"}, "minReplicaCount": lowest, "triggers": [trigger]}
    metadata = {"name": "shop", "namespace": "prod"}
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": spec}
    return converted(json.dumps(body))


def source(conversion):
    """The one source of a conversion, which the operator takes as it stands."""
    ((name, definition),) = conversion.sources.items()
    parse_sources(yaml.safe_dump({"sources": conversion.sources}), "values.yaml")
    assert [name] == [metric["external"]["metric"]["name"] for metric in only(conversion)["metrics"]]
    return definition["url"]


def why(conversion):
    """The remarks on the fields of the trigger."""
    return {path.removeprefix("spec.triggers[0].").removeprefix("metadata."): remark.meaning
            for path, remark in remarks(conversion).items()}  # fmt: skip


def test_it_is_a_source_of_its_url_and_an_external_metric_without_a_remark():
    conversion = scaled(valueLocation="queues.0.length", format="json", activationTargetValue="1")

    assert {"prod-shop-metrics-api": {"url": {"url": URL, "value": "queues.0.length"}}} == conversion.sources
    target = {"type": "AverageValue", "averageValue": "3"}
    metric = {"metric": {"name": "prod-shop-metrics-api"}, "target": target}
    assert [{"type": "External", "external": metric}] == only(conversion)["metrics"]
    assert () == conversion.remarks


def test_a_value_for_all_pods_stays_one():
    (metric,) = only(scaled(metric_type="Value"))["metrics"]

    assert {"type": "Value", "value": "3"} == metric["external"]["target"]


# The cases of KEDA's own TestGetValueFromResponse, and the number that KEDA reads there; None: it reads none.
JSON = b'{"components":[{"id": "82328e93e", "tasks": 32, "str": "64", "k":"1k","wrong":"NaN"}],"count":2.43}'
YAML = b"{components: [{id: 82328e93e, tasks: 32, str: '64', k: 1k, wrong: NaN}], count: 2.43}"
PAGE = b"""# TYPE queue gauge
queue{queueName="zero"} 0
queue{queueName="one"} 1
queue{queueName="two", instance="random"} 2
queue{queueName="two", instance="zero"} 20
# TYPE other gauge
other 10
"""


@pytest.mark.parametrize(
    ("body", "kind", "location", "number"),
    [
        (JSON, "json", "count", 2.43),
        (JSON, "json", "components.0.str", 64),
        (JSON, "json", "components.0.tasks", 32),
        (JSON, "json", "components.#", 1),
        (YAML, "yaml", "count", 2.43),
        (YAML, "yaml", "components.0.str", 64),
        (YAML, "yaml", "components.0.tasks", 32),
        (b"{'a|b': {'c#': 5}}", "yaml", "a|b.c#", 5),
        (PAGE, "prometheus", "other", 10),
        (PAGE, "prometheus", 'queue{queueName="one"}', 1),
        (PAGE, "prometheus", """queue{queueName='two', instance="zero",}""", 20),
    ],
)
def test_the_source_reads_the_number_that_keda_reads(body, kind, location, number):
    conversion = scaled(format=kind, valueLocation=location)
    stated = {"sources": {"one": {"url": source(conversion)}}}

    definition = parse_sources(json.dumps(stated), "values.yaml")["one"]
    assert round(number * 1000) == read_number(body, "text/plain", definition, NOON / 10**9)
    assert (kind == "prometheus") == ("a counter is no value" in why(conversion).get("format", ""))


@pytest.mark.parametrize(
    ("metadata", "key", "words"),
    [
        ({"valueLocation": 'a.#(b=="c").d'}, "valueLocation", "a source computes nothing of an answer"),
        ({"valueLocation": "a.*"}, "valueLocation", "a source computes nothing of an answer"),
        ({"valueLocation": "a|@reverse"}, "valueLocation", "a source computes nothing of an answer"),
        ({"valueLocation": "a..b", "format": "yaml"}, "valueLocation", "a source computes nothing of an answer"),
        ({"valueLocation": 'a{b=~"c"}', "format": "prometheus"}, "valueLocation", "alone"),
        ({"valueLocation": '{__name__="a"}', "format": "prometheus"}, "valueLocation", "alone"),
        ({"format": "xml"}, "format", "KEDA 2.20 reads no number of it"),
        ({"aggregateFromKubeServiceEndpoints": "true"}, "aggregateFromKubeServiceEndpoints", "a source of pods"),
    ],
)
def test_what_a_url_does_not_serve_says_why_and_becomes_nothing(metadata, key, words):
    conversion = scaled(**metadata)

    assert words in why(conversion)[key]
    assert () == conversion.manifests
    assert {} == conversion.sources


@pytest.mark.parametrize("field", ["url", "valueLocation", "targetValue"])
def test_what_keda_refuses_is_refused(field):
    assert () == scaled(**{field: None}).manifests


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://h.prod/a?x=b c&y=$z", "https://h.prod/a?x=b%20c&y=$$z"),
        ("http://h.prod", "http://h.prod"),
        ("http://h.prod/ü/[a]#part", "http://h.prod/%C3%BC/%5Ba%5D"),
        ("http://h.prod/a%2Fb?next=http://other/", "http://h.prod/a%2Fb?next=http://other/"),
        ("http://10.0.0.1:80/a", "http://10.0.0.1:80/a"),
        ("http://localhost/a", "http://localhost/a"),
        ("http://[fd00::1]:81/a", "http://[fd00::1]:81/a"),
    ],
)
def test_a_url_is_asked_as_go_would(url, asked):
    conversion = scaled(url=url)

    assert asked == source(conversion)["url"]
    assert () == conversion.remarks


@pytest.mark.parametrize(
    ("url", "asked", "words"),
    [
        ("http://me:s3cr3t@h.prod/a", "http://h.prod/a", "name username and passwordFile"),
        ("http://h/a", "http://h/a", "write h.NAMESPACE in the source"),
        ("h.prod/a", "http://h.prod/a", "took http://"),
    ],
)
def test_each_way_in_which_keda_reaches_another_server_is_a_remark(url, asked, words):
    conversion = scaled(url=url)

    assert asked == source(conversion)["url"]
    assert words in why(conversion)["url"]
    assert "s3cr3t" not in f"{conversion.remarks}{conversion.sources}{conversion.manifests}"


@pytest.mark.parametrize("url", ["http://$host/a", "http://a b/c", "ftp://h.prod/a", "http://h.prod:x/a"])
def test_a_url_that_no_source_may_have_is_refused(url):
    assert "it is no URL of a fixed host" in str(scaled(url=url).remarks)


AT = "/var/run/secrets/sources/auth"


@pytest.mark.parametrize(
    ("metadata", "fields", "key", "words"),
    [
        ({"authMode": "bearer"}, {"tokenFile": f"{AT}-token"}, "authMode", f"for {AT}-token"),
        ({"authModes": "bearer"}, {"tokenFile": f"{AT}-token"}, "authModes", f"for {AT}-token"),
        ({"authMode": "basic"}, {}, "authMode", f"passwordFile: {AT}-password, and write it and username"),
        ({"authMode": "apiKey"}, {"headerFiles": {"X-API-KEY": f"{AT}-key"}}, "authMode", f"for {AT}-key"),
        (
            {"authMode": "apiKey", "method": "header", "keyParamName": "X-Shop", "apiKey": "s3cr3t"},
            {"headerFiles": {"X-Shop": f"{AT}-key"}},
            "authMode",
            f"for {AT}-key",
        ),
        ({"authMode": "apiKey", "method": "query"}, {}, "method", "a source sends no key in a URL"),
        (
            {"authMode": "tls"},
            {"certFile": f"{AT}-cert", "keyFile": f"{AT}-tls-key"},
            "authMode",
            "and caFile, where it has a ca",
        ),
        ({"unsafeSsl": "true", "authMode": "bearer"}, {"tokenFile": f"{AT}-token"}, "unsafeSsl", "caFile"),
        ({}, {}, "authenticationRef", "tokenFile, headerFiles"),
        ({"timeout": "1000"}, {}, "timeout", "timeoutSeconds"),
    ],
)
def test_a_login_is_a_remark_with_the_file_to_mount(metadata, fields, key, words):
    conversion = scaled("auth", **metadata)

    stated = source(conversion)
    assert fields == {name: value for name, value in stated.items() if name not in {"url", "value"}}
    assert words in why(conversion)[key]
    assert "s3cr3t" not in f"{conversion.remarks}{conversion.sources}"


@pytest.mark.parametrize(("lowest", "count"), [(0, 1), (1, 0)])
def test_an_activation_value_counts_where_the_target_sleeps(lowest, count):
    assert count == len(scaled(lowest=lowest, activationTargetValue="5").remarks)
