"""`cronhpa preview EVENT.yaml`: each object before and during, the sums, and what is wrong with an event."""

import json
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest
import yaml
from typer.testing import CliRunner

from cronhpa.cli import app

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
EVENT = {
    "apiVersion": "cronhpa.io/v1alpha1",
    "kind": "PlannedEvent",
    "metadata": {"name": "sale", "namespace": "prod"},
    "spec": {
        "selector": {"matchLabels": {"tier": "web"}},
        "reason": "Black Friday",
        "schedules": [
            {"name": "doors", "from": "2996-11-27T06:00", "to": "2996-11-28T00:00", "minReplicasPercent": 250}
        ],
    },
}


def cron_hpa(name, low, high, tier="web"):
    meta = {"name": name, "namespace": "prod", "labels": {"tier": tier}}
    spec = {"scaleTargetRef": TARGET | {"name": name}, "minReplicas": low, "maxReplicas": high, "metrics": [CPU]}
    return {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": meta, "spec": spec}


@pytest.fixture
def preview(tmp_path):
    def run(*documents, options=()):
        file = tmp_path / "sale.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        return CliRunner().invoke(app, ["preview", str(file), *options])

    return run


def test_each_object_has_a_row_and_the_sums_follow(preview):
    """250 % of 4 are 10, of 6 are 15: cart has 10 at most, so it is short of 5. jobs has another label."""
    answer = preview(EVENT, cron_hpa("shop", 4, 20), cron_hpa("cart", 6, 10), cron_hpa("jobs", 1, 5, tier="batch"))

    assert answer.exit_code == 0
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert ["prod/shop", "4", "to", "20", "10", "to", "20"] in lines
    assert any(line[:7] == ["prod/cart", "6", "to", "10", "10", "to", "10"] for line in lines)
    assert "its maxReplicas is 10" in answer.stdout
    assert "jobs" not in answer.stdout
    assert ["2", "objects", "10", "20", "short", "of", "5"] == lines[-1]


def test_a_picture_names_the_bounds_in_percent(preview, tmp_path):
    """Found: the row of the event named none."""
    span = ("--from", "2996-11-27", "--to", "1d")

    answer = preview(EVENT, cron_hpa("shop", 4, 20), options=(*span, "--picture", str(tmp_path / "shop.svg")))

    assert 0 == answer.exit_code
    assert "Event/sale: at least 250 % of the others" in ET.parse(tmp_path / "shop.svg").getroot().itertext()


def test_a_key_of_an_event_that_stands_twice_is_told(tmp_path):
    """Found: the later of two reasons was taken without a word."""
    (tmp_path / "sale.yaml").write_text(yaml.safe_dump(EVENT, sort_keys=False) + "  reason: Cyber Monday\n")

    answer = CliRunner().invoke(app, ["preview", str(tmp_path / "sale.yaml")])

    assert 1 == answer.exit_code
    assert "reason: it stands in line 10 already: leave one" in answer.stderr


def test_for_programs_it_is_json(preview):
    answer = preview(EVENT, cron_hpa("shop", 4, 20), options=("-o", "json"))

    (event,) = json.loads(answer.stdout)
    assert ("sale", "2996-11-27T06:00:00Z", 10, 0) == tuple(event[key] for key in ("event", "start", "pods", "short"))


def test_to_ends_the_span_in_which_starts_are_shown(preview):
    """Found: --to had no effect. The window opens on the 27th at 6:00."""
    span = ("--from", "2996-11-26", "--to")

    before, after = (preview(EVENT, cron_hpa("shop", 4, 20), options=(*span, end)).stdout for end in ("1d", "2d"))

    assert "prod/sale: Black Friday: no window of it opens before Sun 2996-11-27 00:00 +00:00\n" == before
    assert "prod/shop" in after


def test_an_event_that_does_not_open_before_the_end_names_no_schedule_and_no_object(preview, tmp_path):
    """Found: a picture was drawn of each of its objects, and JSON named the schedule that opens later."""
    second = {"name": "again", "from": "2996-12-04T06:00", "to": "2996-12-05T00:00", "minReplicas": 9}
    twice = EVENT | {"spec": EVENT["spec"] | {"schedules": [*EVENT["spec"]["schedules"], second]}}
    drawn = ("--picture", str(tmp_path / "shop.svg"))

    answer = preview(
        twice, cron_hpa("shop", 4, 20), options=("--from", "2996-11-26", "--to", "1d", "-o", "json", *drawn)
    )

    (event,) = json.loads(answer.stdout)
    assert (None, None, []) == (event["start"], event["schedule"], event["objects"])
    assert [] == [*tmp_path.glob("*.svg")]


def test_all_has_no_effect_beside_an_event_as_its_table_has_no_days(preview):
    """A folder may hold events and objects."""
    answer = preview(EVENT, cron_hpa("shop", 4, 20), options=("--all",))

    assert (0, "--all: the table of a planned event has no days\n") == (answer.exit_code, answer.stderr)
    assert "prod/shop" in answer.stdout


def test_an_event_for_nobody_says_so(preview):
    answer = preview(EVENT, cron_hpa("jobs", 1, 5, tier="batch"))

    assert "it concerns no object" in answer.stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"minReplicasPercnt": 200}, "did you mean minReplicasPercent?"),
        ({"minReplicasPercent": 0}, "1 or more is accepted"),
        ({"expectedLoadPercent": 250, "minReplicasPercent": None}, "whose usual load is not known yet"),
        ({"to": "2996-11-26T00:00"}, "to must be after from"),
    ],
)
def test_what_is_wrong_with_an_event_is_told_with_its_line(preview, change, words):
    schedule = {key: value for key, value in (EVENT["spec"]["schedules"][0] | change).items() if value is not None}

    answer = preview(EVENT | {"spec": EVENT["spec"] | {"schedules": [schedule]}}, cron_hpa("shop", 4, 20))

    assert answer.exit_code == 1
    assert "sale.yaml:" in answer.stderr
    assert words in " ".join(answer.stderr.split())


def changed(**bounds):
    """The event with other bounds of its window."""
    schedule = {key: value for key, value in (EVENT["spec"]["schedules"][0] | bounds).items() if value is not None}
    return EVENT | {"spec": EVENT["spec"] | {"schedules": [schedule]}}


@pytest.fixture
def written(tmp_path):
    def write(name, *documents):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump_all(documents))
        return str(file)

    return write


def cronhpa(*arguments, **more):
    return CliRunner().invoke(app, ["preview", *arguments], **more)


def test_an_event_is_read_from_a_folder_and_from_standard_input(written, tmp_path):
    written("all/sale.yaml", EVENT)
    shop = written("all/shop.yaml", cron_hpa("shop", 4, 20))

    of_folder = cronhpa(str(tmp_path / "all"))
    piped = cronhpa("-", shop, input=yaml.safe_dump(EVENT))

    assert "prod/shop" in of_folder.stdout
    assert of_folder.stdout == piped.stdout


@pytest.mark.parametrize("content", [b"{{- if .Values.sale }}: [", b"\xff\xfe"])
def test_a_file_beside_it_that_cannot_be_read_is_told(written, tmp_path, content):
    """Such as a template of Helm: it was a traceback, or the event was not seen."""
    written("sale.yaml", EVENT, cron_hpa("shop", 4, 20))
    (tmp_path / "template.yaml").write_bytes(content)

    answer = CliRunner().invoke(app, ["preview", str(tmp_path)])

    assert (1, SystemExit) == (answer.exit_code, type(answer.exception))
    assert f"{tmp_path / 'template.yaml'}:" in answer.stderr


def test_a_version_that_is_not_there_is_an_error_of_the_difference(written, tmp_path):
    answer = CliRunner().invoke(
        app, ["preview", "--diff", str(tmp_path / "none.yaml"), str(written("new.yaml", EVENT))]
    )

    assert (2, SystemExit) == (answer.exit_code, type(answer.exception))
    assert "none.yaml: No such file or directory" in answer.stderr


def test_the_events_of_a_list_are_read(preview):
    answer = preview({"apiVersion": "v1", "kind": "List", "items": [EVENT, cron_hpa("shop", 4, 20)]})

    assert "prod/shop       4 to 20  10 to 20" in answer.stdout


def test_the_difference_of_two_versions_is_that_of_what_they_ask_of_each_object(written):
    """250 % of 4 are 10, 300 % are 12; cart has 10 at most either way, so it does not differ."""
    objects = (cron_hpa("shop", 4, 20), cron_hpa("cart", 6, 10))
    old = written("old.yaml", EVENT, *objects)
    new = written("new.yaml", changed(minReplicasPercent=300), *objects)

    answer = cronhpa("--diff", old, new)

    assert ["prod/sale: changed", "  prod/shop: 10 to 20 -> 12 to 20"] == answer.stdout.splitlines()
    assert answer.exit_code == 1
    assert (0, "") == ((same := cronhpa("--diff", old, old)).exit_code, same.stdout)


def test_a_moved_start_and_a_removed_event_are_differences(written):
    shop = cron_hpa("shop", 4, 20)
    old = written("old.yaml", EVENT, shop)
    moved = cronhpa("--diff", old, written("new.yaml", changed(**{"from": "2996-11-27T08:00"}), shop))
    removed = cronhpa("--diff", old, written("none.yaml", shop))

    begin = "start: Sun 2996-11-27 06:00 +00:00 ->"
    assert f"{begin} Sun 2996-11-27 08:00 +00:00" in moved.stdout
    assert [
        "prod/sale: removed",
        f"  {begin} none",
        "  prod/shop: 10 to 20 -> not concerned",
    ] == (removed.stdout.splitlines())


def test_a_start_that_moves_beyond_the_end_is_told_with_its_time(written):
    """Found: it was no start, its objects were not concerned, and two starts beyond the end were no difference."""
    shop = cron_hpa("shop", 4, 20)
    old, later, last = (
        written(f"{day}.yaml", changed(**{"from": f"2996-11-{day}T06:00", "to": "2996-11-30T00:00"}), shop)
        for day in ("26", "27", "28")
    )
    span = ("--from", "2996-11-26", "--to", "1d")

    moved, beyond = cronhpa("--diff", old, later, *span), cronhpa("--diff", later, last, *span)

    start = "start: Sat 2996-11-26 06:00 +00:00 -> Sun 2996-11-27 06:00 +00:00"
    assert ["prod/sale: changed", f"  {start}"] == moved.stdout.splitlines()
    assert (1, 1) == (moved.exit_code, beyond.exit_code)


def test_an_end_that_is_none_ends_a_comparison_of_events_too(written):
    """Found: it was read of tables alone."""
    event = written("sale.yaml", EVENT)

    answer = cronhpa("--diff", event, event, "--to", "")

    assert 2 == answer.exit_code
    assert "Invalid value for --to" in answer.stderr


def test_each_picked_object_is_drawn_with_the_event_in_it(written, tmp_path):
    both = written("both.yaml", EVENT, cron_hpa("shop", 4, 20), cron_hpa("cart", 6, 10))

    answer = cronhpa(both, "--picture", str(tmp_path / "sale.svg"), "--from", "2996-11-27", "--to", "2d")

    assert answer.exit_code == 0, answer.stderr
    pictures = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert ["sale-prod.cart.svg", "sale-prod.shop.svg"] == pictures
    assert all("Event/sale" in (tmp_path / name).read_text() for name in pictures)


def other(name, **bounds):
    return changed(**{"minReplicasPercent": None, **bounds}) | {"metadata": {"name": name, "namespace": "prod"}}


def test_events_beside_it_hold_before_it_and_contradictions_are_told(preview):
    """Another event asks for 8, of which 250 % are 20; a third one caps at 12 with the same rank."""
    answer = preview(EVENT, other("more", minReplicas=8), cron_hpa("shop", 4, 40))
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert ["prod/shop", "8", "to", "40", "20", "to", "40"] in lines

    answer = preview(other("most", maxReplicas=12), EVENT, cron_hpa("shop", 6, 40))
    assert answer.stdout.count("Event/sale asks for at least 15, Event/most for at most 12") == 2


def test_times_of_a_contradiction_are_those_of_the_zone_that_the_heading_names(preview):
    berlin = {"timeZone": "Europe/Berlin"}
    events = [event | {"spec": event["spec"] | berlin} for event in (EVENT, other("most", maxReplicas=12))]
    told = preview(*events, cron_hpa("shop", 6, 40)).stdout

    assert "contradiction: until Mon 2996-11-28 00:00 +01:00 " in told


def test_from_and_zone_are_those_of_the_table(preview):
    """Found: both were taken for the picture alone. The windows open at 6:00 UTC, 7:00 in Berlin, on two days."""
    second = {"name": "again", "from": "2996-12-04T06:00", "to": "2996-12-05T00:00", "minReplicas": 9}
    twice = EVENT | {"spec": EVENT["spec"] | {"schedules": [*EVENT["spec"]["schedules"], second]}}

    told = preview(twice, cron_hpa("shop", 4, 20), options=("--from", "2996-12-01", "--zone", "Europe/Berlin")).stdout

    assert told.startswith("prod/sale (again): Black Friday, from Sun 2996-12-04 07:00 +01:00 (Europe/Berlin)\n")


def test_an_event_that_lowers_a_lower_bound_says_so(preview):
    """By its priority the event's 5 are in place of the schedule's 12: 12 - 5 are 7."""
    night = {"name": "night", "from": "2996-11-27T00:00", "to": "2996-11-28T00:00", "minReplicas": 12}
    shop = cron_hpa("shop", 4, 20)
    shop["spec"]["schedules"] = [night]

    told = preview(changed(minReplicasPercent=None, minReplicas=5, priority=10), shop).stdout

    assert "lowers its lower bound by 7" in told


def test_without_objects_and_a_cluster_it_says_that_files_of_them_do(preview, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    answer = preview(EVENT, options=("--kubeconfig", "/nonexistent"))

    assert 1 == answer.exit_code
    assert "; or give the files of the event's objects, too" in answer.stderr


def test_a_contradiction_is_told_whatever_a_schedule_is_called(preview):
    doors = EVENT["spec"]["schedules"][0]
    several = [doors | {"name": "the doors open"}, doors | {"name": "night", "to": "2996-11-27T07:00"}]
    event = EVENT | {"spec": EVENT["spec"] | {"schedules": several}}

    told = preview(other("most", maxReplicas=12), event, cron_hpa("shop", 6, 40)).stdout

    assert "Event/sale/the doors open asks for at least 15, Event/most for at most 12" in told
    assert told.count("contradiction") == 2


def test_each_start_of_an_event_with_several_windows_has_a_table(preview):
    """Doors at 6 ask for 10, the evening for 50 of 20: it is short of 30 from 18:00 on, and that is told now."""
    evening = {"name": "evening", "from": "2996-11-27T18:00", "to": "2996-11-27T20:00", "minReplicas": 50}
    spec = EVENT["spec"] | {"schedules": [*EVENT["spec"]["schedules"], evening]}

    answer = preview(EVENT | {"spec": spec}, cron_hpa("shop", 4, 20), options=("-o", "json"))

    told = [(one["schedule"], one["start"], one["pods"], one["short"]) for one in json.loads(answer.stdout)]
    assert told == [
        ("doors", "2996-11-27T06:00:00Z", 10, 0),
        ("evening", "2996-11-27T18:00:00Z", 20, 30),
    ]
    tables = preview(EVENT | {"spec": spec}, cron_hpa("shop", 4, 20)).stdout
    assert "prod/sale (doors): Black Friday, from Sun 2996-11-27 06:00 +00:00 (UTC)" in tables
    assert "prod/sale (evening): Black Friday, from Sun 2996-11-27 18:00 +00:00 (UTC)" in tables


def test_the_days_of_calendars_count_for_an_event_and_its_objects(preview, tmp_path):
    """The company is closed on 27 November: the event opens a day later, and the object's own day holds then."""
    away = {"exclude": {"calendars": ["company"]}}
    doors = {"name": "doors", "start": "0 6 27-28 11 *", "durationMinutes": 60, "minReplicasPercent": 250, **away}
    shop = cron_hpa("shop", 4, 20)
    day = {"name": "day", "start": "0 0 * * *", "end": "0 23 * * *", "minReplicas": 6, **away}
    shop["spec"]["schedules"] = [day]
    event = EVENT | {"spec": EVENT["spec"] | {"schedules": [doors]}}
    holiday = "BEGIN:VEVENT\nUID:1\nDTSTART;VALUE=DATE:{}1127\nEND:VEVENT\n"
    years = range(datetime.now(UTC).year, datetime.now(UTC).year + 2)
    holidays = "".join(holiday.format(year).replace("UID:1", f"UID:{year}") for year in years)
    file = tmp_path / "company.ics"
    file.write_text(f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:t\n{holidays}END:VCALENDAR\n")

    unnamed = preview(event, shop)
    answer = preview(event, shop, options=("--to", "370d", "--ics", str(file), "-o", "json"))

    assert 1 == unnamed.exit_code
    assert "name its file: --ics company=FILE" in unnamed.stderr
    (told,) = json.loads(answer.stdout)
    assert "-11-28T06:" in told["start"]
    assert (6, 15) == (told["objects"][0]["before"]["min"], told["objects"][0]["during"]["min"])


def test_a_suspended_schedule_of_an_event_neither_opens_nor_asks_for_a_load(preview):
    doors = EVENT["spec"]["schedules"][0]
    paused = doors | {"name": "paused", "suspend": True, "timeZone": "Asia/Tokyo", "expectedLoadPercent": 200}
    event = EVENT | {"spec": EVENT["spec"] | {"schedules": [paused, doors]}}

    (told,) = json.loads(preview(event, cron_hpa("shop", 4, 20), options=("-o", "json")).stdout)

    assert ("doors", "2996-11-27T06:00:00Z", "") == (told["schedule"], told["start"], told["objects"][0]["why"])


def test_a_percentage_of_nothing_is_told(preview):
    idle = cron_hpa("shop", 0, 20)
    target = {"type": "AverageValue", "averageValue": "10"}
    idle["spec"]["metrics"] = [{"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}]

    assert "state minReplicas" in preview(EVENT, idle).stdout


NIGHT = {"name": "night", "start": "0 0 * * *", "end": "0 4 * * *"}


def torn(name, tier="batch"):
    body = cron_hpa(name, 2, 20, tier=tier)
    body["spec"]["schedules"] = [NIGHT | {"minReplicas": 8}, NIGHT | {"name": "cheap", "maxReplicas": 5}]
    return body


def test_objects_beside_an_event_are_looked_at_for_conflicts(preview):
    """Found: one event in a folder, and no object of it was looked at: `--fail-on-conflict` ended with 0."""
    answer = preview(EVENT, torn("jobs"), options=("--fail-on-conflict",))

    assert 3 == answer.exit_code
    assert "prod/jobs: Schedule/night asks for at least 8, Schedule/cheap for at most 5" in answer.stderr
    assert 0 == preview(EVENT, torn("jobs")).exit_code
    assert 0 == preview(EVENT, cron_hpa("shop", 4, 20), options=("--fail-on-conflict",)).exit_code


def test_an_event_that_contradicts_is_a_conflict(preview):
    answer = preview(EVENT, other("most", maxReplicas=12), cron_hpa("shop", 6, 40), options=("--fail-on-conflict",))

    assert 3 == answer.exit_code


def test_a_difference_of_an_object_beside_an_event_is_a_difference(written):
    """Found: with an event in the files the objects in them were not compared."""
    old = written("old.yaml", EVENT, cron_hpa("jobs", 1, 5, tier="batch"))
    new = written("new.yaml", EVENT, cron_hpa("jobs", 1, 9, tier="batch"))

    answer = cronhpa("--diff", old, new)

    assert 1 == answer.exit_code
    assert "prod/jobs: Deployment/jobs: changed: maxReplicas" in answer.stdout


def test_the_difference_of_events_is_no_json(written):
    """Found: text where JSON was asked for."""
    old = written("old.yaml", EVENT, cron_hpa("shop", 4, 20))

    answer = cronhpa("--diff", old, old, "-o", "json")

    assert 2 == answer.exit_code
    assert "text alone" in answer.stderr
