"""cronhpa.cli.objects.object_inputs: `cronhpa preview` of objects of a cluster, by name, by namespace, or all."""

from __future__ import annotations

import json

import yaml
from typer.testing import CliRunner

from cli.commands.test_preview import SHOP
from cli.served import EVERYWHERE
from cronhpa.cli import app


def live(namespace, name="shop", **status):
    body = yaml.safe_load(SHOP.replace(", leadTimeSeconds: 0", ""))
    return body | {"metadata": {"name": name, "namespace": namespace}, "status": status}


def shown_names(result):
    assert 0 == result.exit_code, result.output
    return [shown["name"] for shown in json.loads(result.stdout)]


def test_objects_of_the_cluster_are_shown_by_name_by_namespace_or_all(served, cronhpa, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    served.hold(live("prod"), live("prod", "api"), live("dev"))

    assert ["prod/shop"] == shown_names(cronhpa("preview", "shop", "-o", "json"))
    assert ["prod/shop", "prod/api"] == shown_names(cronhpa("preview", "shop", "api", "-o", "json"))
    assert ["prod/api", "prod/shop"] == shown_names(cronhpa("preview", "-o", "json"))
    assert ["dev/shop"] == shown_names(cronhpa("preview", "-n", "dev", "-o", "json"))
    assert ["dev/shop", "prod/api", "prod/shop"] == shown_names(cronhpa("preview", "-A", "-o", "json"))


def test_an_object_of_the_cluster_has_the_measured_start_up_of_its_pods(served, cronhpa):
    memory = {"version": 1, "recommendations": [], "scaleUpEvents": [], "scaleDownEvents": [], "startUpSeconds": 75}
    served.hold(live("prod", memory=memory))

    (document,) = json.loads(cronhpa("preview", "shop", "-o", "json").stdout)

    assert 75 == document["podStartupSeconds"]


def test_a_word_with_a_cluster_beside_it_is_a_name_also_where_a_folder_is_called_so(
    served, cronhpa, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    served.hold(live("dev"))

    assert ["dev/shop"] == shown_names(cronhpa("preview", "shop", "-n", "dev", "-o", "json"))
    assert "shop: it has no file" in CliRunner().invoke(app, ["preview", "shop"]).stderr


def test_a_namespace_without_objects_says_so(served, cronhpa):
    served.hold()
    served.answers["/apis/cronhpa.io/v1alpha1/namespaces/prod/cronhpas"] = served.answers[EVERYWHERE]

    ended = cronhpa("preview")

    assert (1, "") == (ended.exit_code, ended.stdout)
    assert ended.stderr.startswith("cronhpa preview: there is no CronHPA in namespace prod: name a file")


def test_a_name_that_is_neither_a_file_nor_an_object_is_told_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))

    ended = CliRunner().invoke(app, ["preview", "shop"])

    assert 1 == ended.exit_code
    assert ended.stderr.startswith("cronhpa preview: there is no file shop, and from the cluster: no way to ")
