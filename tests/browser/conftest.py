"""A real browser for the tests of this folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect, sync_playwright

from browser.chromium import ARGUMENTS, PATIENT_MS, chromium
from page.made_fleet import MadeObjects, fleet_of, lived_week
from page.served_page import served

expect.set_options(timeout=PATIENT_MS)

WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    """Of a module and no longer: while it is open, no other event loop can run in this thread."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not there: it brings the browser")
    binary = chromium()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=str(binary.path),
            args=ARGUMENTS,
            env={**os.environ, **binary.environment},
            timeout=PATIENT_MS,
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def axe(browser):
    return chromium().axe.read_text("utf-8")


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> tuple[Path, object]:
    path = tmp_path_factory.mktemp("browser") / "history.db"
    return path, lived_week(path, period=5 * 60 * 10**9)


def await_view(url):
    """
    Asks for a view of the page until its worker has started, which may take longer than a view on a busy machine.

    A browser would take each refusal until then for an error of the page.
    """
    for _ in range(10):
        try:
            urlopen(url, timeout=PATIENT_MS / 1000).close()
        except HTTPError:
            continue
        return


@pytest.fixture(scope="module")
def url(lived):
    """A page without authentication, of 300 objects and the one that lived a week."""
    path, shop = lived
    with served(MadeObjects([shop, *fleet_of(300)]), store=path) as address:
        await_view(f"{address}/api/objects/prod/shop")
        yield address


@pytest.fixture
def opened(browser):
    """Opens a page of the browser; at the end of the test nothing may have gone wrong in it."""
    wrong, contexts = [], []

    def open_page(address, *, scheme="light", size=None, hash="", **more):  # noqa: A002 - as browsers call it
        context = browser.new_context(
            viewport=size or WIDE, color_scheme=scheme, timezone_id="Europe/Berlin", locale="en-GB", **more
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENT_MS)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.url.startswith(address) else wrong.append(request.url))
        page.goto(f"{address}/{hash and '#'}{hash}")
        return page

    open_page.wrong = wrong  # type: ignore[attr-defined]  # a fixture that is called, with what it noted
    yield open_page
    for context in contexts:
        context.close()
    assert [] == wrong
