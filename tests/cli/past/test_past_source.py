"""cronhpa.cli.past.past_source: how the operator is reached, and to whom a token is shown."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import kubernetes
import pytest
from kubernetes.config import kube_config

from cli.past_life import FIRST, NOW, body, write_life
from cronhpa.cli.objects.operator_port import forwarded
from cronhpa.cli.past.past_of_replicas import PastSourceError
from cronhpa.cli.past.past_source import COPYING, OPERATOR, PORT, PastLocation, opened
from cronhpa.core.model.instant import HOUR
from cronhpa.history.database.series import Series
from cronhpa.history.store import Store


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "history.db"
    write_life(path)
    return path


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
        ask(PastLocation(kubeconfig=kubeconfig({}), operator="http://127.0.0.1:1"))


@pytest.mark.parametrize(
    "url", ["http://cronhpa.cronhpa-system:8082", "http://127.0.0.1.evil.com", "http://10.0.0.1:8082"]
)
def test_a_token_is_sent_in_clear_text_to_this_machine_alone(kubeconfig, url):
    with pytest.raises(PastSourceError, match="a token is sent to this machine alone, or by https"):
        ask(PastLocation(kubeconfig=kubeconfig({"token": "t-anna"}), operator=url))


def test_in_a_pod_the_kubeconfig_is_asked_before_the_pods_account(kubeconfig, monkeypatch):
    """As kubectl does, which forwards the port: the token of one cluster was sent to the operator of another."""
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", kubeconfig({}))
    pod = {"authorization": "Bearer t-pod"}
    monkeypatch.setattr(kubernetes.config, "load_incluster_config", lambda given: setattr(given, "api_key", pod))

    with pytest.raises(PastSourceError, match="--service-account NAMESPACE/NAME"):
        ask(PastLocation(operator="http://127.0.0.1:1"))


@pytest.mark.parametrize("operator", ["cronhpa-0", "/cronhpa-0", "cronhpa-system/", "cronhpa-system/a,,b", ""])
def test_an_operator_is_a_namespace_and_a_pod_or_a_url(kubeconfig, operator):
    with pytest.raises(PastSourceError, match="neither NAMESPACE/POD nor a URL"):
        ask(PastLocation(kubeconfig=kubeconfig({"token": "t-anna"}), operator=operator))


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


# Prints a line for each connection, as kubectl does, more than the pipes and their readers hold.
TALKATIVE = """#!{python}
import sys, time
print("Forwarding from 127.0.0.1:1 -> 1", flush=True)
for pipe in (sys.stdout, sys.stderr):
    for _ in range(40_000):
        print("Handling connection for 8083", file=pipe)
    pipe.flush()
open({done!r}, "w").close()
time.sleep(60)
"""


def test_a_kubectl_that_prints_much_goes_on_forwarding(tmp_path, monkeypatch):
    """After some thousand connections, as of a page that is open for days, it stood still."""
    done, program = tmp_path / "done", tmp_path / "kubectl"
    program.write_text(TALKATIVE.format(python=sys.executable, done=str(done)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    async def scenario():
        async with forwarded("cronhpa-system/cronhpa-0", PORT, kubeconfig=None, context=None, otherwise=""):
            deadline = asyncio.get_running_loop().time() + 60
            while not done.exists() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - a process
                await asyncio.sleep(0.05)
        return done.exists()

    assert asyncio.run(scenario())


def test_the_operator_is_reached_by_kubectl_with_the_same_kubeconfig_and_shown_its_token(path, kubeconfig, kubectl):
    from cronhpa.operator.monitoring.listener import Listener
    from cronhpa.operator.readers.access import Verdict
    from cronhpa.operator.readers.past_endpoint import BELOW, PastEndpoint

    class Anna:
        async def may_get(self, token, namespace, name):
            return Verdict.ALLOWED if (token, namespace, name) == ("t-anna", "prod", "shop") else Verdict.REFUSED

    async def scenario():
        listener = Listener("127.0.0.1", 0, {}, None, {BELOW: PastEndpoint(path, Anna(), lambda: NOW).answer})
        serving = asyncio.create_task(listener.run())
        seen = kubectl(listener.address[1])
        async with opened(PastLocation(kubeconfig=config, context="x")) as source:
            decisions = await source.decision("prod", "shop", NOW), await source.decision("prod", "cart", NOW)
            timeline = await source.timeline("prod", "shop", 0, NOW)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return decisions, timeline, seen()

    config = kubeconfig({"token": "t-anna"})
    (shop, cart), timeline, called = asyncio.run(scenario())

    namespace, pods = OPERATOR.split("/")
    assert [
        f"--kubeconfig={config} --context=x --namespace={namespace} port-forward pod/{pod} :{PORT}"
        for pod in pods.split(",")
    ] == called.splitlines()
    assert FIRST + 4 * HOUR == shop.decision.at
    assert cart is None
    # Both pods serve the same store here, so each change and each point comes from both.
    assert (10, 100) == (len(timeline.changes), len(timeline.points))


@pytest.fixture
def read_load(kubeconfig, tmp_path):
    """The load that is read of an operator whose answer comes in parts, some milliseconds apart."""
    (tmp_path / "token").write_text("t-anna")

    async def scenario(parts):
        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {sum(map(len, parts))}\r\n\r\n".encode())
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.01)
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            where = PastLocation(operator=url, token_file=tmp_path / "token", kubeconfig=kubeconfig({}))
            async with opened(where) as source:
                return await source.load(Series("prod", "shop", "cpu"))

    return lambda parts: asyncio.run(scenario(parts))


def test_an_answer_that_comes_in_parts_is_read_to_its_end(read_load):
    """28 days of a load are a megabyte."""
    load = read_load([b'{"maxima":[[60,30,1.5]', b",[120,90,2.5]", b"]}"])

    assert [1.5, 2.5] == [maximum.value for maximum in load.maxima]


def test_an_answer_that_is_longer_than_any_is_not_read(read_load, monkeypatch):
    monkeypatch.setattr("cronhpa.cli.past.past_source._ANSWER_BYTES", 30)

    with pytest.raises(PastSourceError, match="the answer is longer than 30 bytes"):
        read_load([b'{"maxima":[[60,30,1.5]', b",[120,90,2.5]", b"]}"])


def test_a_failed_forward_is_told_in_kubectls_words(kubeconfig, kubectl, caplog):
    """And nothing else is: asyncio complained that the child was unknown."""
    kubectl("none")

    with pytest.raises(
        PastSourceError, match="cannot forward the port of cronhpa-system/cronhpa-0: error: pods is forbidden"
    ):
        ask(PastLocation(kubeconfig=kubeconfig({"token": "t-anna"})))

    assert [] == caplog.messages


def test_a_user_who_reaches_no_pod_is_told_how_to_copy_its_store(kubeconfig, kubectl):
    kubectl("none")

    with pytest.raises(PastSourceError) as raised:
        ask(PastLocation(operator="ops/op-0,op-1", kubeconfig=kubeconfig({"token": "t-anna"})))

    assert [
        "Who may enter the pod reads a copy of its store with --store copy.db:",
        f"kubectl exec -n ops op-0 -- {COPYING} > copy.db",
    ] == str(raised.value).splitlines()[-2:]


def test_the_line_that_copies_a_store_copies_it(path, tmp_path):
    """While it is open, as in the pod, onto standard output; the page on past decisions has the same line."""
    page = (Path(__file__).parents[3] / "docs" / "past-decisions.md").read_text("utf-8")
    chart = (Path(__file__).parents[3] / "deploy" / "chart" / "templates" / "statefulset.yaml").read_text("utf-8")
    program, *arguments = COPYING.replace("/var/lib/cronhpa/history.db", str(path)).split()
    store = Store(path)

    for _ in range(2):
        told = subprocess.run(
            [sys.executable, "-m", f"{program}.cli", *arguments], check=True, capture_output=True
        ).stdout

    store.close()
    (tmp_path / "here.db").write_bytes(told)
    copied = Store.open_to_read(tmp_path / "here.db")
    assert body(copied.decisions.at("prod", "shop", NOW)) is not None
    copied.close()
    assert COPYING in page
    assert COPYING.split()[3] in chart


def test_without_kubectl_the_store_is_named(kubeconfig, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(PastSourceError, match="kubectl is not installed"):
        ask(PastLocation(kubeconfig=kubeconfig({"token": "t-anna"})))
