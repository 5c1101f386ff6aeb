"""cronhpa.cli.objects.live_autoscalers: the autoscalers that a cluster has, of the kinds that it knows."""

import pytest
import yaml

from kube.fake_api import answering

HPA = {
    "metadata": {"name": "shop", "namespace": "prod"},
    "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}, "maxReplicas": 3},
}
LIST = {"metadata": {"resourceVersion": "1"}, "items": [HPA]}


@pytest.fixture
def cluster(served):
    """A cluster that serves HorizontalPodAutoscalers, has one, and serves no other kind of autoscaler."""
    version = {"groupVersion": "autoscaling/v2", "version": "v2"}
    served.answers["/apis/autoscaling"] = answering({"versions": [version], "preferredVersion": version})
    kind = {"name": "horizontalpodautoscalers", "kind": "HorizontalPodAutoscaler"}
    served.answers["/apis/autoscaling/v2"] = answering({"resources": [kind]})
    for within in ("/namespaces/prod", ""):
        served.answers[f"/apis/autoscaling/v2{within}/horizontalpodautoscalers"] = answering(LIST)
    return served


@pytest.mark.parametrize("where", [("-n", "prod"), ("-A",)])
def test_kinds_that_a_cluster_does_not_know_keep_none_of_the_others_back(cluster, cronhpa, where):
    result = cronhpa("convert", "--strict", *where)

    assert 0 == result.exit_code, result.stderr
    assert "shop" == yaml.safe_load(result.stdout)["metadata"]["name"]
    assert "not in this cluster: ScaledObject, " in result.stderr
    # Found: four times, for its four groups.
    assert 1 == result.stderr.count("CronHorizontalPodAutoscaler")


def test_a_cluster_that_refuses_ends_it_with_2(cluster, cronhpa):
    cluster.refuse("/apis/autoscaling/v2/namespaces/prod/horizontalpodautoscalers", 403, "Forbidden", "not yours")

    result = cronhpa("convert", "-n", "prod")

    assert 2 == result.exit_code
    assert "not yours" in result.stderr


def test_a_namespace_that_is_not_to_be_read_keeps_its_objects_not_back(cluster, cronhpa):
    """Annotations of kube-downscaler may stand on it."""
    cluster.answers["/api/v1"] = answering({"resources": [{"name": "namespaces", "kind": "Namespace"}]})
    cluster.refuse("/api/v1/namespaces/prod", 403, "Forbidden", "not yours")

    result = cronhpa("convert", "-n", "prod")

    assert 0 == result.exit_code, result.stderr
    assert "Namespace (not to be read)" in result.stderr


def test_files_and_a_namespace_are_too_much(cluster, cronhpa):
    assert 2 == cronhpa("convert", "-n", "prod", "some.yaml").exit_code
