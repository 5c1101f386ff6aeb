"""cronhpa.sources.pod_page, cronhpa.sources.tls, cronhpa.sources.no_answer: a page of a pod, whatever the pod sends."""

import gzip
import socket
import ssl
import zlib
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronhpa.sources.exposition import MetricSamples
from cronhpa.sources.namespace_shares import NamespaceShare, Reading, TooCostlyError, scrape_budget
from cronhpa.sources.no_answer import NoAnswerError
from cronhpa.sources.pod_page import PageSource, PodPages
from sources.pod_servers import head, plain, raw_pods
from sources.virtual_periods import Periods

PACKED = "Content-Encoding: gzip"
CHUNKED = "Transfer-Encoding: chunked"
MIB = 2**20


class Ticking:
    """CPU time that grows by so much with each look at it."""

    def __init__(self, step=0.0):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def source(**fields):
    return PageSource(id=1, metric="inflight", path="/metrics", labels={}, timeout_seconds=1.0, **fields)


@pytest.fixture
def trusted(tmp_path):
    """The context of pods by TLS, and a source that trusts them."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "trusted"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("pod.example").configure_cert(context)
    return context, source(is_tls=True, server_name="pod.example", ca_file=str(tmp_path / "trusted"))


@pytest.fixture(params=["plain", "TLS 1.2", "TLS 1.3"])
def by(request, trusted):
    """Pods, and how a page of theirs is read, by each transport."""
    context, of = trusted
    if request.param == "plain":
        return raw_pods, source()
    context.maximum_version = ssl.TLSVersion.TLSv1_2 if request.param == "TLS 1.2" else ssl.TLSVersion.TLSv1_3
    return partial(raw_pods, tls=context), of


@contextmanager
def kept_pages():
    """Pages that keep connections until the end of the block, and their clock."""
    clock = Periods()
    pages = PodPages(clock)
    yield pages, clock
    clock.now += 5.1
    pages.close_idle()


def read(port, *, pages=None, cpu=None, of=None, deadline=60.0):
    """The clock stands still, so that no deadline of the machine's clock ends a read."""
    clock = Periods()
    with (
        Reading(NamespaceShare(clock), scrape_budget(1.0, 1, clock), deadline, clock, cpu or Ticking()) as work,
        nullcontext((pages, clock)) if pages else kept_pages() as (asked, _),
    ):
        return asked.read(of or source(), "127.0.0.1", port, work)


def number(port, **given_):
    (sample,) = read(port, **given_).samples
    return sample.value


def packed(body):
    return head(PACKED, length=len(body)) + body


def chunked(*chunks):
    return head(CHUNKED) + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


@pytest.mark.parametrize(
    "answer",
    [
        plain(b"inflight 7\n"),
        head() + b"inflight 7\n",
        chunked(b"infli", b"ght 7\n"),
        packed(gzip.compress(b"inflight 7\n")),
        packed(gzip.compress(b"infli") + gzip.compress(b"ght 7\n")),
        packed(gzip.compress(b"other 1\n" * 50_000 + b"inflight 7\n")),
        b"HTTP/1.1 100 Continue\r\n\r\n" + plain(b"inflight 7\n"),
    ],
    ids=["length", "until the end", "chunks", "gzip", "two members", "parts", "continue"],
)
def test_a_page_is_read_in_each_way_of_http(by, answer):
    served, of = by
    with served(answer) as pods:
        assert 7 == number(pods.port, of=of)


def test_a_page_up_to_its_limit_is_read_though_its_lines_come_one_by_one(by):
    """
    20,000 lines of 209 bytes are 4,180,000 of 4,194,304. The head of each chunk is 4 bytes and its end 2, 120,000 in
    all; a record of TLS takes 22 at least, 440,000.
    """
    served, of = by
    lines = [b"# " + b"x" * 206 + b"\n"] * 20_000
    with served(head(CHUNKED), *[b"d1\r\n%b\r\n" % line for line in lines], b"b\r\ninflight 7\n\r\n0\r\n\r\n") as pods:
        assert 7 == number(pods.port, of=of)


CUT = gzip.compress(b"inflight 1\ninflight 2\n")[:-4]
COMPRESSION = zlib.compressobj(9, zlib.DEFLATED, 31)
BOMB = b"".join([*(COMPRESSION.compress(bytes(MIB)) for _ in range(64)), COMPRESSION.flush()])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([b"HTTP/1.1 100 Continue\r\n\r\n" * 1000] * 400, "its headers are longer than 16384 bytes"),
        ([head(*(f"X-{n}: {'x' * 8000}" for n in range(90)))], "its headers are longer than 16384 bytes"),
        ([head(length=2**40), *[b"\n" * 1000] * 6000], "its page has more than 100000 lines"),
        ([head(length=2**40), *[b"# " + b"x" * 998 + b"\n"] * 6000], "its page is longer than 4194304 bytes"),
        ([head(CHUNKED), *[b"1;" + b"x" * 4000 + b"\r\n\n\r\n"] * 6000], "its answer is longer than 8388608 bytes"),
        ([packed(BOMB)], "a line of its page is longer than 65536 bytes"),
        ([packed(gzip.compress(b"\n" * 200_000))], "its page has more than 100000 lines"),
        ([head(length=100) + b"inflight 1\n"], "the connection broke before the answer was whole"),
        ([head(CHUNKED) + b"30\r\ninflight 1\n"], "the connection broke before the answer was whole"),
        ([packed(CUT)], "the connection broke before the answer was whole"),
        ([packed(b"inflight 1\n")], "its page is packed by something other than gzip"),
        ([head("Content-Encoding: br", length=1) + b"x"], "its page is packed by something other than gzip"),
        ([b"inflight 1\n"], "the connection broke before the answer was whole"),
        ([b""], "the connection broke before the answer was whole"),
        ([b"HTTP/1.1 500 No\r\n\r\n"], "it answered 500"),
        ([b"HTTP/1.1 302 No\r\nLocation: /ok\r\n\r\n"], "it answered 302, which points elsewhere and is not followed"),
    ],
    ids=["continue", "headers", "lines", "bytes", "chunk extensions", "bomb", "packed lines", "cut", "cut chunk",
         "cut gzip", "no gzip", "brotli", "no http", "nothing", "status", "redirect"],
)  # fmt: skip
def test_what_is_no_whole_page_is_refused_with_the_reason(by, answer, words):
    served, of = by
    with served(*answer) as pods, pytest.raises(NoAnswerError) as refused:
        read(pods.port, of=of)

    assert words in refused.value.message


@pytest.mark.parametrize(
    "parts",
    [
        [b"HTTP/1.1 100 Continue\r\n\r\n" * 600],
        [head(CHUNKED), b"1\r\n\n\r\n" * 90_000],
        [head(PACKED, CHUNKED), *[b"20\r\n%b\r\n" % gzip.compress(b"\n" * 8).ljust(32, b"\0")] * 2000],
        [packed(gzip.compress(b"\n" * 99_990))],
        [packed(gzip.compress(b"inflighty 1\n" * 99_990))],
        [head(length=4 * MIB), *[b"x"] * 2000],
    ],
    ids=["continue", "chunks", "members", "lines", "near misses", "single bytes"],
)
def test_a_page_of_any_form_ends_with_the_cpu_time_of_its_scrape(parts):
    """
    The CPU time is looked at for each read of the network and for 64 KiB that are unpacked: here each look is 22.5 ms
    after the one before, of 0.2 s and a millisecond. A page of one line has the eight looks that it needs.
    """
    with raw_pods(plain(b"inflight 7\n")) as pods:
        assert 7 == number(pods.port, cpu=Ticking(0.0225))

    cpu = Ticking(0.0225)
    with raw_pods(*parts) as pods, pytest.raises(TooCostlyError, match="CPU time of more than 20% of its period"):
        read(pods.port, cpu=cpu)

    assert cpu.now < 0.25


def test_a_connection_is_used_again_and_a_new_one_is_made_where_the_pod_closed_it(by):
    served, of = by
    with served(plain(b"inflight 7\n"), closes=False) as pods, kept_pages() as (pages, _):
        assert [7, 7, 7] == [number(pods.port, pages=pages, of=of) for _ in range(3)]
        assert 1 == pods.accepted

    with served(plain(b"inflight 7\n")) as pods, kept_pages() as (pages, _):
        assert [7, 7, 7] == [number(pods.port, pages=pages, of=of) for _ in range(3)]
        assert 3 == pods.accepted


def test_a_connection_that_nobody_used_for_five_seconds_is_closed():
    with raw_pods(plain(b"inflight 7\n"), closes=False) as pods, kept_pages() as (pages, clock):
        number(pods.port, pages=pages)
        clock.now = 5.1
        pages.close_idle()
        number(pods.port, pages=pages)

        assert 2 == pods.accepted


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 500 No\r\n\r\n", head(PACKED, "Connection: close", length=2**17) + bytes(2**16)],
    ids=["status", "no gzip"],
)
def test_the_connection_of_a_refused_page_is_closed_though_its_error_is_still_held(answer):
    """The pod sees the end of the connection: it waits for another request, and gets none."""
    with raw_pods(answer, closes=False) as pods:
        with pytest.raises(NoAnswerError) as refused:
            read(pods.port)

        assert pods.ended.wait(20), refused


def test_nobody_listening_is_a_reason_that_names_no_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NoAnswerError) as refused:
        read(port)

    assert "it cannot be reached: Connection refused" == refused.value.message


def test_by_tls_a_pod_is_trusted_by_the_stated_authority_alone(tmp_path):
    authority, other = trustme.CA(), trustme.CA()
    for name, made in (("ca", authority), ("other", other)):
        made.cert_pem.write_to_path(str(tmp_path / name))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("pod.example").configure_cert(context)

    def of(name, served="pod.example"):
        return source(is_tls=True, server_name=served, ca_file=str(tmp_path / name))

    with raw_pods(plain(b"inflight 7\n"), tls=context) as pods:
        assert 7 == number(pods.port, of=of("ca"))
        with pytest.raises(NoAnswerError, match="TLS: its certificate, or ours, is not trusted"):
            read(pods.port, of=of("other"))
        with pytest.raises(NoAnswerError, match="TLS: its certificate, or ours, is not trusted"):
            read(pods.port, of=of("ca", "else.example"))
        with pytest.raises(NoAnswerError, match="a file that its login or its TLS needs cannot be read"):
            read(pods.port, of=of("none"))


def test_messages_of_tls_are_bounded_as_the_page_is(trusted):
    """
    Before the page come 1,000 session tickets of 255 bytes, 255 kB: more than the 16 + 128 KiB of a head by TLS. At two
    looks for each 8 KiB they are more than 60 looks at the CPU time, of which 20 at 10 ms are a fifth of 1 s.
    """
    context, of = trusted
    context.num_tickets = 1000
    with raw_pods(plain(b"inflight 7\n"), tls=context) as pods:
        with pytest.raises(NoAnswerError, match="its headers are longer than 16384 bytes"):
            read(pods.port, of=of)
        with pytest.raises(TooCostlyError, match="CPU time of more than 20% of its period"):
            read(pods.port, of=of, cpu=Ticking(0.01))


def test_a_pod_that_does_not_shake_hands_is_given_up_at_the_deadline(trusted):
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        read(silent.getsockname()[1], of=trusted[1], deadline=0.05)


HEADS = st.sampled_from(
    [b"", head(), head(CHUNKED), head(PACKED), head(PACKED, CHUNKED), head(length=20), head(length=-5),
     b"HTTP/1.1 100 Continue\r\n\r\n" * 9, b"HTTP/1.1 200 OK\r\n", b"HTTP/9.9 99999 \r\n\r\n"]
)  # fmt: skip
CHUNKS = st.sampled_from(
    [b"-5\r\n", b"1_0\r\n", b"ffffffffff\r\n", b"0\r\n\r\n", b"5\r\ninfli\r\n", b"6\r\nght 7\n\r\n"]
)
PIECES = st.one_of(
    st.binary(max_size=60), st.just(b"\ninflight 7\n"), CHUNKS, st.binary(max_size=60).map(gzip.compress)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(HEADS, st.lists(PIECES, max_size=6))
def test_any_bytes_are_samples_or_refused(first, rest):
    """In pieces, some of which are gzip or chunks, and without an end that a header announced."""
    with raw_pods(first, *rest) as pods:
        try:
            answer = read(pods.port)
        except NoAnswerError as refused:
            answer = refused

    assert isinstance(answer, MetricSamples | NoAnswerError)
