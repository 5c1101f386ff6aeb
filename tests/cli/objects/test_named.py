"""cronhpa.cli.objects.named: the names of objects as people type them, and what an error says about one."""

import pytest
import typer

from cli.objects.test_cluster_words import shop
from cli.served import COLLECTION, EVERYWHERE
from cronhpa.cli.objects.named import ObjectName, parse_name, split_name


def scaling(target, namespace="prod", name="shop", api_version="apps/v1"):
    """An object whose target is KIND/NAME."""
    body = shop(namespace, name)
    kind, _, of = target.partition("/")
    body["spec"]["scaleTargetRef"] = {"apiVersion": api_version, "kind": kind, "name": of}
    return body


@pytest.mark.parametrize(
    ("text", "namespace", "means"),
    [
        ("shop", None, ObjectName("shop")),
        ("shop", "prod", ObjectName("shop", "prod")),
        ("prod/shop", None, ObjectName("shop", "prod")),
        ("prod/shop", "prod", ObjectName("shop", "prod")),
        ("chpa/shop", "prod", ObjectName("shop", "prod")),
        ("cronhpas.cronhpa.io/shop", None, ObjectName("shop")),
        ("deploy/shop", "prod", ObjectName("shop", "prod", "deploy")),
        ("Deployment/shop", None, ObjectName("shop", None, "deployment", "Deployment")),
        # As kubectl prints it, without a group. Found: it was taken for a namespace.
        (
            "replicationcontroller/shop",
            None,
            ObjectName("shop", None, "replicationcontroller", "replicationcontroller"),
        ),
        ("rollouts.argoproj.io/shop", None, ObjectName("shop", None, "rollouts.argoproj.io")),
    ],
)
def test_a_name_is_plain_or_has_a_namespace_or_a_kind(text, namespace, means):
    assert means == parse_name(text, namespace)


@pytest.mark.parametrize("text", ["", "/", "prod/", "/shop", "a/b/c"])
def test_anything_else_is_refused_with_the_forms(text):
    with pytest.raises(typer.BadParameter, match="NAME, NAMESPACE/NAME, chpa/NAME or deploy/NAME is accepted"):
        parse_name(text, None)


def test_two_namespaces_contradict():
    with pytest.raises(typer.BadParameter, match="'prod/shop' is not in namespace dev"):
        parse_name("prod/shop", "dev")


def test_without_a_cluster_nobody_knows_what_scales_a_deployment():
    assert ("prod", "shop") == split_name("prod/shop", None)
    with pytest.raises(typer.BadParameter, match="name the CronHPA"):
        split_name("deploy/shop", "prod")


@pytest.mark.parametrize("name", ["dev/web", "chpa/web", "cronhpa/web", "deploy/site", "deployments.apps/site"])
@pytest.mark.parametrize("command", ["explain", "override", "preview"])
def test_every_command_takes_every_form(served, cronhpa, command, name):
    served.hold(scaling("Deployment/site", "dev", "web"), scaling("StatefulSet/site", "dev", "other"))

    ended = cronhpa(command, name, *([] if name == "dev/web" else ["-n", "dev"]))

    assert "dev/web" in ended.output, ended.output


def test_a_namespace_that_is_called_like_a_kind_is_found_too(served, cronhpa):
    served.hold(shop("deploy"), shop("prod", "other"))

    assert "deploy/shop " in cronhpa("explain", "deploy/shop").stdout


def test_an_object_of_another_namespace_is_said_to_be_there(served, cronhpa):
    served.hold(shop("default"), shop("prod", "cart"))
    served.refuse(f"{COLLECTION.format('prod')}/shop", 404, "NotFound", 'cronhpas.cronhpa.io "shop" not found')

    told = cronhpa("override", "shop", "-n", "prod").stderr

    assert told.startswith("cronhpa override: there is no CronHPA shop in namespace prod; there is one in default")


def test_a_misspelt_name_is_corrected(served, cronhpa):
    served.hold(shop("prod", "checkout"))
    served.refuse(f"{COLLECTION.format('prod')}/chekout", 404, "NotFound", 'cronhpas.cronhpa.io "chekout" not found')

    assert (
        "there is no CronHPA chekout in namespace prod; did you mean checkout?" in cronhpa("explain", "chekout").stderr
    )


def test_who_may_not_list_all_namespaces_reads_about_his_own(served, cronhpa):
    served.hold(shop("prod", "checkout"))
    served.refuse(EVERYWHERE, 403, "Forbidden", "cronhpas.cronhpa.io is forbidden")
    served.refuse(f"{COLLECTION.format('prod')}/shop", 404, "NotFound", 'cronhpas.cronhpa.io "shop" not found')

    assert "there is no CronHPA shop in namespace prod: kubectl get" in cronhpa("explain", "shop").stderr


def test_a_target_that_nothing_scales_here_is_named_with_who_scales_one_of_its_name(served, cronhpa):
    served.hold(scaling("Deployment/site", "dev", "web"), shop("prod", "cart"))
    served.refuse(f"{COLLECTION.format('deploy')}/site", 404, "NotFound", 'cronhpas.cronhpa.io "site" not found')

    told = cronhpa("explain", "deploy/site").stderr

    assert "no CronHPA in namespace prod scales deploy/site; dev/web scales one of that name" in told


def test_a_target_with_two_objects_names_both(served, cronhpa):
    served.hold(scaling("Deployment/site", "dev", "a"), scaling("Deployment/site", "dev", "b"))

    assert "deploy/site in namespace dev is scaled by a, b" in cronhpa("explain", "deploy/site", "-n", "dev").stderr
