"""History from a real Prometheus, built from pinned Go modules: written by remote write, read by range queries."""

import struct
import time
import urllib.error
import urllib.request
from itertools import pairwise

import pytest

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.spec import TargetRef
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.imports.backfill import backfill
from cronhpa.history.imports.prometheus import Prometheus, PrometheusError
from cronhpa.history.store import Store
from testbed.prometheus import running

pytestmark = pytest.mark.long  # its first run builds Prometheus

WEB = Series("shop", "web", "cpu")
TARGET = TargetRef("apps/v1", "Deployment", "web")
SCRAPE = 30 * SECOND
NOW = time.time_ns() // HOUR * HOUR
BEGIN = NOW - 2 * DAY
GAP = range(BEGIN + 10 * HOUR, BEGIN + 12 * HOUR)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A Prometheus that takes samples from outside, on loopback."""
    arguments = ["--web.enable-remote-write-receiver"]
    with running(tmp_path_factory.mktemp("prometheus"), {"global": {}}, arguments) as prometheus:
        write(prometheus.url)
        yield prometheus.url


def cores(at):
    """What each of two pods uses: half a core, three quarters of an hour long two and a half, from six each day."""
    return 2.5 if 6 * HOUR <= at % DAY < 6 * HOUR + 45 * MINUTE else 0.5


def write(url):
    """Two pods' CPU seconds, a sample every 30 s; an hour a request, as what is long past is refused."""
    used, at = 0.0, BEGIN
    while at < NOW:
        samples = []
        while len(samples) < HOUR // SCRAPE:
            if at not in GAP:
                samples.append((at // 10**6, used))
            used += cores(at) * SCRAPE / SECOND
            at += SCRAPE
            if at % HOUR == 0:
                break
        if samples:
            push(
                url,
                [series(f"web-7d4f9c-xxxx{pod}", samples) for pod in "ab"]
                + [series("web-admin-7d4f9c-xxxxa", samples)],
            )


def series(pod, samples):
    names = {"__name__": "container_cpu_usage_seconds_total", "container": "app", "namespace": "shop", "pod": pod}
    labels = b"".join(field(1, field(1, k.encode()) + field(2, v.encode())) for k, v in names.items())
    return labels + b"".join(field(2, b"\x09" + struct.pack("<d", v) + b"\x10" + varint(at)) for at, v in samples)


def push(url, all_series):
    """One remote-write request: protobuf by hand, in a Snappy block that holds one literal."""
    plain = b"".join(field(1, one_series) for one_series in all_series)
    block = varint(len(plain)) + bytes([62 << 2]) + (len(plain) - 1).to_bytes(3, "little") + plain
    headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
    headers["X-Prometheus-Remote-Write-Version"] = "0.1.0"
    request = urllib.request.Request(f"{url}/api/v1/write", block, headers)
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError as refused:
        raise AssertionError(refused.read().decode()) from None


def field(number, content):
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


async def test_the_past_of_a_load_comes_as_it_was_with_its_gaps(url, tmp_path):
    """28 days are asked for, in parts that Prometheus does not refuse; it knows of two."""
    store = Store(tmp_path / "history.db")
    async with Prometheus(url) as prometheus:
        imported = await backfill(store.loads, prometheus, WEB, TARGET, NOW)
    steps = dict(store.loads.steps(WEB, 0, 2**63))
    store.close()

    assert imported.steps == len(steps)
    assert BEGIN <= min(steps) <= BEGIN + STEP
    # Two minutes of rate and five of Prometheus' look-back reach over the edges of the gap.
    lost = [(earlier, later) for earlier, later in pairwise(steps) if later - earlier > STEP]
    assert 1 == len(lost)
    assert GAP.start - STEP <= lost[0][0] <= GAP.start + STEP
    assert GAP.stop - STEP <= lost[0][1] <= GAP.stop + STEP
    # Two pods of the target, and not the third: 2 x 0.5 cores, and 2 x 2.5 while it is busy.
    night, busy = (BEGIN // DAY + 1) * DAY + 3 * HOUR, (BEGIN // DAY + 1) * DAY + 6 * HOUR + 20 * MINUTE
    assert pytest.approx(1.0) == steps[night]
    assert pytest.approx(5.0) == steps[busy]


async def test_a_query_that_prometheus_cannot_read_is_told_in_its_words(url, tmp_path):
    store = Store(tmp_path / "history.db")
    async with Prometheus(url, {"cpu": "sum(rate("}) as prometheus:
        with pytest.raises(PrometheusError, match=r"400: .*parse error.*: asked was sum"):
            await backfill(store.loads, prometheus, WEB, TARGET, NOW)
    store.close()


async def test_several_series_are_refused_with_what_to_do(url, tmp_path):
    store = Store(tmp_path / "history.db")
    query = 'rate(container_cpu_usage_seconds_total{namespace="$namespace"}[2m])'
    async with Prometheus(url, {"cpu": query}) as prometheus:
        with pytest.raises(PrometheusError, match="gives 3 series: one is needed"):
            await backfill(store.loads, prometheus, WEB, TARGET, NOW)
    store.close()
