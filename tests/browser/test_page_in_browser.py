"""The page in a real browser: what people see, with which keys, on which screens."""

import asyncio
import re
import threading
from contextlib import contextmanager
from urllib.parse import quote

import msgspec
import pytest
from msgspec import Raw
from playwright.sync_api import expect

from browser.conftest import NARROW, WIDE, await_view
from cli.glance import named
from cronhpa.cli.objects.page_proxy import PageProxy
from cronhpa.core.model.instant import HOUR, MINUTE
from cronhpa.core.model.prices import Prices
from cronhpa.history.database.series import LoadSample, Series
from cronhpa.history.past.decisions import KeptDecision
from cronhpa.history.past.past_decision import PastDecision
from cronhpa.history.past.points import Point
from cronhpa.history.store import Store
from cronhpa.page.authentication import Authentication
from cronhpa.page.objects import Leader
from page.made_fleet import NOW, SPEC, MadeObjects, fleet_of, live
from page.served_page import served
from page.test_rights import Told
from testbed.wait import wait_until

VIEWS = {
    "fleet": ("", ".rows .row"),
    "object": ("object/prod/shop", ".panels .panel"),
    "calendar": ("calendar", ".edge"),
    "what-if": ("what-if/prod/shop", "textarea"),
}
# Each would do something if it were read as HTML, as an attribute or as a script.
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>\u202e\u2028{{7*7}}'


def go(page, view):
    path, shown = VIEWS[view]
    page.evaluate("(hash) => { location.hash = hash; }", f"#/{path}")
    page.wait_for_selector(shown)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", WIDE), ("dark", NARROW)])
def test_no_view_has_a_barrier_that_axe_finds(opened, url, axe, scheme, size):
    """Contrast, names, roles, keyboard: of every view, in light and dark, on a phone."""
    page = opened(url, scheme=scheme, size=size, bypass_csp=True)
    page.evaluate(axe)
    for view in VIEWS:
        go(page, view)
        page.wait_for_timeout(100)
        assert [] == barriers(page), view
    page.keyboard.press("?")
    assert [] == barriers(page), "the keys"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_way_in_has_no_barrier(opened, axe, scheme):
    with served(MadeObjects([]), rights=Told(), authentication=Authentication()) as url:
        page = opened(url, scheme=scheme, bypass_csp=True)
        page.wait_for_selector("#token")
        page.evaluate(axe)
        assert [] == barriers(page)
    opened.wrong.clear()


def test_whoever_needs_a_person_comes_first_and_filters_find_the_rest(opened, url):
    page = opened(url)
    first = page.locator(".rows .row").first
    expect(first).to_contain_text("OtherOwner")
    expect(first).to_contain_text("delete it or this object")

    page.fill("#search", "shop team-03")
    expect(page.locator(".count")).to_have_text(re.compile(r"^\d of 301$"))
    page.fill("#search", "")
    page.select_option("select[aria-label=Namespace]", "prod")
    expect(page.locator(".rows .row")).to_have_count(1)
    page.select_option("select[aria-label=Namespace]", "")
    page.click("[data-chip=OtherOwner]")
    expect(page.locator("[data-chip=OtherOwner]")).to_have_attribute("aria-pressed", "true")
    assert {"OtherOwner"} == set(page.locator(".rows .c-status").all_text_contents())


@pytest.mark.slow
def test_ten_thousand_objects_are_as_many_rows_of_the_document_as_fit_the_screen(opened):
    with served(MadeObjects(fleet_of(10_000))) as url:
        page = opened(url)
        page.wait_for_selector(".rows .row")
        assert page.locator(".rows .row").count() < 60
        expect(page.locator("#grid")).to_have_attribute("aria-rowcount", "10001")

        page.focus("#grid")
        page.keyboard.press("End")
        expect(page.locator(".row.active")).to_have_attribute("aria-rowindex", "10001")
        assert page.locator(".rows .row").count() < 60
        page.fill("#search", "billing-09985")
        expect(page.locator(".rows .row")).to_have_count(1)


def test_keys_reach_everything(opened, url):
    page = opened(url)
    page.wait_for_selector(".rows .row")
    page.keyboard.press("/")
    page.keyboard.type("prod/shop")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".row.active")).to_contain_text("shop")
    page.keyboard.press("Enter")
    page.wait_for_selector(".panels .panel")
    expect(page.locator("h1")).to_have_text("shop")

    page.keyboard.press("c")
    page.wait_for_selector(".edge")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("Escape")
    page.wait_for_selector(".rows .row")


def test_any_instant_of_the_picture_says_what_was_decided_then(opened, url):
    """On Monday from 14:20 on an override held for three hours, two days before now."""
    page = opened(url)
    go(page, "object")
    sentence = page.locator("#sentence")
    expect(sentence).to_contain_text("(now)")
    page.focus(".picture")
    for _ in range(44):
        page.keyboard.press("Shift+ArrowLeft")
    expect(sentence).to_contain_text("Mon")
    expect(sentence).to_contain_text("decided by Override")
    page.keyboard.press("Enter")
    expect(page.locator(".explained")).to_contain_text("INC-4711")

    page.keyboard.press("n")
    for _ in range(48):
        page.keyboard.press("Shift+ArrowRight")
    expect(sentence).to_contain_text("34")
    expect(sentence).to_contain_text("Schedule/sale")


@pytest.mark.parametrize("view", ["object", "what-if"])
def test_whoever_waits_for_the_first_answer_reads_that_it_is_computed(opened, url, view):
    """Found: nothing, and an ellipsis, while the first worker process started."""
    page, held = opened(url), []
    page.wait_for_selector(".rows .row")
    page.route("**/api/objects/**", lambda route: held.append(route))  # noqa: PLW0108 - it takes no builtin
    path, shown = VIEWS[view]
    page.evaluate("(hash) => { location.hash = hash; }", f"#/{path}")

    expect(page.locator("p.wait")).to_contain_text("being computed")

    while not held:  # the text may be there before Playwright hands over the request
        page.wait_for_timeout(10)
    held.pop().continue_()
    page.wait_for_selector(shown)
    expect(page.locator("p.wait")).to_have_count(0)


def test_an_object_of_this_minute_is_shown_with_the_little_that_is_known(opened, tmp_path):
    """One point, one decision, no usual load; and one that was never decided at all."""
    store = Store(tmp_path / "history.db")
    store.decisions.record_points([("prod", "new", Point(NOW, 2, 2, 0.4, 1, 9, None))])
    store.loads.record([LoadSample(Series("prod", "new", "cpu"), NOW, 0.4)])
    store.close()
    body = named("plain")
    objects = MadeObjects([live("prod", "new", body["spec"], body["status"]), live("prod", "newer", SPEC, {})])
    with served(objects, store=tmp_path / "history.db") as url:
        await_view(f"{url}/api/objects/prod/new")
        page = opened(url)
        for name, told in (("new", "12 replicas"), ("newer", "has not been decided upon yet")):
            page.evaluate("(hash) => { location.hash = hash; }", f"#/object/prod/{name}")
            page.wait_for_selector(".panels .panel")
            expect(page.locator(".explained")).to_contain_text(f"prod/{name}")
            expect(page.locator(".explained")).to_contain_text(told)
            expect(page.locator("#banner")).to_be_hidden()
            expect(page.locator("canvas")).to_have_count(2)


def test_what_was_measured_some_minutes_before_says_when(opened, tmp_path):
    """A point stands for five minutes: "6 replicas, 2 ready (now)" was true before the last scale-up."""
    store = Store(tmp_path / "history.db")
    store.decisions.record_points([("prod", "plain", Point(NOW - 5 * MINUTE, 2, 2, 0.4, 1, 9, None))])
    store.close()
    body = named("plain")
    objects = MadeObjects([live("prod", "plain", body["spec"], body["status"])])
    with served(objects, store=tmp_path / "history.db") as url:
        await_view(f"{url}/api/objects/prod/plain")
        page = opened(url, hash="/object/prod/plain")
        expect(page.locator("#sentence")).to_contain_text("2 replicas, 2 ready, load 0.4 at 11:15")

        page.focus(".picture")
        page.keyboard.press("Home")
        # Found: a week before the first point, its replicas were told as those of then.
        expect(page.locator("#sentence")).to_have_text(re.compile("nothing is kept of this time$"))


def test_an_object_of_a_long_namespace_keeps_its_name_and_one_without_metrics_a_whole_sentence(opened, tmp_path):
    """The namespace hid the name; and the sentence began with a comma where no count was decided."""
    store = Store(tmp_path / "history.db")
    body = named("no-metric")
    status = {**body["status"], "desiredReplicas": None}
    past = PastDecision(NOW - HOUR, Raw(msgspec.json.encode({**body, "status": status})), Raw(b"{}"))
    store.decisions.record([KeptDecision("n" * 60, "checkout-service", "1", past)])
    store.close()
    objects = MadeObjects([live("n" * 60, "checkout-service", body["spec"], status)])
    with served(objects, store=tmp_path / "history.db") as url:
        await_view(f"{url}/api/objects/{'n' * 60}/checkout-service")
        page = opened(url)
        link = page.locator(".rows .c-name a")
        expect(link).to_have_text("checkout-service")
        assert link.evaluate("(node) => node.scrollWidth <= node.clientWidth + 1 && node.clientWidth > 80")
        assert link.evaluate(
            "(node) => node.getBoundingClientRect().right <= node.parentNode.getBoundingClientRect().right"
        )

        page.evaluate("(hash) => { location.hash = hash; }", f"#/object/{'n' * 60}/checkout-service")
        expect(page.locator("#sentence")).to_contain_text("no count was decided at")
        expect(page.locator(".plot-title").first).to_contain_text("nothing is recorded yet")


def test_the_mouse_reads_the_picture_too(opened, url):
    page = opened(url)
    go(page, "object")
    box = page.locator(".picture").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    expect(page.locator("#sentence")).to_contain_text("d ago")
    expect(page.locator(".cursor")).to_be_visible()
    assert 0 < page.locator("rect.lane").count()


def barriers(page):
    violations = page.evaluate("async () => (await axe.run()).violations")
    return [(violation["id"], [node["html"][:120] for node in violation["nodes"][:3]]) for violation in violations]


@pytest.mark.slow
def test_what_if_is_run_from_the_form_and_its_yaml_is_there_to_copy(opened, lived, axe):
    """Without a forecast and with a reconciliation a minute, as that is quick."""
    path, shop = lived
    spec = {**{key: field for key, field in SPEC.items() if key != "forecast"}, "syncPeriodSeconds": 60}
    with served(MadeObjects([live("prod", "shop", spec, shop.status)]), store=path, prices=Prices(pod=0.5)) as url:
        await_view(f"{url}/api/objects/prod/shop")
        page = opened(url, scheme="dark", bypass_csp=True)
        go(page, "what-if")
        yaml = page.locator("textarea")
        page.get_by_label("minReplicas").first.fill("6")
        expect(yaml).to_have_value(re.compile(r"\n  minReplicas: 6\n"))
        page.get_by_role("button", name="Decide the last week again").click()
        changed = page.locator(".outcome .mine")
        expect(changed).to_contain_text(re.compile(r"Changed.*\+\d+ %"))
        expect(page.locator(".outcome th", has_text="Cost")).to_be_visible()
        page.evaluate(axe)
        assert [] == barriers(page)
        page.set_viewport_size(NARROW)
        assert 0 >= page.locator(".scroll:has(> .outcome)").evaluate("node => node.scrollWidth - node.clientWidth")
        page.set_viewport_size(WIDE)

        yaml.fill(f"{yaml.input_value()}  forecasts: {{}}\n")
        page.get_by_role("button", name="Decide the last week again").click()
        expect(page.locator(".result .alert")).to_contain_text("forecasts: there is no such field")
        page.get_by_role("button", name="As it is", exact=True).click()
        expect(yaml).to_have_value(re.compile(r"\n  minReplicas: 3\n"))
        # Found: letters became `null`, so the field that was wrong was no longer there to be named.
        page.get_by_label("Target of cpu, percent").fill("eighty")
        expect(yaml).to_have_value(re.compile(r"averageUtilization: eighty\n"))
        # Found: once it was cleared, the next drawing of the form was without its field.
        page.get_by_label("Target of cpu, percent").fill("")
        page.get_by_role("button", name="Add a schedule").click()
        page.get_by_label("Target of cpu, percent").fill("70")
        expect(yaml).to_have_value(re.compile(r"averageUtilization: 70\n"))


@pytest.mark.slow
def test_a_caller_signs_in_and_sees_what_is_theirs(opened, lived):
    path, shop = lived
    body = named("plain")
    objects = MadeObjects([shop, live("secret", "vault", body["spec"], body["status"])])
    with served(objects, store=path, rights=Told(("prod", "")), authentication=Authentication()) as url:
        page = opened(url)
        page.get_by_label("Bearer token").fill("t-bob")
        page.click("text=Sign in >> nth=-1")
        expect(page.get_by_role("alert")).to_have_text("The API server does not know this token.")
        page.get_by_label("Bearer token").fill("t-anna")
        page.keyboard.press("Enter")
        page.wait_for_selector(".rows .row")

        expect(page.locator("#who")).to_have_text("anna")
        assert "vault" not in page.content()
        page.evaluate("location.hash = '#/object/secret/vault'")
        expect(page.locator(".empty")).to_have_text("there is no such object, or it is not for you")
        page.click("text=Sign out")
        expect(page.get_by_label("Bearer token")).to_be_visible()
        assert None is page.evaluate("sessionStorage.getItem('cronhpa-token')")
    # A browser logs each refused request.
    assert all("401" in text or "404" in text for text in opened.wrong)
    opened.wrong.clear()


def test_the_command_signs_a_browser_in_and_leaves_nothing_in_the_address(opened, lived):
    """The code is gone from the address and from the history; what the tab keeps is a session and no token."""
    made = MadeObjects([lived[1]])
    with served(made, rights=Told(("", "")), authentication=Authentication()) as page_url, signed_in(page_url) as proxy:
        page = opened(proxy.address.rstrip("/"), hash=proxy.sign_in_address.partition("#")[2])
        page.wait_for_selector(".rows .row")
        expect(page.locator("#who")).to_have_text("anna")
        assert f"{proxy.address}#/" == page.url
        kept = page.evaluate("() => JSON.stringify([{...sessionStorage}, {...localStorage}])")
        assert "t-anna" not in kept

        page.goto("about:blank")
        page.goto(proxy.sign_in_address)
        page.wait_for_selector(".rows .row")  # the code is spent; the tab has its session
        other = opened(proxy.address.rstrip("/"), hash=proxy.sign_in_address.partition("#")[2])
        expect(other.locator(".wrong")).to_contain_text("used already")
        assert f"{proxy.address}#/" == other.url
    opened.wrong[:] = [text for text in opened.wrong if "40" not in text]


@contextmanager
def signed_in(url):
    """The proxy of `cronhpa page` before a page, in a thread with an event loop of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def token():
        return "t-anna"

    async def started():
        proxy = PageProxy(url, token, lambda _why: None, clock=loop.time)
        await proxy.start()
        return proxy

    proxy = asyncio.run_coroutine_threadsafe(started(), loop).result(20)
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(proxy.close(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)


def test_arrows_and_enter_work_from_the_body(opened, url):
    page = opened(url)
    page.wait_for_selector(".rows .row")
    assert "BODY" == page.evaluate("document.activeElement.tagName")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".row.active")).to_have_attribute("aria-rowindex", "3")
    name = page.locator(".row.active a").text_content()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(name)


def test_all_times_are_in_one_zone_that_a_key_turns_to_utc(opened, url):
    """11:20 in Berlin is 10:20 UTC; the object's own schedules are in Berlin's time."""
    page = opened(url)
    go(page, "object")
    expect(page.locator("#zone")).to_have_text(re.compile("Times in Europe/Berlin"))
    expect(page.locator("#sentence")).to_contain_text("11:20 (now)")
    page.keyboard.press("z")
    expect(page.locator("#sentence")).to_contain_text("10:20 (now)")
    expect(page.locator(".explained")).to_contain_text("+00:00")
    expect(page.locator(".facts")).to_contain_text("its schedules are in Europe/Berlin")
    go(page, "calendar")
    expect(page.locator(".facts")).to_contain_text("times in UTC")


def test_planned_events_are_lanes_that_name_who_is_affected(opened, url):
    page = opened(url)
    go(page, "calendar")
    lane = page.locator(".event-lane").first
    expect(lane).to_contain_text("black-friday")
    expect(lane).to_contain_text("Fri 27 Nov 06:00 to Sat 28 Nov 00:00")
    lane.locator("summary").click()
    expect(lane.locator("li a").first).to_have_attribute("href", re.compile("#/object/team-"))
    expect(page.locator(".event-track i").first).to_be_visible()


@pytest.mark.parametrize("width", [1440, 800, 390])
def test_what_runs_at_its_maximum_says_so_with_its_metric_and_its_whole_name(opened, width):
    made = named("maxed")
    name = "ledger-reconciliation-worker-for-the-northern-region-0"
    with served(MadeObjects([*fleet_of(20), live("prod", name, made["spec"], made["status"])])) as address:
        page = opened(address, size={"width": width, "height": 800})
        row = page.locator(".rows .row").first
        expect(row).to_contain_text("Maxed")
        expect(row).to_contain_text("cpu: 981%/60%")
        expect(row).to_contain_text("197 replicas are asked for, and 12 are allowed, since Mon 23 Nov 10:40")
        expect(row.locator("a")).to_have_text(name)
        tail = row.locator(".cut-tail").bounding_box()
        assert (
            tail["x"] + tail["width"]
            <= row.locator("a").bounding_box()["x"] + row.locator("a").bounding_box()["width"] + 1
        )
        assert 0 >= page.evaluate("document.documentElement.scrollWidth - innerWidth")


def test_a_namespace_is_never_cut_to_nothing_by_a_long_name(opened):
    made = named("maxed")
    name = "a-service-with-a-very-long-name-that-somebody-generated-from-a-repository"
    with served(MadeObjects([live("team-a", name, made["spec"], made["status"])])) as address:
        page = opened(address, size={"width": 1440, "height": 800})
        assert 30 < page.locator(".rows .c-name .ns").evaluate("(node) => node.getBoundingClientRect().width")


def test_a_command_is_broken_between_its_words_alone(opened, url):
    """`kubectl cronhpa override shop -n prod --` and below it `min 9` was what a phone showed."""
    page = opened(url, size=NARROW, hash="/object/prod/shop")
    page.wait_for_selector(".commands .whole")
    heights = page.locator(".commands .whole").evaluate_all("(nodes) => nodes.map((node) => node.clientHeight)")
    assert max(heights) < 1.5 * min(heights)
    assert "kubectl cronhpa explain shop -n prod" in page.locator(".commands code").all_inner_texts()


@pytest.mark.parametrize(("width", "name"), [(1440, "working-hours"), (390, "working…")])
def test_a_lane_has_its_whole_name_where_there_is_room(opened, url, width, name):
    page = opened(url, size={"width": width, "height": 900}, hash="/object/prod/shop")
    page.wait_for_selector(".panels .panel")
    texts = page.locator(".lane-name").evaluate_all("(nodes) => nodes.map((node) => node.firstChild.textContent)")
    assert name in texts
    assert all(
        page.locator(".lane-name").evaluate_all(
            "(nodes) => nodes.map((node) => node.getBBox().width < node.parentNode.getBBox().width)"
        )
    )


DRAWN = """
() => {
  window.drawn = [];
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, ...more) {
    const over = x + this.measureText(text).width / 2 - this.canvas.width;
    if (this.textAlign === "center") window.drawn.push([text, over]);
    return fill.call(this, text, x, ...more);
  };
}
"""


def test_no_label_of_the_calendars_axis_is_cut_at_the_edge_of_a_phone(opened, url):
    """The week ends 11 hours after the last midnight: half of "Wed 2 Dec" lay outside."""
    page = opened(url, size=NARROW, hash="/calendar")
    page.wait_for_selector(".edge")
    page.evaluate(DRAWN)
    page.set_viewport_size({"width": 380, "height": 844})  # draws anew
    labels = wait_until(lambda: page.evaluate("window.drawn"), lambda drawn: len(drawn) > 3, within_s=180)

    assert "Mon 30 Nov" in {text for text, _ in labels}
    assert [] == [text for text, over in labels if text and over > 0]


@pytest.mark.parametrize("width", [1010, 1200])
def test_a_metric_that_is_unknown_is_not_cut_where_the_table_is_narrow(opened, width):
    made = named("maxed")
    status = msgspec.json.decode(msgspec.json.encode(made["status"]).replace(b"cpu: 981%/60%", b"cpu: <unknown>/60%"))
    with served(MadeObjects([*fleet_of(20), live("prod", "shop", made["spec"], status)])) as address:
        page = opened(address, size={"width": width, "height": 800})
        metric = page.locator(".rows .row", has_text="shop").locator(".c-metric")
        expect(metric).to_have_text("cpu: <unknown>/60%")
        assert 0 >= metric.evaluate("cell => cell.scrollWidth - cell.clientWidth")
        assert 0 >= page.locator(".rows").evaluate("rows => rows.firstChild.scrollWidth - rows.clientWidth")


@pytest.mark.slow
def test_ready_stands_first_and_the_other_conditions_are_folded(opened, url):
    page = opened(url)
    go(page, "object")
    expect(page.locator(".conditions tbody tr:visible")).to_have_count(1)
    expect(page.locator(".conditions tbody tr:visible")).to_contain_text("Ready")
    page.locator(".others summary").click()
    expect(page.get_by_text("ScalingActive")).to_be_visible()


@pytest.mark.slow
def test_the_yaml_to_copy_has_the_order_of_the_reference_and_no_defaults(opened, tmp_path):
    """As the API server has it: sorted by letter, with its defaults."""
    schedule = {
        "end": "0 18 * * *",
        "minReplicas": 4,
        "name": "day",
        "priority": 0,
        "start": "0 8 * * *",
        "suspend": False,
    }
    spec = {
        "maxReplicas": 9, "metrics": SPEC["metrics"], "minReplicas": 2, "mode": "Active",
        "scaleTargetRef": SPEC["scaleTargetRef"], "schedules": [schedule],
    }  # fmt: skip
    with served(MadeObjects([live("prod", "shop", spec, {})]), store=tmp_path / "none.db") as address:
        await_view(f"{address}/api/objects/prod/shop")
        page = opened(address)
        go(page, "what-if")
        page.get_by_label("leadTimeSeconds").first.fill("60")
        text = page.locator("textarea").input_value()
    found = re.findall(r"^ *(?:- )?([a-zA-Z]+):", text, re.MULTILINE)
    keys = [key for key in found if key in {*spec, *schedule, "leadTimeSeconds"} - {"name"}]
    assert [
        "scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "schedules", "start", "end", "minReplicas",
        "leadTimeSeconds",
    ] == keys  # fmt: skip


def test_a_replica_that_does_not_lead_says_so(opened):
    with served(MadeObjects(fleet_of(3), Leader(leads=False, holder="cronhpa-1"))) as url:
        page = opened(url)

        expect(page.locator("#banner")).to_contain_text("This replica does not lead")
        expect(page.locator("#banner")).to_contain_text("cronhpa-1 decides")


def hostile(value):
    """The same value with a hostile text wherever a text is that nothing is computed from."""
    kept = {"status", "type", "lastTransitionTime", "time", "until", "state", "source", "role", "rule", "schedule"}
    if isinstance(value, dict):
        return {key: field if key in kept else hostile(field) for key, field in value.items()}
    if isinstance(value, list):
        return [hostile(element) for element in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


def test_scripts_in_whatever_a_tenant_writes_stay_text(opened, lived):
    path, _ = lived
    body = named("contradictory")
    status = {
        **hostile({key: field for key, field in body["status"].items() if key not in {"memory", "lastScaleTime"}})
    }
    spec = {**SPEC, "override": {"minReplicas": 4, "until": "2026-11-26T00:00:00Z", "reason": HOSTILE}}
    spec["schedules"] = [{**schedule, "name": f"{schedule['name']}{HOSTILE[:40]}"} for schedule in SPEC["schedules"]]
    target = {"type": "AverageValue", "averageValue": "5"}
    spec["metrics"] = [{"type": "Pods", "pods": {"metric": {"name": HOSTILE}, "target": target}}]
    names = [HOSTILE, "shop"]
    objects = MadeObjects([live(name, f"x{HOSTILE}", spec, status) for name in names])
    with served(objects, store=path) as url:
        await_view(f"{url}/api/objects/shop/{quote(f'x{HOSTILE}', safe='')}")
        page = opened(url)
        page.wait_for_selector(".rows .row")
        assert 0 == page.locator("main img, main script").count()
        expect(page.locator(".rows")).to_contain_text("<script>alert(2)</script>\\u202e\\u2028{{7*7}}")
        page.locator(".rows .row a").first.click()
        page.wait_for_selector(".panels .panel")
        expect(page.locator("h1")).to_have_text(f"x{HOSTILE}".replace("\u202e\u2028", "\\u202e\\u2028"))
        page.click(".object-head .button")
        page.wait_for_selector("textarea")
        page.evaluate("location.hash = '#/calendar'")
        page.wait_for_selector(".edge, .empty")
        page.locator(".edge summary").first.click()
        assert 0 == page.locator("main img, main script, main iframe").count()
