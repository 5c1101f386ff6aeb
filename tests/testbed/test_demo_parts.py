"""What the demo plays, sees, scores and says, without a cluster."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cronhpa.core.model.instant import MINUTE, SECOND, parse_instant
from testbed.demo.__main__ import Options
from testbed.demo.cluster import _with_token
from testbed.demo.observation import Moment, Proposal, Twin, Verdict, twin, verdict
from testbed.demo.scenario import RISE, RISE_AFTER, Scenario
from testbed.demo.score import Score, as_json, score
from testbed.demo.score import verdict as sentence
from testbed.demo.screen import Lines, Picture, clock
from testbed.demo.story import events
from testbed.demo.twins import CRONHPA, TWINS, UPSTREAM, autoscalers, deployments

START = parse_instant("2026-03-01T11:00:20Z")


def moment(second, load=1.0, *, upstream=None, cronhpa=None, verdict=None):
    """A moment of two twins of 4 pods of half a core each, all ready, but for what is said."""
    settled = Twin(replicas=4, pods=4, ready=4, carries=2.0, generation=1)
    twins = {UPSTREAM: upstream or settled, CRONHPA: cronhpa or settled}
    return Moment(START + second * SECOND, float(second), load, twins, "", verdict or Verdict())


def pods(ready, *, starting=0, generation=1):
    count = ready + starting
    return Twin(replicas=count, pods=count, ready=ready, carries=ready / 2, generation=generation)


def told(before, after):
    return list(events(before, after))


def test_the_rise_begins_two_minutes_after_the_start():
    scenario = Scenario.at(START)

    assert RISE == scenario.recorded_at(START + RISE_AFTER)
    # 06:01 on 2021-10-23, and five minutes later.
    assert 1.73 == pytest.approx(scenario.load.at(START), abs=0.01)
    assert 13.02 == pytest.approx(scenario.load.at(START + 5 * MINUTE), abs=0.01)


def test_history_ends_before_the_start(tmp_path):
    file = tmp_path / "history.csv"

    rows = Scenario.at(START).write_history(file, now=START - 6 * SECOND)

    with file.open(newline="") as opened:
        written = list(csv.DictReader(opened))
    assert rows == len(written)
    # The record has a value a minute: the last one before 10:59:14 of the demo is that of 06:00 of its day.
    assert "2026-03-01T10:59:20Z" == written[-1]["timestamp"]
    # 15 days and 6 h of minutes, and nothing else.
    assert 15 * 1440 + 6 * 60 + 1 == rows


def test_history_that_knows_the_future_is_refused(tmp_path):
    with pytest.raises(AssertionError):
        Scenario.at(START).write_history(tmp_path / "history.csv", now=START + SECOND)


@pytest.mark.parametrize(
    ("start", "edge"),
    [
        ("2026-03-01T11:00:15Z", "2026-03-01T11:01:00Z"),
        ("2026-03-01T11:00:16Z", "2026-03-01T11:02:00Z"),
        ("2026-03-01T23:59:30Z", "2026-03-02T00:01:00Z"),
    ],
)
def test_the_schedule_opens_at_the_next_full_minute_that_is_45_s_away(start, edge):
    assert parse_instant(edge) == Scenario.at(parse_instant(start)).edge


def test_the_schedule_opens_before_the_rise_and_is_no_substitute_for_the_forecast():
    scenario = Scenario.at(START)
    (schedule,) = scenario.schedules()

    assert "2 11 * * *" == schedule["start"]
    assert scenario.edge < START + RISE_AFTER
    # 8 pods of half a core against 13 cores of load.
    assert schedule["minReplicas"] * scenario.request < 13 / 3


def test_the_schedule_can_be_left_out():
    _, ours = autoscalers(Scenario.at(START, has_schedule=False), "demo")

    assert "schedules" not in ours["spec"]
    assert {"budgetPercent": 10} == ours["spec"]["forecast"]


def test_the_twins_are_equal():
    ours, theirs = ({**deployment["spec"], "selector": 0} for deployment in deployments(Scenario.at(START), "demo", 45))
    ours["template"]["metadata"].pop("labels")
    theirs["template"]["metadata"].pop("labels")

    assert theirs == ours
    # 1.73 cores / (0.6 x 0.5 cores) = 5.8
    assert 6 == ours["replicas"]


def test_the_autoscalers_differ_in_schedule_and_forecast_alone():
    hpa, ours = (autoscaler["spec"] for autoscaler in autoscalers(Scenario.at(START), "demo"))

    assert {"schedules", "forecast"} == ours.keys() - hpa.keys()
    assert {key: value for key, value in hpa.items() if key != "scaleTargetRef"} == {
        key: ours[key] for key in hpa if key != "scaleTargetRef"
    }


def test_small_pods_under_a_small_load_make_the_same_play():
    full, small = Scenario.at(START), Scenario.at(START, size=0.02)

    assert full.night == small.night
    assert 0.02 * full.load.at(START + 4 * MINUTE) == pytest.approx(small.load.at(START + 4 * MINUTE))


def test_a_pod_that_is_being_deleted_carries_nothing():
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    starting = {"conditions": [{"type": "Ready", "status": "False"}]}
    seen = [
        {"metadata": {"labels": {"app": "a"}}, "status": ready},
        {"metadata": {"labels": {"app": "a"}}, "status": starting},
        {"metadata": {"labels": {"app": "a"}, "deletionTimestamp": "2026-03-01T11:00:00Z"}, "status": ready},
        {"metadata": {"labels": {"app": "b"}}, "status": ready},
    ]
    deployment = {"metadata": {"name": "a", "generation": 3}, "spec": {"replicas": 2}}

    assert Twin(replicas=2, pods=3, ready=1, carries=0.5, generation=3) == twin(deployment, seen, 0.5)


def test_a_status_says_who_decided_and_why():
    status = {
        "desiredReplicas": 23,
        "decision": {
            "decidedBy": "Forecast/cpu",
            "proposals": [{"source": "Forecast", "name": "cpu", "role": "Floor", "replicas": 23, "reason": "p95"}],
            "abstentions": [{"source": "Metric", "name": "cpu", "reason": "Failed", "message": "no metrics"}],
        },
        "schedules": [{"name": "early-shift", "state": "Open"}],
    }

    said = verdict(status)

    assert ("Forecast/cpu", 23) == (said.decided_by, said.desired)
    assert Proposal("Forecast/cpu", "Floor", 23, "p95") == said.proposal("Forecast")
    assert ["Metric/cpu: no metrics"] == said.abstentions
    assert {"early-shift": "Open"} == said.schedules


def test_an_object_that_has_no_status_yet_has_no_decision():
    assert not verdict({}).is_made


def test_each_moment_holds_until_the_next():
    """4 pods for 2 s and 8 for 3 s; 3 cores on 2.0 for 3 s: 3 s short, 3 core-seconds unserved."""
    timeline = [
        moment(0, 1.0),
        moment(2, 3.0, cronhpa=pods(8, generation=3)),
        moment(5, 1.0, cronhpa=pods(8, generation=3)),
    ]

    scores = score(timeline)

    assert Score(3.0, 3.0, 20.0, 0) == scores[UPSTREAM]
    assert Score(0.0, 0.0, 4 * 2 + 8 * 3, 2) == scores[CRONHPA]


def test_a_load_that_is_carried_exactly_is_carried():
    assert not moment(0, 2.0).is_short(UPSTREAM)
    assert moment(0, 2.0001).is_short(UPSTREAM)


def test_pods_that_start_cost_and_do_not_carry():
    scores = score([moment(0, 3.0, upstream=pods(4, starting=6)), moment(1, 3.0)])

    assert Score(1.0, 1.0, 10.0, 0) == scores[UPSTREAM]


def test_the_sentence_compares():
    scores = {UPSTREAM: Score(100.0, 300.0, 1000.0, 4), CRONHPA: Score(20.0, 30.0, 1250.0, 3)}

    assert (
        "The CronHPA twin was short of pods for 20 s, the upstream twin for 100 s: 20 % of it, "
        "for 25 % more pod-seconds and 3 scale writes against 4." == sentence(scores)
    )


def test_the_sentence_claims_nothing_where_nothing_happened():
    scores = {UPSTREAM: Score(0.0, 0.0, 100.0, 0), CRONHPA: Score(0.0, 0.0, 80.0, 0)}

    assert sentence(scores).endswith("the rise did not come into this run. It had 20 % fewer pod-seconds.")


def test_the_timeline_is_json():
    document = json.loads(json.dumps(as_json([moment(0), moment(1)], [(0.5, "it began")], {"seconds": 1})))

    assert [0.0, 1.0] == [entry["second"] for entry in document["timeline"]]
    assert 4.0 == document["summary"]["scores"]["CronHPA"]["pod_seconds"]
    assert [{"second": 0.5, "event": "it began"}] == document["events"]


def test_nothing_is_told_where_nothing_changed():
    assert [] == told(moment(0), moment(1))


def test_a_shortage_is_told_when_it_begins_and_when_it_ends():
    short = moment(1, 3.0, cronhpa=pods(8))

    assert ["upstream HPA is short of pods: 3 cores of load, its ready pods carry 2"] == told(
        moment(0, cronhpa=pods(8)), short
    )
    assert [] == told(short, replace(short, second=2.0))
    assert ["upstream HPA carries the load again"] == told(short, moment(2, cronhpa=pods(8)))


def test_a_forecast_that_raises_its_floor_is_told_with_its_arithmetic_before_the_scaling():
    low = Verdict("Metric/cpu", "", 4, [Proposal("Forecast/cpu", "Floor", 4, "1.8 / 0.45 = 4")])
    high = Verdict("Forecast/cpu", "", 23, [Proposal("Forecast/cpu", "Floor", 23, "10.2 / 0.45 = 23")])

    assert [
        "forecast floor rises to 23 (10.2 / 0.45 = 23)",
        "CronHPA scales 4 to 23, decided by Forecast/cpu",
    ] == told(moment(0, verdict=low), moment(1, cronhpa=pods(4, starting=19), verdict=high))


def test_a_schedule_that_opens_is_told():
    closed = Verdict("Metric/cpu", proposals=[Proposal("Metric/cpu", "Target", 4, "")], schedules={"early": "Closed"})
    opened = replace(closed, proposals=[Proposal("Schedule/early", "Floor", 8, "")], schedules={"early": "Open"})

    assert ["schedule early: open: at least 8 replicas"] == told(moment(0, verdict=closed), moment(1, verdict=opened))
    assert ["schedule early: closed"] == told(moment(1, verdict=opened), moment(2, verdict=closed))


def test_a_decision_to_hold_is_a_first_decision():
    held = Verdict(abstentions=["Metric/cpu: no metrics"])

    assert ["first decision of the CronHPA, by nobody yet: it holds what it finds"] == told(
        moment(0), moment(1, verdict=held)
    )


@pytest.mark.parametrize(("second", "text"), [(0, "0:00"), (65.9, "1:05"), (-3, "-0:03")])
def test_clock(second, text):
    assert text == clock(second)


def test_lines_are_a_few_seconds_apart_and_say_who_decided():
    console = Console(record=True, width=80, force_terminal=False)
    lines = Lines(console)
    decided = Verdict("Forecast/cpu", "", 23, [Proposal("Forecast/cpu", "Floor", 23, "10.2 / 0.45 = 23")])

    for second in range(7):
        lines.show(moment(second, 3.0, verdict=decided), dict.fromkeys(TWINS, Score()))

    opening, later = console.export_text().splitlines()
    assert opening.startswith("0:00  load 3 cores | upstream HPA 4/4 ready, SHORT by 1")
    assert opening.endswith("23 by Forecast/cpu: 10.2 / 0.45 = 23")
    assert later.startswith("0:05")


def test_the_picture_shows_both_twins_the_decider_and_what_happened():
    console = Console(record=True, width=140, force_terminal=True)
    picture = Picture(console, Scenario.at(START), 300)
    decided = Verdict("Forecast/cpu", "", 23, [Proposal("Forecast/cpu", "Floor", 23, "10.2 / 0.45 = 23")])

    picture.tell(61.0, "schedule early-shift: open")
    console.print(
        picture.drawn(moment(62, 3.0, cronhpa=pods(4, starting=19), verdict=decided), dict.fromkeys(TWINS, Score()))
    )

    text = console.export_text()
    for expected in (
        "1:02 of 5:00", "3 cores", "recorded 2021-10-23 06:02:02 UTC", "4 of 23 ready", "SHORT by 1",
        "▶  Forecast/cpu at least 23", "10.2 / 0.45 = 23", "1:01  schedule early-shift: open",
    ):  # fmt: skip
        assert expected in text


@pytest.mark.parametrize(
    ("name", "value"), [("DEMO_SECONDS", "19"), ("DEMO_SECONDS", "soon"), ("DEMO_STARTUP_SECONDS", "-1")]
)
def test_a_setting_that_cannot_be_meant_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name}={value}: a whole number"):
        Options.read({name: value})


def test_a_kubeconfig_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="KUBECONFIG=/nowhere: there is no such file"):
        Options.read({"DEMO_KUBECONFIG": "/nowhere"})


def test_make_sets_an_empty_kubeconfig_where_none_is_given():
    assert Options.read({"DEMO_KUBECONFIG": "", "KUBECONFIG": "/home/me/.kube/production"}).kubeconfig is None


def test_the_operator_gets_the_cluster_of_the_current_context_and_none_of_its_users():
    config = {
        "current-context": "b",
        "contexts": [
            {"name": "a", "context": {"cluster": "one", "user": "root"}},
            {"name": "b", "context": {"cluster": "two", "user": "root"}},
        ],
        "clusters": [
            {"name": "one", "cluster": {"server": "https://one"}},
            {"name": "two", "cluster": {"server": "https://two", "certificate-authority": "ca.crt"}},
        ],
        "users": [{"name": "root", "user": {"token": "all-powerful"}}],
    }

    written = _with_token(config, Path("/etc/kube"), "t0k3n")

    (cluster,) = written["clusters"]
    assert {"server": "https://two", "certificate-authority": "/etc/kube/ca.crt"} == cluster["cluster"]
    assert [{"name": "operator", "user": {"token": "t0k3n"}}] == written["users"]
