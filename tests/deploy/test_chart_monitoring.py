"""The chart's monitors, rules and dashboards, rendered by the real helm."""

from __future__ import annotations

import json

import pytest
import yaml

from cronhpa.operator.settings import Settings
from deploy.test_chart import PROJECT, container, environment, of_kind, only, render
from testbed.control_plane import ControlPlaneError

pytestmark = pytest.mark.cluster

MONITORING = PROJECT / "deploy" / "monitoring"


def test_nothing_needs_the_prometheus_operator_until_it_is_asked_for():
    assert set() == {manifest["kind"] for manifest in render()} & {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
    assert [] == dashboards(render())


def test_a_pod_monitor_finds_the_pods_and_keeps_the_namespaces_of_the_objects():
    objects = render(podMonitor={"enabled": True, "interval": "15s", "labels": {"release": "stack"}})
    monitor, template = only(objects, "PodMonitor"), only(objects, "StatefulSet")["spec"]["template"]

    assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    scraped = {"port": "http", "path": "/metrics", "interval": "15s", "honorLabels": True}
    assert [scraped] == monitor["spec"]["podMetricsEndpoints"]
    assert scraped["port"] in {port["name"] for port in container(objects)["ports"]}
    assert "stack" == monitor["metadata"]["labels"]["release"]


def test_two_monitors_would_scrape_each_pod_twice():
    with pytest.raises(ControlPlaneError, match="one of the two is enough"):
        render(podMonitor={"enabled": True}, serviceMonitor={"enabled": True})


def test_the_rules_are_those_of_the_plain_file():
    plain = yaml.safe_load((MONITORING / "rules.yaml").read_text())

    assert plain["groups"] == only(render(prometheusRule={"enabled": True}), "PrometheusRule")["spec"]["groups"]


def test_an_alert_can_be_left_out_and_all_can_be_labelled():
    values = {"enabled": True, "disabled": ["CronHPAMaxedOut"], "alertLabels": {"team": "sre", "severity": "page"}}
    rules = [
        rule
        for group in only(render(prometheusRule=values), "PrometheusRule")["spec"]["groups"]
        for rule in group["rules"]
    ]
    alerts = {rule["alert"]: rule["labels"] for rule in rules if "alert" in rule}

    assert "CronHPAMaxedOut" not in alerts
    assert {"team": "sre", "severity": "page"} == alerts["CronHPATwoOwners"]
    assert [] == [rule for rule in rules if "record" in rule and "labels" in rule]


def dashboards(objects):
    return [
        manifest for manifest in of_kind(objects, "ConfigMap") if manifest["metadata"]["name"].endswith("-dashboards")
    ]


def test_the_dashboards_are_those_of_the_folder_under_the_label_of_the_sidecar():
    (made,) = dashboards(render(grafanaDashboards={"enabled": True, "namespace": "grafana"}))

    plain = {f"cronhpa-{path.name}": json.loads(path.read_text()) for path in (MONITORING / "grafana").glob("*.json")}
    assert plain == {name: json.loads(text) for name, text in made["data"].items()}
    assert 2 == len(plain)
    assert ("1", "grafana") == (made["metadata"]["labels"]["grafana_dashboard"], made["metadata"]["namespace"])


def test_what_is_told_of_objects_is_set_by_values(monkeypatch):
    for name, value in environment(render(metrics={"objects": False, "namespaces": ["shop", "search"]})).items():
        monkeypatch.setenv(name, value)
    settings = Settings()

    assert (False, ("shop", "search")) == (settings.metrics_objects, settings.metrics_namespace_names)
