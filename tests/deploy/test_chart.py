"""The Helm chart, rendered by the real helm: rights, security, and what each setting changes."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from cronhpa.cli.objects.yaml_documents import read_with_lines
from cronhpa.forecasting.messages import DaskCluster
from cronhpa.kube.lease import LeaseName
from cronhpa.operator.leader.shard_election import replica_lease, shard_lease
from cronhpa.operator.settings import Settings
from testbed.build import binaries
from testbed.control_plane import ControlPlaneError, helm_template, rendered_chart

pytestmark = pytest.mark.cluster

PROJECT = Path(__file__).parents[2]
CHART = PROJECT / "deploy" / "chart"
CRD_FILE = "cronhpa.io_cronhpas.yaml"

# Beside RIGHTS, for an operator of all namespaces.
OF_CLUSTER = {
    ("cronhpa.io", "clusterplannedevents"): {"list", "watch"},
    ("cronhpa.io", "clusterplannedevents/status"): {"patch"},
    ("", "namespaces"): {"list", "watch"},
}
RIGHTS = {
    ("cronhpa.io", "cronhpas"): {"get", "list", "watch"},
    ("cronhpa.io", "plannedevents"): {"list", "watch"},
    ("cronhpa.io", "cronhpas/status"): {"patch"},
    ("cronhpa.io", "plannedevents/status"): {"patch"},
    ("apps", "deployments"): {"list", "watch"},
    ("apps", "replicasets"): {"list", "watch"},
    ("apps", "statefulsets"): {"list", "watch"},
    ("", "replicationcontrollers"): {"list", "watch"},
    ("apps", "deployments/scale"): {"get", "patch"},
    ("apps", "replicasets/scale"): {"get", "patch"},
    ("apps", "statefulsets/scale"): {"get", "patch"},
    ("", "replicationcontrollers/scale"): {"get", "patch"},
    ("", "pods"): {"list", "watch"},
    ("autoscaling", "horizontalpodautoscalers"): {"list", "watch"},
    ("autoscaling.k8s.io", "verticalpodautoscalers"): {"list"},
    ("metrics.k8s.io", "pods"): {"list"},
    ("custom.metrics.k8s.io", "*"): {"get"},
    ("external.metrics.k8s.io", "*"): {"list"},
    ("", "events"): {"create", "patch"},
}
# Reviews of users who ask for past decisions.
REVIEWS = {
    ("authentication.k8s.io", "tokenreviews"): {"create"},
    ("authorization.k8s.io", "subjectaccessreviews"): {"create"},
}
LEASES = ("coordination.k8s.io", "leases")


@cache
def _rendered(values):
    return rendered_chart(values=json.loads(values))


def render(**values):
    """The objects that the chart makes of these values; helm is asked once for the same ones."""
    return _rendered(json.dumps(values))


def kinds(objects):
    return {manifest["kind"] for manifest in objects}


def own_role(objects):
    """The operator's ClusterRole, not those that are added to people's roles, nor that of the page's account."""
    roles = [manifest for manifest in of_kind(objects, "ClusterRole") if not aggregated(manifest)]
    (role,) = [role for role in roles if role["metadata"]["name"] != "cronhpa-page-cronhpa-system"]
    return role


def aggregated(role):
    """The roles that its rules are added to."""
    return {label.rpartition("-")[2] for label in role["metadata"]["labels"] if "aggregate-to" in label}


def of_kind(objects, kind):
    return [manifest for manifest in objects if manifest["kind"] == kind]


def only(objects, kind):
    (manifest,) = of_kind(objects, kind)
    return manifest


def rights(role):
    """(group, resource) to verbs."""
    return {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def pod(objects):
    return only(objects, "StatefulSet")["spec"]["template"]["spec"]


def container(objects):
    (main_container,) = pod(objects)["containers"]
    return main_container


def environment(objects):
    """Its settings with their values; what names the pod and its Lease is the chart's own."""
    named = {"CRONHPA_LEADER_ELECT_IDENTITY", "CRONHPA_LEADER_ELECT_RESOURCE_NAME"}
    named |= {"POD_UID", "POD_NAME", "CRONHPA_LEADER_ELECT_RESOURCE_NAMESPACE"}
    return {
        variable["name"]: variable["value"] for variable in container(objects)["env"] if variable["name"] not in named
    }


def named(objects, kind, name):
    (only_one,) = (manifest for manifest in of_kind(objects, kind) if manifest["metadata"]["name"] == name)
    return only_one


def roles(objects):
    """The Roles of the namespaces that it acts in: without that of the election."""
    return [
        manifest
        for manifest in of_kind(objects, "Role")
        if not manifest["metadata"]["name"].endswith("leader-election")
    ]


def test_a_test_that_failed_leaves_no_pod_behind():
    """`helm uninstall` leaves what a hook made; Helm 4 prints the log before the pod goes."""
    annotations = only(render(), "Pod")["metadata"]["annotations"]

    assert {"before-hook-creation", "hook-succeeded", "hook-failed"} == set(
        annotations["helm.sh/hook-delete-policy"].split(",")
    )
    assert "hook-failed" == annotations["helm.sh/hook-output-log-policy"]


def test_the_notes_say_where_the_commands_come_from():
    notes = (CHART / "templates" / "NOTES.txt").read_text("utf-8")

    assert "https://cronhpa.github.io/cronhpa/how-to/install/" in notes
    assert "**The commands**" in (PROJECT / "docs" / "how-to" / "install.md").read_text("utf-8")


def test_it_may_do_what_it_does_and_nothing_else():
    assert {**RIGHTS, **OF_CLUSTER, **REVIEWS, LEASES: {"get"}} == rights(own_role(render()))


def test_without_past_decisions_and_page_nobody_is_reviewed_and_no_port_is_open():
    objects = render(decisionHistory={"enabled": False}, page={"enabled": False})

    assert {**RIGHTS, **OF_CLUSTER, LEASES: {"get"}} == rights(own_role(objects))
    assert not {"CRONHPA_HISTORY_PORT", "CRONHPA_PAGE_PORT"} & {*environment(objects)}
    assert "8082" == environment(render())["CRONHPA_HISTORY_PORT"]


def test_whoever_is_named_may_forward_a_port_of_the_operators_pods_and_of_no_other():
    everybody = {"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}

    objects = render(decisionHistory={"readers": [everybody]}, replicas=2)

    role = named(objects, "Role", "cronhpa-history-reader")
    assert {("", "pods"): {"get"}, ("", "pods/portforward"): {"get", "create"}} == rights(role)
    assert [["cronhpa-0", "cronhpa-1"]] * 2 == [rule["resourceNames"] for rule in role["rules"]]
    assert [everybody] == named(objects, "RoleBinding", "cronhpa-history-reader")["subjects"]
    assert "cronhpa-system" == role["metadata"]["namespace"] == only(objects, "StatefulSet")["metadata"]["namespace"]
    assert "cronhpa-history-reader" not in {role["metadata"]["name"] for role in of_kind(render(), "Role")}


def test_without_replicas_readers_reach_no_other_pod_either():
    """RBAC takes `resourceNames: []` for every name."""
    objects = render(decisionHistory={"readers": [{"kind": "Group", "name": "team"}]}, replicas=0)

    assert [["cronhpa-0"]] * 2 == [
        rule["resourceNames"] for rule in named(objects, "Role", "cronhpa-history-reader")["rules"]
    ]


def test_other_kinds_of_targets_are_named_one_by_one():
    objects = render(scaleTargets=[{"apiGroup": "argoproj.io", "resource": "rollouts"}])

    assert {
        **RIGHTS,
        **OF_CLUSTER,
        **REVIEWS,
        LEASES: {"get"},
        ("argoproj.io", "rollouts"): {"list", "watch"},
        ("argoproj.io", "rollouts/scale"): {"get", "patch"},
    } == rights(own_role(objects))


def test_with_namespaces_there_is_a_role_in_each_and_reviews_alone_are_of_the_cluster():
    objects = render(namespaces=["shop", "search"])

    assert REVIEWS == rights(own_role(objects))
    assert not kinds(render(namespaces=["shop"], decisionHistory={"enabled": False}, page={"enabled": False})) & {
        "ClusterRole", "ClusterRoleBinding",
    }  # fmt: skip
    assert {"shop": RIGHTS, "search": RIGHTS} == {
        role["metadata"]["namespace"]: rights(role) for role in roles(objects)
    }
    assert "shop,search" == environment(objects)["CRONHPA_NAMESPACES"]


def test_with_namespaces_cluster_events_are_a_right_that_is_asked_for():
    no_reviews = {"decisionHistory": {"enabled": False}, "page": {"enabled": False}}
    objects = render(namespaces=["shop"], clusterPlannedEvents=True, **no_reviews)

    assert OF_CLUSTER == rights(own_role(objects))


@pytest.mark.parametrize(
    ("values", "kind"), [({}, "ClusterRoleBinding"), ({"namespaces": ["shop", "search"]}, "RoleBinding")]
)
def test_rights_are_bound_to_the_account_of_the_pod(values, kind):
    objects = render(**values, page={"viewer": False})
    account = {"kind": "ServiceAccount", "name": "cronhpa", "namespace": "cronhpa-system"}
    bindings = of_kind(objects, kind)

    assert bindings
    assert all([account] == binding["subjects"] for binding in bindings)
    assert all(kind.removesuffix("Binding") == binding["roleRef"]["kind"] for binding in bindings)
    assert ("cronhpa", "cronhpa") == (
        pod(objects)["serviceAccountName"], only(objects, "ServiceAccount")["metadata"]["name"],
    )  # fmt: skip


def test_a_given_account_is_used_and_not_created():
    objects = render(serviceAccount={"create": False, "name": "scaler"}, page={"viewer": False})

    assert "ServiceAccount" not in kinds(objects)
    assert "scaler" == pod(objects)["serviceAccountName"]
    assert "scaler" == only(objects, "ClusterRoleBinding")["subjects"][0]["name"]


def test_the_pod_meets_the_restricted_pod_security_standard():
    objects = render()

    assert {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    } == pod(objects)["securityContext"]
    assert {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    } == container(objects)["securityContext"]
    assert {"limits", "requests"} <= set(container(objects)["resources"])


def test_a_platform_may_choose_the_user_itself():
    """OpenShift refuses a pod that names one outside of its namespace's range."""
    mine = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"))
    objects = render(podSecurityContext=mine)

    assert {"runAsNonRoot", "seccompProfile", "fsGroupChangePolicy"} == pod(objects)["securityContext"].keys()
    assert not mine.keys() & container(objects)["securityContext"].keys()


BUFFERS = ("autoscaling.x-k8s.io", "capacitybuffers"), {"list", "create", "patch", "delete"}
MADE = {
    ("apps", "deployments"): {"list", "create", "patch", "delete"},
    ("rbac.authorization.k8s.io", "roles"): {"get"},
}


@pytest.mark.parametrize("kinds", ["none", "CapacityBuffer", "Deployment", "auto"])
@pytest.mark.parametrize("namespaces", [[], ["shop"]])
def test_what_placeholders_may_be_is_in_the_rights_and_nothing_else(kinds, namespaces):
    """Deployments are made in the release's namespace alone: whoever makes them elsewhere may run anything there."""
    objects = render(placeholders={"kinds": kinds}, namespaces=namespaces)
    by_name = {role["metadata"]["name"]: role for role in (*roles(objects), *of_kind(objects, "ClusterRole"))}
    own = by_name.pop("cronhpa-placeholders", None)
    of_buffers = by_name.pop("cronhpa-buffers" if namespaces else "cronhpa-cronhpa-system-buffers", None)
    acting = by_name["cronhpa" if namespaces else "cronhpa-cronhpa-system"]
    usual = RIGHTS if namespaces else {**RIGHTS, **OF_CLUSTER, **REVIEWS, LEASES: {"get"}}
    classes = of_kind(objects, "PriorityClass")

    assert usual == rights(acting)
    if kinds in {"CapacityBuffer", "auto"}:
        assert of_buffers is not None
        kind = "roles" if namespaces else "clusterroles"
        assert dict([BUFFERS, (("rbac.authorization.k8s.io", kind), {"get"})]) == rights(of_buffers)
        name = of_buffers["metadata"]["name"]
        assert [[name]] == [rule["resourceNames"] for rule in of_buffers["rules"] if "resourceNames" in rule]
        assert (namespaces or [None]) == [of_buffers["metadata"].get("namespace")]
        assert name == environment(objects)["CRONHPA_PLACEHOLDER_BUFFER_OWNER"]
        bound = [one["roleRef"] for one in objects if one["kind"].endswith("Binding")]
        assert {"kind": of_buffers["kind"], "name": name}.items() <= next(
            one.items() for one in bound if one["name"] == name
        )
    else:
        assert of_buffers is None
    if kinds not in {"Deployment", "auto"}:
        assert own is None
        assert not classes
        return
    assert own is not None
    assert ("cronhpa-system", MADE) == (own["metadata"]["namespace"], rights(own))
    # Of itself alone: it owns what it lets be made, so that both go together.
    assert [[own["metadata"]["name"]]] == [rule["resourceNames"] for rule in own["rules"] if "resourceNames" in rule]
    assert own["metadata"]["name"] == environment(objects)["CRONHPA_PLACEHOLDER_OWNER"]
    (priority,) = classes
    assert (-10, "Never") == (priority["value"], priority["preemptionPolicy"])
    given = environment(objects)
    assert priority["metadata"]["name"] == given["CRONHPA_PLACEHOLDER_PRIORITY_CLASS"]
    known = {name.removeprefix("CRONHPA_").lower(): value for name, value in given.items() if "PLACEHOLDER" in name}
    assert kinds == Settings(**known).placeholders


def test_the_chart_states_placeholders_of_objects_that_state_none():
    given = environment(render(placeholders={"kinds": "auto", "maxPerObject": 20, "nodeStartupSeconds": 90}))
    stated = {name: given[f"CRONHPA_PLACEHOLDER_{name}"] for name in ("MAX_PER_OBJECT", "NODE_STARTUP")}

    assert {"MAX_PER_OBJECT": "20", "NODE_STARTUP": "90s"} == stated
    assert "CRONHPA_PLACEHOLDER_MAX_PER_OBJECT" not in environment(render(placeholders={"kinds": "auto"}))
    with pytest.raises(ControlPlaneError, match=r"maxPerObject needs placeholders\.kinds, such as auto"):
        render(placeholders={"maxPerObject": 20})


def test_placeholders_have_a_quota_of_their_own():
    """Of their PriorityClass: the operator's own pod does not count."""
    hard = {"requests.cpu": "200"}
    objects = render(placeholders={"kinds": "auto", "quota": hard})
    quota = only(objects, "ResourceQuota")
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]

    assert (hard, "cronhpa-system") == (quota["spec"]["hard"], quota["metadata"]["namespace"])
    assert {"scopeName": "PriorityClass", "operator": "In"}.items() <= scope.items()
    assert [only(objects, "PriorityClass")["metadata"]["name"]] == scope["values"]
    assert not of_kind(render(placeholders={"kinds": "CapacityBuffer", "quota": hard}), "ResourceQuota")


def test_placeholders_of_shards_are_capacity_buffers():
    with pytest.raises(ControlPlaneError, match=r"with shards placeholders\.kinds is none or CapacityBuffer"):
        render(shards=16, placeholders={"kinds": "auto"})

    own = "CapacityBuffer"
    assert own == environment(render(shards=16, placeholders={"kinds": own}))["CRONHPA_PLACEHOLDERS"]


def test_there_are_two_replicas_kept_apart_and_one_of_them_may_be_evicted_at_a_time():
    objects = render()

    assert 2 == only(objects, "StatefulSet")["spec"]["replicas"]
    assert 1 == only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"]
    labels = only(objects, "StatefulSet")["spec"]["selector"]["matchLabels"]
    spread = pod(objects)["topologySpreadConstraints"]
    assert {"kubernetes.io/hostname", "topology.kubernetes.io/zone"} == {
        constraint["topologyKey"] for constraint in spread
    }
    assert all(labels == constraint["labelSelector"]["matchLabels"] for constraint in spread)


def test_a_single_replica_has_no_budget_that_would_keep_its_node_from_being_drained():
    assert "PodDisruptionBudget" not in kinds(render(replicas=1))


def test_the_lease_is_the_releases_own_and_each_pod_has_a_name_of_its_own_in_it():
    objects = render(namespaces=["shop"])
    (election,) = [
        manifest for manifest in of_kind(objects, "Role") if manifest["metadata"]["name"].endswith("leader-election")
    ]
    written = next(rule for rule in election["rules"] if "update" in rule["verbs"])
    given = {variable["name"]: variable.get("value") for variable in container(objects)["env"]}

    assert [given["CRONHPA_LEADER_ELECT_RESOURCE_NAME"]] == written["resourceNames"]
    assert given["CRONHPA_LEADER_ELECT_RESOURCE_NAMESPACE"] == election["metadata"]["namespace"]
    assert "$(POD_NAME)_$(POD_UID)" == given["CRONHPA_LEADER_ELECT_IDENTITY"]


@pytest.mark.parametrize(("values", "expected"), [({}, "kopf"), ({"objectWatch": "informer"}, "informer")])
def test_the_objects_are_watched_by_what_the_values_name(values, expected):
    given = {variable["name"]: variable.get("value") for variable in container(render(**values))["env"]}

    assert expected == Settings(object_watch=given["CRONHPA_OBJECT_WATCH"]).object_watch


@pytest.mark.parametrize("by_server", [False, True])
def test_with_shards_the_leases_that_the_operator_writes_are_those_that_it_may_write(by_server):
    objects = render(shards=16, advanced={"shardSelector": by_server})
    (election,) = [
        manifest for manifest in of_kind(objects, "Role") if manifest["metadata"]["name"].endswith("leader-election")
    ]
    written = next(rule for rule in election["rules"] if "update" in rule["verbs"])
    given = {variable["name"]: variable.get("value") for variable in container(objects)["env"]}
    settings = Settings(shards=given["CRONHPA_SHARDS"], shard_selector=given["CRONHPA_SHARD_SELECTOR"])
    installation = LeaseName("any", given["CRONHPA_LEADER_ELECT_RESOURCE_NAME"])

    names = {shard_lease(installation, shard, 16, by_server=settings.shard_selector).name for shard in range(16)}
    names |= {replica_lease(installation, number).name for number in range(16)}
    assert {installation.name} | names == set(written["resourceNames"])
    assert settings.shards == 16
    assert ["list"] in [rule["verbs"] for rule in election["rules"]]


def test_shards_divide_all_namespaces_and_not_some():
    with pytest.raises(ControlPlaneError, match="state shards or namespaces, not both"):
        render(shards=16, namespaces=["shop"])


def test_its_settings_are_environment_variables():
    assert {
        "CRONHPA_LEADER_ELECT_LEASE_DURATION": "15s",
        "CRONHPA_LEADER_ELECT_RENEW_DEADLINE": "10s",
        "CRONHPA_LEADER_ELECT_RETRY_PERIOD": "2s",
        "CRONHPA_STORE": "/var/lib/cronhpa/history.db",
        "CRONHPA_LISTEN_PORT": "9090",
        "CRONHPA_PROBE_PORT": "9091",
        "CRONHPA_HISTORY_PORT": "9092",
        "CRONHPA_PAGE_PORT": "9093",
        "CRONHPA_PAGE_AUTHENTICATION": "token",
        "CRONHPA_LOG_FORMAT": "text",
        "CRONHPA_LOG_LEVEL": "debug",
        "CRONHPA_OBJECT_WATCH": "informer",
        "CRONHPA_SYNC_PERIOD": "5s",
        "CRONHPA_TOLERANCE": "0.05",
        "CRONHPA_DOWNSCALE_STABILIZATION": "1m",
        "CRONHPA_CPU_INITIALIZATION_PERIOD": "2m",
        "CRONHPA_INITIAL_READINESS_DELAY": "10s",
        "CRONHPA_FORECAST_INTERVAL": "2m",
        "CRONHPA_FORECAST_WORKERS": "1",
        "CRONHPA_LEARNING_SHARE_PERCENT": "50",
        "CRONHPA_SOURCES": "/etc/cronhpa/sources.yaml",
        "CRONHPA_CALENDARS": "/etc/cronhpa/calendars.yaml",
        "EXTRA": "1",
    } == environment(
        render(
            port=9090,
            probePort=9091,
            objectWatch="informer",
            decisionHistory={"port": 9092},
            page={"port": 9093},
            log={"format": "text", "level": "debug"},
            syncPeriod="5s",
            tolerance=0.05,
            downscaleStabilization="1m",
            cpuInitializationPeriod="2m",
            initialReadinessDelay="10s",
            forecastInterval="2m",
            extraEnv=[{"name": "EXTRA", "value": "1"}],
        )
    )


def test_every_environment_variable_is_a_setting_of_the_operator():
    from cronhpa.operator.settings import Settings

    variables = {f"CRONHPA_{name.upper()}" for name in Settings.model_fields}

    assert set(environment(render(namespaces=["shop"]))) <= variables


def test_the_charts_defaults_are_the_operators_defaults():
    """The upstream's, that is. The store, ports, form of the log and both files are the chart's own."""
    from cronhpa.operator.settings import Settings

    names = ("STORE", "LISTEN_PORT", "HISTORY_PORT", "PAGE_PORT", "LOG_FORMAT", "SOURCES", "CALENDARS")
    own = {f"CRONHPA_{name}" for name in names}
    given = {name: value for name, value in environment(render()).items() if name not in own}

    assert given == {name: str(Settings.model_fields[name.removeprefix("CRONHPA_").lower()].default) for name in given}


def test_probes_ask_the_port_that_it_listens_on():
    main_container = container(render(port=9090, probePort=9091))

    assert {"http": 9090, "probes": 9091} == {port["name"]: port["containerPort"] for port in main_container["ports"]}
    assert {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"} == {
        name: main_container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert {"probes"} == {
        main_container[name]["httpGet"]["port"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }


def test_a_store_in_postgresql_takes_the_place_of_the_volume():
    url = "postgresql://cronhpa@db.example:6432/cronhpa?sslmode=verify-full"
    objects = render(store={"postgresql": {"url": url, "passwordSecret": {"name": "db"}}})
    spec = only(objects, "StatefulSet")["spec"]
    volumes = {volume["name"]: volume for volume in pod(objects)["volumes"]}
    mounts = {volume_mount["name"]: volume_mount["mountPath"] for volume_mount in container(objects)["volumeMounts"]}

    assert url == environment(objects)["CRONHPA_STORE"]
    assert "/var/run/secrets/store/password" == environment(objects)["CRONHPA_STORE_PASSWORD_FILE"]
    assert ("/var/run/secrets/store", {"secretName": "db"}) == (mounts["store"], volumes["store"]["secret"])
    assert "volumeClaimTemplates" not in spec
    assert {"emptyDir": {}, "name": "history"} == volumes["history"]
    assert {6432} <= ports_out(objects)
    assert {5432} <= ports_out(render(store={"postgresql": {"url": "postgresql://db/cronhpa"}}))
    assert not {5432, 6432} & ports_out(render())


def ports_out(objects):
    """The ports that its NetworkPolicy lets it reach."""
    return {port["port"] for rule in only(objects, "NetworkPolicy")["spec"]["egress"] for port in rule["ports"]}


@pytest.mark.parametrize(
    ("url", "ports"),
    [
        ("postgresql://app@db-1:6432,db-2:6433,db-3/x", {6432, 6433, 5432}),
        ("postgresql://db-1,db-2/x", {5432}),
        ("postgresql://app@[fd00::1]:6432,[fd00::2]/x", {6432, 5432}),
        ("postgresql://db/x?port=6432&sslmode=require", {6432}),
        ("postgresql:///x?host=db-1,db-2&port=6432,6433", {6432, 6433}),
        ("postgresql://db-1,db-2/x?sslmode=require&port=6432%2C6433", {6432, 6433}),
    ],
)
def test_every_port_that_the_stores_url_names_is_open(url, ports):
    """As libpq reads it: a port of each host, or those of ?port=. Found: one port was opened, that of the last host."""
    rules = only(render(store={"postgresql": {"url": url}}), "NetworkPolicy")["spec"]["egress"]

    assert [ports] == [{port["port"] for port in rule["ports"]} for rule in rules[2:]]


@pytest.mark.parametrize("url", ["mysql://db/x", "postgresql://app:geheim@db/x", "postgresql://a@b@db/x"])
def test_a_store_that_is_no_postgresql_or_holds_a_password_is_refused(url):
    """What stands in the values stands in the release's Secret and in the pod."""
    with pytest.raises(ControlPlaneError, match="url"):
        render(store={"postgresql": {"url": url}})


def test_the_history_has_a_volume_claim():
    spec = only(render(persistence={"size": "5Gi", "storageClassName": "fast"}), "StatefulSet")["spec"]
    (claim,) = spec["volumeClaimTemplates"]

    assert ("history", "fast", "5Gi") == (
        claim["metadata"]["name"],
        claim["spec"]["storageClassName"],
        claim["spec"]["resources"]["requests"]["storage"],
    )
    assert ["tmp", "sources"] == [volume["name"] for volume in spec["template"]["spec"]["volumes"]]


@pytest.mark.slow
@pytest.mark.parametrize("period", ["15s", "0.5s", "1m30s", "0h10s", "100ms", "10.05s", "0.10m"])
def test_a_duration_of_any_length_is_a_setting(period):
    assert {"name": "CRONHPA_SYNC_PERIOD", "value": period} in container(render(syncPeriod=period))["env"]


@pytest.mark.parametrize("name", ["downscaleStabilization", "cpuInitializationPeriod", "initialReadinessDelay"])
def test_a_flag_that_may_be_0s_upstream_may_be_here(name):
    """Found: the settings of a cluster whose HPAs have 0s were refused."""
    of_operator = re.sub("([A-Z])", r"_\1", name).lower()

    assert {"name": f"CRONHPA_{of_operator.upper()}", "value": "0s"} in container(render(**{name: "0s"}))["env"]
    assert "0s" == getattr(Settings(**{of_operator: "0s"}), of_operator)
    with pytest.raises(ValidationError, match="below 0s"):
        Settings(**{of_operator: "-5s"})


def test_any_name_of_a_storage_class_is_a_text():
    claim = only(render(persistence={"storageClassName": "-"}), "StatefulSet")["spec"]["volumeClaimTemplates"][0]

    assert "-" == claim["spec"]["storageClassName"]


def test_without_persistence_the_history_is_in_an_empty_dir():
    spec = only(render(persistence={"enabled": False}), "StatefulSet")["spec"]

    assert "volumeClaimTemplates" not in spec
    assert {"name": "history", "emptyDir": {}} in spec["template"]["spec"]["volumes"]


def test_what_it_writes_to_is_mounted():
    """The root file system is read-only."""
    mounts = {volume_mount["name"]: volume_mount["mountPath"] for volume_mount in container(render())["volumeMounts"]}

    assert {"history": "/var/lib/cronhpa", "tmp": "/tmp", "sources": "/etc/cronhpa"} == mounts


def test_the_crd_is_that_of_the_project_and_stays_when_the_release_goes():
    crds = of_kind(render(), "CustomResourceDefinition")

    assert len(crds) == 3
    for crd in crds:
        assert {"helm.sh/resource-policy": "keep"} == crd["metadata"].pop("annotations")
        file = PROJECT / "crds" / f"cronhpa.io_{crd['spec']['names']['plural']}.yaml"
        assert yaml.safe_load(file.read_text()) == crd


@pytest.mark.parametrize(
    ("version", "folder"),
    [("1.30.0", "kubernetes-1.30"), ("1.33.9", "kubernetes-1.30"), ("1.34.0", "."), ("1.36.3", ".")],
)
def test_the_crd_is_the_one_that_the_version_of_the_api_server_takes(version, folder):
    crds = of_kind(rendered_chart(kubernetes=version), "CustomResourceDefinition")

    for crd in crds:
        file = PROJECT / "crds" / folder / f"cronhpa.io_{crd['spec']['names']['plural']}.yaml"
        assert yaml.load(file.read_text(), yaml.CSafeLoader)["spec"] == crd["spec"]


def test_a_kubernetes_that_is_too_old_is_refused_by_the_chart():
    with pytest.raises(ControlPlaneError, match=r"requires kubeVersion: >=1\.30\.0-0"):
        helm_template(CHART, kubernetes="1.29.14")


@pytest.mark.parametrize(
    ("copy", "original"), [(CRD_FILE, CRD_FILE), ("cronhpa.io_cronhpas-1.30.yaml", f"kubernetes-1.30/{CRD_FILE}")]
)
def test_the_charts_copies_of_the_crd_are_the_projects(copy, original):
    assert (PROJECT / "crds" / original).read_text() == (CHART / "files" / copy).read_text(), "run `make crds`"


def test_what_is_optional_is_absent_until_asked_for():
    assert {
        "ServiceAccount", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Service", "StatefulSet",
        "NetworkPolicy", "PodDisruptionBudget", "Role", "RoleBinding", "Pod", "ConfigMap",
    } == kinds(render())  # fmt: skip
    assert "NetworkPolicy" not in kinds(render(networkPolicy={"enabled": False}))
    assert "CustomResourceDefinition" not in kinds(render(crds={"install": False}))
    assert not {"ClusterRole", "ClusterRoleBinding"} & kinds(render(rbac={"create": False}))


def test_a_network_policy_lets_it_talk_to_the_api_server_and_dns_alone():
    spec = only(render(), "NetworkPolicy")["spec"]

    assert {443, 6443, 53} == {port["port"] for rule in spec["egress"] for port in rule["ports"]}
    assert {"Ingress", "Egress"} == set(spec["policyTypes"])


def test_a_network_policy_lets_monitoring_read_the_metrics_and_nobody_ask_the_probes():
    """The kubelet needs no rule: traffic from a pod's own node is always let through."""
    spec = only(render(), "NetworkPolicy")["spec"]

    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert [{"ports": [{"port": "http", "protocol": "TCP"}], "from": [monitoring]}] == spec["ingress"]


def test_a_network_policy_with_nobody_named_lets_nobody_in():
    """An empty `from` would be everybody."""
    assert [] == only(render(networkPolicy={"from": []}), "NetworkPolicy")["spec"]["ingress"]


@pytest.mark.parametrize(
    ("values", "port"),
    [
        ({"prometheus": {"url": "http://prometheus.monitoring:9090/base"}}, 9090),
        ({"prometheus": {"url": "https://prometheus.example.com"}}, 443),
        ({"prometheus": {"url": "http://prometheus"}}, 80),
        ({"prometheus": {"url": "http://[fd00::1]:9091"}}, 9091),
        ({"advanced": {"daskScheduler": "tls://dask:8786", "daskTlsSecret": "dask-client"}}, 8786),
    ],
)
def test_a_network_policy_lets_it_talk_to_what_its_own_settings_name(values, port):
    spec = only(render(**values), "NetworkPolicy")["spec"]

    assert [{"ports": [{"port": port, "protocol": "TCP"}]}] == spec["egress"][2:]


def test_a_network_policy_lets_it_talk_to_what_is_named():
    rule = {"to": [{"namespaceSelector": {}}], "ports": [{"port": 9090}]}
    spec = only(render(networkPolicy={"egress": [rule]}), "NetworkPolicy")["spec"]

    assert rule == spec["egress"][-1]


def expanded(value):
    """As the kubelet hands it to the container: of two dollar signs it leaves one."""
    return value.replace("$$", "$")


DASK_FILES = ("ca.crt", "tls.crt", "tls.key")


def test_learning_is_set_up_by_values():
    """The names are those that the operator reads; what it makes of them, it accepts."""
    queries = {"requests": 'sum(rate(http_requests_total{namespace="$namespace", path=~"/.*$$"}[2m]))'}
    objects = render(
        advanced={
            "forecastWorkers": 3,
            "learningSharePercent": 80,
            "daskScheduler": "tls://dask:8786",
            "daskTlsSecret": "dask-client",
        },
        prometheus={
            "url": "http://prometheus.monitoring:9090",
            "queries": queries,
            "tokenSecret": {"name": "reader", "key": "bearer"},
        },
    )

    given = {
        name.removeprefix("CRONHPA_").lower(): expanded(value)
        for name, value in environment(objects).items()
        if name != "CRONHPA_PROMETHEUS_QUERIES"
    }
    settings = Settings(
        prometheus_queries=json.loads(expanded(environment(objects)["CRONHPA_PROMETHEUS_QUERIES"])), **given
    )
    assert (3, 80) == (settings.forecast_workers, settings.learning_share_percent)
    assert DaskCluster("tls://dask:8786", *(f"/var/run/secrets/dask/{name}" for name in DASK_FILES)) == settings.dask
    assert ("http://prometheus.monitoring:9090", queries) == (settings.prometheus_url, settings.prometheus_queries)
    assert Path("/var/run/secrets/prometheus/bearer") == settings.prometheus_token_file
    mounts = {volume_mount["name"]: volume_mount["mountPath"] for volume_mount in container(objects)["volumeMounts"]}
    assert "/var/run/secrets/prometheus" == mounts["prometheus-token"]
    assert {"name": "prometheus-token", "secret": {"secretName": "reader"}} in pod(objects)["volumes"]
    assert "/var/run/secrets/dask" == mounts["dask-tls"]
    assert {"name": "dask-tls", "secret": {"secretName": "dask-client"}} in pod(objects)["volumes"]


def test_a_dask_scheduler_without_certificates_is_a_risk_that_is_named():
    """A client of the scheduler controls the operator's worker."""
    for values in ({"daskScheduler": "tcp://dask:8786", "daskTlsSecret": "x"}, {"daskScheduler": "tls://dask:8786"}):
        with pytest.raises(ControlPlaneError, match="daskInsecure: true takes that risk"):
            render(advanced=values)

    stated = environment(render(advanced={"daskScheduler": "tcp://dask:8786", "daskInsecure": True}))
    assert (
        DaskCluster("tcp://dask:8786")
        == Settings(dask_scheduler=stated["CRONHPA_DASK_SCHEDULER"], dask_insecure=stated["CRONHPA_DASK_INSECURE"]).dask
    )


def test_without_a_prometheus_and_a_dask_cluster_none_is_named():
    assert not [name for name in environment(render()) if "PROMETHEUS" in name or "DASK" in name]


def test_a_service_monitor_finds_the_service():
    objects = render(serviceMonitor={"enabled": True, "labels": {"team": "sre"}})
    monitor, service = only(objects, "ServiceMonitor"), only(objects, "Service")

    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["selector"] == monitor["spec"]["selector"]["matchLabels"]
    scraped = {"port": "http", "path": "/metrics", "interval": "30s", "honorLabels": True}
    assert [scraped] == monitor["spec"]["endpoints"]
    assert "sre" == monitor["metadata"]["labels"]["team"]


def test_a_tag_is_the_charts_version_until_one_is_given():
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]

    assert f"cronhpa:{version}" == container(render())["image"]
    for tag in ("9", f"9@sha256:{'0' * 64}"):
        assert f"there/cronhpa:{tag}" == container(render(image={"repository": "there/cronhpa", "tag": tag}))["image"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"namespace": "shop"}, "namespace"),
        ({"syncPeriod": 15}, "syncPeriod"),
        ({"syncPeriod": "15"}, "syncPeriod"),
        ({"syncPeriod": "0s"}, "syncPeriod"),
        ({"syncPeriod": "0.0m0h"}, "syncPeriod"),
        ({"extraEnv": [{"name": "LIMIT", "value": 1}]}, "extraEnv"),
        ({"persistence": {"accessModes": [""]}}, "accessModes"),
        ({"tolerance": 1.5}, "tolerance"),
        ({"log": {"level": "loud"}}, "level"),
        ({"namespaces": ["Shop"]}, "namespaces"),
        ({"scaleTargets": [{"resource": "rollouts"}]}, "apiGroup"),
        ({"replicas": -1}, "replicas"),
        ({"leaderElection": {"leaseDuration": 15}}, "leaseDuration"),
        ({"advanced": {"forecastWorkers": 0}}, "forecastWorkers"),
        ({"advanced": {"learningSharePercent": 101}}, "learningSharePercent"),
        ({"advanced": {"daskScheduler": "dask:8786"}}, "daskScheduler"),
        ({"prometheus": {"url": "prometheus:9090"}}, "url"),
        ({"prometheus": {"queries": {"requests": 1}}}, "requests"),
    ],
)
def test_a_setting_that_means_nothing_is_refused_by_name(values, words):
    with pytest.raises(ControlPlaneError, match=words):
        render(**values)


def test_people_who_may_edit_or_view_a_namespace_may_its_objects_unless_that_is_switched_off():
    roles = {
        frozenset(aggregated(manifest)): rights(manifest)
        for manifest in of_kind(render(), "ClusterRole")
        if aggregated(manifest)
    }
    reads = {"get", "list", "watch"}

    assert {
        frozenset({"admin", "edit"}): {
            ("cronhpa.io", kind): {"create", "update", "patch", "delete", "deletecollection"}
            for kind in ("cronhpas", "plannedevents")
        },
        frozenset({"admin", "edit", "view"}): {
            ("cronhpa.io", resource): reads
            for resource in ("cronhpas", "cronhpas/status", "plannedevents", "plannedevents/status")
        },
    } == roles
    assert [] == [
        manifest for manifest in of_kind(render(rbac={"aggregate": False}), "ClusterRole") if aggregated(manifest)
    ]


def test_a_digest_stands_in_place_of_the_tag():
    digest = f"sha256:{'a' * 64}"
    objects = render(image={"repository": "ghcr.io/cronhpa/cronhpa", "digest": digest})

    assert f"ghcr.io/cronhpa/cronhpa@{digest}" == container(objects)["image"]


def test_names_and_labels_can_be_the_users():
    objects = render(fullnameOverride="scaler", nameOverride="hpa", commonLabels={"team": "web"})

    assert {"scaler"} == {
        manifest["metadata"]["name"] for manifest in of_kind(objects, "StatefulSet") + of_kind(objects, "Service")
    }
    assert [] == [
        manifest["metadata"]["name"]
        for manifest in objects
        if manifest["kind"] != "CustomResourceDefinition" and manifest["metadata"]["labels"].get("team") != "web"
    ]
    assert "web" == only(objects, "StatefulSet")["spec"]["template"]["metadata"]["labels"]["team"]


def test_a_label_that_is_stated_twice_stands_once_and_the_selector_is_never_the_users(tmp_path):
    """
    The more special one counts. Found: both stood there, which is no YAML, and a StatefulSet did not select its pods.
    """
    team = {name: {"enabled": True, "labels": {"team": name}} for name in ("serviceMonitor", "grafanaDashboards")}
    common = {"team": "web", "app.kubernetes.io/name": "theirs", "app.kubernetes.io/part-of": "shop"}
    file = tmp_path / "rendered.yaml"
    file.write_text(helm_template(values={"commonLabels": common, "podLabels": {"team": "pods"}, **team}))

    documents = [document for document in read_with_lines(file) if document.body]

    assert [] == [twice.told() for document in documents for twice in document.repeated]
    objects = [document.body for document in documents]
    labels = {kind: only(objects, kind)["metadata"]["labels"] for kind in ("StatefulSet", "ServiceMonitor")}
    pods = only(objects, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert ["web", "serviceMonitor", "pods"] == [one["team"] for one in (*labels.values(), pods)]
    assert {"cronhpa"} == {one["app.kubernetes.io/name"] for one in (*labels.values(), pods)}
    assert {"shop"} == {one["app.kubernetes.io/part-of"] for one in (*labels.values(), pods)}


def test_volumes_and_objects_of_the_user_are_added():
    objects = render(
        extraVolumes=[{"name": "ca", "configMap": {"name": "ca"}}],
        extraVolumeMounts=[{"name": "ca", "mountPath": "/ca"}],
        extraObjects=[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-ca"}}],
    )

    assert {"name": "ca", "configMap": {"name": "ca"}} in only(objects, "StatefulSet")["spec"]["template"]["spec"][
        "volumes"
    ]
    assert {"name": "ca", "mountPath": "/ca"} in container(objects)["volumeMounts"]
    assert "cronhpa-ca" in {manifest["metadata"]["name"] for manifest in of_kind(objects, "ConfigMap")}


@pytest.mark.parametrize(
    "values", [(), ("--set=policy.enabled=true", "--set=advanced.pageInsecure=true", "--set=shards=16")]
)
def test_helms_linter_finds_nothing(values):
    told = subprocess.run([binaries() / "helm", "lint", "--strict", *values, CHART], capture_output=True, check=False)

    assert 0 == told.returncode, told.stdout.decode()
