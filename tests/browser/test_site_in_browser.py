"""The documentation site in a real browser: light and dark, wide and narrow, no barrier and no foreign request."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import site_of_releases

from browser.conftest import NARROW, WIDE

pytestmark = pytest.mark.long

PROJECT = Path(__file__).parents[2]
# A page of each kind: text and commands, long tables, pictures, code.
PAGES = (
    "",
    "tutorial/",
    "comparison/",
    "reference/settings/",
    "reference/resource/",
    "page/",
    "how-to/forecasting-method/",
)
# The theme's own: a table that is wider than a phone scrolls within itself, which Chromium lets the keyboard do.
OF_THE_THEME = {"scrollable-region-focusable"}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it, published as a second release."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(PROJECT / "zensical.toml", folder)  # zensical builds beside it
    subprocess.run([sys.executable, PROJECT / "docs" / "generate.py", "--site", folder / "build" / "docs"], check=True)
    zensical = Path(sys.executable).with_name("zensical")
    subprocess.run([zensical, "build", "--strict"], cwd=folder, check=True, capture_output=True)
    # Where it will be: at a path of its host.
    pages = folder / "host" / "cronhpa"
    pages.mkdir(parents=True)
    for version in ("0.1.0", "0.2.0"):
        site_of_releases.publish(folder / "build" / "site", pages, version)
    handler = functools.partial(_Quiet, directory=str(folder / "host"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/cronhpa"
        server.shutdown()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_barrier_and_none_scrolls_sideways(opened, site, axe, scheme, size):
    page = opened(site, scheme=scheme, size=size)
    page.wait_for_url(f"{site}/latest/")  # where the root of the host forwards to
    for name in PAGES:
        page.goto(f"{site}/latest/{name}")
        page.wait_for_selector("article h1")
        page.evaluate(axe)
        violations = page.evaluate("async () => (await axe.run({runOnly: ['wcag2a', 'wcag2aa']})).violations")

        assert [] == [
            (name, violation["id"], violation["nodes"][0]["html"])
            for violation in violations
            if violation["id"] not in OF_THE_THEME
        ]
        wider = "document.documentElement.scrollWidth > innerWidth"
        assert not page.evaluate(wider), name


def test_the_menu_of_versions_leads_to_the_page_of_another_release(opened, site):
    page = opened(site)
    page.wait_for_url(f"{site}/latest/")
    page.goto(f"{site}/latest/tutorial/")
    menu = page.locator(".md-version")
    menu.hover()
    menu.get_by_role("link", name="0.1").click()

    page.wait_for_url(f"{site}/0.1/tutorial/")
