"""cronhpa.page.server, cronhpa.page.responses, cronhpa.page.assets: answers, rights and headers."""

import asyncio
import concurrent.futures
import gzip
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from itertools import count
from urllib.parse import quote

import pytest

from cli.glance import named
from cronhpa.page import loop_time, server
from cronhpa.page.authentication import Authentication, AuthenticationMode
from cronhpa.ports.connections import ConnectionLimits
from cronhpa.ports.loop_share import LoopShare
from page.made_fleet import MadeObjects, live
from page.served_page import served
from page.test_rights import Told

ANNA = {"Authorization": "Bearer t-anna"}


def objects():
    body = named("good")
    names = [("prod", "shop"), ("prod", "<b>x</b>"), ("secret", "shop")]
    return MadeObjects([live(*name, body["spec"], body["status"]) for name in names])


@pytest.fixture(scope="module")
def open_page():
    """Without authentication."""
    with served(objects()) as url:
        yield url


@pytest.fixture(scope="module")
def page():
    """Anna may get all of prod, and nothing of secret."""
    with served(objects(), rights=Told(("prod", ""), ("prod", "shop")), authentication=Authentication()) as url:
        yield url


def ask(url, path, headers=None, body=None, method=None):
    """(status, headers, body)."""
    request = urllib.request.Request(url + path, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


DATA = ["/api/session", "/api/fleet", "/api/objects/prod/shop", "/api/objects/prod/shop/decision?at=1", "/api/calendar",
        "/api/what-if/run"]  # fmt: skip


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer t-bob"}, {"X-Forwarded-User": "anna"}])
def test_nobody_gets_data_without_proving_who_they_are(page, path, headers):
    status, fields, body = ask(page, path, headers)

    assert (401, "Bearer") == (status, fields["WWW-Authenticate"])
    assert b"shop" not in body


def test_documents_have_no_data_and_need_no_token(page):
    status, _, body = ask(page, "/")

    assert 200 == status
    assert b"prod" not in body


def test_a_caller_sees_their_namespaces_alone(page):
    status, _, body = ask(page, "/api/fleet", ANNA)

    assert 200 == status
    assert {"prod"} == {row[0] for row in json.loads(body)["rows"]}


@pytest.mark.parametrize("path", ["/api/objects/secret/shop", "/api/objects/prod/none", "/api/objects/secret/none",
                                  "/api/objects/secret/shop/decision?at=1"])  # fmt: skip
def test_an_object_that_the_caller_may_not_get_is_answered_like_a_missing_one(page, path):
    assert (404, b'{"error":"there is no such object, or it is not for you"}') == ask(page, path, ANNA)[::2]


def test_a_run_is_begun_on_what_a_caller_may_get_alone(page):
    body = json.dumps({"namespace": "secret", "name": "shop", "yaml": ""}).encode()

    assert 404 == ask(page, "/api/what-if", {**ANNA, "Content-Type": "application/json"}, body)[0]


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"Content-Type": "text/plain"}, b"{}", 415),
        ({"Content-Type": "application/json"}, b"[]", 400),
        ({"Content-Type": "application/json"}, b"\xff", 400),
        ({"Content-Type": "application/json"}, b'{"namespace":"prod","name":"shop","yaml":"","more":1}', 400),
        (
            {"Content-Type": "application/json"},
            b'{"namespace":"prod","name":"shop","yaml":"' + b"x" * 70_000 + b'"}',
            413,
        ),
        ({"Content-Type": "application/json"}, b"x" * 300_000, 413),
        ({"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, b"{}", 403),
        ({"Content-Type": "application/json", "Origin": "https://evil.example"}, b"{}", 403),
    ],
)
def test_a_refused_body_begins_no_run(open_page, headers, body, expected):
    assert expected == ask(open_page, "/api/what-if", headers, body)[0]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_only_what_if_takes_another_method_than_get(open_page, method):
    assert {405} == {ask(open_page, path, method=method)[0] for path in ("/", "/api/fleet", "/api/objects/prod/shop")}


@pytest.mark.parametrize("path", ["/", "/api/session", "/api/none", "/assets/none/app.js", "/" + quote("<script>")])
def test_every_answer_forbids_what_it_does_not_need(open_page, path):
    _, fields, body = ask(open_page, path)

    policy = fields["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'",
            "require-trusted-types-for 'script'"} <= {*policy}  # fmt: skip
    assert "unsafe" not in fields["Content-Security-Policy"]
    assert ("nosniff", "DENY", "no-referrer", "cronhpa") == tuple(
        fields[name] for name in ("X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy", "Server")
    )
    assert b"<script>" not in body


def test_the_document_has_no_script_or_style_of_its_own_and_names_no_other_host(open_page):
    """The content security policy would block them; the page must be safe without it."""
    _, _, body = ask(open_page, "/")

    assert b" style=" not in body
    assert b"<style" not in body
    assert b" onclick=" not in body
    assert b"//" not in body
    assert body.count(b"<script") == body.count(b"<script src=")


def test_files_are_kept_by_browsers_and_data_is_not(open_page):
    _, _, body = ask(open_page, "/")
    name = body.decode().split('src="')[1].split('"')[0]

    assert "immutable" in ask(open_page, f"/{name}")[1]["Cache-Control"]
    assert "private, no-cache" == ask(open_page, "/api/fleet")[1]["Cache-Control"]


def test_an_answer_that_the_browser_has_is_not_sent_again(open_page):
    tag = ask(open_page, "/")[1]["ETag"]

    assert (304, b"") == ask(open_page, "/", {"If-None-Match": tag})[::2]


def test_a_long_answer_is_packed_where_the_browser_unpacks(open_page):
    plain, packed = ask(open_page, "/")[2], ask(open_page, "/", {"Accept-Encoding": "gzip"})

    assert ("gzip", plain) == (packed[1]["Content-Encoding"], gzip.decompress(packed[2]))


@pytest.mark.parametrize("host", ["evil.example", "10.1.2.3:80", "localhost.evil.example"])
def test_without_authentication_no_other_name_of_this_machine_is_answered(open_page, host):
    assert 421 == ask(open_page, "/api/fleet", {"Host": host})[0]


def test_a_page_behind_a_proxy_believes_its_secret_alone():
    rights = Told()
    told = {"X-Forwarded-User": "bob"}
    with served(objects(), rights=rights, authentication=Authentication(AuthenticationMode.PROXY, b"s" * 16)) as url:
        assert 401 == ask(url, "/api/session", told)[0]
        status, _, body = ask(url, "/api/session", {**told, "X-Cronhpa-Proxy-Secret": "s" * 16})

    assert (200, "bob") == (status, json.loads(body)["user"])


def test_a_name_with_anything_in_it_is_a_name(open_page):
    answers = (ask(open_page, f"/api/objects/prod/{quote('<b>x</b>', safe='')}") for _ in range(10))
    # On a busy machine the first answers are that the worker has not started yet.
    document = next(json.loads(body) for status, _, body in answers if status != 503)

    assert "<b>x</b>" == document["name"]
    assert "kubectl cronhpa override '<b>x</b>' -n prod --clear" in [
        command["command"] for command in document["commands"]
    ]


@pytest.mark.parametrize(
    "head", [b"GET /\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 9_000]
)
async def test_malformed_requests_cost_the_page_nothing(open_page, head):
    host, port = open_page.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(head[:60_000])
        await asyncio.to_thread(connection.recv, 1000)

    assert 200 == ask(open_page, "/")[0]


def raw(url, sent):
    """(head, body) of the answer to these bytes, behind which the server ends the connection."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(sent)
        received = b""
        while part := connection.recv(65536):
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    return head.decode("latin-1"), body.decode("latin-1")


def test_a_connection_is_kept_while_the_longest_request_after_the_longest_pause_ends_within_its_life():
    """Found: a view of more than 45 s that was asked for on a connection of 75 s was cut. 75 s + 30 s = 105 s."""
    asked = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    def answers(life_seconds):
        with served(objects(), limits=ConnectionLimits(life_seconds=life_seconds)) as url:
            head, body = raw(url, asked + last)
        return (head + body).count("HTTP/1.1 200 OK")

    assert [1, 2] == [answers(105), answers(105 + 600)]


SECRET = "Bearer eyJhbGciOi.secret.words"


@pytest.mark.parametrize(
    "sent",
    [
        f"GET /api/fleet HTTP/1.1\r\nHost: a\r\nAuthorization : {SECRET}\r\n\r\n",
        f"GET /api/fleet HTTP/1.1\r\nHost: a\r\nAuthorization: {SECRET}\x01\r\n\r\n",
        f"GET /api/fleet HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\nAuthorization: {SECRET}\r\n\r\nhello",
        f"GET /{'x' * 20_000} HTTP/1.1\r\nHost: a\r\nAuthorization: {SECRET}\r\n\r\n",
        f"GET /api/fleet HTTP/1.1\r\nHost: a\r\nAuthorization: {SECRET}{'x' * 20_000}\r\n\r\n",
        f"{SECRET}\r\n\r\n",
        f"GET /api/fleet HTTP/9.9\r\nHost: a\r\nAuthorization: {SECRET}\r\n\r\n",
    ],
    ids=["a blank before the colon", "a control character", "a signed length", "a long path", "a long field",
         "no request line", "another version"],
)  # fmt: skip
def test_a_malformed_request_is_answered_in_the_pages_own_words(open_page, sent, caplog):
    """aiohttp's own answer, and its log, show its version and parts of the request: also a line with a token."""
    head, body = raw(open_page, sent.encode("latin-1"))

    assert head.startswith("HTTP/1.0 400 ")
    assert '{"error":"this is no HTTP/1.1 request"}' == body
    assert {"X-Content-Type-Options: nosniff", "Server: cronhpa", "Cache-Control: no-store"} <= {*head.split("\r\n")}
    assert "Content-Security-Policy: default-src 'none'" in head
    assert "secret" not in head + body + caplog.text
    assert "aiohttp" not in head + body


@pytest.mark.parametrize("sent", ["GET /\r\n\r\n", "GET / HTTP/0.9\r\n\r\n", "GET / HTTP/2.0\r\nHost: a\r\n\r\n"])
def test_another_version_of_http_than_1_0_and_1_1_gets_no_page(open_page, sent):
    head, body = raw(open_page, sent.encode())

    assert " 400 " in head.partition("\r\n")[0] + " "
    assert "this is no HTTP/1.1 request" in body
    assert "<html" not in head + body


def test_an_expectation_that_nobody_knows_is_refused_without_repeating_it(open_page):
    head, body = raw(open_page, b"GET / HTTP/1.1\r\nHost: localhost\r\nExpect: <script>\r\nConnection: close\r\n\r\n")

    assert head.startswith("HTTP/1.1 417 ")
    assert "Content-Security-Policy: default-src 'none'" in head
    assert "<script>" not in head + body


def flood(url, path, headers, count):
    """How many seconds it takes to get so many answers, pipelined on one connection; their statuses."""
    host, port = url.removeprefix("http://").split(":")
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode()
    begun = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        threading.Thread(target=connection.sendall, args=(asked * count,), daemon=True).start()
        received = b""
        while received.count(b"HTTP/1.1 ") < count or not received.endswith(b"}"):
            received += connection.recv(65536)
    return time.monotonic() - begun, {part[:3] for part in received.split(b"HTTP/1.1 ")[1:]}


def test_requests_without_a_known_token_are_answered_at_a_pace_and_known_callers_do_not_wait_for_them():
    """
    200 a second after 200 at once: 500 take a second and a half at least. None is refused, since one connection sends
    one request at a time. Anna, whose token is known, is answered while they wait.
    """
    settings = {"authentication": Authentication(), "limits": ConnectionLimits(life_seconds=600)}
    with served(objects(), rights=Told(("prod", "")), **settings) as url:
        assert 200 == ask(url, "/api/session", ANNA)[0]
        flooding = concurrent.futures.ThreadPoolExecutor(1).submit(flood, url, "/api/session", {}, 500)
        answered = 0
        while not flooding.done():
            assert 200 == ask(url, "/api/session", ANNA)[0]
            answered += 1
        seconds, statuses = flooding.result()

    assert 1.4 < seconds
    assert {b"401"} == statuses
    assert answered > 10


def test_requests_that_take_long_are_answered_at_a_pace_and_accounts_take_turns(monkeypatch):
    """
    Each takes 10 ms of CPU at least, 50 ms may be used at once, and a tenth of the time from then on: three connections
    with 10 requests each take 2.5 s at least, but for those under way. Anna, on one, has half of the turns meanwhile.
    """
    readings = count()
    monkeypatch.setattr(server, "page_share", lambda: LoopShare(time.monotonic, lambda: next(readings) * 0.01, 0.1))

    class Known(Told):
        def account(self, token):
            return token

    settings = {"authentication": Authentication(), "limits": ConnectionLimits(life_seconds=600)}
    begun = time.monotonic()
    with served(objects(), rights=Known(), **settings) as url, concurrent.futures.ThreadPoolExecutor(3) as pool:
        flooding = [pool.submit(flood, url, "/api/session", {"Authorization": "Bearer bob"}, 10) for _ in range(3)]
        answered = 0
        while not all(each.done() for each in flooding):
            assert 200 == ask(url, "/api/session", ANNA)[0]
            answered += 1

    assert {b"401"} == set().union(*(each.result()[1] for each in flooding))
    assert 2 < time.monotonic() - begun
    assert answered >= 10


def test_the_page_takes_four_tenths_of_the_event_loop_at_most(monkeypatch):
    """For all callers at once, for known callers, for others, and for TLS."""
    shares = []

    class Noted(LoopShare):
        def __init__(self, clock, share):
            super().__init__(clock, share=share)
            shares.append(share)

    monkeypatch.setattr(loop_time, "LoopShare", Noted)
    with served(objects()):
        assert [0.1] * 4 == shares
