"""
cronhpa.core.model.printable, cronhpa.operator.monitoring.log: secrets of the operator's own, looked for in all that it
writes.

Every backend answers with an error that repeats what it was sent, headers and all, as a proxy that is being debugged
does. Then the API server refuses everything for a while, and the log is at its most talkative.
"""

import json
import threading
import time
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from testbed.fault_proxy import FaultProxy, Trouble
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.twin import Scaled
from testbed.wait import wait_until

PASSWORD, TOKEN, URL, STORE = "canary-password", "canary-token", "canary-url", "canary-store"
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
JOBS = {
    "type": "External",
    "external": {"metric": {"name": "jobs"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}


class Server(ThreadingHTTPServer):
    def __init__(self, *of):
        super().__init__(*of)
        self.heard = []


class Repeating(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.heard.append(str(self.headers))
        body = json.dumps({"status": "error", "errorType": "bad_data", "error": f"{self.path} {self.headers}"}).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def backend():
    server = Server(("127.0.0.1", 0), Repeating)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def settings(backend, tmp_path):
    """Everything that a login can be stated in."""
    address = f"127.0.0.1:{backend.server_port}"
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "token").write_text(TOKEN)
    by_token = {"url": f"http://{address}", "query": "up", "tokenFile": str(tmp_path / "token")}
    by_password = {
        "url": f"http://{address}", "query": "up", "username": "me", "passwordFile": str(tmp_path / "password"),
    }  # fmt: skip
    sources = {"sources": {"queue": {"prometheus": by_token}, "jobs": {"prometheus": by_password}}}
    (tmp_path / "sources.yaml").write_text(yaml.safe_dump(sources))
    return {
        "sources": str(tmp_path / "sources.yaml"),
        "prometheus_url": f"http://me:{URL}@{address}",
        "store": f"postgresql://me:{STORE}@127.0.0.1:1/history",
        "log_level": "debug",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("no_operator")
def test_no_secret_of_the_operator_is_in_what_it_writes(control_plane, namespace, backend, settings, tmp_path):
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    (user,) = yaml.safe_load(kubeconfig.read_text())["users"]
    logins = [b64encode(f"me:{password}".encode()).decode() for password in (PASSWORD, URL)]
    secrets = (PASSWORD, TOKEN, URL, STORE, user["user"]["token"], *logins)
    with (
        FaultProxy(control_plane.url, control_plane.ca_file) as proxy,
        Operator(proxy.kubeconfig(kubeconfig, tmp_path), tmp_path, **settings) as operator,
    ):
        shop = Scaled(control_plane, namespace, metrics=[QUEUE, JOBS], forecast={"budgetPercent": 5})
        shop.says("ScalingActive", "False", "FailedGetExternalMetric")
        # The backend heard the logins: else nothing could be repeated.
        wait_until(lambda: TOKEN in "".join(backend.heard) and "Basic " in "".join(backend.heard))
        for code in (401, 500):
            trouble = Trouble(end="status", status=code, watches=None)
            with proxy.failing(trouble):
                wait_until(lambda met=trouble: met.met)
                time.sleep(3)
        shop.says("ScalingActive", "False", "FailedGetExternalMetric")
        written = {
            "log": operator.log.read_text(),
            "metrics": operator.get("/metrics"),
            "status": json.dumps(shop.status),
            "events": "\n".join(shop.events()),
        }

    assert len(written["log"]) > 1000
    assert [] == [(where, secret) for where, text in written.items() for secret in secrets if secret in text]
