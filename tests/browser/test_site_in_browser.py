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
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(PROJECT / "zensical.toml", folder)  # zensical builds beside it
    subprocess.run([sys.executable, PROJECT / "docs" / "generate.py", "--site", folder / "build" / "docs"], check=True)
    zensical = Path(sys.executable).with_name("zensical")
    subprocess.run([zensical, "build", "--strict"], cwd=folder, check=True, capture_output=True)
    # Where it will be: at a path of its host.
    (folder / "host").mkdir()
    (folder / "host" / "cronhpa").symlink_to(folder / "build" / "site")
    handler = functools.partial(_Quiet, directory=str(folder / "host"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/cronhpa"
        server.shutdown()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_barrier_and_none_scrolls_sideways(opened, site, axe, scheme, size):
    page = opened(site, scheme=scheme, size=size)
    for name in PAGES:
        page.goto(f"{site}/{name}")
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
