"""cronhpa.cli.commands.override: options that do not make one override are refused before anything is asked."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

import cronhpa.cli.commands.override as override_module
from cronhpa.cli import app
from cronhpa.core.model.instant import parse_instant
from cronhpa.core.model.spec import Override

FOR = ("--for", "2h")
WHY = ("--reason", "INC-4711")
REFUSED = {
    "no bound": ((*FOR, *WHY), "--min, --max, --replicas: say what it asks for: one of them, or both bounds"),
    "a count beside a bound": (("--min", "1", "--replicas", "2", *FOR, *WHY), "it is both bounds at once"),
    "bounds the wrong way round": (("--min", "3", "--max", "2", *FOR, *WHY), "--max: 2 is below --min 3"),
    "no length": (("--min", "1", "--for", "soon", *WHY), '--for: "soon" is no length of time'),
    "no time": (("--min", "1", "--until", "soon", *WHY), '"soon" is no time: write for example'),
    "no end": (("--min", "1", *WHY), "--for, --until: an override ends: state one of them"),
    "two ends": (("--min", "1", *FOR, "--until", "18:00", *WHY), "--for, --until: both are given"),
    "no reason": (("--min", "1", *FOR), "--reason: say why, for whoever finds it"),
    "an empty reason": (("--min", "1", *FOR, "--reason", ""), "say why"),
    "fewer than none": (("--min", "-1", *FOR, *WHY), "should be greater than or equal to 0"),
    "no number": (("--min", "few", *FOR, *WHY), "'--min': a whole number is needed"),
    "set and taken back": (("--clear", "--min", "1", *FOR, *WHY), "an override is either taken back or set"),
}


@pytest.mark.parametrize(("options", "said"), REFUSED.values(), ids=list(REFUSED))
def test_options_that_do_not_make_an_override_are_refused(options, said):
    result = CliRunner().invoke(app, ["override", "shop", *options])

    assert 2 == result.exit_code
    assert said in " ".join(result.stderr.replace("│", " ").split())


SHOP = {
    "metadata": {"namespace": "prod", "name": "shop"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
        "maxReplicas": 120,
        "schedules": [{"name": "sale", "start": "0 8 * * *", "end": "0 18 * * *", "maxReplicas": 300}],
    },
    "status": {"currentReplicas": 60},
}
NINE, SEVEN = "2026-11-23T09:00:00Z", "2026-11-23T07:00:00Z"


def remarked(clock=SEVEN, *, until="2026-11-23T12:00:00Z", above_max=False, current=60, zone="UTC", **bounds):
    wanted = {
        "minReplicas": None,
        "maxReplicas": None,
        "replicas": None,
        "until": until,
        "reason": "INC-4711",
        **bounds,
    }
    body = {**SHOP, "spec": {**SHOP["spec"], "timeZone": zone}}
    body["status"] = {"currentReplicas": current} if current is not None else {}
    return override_module.remarks(wanted, body, parse_instant(clock), above_max=above_max)


@pytest.mark.parametrize("bound", ["minReplicas", "maxReplicas", "replicas"])
def test_a_bound_above_the_maximum_needs_a_confirmation(bound):
    """500 typed for 50, of at most 120."""
    with pytest.raises(typer.BadParameter, match=r"500 is above the 120 that the object allows: .* add --above-max"):
        remarked(**{bound: 500})

    assert [] == remarked(**{bound: 120})
    assert all("above" not in remark for remark in remarked(**{bound: 500}, above_max=True))


def test_a_window_that_allows_more_than_the_spec_allows_it_to_an_override():
    assert [] == remarked(NINE, minReplicas=120)
    with pytest.raises(typer.BadParameter):
        remarked(NINE, minReplicas=301)


@pytest.mark.parametrize(
    ("bounds", "named"),
    [
        ({"minReplicas": 101}, True),
        ({"replicas": 101}, True),
        ({"minReplicas": 100}, False),
        ({"maxReplicas": 101}, False),
    ],
)
def test_more_than_twice_the_current_count_is_named(bounds, named):
    words = ["101 is more than twice the 50 replicas that there were when last seen"] if named else []

    assert words == remarked(current=50, **bounds)
    assert [] == remarked(current=None, **bounds)


def test_more_than_thirty_days_are_named():
    assert [] == remarked(until="2026-12-23T07:00:00Z", minReplicas=60)
    assert ["it lasts 30 d 1 s, until Wed 2026-12-23 07:00:01 +00:00"] == remarked(
        until="2026-12-23T07:00:01Z", minReplicas=60
    )


@pytest.mark.parametrize(
    ("floor", "cap", "bound"),
    [(12, None, "at least 12"), (None, 9, "at most 9"), (5, 5, "exactly 5"), (12, 25, "12 to 25")],
)
def test_both_bounds_of_an_override_are_told(floor, cap, bound):
    override = Override(parse_instant(NINE), "INC-4711", floor, cap)

    assert f"{bound} replicas until Mon 2026-11-23 09:00 +00:00 (in 2 h): INC-4711" == override_module.asks(
        override, "UTC", parse_instant(SEVEN)
    )


def test_the_bounds_that_it_tells_follow_from_the_start_up_that_was_learned():
    """Pods take 10 min: at 07:50 the 20 of 08:00 are asked for, also once an override of 30 ends then."""
    status = {
        "memory": {
            "version": 1,
            "recommendations": [],
            "scaleUpEvents": [],
            "scaleDownEvents": [],
            "startUpSeconds": 600,
        }
    }
    day = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 20}
    until = {"minReplicas": 30, "until": "2026-11-23T07:55:00Z", "reason": "INC-4711"}
    body = {
        "metadata": {"namespace": "prod", "name": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
            "maxReplicas": 50, "schedules": [day], "override": until,
        },
    }  # fmt: skip

    told = override_module.in_force(body | {"status": status}, parse_instant("2026-11-23T07:50:00Z"))

    assert [
        "  in force now: 30 (Override) to 50 (Spec)",
        "  from then on: 20 (Schedule/day) to 50 (Spec)",
    ] == told
    assert "  from then on: 1 (Spec) to 50 (Spec)" in override_module.in_force(
        body, parse_instant("2026-11-23T07:50:00Z")
    )


def test_times_are_shown_in_utc_where_the_zone_of_the_object_is_not_known():
    """An API server with newer zones accepts it. Found: a traceback."""
    (remark,) = remarked(until="2027-11-23T12:00:00Z", zone="Mars/Port", minReplicas=60)

    assert "until Tue 2027-11-23 12:00 +00:00" in remark
