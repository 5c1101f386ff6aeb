"""cronhpa.operator.monitoring.tracing: spans as an OTLP receiver gets them."""

import asyncio
import gzip
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from aiohttp import web
from kubernetes.client import Configuration
from lives import cronhpa, deployment
from model_api import ModelApi
from monitoring.test_endpoints_and_stop import Process, eventually
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cronhpa.kube.client import Client
from cronhpa.operator.app import open_tracing
from cronhpa.operator.objects.object_state import ObjectState

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Receiver(ThreadingHTTPServer):
    """Takes what an OTLP exporter sends by HTTP and protobuf."""

    def __init__(self):
        received = self.received = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
                received.append((self.path, ExportTraceServiceRequest.FromString(body)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def spans(self):
        return [
            span
            for _, request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def services(self):
        return {
            attribute.value.string_value
            for _, request in self.received
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }


@pytest.fixture
def receiver(monkeypatch):
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(ENDPOINTS[0], f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield server
        server.shutdown()


def attributes(span):
    return {attribute.key: attribute.value.string_value or attribute.value.int_value for attribute in span.attributes}


async def test_a_reconciliation_is_a_span_with_its_decision_below_it(receiver, tmp_path):
    api = ModelApi()
    api.clock_offset = time.time_ns() - api.now()
    deployment(api)
    api.load["prod", "shop"] = 2000
    cronhpa(api)
    tracing = open_tracing({ENDPOINTS[0]: "set"})
    async with Process(api, tmp_path, tracing=tracing) as process:
        await process.ready()
        await eventually(lambda: api.replicas("prod", "shop") == 4 and process.loop.metrics.reconciles)
    await tracing.close()

    assert {"/v1/traces"} == {path for path, _ in receiver.received}
    assert {"cronhpa"} == receiver.services
    reconciliation = next(span for span in receiver.spans if span.name == "reconciliation")
    (decide,) = (
        span for span in receiver.spans if span.name == "decide" and span.parent_span_id == reconciliation.span_id
    )
    assert reconciliation.start_time_unix_nano <= decide.start_time_unix_nano <= decide.end_time_unix_nano
    assert decide.end_time_unix_nano <= reconciliation.end_time_unix_nano
    assert {
        "k8s.namespace.name": "prod",
        "cronhpa.name": "shop",
        "cronhpa.kind": "Computed",
        "cronhpa.replicas.current": 2,
        "cronhpa.replicas.desired": 4,
        "cronhpa.decided_by": "Metric/cpu",
    } == attributes(reconciliation)


async def test_requests_of_a_reconciliation_are_below_it_also_those_of_later_tasks_and_others_are_not_traced(receiver):
    """One answer 200 within the reconciliation, one answer 503 in a task that is started after it, one before all."""

    async def answer(request):
        return web.json_response({}, status=503 if request.path.endswith("/status") else 200)

    server = web.Application()
    server.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    tracing = open_tracing({ENDPOINTS[0]: "set"})
    state = ObjectState("prod", "shop", "uid", 0)
    configuration = Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
    async with Client(configuration, traces=[tracing.requests]) as client:
        await client.get("/before", dict)
        with tracing.reconciliation(state):
            await client.get("/scale", dict)
        with pytest.raises(Exception, match="/shop/status"):
            await asyncio.create_task(client.get("/shop/status", dict), context=state.due.trace)
        tracing.end(state)
    await tracing.close()
    await runner.cleanup()

    (reconciliation,) = (span for span in receiver.spans if span.name == "reconciliation")
    requests = {attributes(span)["url.path"]: span for span in receiver.spans if span.name == "GET"}
    assert {"/scale", "/shop/status"} == set(requests)
    assert {reconciliation.span_id} == {span.parent_span_id for span in requests.values()}
    assert 503 == attributes(requests["/shop/status"])["http.response.status_code"]
    assert (0, 2) == (requests["/scale"].status.code, requests["/shop/status"].status.code)


def test_nothing_is_imported_where_no_endpoint_is_set():
    """In a process of its own: another test may have imported it."""
    script = (
        "import sys; from cronhpa.operator import app; assert app.open_tracing({}) is None; "
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert 0 == subprocess.run([sys.executable, "-c", script], check=False).returncode


def test_an_endpoint_without_the_extra_traces_nothing_and_says_so(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "cronhpa.operator.monitoring.tracing", raising=False)

    assert open_tracing({ENDPOINTS[1]: "http://127.0.0.1:4318/v1/traces"}) is None
    assert "install cronhpa[tracing]" in caplog.text
