"""cronhpa.kube.client, cronhpa.kube.informer, cronhpa.kube.credentials, cronhpa.kube.errors: a bad API server."""

import asyncio
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from socket import TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cronhpa.kube.client import path_of
from cronhpa.kube.credentials import keepalive_socket
from cronhpa.kube.errors import ClusterError
from cronhpa.kube.informer import Informer
from cronhpa.kube.metrics import list_pod_metrics
from cronhpa.kube.pods import ObjectMeta
from cronhpa.kube.scale import Workload
from kube.fake_api import FakeApi, answering

DEPLOYMENTS = "/apis/apps/v1/deployments"


def deployment(name, version, replicas=1):
    meta = {"name": name, "namespace": "prod", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"replicas": replicas}}


def listing(*items, version=10):
    return answering({"metadata": {"resourceVersion": str(version)}, "items": list(items)})


async def eventually(check, seconds=60.0):
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 - what is waited for is anybody's state, not an event
            await asyncio.sleep(0.01)


@given(st.text() | st.from_regex(r"[A-Za-z0-9_.~*:-]+", fullmatch=True))
@example("a/../b?c#d%2e")
@example("shop\n")
def test_whatever_a_segment_of_a_path_is_it_is_quoted_as_one(text):
    assume(text not in {"", ".", ".."})

    assert "/apis/" + quote(text, safe="*:") == path_of("apis", text)


@pytest.mark.parametrize("text", ["", ".", ".."])
def test_a_name_that_would_leave_its_segment_is_refused(text):
    with pytest.raises(ClusterError, match="is no name"):
        path_of("apis", text)


class Watched:
    """A running informer of the Deployments of a fake API."""

    def __init__(self, api):
        self.api, self.gone = api, []

    async def __aenter__(self):
        self._context = self.api.client()
        client = await self._context.__aenter__()
        self.informer = Informer(client, DEPLOYMENTS, Workload, self._on_change)
        self._task = asyncio.create_task(self.informer.run())
        return self

    async def __aexit__(self, *error):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._context.__aexit__(*error)

    def _on_change(self, _namespace, name, changed):
        if changed is None:
            self.gone.append(name)

    def replicas(self, name):
        known_object = self.informer.objects.get(("prod", name))
        return None if known_object is None else known_object.spec.replicas


async def test_each_line_of_a_watch_tells_that_the_api_server_answers():
    """A fleet that only watches asks for nothing else for minutes."""
    api, told = FakeApi(), asyncio.Event()

    async def two_lines(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await told.wait()
        await response.write(b"second\n")
        return response

    api.watch_answers[DEPLOYMENTS] = two_lines
    async with api.client() as client:
        answered = []
        async for _ in client.watch(DEPLOYMENTS, "10", idle_seconds=5.0):
            answered.append(client.succeeded_at)
            told.set()
    first, second = answered
    assert first < second


async def test_an_informer_lists_and_then_watches():
    api = FakeApi()
    api.answers[DEPLOYMENTS] = listing(deployment("shop", 5))
    api.watches[DEPLOYMENTS] = [[{"type": "MODIFIED", "object": deployment("shop", 11, replicas=3)}]]

    async with Watched(api) as watched:
        await eventually(lambda: watched.replicas("shop") == 3)


async def test_an_object_that_could_not_be_read_any_more_is_dropped_with_its_deletion():
    """Found: it stayed as it was last read until the next list, up to twelve minutes."""
    api = FakeApi()
    api.answers[DEPLOYMENTS] = listing(deployment("shop", 5), deployment("odd", 6))
    unreadable = {**deployment("odd", 11), "spec": {"replicas": "many"}}
    api.watches[DEPLOYMENTS] = [[{"type": "MODIFIED", "object": unreadable}, {"type": "DELETED", "object": unreadable}]]

    async with Watched(api) as watched:
        await eventually(lambda: watched.gone == ["odd"])
        assert watched.replicas("shop") is not None


async def test_the_next_list_drops_objects_that_were_deleted_while_nobody_watched():
    api = FakeApi()
    lists = [listing(deployment("shop", 5), deployment("old", 6)), listing(deployment("shop", 5))]

    async def answer(request):
        return await lists.pop(0)(request)

    api.answers[DEPLOYMENTS] = answer
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
    api.watches[DEPLOYMENTS] = [[expired], []]

    async with Watched(api) as watched:
        await eventually(lambda: watched.gone == ["old"])

        assert 1 == watched.replicas("shop")


async def test_a_list_whose_continuation_expires_is_begun_anew_and_its_first_page_drops_nothing():
    """The second page is 410 Gone: its objects stay known until a complete list lacks them."""
    api, asked = FakeApi(), []
    first, second = listing(deployment("shop", 5), deployment("late", 6)), listing(deployment("shop", 5))
    page = answering({"metadata": {"resourceVersion": "11", "continue": "more"}, "items": [deployment("shop", 5)]})
    gone = answering({"kind": "Status", "code": 410, "reason": "Expired", "message": "continue is too old"}, status=410)
    answers = [first, page, gone, second]

    async def answer(request):
        asked.append("continue" in request.query)
        return await (answers.pop(0) if answers else second)(request)

    api.answers[DEPLOYMENTS] = answer
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
    api.watches[DEPLOYMENTS] = [[expired], []]

    async with Watched(api) as watched:
        await eventually(lambda: len(asked) == 3)
        assert 1 == watched.replicas("late")
        await eventually(lambda: watched.gone == ["late"])

    assert [False, False, True, False] == asked[:4]


EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}


def one_after_the_other(*lists):
    """An answer that gives these lists in order, and the last one from then on."""
    left = [*lists]

    async def answer(request):
        return await (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


@pytest.mark.parametrize("backup", [280, 400], ids=["before the last list", "after the last list"])
async def test_a_list_of_a_store_that_was_restored_is_believed(backup, caplog):
    """
    Listed at 300 and watched to 500: `shop` goes from 3 to 9 replicas, `new` is made, `old` is deleted.

    The store is restored to a backup: its versions are lower, and its objects are the true ones.
    """
    api = FakeApi()
    restored = listing(deployment("shop", 250, replicas=3), deployment("old", 260), version=backup)
    api.answers[DEPLOYMENTS] = one_after_the_other(
        listing(deployment("shop", 250, replicas=3), deployment("old", 260), version=300), restored
    )
    events = [
        {"type": "MODIFIED", "object": deployment("shop", 480, replicas=9)},
        {"type": "ADDED", "object": deployment("new", 490)},
        {"type": "DELETED", "object": deployment("old", 500)},
    ]
    after = [{"type": "MODIFIED", "object": deployment("old", backup + 1, replicas=2)}]
    api.watches[DEPLOYMENTS] = [[*events, EXPIRED], after]

    async with Watched(api) as watched:
        await eventually(lambda: watched.replicas("old") == 2)

        assert (3, None) == (watched.replicas("shop"), watched.replicas("new"))
        assert ["old", "new"] == watched.gone

    assert f"{DEPLOYMENTS} went back to version {backup}: it is taken anew" in caplog.text


async def test_a_store_that_has_counted_beyond_what_was_seen_since_its_restore_is_believed():
    """Restored to 400 it has reached 600 again by the next list: `shop` is of 390, and known at 480."""
    api = FakeApi()
    api.answers[DEPLOYMENTS] = one_after_the_other(
        listing(deployment("shop", 290, replicas=3), version=300),
        listing(deployment("shop", 390, replicas=4), version=600),
    )
    api.watches[DEPLOYMENTS] = [[{"type": "MODIFIED", "object": deployment("shop", 480, replicas=9)}, EXPIRED], []]

    async with Watched(api) as watched:
        await eventually(lambda: watched.replicas("shop") == 4)

    assert ["resourceVersion=300", "resourceVersion=600"] == [
        f"resourceVersion={query['resourceVersion']}" for _, _, query in api.asked if "watch" in query
    ]


async def test_what_bookmarks_alone_have_told_shows_a_restore_as_well(caplog):
    api = FakeApi()
    api.answers[DEPLOYMENTS] = one_after_the_other(
        listing(deployment("shop", 250), version=300), listing(deployment("shop", 250), version=400)
    )
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "500"}}}
    api.watches[DEPLOYMENTS] = [[bookmark, EXPIRED], []]

    async with Watched(api):
        await eventually(lambda: "went back to version 400" in caplog.text)


async def test_a_write_while_a_list_is_on_its_way_is_not_undone_by_the_list():
    """The second list is made at 400 and arrives after a write that is answered with 410."""
    api = FakeApi()
    first = listing(deployment("shop", 290, replicas=3), version=300)
    second: Any = None

    async def answer(request):
        if second is None:
            return await first(request)
        assert watched.informer.note(ObjectMeta("shop", "prod", resource_version="410"))
        return await second(request)

    api.answers[DEPLOYMENTS] = answer
    proof = {"type": "ADDED", "object": deployment("later", 411)}
    api.watches[DEPLOYMENTS] = [[{"type": "ADDED", "object": deployment("other", 350)}, EXPIRED], [proof]]

    async with Watched(api) as watched:
        await eventually(lambda: watched.replicas("other") == 1)
        second = listing(deployment("shop", 390, replicas=7), deployment("other", 350), version=400)
        await eventually(lambda: watched.replicas("later") == 1)

        assert 3 == watched.replicas("shop")


async def test_an_older_state_than_the_one_known_is_ignored():
    """A stale API server must not undo newer states."""
    api = FakeApi()
    api.answers[DEPLOYMENTS] = listing(deployment("shop", 20, replicas=7))
    stale, other = deployment("shop", 15, replicas=2), deployment("done", 21)
    api.watches[DEPLOYMENTS] = [[{"type": "MODIFIED", "object": stale}, {"type": "ADDED", "object": other}]]

    async with Watched(api) as watched:
        await eventually(lambda: watched.replicas("done") == 1)

        assert 7 == watched.replicas("shop")


async def test_bookmarks_with_odd_bodies_and_objects_that_cannot_be_read_end_nothing():
    api = FakeApi()
    api.answers[DEPLOYMENTS] = listing(
        {"metadata": {"name": "odd"}, "spec": {"replicas": "many"}}, deployment("shop", 5)
    )
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}, "spec": {"replicas": None}}}
    broken = {"type": "MODIFIED", "object": {"metadata": {"name": "shop"}, "spec": []}}
    after = {"type": "MODIFIED", "object": deployment("shop", 13, replicas=4)}
    api.watches[DEPLOYMENTS] = [[bookmark, broken, after]]

    async with Watched(api) as watched:
        await eventually(lambda: watched.replicas("shop") == 4)

        assert 0 == watched.informer.restarts


async def test_a_watch_that_fails_is_started_again():
    api = FakeApi()
    api.answers[DEPLOYMENTS] = listing(deployment("shop", 5))
    failing = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is away"}}
    api.watches[DEPLOYMENTS] = [[failing], [{"type": "MODIFIED", "object": deployment("shop", 30, replicas=9)}]]

    async with Watched(api) as watched:
        await eventually(lambda: watched.replicas("shop") == 9)


@pytest.mark.parametrize("text", ["", "{", '{"items": ', "<html>gateway</html>", '{"items": 3}'])
async def test_a_malformed_answer_is_an_error_and_not_an_empty_list(text):
    api = FakeApi()
    api.answers["/apis/metrics.k8s.io/v1beta1/namespaces/prod/pods"] = answering(text)

    async with api.client() as client:
        listed = await list_pod_metrics(client, "prod")

    assert "Malformed" == listed.reason


async def test_an_api_that_hangs_is_given_up_after_the_timeout():
    api = FakeApi()

    async def hang(_):
        await asyncio.sleep(30)
        return web.Response()

    api.answers["/slow"] = hang

    async with api.client(timeout_seconds=0.2) as client:
        with pytest.raises(ClusterError) as caught:
            await client.read("/slow")

    assert 0 == caught.value.status


async def test_a_refused_token_is_read_anew_once(tmp_path):
    api = FakeApi()
    tries = []

    async def picky(request):
        tries.append(request.headers.get("Authorization"))
        return web.Response(text="{}", status=401 if len(tries) == 1 else 200)

    api.answers["/picky"] = picky

    async with api.client() as client:
        client.configuration.api_key = {"BearerToken": "bearer rotated"}
        assert b"{}" == await client.read("/picky")

    assert [None, "Bearer rotated"] == tries


async def test_a_refusal_has_the_reason_and_message_of_the_api_server():
    api = FakeApi()

    async with api.client() as client:
        with pytest.raises(ClusterError) as caught:
            await client.read("/nowhere")

    assert (404, "NotFound", "/nowhere not found") == (caught.value.status, caught.value.reason, caught.value.message)


@pytest.mark.parametrize("own", ["10.244.0.1", "[fd00::1]"])
async def test_equal_failures_of_a_server_behind_the_api_server_have_equal_words(own):
    """
    The port of the API server's own end differs each time. Found: with each reconciliation the status of each object
    that asked an adapter was written, and had a new event, for as long as connections to it were reset.
    """
    api, ports = FakeApi(), iter((37624, 52342))

    async def refusing(_):
        text = f"error trying to reach service: read tcp {own}:{next(ports)}->10.244.1.5:6443: connection reset by peer"
        return web.json_response({"kind": "Status", "message": text, "reason": "ServiceUnavailable"}, status=503)

    api.answers["/adapter"] = refusing
    said = []
    async with api.client() as client:
        for _ in range(2):
            with pytest.raises(ClusterError) as caught:
                await client.read("/adapter")
            said.append(caught.value.message)

    assert [f"error trying to reach service: read tcp {own}->10.244.1.5:6443: connection reset by peer"] * 2 == said


@pytest.mark.parametrize(
    "body",
    [b'{"message": "\xd1"}', b'{"a": ' + b"[" * 100_000, b"\xff", b""],
    ids=["no UTF-8", "lists in lists", "no text", "nothing"],
)
async def test_a_refusal_that_cannot_be_read_is_one_all_the_same(body):
    """The API server forwards answers of other servers: a metrics adapter may send any body with its 503."""
    api = FakeApi()

    async def refusing(_):
        return web.Response(body=body, status=503)

    api.answers["/adapter"] = refusing
    async with api.client() as client:
        with pytest.raises(ClusterError) as caught:
            await client.read("/adapter")

    assert (503, "HTTP503") == (caught.value.status, caught.value.reason)
    caught.value.message.encode()


async def test_a_tls_connection_is_read_through_a_small_buffer():
    """asyncio's own is 256 KiB; 64 connections with it are 16 MiB, with ours 4."""
    async with FakeApi().client():
        connection = SSLProtocol(asyncio.get_running_loop(), asyncio.Protocol(), ssl.create_default_context(), None)

    assert 64 * 1024 == len(connection._ssl_buffer)  # type: ignore[attr-defined]  # noqa: SLF001  # asyncio's own, and the only trace


def test_a_silent_peer_is_asked_whether_it_is_there():
    """A watch may be silent for minutes. TCP keepalive finds a dead peer: after 30 s, three probes 5 s apart."""
    address = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 0))
    with keepalive_socket(address) as sock:
        asked = [sock.getsockopt(socket.IPPROTO_TCP, option) for option in (TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT)]

        assert 1 == sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert [30, 5, 3] == asked
