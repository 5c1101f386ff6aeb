"""The chart's `sources`: the operator's file of sources, and the destinations that it may reach."""

from __future__ import annotations

from typing import Any

import pytest

from cronhpa.operator.settings import Settings
from cronhpa.sources.parse import parse_sources
from testbed.control_plane import ControlPlaneError, rendered_chart

pytestmark = pytest.mark.cluster

QUERY = 'sum(rate(http_requests_total{namespace="$namespace", deployment="$target", path=~"/.*$$"}[1m]))'
SOURCES = {
    "requests": {"prometheus": {"url": "http://prometheus.monitoring:9090", "query": QUERY}},
    "inflight": {"pods": {"port": "metrics", "metric": "http_requests_in_flight"}},
    "players": {"url": {"url": "https://lobby.games:8443/a/${target}?of=$namespace&x=$$1", "value": "players.0"}},
    "rooms": {"url": {"url": "https://lobby.games/$target", "format": "text"}},
    "queue": {"pods": {"port": 8081, "metric": "queue_length"}},
}


def rendered(**values):
    return rendered_chart(values=values)


def only(objects, kind):
    (only_one,) = (manifest for manifest in objects if manifest["kind"] == kind)
    return only_one


def test_the_operator_reads_the_sources_as_they_are_stated_from_a_file_that_is_mounted():
    objects = rendered(sources=SOURCES, sourcesSecret="logins")
    pod = only(objects, "StatefulSet")["spec"]["template"]["spec"]
    environment = {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}
    mounts = {volume_mount["name"]: volume_mount["mountPath"] for volume_mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    map_ = only(objects, "ConfigMap")

    file = Settings(sources=environment["CRONHPA_SOURCES"]).sources
    assert str(file.parent) == mounts["sources"]
    assert map_["metadata"]["name"] == volumes["sources"]["configMap"]["name"]
    sources: dict[str, Any] = parse_sources(map_["data"][file.name], "test")
    assert set(SOURCES) == set(sources)
    assert QUERY == sources["requests"].query
    assert SOURCES["players"]["url"]["url"] == sources["players"].url
    assert "/var/run/secrets/sources" == mounts["sources-secret"]
    assert "logins" == volumes["sources-secret"]["secret"]["secretName"]


def test_without_sources_the_file_is_there_so_that_the_first_one_needs_no_restart():
    map_ = only(rendered(), "ConfigMap")

    assert {} == parse_sources(map_["data"]["sources.yaml"], "test")


def test_the_network_policy_opens_the_ports_of_the_sources():
    egress = only(rendered(sources=SOURCES), "NetworkPolicy")["spec"]["egress"]

    ports = [rule["ports"][0]["port"] for rule in egress[2:]]
    assert ["metrics", 443, 8081, 8443, 9090] == sorted(ports, key=lambda port: (isinstance(port, int), port))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, "minProperties"),
        ({"prom": {}}, "prom"),
        ({"prometheus": {}}, "query"),
        ({"pods": {"port": 1}}, "metric"),
        ({"url": {}}, "url"),
        ({"pods": {"port": 1, "metric": "load", "timeout": 1}}, "timeout"),
        ({"url": {"url": "http://h/", "format": "xml"}}, "format"),
    ],
)
def test_what_is_no_source_is_refused_by_helm_already(source, words):
    with pytest.raises(ControlPlaneError, match=words):
        rendered(sources={"requests": source})
