"""cronhpa.cli.objects.object_names: names for shell completion, and the error of a command of one object for -A."""

import json

import pytest

from cli.served import write_kubeconfig
from cronhpa.cli.commands.completion import completions
from kube.fake_api import answering

HPAS = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"


def named(namespace, name):
    return {"metadata": {"namespace": namespace, "name": name}, "spec": {}}


@pytest.fixture
def typed(served, tmp_path):
    """What completes the last of some words: prod/shop, prod/search and dev/cart are there, and the HPA prod/old."""
    served.hold(named("prod", "shop"), named("prod", "search"), named("dev", "cart"))
    items = [{"metadata": {"name": "old"}}]
    served.answers[HPAS.format("prod")] = answering({"metadata": {"resourceVersion": "7"}, "items": items})
    file = write_kubeconfig(tmp_path / "kubeconfig", served.server, {"prod": "prod", "dev": "dev"})
    return lambda *words: completions([*words[:-1], "--kubeconfig", str(file), words[-1]])


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("explain", ""), ["search", "shop"]),
        (("explain", "sh"), ["shop"]),
        (("explain", "-n", "dev", ""), ["cart"]),
        (("override", "--namespace=dev", "c"), ["cart"]),
        (("explain", "--context", "dev", ""), ["cart"]),
        (("replay", "se"), ["search"]),
        (("backtest", "s"), ["search", "shop"]),
        (("preview", "shop", "se"), ["search"]),
        (("history", "import", "sh"), ["shop"]),
        (("history", "import", "dev/"), ["dev/cart"]),
        (("adopt", ""), ["old"]),
        (("adopt", "--back", ""), ["search", "shop"]),
    ],
)
def test_the_objects_of_the_namespace_complete_a_name(typed, words, names):
    assert names == typed(*words)


@pytest.mark.parametrize("words", [("preview", "crds/"), ("explain", "nothing"), ("explain", "-n", "empty", "")])
def test_where_no_object_is_meant_or_there_the_shell_completes_files(typed, words):
    assert [] == typed(*words)


@pytest.mark.parametrize("content", ["", "[", json.dumps({"current-context": "gone"})])
def test_without_a_cluster_nothing_is_said_while_somebody_types(tmp_path, capfd, content):
    file = tmp_path / "kubeconfig"
    file.write_text(content)

    assert [] == completions(["explain", "--kubeconfig", str(file), ""])
    assert ("", "") == capfd.readouterr()


@pytest.mark.parametrize("option", ["-A", "--all-namespaces"])
@pytest.mark.parametrize("command", ["explain", "override", "backtest", "replay"])
def test_a_command_about_one_object_says_why_it_takes_no_all_namespaces(cronhpa, command, option):
    ended = cronhpa(command, option, "shop")

    assert 2 == ended.exit_code
    assert f"{command} is about one object" in " ".join(ended.output.split())
