"""cronhpa.api.resource.cel, cronhpa.api.resource.metrics: rules as the API server is recorded to have said them."""

from __future__ import annotations

from pathlib import Path

from conformance.specs import Verdict, can_be_read, is_alike
from conformance.trajectories import read
from cronhpa.api.rules import broken_rules
from cronhpa.api.schema import CronHPASpec

VECTORS = Path(__file__).parents[1] / "conformance" / "vectors" / "specs.jsonl.gz"
SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
DAY = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 3}


def broken(*schedules, **fields):
    return dict(broken_rules({"scaleTargetRef": SHOP, "maxReplicas": 10, "schedules": list(schedules), **fields}))


def verdict(spec):
    causes = dict(broken_rules(spec))
    return Verdict(
        None if causes else CronHPASpec.model_validate(spec).model_dump(by_alias=True, exclude_none=True), causes
    )


def test_the_upstreams_verdict_on_a_thousand_specs_is_found_without_a_server():
    """Accepted alike, or the same fields named; what the models cannot read, the upstream refuses."""
    cases = [(case, can_be_read(case["spec"])) for case in read(VECTORS)]

    assert (1000, 727) == (len(cases), sum(readable for _, readable in cases))
    assert [] == [case for case, readable in cases if readable and not is_alike(case, verdict(case["spec"]))]
    assert [] == [case for case, readable in cases if not readable and not case["errors"]]


def test_a_rule_says_where_what_was_found_and_what_to_write():
    assert {
        "spec.schedules[1].end": "found end and durationMinutes: keep one of them",
        "spec.schedules[2].to": "found from 2026-01-02T00:00 and to 2026-01-01T00:00: to must be after from",
        "spec.maxReplicas": "found maxReplicas 10 and minReplicas 11: maxReplicas must not be below minReplicas",
    } == broken(
        DAY,
        {**DAY, "name": "twice", "durationMinutes": 5},
        {"name": "sale", "from": "2026-01-02T00:00", "to": "2026-01-01T00:00", "replicas": 3},
        minReplicas=11,
    )


def test_a_rule_that_ends_in_an_error_is_broken():
    """30 February is no timestamp, and Berlin no zone: the API server reports the rule's message."""
    leap = {"name": "leap", "from": "2026-02-30T00:00", "to": "2026-03-01T00:00", "replicas": 3}

    assert {
        "spec.schedules[0].from": 'write a date and time that exist, such as "2026-11-27T00:00"',
        "spec.timeZone": 'a time zone is an IANA name such as "Europe/Berlin" or "UTC"',
    } == broken(leap, timeZone="Berlin")


def test_two_schedules_of_one_name_are_one_too_many():
    assert {
        "spec.schedules[1]": 'Duplicate value: {"name":"day"}: one before it has the same, give each its own'
    } == broken(DAY, DAY)
