"""
cronhpa.cli.commands.adopt, cronhpa.cli.objects.adoption, cronhpa.cli.objects.adoption_plan,
cronhpa.cli.objects.live_autoscalers: live.
"""

import asyncio
import threading
import time
from http import HTTPStatus

import pytest
import yaml
from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.cli.objects.adoption import version_of
from cronhpa.kube.client import Client
from cronhpa.kube.credentials import load_configuration
from cronhpa.kube.errors import ClusterError
from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.wait import wait_until

# Each waits for two controllers to agree, and for what must not happen.
pytestmark = [pytest.mark.usefixtures("operator"), pytest.mark.long]

HPAS = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
CRON_HPAS = "/apis/cronhpa.io/v1alpha1/namespaces/{}/cronhpas"


class Shop:
    """A Deployment with an HPA at 4 replicas, under a load that needs 4."""

    def __init__(self, plane, namespace, plant, **fields):
        self._plane, self.namespace = plane, namespace
        made = deployment("shop", namespace=namespace, replicas=4)
        plane.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", [made])
        self.load = plant.add_target(namespace, {"app": "shop"}, 2.0)
        plane.apply(horizontal_pod_autoscaler("shop", namespace=namespace, **fields))
        wait_until(lambda: self.hpa, lambda hpa: self.condition(hpa, "ScalingActive") == "True")

    def adopt(self, *options):
        arguments = ["adopt", "shop", "-n", self.namespace, "--kubeconfig", str(self._plane.admin_kubeconfig)]
        return CliRunner().invoke(app, [*arguments, "--timeout", "30", "--watch", "4", *options])

    @property
    def hpa(self):
        return self._only(HPAS)

    @property
    def cron_hpa(self):
        return self._only(CRON_HPAS)

    @property
    def generation(self):
        """Counts the changes of the Deployment's spec: a count that came back would still be seen in it."""
        return self.deployment["metadata"]["generation"]

    @property
    def deployment(self):
        return self._plane.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/shop")

    @staticmethod
    def condition(body, kind):
        conditions = ((body or {}).get("status") or {}).get("conditions") or ()
        return next(
            (stated_condition["status"] for stated_condition in conditions if stated_condition["type"] == kind), None
        )

    def _only(self, path):
        items = self._plane.get(path.format(self.namespace))["items"]
        return items[0] if items else None


class Watched:
    """Reads all the while whether somebody scales: HPA, or CronHPA that is not held, or nobody."""

    def __init__(self, shop):
        self._shop, self._end = shop, threading.Event()
        self.seen = set()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def _read(self):
        while not self._end.is_set():
            self.seen.add((self._shop.deployment["spec"]["replicas"], bool(self._shop.hpa or self._shop.cron_hpa)))


@pytest.fixture
def shop(control_plane, namespace, plant):
    def make(**fields):
        return Shop(control_plane, namespace, plant, **fields)

    return make


def test_there_and_back_under_a_steady_load_nothing_is_scaled(shop):
    """2 cores at 50 % of 1 core need 4 pods: 4 all the while, and somebody is in charge all the while."""
    there = shop()
    before = there.generation

    with Watched(there) as watched:
        adopted = there.adopt()
        alone = there.hpa, there.condition(there.cron_hpa, "TargetOwned")
        time.sleep(3)
        returned = there.adopt("--back")
        back = there.hpa["metadata"]["name"], there.cron_hpa
        time.sleep(3)

    assert 0 == adopted.exit_code, adopted.stderr
    assert (None, "True") == alone
    assert 0 == returned.exit_code, returned.stderr
    assert ("shop", None) == back
    assert {(4, True)} == watched.seen
    assert before == there.generation


def test_once_adopted_it_follows_the_load(shop, plant):
    there = shop()
    assert 0 == there.adopt().exit_code

    plant.set_load(there.load, 3.0)

    wait_until(lambda: there.deployment["spec"]["replicas"], lambda replicas: replicas == 6)


def test_the_hpa_that_comes_back_is_the_one_that_went(shop):
    behavior = {
        "scaleDown": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 90}]}
    }
    there = shop(behavior=behavior)
    before = there.hpa["spec"]

    assert 0 == there.adopt().exit_code
    assert 0 == there.adopt("--back").exit_code

    assert before == there.hpa["spec"]


def test_a_dry_run_shows_the_manifest_and_changes_nothing(shop):
    there = shop()
    before = there.hpa["metadata"]["uid"]

    result = there.adopt("--dry-run")

    assert 0 == result.exit_code
    assert "CronHPA" == yaml.safe_load(result.stdout)["kind"]
    assert "1. create the CronHPA" in result.stderr
    assert (before, None) == (there.hpa["metadata"]["uid"], there.cron_hpa)


@pytest.mark.parametrize("cut", ["CronHPA made", "HPA deleted", "all done"])
def test_cut_off_anywhere_it_is_finished_by_running_it_again(shop, control_plane, cut):
    there = shop()
    manifest = yaml.safe_load(there.adopt("--dry-run").stdout)
    control_plane.apply(manifest)
    if cut != "CronHPA made":
        control_plane.kubectl("delete", "hpa", "shop", "-n", there.namespace)
    if cut == "all done":
        assert 0 == there.adopt().exit_code

    result = there.adopt()

    assert 0 == result.exit_code, result.stderr
    assert (None, "True") == (there.hpa, there.condition(there.cron_hpa, "TargetOwned"))


def test_an_edit_while_it_is_waited_for_stops_it_and_the_next_run_takes_the_edit_over(shop, control_plane):
    there = shop()
    edit = [
        "patch", "hpa", "shop", "-n", there.namespace, "--type=merge", "-p", '{"spec": {"maxReplicas": 12}}'
    ]  # fmt: skip
    timer = threading.Timer(2, control_plane.kubectl, edit)
    timer.start()

    stopped = there.adopt()
    left = there.hpa["spec"]["maxReplicas"], there.cron_hpa
    again = there.adopt()

    timer.join()
    assert 1 == stopped.exit_code
    assert "was edited meanwhile, and is not deleted" in stopped.stderr
    assert (12, None) == left
    assert 0 == again.exit_code, again.stderr
    assert (None, 12) == (there.hpa, there.cron_hpa["spec"]["maxReplicas"])


def test_the_api_server_deletes_no_other_version_than_the_one_that_was_compared(shop, control_plane):
    there = shop()
    seen = there.hpa
    control_plane.kubectl("annotate", "hpa", "shop", "-n", there.namespace, "note=later")
    path = f"{HPAS.format(there.namespace)}/shop"

    async def delete():
        async with Client(load_configuration(str(control_plane.admin_kubeconfig))) as client:
            await client.delete(path, {"preconditions": version_of(seen)})

    with pytest.raises(ClusterError) as refused:
        asyncio.run(delete())

    assert HTTPStatus.CONFLICT == refused.value.status
    assert there.hpa is not None


def test_without_an_operator_that_holds_the_hpa_stays(shop, control_plane, operator):
    there = shop()
    operator.kill()

    result = there.adopt("--timeout", "3")

    assert 1 == result.exit_code
    assert "the operator has not looked at the CronHPA: is it running" in result.stderr
    assert there.hpa is not None
    operator.start()
    assert 0 == there.adopt().exit_code
    assert there.hpa is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"minReplicas": 5}, "4 replicas run and the HPA would allow 5 to 10"),
        (
            {
                "metrics": None,
                "schedules": [{"name": "day", "start": "@daily", "durationMinutes": 2880, "replicas": 4}],
            },
            "an HPA would scale by 80 % of CPU",
        ),
    ],
)
def test_back_is_refused_where_the_hpa_would_scale_otherwise(shop, control_plane, fields, words):
    there = shop()
    assert 0 == there.adopt().exit_code
    spec = there.cron_hpa["spec"]
    control_plane.kubectl("scale", "deployment", "shop", "-n", there.namespace, "--replicas=4")
    schedule = {"name": "day", "start": "@daily", "durationMinutes": 2880, "replicas": 4}
    changed = {key: value for key, value in (spec | {"schedules": [schedule]} | fields).items() if value is not None}
    body = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "spec": changed}
    control_plane.kubectl(
        "replace", "-f", "-", stdin=yaml.safe_dump(body | {"metadata": {"name": "shop", "namespace": there.namespace}})
    )

    result = there.adopt("--back")

    assert 1 == result.exit_code
    assert words in result.stderr
    assert there.hpa is None


def test_an_hpa_that_another_controller_made_is_left_to_it(shop, control_plane):
    there = shop()
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop", "uid": there.deployment["metadata"]["uid"]}
    patch = yaml.safe_dump({"metadata": {"ownerReferences": [owner]}})
    control_plane.kubectl("patch", "hpa", "shop", "-n", there.namespace, "--type=merge", "-p", patch)

    result = there.adopt()

    assert 1 == result.exit_code
    assert "Deployment shop made this HPA and would make it again" in result.stderr
    assert there.cron_hpa is None


def test_of_a_name_that_is_not_there_it_says_so(shop, control_plane, namespace):
    arguments = ["adopt", "nothing", "-n", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig)]

    result = CliRunner().invoke(app, arguments)

    assert 1 == result.exit_code
    assert f"there is neither an HPA nor a CronHPA nothing in namespace {namespace}" in result.stderr


QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}


@pytest.fixture
def on_a_queue(shop, plant, namespace, control_plane):
    """A shop of 4 pods by a queue of 40, which its adapter serves only while an HPA names it."""
    plant.set_external_metric(namespace, "queue", 40.0)
    plant.serve_only_for_hpas(namespace)
    return shop(metrics=[QUEUE])


def test_a_metric_that_goes_with_the_hpa_brings_the_hpa_back_as_it_was(on_a_queue, control_plane):
    """Found: the HPA was deleted, success was printed, and the CronHPA ended Ready False."""
    there = on_a_queue
    control_plane.kubectl("label", "hpa", "shop", "-n", there.namespace, "team=checkout")
    control_plane.kubectl("annotate", "hpa", "shop", "-n", there.namespace, "note=kept")
    before, generation = there.hpa, there.generation

    with Watched(there) as watched:
        result = there.adopt()

    assert 1 == result.exit_code, result.stderr
    assert "deleted the HPA" in result.stderr
    assert "so the HPA is back as it was, and no replica was changed" in result.stderr
    assert "ScalingActive is False" in result.stderr
    assert before["spec"] == there.hpa["spec"]
    assert ({"team": "checkout"}, "kept") == (
        there.hpa["metadata"]["labels"],
        there.hpa["metadata"]["annotations"]["note"],
    )
    assert before["metadata"]["uid"] != there.hpa["metadata"]["uid"]
    assert there.cron_hpa is None
    assert {(4, True)} == watched.seen
    assert generation == there.generation


def test_an_hpa_without_a_metric_is_not_deleted(on_a_queue, plant):
    there = on_a_queue
    plant.set_external_metric(there.namespace, "queue", None)
    wait_until(lambda: there.condition(there.hpa, "ScalingActive"), lambda status: status == "False")

    result = there.adopt("--timeout", "4")

    assert 1 == result.exit_code
    assert "the HPA has no metrics to scale by" in result.stderr
    assert there.hpa is not None


def test_an_hpa_whose_adapter_reads_its_annotations_is_refused_and_the_plan_says_so(shop, control_plane):
    there = shop()
    key = "metric-config.pods.requests-per-second.json-path/path"
    control_plane.kubectl("annotate", "hpa", "shop", "-n", there.namespace, f"{key}=/metrics")
    arguments = ["adopt", "-n", there.namespace, "--kubeconfig", str(control_plane.admin_kubeconfig), "--dry-run"]

    result = there.adopt()
    plan = CliRunner().invoke(app, arguments)

    assert (1, 0) == (result.exit_code, plan.exit_code), plan.stderr
    assert "kube-metrics-adapter serves this metric only while an HPA with this annotation names it" in result.stderr
    assert "define it as a metric source of the operator" in result.stderr
    head, row = plan.stdout.splitlines()
    assert ["NAMESPACE", "HPA", "TARGET", "REPLICAS", "PLAN"] == head.split()
    assert row.startswith(f"{there.namespace}  shop  Deployment/shop  4 of 1 to 10  refused: ")
    assert there.hpa is not None


def test_the_plan_of_a_cluster_has_each_hpa(shop, control_plane):
    there = shop()

    plan = CliRunner().invoke(app, ["adopt", "-A", "--dry-run", "--kubeconfig", str(control_plane.admin_kubeconfig)])

    assert any(line.split()[0] == there.namespace and line.endswith("  adopt") for line in plan.stdout.splitlines())


def test_what_a_cluster_has_is_converted_without_the_kinds_that_it_lacks(shop, control_plane):
    """Found: kubectl prints nothing at all where the cluster does not know one of the kinds that it is asked for."""
    there = shop()
    arguments = ["convert", "-n", there.namespace, "--kubeconfig", str(control_plane.admin_kubeconfig), "--strict"]

    result = CliRunner().invoke(app, arguments)

    assert 0 == result.exit_code, result.stderr
    assert ["shop"] == [body["metadata"]["name"] for body in yaml.safe_load_all(result.stdout)]
    assert "not in this cluster: ScaledObject" in result.stderr
