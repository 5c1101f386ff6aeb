"""cronhpa.kube.kubeconfig: any file ends in credentials or in a line that says why not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import kubernetes.config
import pytest
from kubernetes.config import kube_config

from cli.served import write_kubeconfig
from cronhpa.kube.contexts import find_access
from cronhpa.kube.credentials import load_configuration
from cronhpa.kube.errors import ClusterError


def laughs(of: str, depth: int = 9) -> str:
    """A kilobyte of aliases of aliases that stands for 10^`depth` copies of a text, as an extension of a kubeconfig."""
    levels = [f"  l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]" for level in range(1, depth + 1)]
    return "\n".join(["current-context: it", "preferences:", f"  l0: &l0 {of}", *levels, "contexts:", "- name: it\n"])


def hostile_user(depth: int = 9) -> str:
    """The bomb where the package prints what it merges: in an entry."""
    return laughs("[x]", depth) + f"  context: {{cluster: it, user: it}}\nusers:\n- name: it\n  user: *l{depth}\n"


BAD_USER = """
current-context: it
clusters: [{name: it, cluster: {server: https://a}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
users: [{name: it, user: 7}]
"""
HOSTILE = {
    "aliases of aliases": (hostile_user(), "more than 200,000 values, aliases counted where they are put"),
    "a long text put often": (
        laughs(f"[{'x' * 100_000}]", 4),
        "more than 200,000 values, aliases counted where they are put",
    ),
    "lists in lists": ("[" * 100_000, "RecursionError"),
    "no YAML": ("users: [it\ntoken: s3cret: s3cret", "expected"),
    "no mapping": ("- s3cret", "it holds a list: a kubeconfig is a mapping with clusters, contexts, users"),
    "nothing": ("", "it holds nothing"),
    "an entry without a name": ("contexts: [{}]", "contexts: each entry is a mapping with a name"),
    "a user that is no mapping": (
        BAD_USER,
        "no way to the Kubernetes API",
    ),
}


@pytest.mark.parametrize("reads", [find_access, load_configuration], ids=["commands", "the operator"])
@pytest.mark.parametrize(("text", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_kubeconfig_is_refused_with_the_reason_and_without_its_text(tmp_path, reads, text, problem):
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(ClusterError) as caught:
        reads(str(file))

    assert problem in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("reads", [find_access, load_configuration], ids=["commands", "the operator"])
def test_each_file_of_a_list_is_read_with_limits(tmp_path, monkeypatch, reads):
    """KUBECONFIG=good:bad, as kubectl reads it."""
    good = write_kubeconfig(tmp_path / "good", "http://good", {"first": None})
    (tmp_path / "bad").write_text(hostile_user())
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", os.pathsep.join([str(good), f"{tmp_path}/bad"]))

    with pytest.raises(ClusterError, match=f"{tmp_path}/bad:8: more than 200,000 values"):
        reads()


def test_a_file_without_an_end_is_refused():
    with pytest.raises(ClusterError, match="/dev/zero: it has more than 16 MiB"):
        load_configuration("/dev/zero")


def test_the_operator_takes_the_first_current_context_of_several_files_as_kubectl_does(tmp_path, monkeypatch):
    one = write_kubeconfig(tmp_path / "one", "http://one", {"first": None})
    two = write_kubeconfig(tmp_path / "two", "http://two", {"second": None})
    renamed = two.read_text().replace('"it"', '"other"')
    two.write_text(renamed)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", os.pathsep.join([str(one), str(two)]))

    assert ["http://one", "http://two"] == [load_configuration().host, load_configuration(None, "second").host]


def test_a_named_context_comes_before_the_account_of_the_pod(tmp_path, monkeypatch):
    """Found: in a pod the operator ignored CRONHPA_CONTEXT, and acted in the pod's own cluster."""
    file = write_kubeconfig(tmp_path / "config", "http://named", {"other": None})
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    monkeypatch.setattr(kubernetes.config, "load_incluster_config", lambda given: setattr(given, "host", "http://own"))

    assert ["http://own", "http://named"] == [load_configuration().host, load_configuration(None, "other").host]


def test_who_names_a_context_that_does_not_exist_is_not_told_to_run_in_a_cluster(tmp_path, monkeypatch):
    file = write_kubeconfig(tmp_path / "config", "http://one", {"it": None})
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))

    with pytest.raises(ClusterError) as caught:
        load_configuration(None, "other")

    assert "other" in str(caught.value)
    assert str(caught.value).endswith("; name a kubeconfig with --kubeconfig, and its context with CRONHPA_CONTEXT")


def test_of_two_entries_of_a_name_the_first_counts(tmp_path, monkeypatch):
    one = write_kubeconfig(tmp_path / "one", "http://one", {"it": None})
    two = write_kubeconfig(tmp_path / "two", "http://two", {"it": None})
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", os.pathsep.join([str(one), str(two)]))

    assert "http://one" == find_access().host


def test_a_relative_certificate_lies_beside_the_file_that_names_it(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    file = write_kubeconfig(tmp_path / "elsewhere" / "config", "https://one", {"it": None})
    body = json.loads(file.read_text())
    body["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    file.write_text(json.dumps(body))
    (tmp_path / "elsewhere" / "ca.crt").write_text("")
    empty = write_kubeconfig(tmp_path / "config", "https://two", {})
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", os.pathsep.join([str(empty), str(file)]))
    empty.write_text("{}")

    assert tmp_path / "elsewhere" / "ca.crt" == Path(str(load_configuration().ssl_ca_cert))


def test_an_alias_that_is_put_a_few_times_is_read(tmp_path):
    file = tmp_path / "config"
    file.write_text(
        "current-context: dev\n"
        "clusters: [{name: it, cluster: &it {server: 'http://it'}}, {name: too, cluster: *it}]\n"
        "contexts: [{name: dev, context: {cluster: too, user: me, namespace: shop}}]\n"
        "users: [{name: me, user: {token: t}}]\n"
    )

    assert ("http://it", "shop") == (find_access(str(file)).host, find_access(str(file)).namespace)
