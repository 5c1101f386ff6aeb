"""cronhpa.cli.past_source: how the operator is reached, and to whom a token is shown."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from past_life import FIRST, NOW, body, kept, life, write_life

from cronhpa.cli.past_source import (
    COPYING,
    OPERATOR,
    PORT,
    PastSourceError,
    PastWhere,
    Replicas,
    opened,
    whole_timeline,
)
from cronhpa.core.instant import HOUR
from cronhpa.core.record import encode
from cronhpa.history.past_answers import DecisionChange, TimelineAnswer
from cronhpa.history.store import Store


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "history.db"
    write_life(path)
    return path


class Parts:
    """A source that answers three changes at a time."""

    def __init__(self):
        self.asked = []

    async def timeline(self, _namespace, _name, since, until):
        self.asked.append(since)
        changes = [
            DecisionChange(number, 4, number, "Spec", "", "", 0) for number in range(since, min(since + 3, until))
        ]
        going = since + 3 if since + 3 < until else None
        return TimelineAnswer(None, changes, [], 0, going)


def test_a_long_timeline_is_asked_for_part_by_part():
    source = Parts()

    found = asyncio.run(whole_timeline(source, "prod", "shop", 0, 10))

    assert list(range(10)) == [change.at for change in found.changes]
    assert [0, 3, 6, 9] == source.asked


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:1"}}}}]
users: [{{name: u, user: {user}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


@pytest.fixture
def kubeconfig(tmp_path):
    def make(user):
        path = tmp_path / "kubeconfig"
        path.write_text(KUBECONFIG.format(user=json.dumps(user)))
        return str(path)

    return make


def ask(where):
    async def scenario():
        async with opened(where) as source:
            return await source.decision("prod", "shop", NOW)

    return asyncio.run(scenario())


def test_a_certificate_is_shown_to_nobody_and_the_way_around_is_named(kubeconfig):
    with pytest.raises(PastSourceError, match="--service-account NAMESPACE/NAME"):
        ask(PastWhere(kubeconfig=kubeconfig({}), operator="http://127.0.0.1:1"))


@pytest.mark.parametrize(
    "url", ["http://cronhpa.cronhpa-system:8082", "http://127.0.0.1.evil.com", "http://10.0.0.1:8082"]
)
def test_a_token_is_sent_in_clear_text_to_this_machine_alone(kubeconfig, url):
    with pytest.raises(PastSourceError, match="a token is sent to this machine alone, or by https"):
        ask(PastWhere(kubeconfig=kubeconfig({"token": "t-anna"}), operator=url))


@pytest.mark.parametrize("operator", ["cronhpa-0", "/cronhpa-0", "cronhpa-system/", "cronhpa-system/a,,b", ""])
def test_an_operator_is_a_namespace_and_a_pod_or_a_url(kubeconfig, operator):
    with pytest.raises(PastSourceError, match="neither NAMESPACE/POD nor a URL"):
        ask(PastWhere(kubeconfig=kubeconfig({"token": "t-anna"}), operator=operator))


# Forwards as kubectl does: says where, then carries bytes to what CRONHPA_TEST_TARGET names.
FORWARDER = """#!{python}
import os, socket, sys, threading
open(os.environ["CRONHPA_TEST_SEEN"], "a").write(" ".join(sys.argv[1:]) + "\\n")
if os.environ["CRONHPA_TEST_TARGET"] == "none":
    sys.exit("error: pods is forbidden")
server = socket.create_server(("127.0.0.1", 0))
print(f"Forwarding from 127.0.0.1:{{server.getsockname()[1]}} -> {port}", flush=True)
while True:
    one, _ = server.accept()
    other = socket.create_connection(("127.0.0.1", int(os.environ["CRONHPA_TEST_TARGET"])))
    def carry(source, sink):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    for pair in ((one, other), (other, one)):
        threading.Thread(target=carry, args=pair, daemon=True).start()
"""


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A kubectl that forwards to a port of this machine; returns what it was called with."""

    def make(target):
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "kubectl"
        program.write_text(FORWARDER.format(python=sys.executable, port=PORT))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        seen = tmp_path / "seen"
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("CRONHPA_TEST_SEEN", str(seen))
        monkeypatch.setenv("CRONHPA_TEST_TARGET", str(target))
        return seen.read_text

    return make


def test_the_operator_is_reached_by_kubectl_with_the_same_kubeconfig_and_shown_its_token(path, kubeconfig, kubectl):
    from cronhpa.operator.access import Verdict
    from cronhpa.operator.listener import Listener
    from cronhpa.operator.past_endpoint import BELOW, PastEndpoint

    class Anna:
        async def may_get(self, token, namespace, name):
            return Verdict.ALLOWED if (token, namespace, name) == ("t-anna", "prod", "shop") else Verdict.REFUSED

    async def scenario():
        listener = Listener("127.0.0.1", 0, {}, None, {BELOW: PastEndpoint(path, Anna()).answer})
        serving = asyncio.create_task(listener.run())
        seen = kubectl(listener.address[1])
        async with opened(PastWhere(kubeconfig=config, context="x")) as source:
            found = await source.decision("prod", "shop", NOW), await source.decision("prod", "cart", NOW)
            timeline = await source.timeline("prod", "shop", 0, NOW)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return found, timeline, seen()

    config = kubeconfig({"token": "t-anna"})
    (shop, cart), timeline, called = asyncio.run(scenario())

    namespace, pods = OPERATOR.split("/")
    assert [
        f"--kubeconfig={config} --context=x --namespace={namespace} port-forward pod/{pod} :{PORT}"
        for pod in pods.split(",")
    ] == called.splitlines()
    assert FIRST + 4 * HOUR == shop.decision.at
    assert cart is None
    # Both pods are the same store here: each change and each point is told by both.
    assert (10, 100) == (len(timeline.changes), len(timeline.points))


def test_what_kubectl_cannot_forward_is_told_in_its_own_words(kubeconfig, kubectl):
    kubectl("none")

    with pytest.raises(
        PastSourceError, match="cannot forward the port of cronhpa-system/cronhpa-0: error: pods is forbidden"
    ):
        ask(PastWhere(kubeconfig=kubeconfig({"token": "t-anna"})))


def test_who_reaches_no_pod_is_told_how_to_copy_its_store(kubeconfig, kubectl):
    kubectl("none")

    with pytest.raises(PastSourceError) as raised:
        ask(PastWhere(operator="ops/op-0,op-1", kubeconfig=kubeconfig({"token": "t-anna"})))

    assert [
        "Who may enter the pod reads a copy of its store with --store copy.db:",
        f"kubectl exec -n ops op-0 -- python3 -c '{COPYING}' > copy.db",
    ] == str(raised.value).splitlines()[-2:]


def test_the_line_that_copies_a_store_copies_it(path, tmp_path):
    """While it is open, as in the pod, onto standard output; the page on past decisions has the same line."""
    page = (Path(__file__).parents[2] / "docs" / "past-decisions.md").read_text("utf-8")
    here = COPYING.replace("/var/lib/cronhpa/history.db", str(path)).replace("/tmp/copy.db", str(tmp_path / "copy.db"))
    store = Store(path)

    for _ in range(2):
        told = subprocess.run([sys.executable, "-c", here], check=True, capture_output=True).stdout

    store.close()
    (tmp_path / "here.db").write_bytes(told)
    copied = Store.open_to_read(tmp_path / "here.db")
    assert body(copied.decisions.at("prod", "shop", NOW)) is not None
    copied.close()
    assert COPYING in page


def test_what_each_replica_kept_while_it_led_is_one_past(tmp_path, kubeconfig):
    """The first led for two decisions, the second from then on: of each instant the latest decision of both is told."""
    from cronhpa.operator.access import Verdict
    from cronhpa.operator.listener import Listener
    from cronhpa.operator.past_endpoint import BELOW, PastEndpoint

    class Anybody:
        async def may_get(self, *_):
            return Verdict.ALLOWED

    turns = list(life())
    paths = [tmp_path / "first.db", tmp_path / "second.db"]
    for path, led in zip(paths, (turns[:2], turns[2:]), strict=True):
        store = Store(path)
        store.decisions.record([kept(record.now, body(status), encode(record).encode()) for record, status in led])
        store.close()

    async def scenario():
        listeners = [
            Listener("127.0.0.1", 0, {}, None, {BELOW: PastEndpoint(path, Anybody()).answer}) for path in paths
        ]
        serving = [asyncio.create_task(listener.run()) for listener in listeners]
        async with AsyncExitStack() as held:
            urls = [f"http://127.0.0.1:{listener.address[1]}" for listener in listeners]
            config = kubeconfig({"token": "t"})
            sources = [
                await held.enter_async_context(opened(PastWhere(kubeconfig=config, operator=url))) for url in urls
            ]
            both = Replicas(sources)
            decisions = [await both.decision("prod", "shop", FIRST + hour * HOUR) for hour in range(5)]
            found = decisions, await both.timeline("prod", "shop", FIRST + 1, NOW)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        return found

    decisions, timeline = asyncio.run(scenario())

    assert [FIRST + hour * HOUR for hour in range(5)] == [each.decision.at for each in decisions]
    assert [FIRST + hour * HOUR for hour in range(1, 5)] == [each.until for each in decisions[:4]]
    assert {FIRST} == {each.first for each in decisions}
    assert FIRST == timeline.before.at
    assert [FIRST + hour * HOUR for hour in range(1, 5)] == [change.at for change in timeline.changes]


def test_without_kubectl_the_store_is_named(kubeconfig, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(PastSourceError, match="kubectl is not installed"):
        ask(PastWhere(kubeconfig=kubeconfig({"token": "t-anna"})))
