"""
cronhpa.cli.preview, cronhpa.cli.timetable, cronhpa.cli.drawing, cronhpa.cli.picture, cronhpa.cli.picture.band

`cronhpa preview`: what is to come, as a table, as JSON and as a picture; what it says of wrong files.
"""

from __future__ import annotations

import json
import struct
import sys
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from cronhpa.cli import app

SHOP = """
apiVersion: cronhpa.io/v1alpha1
kind: CronHPA
metadata: {name: shop, namespace: prod}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  minReplicas: 2
  maxReplicas: 120
  timeZone: Europe/Berlin
  schedules:
  - {name: day, start: "0 8 * * mon-fri", end: "0 18 * * *", minReplicas: 20, leadTimeSeconds: 0}
"""
CONFLICT = SHOP + '  - {name: quiet, start: "0 12 * * wed", durationMinutes: 60, maxReplicas: 10}\n'
MONDAY = ("--from", "2026-11-23", "--to", "7d")


@pytest.fixture
def preview(tmp_path, monkeypatch):
    """Runs the command on the text of a file, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(text, *options):
        (tmp_path / "shop.yaml").write_text(text)
        return CliRunner().invoke(app, ["preview", "shop.yaml", *options])

    return run


def lines(result):
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def only(result):
    assert 0 == result.exit_code, result.stderr
    (found,) = json.loads(result.stdout)
    return found


# --- the table ---------------------------------------------------------------------------------------------------


def test_the_table_says_from_when_which_bounds_hold_and_by_whom(preview):
    shown = lines(preview(SHOP, *MONDAY))

    assert "prod/shop: Deployment/shop" == shown[0]
    assert (
        "Mon 2026-11-23 00:00 +01:00 to Mon 2026-11-30 00:00 +01:00 in Europe/Berlin; by its spec 2 to 120 replicas"
        == (shown[1])
    )
    assert "FROM LASTS MIN BY MAX BY OPEN NOTES" == shown[2]
    assert "Mon 2026-11-23 08:00 +01:00 10 h 20 Schedule/day 120 Spec day" == shown[4]
    assert "Mon 2026-11-23 18:00 +01:00 14 h 2 Spec 120 Spec" == shown[5]
    assert "Fri 2026-11-27 18:00 +01:00 2 d 6 h 2 Spec 120 Spec" == shown[-1]


def test_a_year_is_its_usual_week_and_what_differs_from_it(preview):
    """One full week, and around the two clock changes the days that last an hour less and more."""
    shown = lines(preview(SHOP, "--from", "2026-11-23", "--to", "365d"))

    assert len(shown) < 30
    assert "... as usual until Fri 2027-03-26 08:00 +01:00" in shown
    weekend = next(line for line in shown if line.startswith("Fri 2027-03-26 18:00 +01:00 2 d 13 h 2 Spec 120 Spec"))
    assert "Sun 2027-03-28 03:00 +02:00: Europe/Berlin: the clocks" in weekend


def test_all_days_are_printed_where_all_are_asked_for(preview):
    """A window and what follows it, on each of 10 working days, after the row that it begins with."""
    shown = lines(preview(SHOP, "--from", "2026-11-23", "--to", "14d", "--all"))

    assert 3 + 1 + 2 * 10 == len(shown)


def test_times_can_be_shown_in_another_zone(preview):
    """8:00 in Berlin is 16:00 in Tokyo, and so are the times of the options meant there."""
    shown = lines(preview(SHOP, *MONDAY, "--zone", "Asia/Tokyo"))

    assert "Mon 2026-11-23 16:00 +09:00 10 h 20 Schedule/day 120 Spec day" in shown
    assert shown[1].startswith("Mon 2026-11-23 00:00 +09:00 to")


def test_a_conflict_is_numbered_where_it_is_and_told_once_below(preview):
    shown = lines(preview(CONFLICT, "--from", "2026-11-23", "--to", "21d"))

    assert "Wed 2026-11-25 12:00 +01:00 1 h 10 Schedule/quiet 10 Schedule/quiet day, quiet conflict 1" in shown
    assert (
        "conflict 1, 3 times, first Wed 2026-11-25 12:00 +01:00: Schedule/day asks for at least 20, "
        "Schedule/quiet for at most 10, at equal rank: the maximum wins"
    ) == shown[-1]  # fmt: skip


def test_a_conflict_is_an_exit_code_where_that_is_asked_for(preview):
    assert 0 == preview(CONFLICT, *MONDAY).exit_code
    assert 3 == preview(CONFLICT, *MONDAY, "--fail-on-conflict").exit_code
    assert 0 == preview(SHOP, *MONDAY, "--fail-on-conflict").exit_code
    endless = SHOP.replace('end: "0 18 * * *"', "durationMinutes: 2000")
    assert 3 == preview(endless, *MONDAY, "--fail-on-conflict").exit_code


def test_headroom_has_a_column_where_there_is_any(preview):
    shown = lines(preview(SHOP.replace("minReplicas: 20", "headroomPercent: 50"), *MONDAY))

    assert "FROM LASTS MIN BY MAX BY HEADROOM OPEN NOTES" == shown[2]
    assert "Mon 2026-11-23 08:00 +01:00 10 h 2 Spec 120 Spec 50 % day" == shown[4]


def test_every_object_of_a_file_and_of_its_lists_is_shown(preview):
    other = SHOP.replace("name: shop, namespace: prod", "name: checkout")
    several = f"{SHOP}---\n{json.dumps({'kind': 'ConfigMap'})}\n---\n{other}"

    assert ["prod/shop", "checkout"] == [
        item["name"] for item in json.loads(preview(several, *MONDAY, "-o", "json").stdout)
    ]


def test_the_standard_input_is_read_where_the_file_is_a_dash():
    result = CliRunner().invoke(app, ["preview", "-", *MONDAY], input=SHOP)

    assert "prod/shop: Deployment/shop" == lines(result)[0]


def test_a_measured_lead_follows_from_how_long_a_pod_takes(preview):
    """2 to 20 by doubling, without a behavior: 4, 8, 16, 20 in four turns; with 15 s for a turn and 2 min for a pod."""
    led = SHOP.replace(", leadTimeSeconds: 0", "")

    shown = lines(preview(led, *MONDAY, "--pod-startup", "2m"))

    assert "measured leads: a pod is taken to be Ready 2 min after it is asked for" == shown[2]
    assert "Mon 2026-11-23 07:57 +01:00 3 min 20 Schedule/day 120 Spec day (lead)" == shown[5]


# --- JSON --------------------------------------------------------------------------------------------------------


def test_json_has_segments_windows_and_marks(preview):
    found = only(preview(CONFLICT, "--from", "2026-11-25", "--to", "1d", "-o", "json"))

    assert {
        "from": "2026-11-25T12:00:00+01:00", "to": "2026-11-25T13:00:00+01:00", "minReplicas": 10,
        "minReplicasBy": "Schedule/quiet", "maxReplicas": 10, "maxReplicasBy": "Schedule/quiet", "headroomPercent": 0,
        "open": ["day", "quiet"], "leading": [], "conflict": found["marks"][0]["text"],
    } == found["segments"][2]  # fmt: skip
    assert [("day", "08", "18"), ("quiet", "12", "13")] == [
        (item["schedule"], item["from"][11:13], item["to"][11:13]) for item in found["windows"]
    ]
    assert [("Conflict", "2026-11-25T12:00:00+01:00")] == [(item["kind"], item["from"]) for item in found["marks"]]


def test_an_object_without_a_zone_is_shown_in_the_one_that_its_schedules_share(preview):
    own = SHOP.replace("  timeZone: Europe/Berlin\n", "").replace(
        "minReplicas: 20", "timeZone: Asia/Tokyo, minReplicas: 20"
    )

    assert "Asia/Tokyo" == only(preview(own, *MONDAY, "-o", "json"))["timeZone"]


# --- the picture -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", ["7d", "365d"])
def test_a_picture_is_an_svg_whose_text_can_be_read(preview, tmp_path, span):
    result = preview(CONFLICT, "--from", "2026-10-20", "--to", span, "--picture", "shop.svg")

    assert 0 == result.exit_code, result.stderr
    texts = " ".join(ET.parse(tmp_path / "shop.svg").getroot().itertext())
    for said in ("prod/shop", "quiet", "Europe/Berlin", "the clocks go from 03:00 to 02:00", "conflict 1"):
        assert said in texts


def test_the_same_timeline_is_the_same_picture(preview, tmp_path):
    drawn = []
    for name in ("one.svg", "two.svg"):
        preview(CONFLICT, *MONDAY, "--picture", name)
        drawn.append((tmp_path / name).read_bytes())

    assert drawn[0] == drawn[1]


def test_a_png_is_a_png_of_a_size_to_read(preview, tmp_path):
    preview(SHOP, *MONDAY, "--picture", "shop.png")
    head = (tmp_path / "shop.png").read_bytes()[:24]

    assert b"\x89PNG" == head[:4]
    assert struct.unpack(">I", head[16:20])[0] > 1000


def test_each_of_several_objects_has_a_picture_of_its_own(preview, tmp_path):
    other = SHOP.replace("name: shop, namespace: prod", "name: checkout")

    preview(f"{SHOP}---\n{other}", *MONDAY, "--picture", "all.svg")

    assert ["all-checkout.svg", "all-prod.shop.svg"] == sorted(item.name for item in tmp_path.glob("*.svg"))


def test_a_picture_without_matplotlib_says_what_to_install(preview, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    result = preview(SHOP, *MONDAY, "--picture", "shop.svg")

    assert (1, "") == (result.exit_code, result.stdout)
    assert "pip install 'cronhpa[plot]'" in result.stderr


def test_the_table_does_without_matplotlib_and_numpy(preview, monkeypatch):
    for name in ("matplotlib", "numpy"):
        monkeypatch.setitem(sys.modules, name, None)

    assert 0 == preview(SHOP, *MONDAY).exit_code


# --- what is wrong -----------------------------------------------------------------------------------------------

WRONG = {
    "no file": ("", "there.yaml", "there.yaml"),
    "no YAML": ("spec: [", None, "shop.yaml"),
    "no CronHPA": ("kind: Deployment", None, "no CronHPA is in it, only Deployment"),
    "nothing": ("", None, "only nothing"),
    "no name": (SHOP.replace("name: shop, ", ""), None, "metadata.name: a CronHPA needs a name"),
    "no spec": (SHOP.partition("spec:")[0] + "spec: 7", None, "spec: found 7: a mapping belongs here"),
    "a field that is not there": (SHOP.replace("minReplicas: 20", "min: 20"), None, "spec.schedules[0].min: there is"),
    "a field of another type": (SHOP.replace("120", "many"), None, "spec.maxReplicas: found 'many': "),
    "a cron text": (SHOP.replace("mon-fri", "mon-fry"), None, 'spec.schedules[0].start: found "mon-fry"'),
    "a number in quotes": (SHOP.replace("minReplicas: 20", 'minReplicas: "20"'), None, "minReplicas: found '20': "),
    "a number that is a truth": (SHOP.replace("minReplicas: 20", "minReplicas: on"), None, "minReplicas: found True: "),
    "a date that never comes": (SHOP.replace("* * mon-fri", "30 2 *"), None, "spec.schedules[0] (day): start: "),
    "a zone": (SHOP.replace("Europe/Berlin", "Berlin"), None, "spec.timeZone: a time zone is an IANA name"),
    "an end beside a duration": (
        SHOP.replace("end:", "durationMinutes: 5, end:"), None, "spec.schedules[0].end: found end and durationMinutes",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "file", "said"), WRONG.values(), ids=list(WRONG))
def test_what_cannot_be_shown_is_named_with_its_place(preview, text, file, said):
    result = preview(text, *MONDAY) if file is None else CliRunner().invoke(app, ["preview", file])

    assert (1, "") == (result.exit_code, result.stdout)
    assert said in result.stderr
    assert result.stderr.startswith("cronhpa preview: ")


OPTIONS = {
    "a time": (("--from", "soon"), "is no time"),
    "an end": (("--to", "later"), "or a length such as 7d"),
    "an end before the beginning": (("--from", "2026-11-23", "--to", "2026-11-22"), "must be after"),
    "a span of ages": (("--to", "9999d"), "ten years"),
    "a zone": (("--zone", "Berlin"), "is not an IANA time zone"),
    "a picture of another kind": (("--picture", "shop.jpg"), "must end in .svg or .png"),
}


@pytest.mark.parametrize(("options", "said"), OPTIONS.values(), ids=list(OPTIONS))
def test_an_option_that_cannot_be_meant_is_refused(preview, options, said):
    result = preview(SHOP, *options)

    assert 2 == result.exit_code
    assert said in " ".join(result.stderr.replace("│", " ").split())
