"""
What the page costs with 10,000 objects: seconds in a real browser, and memory of its processes.

    make bench-page            # OBJECTS=10000
"""

from __future__ import annotations

import os
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from browser.chromium import ARGUMENTS, chromium
from page.made_fleet import MadeObjects, fleet_of, lived_week
from page.served_page import served

# From the script's side: until the rows that fit the screen are in the document and laid out.
FILTER = """(text) => new Promise((resolve) => {
  const search = document.getElementById("search");
  const begun = performance.now();
  search.value = text;
  search.dispatchEvent(new Event("input"));
  document.querySelector(".rows").getBoundingClientRect();
  requestAnimationFrame(() => resolve(performance.now() - begun));
})"""
TEXTS = ("billing", "team-07", "zzz", "web team-01", "deciding", "")


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in files for child in path.read_text().split()]


def main(count: int) -> None:
    binary = chromium()
    with TemporaryDirectory() as folder:
        store = Path(folder) / "history.db"
        shop = lived_week(store)
        made = MadeObjects([shop, *fleet_of(count - 1)])
        with served(made, store=store) as url:
            first = seconds(lambda: urllib.request.urlopen(f"{url}/api/fleet").read())
            again = min(seconds(lambda: urllib.request.urlopen(f"{url}/api/fleet").read()) for _ in range(3))
            print(f"{count:,} objects")
            print(f"  rows made for the first caller        {first:6.2f} s; told again {again:.2f} s")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=str(binary.path), args=ARGUMENTS, env={**os.environ, **binary.environment}
                )
                loads = []
                for _ in range(3):
                    page = browser.new_page(viewport={"width": 1400, "height": 900}, locale="en-GB")
                    loads.append(seconds(lambda page=page: (page.goto(url), page.wait_for_selector(".rows .row"))))
                print(f"  the fleet is there, of a new browser   {median(loads):6.2f} s")
                filters = [page.evaluate(FILTER, text) for text in TEXTS]
                print(
                    f"  a filter, to the next frame           {median(filters):6.0f} ms; at most {max(filters):.0f} ms"
                )
                answer = urllib.request.urlopen(f"{url}/api/fleet").read()
                print(f"  an answer of all                      {len(answer) / 2**20:6.2f} MiB, unpacked")
                go = "(hash) => { location.hash = hash; }"
                for view, shown in (("calendar", ".edge"), ("object/prod/shop", ".panels .panel")):
                    times = []
                    for _ in range(2):
                        page.evaluate(go, "#/")
                        page.wait_for_selector(".rows .row")
                        begun = time.perf_counter()
                        page.evaluate(go, f"#/{view}")
                        page.wait_for_selector(shown, timeout=120_000)
                        times.append(time.perf_counter() - begun)
                    print(f"  {view.partition('/')[0]:<37} {times[0]:6.2f} s the first time, {times[1]:.2f} s then")
                browser.close()
            workers = [resident(pid) for pid in children(os.getpid())]
            print(f"  processes of the page                 {', '.join(f'{mib:.0f}' for mib in sorted(workers))} MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
