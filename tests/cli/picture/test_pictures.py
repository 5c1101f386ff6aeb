"""
cronhpa.cli.picture.timeline_picture, cronhpa.cli.picture.band, cronhpa.cli.picture.style,
cronhpa.cli.picture.backtest_picture

Pictures: their content is to scale, legible on light and dark pages, and no labels overlap.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from hypothesis import given, settings
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from typer.testing import CliRunner

from cli.commands.test_preview import CONFLICT, FULL, MONDAY, SHOP
from core.situations import schedule, spec, specs
from cronhpa.api.written_spec import written_spec
from cronhpa.cli import app
from cronhpa.cli.picture import backtest_picture, style
from cronhpa.cli.picture import timeline_picture as pictures
from cronhpa.cli.tables.backtest_table import Backtest
from cronhpa.cli.tables.bounds_table import BoundsSubject
from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.model.spec import ControllerOptions, Span
from cronhpa.core.schedules.timeline import timeline
from cronhpa.simulation.compare import variants
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import run
from cronhpa.simulation.target import Environment

START = parse_instant("2026-10-20T00:00:00Z")


@pytest.fixture
def preview(tmp_path, monkeypatch):
    """Runs the command on the text of a file, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def call(text, *options):
        (tmp_path / "shop.yaml").write_text(text)
        return CliRunner().invoke(app, ["preview", "shop.yaml", *options])

    return call


@pytest.mark.slow
@pytest.mark.parametrize("span", ["7d", "365d"])
def test_a_picture_is_an_svg_whose_text_can_be_read(preview, tmp_path, span):
    result = preview(CONFLICT, "--from", "2026-10-20", "--to", span, "--picture", "shop.svg")

    assert 0 == result.exit_code, result.stderr
    texts = " ".join(ET.parse(tmp_path / "shop.svg").getroot().itertext())
    for said in ("prod/shop", "quiet", "Europe/Berlin", "the clocks go from 03:00 to 02:00", "conflict 1"):
        assert said in texts


@pytest.mark.slow
def test_the_same_timeline_is_the_same_picture(preview, tmp_path):
    drawn = []
    for name in ("one.svg", "two.svg"):
        preview(CONFLICT, *MONDAY, "--picture", name)
        drawn.append((tmp_path / name).read_bytes())

    assert drawn[0] == drawn[1]


def test_a_png_is_a_png_of_a_size_to_read_whatever_it_is_named(preview, tmp_path):
    name = json.dumps("$x$ and $ a\u001b[2J <script>\n")
    preview(SHOP.replace("name: day", f"name: {name}"), *MONDAY, "--picture", "shop.png")
    head = (tmp_path / "shop.png").read_bytes()[:24]

    assert b"\x89PNG" == head[:4]
    assert struct.unpack(">I", head[16:20])[0] > 1000


def test_each_of_several_objects_has_a_picture_of_its_own(preview, tmp_path):
    other = SHOP.replace("name: shop, namespace: prod", "name: checkout")

    preview(f"{SHOP}---\n{other}", *MONDAY, "--picture", "all.svg")

    assert ["all-checkout.svg", "all-prod.shop.svg"] == sorted(path.name for path in tmp_path.glob("*.svg"))


def test_a_picture_without_matplotlib_says_what_to_install(preview, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    result = preview(SHOP, *MONDAY, "--picture", "shop.svg")

    assert (1, "") == (result.exit_code, result.stdout)
    assert "pip install 'cronhpa[plot]'" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a\u001b[2Jb", "$x$ and $", "x" * 253, "<script>", "line\nbreak"])
def test_a_picture_of_any_name_is_a_picture(preview, tmp_path, name):
    """Mathematics between dollar signs, control characters that XML has not, an object's name wider than the page."""
    text = SHOP.replace("name: day", f"name: {json.dumps(name[:60])}")
    if name.isalnum():  # the API server takes it as the name of an object, too
        text = text.replace("name: shop, n", f"name: {name}, n")

    result = preview(text, *MONDAY, "--picture", "shop.svg")
    assert 0 == result.exit_code, result.output
    assert "floor: minReplicas in force" in " ".join(ET.parse(tmp_path / "shop.svg").getroot().itertext())


# --- labels ------------------------------------------------------------------------------------------------------


def boxes(figure, labels):
    """The extents of the labels that are shown, as they are in the picture that is written."""
    FigureCanvasAgg(figure)
    labels.place(figure)
    figure.set_dpi(2 * figure.dpi)  # it is no accident of one size
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    return [(text.get_text(), text.get_window_extent(renderer)) for text in labels.shown()]


def lying_on_each_other(drawn_boxes):
    return [
        (one, other)
        for number, (one, first) in enumerate(drawn_boxes)
        for other, second in drawn_boxes[number + 1 :]
        if first.overlaps(second)
    ]


def subject(of, days, zone="Europe/Berlin"):
    return BoundsSubject("prod/shop", of, zone, timeline(of, START, START + days * DAY, zones=[zone]), MINUTE)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(specs(timed=True))
@pytest.mark.parametrize("days", [7, 200])
def test_no_label_lies_on_another_and_none_leaves_the_picture(days, of):
    with rc_context(style.RC):
        figure, labels = pictures.drawn(subject(of, days))
        drawn_boxes = boxes(figure, labels)

    assert [] == lying_on_each_other(drawn_boxes)
    width, height = figure.canvas.get_width_height()
    assert all(0 <= box.x0 and box.x1 <= width and 0 <= box.y0 and box.y1 <= height for _, box in drawn_boxes)


def test_the_most_important_label_chooses_its_place_first(preview):
    """Numbers of steps give way to the name of a conflict and of a clock change."""
    of = written_spec(yaml.safe_load(SHOP + FULL))
    with rc_context(style.RC):
        texts = [text for text, _ in boxes(*pictures.drawn(subject(of, 7)))]

    assert "conflict 1" in texts
    assert "Europe/Berlin\nthe clocks go from 03:00 to 02:00" in texts


# --- to scale ----------------------------------------------------------------------------------------------------


def test_a_lead_is_as_wide_as_it_is_long_and_its_length_is_written(preview, tmp_path):
    """Of ten minutes in a week: a thousandth, and no more."""
    led = SHOP.replace("leadTimeSeconds: 0", "leadTimeSeconds: 600")
    with rc_context(style.RC):
        figure, _ = pictures.drawn(subject(written_spec(yaml.safe_load(led)), 7))
    bars = [
        path for collection in figure.axes[1].collections for path in collection.get_paths() if collection.get_hatch()
    ]
    widths = {round(path.get_extents().width * DAY / MINUTE) for path in bars}

    assert {10} == widths
    preview(led, *MONDAY, "--picture", "shop.svg")
    assert "lead 10 min" in " ".join(ET.parse(tmp_path / "shop.svg").getroot().itertext())


def test_all_windows_of_a_schedule_are_drawn_at_once():
    """
    Five windows of weekdays and five leads are two collections. Found: each was one, matplotlib goes over all of them
    for one more, and a week of windows every two minutes took 53 s of CPU.
    """
    led = SHOP.replace("leadTimeSeconds: 0", "leadTimeSeconds: 600")
    with rc_context(style.RC):
        figure, _ = pictures.drawn(subject(written_spec(yaml.safe_load(led)), 7))

    assert [5, 5] == [len(collection.get_paths()) for collection in figure.axes[1].collections]


# --- dates -------------------------------------------------------------------------------------------------------

WEEKDAYS = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}


@pytest.mark.slow
@pytest.mark.parametrize("days", [1, 2, 3, 14, 16, 17, 30, 35, 36, 100, 400, 3650])
def test_every_date_on_an_axis_has_its_weekday(days):
    with rc_context(style.RC):
        figure, _ = pictures.drawn(subject(spec(), days))
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        texts = [label.get_text() for label in figure.axes[-1].get_xticklabels() if label.get_text()]

    assert texts
    assert len(texts) <= 26
    assert [] == [text for text in texts if not WEEKDAYS & set(text.split())]


# --- on a dark page ----------------------------------------------------------------------------------------------


def luminance(color):
    """WCAG 2.2, relative luminance."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(color):
    """To the page, which is white."""
    return (luminance(style.PAPER) + 0.05) / (luminance(color) + 0.05)


def test_texts_and_lines_contrast_with_the_page():
    """WCAG 2.2: 4.5 for text, 3 for graphics."""
    texts = {name: contrast(getattr(style, name)) for name in ("FLOOR", "CAP", "CONFLICT", "CLOCK", "EXCEPTION")}
    lines = {str(variant): contrast(color) for variant, color in backtest_picture.COLORS.items()}

    assert {} == {name: ratio for name, ratio in texts.items() if ratio < 4.5}
    assert {} == {name: ratio for name, ratio in lines.items() if ratio < 3}


@pytest.mark.slow
@pytest.mark.parametrize("span", ["7d", "365d"])
def test_the_page_itself_is_drawn(preview, tmp_path, span):
    """A picture without a background is dark text on a dark page."""
    preview(SHOP, *MONDAY[:2], "--to", span, "--picture", "shop.svg")
    root = ET.parse(tmp_path / "shop.svg").getroot()
    first = next(node for node in root.iter() if node.tag.endswith("path") and "fill: #ffffff" in node.get("style", ""))
    box = [float(part) for part in root.get("viewBox").split()]

    numbers = [float(part) for part in first.get("d").replace("M", "").replace("L", "").replace("z", "").split()]
    assert [0, box[2]] == [min(numbers[::2]), max(numbers[::2])]
    assert [0, box[3]] == [min(numbers[1::2]), max(numbers[1::2])]


# --- the outcome of a backtest -----------------------------------------------------------------------------------


def outcome(days, *, begin=0, minutes=None, period=15 * SECOND):
    """
    A queue of 60, from 10:00 to 11:00 120, of the third day 300, for pods of 10; with a floor from 09:50 on. A day
    costs a second of CPU, at a period of 30 s half of it.
    """
    rush = schedule("rush", "50 9 * * *", "0 11 * * *", floor=40, lead=0)
    of, first = spec(schedules=(rush,), options=ControllerOptions(sync_period=period)), START + begin
    span = Span(first, first + (days * DAY if minutes is None else minutes * MINUTE))
    points = [
        (at, (300.0 if (at - START) // DAY == 2 else 120.0) if at // HOUR % 24 == 10 else 60.0)
        for at in range(span.begin, span.end + 1, 5 * MINUTE)
    ]
    plan = Backtest("prod/shop", of, Load(points), Environment(capacity=10.0), span, "UTC")
    runs = {
        variant: run(variant_spec, plan.load, plan.environment, span) for variant, variant_spec in variants(of).items()
    }
    return dataclasses.replace(plan, runs=runs)


def figure_of(picture):
    with rc_context(style.RC):
        return backtest_picture.drawn(picture)[0]


def drawn(picture):
    """The figure, and the extents of its labels, which take most of the time."""
    with rc_context(style.RC):
        figure, labels = backtest_picture.drawn(picture)
        placed = boxes(figure, labels)
    return figure, placed


def test_a_backtest_of_days_has_a_row_for_each_with_its_weekday_and_its_minutes():
    figure, placed = drawn(outcome(3, period=30 * SECOND))

    told = [axes.get_ylabel().splitlines() for axes in figure.axes]
    assert ["Tue 20 Oct", "Wed 21 Oct", "Thu 22 Oct"] == [lines[0] for lines in told]
    assert all(line.startswith(("reactive ", "scheduled ")) for _, *lines in told for line in lines)
    assert (0.0, 24.0) == figure.axes[-1].get_xlim()
    assert [] == lying_on_each_other(placed)
    assert ["open: rush"] * 3 == [text for text, _ in placed]


def test_the_filled_area_is_the_difference_between_the_variants():
    """From 09:50 to 11:00 the schedule has 40 pods, where metrics alone have 6, and 12 once they are ready."""
    figure = figure_of(outcome(1))
    more = [collection for collection in figure.axes[0].collections if _has_color(collection, backtest_picture.MORE)]
    hours = [path.get_extents() for collection in more for path in collection.get_paths()]

    assert 9.8 < min(box.x0 for box in hours) < 9.9
    assert (6, 40) == (min(box.y0 for box in hours), max(box.y1 for box in hours))


def _has_color(collection, color):
    return len(collection.get_facecolor()) > 0 and tuple(collection.get_facecolor()[0][:3]) == to_rgb(color)


@pytest.mark.slow
def test_of_many_days_those_are_drawn_that_differ_most():
    """11 pods are within 10 % of 120 / 10: metrics alone lack one for an hour, and of 300 for 7 minutes."""
    figure = figure_of(outcome(11, period=30 * SECOND))

    assert 10 == len(figure.axes)
    assert "the 10 days of 11 that differ most" in figure.axes[0].get_title(loc="left")
    assert "Thu 22 Oct" not in {axes.get_ylabel().splitlines()[0] for axes in figure.axes}


def test_hours_of_one_day_have_one_row_that_they_fill():
    figure = figure_of(outcome(0, begin=9 * HOUR, minutes=120))

    (axes,) = figure.axes
    assert (9.0, 11.0) == axes.get_xlim()
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert {"09:00", "10:30"} <= set(labels)


def test_hours_around_midnight_are_one_row():
    figure = figure_of(outcome(0, begin=22 * HOUR, minutes=240))

    (axes,) = figure.axes
    assert (22.0, 26.0) == axes.get_xlim()
    assert {"23:00", "01:00"} <= {label.get_text() for label in axes.get_xticklabels()}


def test_a_day_of_25_hours_has_them_all():
    """In Berlin the 25th of October 2026 begins on the 24th at 22:00 UTC, and ends on the 25th at 23:00 UTC."""
    moved = dataclasses.replace(outcome(0, begin=4 * DAY + 22 * HOUR, minutes=25 * 60), zone="Europe/Berlin")

    figure = figure_of(moved)

    assert (0.0, 25.0) == figure.axes[-1].get_xlim()


def test_the_title_of_an_outcome_has_the_namespace_and_its_numbers():
    figure = figure_of(outcome(2, period=30 * SECOND))

    assert figure.get_suptitle().startswith(
        "prod/shop    Tue 2026-10-20 00:00 +00:00 to Thu 2026-10-22 00:00 +00:00, UTC"
    )
    assert "min short of pods" in figure.axes[0].get_title(loc="left")


def test_a_number_in_a_gap_that_is_narrower_than_it_is_left_out(tmp_path):
    """The 4 of the hour before a floor of 60 would lie on the rising line, where it is unreadable."""
    example = Path(__file__).parents[3] / "crds" / "examples" / "planned-event.yaml"
    picture = tmp_path / "week.svg"

    CliRunner().invoke(app, ["preview", str(example), "--from", "2026-11-23", "--to", "7d", "--picture", str(picture)])

    drawn = picture.read_text("utf-8")
    # Evenings from Monday to Thursday, Saturday and Sunday. The 4 before each and behind the event, not at the event.
    assert (6, 6, 1) == tuple(drawn.count(f">{number}<") for number in (12, 4, 60))
