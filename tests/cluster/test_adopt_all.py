"""cronhpa.cli.commands.adopt: --all HPAs of a namespace, one after the other, on a real API server."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cronhpa.cli import app
from testbed.objects import deployment, horizontal_pod_autoscaler
from testbed.wait import wait_until

# Each waits for two controllers to agree.
pytestmark = [pytest.mark.usefixtures("operator"), pytest.mark.long]

NAMES = ("cart", "mail", "shop")
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
ADAPTER = "metric-config.pods.requests-per-second.json-path/path"


class Shops:
    """A Deployment with an HPA at 2 replicas for each name, under a load that needs 2."""

    def __init__(self, plane, namespace, plant):
        self._plane, self.namespace = plane, namespace
        for name in NAMES:
            made = deployment(name, namespace=namespace, replicas=2)
            plane.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", [made])
            plant.add_target(namespace, {"app": name}, 1.0)
            plane.apply(horizontal_pod_autoscaler(name, namespace=namespace))
        wait_until(lambda: [*map(self._is_active, self._items("autoscaling/v2", "horizontalpodautoscalers"))], all)

    @property
    def options(self):
        options = ["adopt", "-n", self.namespace, "--all", "--kubeconfig", str(self._plane.admin_kubeconfig)]
        return [*options, "--timeout", "30", "--watch", "3", "--pause", "1"]

    def adopt(self, *options):
        return CliRunner().invoke(app, [*self.options, *options])

    @property
    def hpas(self):
        return self._names("autoscaling/v2", "horizontalpodautoscalers")

    @property
    def cron_hpas(self):
        return self._names("cronhpa.io/v1alpha1", "cronhpas")

    def metrics(self, name):
        """The types of the metrics that the HPA has read."""
        path = f"/apis/autoscaling/v2/namespaces/{self.namespace}/horizontalpodautoscalers/{name}"
        return [metric["type"] for metric in self._plane.get(path)["status"].get("currentMetrics") or ()]

    def _names(self, group, plural):
        return [item["metadata"]["name"] for item in self._items(group, plural)]

    def _items(self, group, plural):
        return self._plane.get(f"/apis/{group}/namespaces/{self.namespace}/{plural}")["items"]

    @staticmethod
    def _is_active(hpa):
        conditions = (hpa.get("status") or {}).get("conditions") or ()
        return any((one["type"], one["status"]) == ("ScalingActive", "True") for one in conditions)


@pytest.fixture
def shops(control_plane, namespace, plant):
    return Shops(control_plane, namespace, plant)


def test_each_is_adopted_after_the_plan_and_a_second_run_has_nothing_to_do(shops):
    plan = shops.adopt("--dry-run")
    assert ([*NAMES], []) == (shops.hpas, shops.cron_hpas)

    result = shops.adopt()
    again = shops.adopt()

    assert (0, 0, 0) == (plan.exit_code, result.exit_code, again.exit_code), result.stderr
    assert plan.stdout == result.stdout  # the table alone
    assert ([], [*NAMES]) == (shops.hpas, shops.cron_hpas)
    assert "3 of 3 are adopted" in result.stderr
    assert "there is no HorizontalPodAutoscaler" in again.stdout
    assert "CronHPAs already: cart, mail, shop" in again.stderr


def test_it_stops_at_the_first_that_does_not_behave_and_leaves_the_others_alone(shops, control_plane, namespace, plant):
    """mail scales by a queue of 20, which its adapter serves only while an HPA names it: its HPA is put back."""
    plant.set_external_metric(namespace, "queue", 20.0)
    plant.serve_only_for_hpas(namespace)
    control_plane.apply(horizontal_pod_autoscaler("mail", namespace=namespace, metrics=[QUEUE]))
    wait_until(lambda: shops.metrics("mail"), lambda types: types == ["External"], within_s=60)

    result = shops.adopt()

    assert 1 == result.exit_code
    assert "mail: ScalingActive is False" in result.stderr
    assert "so the HPA is back as it was, and no replica was changed" in result.stderr
    assert "1 of 3 are adopted: run it again to go on" in result.stderr
    assert (["mail", "shop"], ["cart"]) == (shops.hpas, shops.cron_hpas)


def test_one_that_the_plan_refuses_is_left(shops, control_plane, namespace):
    control_plane.kubectl("annotate", "hpa", "mail", "-n", namespace, f"{ADAPTER}=/metrics")

    result = shops.adopt()

    assert 1 == result.exit_code
    assert "2 of 2 are adopted" in result.stderr
    assert "left, as the plan says why: mail" in result.stderr
    assert (["mail"], ["cart", "shop"]) == (shops.hpas, shops.cron_hpas)


def test_interrupted_in_the_middle_it_goes_on_where_it_was(shops):
    """SIGINT while the second one is waited for: one is a CronHPA, two have their HPA, and the next run ends it."""
    run = subprocess.Popen(
        [str(Path(sys.executable).with_name("cronhpa")), *shops.options],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    wait_until(lambda: shops.hpas, lambda names: names == ["mail", "shop"], within_s=60)
    wait_until(lambda: shops.cron_hpas, lambda names: names == ["cart", "mail"], within_s=60)
    run.send_signal(signal.SIGINT)
    _, told = run.communicate(timeout=30)
    left = shops.hpas

    result = shops.adopt()

    assert run.returncode
    assert "run it again to go on" in told
    assert ["mail", "shop"] == left
    assert 0 == result.exit_code, result.stderr
    assert "CronHPAs already: cart" in result.stderr
    assert "2 of 2 are adopted" in result.stderr
    assert ([], [*NAMES]) == (shops.hpas, shops.cron_hpas)
