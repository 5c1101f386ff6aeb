"""The CRD on a real API server: accepted and refused specs, defaults and columns."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from conformance.specs import UPSTREAM_DEFAULT, Server, is_alike, judged, objects
from cronhpa.api.parse import SpecError
from cronhpa.api.rules import broken_rules
from cronhpa.api.written_spec import written_spec

PROJECT = Path(__file__).parents[2]
EXAMPLES = sorted((PROJECT / "crds" / "examples").glob("*.yaml"))
VECTORS = PROJECT / "tests" / "conformance" / "vectors" / "specs.jsonl.gz"
PATCH = "application/merge-patch+json"


@pytest.fixture(scope="module")
def server(control_plane):
    return Server(control_plane)


CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
QUEUE = {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "100"}}}
SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
DAY = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 3}
UNTIL = {"until": "2026-11-23T18:00:00Z", "reason": "INC-4711"}


def spec(**fields):
    return {"scaleTargetRef": SHOP, "maxReplicas": 10, "metrics": [CPU], **fields}


def scheduled(**fields):
    """The schedule `day` with fields replaced; a field that is None is left out."""
    return spec(schedules=[{key: value for key, value in {**DAY, **fields}.items() if value is not None}])


def event(**fields):
    """A schedule that is one event; a field that is None is left out."""
    once = {"start": None, "end": None, "from": "2026-11-27T00:00", "to": "2026-11-28T02:00"}
    return scheduled(**{**once, **fields})


def measured(**target):
    return spec(metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": target}}])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_accepted(server, namespace, path):
    answer = server.kubectl("apply", "--validate=strict", "--namespace", namespace, "-f", str(path))

    assert answer.endswith(" created\n")


ACCEPTED = {
    "metrics alone": spec(),
    "a schedule alone": scheduled() | {"metrics": None},
    "zero replicas with an External metric": spec(minReplicas=0, metrics=[CPU, QUEUE]),
    "zero replicas with a schedule": scheduled() | {"minReplicas": 0},
    "a window of no replicas": scheduled(minReplicas=None, replicas=0),
    "a window of headroom alone": scheduled(minReplicas=None, headroomPercent=50),
    "a duration in place of an end": scheduled(end=None, durationMinutes=60),
    "an event": event(),
    "a lead of a day": scheduled(leadTimeSeconds=86_400),
    "no lead": scheduled(leadTimeSeconds=0),
    "names, steps, lists and L": scheduled(start="*/15 8-10/2 1,L jan-MAR/2 *", end="@daily"),
    "nth weekdays": scheduled(start="0 8 * * 5#2,L5"),
    "days on which it does not open": scheduled(
        exclude={"dates": [{"from": "2026-12-27", "to": "2026-12-31"}], "holidays": [{"country": "DE"}]}
    ),
    "the only days on which it opens, but for some": scheduled(
        only={"holidays": [{"country": "DE", "subdivision": "BY"}]},
        exclude={"dates": [{"from": "2028-02-29", "to": "2028-02-29"}]},
    ),
    "blanks around a cron text": scheduled(start="  0 8 *  * * "),
    "a zone with a region": spec(timeZone="America/Argentina/Buenos_Aires"),
    "an override of two bounds": spec(override={"minReplicas": 1, "maxReplicas": 3, **UNTIL}),
    "an override with an offset": spec(override={**UNTIL, "replicas": 0, "until": "2026-11-23T18:00:00.5+01:00"}),
    "a forecast": spec(forecast={"ignoreHistory": [{"from": "2026-10-03T06:00:00Z", "to": "2026-10-03T12:00:00Z"}]}),
    "a fallback": spec(fallback={"replicas": 10}),
    "a fallback at once": spec(fallback={"replicas": 1, "afterSeconds": 0}),
    "pods that the target owns": spec(podSelection="Owned"),
    "methods to forecast by": spec(forecast={"methods": ["Clock", "ExponentialSmoothing", "a-package.Theta2"]}),
    "eight methods of the longest name": spec(forecast={"methods": [f"{number:063d}" for number in range(8)]}),
    "a bare number as a quantity": measured(type="AverageValue", averageValue=2),
    "a quantity with blanks": measured(type="AverageValue", averageValue=" 250m "),
    "a core ReplicationController": spec(
        scaleTargetRef={"apiVersion": "v1", "kind": "ReplicationController", "name": "shop"}
    ),
    "nulls where upstream takes them": spec(
        minReplicas=None, behavior={"scaleUp": None}, metrics=[CPU | {"pods": None}]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_accepts(server, name):
    assert {} == server.verdict(ACCEPTED[name]).causes


REFUSED = {
    "neither metrics nor schedules": (spec(metrics=[]), "spec.metrics", UPSTREAM_DEFAULT),
    "a maximum below the minimum": (
        spec(minReplicas=20), "spec.maxReplicas", "found maxReplicas 10 and minReplicas 20",
    ),
    "zero replicas by CPU alone": (spec(minReplicas=0), "spec.metrics", "Object or External metric or a schedule"),
    "more metrics than 30": (spec(metrics=[CPU] * 31), "spec.metrics", "at most 30"),
    "more schedules than 50": (
        spec(schedules=[DAY | {"name": f"day-{number}"} for number in range(51)]), "spec.schedules", "at most 50",
    ),
    "two schedules of one name": (spec(schedules=[DAY, DAY]), "spec.schedules[1]", "Duplicate"),
    "a schedule without a name": (scheduled(name=""), "spec.schedules[0].name", "at least 1 chars"),
    "a target without a group": (
        spec(scaleTargetRef=SHOP | {"apiVersion": "v1"}), "spec.scaleTargetRef.apiVersion", "such as apps/v1",
    ),
    "an unknown mode": (spec(mode="Off"), "spec.mode", '"Active", "Preview"'),
    "a start without an end": (scheduled(end=None), "spec.schedules[0].end", "end (a cron text) or durationMinutes"),
    "an end twice": (scheduled(durationMinutes=5), "spec.schedules[0].end", "keep one of them"),
    "no time at all": (scheduled(start=None, end=None), "spec.schedules[0].start", "say when it opens"),
    "an end without a start": (scheduled(start=None), "spec.schedules[0].start", "say when it opens"),
    "a start beside an event": (event(start="@daily"), "spec.schedules[0].start", "make two schedules"),
    "an end beside an event": (event(end="@daily"), "spec.schedules[0].end", "an event ends at to"),
    "an event without an end": (event(to=None), "spec.schedules[0].to", "from needs to"),
    "an event without a beginning": (event(**{"from": None}), "spec.schedules[0].from", "to needs from"),
    "an event that ends before it begins": (
        event(to="2026-11-26T00:00"), "spec.schedules[0].to", "found from 2026-11-27T00:00 and to 2026-11-26T00:00",
    ),
    "a date that does not exist": (event(**{"from": "2026-02-30T00:00"}), "spec.schedules[0].from", "that exist"),
    "an event with an offset": (event(to="2026-11-28T02:00:00Z"), "spec.schedules[0].to", "without an offset"),
    "an event with days": (
        event(exclude={"dates": [{"from": "2026-11-27", "to": "2026-11-27"}]}),
        "spec.schedules[0].exclude", "exclude chooses among the days of a start",
    ),
    "no days": (scheduled(only={}), "spec.schedules[0].only", "name dates, holidays or calendars"),
    "a day that does not exist": (
        scheduled(exclude={"dates": [{"from": "2026-02-28", "to": "2026-02-30"}]}),
        "spec.schedules[0].exclude.dates[0].to", 'write a date that exists, such as "2026-12-27"',
    ),
    "a day that is not written as one": (
        scheduled(only={"dates": [{"from": "24.12.2026", "to": "2026-12-26"}]}),
        "spec.schedules[0].only.dates[0].from", 'found "24.12.2026": write a date that exists',
    ),
    "days that end before they begin": (
        scheduled(only={"dates": [{"from": "2026-12-26", "to": "2026-12-24"}]}),
        "spec.schedules[0].only.dates[0].to", "found from 2026-12-26 and to 2026-12-24: from must not be after to",
    ),
    "a country that is no code": (
        scheduled(exclude={"holidays": [{"country": "Germany"}]}),
        "spec.schedules[0].exclude.holidays[0].country", 'found "Germany": write the two capital letters of ISO 3166',
    ),
    "more dates than 40": (
        scheduled(exclude={"dates": [{"from": "2026-12-24", "to": "2026-12-26"}] * 41}),
        "spec.schedules[0].exclude.dates", "at most 40",
    ),
    "more calendars than 10": (
        scheduled(exclude={"holidays": [{"country": "DE"}] * 11}),
        "spec.schedules[0].exclude.holidays", "at most 10",
    ),
    "a schedule that asks for nothing": (
        scheduled(minReplicas=None), "spec.schedules[0].minReplicas", "replicas or headroomPercent",
    ),
    "both bounds and a bound": (scheduled(replicas=3), "spec.schedules[0].replicas", "leave out minReplicas"),
    "a window's maximum below its minimum": (
        scheduled(maxReplicas=2), "spec.schedules[0].maxReplicas", "found minReplicas 3 and maxReplicas 2",
    ),
    "seconds in a cron text": (scheduled(start="0 0 8 * * *"), "spec.schedules[0].start", '8 * * *": five fields'),
    "too few fields": (scheduled(end="0 8 * *"), "spec.schedules[0].end", 'found "0 8 * *": five fields'),
    "an empty cron text": (scheduled(start=""), "spec.schedules[0].start", 'found "": five fields'),
    "an hour past midnight": (scheduled(end="0 24 * * *"), "spec.schedules[0].end", 'found "24": the hour is 0 to 23'),
    "a weekday misspelt": (scheduled(start="0 8 * * mon-fry"), "spec.schedules[0].start", 'found "mon-fry"'),
    "a nearest weekday": (scheduled(start="0 8 15W * *"), "spec.schedules[0].start", "W and ? are not known"),
    "a question mark": (scheduled(start="0 8 ? * *"), "spec.schedules[0].start", "W and ? are not known"),
    "a zone in a cron text": (scheduled(start="TZ=UTC 0 8 * * *"), "spec.schedules[0].start", "in timeZone"),
    "@every": (scheduled(start="@every 5m"), "spec.schedules[0].start", "@hourly, @daily"),
    "@reboot": (scheduled(start="@reboot"), "spec.schedules[0].start", "@hourly, @daily"),
    "a cron text that never ends": (scheduled(start="0" * 101), "spec.schedules[0].start", "than 100"),
    "a city for a zone": (spec(timeZone="Berlin"), "spec.timeZone", 'such as "Europe/Berlin"'),
    "an offset for a zone": (scheduled(timeZone="+02:00"), "spec.schedules[0].timeZone", 'such as "Europe/Berlin"'),
    "the server's own zone": (spec(timeZone="Local"), "spec.timeZone", 'such as "Europe/Berlin"'),
    "a lead longer than a day": (
        scheduled(leadTimeSeconds=86_401), "spec.schedules[0].leadTimeSeconds", "less than or equal to 86400",
    ),
    "a lead behind the start": (
        scheduled(leadTimeSeconds=-1), "spec.schedules[0].leadTimeSeconds", "greater than or equal to 0",
    ),
    "an override for ever": (spec(override={"replicas": 3, "reason": "x"}), "spec.override.until", "Required"),
    "an override without a reason": (
        spec(override={"replicas": 3, **UNTIL, "reason": ""}), "spec.override.reason", "at least 1",
    ),
    "an override of nothing": (spec(override=UNTIL), "spec.override.replicas", "say what it asks for"),
    "an override of a count and a bound": (
        spec(override={"replicas": 1, "maxReplicas": 3, **UNTIL}), "spec.override.replicas", "leave out minReplicas",
    ),
    "an override of bounds the wrong way round": (
        spec(override={"minReplicas": 4, "maxReplicas": 3, **UNTIL}),
        "spec.override.maxReplicas", "found minReplicas 4",
    ),
    "an override until a local time": (
        spec(override={"replicas": 3, **UNTIL, "until": "2026-11-23T18:00:00"}),
        "spec.override.until", "with the offset",
    ),
    "history ignored backwards": (
        spec(forecast={"ignoreHistory": [{"from": "2026-10-03T12:00:00Z", "to": "2026-10-03T06:00:00Z"}]}),
        "spec.forecast.ignoreHistory[0].to", "to must be after from",
    ),
    "no method at all": (spec(forecast={"methods": []}), "spec.forecast.methods", "at least 1 items"),
    "more methods than eight": (
        spec(forecast={"methods": [f"Method{number}" for number in range(9)]}), "spec.forecast.methods", "at most 8",
    ),
    "a method twice": (
        spec(forecast={"methods": ["Clock", "Clock"]}), "spec.forecast.methods[1]", 'Duplicate value: "Clock"',
    ),
    "a method without a name": (spec(forecast={"methods": [""]}), "spec.forecast.methods[0]", "at least 1 chars"),
    "a method of a name too long": (
        spec(forecast={"methods": ["m" * 64]}), "spec.forecast.methods[0]", "than 63",
    ),
    "a method by a path": (
        spec(forecast={"methods": ["os:system"]}), "spec.forecast.methods[0]", 'found "os:system": the name of',
    ),
    "a forecast of no load": (spec(metrics=[QUEUE], forecast={}), "spec.forecast", "needs a load to learn"),
    "an unknown selection of pods": (spec(podSelection="Mine"), "spec.podSelection", '"All", "Owned"'),
    "a fallback of none": (spec(fallback={"replicas": 0}), "spec.fallback.replicas", "greater than or equal to 1"),
    "a fallback without a count": (spec(fallback={"afterSeconds": 5}), "spec.fallback.replicas", "Required"),
    "a fallback above the maximum": (
        spec(fallback={"replicas": 11}), "spec.fallback.replicas", "found 11 and maxReplicas 10",
    ),
    "a fallback without a metric": (
        scheduled() | {"metrics": None, "fallback": {"replicas": 3}}, "spec.fallback", "add a metric",
    ),
    "a fallback after a second less than none": (
        spec(fallback={"replicas": 3, "afterSeconds": -1}), "spec.fallback.afterSeconds", "greater than or equal to 0",
    ),
    "a fallback after more than a day": (
        spec(fallback={"replicas": 3, "afterSeconds": 86_401}),
        "spec.fallback.afterSeconds", "less than or equal to 86400",
    ),
    "a quantity of nine bytes and a million digits": (
        measured(type="AverageValue", averageValue="1e999999"),
        "spec.metrics[0].resource.target.averageValue", 'found "1e999999"',
    ),
    "a text that is no quantity": (
        measured(type="AverageValue", averageValue="1.2.3"),
        "spec.metrics[0].resource.target.averageValue", 'found "1.2.3"',
    ),
    "a tolerance below zero": (
        spec(behavior={"scaleDown": {"tolerance": "-0.1"}}), "spec.behavior.scaleDown.tolerance", 'found "-0.1"',
    ),
}  # fmt: skip


# Those of servers before 1.34, whose CRD has a pattern for quantities, and who name a duplicate as Go prints it.
WORDS_BEFORE_1_34 = {
    "two schedules of one name": 'Duplicate value: map[string]interface {}{"name":"day"}',
    "a quantity of nine bytes and a million digits": 'Invalid value: "1e999999": spec.metrics[0].resource.target',
    "a text that is no quantity": 'Invalid value: "1.2.3": spec.metrics[0].resource.target',
}


@pytest.fixture(scope="module")
def own_words(control_plane):
    """By the name of a refused spec, what an older server says in words of its own."""
    return WORDS_BEFORE_1_34 if control_plane.kubernetes else {}


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses_with_the_field_and_the_fix(server, own_words, name):
    refused, field, words = REFUSED[name]
    words = own_words.get(name, words)

    causes = server.verdict(refused).causes

    assert field in causes
    assert words in causes[field]


def offline(text):
    """The errors of a file with this spec, by field."""
    try:
        written_spec({"metadata": {"name": "shop"}, "spec": text})
    except SpecError as error:
        return {problem.path: problem.problem for problem in error.problems}
    return {}


@pytest.mark.parametrize("name", [*ACCEPTED, *REFUSED])
def test_a_file_is_told_what_the_server_says(server, own_words, name):
    """The same fields; and the same words where rules say them: for types and bounds the models have their own."""
    text = ACCEPTED[name] if name in ACCEPTED else REFUSED[name][0]
    causes, told = server.verdict(text).causes, offline(text)

    # <nil> is its remark that it ran no rules.
    assert set(causes) - {"<nil>"} == set(told)
    if name not in own_words:
        assert all(message in causes[field] or causes[field] in message for field, message in broken_rules(text))


def test_it_fills_in_the_defaults(server):
    given = spec(schedules=[DAY], behavior={"scaleDown": {"selectPolicy": "Min"}}, forecast={})

    assert {
        **given,
        "mode": "Active",
        "minReplicas": 1,
        "timeZone": "UTC",
        "schedules": [{**DAY, "priority": 0, "endsAtOnce": False, "suspend": False}],
        "forecast": {"mode": "Active", "budgetPercent": 5},
        "behavior": {
            "scaleUp": {
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Max",
                "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                ],
            },
            "scaleDown": {"selectPolicy": "Min", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
        },
    } == server.verdict(given).spec


def test_the_upstreams_verdict_on_a_thousand_specs_is_ours(server):
    """Recorded from the upstream: the same specs accepted and filled in alike, of the others the same fields named."""
    assert [] == [pair for pair in judged(VECTORS, server) if not is_alike(*pair)]


@pytest.mark.parametrize("fields", [{"url": "http://10.0.0.1/"}, {"tokenSecretRef": {"name": "admin", "key": "token"}}])
@pytest.mark.parametrize("source", ["external", "pods", "resource"])
def test_a_metric_can_name_neither_an_address_nor_a_secret(server, fields, source):
    """Whom the operator asks, and with which login, is for the one to say who installs it."""
    metric = {
        "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
        "pods": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }[source]
    of_kind = {"type": source.capitalize()}
    (name,) = fields
    body = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": {"name": "shop"}}
    body["spec"] = spec(metrics=[{**of_kind, source: metric | fields}])

    status, answer = server.request("POST", f"{objects('default')}?dryRun=All&fieldValidation=Strict", body)

    assert server.verdict(spec(metrics=[{**of_kind, source: metric}])).spec is not None
    assert 400 == status
    assert f'unknown field "spec.metrics[0].{source}.{name}"' in answer["message"]


@pytest.mark.parametrize(
    "quantity",
    ["1e999999999", "1e-999999999", "9" * 5000, "0." + "0" * 5000 + "1"],
    ids=["a huge exponent", "a tiny exponent", "many digits", "many zeros"],
)
def test_a_quantity_that_would_take_hours_to_read_is_judged_at_once_and_alike_by_server_and_file(server, quantity):
    """A short text of a huge number has a thousand million digits, which nobody may write out."""
    metric = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": quantity}}
    written = spec(metrics=[{"type": "External", "external": metric}])

    # <nil> is its remark that it ran no rules.
    assert {"spec.metrics[0].external.target.averageValue"} == set(server.verdict(written).causes) - {"<nil>"}
    assert {"spec.metrics[0].external.target.averageValue"} == set(offline(written))


def test_the_largest_object_is_accepted(server):
    """Rules are paid for at run time too: ten million units an object, by the API server's own account."""
    name = "m" * 253
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": "9" * 40}},
    }
    text = ("0,1,2,3,4,5,6,7,8,9,10 0,1,2,3,4,5 " + "1,2,3,4,5,6,7,8,9,10,11,12,13 * mon-fri").ljust(100)
    schedule = {
        "start": text,
        "end": text,
        "minReplicas": 1,
        "maxReplicas": 3,
        "timeZone": "America/Argentina/Buenos_Aires",
    }
    days = {
        "dates": [{"from": "2026-12-27", "to": "2026-12-31"}] * 40,
        "holidays": [{"country": "BR", "subdivision": "São Paulo Capital"}] * 10,
    }
    schedules = [schedule | {"name": f"{number:063d}", "exclude": days, "only": days} for number in range(50)]

    assert {} == server.verdict(spec(metrics=[metric] * 30, schedules=schedules)).causes


@pytest.mark.usefixtures("no_operator")
def test_columns_say_who_decided_and_what_comes_next(server, namespace):
    shop = {
        "apiVersion": "cronhpa.io/v1alpha1",
        "kind": "CronHPA",
        "metadata": {"name": "columns"},
        "spec": scheduled(),
    }
    server.kubectl("create", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(shop))
    status = {
        "target": "Deployment/shop",
        "currentReplicas": 26,
        "desiredReplicas": 30,
        "effectiveMinReplicas": 20,
        "effectiveMaxReplicas": 80,
        "decision": {"decidedBy": "Metric/cpu", "steps": [{"rule": "ScaleUpLimit", "from": 40, "to": 30}]},
        "nextEdge": {"time": "2099-11-23T17:00:00Z", "schedule": "day", "state": "Closed"},
        "columns": {"targets": "cpu: 33%/60%, 7/100 + 2 more...", "status": "Deciding", "next": "Mon 18:00 +01:00"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Deciding", "message": "it decides"}],
        "memory": {"version": 1, "recommendations": [{"replicas": 30, "time": "2026-11-23T09:00:00.000000001Z"}]},
    }  # fmt: skip
    code, stored = server.request("PATCH", f"{objects(namespace)}/columns/status", {"status": status}, PATCH)

    shown = server.kubectl("get", "chpa", "columns", "--namespace", namespace, "-o", "wide", "--no-headers")

    assert (200, status) == (code, stored["status"])
    before, _, after = shown.partition("Mon 18:00 +01:00")
    assert "columns cpu: 33%/60%, 7/100 + 2 more... 20 80 26 30 Deciding" == " ".join(before.split())
    assert ["Deployment/shop", "Metric/cpu", "Active", "True"] == after.split()[1:]


@pytest.mark.usefixtures("no_operator")
def test_a_status_write_leaves_the_spec_alone_and_a_spec_write_the_status(server, namespace):
    path = f"{objects(namespace)}/shop"
    shop = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": {"name": "shop"}, "spec": spec()}
    server.request("POST", objects(namespace), shop)
    server.request("PATCH", f"{path}/status", {"status": {"desiredReplicas": 7}, "spec": {"maxReplicas": 99}}, PATCH)

    _, stored = server.request("PATCH", path, {"status": {"desiredReplicas": 9}}, PATCH)

    assert (7, 10, 1) == (
        stored["status"]["desiredReplicas"], stored["spec"]["maxReplicas"], stored["metadata"]["generation"],
    )  # fmt: skip
