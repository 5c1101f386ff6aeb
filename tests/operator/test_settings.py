"""cronhpa.operator.settings: environment variables, their defaults, and which values are refused."""

import pytest
from pydantic import ValidationError

from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.operator.settings import Settings


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


def test_a_lease_lasts_for_at_most_a_minute():
    """Other replicas believe in no longer one: a replica with a longer one would write beside the next leader."""
    assert 60 == Settings(leader_elect_lease_duration="60s").lease_timing.lease

    with pytest.raises(ValidationError, match="at most 60s is accepted"):
        Settings(leader_elect_lease_duration="61s")


def test_no_replica_has_the_name_that_stands_for_nobody():
    with pytest.raises(ValidationError, match="name the replica otherwise"):
        Settings(leader_elect_identity="unknown")


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
