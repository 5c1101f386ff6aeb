"""cronhpa.kube.contexts: the cluster and the namespace of a command, found as kubectl finds them."""

from __future__ import annotations

import json

import kubernetes
import pytest
from kubernetes.config import kube_config

from cli.served import write_kubeconfig
from cronhpa.kube import contexts
from cronhpa.kube.contexts import find_access, own_namespace
from cronhpa.kube.errors import ClusterError


@pytest.fixture
def kubeconfig(tmp_path):
    return write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1", {"stage": "shop", "dev": None}, token="t0k3n")


def refused(*arguments):
    with pytest.raises(ClusterError) as caught:
        find_access(*arguments)
    return caught.value


def test_without_a_context_the_current_one_and_its_namespace_are_used(kubeconfig):
    access = find_access(str(kubeconfig))

    assert ("stage", "shop", "http://127.0.0.1:1") == (access.context, access.namespace, access.host)


def test_a_context_without_a_namespace_uses_default(kubeconfig):
    assert "default" == find_access(str(kubeconfig), "dev").namespace


def test_a_missing_context_is_named_with_the_existing_ones(kubeconfig):
    error = refused(str(kubeconfig), "prod")

    assert f'context "prod" does not exist in {kubeconfig}: it has stage, dev' == str(error)


def test_of_many_contexts_some_are_named(tmp_path):
    many = write_kubeconfig(tmp_path / "many", "http://x", {f"c{number}": None for number in range(13)})

    assert str(refused(str(many), "prod")).endswith("it has c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 3 more")


def test_a_kubeconfig_without_a_current_context_says_so(tmp_path):
    file = write_kubeconfig(tmp_path / "config", "http://x", {"only": None})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"current-context": ""}))

    assert "it states no current context: name one with --context: it has only" in str(refused(str(file)))


def test_a_missing_file_is_named(tmp_path):
    assert f"no way to the Kubernetes API: {tmp_path}/none: there is no such file" in str(refused(f"{tmp_path}/none"))


def test_of_several_files_the_first_that_states_a_current_context_wins(tmp_path, monkeypatch):
    """KUBECONFIG=one:two, as kubectl reads it; a missing file counts as empty."""
    one = write_kubeconfig(tmp_path / "one", "http://one", {"first": "a"})
    two = write_kubeconfig(tmp_path / "two", "http://two", {"second": "b"})
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", f"{tmp_path}/none:{one}:{two}")

    assert ["first", "second"] == [find_access().context, find_access(None, "second").context]
    assert "b" == find_access(None, "second").namespace


def test_in_a_pod_without_a_kubeconfig_its_account_and_its_namespace_are_used(tmp_path, monkeypatch):
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", f"{tmp_path}/none")
    monkeypatch.setattr(kubernetes.config, "load_incluster_config", lambda given: setattr(given, "host", "h"))
    monkeypatch.setattr(contexts, "pod_namespace", lambda: "cronhpa-system")

    access = find_access()

    assert ("h", "cronhpa-system", "") == (access.host, access.namespace, access.context)


def test_with_neither_a_kubeconfig_nor_a_pod_it_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", f"{tmp_path}/none")

    error = refused()

    assert f"there is no kubeconfig at {tmp_path}/none, and this is no pod of a cluster" in str(error)


def test_in_a_pod_the_operator_is_in_the_pods_namespace_unless_a_kubeconfig_or_a_context_is_named(
    kubeconfig, monkeypatch
):
    """The Lease and the placeholders are in the cluster that it acts in, where the pod's namespace need not exist."""
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    monkeypatch.setattr(contexts, "pod_namespace", lambda: "cronhpa-system")

    assert "cronhpa-system" == own_namespace(None, None)
    assert ["shop", "default"] == [own_namespace(None, "stage"), own_namespace(str(kubeconfig), "dev")]
    assert "shop" == own_namespace(str(kubeconfig), None)


def test_outside_a_pod_the_operator_is_in_the_namespace_of_the_context(kubeconfig, monkeypatch):
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    monkeypatch.setattr(contexts, "pod_namespace", lambda: None)

    assert "shop" == own_namespace(None, None)
