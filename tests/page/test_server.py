"""cronhpa.page.server, cronhpa.page.assets: answers, rights and headers."""

import asyncio
import gzip
import json
import socket
import urllib.error
import urllib.request
from urllib.parse import quote

import pytest

from cli.glance import named
from cronhpa.page.authentication import Authentication, AuthenticationMode
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
        with urllib.request.urlopen(request, timeout=30) as answer:
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
    document = json.loads(ask(open_page, f"/api/objects/prod/{quote('<b>x</b>', safe='')}")[2])

    assert "<b>x</b>" == document["name"]
    assert "kubectl cronhpa override '<b>x</b>' -n prod --clear" in [
        command["command"] for command in document["commands"]
    ]


@pytest.mark.parametrize(
    "head", [b"GET /\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 9_000]
)
async def test_malformed_requests_cost_the_page_nothing(open_page, head):
    host, port = open_page.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(head[:60_000])
        await asyncio.to_thread(connection.recv, 1000)

    assert 200 == ask(open_page, "/")[0]
