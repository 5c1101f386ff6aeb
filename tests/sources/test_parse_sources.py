"""cronhpa.sources.parse: valid files of sources, and the errors of others."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from cronhpa.sources import parse, registry
from cronhpa.sources.parse import SourcesError, parse_sources
from cronhpa.sources.pods import PodsDefinition
from cronhpa.sources.prometheus import PrometheusDefinition
from cronhpa.sources.url import UrlDefinition

URL = "http://prometheus.monitoring:9090"
QUERY = 'sum(rate(http_requests_total{namespace="$namespace",deployment="$target"}[1m]))'
WHOLE = f"""
sources:
  requests:
    prometheus:
      url: {URL}/
      query: '{QUERY}'
  of-all:
    prometheus:
      query: sum by (namespace, deployment) (rate(http_requests_total[1m]))
      join: {{namespace: namespace, target: deployment}}
      tokenFile: /var/run/secrets/prometheus/token
      caFile: /var/run/secrets/prometheus/ca.crt
      headers: {{X-Scope-OrgID: shop}}
  inflight:
    pods: {{port: metrics, path: /metrics, metric: http_requests_in_flight, combine: sum}}
"""


def problems(text, **given):
    with pytest.raises(SourcesError) as refused:
        parse_sources(text, "sources.yaml", **given)
    return refused.value.problems


def prometheus(fields):
    return "sources: {one: {prometheus: {url: 'http://p:9090', query: up, " + fields + "}}}"


def pods(fields):
    return "sources: {one: {pods: {port: 8080, metric: inflight, " + fields + "}}}"


def url(fields):
    return "sources: {one: {url: {url: 'http://h:1/a', " + fields + "}}}"


def test_each_source_has_what_was_stated_and_defaults_for_the_rest():
    sources: dict[str, Any] = parse_sources(WHOLE, "sources.yaml", default_url="http://other:9090/")

    assert {"requests", "of-all", "inflight"} == set(sources)
    assert (URL, QUERY, {}, 5, 120) == (
        sources["requests"].url,
        sources["requests"].query,
        sources["requests"].join,
        sources["requests"].timeout_seconds,
        sources["requests"].max_age_seconds,
    )
    assert isinstance(sources["of-all"], PrometheusDefinition)
    assert ("http://other:9090", {"namespace": "namespace", "target": "deployment"}) == (
        sources["of-all"].url,
        sources["of-all"].join,
    )
    assert (Path("/var/run/secrets/prometheus/ca.crt"),) == sources["of-all"].watched_files
    assert isinstance(sources["inflight"], PodsDefinition)
    assert ("metrics", "/metrics", "sum") == (
        sources["inflight"].port,
        sources["inflight"].path,
        sources["inflight"].combine,
    )


def test_a_kind_is_stated_by_the_name_that_the_registry_has(monkeypatch):
    """Found: a kind with a hyphen was `statsd-Http` here and `statsd-http` in the chart's schema."""
    monkeypatch.setitem(registry.KINDS, "statsd-http", UrlDefinition)
    found = importlib.util.spec_from_file_location("parse_with_another_kind", parse.__file__)
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, found.name, module)
    found.loader.exec_module(module)

    assert ["one"] == [*module.parse_sources("sources: {one: {statsd-http: {url: 'http://h/', format: text}}}", "file")]


def test_all_problems_are_told_at_once_each_with_its_line():
    told = problems(
        "sources:\n  a:\n    pods:\n      port: 0\n      metric: m\n  b:\n    prometheus:\n      query: up\n"
    )

    accepted = "accepted is a number from 1 to 65535, or the name of a container's port"
    assert (f"sources.yaml:4: sources.a.pods.port: 0: it is no port: {accepted}",) == told
    (told,) = problems("sources:\n  b:\n    prometheus:\n      query: up\n")
    assert "sources.yaml:3: sources.b.prometheus: it has no url, and CRONHPA_PROMETHEUS_URL names none either" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "sources.yaml:1: sources: it is missing: accepted is sources by name"),
        ("[]", "the file: it has no fields: fields by name are accepted here"),
        ("sources: {a: 1}", "sources.a: it has no fields: fields by name are accepted here"),
        ("sources: {a: {}}", "sources.a: exactly one of prometheus, pods"),
        ("sources: {a: {}, a: {}}", "a stands here for the second time, after line 1"),
        ("sources: [", "sources.yaml:1: expected the node content"),
        ("a: &a [*a]", "one YAML document is accepted"),
        ("a: 1\n---\nb: 2", "one YAML document is accepted"),
        ("sources: {a: !!int x}", "one YAML document is accepted"),
        ("sources: {'a/../b c': {pods: {port: 1, metric: m}}}", "is not a metric's name"),
        (prometheus("querry: up"), "there is no such field: did you mean query?"),
        (prometheus("zzz: up"), "there is no such field: caFile, certFile"),
        (prometheus("query: 'up{a=$target}'"), "$target stands outside the quotes of a label matcher"),
        (prometheus("""query: 'up{a="$pod"}'"""), "a dollar sign begins no known name: $namespace, $name"),
        (prometheus("url: 'ftp://p'"), "it is no http or https URL"),
        (prometheus("url: 'http://me:secret@p'"), "username and passwordFile are for that"),
        (prometheus("join: {target: deployment}"), "join names no label of the namespace"),
        (prometheus("join: {pod: pod}"), "Input should be 'namespace', 'name', 'kind' or 'target'"),
        (prometheus("username: me"), "username and passwordFile go together"),
        (prometheus("username: me, passwordFile: f, tokenFile: f"), "it has two logins"),
        (prometheus("certFile: f"), "certFile and keyFile go together"),
        (prometheus('headers: {X-A: "a\\r\\nHost: b"}'), "is no header of one line"),
        (prometheus("headers: {Authorization: a}"), "Authorization is the operator's own to state"),
        (prometheus("timeoutSeconds: 31"), "accepted is a number of seconds, more than 0, at most 30"),
        (prometheus("headerFiles: {Cookie: f}"), "Cookie is the operator's own to state"),
        (prometheus("headers: {X-Key: a}, headerFiles: {x-key: f}"), "x-key stands in headers and in headerFiles"),
        (url("value: a, username: me"), "username and passwordFile go together"),
        (url("value: a, url: 'http://h/$pod'"), "a dollar sign begins no known name: $namespace, $name"),
        (url("value: a, url: 'http://$namespace.svc/a'"), "a placeholder stands in its host"),
        (url("value: a..b"), "'.' at character 3 is no part of a path to one number"),
        (url("format: json"), "format json needs value"),
        (url("format: yaml, value: a, metric: m"), "metric means nothing with format yaml"),
        (url("format: text, value: a"), "value means nothing with format text"),
        (url("format: prometheus, value: a"), "format prometheus needs metric"),
        (url("format: prometheus, metric: m, value: a"), "value means nothing with format prometheus"),
        (url("format: xml, value: a"), "accepted is json, yaml, text (the number alone) or prometheus"),
        (url("query: up"), "there is no such field: caFile, certFile"),
        (pods("port: 65536"), "65536: it is no port"),
        (pods("port: true"), "it is no port"),
        (pods("path: metrics"), "'metrics': it is no path: accepted is a path that begins with /"),
        (pods('path: "/a b"'), "it is no path"),
        (pods('path: "/@[::1]:22/"'), "it is no path"),
        (pods("combine: median"), "accepted is sum, average or max"),
        (pods("podNetworks: [10.0.0.0/33]"), "accepted is networks such as 10.0.0.0/8"),
        (pods("tokenFile: f"), "there is no such field"),
    ],
)
def test_what_is_no_source_is_refused_with_what_is_accepted(text, told):
    complaints = problems(text)

    assert any(told in complaint for complaint in complaints), complaints
    assert all(complaint.startswith("sources.yaml") for complaint in complaints)


# A slip that hides where the password ends: a slash in it, a mistyped scheme, a space or a dollar sign behind it.
SECRET_URLS = [
    "http://me:s3cr3t@p",
    "ftp://me:s3cr3t@p",
    "http://me:a/s3cr3t@p",
    "http://me:a s3cr3t@p",
    "me:s3cr3t@p:9090",
    "http:/me:s3cr3t@p",
    "http//me:s3cr3t@p",
    "//me:s3cr3t@p",
    "ftp://p/a?token=s3cr3t",
    "http://p/a?token=a s3cr3t",
    "http://p/a?token=a<s3cr3t#a",
    "http://p/a?token=$s3cr3t",
    "http://p/private-s3cr3t/$?a=1",
    "http://p/private-s3cr3t/a b?c=1",
]


@pytest.mark.parametrize(("kind", "rest"), [("prometheus", "query: up"), ("url", "value: a")])
@pytest.mark.parametrize("address", SECRET_URLS)
def test_a_password_in_a_url_is_told_to_nobody(kind, rest, address):
    """Found: what a pattern took for no password, or for the end of a query, was told."""
    (told,) = problems(f"sources: {{one: {{{kind}: {{url: '{address}', {rest}}}}}}}")

    assert told.startswith(f"sources.yaml:1: sources.one.{kind}.url: ")
    assert "accepted is http(s)://HOST:PORT/PATH" in told
    assert "s3cr3t" not in told


@pytest.mark.parametrize(
    "text",
    [
        "sources: {a: 'http:/me:s3cr3t@p'}",
        "sources: {a: {url: 'http:/me:s3cr3t@p'}}",
        "sources: {a: {url: ['http:/me:s3cr3t@p']}}",
        prometheus("username: 'me:s3cr3t', passwordFile: f"),
    ],
)
def test_a_secret_in_the_wrong_place_is_told_to_nobody(text):
    (told,) = problems(text)

    assert "s3cr3t" not in told
