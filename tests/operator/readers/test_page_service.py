"""
cronhpa.operator.readers.page_service: the page of an operator: its objects, the rights of callers, and valid settings.
"""

import asyncio
import ssl

import aiohttp
import msgspec
import pytest
import trustme
from msgspec.structs import replace
from pydantic import ValidationError
from readers.test_access import ANNA, Clock, Reviews

from cronhpa.core.model.calendar import Calendar
from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.spec import ControllerOptions, OnceWindow, Schedule
from cronhpa.kube.errors import ClusterError
from cronhpa.operator.leader.replica import OnlyReplica
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.readers import page_service
from cronhpa.operator.readers.access import AccessReviews
from cronhpa.operator.readers.page_service import InventoryObjects, ReviewedRights, page_server
from cronhpa.operator.settings import Settings
from cronhpa.page.effective_spec import effective_spec
from cronhpa.page.objects import LiveObject
from cronhpa.page.rights import BusyError, NotAuthenticatedError, UnavailableError
from page.made_fleet import COMPANY, MARKETING, OF_CALENDARS

HERE = "127.0.0.1"
SPEC = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}, "maxReplicas": 4}


def rights(clock=None, **more):
    reviews = Reviews({"t-anna": ANNA}, **more)
    return reviews, ReviewedRights(AccessReviews(reviews, clock or Clock()))


async def test_a_token_names_its_caller_with_groups_and_extra_as_the_api_server_knows_them():
    reviews, of = rights(rights=[("anna", "prod", "")])
    caller = await of.caller("t-anna", HERE)

    assert ("anna", "u-1", ("team-shop",), {"scopes": ["a"]}) == (
        caller.username, caller.uid, caller.groups, caller.extra,
    )  # fmt: skip
    assert [True, False] == [await of.may_get(caller, "prod", ""), await of.may_get(caller, "dev", "")]
    assert [["team-shop"], ["team-shop"]] == [
        list(spec["groups"]) for kind, spec in reviews.asked if kind == "subjectaccessreviews"
    ]


async def test_a_token_of_nobody_is_refused():
    with pytest.raises(NotAuthenticatedError):
        await rights()[1].caller("t-bob", HERE)


async def test_made_up_tokens_take_nothing_from_those_that_are_known():
    """Twenty strangers at once are reviewed, then one every 200 ms; a known token after half a minute at once."""
    clock = Clock()
    _, of = rights(clock)
    await of.caller("t-anna", HERE)
    clock.now += 31
    refused = 0
    for number in range(40):
        try:
            await of.caller(f"made up {number}", HERE)
        except BusyError:
            refused += 1
        except NotAuthenticatedError:
            pass

    assert 20 == refused
    assert "anna" == (await of.caller("t-anna", HERE)).username


async def test_a_token_that_is_taken_back_is_a_strangers_within_half_a_minute():
    clock = Clock()
    reviews, of = rights(clock)
    await of.caller("t-anna", HERE)
    reviews.tokens.clear()
    clock.now += 31

    with pytest.raises(NotAuthenticatedError):
        await of.caller("t-anna", HERE)


async def test_an_api_server_that_does_not_answer_shows_nothing_to_anybody():
    class Down(Reviews):
        async def review(self, *_):
            raise ClusterError(0, "Unreachable", "no route")

    with pytest.raises(UnavailableError):
        await ReviewedRights(AccessReviews(Down(), Clock())).caller("t-anna", HERE)


def test_the_page_shows_what_the_watches_told():
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    meta = {"name": "shop", "namespace": "prod", "uid": "u", "creationTimestamp": "2026-11-23T08:00:00Z"}
    meta |= {"resourceVersion": "7", "generation": 3}
    inventory.put({"metadata": meta, "spec": {**SPEC, "timeZone": "Asia/Kolkata"}, "status": {"currentReplicas": 2}})

    shown = InventoryObjects(inventory, OnlyReplica())

    (mark,) = shown.marks()
    live = shown.get(*mark.key)
    assert (live.key, live.uid, live.generation, live.version) == mark[:4]
    assert ("Asia/Kolkata", 3, {"currentReplicas": 2}) == (live.zone, live.generation, live.body()["status"])
    assert SPEC.items() <= live.body()["spec"].items()
    assert (None, {"prod"}, True) == (shown.get("prod", "none"), shown.namespaces(), shown.leader().leads)


@pytest.mark.parametrize("path", ["/api/fleet", "/api/calendar"])
async def test_a_hundred_requests_of_an_account_without_rights_make_each_object_once(path, monkeypatch):
    """20 objects: they were made anew at each request, 2,000 times."""
    made = []

    def live_object(*fields):
        made.append(fields)
        return LiveObject(*fields)

    monkeypatch.setattr(page_service, "LiveObject", live_object)
    meta = {"uid": "u", "creationTimestamp": "2026-11-23T08:00:00Z", "resourceVersion": "7", "generation": 3}
    bodies = [
        {"metadata": {**meta, "name": f"shop-{number}", "namespace": f"team-{number % 4}"}, "spec": SPEC, "status": {}}
        for number in range(20)
    ]
    page = opened(*bodies, reviews=Reviews({"t-anna": ANNA}), page_port=0)
    running = asyncio.create_task(page.run())
    try:
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer t-anna"}) as client:
            for _ in range(100):
                async with client.get(f"http://127.0.0.1:{page.address[1]}{path}") as got:
                    assert (200, False) == (got.status, b"shop" in await got.read())
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert 20 == len(made)


# --- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"page_host": "0.0.0.0"}, "clear text"),
        ({"page_host": "0.0.0.0", "page_insecure": True, "page_authentication": "none"}, "127.0.0.1"),
        ({"page_host": "localhost"}, "an address"),
        ({"page_authentication": "proxy"}, "a proxy's headers"),
        ({"page_tls_cert_file": "tls.crt"}, "stated together"),
        ({"page_client_ca_file": "ca.crt"}, "needs TLS"),
        ({"page_user_header": "X User"}, "page_user_header"),
        ({"page_proxy_names": "page-proxy"}, "CRONHPA_PAGE_CLIENT_CA_FILE"),
        ({"page_groups_separator": ";"}, "page_groups_separator"),
    ],
)
def test_settings_of_the_page_that_protect_nothing_are_refused(stated, told):
    with pytest.raises(ValidationError, match=told):
        Settings(page_port=0, **stated)


def opened(*bodies, reviews=None, **stated):
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    for body in bodies:
        inventory.put(body)
    objects = InventoryObjects(inventory, OnlyReplica())
    return page_server(Settings(**stated), objects, AccessReviews(reviews or Reviews(), Clock()), lambda: SECOND, 1024)


def test_without_a_port_there_is_no_page():
    assert None is opened()


def test_the_page_is_at_loopback_unless_settings_say_more():
    assert "127.0.0.1" == opened(page_port=0).address[0]


@pytest.mark.parametrize("path", ["/api/objects/prod/shop", "/api/calendar"])
async def test_the_page_asks_by_the_settings_of_its_operator(path):
    """The clock is at 0:00:01; at 2:00 a window opens, a lead of start-up time and sync period ahead."""
    meta = {"name": "shop", "namespace": "prod", "uid": "u", "creationTimestamp": "2026-11-23T08:00:00Z"}
    night = {"name": "night", "start": "0 2 * * *", "durationMinutes": 60, "minReplicas": 3}
    body = {"metadata": {**meta, "resourceVersion": "7"}, "spec": {**SPEC, "schedules": [night]}, "status": {}}

    async def begin_of_lead(sync_period):
        page = opened(body, page_port=0, page_authentication="none", sync_period=sync_period)
        running = asyncio.create_task(page.run())
        try:
            async with aiohttp.ClientSession() as client:
                document = {}
                # Until its worker has started, the page asks callers to come again.
                while not {"instants", "ahead"} & document.keys():
                    async with client.get(f"http://127.0.0.1:{page.address[1]}{path}") as got:
                        document = await got.json()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if "instants" in document:
            return next(instant["at"] for instant in document["instants"] if instant["leads"])
        return next(lane[1] for lane in document["ahead"]["lanes"] if lane[3])

    assert 120 <= await begin_of_lead("15s") - await begin_of_lead("180s")


def test_a_secret_that_can_be_guessed_is_refused(tmp_path):
    (tmp_path / "secret").write_text("short\n")

    with pytest.raises(OSError, match="at least 16"):
        opened(page_port=0, page_authentication="proxy", page_proxy_secret_file=tmp_path / "secret")


def test_other_machines_come_in_by_tls(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "tls.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    files = {"page_tls_cert_file": tmp_path / "tls.crt", "page_tls_key_file": tmp_path / "tls.key"}

    assert opened(page_port=0, page_host="0.0.0.0", page_client_ca_file=tmp_path / "ca.crt", **files)
    (tmp_path / "tls.crt").write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        opened(page_port=0, **files)


def test_the_page_knows_the_calendars_that_an_object_names_and_tells_its_events_apart():
    inventory = Inventory(ControllerOptions(), lambda _: None, lambda _: None)
    inventory.read_days_of({"company": COMPANY, "marketing": MARKETING, "other": Calendar("other", ())})
    event = Schedule("Event/sale", OnceWindow("2026-11-27T06:00", "2026-11-28T00:00", "UTC"), floor=4)
    inventory.expand_with(lambda spec, *_: replace(spec, schedules=(*spec.schedules, event)))
    meta = {"name": "shop", "namespace": "prod", "uid": "u", "creationTimestamp": "2026-11-23T08:00:00Z"}
    spec = {**SPEC, **OF_CALENDARS, "maxReplicas": 60}
    inventory.put({"metadata": {**meta, "resourceVersion": "7", "generation": 3}, "spec": spec, "status": {}})

    shown = InventoryObjects(inventory, OnlyReplica())

    live = shown.get("prod", "shop")
    assert (COMPANY, MARKETING) == live.calendars
    assert (event,) == msgspec.msgpack.decode(live.events, type=tuple[Schedule, ...])
    assert {"company", "marketing", "other"} == {calendar.name for calendar in shown.calendars()}
    effective = effective_spec(live.body()["spec"], "prod", ControllerOptions(), live.events, live.calendars)
    assert inventory.items["prod", "shop"].served.spec.schedules == effective.schedules
