"""cronhpa.cli.commands.create: a CronHPA from a few options."""

import pytest
import yaml

from cronhpa.api.written_spec import written_spec
from kube.fake_api import answering

DEPLOYMENTS = "/apis/apps/v1/namespaces/prod/deployments"
SETS = "/apis/apps/v1/namespaces/prod/statefulsets"
CRON_HPAS = "/apis/cronhpa.io/v1alpha1/namespaces/prod/cronhpas"
DAY = "0 8 * * mon-fri to 0 18 * * mon-fri: 5"


def workload(replicas=3, **requests):
    containers = [{"name": "app", "resources": {"requests": requests}}, {"name": "proxy"}]
    return {"spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}}}


def made(result):
    assert 0 == result.exit_code, result.stderr
    return yaml.safe_load(result.stdout)


def utilization(resource, percent):
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": resource, "target": target}}


def test_it_prints_an_object_of_the_kind_that_the_cluster_has(served, cronhpa):
    served.answers[f"{SETS}/shop"] = answering(workload())

    body = made(cronhpa("create", "shop", "--min", "2", "--max", "20", "--cpu", "60", "-n", "prod"))

    assert {"name": "shop", "namespace": "prod"} == body["metadata"]
    assert {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shop"},
        "minReplicas": 2,
        "maxReplicas": 20,
        "metrics": [utilization("cpu", 60)],
    } == body["spec"]


def test_what_the_target_lacks_is_said_on_stderr(served, cronhpa):
    served.answers[f"{DEPLOYMENTS}/shop"] = answering(workload(replicas=30, cpu="1"))

    result = cronhpa("create", "shop", "--max", "20", "--memory", "70", "-n", "prod")

    assert [utilization("memory", 70)] == made(result)["spec"]["metrics"]
    assert "30 replicas run, outside of 1 to 20" in result.stderr
    assert "no request for memory in container app, proxy" in result.stderr


def test_without_a_cluster_a_name_is_a_deployment_and_the_usual_metric_is_taken(cronhpa, tmp_path):
    nowhere = str(tmp_path / "none")

    result = cronhpa("create", "shop", "--max", "20", "--kubeconfig", nowhere)

    body = made(result)
    assert ("Deployment", [utilization("cpu", 80)]) == (
        body["spec"]["scaleTargetRef"]["kind"],
        body["spec"]["metrics"],
    )
    assert "deploy/shop was not looked up" in result.stderr


def test_schedules_forecast_and_name(cronhpa, tmp_path):
    options = ["--schedule", DAY, "--schedule", "@daily to 0 1 * * *: 2", "--time-zone", "Europe/Berlin"]
    options += ["--cpu", "60", "--forecast", "--name", "db-hours", "--kubeconfig", str(tmp_path / "none")]

    body = made(cronhpa("create", "sts/db", "--max", "9", *options))

    assert ("db-hours", "StatefulSet") == (body["metadata"]["name"], body["spec"]["scaleTargetRef"]["kind"])
    assert {
        "name": "window-1",
        "start": "0 8 * * mon-fri",
        "end": "0 18 * * mon-fri",
        "minReplicas": 5,
    } == body["spec"]["schedules"][0]
    assert ({}, 2) == (body["spec"]["forecast"], len(written_spec(body).schedules))


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["shop"], 2, "Missing option '--max'"),
        (["shop", "--max", "0"], 2, "greater than or equal to 1"),
        (["job/x", "--max", "3"], 2, "write NAME, deploy/NAME, sts/NAME or rs/NAME"),
        (["shop", "--max", "3", "--schedule", "mornings"], 2, "write two cron texts and a count"),
        (["shop", "--max", "3", "--min", "4"], 1, "spec.maxReplicas"),
        (["shop", "--max", "3", "--schedule", "0 25 * * * to @daily: 2"], 1, 'found "25"'),
        (["shop", "--max", "3", "--schedule", DAY, "--forecast"], 1, "a forecast needs a load"),
        (["shop", "--max", "3", "--time-zone", "Berlin"], 1, "spec.timeZone"),
    ],
)
def test_what_would_be_refused_is_said(cronhpa, tmp_path, options, code, words):
    result = cronhpa("create", *options, "--kubeconfig", str(tmp_path / "none"))

    assert code == result.exit_code
    assert words in " ".join(result.stderr.replace("│", " ").split())


def test_a_target_that_is_not_there_is_an_error(served, cronhpa):
    result = cronhpa("create", "shop", "--max", "3", "-n", "prod")

    assert 1 == result.exit_code
    assert "there is no Deployment or StatefulSet shop in namespace prod" in result.stderr


def test_apply_creates_it(served, cronhpa):
    bodies = []

    async def take(request):
        bodies.append(await request.json())
        return await answering(bodies[-1], 201)(request)

    served.answers[f"{DEPLOYMENTS}/shop"] = answering(workload(cpu="1"))
    served.answers[CRON_HPAS] = take

    result = cronhpa("create", "shop", "--max", "3", "--apply", "-n", "prod")

    assert 0 == result.exit_code, result.stderr
    assert "cronhpa prod/shop created" in result.stdout
    assert "prod" == bodies[0]["metadata"]["namespace"]


def test_apply_leaves_an_object_of_the_name_alone(served, cronhpa):
    conflict = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "already exists"}
    served.answers[f"{DEPLOYMENTS}/shop"] = answering(workload(cpu="1"))
    served.answers[CRON_HPAS] = answering(conflict, 409)

    result = cronhpa("create", "shop", "--max", "3", "--apply", "-n", "prod")

    assert 1 == result.exit_code
    assert "CronHPA shop is there already: leave out --apply" in result.stderr
