"""cronhpa.cli.commands.page: which account, which pod, and what is said where there is none."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from urllib.request import Request, urlopen

import pytest

from cli.past.test_past_source import FORWARDER
from cli.served import ServedApi, serving, write_kubeconfig
from cronhpa.cli.commands.page import PORT
from cronhpa.page.authentication import Authentication
from cronhpa.page.objects import Leader
from kube.fake_api import answering
from page.made_fleet import MadeObjects, fleet_of
from page.served_page import served
from page.test_rights import Told

TOKENS = "/api/v1/namespaces/{}/serviceaccounts/{}/token"
ISSUED = answering({"kind": "TokenRequest", "status": {"token": "t-anna"}}, 201)
FORBIDDEN = answering({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}, 403)


class Page:
    """A page that knows t-anna, an API server, and a kubectl that forwards to the page."""

    def __init__(self, folder, api, target):
        self.api, self.folder = api, folder
        programs = folder / "bin"
        programs.mkdir()
        kubectl = programs / "kubectl"
        kubectl.write_text(FORWARDER.format(python=sys.executable, port=PORT))
        kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)
        self.seen = folder / "seen"
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "CRONHPA_TEST_SEEN": str(self.seen),
            "CRONHPA_TEST_TARGET": str(target),
        }

    def begun(self, *arguments, **user):
        kubeconfig = write_kubeconfig(self.folder / "config", self.api.server, {"it": None}, **user)
        command = [sys.executable, "-m", "cronhpa.cli", "page", "--no-browser", "--kubeconfig", str(kubeconfig)]
        return subprocess.Popen(
            [*command, *arguments], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def refused(self, *arguments, **user):
        """What is said, on one line, by a command that ends with 1."""
        process = self.begun(*arguments, **user)
        _, said = process.communicate(timeout=120)
        assert 1 == process.returncode, said
        return " ".join(said.split())


@pytest.fixture
def page(tmp_path):
    api = ServedApi()
    made = MadeObjects(fleet_of(4), Leader(leads=True, holder="cronhpa-0"))
    with serving(api), served(made, rights=Told(("", "")), authentication=Authentication()) as url:
        yield Page(tmp_path, api, url.rpartition(":")[2])


def ask(url, *, token=None, body=None):
    headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data=data, headers=headers), timeout=120) as answer:
        return json.load(answer)


def test_it_prints_an_address_that_signs_in_as_the_charts_account_and_ends_by_ctrl_c(page):
    page.api.answers[TOKENS.format("cronhpa-system", "cronhpa-page")] = ISSUED
    process = page.begun()
    printed = [process.stdout.readline() for _ in range(4)]
    found = re.search(r"(http://127\.0\.0\.1:\d+/)#sign-in=([\w-]+)", "".join(printed))
    assert found, printed
    session = ask(f"{found[1]}sign-in", body={"code": found[2]})["token"]
    told = ask(f"{found[1]}api/session", token=session)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)

    assert "anna" == told["user"]
    assert "the page of cronhpa-system/cronhpa-0, as anna" in printed[0]
    assert (0, "") == (process.returncode, said)
    assert f"port-forward pod/cronhpa-0 :{PORT}" in page.seen.read_text()
    assert "t-anna" not in "".join(printed)


def test_another_account_is_named_by_its_namespace(page):
    page.api.answers[TOKENS.format("team-a", "viewer")] = ISSUED
    process = page.begun("--service-account", "team-a/viewer")
    first = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)

    assert "as anna" in first
    assert 0 == process.returncode


def test_whoever_may_create_no_token_of_the_chart_is_shown_what_they_may_get_themselves(page):
    page.api.answers[TOKENS.format("cronhpa-system", "cronhpa-page")] = FORBIDDEN
    process = page.begun(token="t-anna")
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)

    assert "as anna" in first


def test_without_a_token_and_an_account_both_ways_are_named(page):
    said = page.refused()

    assert "there is no ServiceAccount cronhpa-page in namespace cronhpa-system" in said
    assert "--service-account NAMESPACE/NAME" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "expected"),
    [(None, "there is no ServiceAccount viewer in namespace team-a"), (FORBIDDEN, "you may not create a token of")],
)
def test_an_account_that_was_named_is_never_replaced_by_another(page, answer, expected):
    page.api.answers.update({} if answer is None else {TOKENS.format("team-a", "viewer"): answer})

    assert expected in page.refused("--service-account", "team-a/viewer", token="t-anna")


def test_a_pod_that_cannot_be_reached_is_named(page):
    page.environment["CRONHPA_TEST_TARGET"] = "none"

    assert "kubectl cannot forward the port of cronhpa-system/cronhpa-0: error: pods is forbidden" in page.refused(
        token="t-anna"
    )


def test_a_port_that_is_taken_is_named_though_another_pod_answers_too(page):
    page.api.answers[TOKENS.format("cronhpa-system", "cronhpa-page")] = ISSUED

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = page.refused("--port", str(port))

    assert f"--port {port}: " in said
    assert "Traceback" not in said


def test_a_pod_without_a_page_is_named_with_the_value_to_set(page):
    page.environment["CRONHPA_TEST_TARGET"] = "9"

    assert "serves no page on port 8083: is page.enabled true in the chart's values?" in page.refused(token="t-anna")


def test_a_token_that_nobody_knows_is_refused_at_once(page):
    assert "the API server does not know the token" in page.refused(token="t-berta")


def test_a_connection_that_ends_by_itself_ends_the_command(page):
    process = page.begun(token="t-anna")
    process.stdout.readline()
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    _, said = process.communicate(timeout=120)

    assert 1 == process.returncode
    assert "the connection to cronhpa-system/cronhpa-0 has ended" in said
