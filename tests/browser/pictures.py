"""`python -m browser.pictures` from tests/ writes the pictures of docs/page.md anew: look at each before a commit."""

from __future__ import annotations

import io
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

from browser.chromium import ARGUMENTS, chromium
from page.made_fleet import MadeObjects, fleet_of, lived_week
from page.served_page import served

DOCS = Path(__file__).parents[2] / "docs"
COLORS = 128
WIDE, PHONE = {"width": 1200, "height": 760}, {"width": 390, "height": 844}
GO = "(hash) => { location.hash = hash; }"


# Each view, and what is there once it is drawn.
VIEWS = (
    ("#/", ".rows .row"),
    ("#/object/prod/shop", ".panels .panel"),
    ("#/calendar", ".edge"),
    ("#/what-if/prod/shop", "textarea"),
)
SHEET_PIXELS = 1440


def sheet(opened, name, size, columns) -> None:
    """Every view in light and in dark, shrunk onto one picture of so many columns; with all its colours, so a JPEG."""
    width = SHEET_PIXELS // columns
    height = width * size["height"] // size["width"]
    # Beside each other where there are two columns, else all of one scheme in a row.
    schemes = ("light", "dark")
    cells = [(view, scheme) for view in VIEWS for scheme in schemes]
    if columns > len(schemes):
        cells = [(view, scheme) for scheme in schemes for view in VIEWS]
    whole = Image.new("RGB", (width * columns, height * len(cells) // columns), "#888888")
    pages = {scheme: opened(scheme, size) for scheme in schemes}
    for place, ((view, shown), scheme) in enumerate(cells):
        page = pages[scheme]
        page.evaluate(GO, view)
        page.wait_for_selector(shown)
        page.wait_for_timeout(400)
        image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        corner = (width * (place % columns), height * (place // columns))
        whole.paste(image.resize((width - 4, height - 4), Image.Resampling.LANCZOS), corner)
    path = DOCS / f"page-{name}.jpg"
    whole.save(path, quality=82, optimize=True)
    print(path, path.stat().st_size)


def save(image, path) -> None:
    image.quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path, path.stat().st_size)


def main() -> None:
    binary = chromium()
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        store = Path(folder) / "history.db"
        made = MadeObjects([lived_week(store), *fleet_of(2_000)])
        browser = playwright.chromium.launch(
            executable_path=str(binary.path), args=ARGUMENTS, env={**os.environ, **binary.environment}
        )
        with served(made, store=store) as url:

            def opened(scheme, size):
                page = browser.new_page(viewport=size, color_scheme=scheme, timezone_id="Europe/Berlin", locale="en-GB")
                page.goto(url)
                page.wait_for_selector(".rows .row")
                return page

            def kept(page, name):
                page.wait_for_timeout(400)
                path = DOCS / f"page-{name}.png"
                page.screenshot(path=path)
                save(Image.open(path).convert("RGB"), path)

            sheet(opened, "wide", WIDE, 2)
            sheet(opened, "narrow", PHONE, len(VIEWS))
            page = opened("dark", WIDE)
            page.click("[data-chip=needs]")
            kept(page, "fleet")
            page = opened("light", WIDE)
            page.evaluate(GO, "#/object/prod/shop")
            page.wait_for_selector(".panels .panel")
            box = page.locator(".picture").bounding_box()
            page.mouse.move(box["x"] + 470, box["y"] + 120)
            kept(page, "object")
            page.evaluate(GO, "#/calendar")
            page.wait_for_selector(".edge")
            kept(page, "calendar")
            page = opened("dark", PHONE)
            page.evaluate(GO, "#/object/prod/shop")
            page.wait_for_selector(".panels .panel")
            kept(page, "phone")
            page = opened("light", {"width": 1200, "height": 640})
            page.evaluate(GO, "#/what-if/prod/shop")
            page.wait_for_selector("textarea")
            page.get_by_label("minReplicas").first.fill("6")
            page.get_by_role("button", name="Decide the last week again").click()
            page.wait_for_selector(".outcome", timeout=200_000)
            page.locator(".result").scroll_into_view_if_needed()
            kept(page, "what-if")
        browser.close()


if __name__ == "__main__":
    main()
