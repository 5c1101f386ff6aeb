"""`-n`, `--context`, `--kubeconfig`, and the messages for unexpected answers of the cluster."""

from __future__ import annotations

import pytest

from cli.served import COLLECTION, write_kubeconfig
from cronhpa.cli.objects.cluster import connected, read_all

SHOP = f"{COLLECTION.format('prod')}/shop"


def shop(namespace="prod", name="shop"):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    spec = {"scaleTargetRef": target, "maxReplicas": 9, "schedules": []}
    return {"kind": "CronHPA", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def test_the_namespace_is_that_of_the_context_unless_one_is_named(served, cronhpa):
    served.hold(shop(), shop("default"), shop("other"))

    for options, namespace in (
        ((), "prod"),
        (("--context", "dev"), "default"),
        (("-n", "other"), "other"),
        (("--context", "dev", "--namespace", "other"), "other"),
    ):
        assert f"{namespace}/shop " in cronhpa("explain", "shop", *options).stdout


@pytest.mark.parametrize("command", [("explain", "shop"), ("override", "shop"), ("adopt", "shop", "--dry-run")])
def test_a_context_that_does_not_exist_is_told(cronhpa, command):
    ended = cronhpa(*command, "--context", "prd")

    assert 1 == ended.exit_code
    assert ended.stderr.startswith(f'cronhpa {command[0]}: context "prd" does not exist in ')
    assert ended.stderr.endswith(": it has prod, dev\n")


def test_a_server_that_does_not_listen_is_told_with_its_address_and_context(cronhpa, tmp_path):
    gone = write_kubeconfig(tmp_path / "gone", "http://127.0.0.1:9", {"prod": None})

    ended = cronhpa("explain", "shop", "--kubeconfig", gone)

    assert 1 == ended.exit_code
    assert ended.stderr.startswith(
        "cronhpa explain: the API server http://127.0.0.1:9 of context prod cannot be reached: "
    )


def test_a_missing_crd_is_told_from_a_missing_object(served, cronhpa):
    """An API server answers a group that it does not know with a page, and a resource that it does not know so."""
    crd_is_missing = (
        "cronhpa explain: the cluster of context prod has no CustomResourceDefinition "
        "cronhpas.cronhpa.io/v1alpha1: install the operator: https://cronhpa.github.io/cronhpa/how-to/install/\n"
    )
    served.answers[SHOP] = page_not_found
    assert crd_is_missing == cronhpa("explain", "shop").stderr
    served.refuse(SHOP, 404, "NotFound", "the server could not find the requested resource")
    assert crd_is_missing == cronhpa("explain", "shop").stderr

    served.refuse(SHOP, 404, "NotFound", 'cronhpas.cronhpa.io "shop" not found')
    told = cronhpa("explain", "shop").stderr
    assert told.startswith("cronhpa explain: there is no CronHPA shop in namespace prod: ")
    assert told.endswith(": kubectl get chpa -A shows what there is (context prod)\n")


async def page_not_found(_):
    from aiohttp import web

    return web.Response(text="404 page not found\n", status=404)


def test_a_refused_user_reads_the_servers_words(served, cronhpa):
    said = 'cronhpas.cronhpa.io "shop" is forbidden: User "jane" cannot get resource "cronhpas" in the namespace "prod"'
    served.refuse(SHOP, 403, "Forbidden", said)

    ended = cronhpa("explain", "shop")

    assert f"cronhpa explain: {said}: ask for that right in the cluster of context prod\n" == ended.stderr


def test_credentials_that_ran_out_are_told(served, cronhpa):
    served.refuse(SHOP, 401, "Unauthorized", "Unauthorized")

    assert "does not accept the credentials of context prod: log in anew: Unauthorized" in (
        cronhpa("explain", "shop").stderr
    )


def test_a_client_certificate_that_is_not_there_is_told(served, cronhpa, tmp_path):
    entry = {"client-certificate": "/nonexistent/crt", "client-key": "/nonexistent/key"}
    file = write_kubeconfig(tmp_path / "cert", "https://127.0.0.1:9", {"prod": None}, **entry)

    ended = cronhpa("explain", "shop", "--kubeconfig", file)

    assert (1, 1) == (ended.exit_code, ended.stderr.count("\n"))
    assert "/nonexistent/crt" in ended.stderr


async def test_all_objects_come_in_order_and_as_if_each_had_been_asked_for(served, tmp_path):
    served.hold(shop("prod", "b"), shop("prod", "a"), shop("dev", "c"))
    file = write_kubeconfig(tmp_path / "config", served.server, {"prod": "prod"})

    async with connected(str(file), None, None) as cluster:
        everywhere = await read_all(cluster.client, None)
        within = await read_all(cluster.client, cluster.namespace)

    assert [("dev", "c"), ("prod", "a"), ("prod", "b")] == [
        (body["metadata"]["namespace"], body["metadata"]["name"]) for body in everywhere
    ]
    assert ["a", "b"] == [body["metadata"]["name"] for body in within]
    assert {"cronhpa.io/v1alpha1 CronHPA"} == {f"{body['apiVersion']} {body['kind']}" for body in everywhere}
