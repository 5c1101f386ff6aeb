"""
cronhpa.cli.commands.preview, cronhpa.cli.objects.object_inputs, cronhpa.cli.tables.bounds_table

`cronhpa preview`: future bounds as a table and as JSON, and errors for wrong files.
"""

from __future__ import annotations

import json
import sys

import pytest
import yaml
from typer.testing import CliRunner

from cronhpa.cli import app
from kube.fake_api import answering

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
    (document,) = json.loads(result.stdout)
    return document


# --- the table ---------------------------------------------------------------------------------------------------


def test_the_table_says_from_when_which_bounds_hold_and_by_whom(preview):
    """The cell is empty if only the spec's bounds are in force; the offset to UTC is shown once."""
    result = preview(SHOP, "--from", "2026-11-26", "--to", "2d")

    assert (
        """\
prod/shop: Deployment/shop, 2 to 120 replicas by its spec
Thu 2026-11-26 00:00 to Sat 2026-11-28 00:00, Europe/Berlin (UTC+01:00)
FROM                  LASTS  MIN  MAX  BY
Thu 2026-11-26 00:00    8 h    2  120
Thu 2026-11-26 08:00   10 h   20  120  day (min)
Thu 2026-11-26 18:00   14 h    2  120
Fri 2026-11-27 08:00   10 h   20  120  day (min)
Fri 2026-11-27 18:00    6 h    2  120
"""
        == result.stdout
    )


FULL = """\
  - {name: quiet, start: "0 12 * * sun", durationMinutes: 60, maxReplicas: 10}
  - {name: sunday-market-of-the-old-town, start: "0 7 * * sun", durationMinutes: 600, minReplicas: 20,
     headroomPercent: 50, leadTimeSeconds: 600}
  - {name: always, start: "0 0 * * *", durationMinutes: 1440, minReplicas: 3, priority: -1}
  - {name: closed, start: "0 6 * * sun", durationMinutes: 60, maxReplicas: 30,
     exclude: {dates: [{from: "2026-10-25", to: "2026-10-25"}]}}
"""


def test_the_longest_row_fits_80_columns(preview):
    """A conflict, headroom, a lead, a schedule without effect, an exception, a clock change, a long name."""
    result = preview(SHOP + FULL, "--from", "2026-10-25", "--to", "25h")

    assert (
        """\
prod/shop: Deployment/shop, 2 to 120 replicas by its spec
Sun 2026-10-25 00:00 +02:00 to Mon 2026-10-26 00:00 +01:00, Europe/Berlin
leads: a pod is Ready 1 min after it is asked for, a guess until it is measured
FROM                                  LASTS  MIN  MAX  BY
Sun 2026-10-25 00:00 +02:00      7 h 50 min    3  120  always (min)
    02:00 +01:00: Europe/Berlin: the clocks go from 03:00 to 02:00
    06:00 +01:00: closed does not open: 2026-10-25
Sun 2026-10-25 06:50 +01:00          10 min   20  120
    by sunday-market-of-the-old-town (min, +50 % load, lead); no effect: always
Sun 2026-10-25 07:00 +01:00             5 h   20  120
    by sunday-market-of-the-old-town (min, +50 % load); no effect: always
Sun 2026-10-25 12:00 +01:00             1 h   10   10
    by quiet, sunday-market-of-the-old-town (+50 % load); no effect: always
    conflict 1
Sun 2026-10-25 13:00 +01:00             4 h   20  120
    by sunday-market-of-the-old-town (min, +50 % load); no effect: always
Sun 2026-10-25 17:00 +01:00             6 h    3  120  always (min)
Sun 2026-10-25 23:00 +01:00     58 min 45 s    2  120
Sun 2026-10-25 23:58:45 +01:00   1 min 15 s    3  120  always (min, lead)
conflict 1, once, Sun 2026-10-25 12:00 +01:00:
  Schedule/sunday-market-of-the-old-town asks for at least 20, Schedule/quiet
  for at most 10, at equal rank: the maximum wins
"""
        == result.stdout
    )
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_a_year_is_its_usual_week_and_what_differs_from_it(preview):
    """One full week, and around the two clock changes the days that last an hour less and more."""
    shown = lines(preview(SHOP, "--from", "2026-11-23", "--to", "365d"))

    assert len(shown) < 40
    assert "... as usual until Fri 2027-03-26 08:00 +01:00" in shown
    weekend = shown.index("Fri 2027-03-26 18:00 +01:00 2 d 13 h 2 120")
    assert "Sun 2027-03-28 03:00 +02:00: Europe/Berlin: the clocks go from 02:00 to 03:00" == " ".join(
        shown[weekend + 1 : weekend + 3]
    )


def test_all_days_are_printed_where_all_are_asked_for(preview):
    """A window and what follows it, on each of 10 working days, after the row that it begins with."""
    shown = lines(preview(SHOP, "--from", "2026-11-23", "--to", "14d", "--all"))

    assert 3 + 1 + 2 * 10 == len(shown)


def test_times_can_be_shown_in_another_zone(preview):
    """8:00 in Berlin is 16:00 in Tokyo, and so are the times of the options meant there."""
    shown = lines(preview(SHOP, *MONDAY, "--zone", "Asia/Tokyo"))

    assert "Mon 2026-11-23 16:00 10 h 20 120 day (min)" in shown
    assert "Mon 2026-11-23 00:00 to Mon 2026-11-30 00:00, Asia/Tokyo (UTC+09:00)" == shown[1]


def test_a_conflict_is_numbered_where_it_is_and_told_once_below(preview):
    shown = lines(preview(CONFLICT, "--from", "2026-11-23", "--to", "21d"))

    at = shown.index("Wed 2026-11-25 12:00 1 h 10 10 quiet; no effect: day")
    assert "conflict 1" == shown[at + 1]
    assert (
        "conflict 1, 3 times, first Wed 2026-11-25 12:00: Schedule/day asks for at least "
        "20, Schedule/quiet for at most 10, at equal rank: the maximum wins"
    ) == " ".join(shown[-2:])


def test_a_conflict_is_an_exit_code_where_that_is_asked_for(preview):
    assert 0 == preview(CONFLICT, *MONDAY).exit_code
    assert 3 == preview(CONFLICT, *MONDAY, "--fail-on-conflict").exit_code
    assert 0 == preview(SHOP, *MONDAY, "--fail-on-conflict").exit_code
    endless = SHOP.replace('end: "0 18 * * *"', "durationMinutes: 2000")
    assert 3 == preview(endless, *MONDAY, "--fail-on-conflict").exit_code


def test_headroom_is_told_with_the_schedule_that_states_it(preview):
    shown = lines(preview(SHOP.replace("minReplicas: 20", "headroomPercent: 50"), *MONDAY))

    assert "Mon 2026-11-23 08:00 10 h 2 120 day (+50 % load)" == shown[4]


@pytest.mark.parametrize(
    ("mode", "said"), [("Active", "it asks for more within MAX by the load to come"), ("Preview", "it only reports")]
)
def test_a_forecast_is_told_to_be_left_out(preview, mode, said):
    """MIN alone would look as if nothing else asked for pods."""
    metrics = "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}"
    text = f"{SHOP}  metrics: [{metrics}]\n  forecast: {{mode: {mode}}}\n"

    told = " ".join(lines(preview(text, *MONDAY)))

    assert f"forecast: {said}: not shown here, see cronhpa backtest" in told
    assert "forecast" not in preview(SHOP, *MONDAY).stdout


def test_every_object_of_a_file_and_of_its_lists_is_shown(preview):
    other = SHOP.replace("name: shop, namespace: prod", "name: checkout")
    several = f"{SHOP}---\n{json.dumps({'kind': 'ConfigMap'})}\n---\n{other}"

    assert ["prod/shop", "checkout"] == [
        shown["name"] for shown in json.loads(preview(several, *MONDAY, "-o", "json").stdout)
    ]


def test_several_files_and_folders_are_shown_one_after_another(preview, tmp_path):
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "b.yaml").write_text(SHOP.replace("name: shop, ", "name: b, "))
    (tmp_path / "deploy" / "service.yaml").write_text("kind: Service")

    shown = lines(preview(SHOP, "deploy", "--from", "2026-11-28", "--to", "1d"))

    assert ["prod/shop", "", "prod/b"] == [shown[0].partition(":")[0], shown[4], shown[5].partition(":")[0]]


def test_a_namespace_that_a_file_leaves_open_can_be_named_as_for_kubectl_apply(preview):
    open_one = SHOP.replace(", namespace: prod", "")

    assert "stage/shop" == only(preview(open_one, "-n", "stage", "-o", "json"))["name"]
    assert "prod/shop" == only(preview(SHOP, "-n", "stage", "-o", "json"))["name"]


def test_the_standard_input_is_read_where_the_file_is_a_dash():
    result = CliRunner().invoke(app, ["preview", "-", *MONDAY], input=SHOP)

    assert "prod/shop: Deployment/shop, 2 to 120 replicas by its spec" == lines(result)[0]


def test_a_measured_lead_follows_from_how_long_a_pod_takes(preview):
    """
    2 to 20 by doubling, without a behavior: 4, 8, 16, 20 in four reconciliations; with 15 s for a reconciliation and 2
    min for a pod.
    """
    led = SHOP.replace(", leadTimeSeconds: 0", "")

    shown = lines(preview(led, *MONDAY, "--pod-startup", "2m"))

    assert "leads: a pod is Ready 2 min after it is asked for" == shown[2]
    assert "Mon 2026-11-23 07:57 3 min 20 120 day (min, lead)" == shown[5]


# --- JSON --------------------------------------------------------------------------------------------------------


def test_json_has_segments_windows_and_marks(preview):
    document = only(preview(CONFLICT, "--from", "2026-11-25", "--to", "1d", "-o", "json"))

    assert {
        "from": "2026-11-25T12:00:00+01:00", "to": "2026-11-25T13:00:00+01:00", "minReplicas": 10,
        "minReplicasBy": "Schedule/quiet", "maxReplicas": 10, "maxReplicasBy": "Schedule/quiet", "headroomPercent": 0,
        "open": ["day", "quiet"], "leading": [], "conflict": document["marks"][0]["text"],
    } == document["segments"][2]  # fmt: skip
    assert [("day", "08", "18"), ("quiet", "12", "13")] == [
        (window["schedule"], window["from"][11:13], window["to"][11:13]) for window in document["windows"]
    ]
    assert [("Conflict", "2026-11-25T12:00:00+01:00")] == [(mark["kind"], mark["from"]) for mark in document["marks"]]


def test_an_object_without_a_zone_is_shown_in_the_one_that_its_schedules_share(preview):
    own = SHOP.replace("  timeZone: Europe/Berlin\n", "").replace(
        "minReplicas: 20", "timeZone: Asia/Tokyo, minReplicas: 20"
    )

    assert "Asia/Tokyo" == only(preview(own, *MONDAY, "-o", "json"))["timeZone"]


def test_the_table_does_without_matplotlib_and_numpy(preview, monkeypatch):
    for name in ("matplotlib", "numpy"):
        monkeypatch.setitem(sys.modules, name, None)

    assert 0 == preview(SHOP, *MONDAY).exit_code


# --- what is wrong -----------------------------------------------------------------------------------------------

WRONG = {
    "no file": ("", "there.yaml", "there.yaml"),
    "no YAML": ("spec: [", None, "shop.yaml"),
    "no CronHPA": ("kind: Deployment", None, "no CronHPA is in it, only Deployment"),
    "nothing": ("", None, "it is empty"),
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
def test_an_object_that_cannot_be_shown_is_named_with_its_place(preview, text, file, said):
    result = preview(text, *MONDAY) if file is None else CliRunner().invoke(app, ["preview", file])

    assert (1, "") == (result.exit_code, result.stdout)
    assert said in result.stderr
    assert result.stderr.startswith("cronhpa preview: ")


OPTIONS = {
    "a time": (("--from", "soon"), "is no time"),
    "an empty end": (("--to", ""), "or a length such as 7d"),
    "an end": (("--to", "later"), "or a length such as 7d"),
    "an end before the beginning": (("--from", "2026-11-23", "--to", "2026-11-22"), "must be after"),
    "a span of ages": (("--to", "9999d"), "ten years"),
    "a zone": (("--zone", "Berlin"), "is not an IANA time zone"),
    "a picture of another kind": (("--picture", "shop.jpg"), "must end in .svg or .png"),
}


@pytest.mark.parametrize(("options", "said"), OPTIONS.values(), ids=list(OPTIONS))
def test_an_option_that_makes_no_sense_is_refused(preview, options, said):
    result = preview(SHOP, *options)

    assert 2 == result.exit_code
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_a_fallback_is_told_to_be_left_out(preview):
    metrics = "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}"
    text = f"{SHOP}  metrics: [{metrics}]\n  fallback: {{replicas: 7}}\n"

    told = " ".join(lines(preview(text, *MONDAY)))

    assert "fallback: at least 7 once a metric is unknown for 5 min: not shown here" in told


# --- calendars ---------------------------------------------------------------------------------------------------

CLOSED = SHOP.replace("leadTimeSeconds: 0", "leadTimeSeconds: 0, exclude: {calendars: [company]}")
ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:test
BEGIN:VEVENT
UID:1
SUMMARY:Inventory
DTSTART;VALUE=DATE:20261124
END:VEVENT
END:VCALENDAR
"""


@pytest.mark.parametrize("option", ["company.ics", "company=other.ics"])
def test_a_calendar_of_a_file_leaves_out_its_days(preview, tmp_path, option):
    (tmp_path / option.rpartition("=")[2]).write_text(ICS)

    result = preview(CLOSED, *MONDAY, "--ics", option)

    assert 0 == result.exit_code, result.stderr
    assert "Tue 2026-11-24 08:00: day does not open: Inventory (company)" in lines(result)
    assert "Mon 2026-11-23 08:00 10 h 20 120 day (min)" in lines(result)


def test_a_calendar_beyond_a_year_is_read_for_the_days_that_are_asked_for(preview, tmp_path):
    (tmp_path / "company.ics").write_text(ICS.replace("20261124", "20291126"))

    result = preview(CLOSED, "--from", "2029-11-26", "--to", "1d", "--ics", "company.ics")

    assert any("day does not open: Inventory" in line for line in lines(result))


def test_an_object_of_the_cluster_has_the_events_that_it_takes_over_with_the_days_of_their_calendars(
    served, cronhpa, tmp_path
):
    """50 schedules are taken over: of 60 events those that come first by name."""

    def sale(number):
        window = {"start": "0 8 * * *", "end": "0 18 * * *", "exclude": {"calendars": ["company"]}}
        spec = {"selector": {}, "reason": "sale", "schedules": [{"name": "doors", "minReplicas": 7, **window}]}
        return {"metadata": {"name": f"sale-{number:02}", "namespace": "prod"}, "spec": spec}

    (tmp_path / "company.ics").write_text(ICS)
    served.hold(yaml.safe_load(SHOP) | {"metadata": {"name": "shop", "namespace": "prod"}})
    events = {"kind": "PlannedEventList", "metadata": {}, "items": [sale(number) for number in range(60)]}
    served.answers["/apis/cronhpa.io/v1alpha1/namespaces/prod/plannedevents"] = answering(events)

    answer = cronhpa("preview", "shop", *MONDAY[:2], "--to", "2d", "--ics", tmp_path / "company.ics", "-o", "json")

    assert 0 == answer.exit_code, answer.stderr
    (shown,) = json.loads(answer.stdout)
    assert ["Excluded"] * 50 == [mark["kind"] for mark in shown["marks"] if "sale" in mark["text"]], shown["marks"]


def test_a_calendar_without_a_file_says_how_to_name_it(preview):
    result = preview(CLOSED, *MONDAY)

    assert 0 == result.exit_code
    assert "name its file: --ics company=FILE" in " ".join(lines(result))


@pytest.mark.parametrize(
    ("text", "told"), [(None, "company.ics: No such file or directory"), ("x", "company.ics: it is no iCalendar text")]
)
def test_a_calendar_that_cannot_be_read_is_told(preview, tmp_path, text, told):
    if text is not None:
        (tmp_path / "company.ics").write_text(text)

    result = preview(CLOSED, *MONDAY, "--ics", "company.ics")

    assert 1 == result.exit_code
    assert told in result.stderr


def test_a_calendar_without_an_end_is_not_read_to_it(preview):
    result = preview(CLOSED, *MONDAY, "--ics", "company=/dev/zero")

    assert 1 == result.exit_code
    assert "/dev/zero: it has more than 4 MiB" in result.stderr


def test_events_of_a_calendar_are_schedules_that_are_named_after_them(preview, tmp_path):
    (tmp_path / "company.ics").write_text(ICS)
    text = SHOP + "  schedulesFrom:\n  - {calendar: company, matching: 'inv*', minReplicas: 50, leadTimeSeconds: 0}\n"

    result = preview(text, *MONDAY, "--ics", "company.ics")

    assert 0 == result.exit_code, result.stderr
    assert "by Calendar/company/Inventory/2026-11-24 (min)" in lines(result)


def test_a_wrong_zone_of_events_from_a_calendar_is_told_once(preview):
    text = SHOP.replace("Europe/Berlin", "Mars") + "  schedulesFrom:\n  - {calendar: company, minReplicas: 50}\n"

    result = preview(text, *MONDAY)

    assert 1 == result.exit_code
    assert 1 == len(result.stderr.splitlines()), result.stderr
    assert "spec.timeZone" in result.stderr
