"""The chart's `calendars`: the operator's file of calendars, the ConfigMaps that it mounts, and where it may go."""

from __future__ import annotations

import pytest
import yaml

from cronhpa.calendars.definition import parse_calendars
from testbed.control_plane import ControlPlaneError, rendered_chart

pytestmark = pytest.mark.cluster

CALENDARS = {
    "company": {"configMap": "calendars", "key": "company.ics"},
    "marketing": {"url": "https://calendar.example.com:8443/m.ics?key=$x", "refreshSeconds": 60},
    "fairs": {"urlFile": "/var/run/secrets/sources/fairs"},
}


def only(objects, kind):
    (only_one,) = (manifest for manifest in objects if manifest["kind"] == kind)
    return only_one


def pod_of(objects):
    return only(objects, "StatefulSet")["spec"]["template"]["spec"]


def test_calendars_are_read_from_a_file_and_config_maps_are_mounted_beside_it():
    objects = rendered_chart(values={"calendars": CALENDARS})
    container, volumes = pod_of(objects)["containers"][0], {one["name"]: one for one in pod_of(objects)["volumes"]}
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    text = only(objects, "ConfigMap")["data"]["calendars.yaml"].replace("key=$x", "key=1")

    stated = parse_calendars(text, "test")

    assert "/etc/cronhpa/calendars.yaml" in {one.get("value") for one in container["env"]}
    assert f"{mounts['calendars']}/company.ics" == str(stated["company"].file)
    assert [
        {"configMap": {"name": "calendars", "optional": True, "items": [{"key": "company.ics", "path": "company.ics"}]}}
    ] == volumes["calendars"]["projected"]["sources"]
    assert (60, "/var/run/secrets/sources/fairs") == (
        stated["marketing"].refresh_seconds,
        str(stated["fairs"].url_file),
    )


def test_without_calendars_nothing_is_mounted_and_the_file_is_there():
    objects = rendered_chart(values={})

    assert {"calendars": {}} == yaml.safe_load(only(objects, "ConfigMap")["data"]["calendars.yaml"])
    assert "calendars" not in {one["name"] for one in pod_of(objects)["volumes"]}


def test_calendars_take_no_right():
    """A ConfigMap is mounted by the kubelet: the operator's account may read none."""
    of = [[one["rules"] for one in rendered_chart(values=values) if one["kind"] in {"Role", "ClusterRole"}]
          for values in ({}, {"calendars": CALENDARS})]  # fmt: skip

    assert of[0] == of[1]
    assert "configmaps" not in str(of[1])


def test_the_network_policy_opens_the_port_of_a_feed():
    egress = only(rendered_chart(values={"calendars": CALENDARS}), "NetworkPolicy")["spec"]["egress"]

    # Of the calendar whose address is a secret, the port of HTTPS.
    assert [443, 8443] == [rule["ports"][0]["port"] for rule in egress[2:]]


@pytest.mark.parametrize(
    ("name", "calendar"),
    [
        ("company", {}),
        ("company", {"configMap": "calendars"}),
        ("company", {"configMap": "a", "key": "b", "url": "https://x/"}),
        ("company", {"url": "https://x/", "urlFile": "/a"}),
        ("company", {"url": "file:///etc/passwd"}),
        ("Company", {"url": "https://x/"}),
        ("company", {"file": "/etc/passwd"}),
    ],
)
def test_what_is_no_calendar_is_refused_by_helm_already(name, calendar):
    with pytest.raises(ControlPlaneError):
        rendered_chart(values={"calendars": {name: calendar}})
