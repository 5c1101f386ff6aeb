"""
Traces of reconciliations by OpenTelemetry: a span for each reconciliation, with child spans for the decision and every
request of the reconciliation.

Imported only if an OTLP endpoint is set, because the SDK is large. OTEL_* variables configure it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from types import SimpleNamespace

import aiohttp
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from cronhpa.core.decide import Decide
from cronhpa.core.model.decision import Decision
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation
from cronhpa.core.model.spec import Spec
from cronhpa.operator.objects.object_state import ObjectState
from cronhpa.operator.writes.decision_recorder import RELEASE

_SERVER_ERROR = 500
# The span of the reconciliation in its context: the current span may be a child of it.
_RECONCILIATION: ContextVar[Span] = ContextVar("reconciliation")


class Tracing:
    """A `ReconciliationTrace` whose spans are exported. `requests` traces those of an aiohttp session."""

    def __init__(self) -> None:
        self._provider = TracerProvider(resource=_resource())
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("cronhpa", RELEASE)
        self.requests = self._request_spans()

    @contextmanager
    def reconciliation(self, state: ObjectState) -> Iterator[None]:
        attributes = {"k8s.namespace.name": state.namespace, "cronhpa.name": state.name}
        span = self._tracer.start_span("reconciliation", attributes=attributes)
        with trace.use_span(span, end_on_exit=False, record_exception=True, set_status_on_exception=True):
            # Writes happen later in a task of their own, and belong to this reconciliation, too.
            state.due.trace = copy_context()
            state.due.trace.run(_RECONCILIATION.set, span)
            yield

    def end(self, state: ObjectState) -> None:
        context, state.due.trace = state.due.trace, None
        if context is None:
            return
        span = context[_RECONCILIATION]
        if state.local.latest is not None:
            span.set_attributes(_attributes(state.local.latest.decision))
        span.end()

    def traced(self, decide: Decide) -> Decide:
        """`decide` with a span of its own."""

        def traced(
            spec: Spec, observation: Observation, forecast: Forecast | Absent | None, memory: Memory, now: Nanoseconds
        ) -> Decision:
            with self._tracer.start_as_current_span("decide"):
                return decide(spec, observation, forecast, memory, now)

        return traced

    async def close(self) -> None:
        """Exports waiting spans, within the exporter's deadline."""
        await asyncio.to_thread(self._provider.shutdown)

    def _request_spans(self) -> aiohttp.TraceConfig:
        """Traces requests of reconciliations only: watches and lists belong to no object."""

        async def begin(_session: object, context: SimpleNamespace, params: aiohttp.TraceRequestStartParams) -> None:
            context.span = None
            if trace.get_current_span().is_recording():
                attributes = {"http.request.method": params.method, "url.path": params.url.path}
                context.span = self._tracer.start_span(params.method, kind=SpanKind.CLIENT, attributes=attributes)

        async def end(_session: object, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
            _end(context.span, params.response.status)

        async def fail(_session: object, context: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams) -> None:
            if context.span is not None:
                context.span.record_exception(params.exception)
                _end(context.span, None)

        config = aiohttp.TraceConfig()
        config.on_request_start.append(begin)
        config.on_request_end.append(end)
        config.on_request_exception.append(fail)
        return config


def _end(span: Span | None, code: int | None) -> None:
    if span is None:
        return
    if code is not None:
        span.set_attribute("http.response.status_code", code)
    if code is None or code >= _SERVER_ERROR:
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _attributes(decision: Decision) -> Mapping[str, str | int]:
    return {
        "cronhpa.kind": str(decision.kind),
        "cronhpa.replicas.current": decision.current,
        "cronhpa.replicas.desired": decision.desired,
        "cronhpa.decided_by": str(decision.decided_by or ""),
    }


def _resource() -> Resource:
    """The resource of all spans; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override the defaults."""
    return Resource({"service.name": "cronhpa", "service.version": RELEASE}).merge(OTELResourceDetector().detect())
