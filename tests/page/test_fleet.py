"""cronhpa.page.fleet, cronhpa.page.objects: every object as a row, told again where it changed."""

import msgspec

from cli.glance import named
from cronhpa.core.model.instant import MINUTE, parse_instant
from cronhpa.page.fleet import COLUMNS, FleetRows
from cronhpa.page.objects import Leader
from cronhpa.page.rights import Scope
from page.made_fleet import NOW, MadeObjects, live

ALL = Scope(None)


def of(situation, namespace="prod", name=None, **more):
    body = named(situation)
    return live(namespace, name or situation, body["spec"], body["status"], **more)


def told(rows, scope=ALL, since=None):
    answer = msgspec.json.decode(rows.answer(scope, since))
    answer["rows"] = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
    return answer


async def rows_of(*objects, leader=None):
    made = MadeObjects(objects, leader)
    rows = FleetRows(made, lambda: NOW)
    await rows.refresh()
    return made, rows


async def test_a_row_says_what_explain_and_status_say():
    _, rows = await rows_of(of("good"))

    (row,) = told(rows)["rows"]

    assert ("prod", "good", "Deciding", False) == tuple(
        row[name] for name in ("namespace", "name", "status", "needsPerson")
    )
    assert (12, 20, 30, 80, "Override") == tuple(
        row[name] for name in ("current", "desired", "min", "max", "decidedBy")
    )
    assert "the override ends" == row["nextWhat"]
    assert ("BeatsReactive", True, 2.8, 5) == tuple(
        row[name] for name in ("forecast", "forecastActs", "used", "budget")
    )


async def test_an_object_that_needs_a_person_says_what_to_do():
    _, rows = await rows_of(of("no-target"))

    (row,) = told(rows)["rows"]

    assert (True, "NoTarget") == (row["needsPerson"], row["status"])
    assert ["there is no Deployment/shop; create it, or correct spec.scaleTargetRef"] == row["notes"]


async def test_a_row_tells_by_itself_when_its_object_has_run_at_its_maximum_for_too_long():
    """Maxed since 09:40; 15 minutes later it needs a person, although nothing of it has changed."""
    since = parse_instant("2026-11-23T09:40:00Z")
    clock = [since + 14 * MINUTE]
    rows = FleetRows(MadeObjects([of("maxed")]), lambda: clock[0])
    await rows.refresh()
    before = told(rows)
    clock[0] = since + 15 * MINUTE
    await rows.refresh()

    assert [False] == [row["needsPerson"] for row in before["rows"]]
    assert [True] == [row["needsPerson"] for row in told(rows, since=before["sequence"])["rows"]]
    await rows.refresh()
    assert [] == told(rows, since=before["sequence"] + 1)["rows"]


async def test_only_objects_that_changed_or_went_are_told_again():
    made, rows = await rows_of(of("good"), of("plain"), of("preview"))
    first = told(rows)
    made.items["prod", "plain"] = of("plain", version=2)
    del made.items["prod", "preview"]
    await rows.refresh()

    answer = told(rows, since=first["sequence"])

    assert (False, ["plain"], [["prod", "preview"]]) == (
        answer["whole"], [row["name"] for row in answer["rows"]], answer["gone"],
    )  # fmt: skip
    assert [] == told(rows, since=answer["sequence"])["rows"]


async def test_a_scope_shows_its_namespaces_alone_also_of_what_went():
    made, rows = await rows_of(of("good"), of("good", "secret"), of("plain", "secret"))
    scope = Scope(frozenset({"prod"}))
    first = told(rows, scope)
    del made.items["secret", "plain"]
    await rows.refresh()

    assert ["prod"] == [row["namespace"] for row in first["rows"]]
    assert b"secret" not in rows.answer(scope, None) + rows.answer(scope, first["sequence"])


async def test_whoever_sees_other_namespaces_than_before_is_told_all():
    _, rows = await rows_of(of("good"))
    one, other = Scope(frozenset({"prod"})), Scope(frozenset({"prod", "dev"}))

    assert rows.is_known(1, one, rows.instance, one.digest)
    assert not rows.is_known(1, other, rows.instance, one.digest)
    assert not rows.is_known(1, one, "another process", one.digest)


async def test_an_object_whose_status_cannot_be_read_costs_only_itself():
    broken = live("prod", "broken", {}, {"conditions": [17]})
    _, rows = await rows_of(broken, of("good"))

    rows_by_name = {row["name"]: row for row in told(rows)["rows"]}

    assert {"broken", "good"} == {*rows_by_name}
    assert (True, ["its status cannot be read: the operator's log says why"]) == (
        rows_by_name["broken"]["needsPerson"], rows_by_name["broken"]["notes"],
    )  # fmt: skip


async def test_a_replica_that_does_not_lead_says_so():
    _, rows = await rows_of(of("good"), leader=Leader(leads=False, holder="cronhpa-1"))

    assert (False, "cronhpa-1") == (told(rows)["leads"], told(rows)["leader"])


async def test_each_row_has_a_value_for_each_column():
    _, rows = await rows_of(*(of(name) for name in ("good", "no-metric", "night-zero", "contradictory")))

    assert {len(COLUMNS)} == {len(row) for row in msgspec.json.decode(rows.answer(ALL, None))["rows"]}
