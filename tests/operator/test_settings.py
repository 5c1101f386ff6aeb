"""cronhpa.operator.settings: environment variables, their defaults, and which values are refused."""

import pytest
from pydantic import ValidationError

from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.spec import ControllerOptions, Placeholders
from cronhpa.operator.settings import Settings, unknown_variables


def test_without_any_setting_it_acts_as_the_upstream_does():
    """kube-controller-manager: sync 15 s, tolerance 0.1, down 5 min, CPU 5 min, readiness 30 s."""
    assert ControllerOptions() == Settings().controller_options
    assert (15 * SECOND, 0.1, 5 * MINUTE, 5 * MINUTE, 30 * SECOND) == (
        Settings().controller_options.sync_period,
        Settings().controller_options.tolerance,
        Settings().controller_options.downscale_stabilization,
        Settings().controller_options.cpu_initialization_period,
        Settings().controller_options.initial_readiness_delay,
    )


def test_a_setting_is_an_environment_variable(monkeypatch):
    monkeypatch.setenv("CRONHPA_SYNC_PERIOD", "1m30s")
    monkeypatch.setenv("CRONHPA_PROMETHEUS_QUERIES", '{"cpu": "sum(rate(x[5m]))"}')

    assert 90 * SECOND == Settings().controller_options.sync_period
    assert {"cpu": "sum(rate(x[5m]))"} == Settings().prometheus_queries


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ({"leader_elect": False}, "shards are held by Leases"),
        ({"namespaces": "shop"}, "not both"),
    ],
)
def test_shards_need_leases_and_all_namespaces(others, problem):
    assert 16 == Settings(shards=16).shards
    assert 1 == Settings(**others).shards

    with pytest.raises(ValidationError, match=problem):
        Settings(shards=16, **others)


@pytest.mark.parametrize("kinds", ["auto", "Deployment"])
def test_placeholder_deployments_need_a_low_priority_and_one_replica_that_makes_them(kinds):
    given = {"placeholders": kinds, "placeholder_priority_class": "placeholder"}
    made = Settings(**given).placeholder_settings("cronhpa-system")

    assert (kinds, "cronhpa-system", "placeholder", 100) == (made.kinds, made.namespace, made.priority_class, made.most)
    assert "rooms" == Settings(**given, placeholder_namespace="rooms").placeholder_settings("any").namespace
    with pytest.raises(ValidationError, match="need one of low priority, or no pod could take their place"):
        Settings(placeholders=kinds)
    with pytest.raises(ValidationError, match="with shards CRONHPA_PLACEHOLDERS is none or CapacityBuffer"):
        Settings(**given, shards=16)
    assert 16 == Settings(placeholders="CapacityBuffer", shards=16).shards


def test_placeholders_of_objects_that_state_none_are_asked_for_by_a_setting():
    given = {"placeholders": "CapacityBuffer", "placeholder_max_per_object": 20, "placeholder_node_startup": "90s"}

    assert Placeholders(20, 90 * SECOND) == Settings(**given).placeholder_settings("any").usual
    assert Settings(placeholders="CapacityBuffer").placeholder_settings("any").usual is None
    with pytest.raises(ValidationError, match="objects can have none while CRONHPA_PLACEHOLDERS is none"):
        Settings(placeholder_max_per_object=20)


def test_a_lease_lasts_for_at_most_a_minute():
    """Other replicas believe in no longer one: a replica with a longer one would write beside the next leader."""
    assert 60 == Settings(leader_elect_lease_duration="60s").lease_timing.lease

    with pytest.raises(ValidationError, match="at most 60s is accepted"):
        Settings(leader_elect_lease_duration="61s")


def test_no_replica_has_the_name_that_stands_for_nobody():
    with pytest.raises(ValidationError, match="name the replica otherwise"):
        Settings(leader_elect_identity="unknown")


def test_an_empty_variable_is_none(monkeypatch):
    """Found: a chart that leaves a value empty stopped the operator."""
    monkeypatch.setenv("CRONHPA_PROMETHEUS_URL", "")
    monkeypatch.setenv("CRONHPA_TOLERANCE", "")

    assert (None, 0.1) == (Settings().prometheus_url, Settings().tolerance)


def test_outside_of_a_container_only_this_machine_is_served(monkeypatch):
    """In a pod the kubelet and a Prometheus call from outside; a laptop's network is not to read metrics."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("pathlib.Path.exists", lambda _: False)
    assert "127.0.0.1" == Settings().listen_address
    assert "10.1.2.3" == Settings(listen_host="10.1.2.3").listen_address

    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert "::" == Settings().listen_address


def test_a_variable_that_is_no_setting_is_named_with_the_one_that_was_meant():
    """Found: CRONHPA_TOLERENCE=0.2 started with a tolerance of 0.1."""
    wrong = {"CRONHPA_TOLERENCE": "0.2", "CRONHPA_LISTEN_PROT": "1", "CRONHPA_TOLERANCE": "0.2", "PATH": "/bin"}

    assert [
        "CRONHPA_TOLERENCE: there is no such setting: did you mean CRONHPA_TOLERANCE?",
        "CRONHPA_LISTEN_PROT: there is no such setting: did you mean CRONHPA_LISTEN_PORT?",
    ] == list(unknown_variables(wrong))


def test_what_kubernetes_says_of_a_service_of_this_name_is_no_setting():
    """Each pod of the namespace of a Service named cronhpa has these variables."""
    of_service = {
        "CRONHPA_SERVICE_HOST": "10.0.0.7",
        "CRONHPA_SERVICE_PORT": "8080",
        "CRONHPA_SERVICE_PORT_METRICS": "8080",
        "CRONHPA_PORT": "tcp://10.0.0.7:8080",
        "CRONHPA_PORT_8080_TCP": "tcp://10.0.0.7:8080",
        "CRONHPA_PORT_8080_TCP_PROTO": "tcp",
        "CRONHPA_PORT_8080_TCP_PORT": "8080",
        "CRONHPA_PORT_8080_TCP_ADDR": "10.0.0.7",
        "CRONHPA_PAGE_SERVICE_HOST": "10.0.0.8",
    }

    assert [] == list(unknown_variables(of_service))


def test_namespaces_are_parted_by_commas():
    assert ("prod", "shop") == Settings(namespaces=" prod, shop,,").namespace_names
    assert () == Settings().namespace_names


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sync_period", "0s"),
        ("sync_period", "-15s"),
        ("forecast_interval", "a minute"),
        ("tolerance", 1),
        ("tolerance", -0.1),
        ("listen_port", 65536),
        ("forecast_workers", 0),
        ("learning_share_percent", 101),
        ("log_format", "yaml"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_its_name(name, value):
    with pytest.raises(ValidationError) as caught:
        Settings(**{name: value})

    assert [(name,)] == [error["loc"] for error in caught.value.errors()]
