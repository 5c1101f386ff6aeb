"""cronhpa.cli.commands.difference: `cronhpa preview --diff`, the changes of bounds between two manifests."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from typer.testing import CliRunner

from cli.commands.test_preview import MONDAY, SHOP
from core.situations import specs
from cronhpa.cli import app
from cronhpa.cli.commands.difference import Change, ObjectDifference
from cronhpa.cli.tables.bounds_table import BoundsSubject
from cronhpa.core.model.instant import DAY, parse_instant
from cronhpa.core.schedules.timeline import timeline

MORE = SHOP.replace("minReplicas: 20", "minReplicas: 30").replace("maxReplicas: 120", "maxReplicas: 100")


@pytest.fixture
def diff(tmp_path, monkeypatch):
    """Runs the command on the texts of two files, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(old, new, *options):
        (tmp_path / "old.yaml").write_text(old)
        (tmp_path / "new.yaml").write_text(new)
        return CliRunner().invoke(app, ["preview", "--diff", "old.yaml", "new.yaml", *options])

    return run


def test_a_change_is_told_where_it_happens(diff):
    result = diff(SHOP, MORE, "--from", "2026-11-26", "--to", "2d")

    assert (
        """\
prod/shop: Deployment/shop: changed: maxReplicas, schedules
Thu 2026-11-26 00:00 to Sat 2026-11-28 00:00, Europe/Berlin (UTC+01:00)
FROM                  LASTS       MIN         MAX  BY
Thu 2026-11-26 00:00    8 h         2  120 -> 100
Thu 2026-11-26 08:00   10 h  20 -> 30  120 -> 100  day (min)
Thu 2026-11-26 18:00   14 h         2  120 -> 100
Fri 2026-11-27 08:00   10 h  20 -> 30  120 -> 100  day (min)
Fri 2026-11-27 18:00    6 h         2  120 -> 100
"""
        == result.stdout
    )
    assert 1 == result.exit_code


def test_another_writing_of_the_same_is_no_difference(diff):
    """Order of fields, quotes, a default that is written out."""
    body = yaml.safe_load(SHOP)
    body["spec"] = {"mode": "Active", **dict(reversed(body["spec"].items()))}

    result = diff(SHOP, yaml.safe_dump(body, sort_keys=False))

    assert (0, "") == (result.exit_code, result.stdout)


def test_a_change_that_moves_no_bound_is_named(diff):
    result = diff(SHOP, SHOP.replace("  minReplicas", "  syncPeriodSeconds: 30\n  minReplicas", 1), *MONDAY)

    assert 1 == result.exit_code
    assert "changed: syncPeriodSeconds and the like" in result.stdout
    assert "the bounds stay as they are" in result.stdout


def test_the_earlier_source_of_a_bound_is_told_if_it_differs(diff):
    result = diff(
        SHOP, SHOP.replace("name: day", "name: late").replace("0 8", "0 9"), "--from", "2026-11-26", "--to", "1d"
    )

    assert "Thu 2026-11-26 08:00    1 h  20 -> 2  120\n    was day (min)\n" in result.stdout


def test_objects_that_come_and_go_are_told(diff):
    other = SHOP.replace("name: shop, namespace", "name: api, namespace")

    result = diff(f"{SHOP}---\n{other}", SHOP + "---\n" + other.replace("name: api,", "name: web,"), *MONDAY)

    heads = [line for line in result.stdout.splitlines() if line.startswith("prod/")]
    assert "prod/web: Deployment/shop: added" == heads[0]
    assert heads[-1].startswith("prod/api: Deployment/shop: removed: its replicas stay as they are, and nothing")


def test_a_conflict_that_is_new_is_told_and_an_old_one_not(diff):
    quiet = '  - {name: quiet, start: "0 12 * * wed", durationMinutes: 60, maxReplicas: 10}\n'

    assert "conflict 1, once, Wed" in diff(SHOP, SHOP + quiet, *MONDAY).stdout
    assert "conflict" not in diff(SHOP + quiet, SHOP.replace("120", "100") + quiet, *MONDAY).stdout
    assert 3 == diff(SHOP, SHOP + quiet, *MONDAY, "--fail-on-conflict").exit_code


@pytest.mark.parametrize(
    ("old", "new"),
    [(SHOP, "spec: ["), ("kind: Service", SHOP), (SHOP, SHOP.replace("120", "many")), (SHOP, f"{SHOP}---\n{SHOP}")],
    ids=["no YAML", "no object", "a wrong spec", "an object twice"],
)
def test_an_error_is_more_than_a_difference(diff, old, new):
    """As with diff and kubectl diff, 1 means a difference: a script must not take an error for one."""
    result = diff(old, new)

    assert (2, "") == (result.exit_code, result.stdout)
    assert result.stderr.startswith("cronhpa preview: ")


@pytest.mark.parametrize("words", [["a.yaml"], ["a.yaml", "b.yaml", "c.yaml"], []])
def test_two_are_compared(words):
    result = CliRunner().invoke(app, ["preview", "--diff", *words])

    assert 2 == result.exit_code
    assert "--diff OLD" in result.stderr


def test_json_has_both_versions_of_each_interval(diff):
    (document,) = json.loads(diff(SHOP, MORE, "--from", "2026-11-26T08:00", "--to", "1h", "-o", "json").stdout)

    assert ("prod/shop", "Changed", ["maxReplicas", "schedules"]) == (
        document["name"],
        document["change"],
        document["fields"],
    )
    (interval,) = document["bounds"]
    assert ("2026-11-26T08:00:00+01:00", "2026-11-26T09:00:00+01:00") == (interval["from"], interval["to"])
    assert [20, 30] == [interval[version]["minReplicas"] for version in ("old", "new")]
    assert ["Spec", "Spec"] == [interval[version]["maxReplicasBy"] for version in ("old", "new")]


def test_an_object_of_the_cluster_is_compared_with_the_file_that_will_be_applied(
    served, cronhpa, tmp_path, monkeypatch
):
    """Its override stays where the file states none, and the measured start-up counts for both."""
    monkeypatch.chdir(tmp_path)
    body = yaml.safe_load(SHOP.replace(", leadTimeSeconds: 0", ""))
    memory = {"version": 1, "recommendations": [], "scaleUpEvents": [], "scaleDownEvents": [], "startUpSeconds": 75}
    override = {"minReplicas": 50, "until": "2126-11-24T00:00:00Z", "reason": "INC-4711"}
    served.hold(body | {"spec": body["spec"] | {"override": override}, "status": {"memory": memory}})
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP.replace(", leadTimeSeconds: 0", "").replace(", namespace: prod", ""))

    same = cronhpa("preview", "--diff", "shop", file)
    file.write_text(file.read_text().replace("minReplicas: 20", "minReplicas: 70"))
    changed = cronhpa("preview", "--diff", "shop", file, "--from", "2026-11-26T07:00", "--to", "3h")

    assert (0, "") == (same.exit_code, same.stdout)
    assert 1 == changed.exit_code
    assert "prod/shop: Deployment/shop: changed: schedules" in changed.stdout


@settings(max_examples=60)
@given(specs(), specs())
def test_the_intervals_are_those_in_which_the_bounds_differ(one, other):
    """Checked at every edge of both timelines; no timeline differs from itself."""
    start = parse_instant("2026-11-23T00:00:00Z")
    old, new = (BoundsSubject("shop", of, "UTC", timeline(of, start, start + 2 * DAY)) for of in (one, other))

    difference = ObjectDifference(old, new)
    changes = difference.bounds()

    assert [] == ObjectDifference(old, old).bounds()
    assert Change.SAME is ObjectDifference(old, old).change
    assert all(change.start < change.end for change in changes)
    for at in sorted({segment.start for subject in (old, new) for segment in subject.timeline.segments}):
        before, after = (
            next(segment for segment in subject.timeline.segments if segment.start <= at < segment.end)
            for subject in (old, new)
        )
        differs = (before.minimum, before.maximum, before.headroom_percent) != (
            after.minimum, after.maximum, after.headroom_percent,
        )  # fmt: skip
        assert differs == any(change.start <= at < change.end for change in changes)
