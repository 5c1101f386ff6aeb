"""cronhpa.sources.exposition: the samples of one metric on pages of both text formats, and on what is no page."""

import re
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

from cronhpa.sources.exposition import MetricSamples, PageReader, PageSample, combined, current
from cronhpa.sources.no_answer import NoAnswerError

TEXT = "text/plain; version=0.0.4; charset=utf-8"


def read(page, metric, kind=TEXT, labels=None, size=10):
    """The page comes in parts of `size` bytes."""
    reader = PageReader(metric)
    for first in range(0, len(page), size):
        reader.take(page[first : first + size])
    return reader.samples(kind, labels or {})


def values(page, metric, **given):
    read_samples = read(page, metric, **given)
    return sorted(sample.value for sample in read_samples.samples), read_samples.is_cumulative


@pytest.fixture
def registry():
    made = CollectorRegistry()
    requests = Counter("http_requests", "with a\nline", ["path"], registry=made)
    requests.labels("/a").inc(3)
    requests.labels('/"b"\n{}').inc(4)
    Gauge("inflight", "", registry=made).set(5)
    Gauge("inflight_limit", "", registry=made).set(50)
    Histogram("seconds", "", registry=made).observe(0.5)
    Summary("bytes", "", registry=made).observe(7)
    return made


@pytest.mark.parametrize(("write", "kind"), [(generate_latest, TEXT), (openmetrics, OPENMETRICS)], ids=["text", "open"])
def test_a_metric_of_each_type_is_read_from_a_page_of_prometheus_client(registry, write, kind):
    page = write(registry)

    assert ([3, 4], True) == values(page, "http_requests_total", kind=kind)
    assert ([4], True) == values(page, "http_requests_total", kind=kind, labels={"path": '/"b"\n{}'})
    assert ([5], False) == values(page, "inflight", kind=kind)
    assert ([1], True) == values(page, "seconds_count", kind=kind)
    assert ([0.5], True) == values(page, "seconds_sum", kind=kind)
    assert ([7], True) == values(page, "bytes_sum", kind=kind)


def test_a_metric_without_a_type_is_taken_as_it_is():
    assert ([7], False) == values(b"load_total 7\n", "load_total")
    assert ([7], False) == values(b"load_total 7", "load_total")  # without a last line feed


def test_a_counter_without_a_suffix_is_one_too():
    assert ([7], True) == values(b"# TYPE load counter\nload 7\n", "load")


def test_the_instant_of_a_sample_is_read():
    assert 1_700_000_000.0 == read(b"load 7 1700000000000\n", "load").samples[0].at


@pytest.mark.parametrize(
    ("page", "reason", "words"),
    [
        (b"", "NoSample", "its page has no load"),
        (b"loads 3\nload2 4\n", "NoSample", "its page has no load"),
        (b"load{ 3\n", "Malformed", "its lines of load are no exposition format"),
        (b"load many\n", "Malformed", "no exposition format"),
        (b"load \xff\n", "Malformed", "no exposition format"),
        (b"<html>load 3</html>", "NoSample", "its page has no load"),
        (b'load{path="%b"} 3\n' % (b"x" * 100) * 600, "TooLarge", "its page has more than 65536 bytes of load"),
        (b"load 3\n" * 2001, "TooLarge", "its page has more than 2000 lines of load"),
        (b"# " + b"x" * 70_000, "TooLarge", "a line of its page is longer than 65536 bytes"),
        ((b"# " + b"x" * 100 + b"\n") * 45_000, "TooLarge", "its page is longer than 4194304 bytes"),
        (b"\n" * 100_001, "TooLarge", "its page has more than 100000 lines"),
    ],
)
def test_what_is_no_page_of_the_metric_is_refused_with_the_reason(page, reason, words):
    with pytest.raises(NoAnswerError) as refused:
        read(page, "load", size=50_000)

    assert reason == refused.value.reason
    assert words in refused.value.message


def test_a_page_of_the_longest_is_read():
    """100,000 lines, 2,000 of them of the metric."""
    page = b"load 3\n" * 2000 + b"other 4\n" * 98_000

    assert (2000, {3.0}) == (len(values(page, "load", size=2**16)[0]), set(values(page, "load", size=2**16)[0]))


def test_a_page_of_openmetrics_that_was_cut_is_no_page():
    with pytest.raises(NoAnswerError, match="its page ends before # EOF"):
        read(b"# TYPE load gauge\nload 3\n", "load", kind=OPENMETRICS)


@given(st.binary(max_size=200), st.sampled_from([TEXT, OPENMETRICS, ""]))
def test_any_bytes_are_samples_or_refused(page, kind):
    with suppress(NoAnswerError):
        read(b"load" + page + b"\n# EOF\n", "load", kind=kind)


def lines_by_one(page, metric):
    """The lines of the metric and of its families, found by a loop over all lines."""
    suffixes = ("_total", "_count", "_sum", "_bucket", "_created", "_info", "_gsum", "_gcount")
    families = {metric, *(metric.removesuffix(suffix) for suffix in suffixes)}
    names = families | {family + suffix for family in families for suffix in suffixes}
    sample = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
    comment = re.compile(r"#[ \t]+(?:TYPE|UNIT|HELP)[ \t]+([a-zA-Z_:][a-zA-Z0-9_:]*)")
    for line in page.split("\n"):
        if line.startswith("#"):
            found = comment.match(line)
            is_ours = found is not None and found[1] in families
        else:
            found = sample.match(line)
            is_ours = found is not None and found[0] in names
        if is_ours:
            yield line


PIECES = [
    "load",
    "_total",
    "_sum",
    "s",
    " 3",
    '{a="b"}',
    " ",
    "\t",
    "# TYPE ",
    "# HELP",
    "#",
    "\n",
    "\n",
    "\r",
    "x",
    "1e3",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.sampled_from(["load", "load_total"]))
def test_the_search_finds_the_lines_that_a_loop_over_all_lines_finds(page, metric):
    """A page that has the lines alone has the same samples, or the same reason for none, in whatever parts it comes."""

    def outcome(text, size):
        try:
            return read(text.encode(), metric, size=size)
        except NoAnswerError as refused:
            return refused.message

    alone = "\n".join(lines_by_one(page, metric))

    assert outcome(alone, 1000) == outcome(page, 1000) == outcome(page, 1)


@pytest.mark.parametrize("line", [b"\n", b"# HELP a b\n", b"# inflight\n", b"inflighty 1\n", b"#            \n"])
def test_a_line_that_is_none_of_the_metric_costs_no_call(line):
    """Calls of functions, C's included: at most 11 for each part of 65,536 bytes of a page of 99,990 lines."""
    calls = 0

    def counted(_frame, event, _argument):
        nonlocal calls
        calls += event in {"call", "c_call"}

    page, reader = line * 99_990, PageReader("inflight")
    sys.setprofile(counted)
    try:
        for first in range(0, len(page), 2**16):
            reader.take(page[first : first + 2**16])
    finally:
        sys.setprofile(None)

    assert calls < 12 * (len(page) // 2**16 + 1)


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (PageSample((), float("nan")), "its number is nan"),
        (PageSample((), float("inf")), "its number is inf"),
        (PageSample((), -1.0), "below zero"),
        (PageSample((), 1.0, 879.0), "more than 120 s away"),
        (PageSample((), 1.0, float("nan")), "more than 120 s away"),
    ],
)
def test_a_number_that_is_no_load_of_now_is_refused(sample, words):
    with pytest.raises(NoAnswerError, match=words):
        current(MetricSamples((PageSample((), 1.0), sample), is_cumulative=False), 1000.0, 120)


def test_the_samples_of_a_pod_become_one_number():
    assert [9, 3, 6] == [combined([2, 6, 1], how) for how in ("sum", "average", "max")]
