"""
What is fuzzed: for each door through which texts of others come, a function of bytes that raises where something is
wrong. It lets pass only what the door promises to say, so any other exception is a bug, and asserts what must hold.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import math
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from core.situations import pod, reconciliation_of
from cronhpa.api.parse import SpecError, check_schema, parse_spec
from cronhpa.api.render import render
from cronhpa.api.resource.status import CronHPAStatus
from cronhpa.api.rules import broken_rules
from cronhpa.api.status_memory import read_memory
from cronhpa.cli.objects.yaml_documents import UnreadableFileError, as_yaml, read_documents
from cronhpa.core.behavior import resume
from cronhpa.core.decide import decide
from cronhpa.core.metrics.observe import observe
from cronhpa.core.model.decision import DecisionKind as DecisionPath
from cronhpa.core.model.decision import Withheld
from cronhpa.core.model.instant import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Nanoseconds,
    format_instant_exact,
    parse_duration,
    parse_instant,
)
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Sample, Scale
from cronhpa.core.model.quantity import Quantity, format_milli, parse_float, parse_milli
from cronhpa.core.model.spec import (
    ControllerOptions,
    CronWindow,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    ResourceMetric,
    Spec,
    TargetRef,
)
from cronhpa.core.model.spec import ExternalMetric as External
from cronhpa.core.schedules import cron, windows
from cronhpa.history.database.series import RecordedBatch, Series
from cronhpa.history.imports.files import HistoryError, import_csv, read_points
from cronhpa.history.imports.prometheus import Prometheus, PrometheusError
from cronhpa.kube.discovery import Discovery
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.metric_values import samples_of
from cronhpa.kube.metrics import MetricReader, list_pod_metrics
from cronhpa.migration.convert import Document, convert
from cronhpa.sources.exposition import PageReader, current
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.parse import SourcesError, parse_sources
from cronhpa.sources.prometheus import read_vector
from cronhpa.sources.url import UrlDefinition, read_number
from fuzz import specs
from fuzz.draw import Draw
from fuzz.specs import ZONES, with_slips

NOW = parse_instant("2026-11-23T10:00:00Z")
CRD = Path(__file__).parents[2] / "crds" / "cronhpa.io_cronhpas.yaml"
SPEC_SCHEMA = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
# In memory where there is such a folder: a file on a disk takes a millisecond to make.
SHARED = Path("/dev/shm")
FOLDER = Path(tempfile.mkdtemp(prefix="cronhpa-fuzz-", dir=SHARED if SHARED.is_dir() else None))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
TARGET = MetricTarget("AverageValue", average_value=1000)
URL_SOURCES = [
    UrlDefinition.model_validate({"url": "http://queues/", **fields})
    for fields in (
        {"value": "a.0.b"},
        {"format": "yaml", "value": "a.#"},
        {"format": "text"},
        {"format": "prometheus", "metric": "load_total"},
    )
]


def spec(data: bytes) -> None:
    """A spec is read or refused with its problems; one that the API server takes is decided upon within its bounds."""
    draw = Draw(data)
    current = draw.number(0, 12)
    text = draw.from_schema(SPEC_SCHEMA) if draw.one_in(8) else with_slips(draw, specs.spec(draw))
    if not isinstance(text, dict):
        return
    text = json.loads(json.dumps(text))  # what the API serves has no NaN and no shared parts
    try:
        parsed = parse_spec(text, "prod", ControllerOptions())
        check_schema(text)
    except SpecError as error:
        assert error.problems  # noqa: PT017 - it is let pass, and must say something
        return
    if any(True for _ in broken_rules(text)):
        return
    decided(parsed, current, Memory(), draw)


def decided(of: Spec, current: int, memory: Memory, draw: Draw) -> None:
    """Decides two reconciliations of a spec on measurements that are drawn, and renders what comes of them."""
    pods = [pod(f"shop-{index}") for index in range(min(current, 3))]
    scale = Scale(current, current, "app=shop")
    measured: list[Mapping[str, Sample] | int | Absent] = []
    for metric in of.metrics:
        if draw.one_in(4):
            measured.append(Absent("FailedGetResourceMetric", "gone"))
        elif isinstance(metric, ResourceMetric | PodsMetric):
            measured.append({listed_pod.name: Sample(abs(draw.number()), NOW, MINUTE) for listed_pod in pods})
        else:
            measured.append(draw.number())
    status: dict[str, Any] = {}
    for now in (NOW, NOW + draw.number(1, 10 * DAY)):
        observation = observe(of, scale, pods, measured, now)
        decision = decide(of, observation, None, memory, now)
        if decision.kind in {DecisionPath.SUSPENDED, DecisionPath.UNREACHABLE}:
            assert decision.desired == current
        else:
            assert min(decision.minimum, current) <= decision.desired <= max(decision.maximum, current)
        memory = memory.after(decision, Withheld(), of, observation)
        status = render(status, reconciliation_of(of, decision, Withheld(), memory, generation=1))
        CronHPAStatus.model_validate(status, strict=True, extra="forbid")
        json.dumps(status, allow_nan=False).encode()


def memory(data: bytes) -> None:
    """Any status.memory is read or empty, decided upon within the bounds, and what is written is read back."""
    draw = Draw(data)
    text = _json(data) if data[:1] == b"{" else with_slips(draw, specs.memory(draw))
    current = draw.number(0, 200)
    of = REMEMBERING[draw.byte() % len(REMEMBERING)]
    memory_read = read_memory({"memory": text})
    assert memory_read.problem is None or Memory() == memory_read.memory
    kept = resume(memory_read.memory, current, NOW, of.behavior)
    decided(of, current, kept, draw)
    for events in (kept.scale_ups, kept.scale_downs):
        assert all(0 < event.change < 2**31 and event.at <= NOW for event in events)
    assert all(
        0 <= recommendation.replicas < 2**31 and recommendation.at <= NOW for recommendation in kept.recommendations
    )


METRICS = [{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "10"}}}]
SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
SLOW = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 600}], "stabilizationWindowSeconds": 600}
REMEMBERING = [
    parse_spec(
        {"scaleTargetRef": SHOP, "minReplicas": 2, "maxReplicas": 100, "metrics": METRICS, **more},
        "prod",
        ControllerOptions(),
    )
    for more in (
        {},
        {"behavior": {"scaleUp": {**SLOW, "selectPolicy": "Min"}, "scaleDown": SLOW}},
        {"behavior": {"scaleDown": {"policies": [{"type": "Percent", "value": 50, "periodSeconds": 15}]}}},
        {"schedules": [{"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 9}], "forecast": {}},
    )
]


def quantities(data: bytes) -> None:
    """A quantity is read exactly or refused; what is written of it reads back; so do instants and durations."""
    text = _text(data)
    try:
        milli = parse_milli(text)
    except ValueError:
        milli = None
    else:
        assert abs(milli) <= 2**63 * 1000
        assert milli == parse_milli(format_milli(milli))
        assert milli == parse_milli(format_milli(milli, binary=True))
    try:
        number = parse_float(text)
    except ValueError:
        assert milli is None
    else:
        assert math.isfinite(number)
        assert milli is not None
        assert abs(number * 1000 - milli) <= 1 + abs(milli) * 1e-9
    try:
        str(Quantity.parse(text))
    except ValueError:
        assert milli is None
    try:
        instant = parse_instant(text)
    except ValueError:
        pass
    else:
        assert instant == parse_instant(format_instant_exact(instant))
    try:
        parse_duration(text)
    except ValueError:
        return


def crons(data: bytes) -> None:
    """A cron text is refused with words, or its window has a state everywhere, which changes where it says."""
    draw = Draw(data)
    zone = draw.of(ZONES)
    now: Nanoseconds = draw.number(0, 60 * 365) * DAY + draw.number(0, 86_399) * 10**9
    duration = draw.number(1, 10_080) * MINUTE if draw.byte() % 2 else None
    start, _, end = _text(draw.rest()).partition("|")
    for text in (start, end):
        told = cron.problem(text)
        if told is not None:
            assert len(told) < 2000
            if text is start or duration is None:
                return
    window = CronWindow(start, zone, None if duration else end, duration)
    seen = windows.state(window, now)
    if seen.until is None:
        return
    assert seen.until > now
    assert windows.state(window, seen.until - 1).is_open == seen.is_open
    assert windows.state(window, seen.until).is_open != seen.is_open


OPERATORS = 'load{ns="$namespace", n=~"$name-.+", t="$kind/$target"}'


def promql(data: bytes) -> None:
    """Whatever the names: no query, or the operator's own with one name in each of its texts."""
    draw = Draw(data)
    metric = draw.of(("cpu", "memory", "queue"))
    names = [draw.text() if draw.byte() % 4 else _text(draw.rest()) for _ in range(4)]
    source = Prometheus("http://prometheus", {"queue": OPERATORS})
    plain = source.query_for(Series("a", "a", metric), TargetRef("apps/v1", "a", "a"))
    try:
        query = source.query_for(Series(names[0], names[1], metric), TargetRef("apps/v1", names[2], names[3]))
    except PrometheusError:
        return
    assert _without_texts(plain) == _without_texts(query), query
    for text in re.findall(r'"((?:[^"\\]|\\.)*)"', query, re.DOTALL):
        # Behind =~ a dot of a name stands as [.], and the operator's own pattern follows.
        named = re.sub(r"(-\[a-z0-9\]\+)?-\[a-z0-9\]\{5\}$", "", text)
        assert re.fullmatch(r"(?:[-A-Za-z0-9./+\\]|\[\.\])*", named), query


def _without_texts(query: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', query, flags=re.DOTALL)


class Answering:
    """Stands where the client stands: says the same to everything."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    async def read(self, path: str, params: Mapping[str, str] | None = None, **_: Any) -> bytes:
        del path, params
        return self.answer


class Mapped(Discovery):
    """Knows every API."""

    def __init__(self) -> None:
        pass

    async def version(self, group: str, known: Any) -> str:
        del group
        return str(known[0])

    async def resource_in(self, group: str, kind: str) -> Any:
        raise ClusterError(404, "NoKindMatch", f"{group} {kind}")


def metrics(data: bytes) -> None:
    """Any answer of a metrics API is numbers or an absence with its reason; no sample is negative or not finite."""
    draw = Draw(data)
    answer = data if data[:1] in {b"{", b"["} else json.dumps(with_slips(draw, specs.answer(draw))).encode()
    asyncio.run(_read_metrics(answer))


async def _read_metrics(answer: bytes) -> None:
    client: Any = Answering(answer)
    listed = await list_pod_metrics(client, "prod", all_resources=True)
    readings: list[Any] = [listed] if isinstance(listed, Absent) else []
    if not isinstance(listed, Absent):
        for container in (None, "app"):
            readings.append(samples_of(ResourceMetric("cpu", TARGET, container=container), listed.values()))
            if not isinstance(readings[-1], Absent):
                assert all(sample.value >= 0 for sample in readings[-1].values())
    # As the operator reads it, whose objects ask for cpu or memory alone.
    decoded = await list_pod_metrics(client, "prod")
    assert isinstance(decoded, Absent) or all(usage >= 0 for usage in decoded.usages("cpu").values())
    reader = MetricReader(client, Mapped())
    described = TargetRef("v1", "Namespace", "prod")
    readings += [
        await reader.pods("prod", PodsMetric("q", TARGET), "app=shop"),
        await reader.object("prod", ObjectMetric("q", TARGET, described)),
        await reader.external("prod", External("q", TARGET)),
    ]
    for candidate in readings:
        if isinstance(candidate, Absent):
            assert candidate.reason
            candidate.message.encode()
        elif isinstance(candidate, Mapping):
            assert all(type(name) is str and type(sample.value) is int for name, sample in candidate.items())
        else:
            assert type(candidate) is int


class Kept:
    """Stands where the store stands, and keeps nothing."""

    def backfill(self, series: Series, maxima: list[tuple[int, float]], **_: Any) -> RecordedBatch:
        del series
        assert maxima
        assert all(0 <= at <= NOW + DAY and math.isfinite(value) and value >= 0 for at, value in maxima)
        return RecordedBatch(len(maxima), ())


def csv(data: bytes) -> None:
    """A file is a history or refused with the line that is none."""
    path = FOLDER / "load.csv"
    path.write_bytes(data)
    store: Any = Kept()
    for read in (
        lambda: read_points(path),
        lambda: import_csv(store.backfill, Series("prod", "shop", "cpu"), path, now=NOW, shift=HOUR),
    ):
        try:
            read()
        except HistoryError as error:
            assert len(str(error)) < 2000  # noqa: PT017 - of what is let pass


def documents(data: bytes) -> None:
    """A file is documents or refused; what is converted of them is written, and read back as it was."""
    path = FOLDER / "objects.yaml"
    path.write_bytes(data)
    try:
        read = list(read_documents(path))
    except UnreadableFileError:
        return
    manifests = convert([Document("f", body) for body in read], now=NOW).manifests
    (FOLDER / "again.yaml").write_text(as_yaml(manifests))
    assert list(manifests) == list(read_documents(FOLDER / "again.yaml")), manifests


def sources(data: bytes) -> None:
    """A file of sources, a pod's page, answers of a Prometheus and of URLs are refused in words, or are from 0 on."""
    with suppress(SourcesError):
        parse_sources(_text(data), "f")
    for kind in ("text/plain", "application/openmetrics-text"):
        reader = PageReader("load_total")
        with suppress(NoAnswerError):
            reader.take(data)
            samples = current(reader.samples(kind, {}), NOW / SECOND, 120).samples
            assert samples
            assert all(math.isfinite(sample.value) and sample.value >= 0 for sample in samples)
    with suppress(NoAnswerError):
        value = read_vector(data, ("namespace",)).value(("prod",), NOW, 120)
        assert isinstance(value, Absent) or value >= 0
    for definition in URL_SOURCES:
        with suppress(NoAnswerError):
            assert read_number(data, "text/plain", definition, NOW / SECOND) >= 0


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


HARNESSES: dict[str, Callable[[bytes], None]] = {
    harness.__name__: harness for harness in (spec, memory, quantities, crons, promql, metrics, csv, documents, sources)
}
