"""cronhpa.cli: a wrong argument, or an error of the machine, ends a command with one line that describes it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def cronhpa(forked):
    """The completed command, with its stderr as text; it reaches no cluster."""

    def run(*arguments):
        ended = forked.run(*arguments, environment={"KUBECONFIG": "/nonexistent", "COLUMNS": "200"})
        ended.stderr = ended.stderr.decode()
        return ended

    return run


@pytest.mark.parametrize(
    "content",
    [b"\x00\xa4\xff", b"", b"[]", b"some text", b"a: [", b"current-context: 7\ncontexts: 7\n"],
    ids=["binary", "empty", "a list", "a text", "no YAML", "numbers"],
)
def test_a_file_that_is_no_kubeconfig_is_named(cronhpa, tmp_path, content):
    file = tmp_path / "config"
    file.write_bytes(content)

    ended = cronhpa("explain", "shop", "--kubeconfig", file)

    assert 1 == ended.returncode
    assert ended.stderr.startswith(f"cronhpa explain: no way to the Kubernetes API: {file}:")
    assert 1 == ended.stderr.count("\n")


@pytest.mark.parametrize(
    "content",
    ["a: !!int x", "a: !!bool x", "a: !!timestamp x", "a: " + "9" * 5000, "a: &a [*a]"],
    ids=["no integer", "no boolean", "no time", "5000 digits", "in itself"],
)
def test_a_file_with_values_that_yaml_cannot_make_is_named(cronhpa, tmp_path, content):
    file = tmp_path / "object.yaml"
    file.write_text(content, "utf-8")

    ended = cronhpa("preview", file)

    assert (1, 1) == (ended.returncode, ended.stderr.count("\n"))
    assert ended.stderr.startswith(f"cronhpa preview: {file}:")


def test_a_server_that_is_no_address_is_told(cronhpa, tmp_path):
    entry = {"name": "it", "cluster": {"server": "http://[::1"}, "context": {"cluster": "it", "user": "it"}, "user": {}}
    file = tmp_path / "config"
    file.write_text(
        json.dumps({"current-context": "it", "clusters": [entry], "contexts": [entry], "users": [entry]}), "utf-8"
    )

    ended = cronhpa("explain", "shop", "--kubeconfig", file)

    assert (1, 1) == (ended.returncode, ended.stderr.count("\n"))
    assert ended.stderr.startswith(f"cronhpa explain: no way to the Kubernetes API: {file}: Invalid IPv6 URL")


def test_a_record_that_is_no_text_fails_alone(cronhpa, tmp_path):
    file = tmp_path / "records"
    file.write_bytes(b"\xff\xfe\x00\n{}\n")

    ended = cronhpa("replay", file)

    assert 1 == ended.returncode
    assert [f"{file}:1", f"{file}:2"] == [line[: len(str(file)) + 2] for line in ended.stderr.splitlines()]


def test_a_full_disk_behind_the_output_is_told():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "cronhpa.cli", "crd"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False)

    assert (1, "cronhpa: [Errno 28] No space left on device\n") == (ended.returncode, ended.stderr)


def test_a_folder_that_is_not_there_is_told(cronhpa, tmp_path):
    ended = cronhpa("crd", "-o", tmp_path / "not" / "there.yaml")

    assert 1 == ended.returncode
    assert ended.stderr.startswith("cronhpa: [Errno 2] No such file or directory")


def test_an_empty_file_converts_to_a_remark(cronhpa, tmp_path):
    file = tmp_path / "empty.yaml"
    file.touch()

    ended = cronhpa("convert", file)

    assert (1, True) == (ended.returncode, ended.stderr.startswith("cronhpa convert: there is no document"))


def test_no_manifest_is_written_outside_the_folder_asked_for(cronhpa, tmp_path):
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}, "maxReplicas": 3}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "../evil"},
        "spec": spec,
    }
    file = tmp_path / "hpa.json"
    file.write_text(json.dumps(hpa), "utf-8")

    ended = cronhpa("convert", file, "-o", tmp_path / "out")

    assert 2 == ended.returncode
    assert "'../evil' is no name of a Kubernetes object" in ended.stderr
    assert not (tmp_path / "evil.yaml").exists()
