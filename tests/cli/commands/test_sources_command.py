"""cronhpa.cli.commands.sources: a file of sources, checked as the operator would."""

import pytest
from typer.testing import CliRunner

from cronhpa.cli import app

GOOD = """sources:
  requests:
    prometheus:
      url: http://prometheus:9090
      query: sum by (namespace, deployment) (rate(http_requests_total[1m]))
      join: {namespace: namespace, target: deployment}
  inflight:
    pods: {port: metrics, metric: http_requests_in_flight}
  queue:
    url: {url: "http://queues/$namespace/$target", value: length}
  own:
    prometheus: {url: "http://prometheus:9090", query: 'sum(requests{namespace="$namespace", app="$target"})'}
  named:
    url: {url: "http://queues/$metric/$target", format: text}
  total:
    url: {url: "http://queues/total/$metric", format: text}
"""


def check(*arguments, **given):
    return CliRunner().invoke(app, ["sources", "check", *arguments], **given)


def test_each_source_is_told_with_the_type_by_which_an_object_asks_for_it():
    done = check("-", input=GOOD)

    joined = "namespace is the namespace, deployment is the target"
    assert 0 == done.exit_code
    assert [
        "inflight: type: Pods, http_requests_in_flight at port metrics/metrics of each pod",
        "named: type: External, text from http://queues/$metric/$target, a request for each namespace, target",
        "own: type: External, from http://prometheus:9090, a request for each namespace, target",
        "queue: type: External, json from http://queues/$namespace/$target, a request for each namespace, target",
        f"requests: type: External, from http://prometheus:9090, one request for all objects: {joined}",
        "total: type: External, text from http://queues/total/$metric, one request for all objects",
    ] == done.stdout.splitlines()


def test_problems_are_told_with_their_lines(tmp_path):
    path = tmp_path / "sources.yaml"
    path.write_text(GOOD.replace("port: metrics", 'port: "\\e[2J"'))
    done = check(str(path))

    assert 1 == done.exit_code
    assert "" == done.stdout
    assert f"{path}:8: sources.inflight.pods.port: " in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("content", [None, b"\xff"], ids=["gone", "no text"])
def test_a_file_that_cannot_be_read_is_code_2(tmp_path, content):
    path = tmp_path / "sources.yaml"
    if content is not None:
        path.write_bytes(content)

    assert 2 == check(str(path)).exit_code


def test_a_source_without_a_url_takes_that_of_the_operator():
    text = "sources: {requests: {prometheus: {query: up}}}"

    assert 1 == check("-", input=text).exit_code
    assert 0 == check("-", "--prometheus-url", "http://p:9090", input=text).exit_code
