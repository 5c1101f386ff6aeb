"""cronhpa.api.explained.explanation, cronhpa.api.explained.explanation_text: the screens of `explain`."""

import json
from pathlib import Path

import pytest
from hypothesis import given

from cli.glance import (
    CPU,
    DAY,
    GOLDEN,
    NO_API,
    NOW,
    SITUATIONS,
    ZONE,
    body,
    explanation_of,
    named,
    no_metric_since,
    now_of,
    observe_blind,
    pods_of,
    stated,
    usage,
)
from core.situations import at, observed, reconciliation_of, situations
from cronhpa.api.columns import StatusWord
from cronhpa.api.explained.costs import costs_of
from cronhpa.api.explained.explanation import as_json, explanation
from cronhpa.api.explained.explanation_text import explained, folded, summary
from cronhpa.api.explained.object_rows import object_row, rows_of
from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.api.resource.status import CronHPAStatus
from cronhpa.api.transitions import transition_events
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Failed, Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY as ONE_DAY
from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation, Scale
from cronhpa.core.model.prices import Prices
from cronhpa.core.model.spec import ControllerOptions
from kube.fake_api import answering


def lines(made, now=NOW):
    return explained(made, now)


def changed(made, **status):
    return {**made, "status": {**made["status"], **status}}


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_situation_reads_as_it_did_when_a_person_looked_at_it(name):
    """`python tests/cli/glance.py` writes them anew."""
    assert (GOLDEN / f"explain-{name}.txt").read_text() == explanation_of(name)


def test_a_summary_is_how_many_why_and_until_when():
    """Found: twenty lines for who asks one question at three in the morning."""
    assert [
        "prod/good: from 12 to 20 replicas of Deployment/shop, decided by Override",
        "  Override asks for at least 30: INC-4711",
        "  limited to 20: scaleUp allows 8 pods more than 12 in 60 s",
        "  scaled last 11:00 +01:00 (now)",
        "Next",
        "  13:00 +01:00 (in 2 h): the override ends; then 20 to 80 are allowed",
    ] == summary(named("good"), NOW)


def test_the_readme_shows_the_first_lines_of_the_good_situation():
    screen = explanation_of("good").replace("prod/good", "prod/shop").splitlines()
    shown = "\n".join(f"    {line}" for line in screen[: screen.index("Metrics")])
    readme = (Path(__file__).parents[3] / "README.md").read_text()

    assert f"    $ cronhpa explain shop --namespace prod\n{shown}\n" in readme


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("name", SITUATIONS)
def test_every_screen_fits_its_terminal_of_which_it_takes_80_columns_at_most_and_loses_no_word(name, width):
    """Found: 80 columns whatever the terminal."""
    lines = explained(named(name), now_of(name))

    screen = [part for line in lines for part in folded(line, width)]

    assert max(map(len, screen)) <= min(width, 80)
    assert " ".join(lines).split() == " ".join(screen).split()


@pytest.mark.parametrize("name", SITUATIONS)
def test_no_screen_says_anything_twice(name):
    screen = explanation_of(name).splitlines()

    assert len({line.strip() for line in screen}) == len(screen)


def test_an_object_without_a_status_was_not_decided_upon():
    new = {"metadata": {"namespace": "prod", "name": "shop", "generation": 1}, "spec": stated()}

    assert ["prod/shop has not been decided upon yet: is the operator running, and does it watch this namespace?"] == (
        lines(new)
    )
    assert {"namespace": "prod", "name": "shop", "decided": False} == as_json(explanation(new))


@pytest.mark.parametrize(
    ("prices", "told"),
    [
        (Prices(), ""),
        (Prices(pod=0.25), "12 pods cost 3.00 an hour, each 0.25"),
        (Prices(core=0.5), "12 pods cost 6.00 an hour, each 0.50"),
        (Prices(gib=0.5), "its price is not known: no request for memory is known: state a pod's price"),
    ],
)
def test_pods_cost_what_is_stated_or_what_they_request(prices, told):
    """12 pods that request a core."""
    assert told == costs_of(body(stated(), pods_of(12, 580)), prices)


def test_a_pod_of_which_one_container_is_measured_has_no_price_by_its_requests():
    """Found: the price of that container alone, too low, in silence."""
    cpu = {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 60}}
    measured = body(stated(metrics=[{"type": "ContainerResource", "containerResource": cpu}]), pods_of(12, 580))

    told = costs_of(measured, Prices(core=0.5))

    assert "its price is not known: no request for cpu is known: state a pod's price" == told
    assert "12 pods cost 3.00 an hour, each 0.25" == costs_of(measured, Prices(pod=0.25))


def test_the_first_of_two_metrics_of_one_resource_says_whose_request_is_known():
    """As the operator writes it into the status: here the pod's core, beside a metric of one container."""
    both = body(stated(), pods_of(12, 580))
    cpu = {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 60}}
    both["spec"] = stated(metrics=[*stated()["metrics"], {"type": "ContainerResource", "containerResource": cpu}])

    assert "12 pods cost 6.00 an hour, each 0.50" == costs_of(both, Prices(core=0.5))


def test_an_edit_that_nobody_has_seen_is_told():
    edited = body(stated(), pods_of(12, 580))
    edited["metadata"]["generation"] = 5

    assert any("its last edit has not been decided upon yet" in line for line in lines(edited))


def test_a_metric_that_is_missing_beside_others_is_named_where_it_belongs_and_above():
    """Nothing shrinks while the memory is not known; the CPU alone would ask for 7."""
    memory = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
    }

    def half(of):
        seen, blind = pods_of(12, 330)(of_cpu), observe_blind(of, NO_API)
        return Observation(scale=seen.scale, readings=(seen.readings[0], blind.readings[1]))

    of_cpu = parse_spec(stated(), "prod", ControllerOptions())
    screen = lines(body(stated(metrics=[CPU, memory]), half))

    assert "  cpu: 33 % of 60 % over 12 pods; asks for 7" in screen
    assert "  memory: not known, as said above" in screen
    assert 1 == sum("the cluster has no resource metrics API" in line for line in screen)


@pytest.mark.parametrize(("milli", "percent"), [(150, 100), (900, 0)], ids=["below the target", "above it"])
def test_pods_without_a_sample_say_what_they_count_as(milli, percent):
    """Found: "25 % of 60 % over 15 pods, 13 of them without a sample; asks for 15" was a riddle."""
    pods, samples = usage(15, milli)
    seen = dict(list(samples.items())[:2])

    told = lines(body(stated(), lambda of: observed(of, pods, seen, current=15)))

    assert any(f"13 of them without a sample (counted at {percent} %); asks for" in line for line in told), told


def test_each_metric_that_is_missing_has_its_own_reason():
    """The first problem is that of Ready; a pod without a request is described without upstream's words."""
    queue = {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "7"}}}
    no_request = Absent("FailedGetResourceMetric", "missing request for cpu in container app of Pod p1")
    lost = Absent("FailedGetExternalMetric", "unable to fetch metrics from external metrics API: timeout")
    blind = Observation(Scale(12, 12, "app=shop"), (no_request, lost))

    screen = lines(body(stated(metrics=[CPU, queue]), blind))

    assert "  ! container app of pod p1 has no request for cpu, and a utilization is a share of it" in screen
    assert "  cpu: not known, as said above" in screen
    assert any(line.startswith("  queue: not known: the external metrics API did not answer") for line in screen)


def test_a_scale_that_was_refused_is_told_with_what_to_do():
    refused = body(stated(), pods_of(12, 900), outcome=Failed('deployments.apps "shop" is forbidden'))

    assert ["  ! the operator could not scale Deployment/shop", "    give its role the right: see deploy/chart"] == (
        lines(refused)[1:3]
    )


@pytest.mark.parametrize(("seconds", "needs"), [(5, False), (119, False), (120, True), (9_000, True)])
def test_without_metrics_it_needs_a_person_after_two_minutes(seconds, needs):
    """Found: 23 objects needed a person seconds after they were made."""
    row = object_row(no_metric_since("2026-11-23T10:00:00Z"), NOW + seconds * SECOND)

    assert ("NoMetrics", needs) == (row.word, row.needs_person)
    assert (None if needs else NOW + 120 * SECOND) == row.needs_person_from
    assert row.notes[0].startswith("the cluster has no resource metrics API")


def test_another_problem_needs_a_person_at_once():
    made = no_metric_since("2026-11-23T10:00:00Z")
    made["status"]["conditions"].append({"type": "Odd", "status": "False", "reason": "x", "message": "something else"})

    assert object_row(made, NOW).needs_person


def pods_ready(served, ready):
    resources = {"resources": [{"name": "deployments", "kind": "Deployment"}]}
    served.answers["/apis/apps/v1"] = answering(resources)
    status = {"replicas": 12, **({} if ready is None else {"readyReplicas": ready})}
    served.answers["/apis/apps/v1/namespaces/prod/deployments/shop"] = answering({"status": status})


@pytest.mark.parametrize(
    ("ready", "told"), [(5, ["  5 of the 12 pods are Ready: kubectl get pods -n prod shows the others"]), (12, [])]
)
def test_pods_that_are_not_ready_are_counted(served, cronhpa, ready, told):
    """Found: 23 of 30 pods were Ready, and `explain`, which the runbook names first, said nothing of it."""
    served.hold(body(stated(), pods_of(12, 580)))
    pods_ready(served, ready)

    done = cronhpa("explain", "shop")

    assert told == [line for line in done.stdout.splitlines() if "Ready" in line]
    assert ready == json.loads(cronhpa("explain", "shop", "-o", "json").stdout)["readyReplicas"]


def test_a_target_that_states_no_ready_pod_has_none_and_one_that_may_not_be_read_is_left_out(served, cronhpa):
    served.hold(body(stated(), pods_of(12, 580)))
    pods_ready(served, None)
    assert "  0 of the 12 pods are Ready" in cronhpa("explain", "shop").stdout

    served.refuse("/apis/apps/v1/namespaces/prod/deployments/shop", 403, "Forbidden", "not yours")
    done = cronhpa("explain", "shop")
    assert (0, False) == (done.exit_code, "Ready" in done.stdout)


def test_a_held_object_whose_metric_is_missing_is_told_of_no_hpa():
    """Found: "the HPA was unable to compute the replica count" of two CronHPAs on one target."""
    made = body(
        stated(),
        lambda of: observe_blind(of, NO_API),
        owner_problem="CronHPA first is older and scales Deployment/shop too: delete one of them",
    )

    screen = lines(made)

    assert [] == [line for line in screen if "HPA was unable" in line]
    assert "  ! the cluster has no resource metrics API" in screen
    assert "  cpu: not known, as said above" in screen


def test_a_target_that_cannot_be_read_is_told_beside_an_unreadable_schedule():
    broken = {**DAY, "start": "what"}

    screen = lines(
        body(stated(schedules=[broken]), Observation(Absent("FailedGetScale", 'deployments "shop" not found')))
    )

    assert "  ! there is no Deployment/shop" in screen
    assert [] == [line for line in screen if "HPA controller was unable" in line]


def test_times_are_local_and_how_far_off_they_are():
    """18:00 in Berlin is 17:00 UTC. From the day before, it is named with its date."""
    shop = body(stated(schedules=[DAY]), pods_of(20, 580))

    assert "  20 to 80 by Schedule/day until 18:00 +01:00 (in 7 h)" in lines(shop)
    assert "  20 to 80 by Schedule/day until 18:00 +01:00 (in 30 s)" in lines(shop, at("16:59:30"))
    assert "  20 to 80 by Schedule/day until 18:00 +01:00 (1 min ago)" in lines(shop, at("17:01:30"))
    assert "  20 to 80 by Schedule/day until Mon 2026-11-23 18:00 +01:00 (in 1 d 7 h)" in lines(shop, NOW - ONE_DAY)


def test_the_limits_of_the_count_are_told_in_words():
    """90 % of 60 % on 2 pods are 3, and 2 is the most."""
    capped = body(stated(maxReplicas=2), pods_of(2, 900))

    assert "  lowered to 2, the maximum of Spec" in lines(capped)


def test_conditions_that_are_bad_news_are_told_however_they_are_called():
    odd = body(stated(), pods_of(12, 580))
    odd["status"]["conditions"].append({"type": "Odd", "status": "False", "reason": "x", "message": "something else"})

    assert "  ! something else" in lines(odd)


def test_an_override_beyond_the_schedules_gives_its_reason_and_one_of_that_name_is_no_override():
    schedule = {**DAY, "name": "override"}
    named_so = lines(body(stated(schedules=[schedule]), pods_of(20, 580)))

    assert "  at least 30 by Override until 13:00 +01:00 (in 2 h): INC-4711" in lines(named("good"))
    assert any(line.endswith("override closes; then 2 to 120 are allowed") for line in named_so)


def test_a_zone_that_is_not_known_here_is_told_in_utc():
    lost = body(stated(), pods_of(12, 580))
    lost["spec"]["timeZone"] = "Mars/Olympus"

    assert "UTC" == explanation(lost).zone


def test_json_holds_what_the_text_says():
    told = as_json(explanation(named("good")))
    target = as_json(explanation(named("no-target")))

    assert told == json.loads(json.dumps(told))
    assert (12, 20, 30, 80, "Override") == tuple(
        told[key] for key in ("currentReplicas", "desiredReplicas", "minReplicas", "maxReplicas", "decidedBy")
    )
    assert {"name": "cpu", "current": "33%", "target": "60%", "pods": 12, "notReady": 1, "replicas": 7}.items() <= (
        told["metrics"][0].items()
    )
    assert {
        "role": "Floor",
        "replicas": 30,
        "by": "Override",
        "until": "2026-11-23T12:00:00Z",
        "inForce": True,
        "reason": "INC-4711",
    } == told["bounds"][0]
    assert {"time": "2026-11-23T12:00:00Z", "change": "the override ends", "bounds": "20 to 80"} == told["next"]
    assert (2.8, 5, 17) == tuple(told["forecast"][key] for key in ("usedPercent", "budgetPercent", "floor"))
    assert [("there is no Deployment/shop", "create it, or correct spec.scaleTargetRef")] == [
        (problem["what"], problem["do"]) for problem in target["problems"]
    ]


def test_a_line_is_folded_between_words_and_indented_further():
    assert ["  a" + " b" * 38, "    b b"] == folded("  a" + " b" * 40)
    assert ["x" * 90] == folded("x" * 90)
    assert ["  a", "    b"] == folded("  a\nb")


def test_a_length_is_not_torn_apart():
    begin = "  " + "a" * 66

    assert [begin, "    (in 6 h 38 min)"] == folded(f"{begin} (in 6 h 38 min)")
    assert [f"{begin} of which", "    20 % more"] == folded(f"{begin} of which 20 % more")
    assert [f"{begin} 14:00", "    (1 min ago)"] == folded(f"{begin} 14:00 (1 min ago)")
    assert [begin, "    14:00 +01:00"] == folded(f"{begin} 14:00 +01:00")


def test_a_status_of_an_earlier_release_is_explained_as_far_as_it_goes():
    """Without columns and without the metrics of the decision."""
    old = body(stated(), pods_of(12, 580))
    status = {key: value for key, value in old["status"].items() if key != "columns"}
    status["decision"] = {key: value for key, value in status["decision"].items() if key != "metrics"}

    assert "prod/shop: 12 replicas of Deployment/shop, decided by Metric/cpu" == lines({**old, "status": status})[0]
    absent = body(
        stated(), lambda of: observe_blind(of, Absent("NoMetrics", "no metrics returned from resource metrics API"))
    )
    assert any("kubectl top pods" in line for line in lines(changed(absent, columns={})))


@pytest.mark.slow
@given(situations(), situations())
def test_any_two_reconciliations_of_an_object_are_told_without_a_fault_and_their_changes_in_words(first, second):
    """Whatever was decided: the columns, the events of what changed, the screen and the table."""
    status = {}
    for of, observation, told, memory, now in (first, second):
        decision = decide(of, observation, told, memory, now)
        after = memory.after(decision, Withheld(), of, observation)
        forecast = told if isinstance(told, Forecast) else None
        reconciliation = reconciliation_of(of, decision, Withheld(), after, 1, observation, forecast=forecast)
        before, status = status, render(status, reconciliation)
        assert all(event.reason and event.message for event in transition_events(before, status, ZONE, now))
        spec = {"minReplicas": of.min_replicas, "maxReplicas": of.max_replicas}
        made = {"metadata": {"namespace": "prod", "name": "shop", "generation": 1}, "spec": spec, "status": status}

        assert explained(made, now)[0].startswith("prod/shop: ")
        assert as_json(explanation(made)) == json.loads(json.dumps(as_json(explanation(made))))
        (row,) = rows_of([made], now)
        assert row.word in {*StatusWord}
        # The status of the object, as the API server would have to accept it.
        CronHPAStatus.model_validate(status)


def test_a_fallback_says_for_what_it_waits_and_what_it_keeps():
    """A metric is unknown since 10:58 in Berlin: at 11:00 the fallback of 20 waits, and a shorter one has acted."""

    def screen(seconds):
        made = body(
            stated(fallback={"replicas": 20, "afterSeconds": seconds}),
            lambda of: observe_blind(of, NO_API),
            memory=Memory(unmeasured_since=at("09:58")),
        )
        return " ".join(line.strip() for line in lines(made)), as_json(explanation(made))["fallback"]

    waits, acts = screen(300), screen(60)

    assert "fallback: not all metrics are known since 10:58 +01:00" in waits[0]
    assert "at least 20 are kept from 11:03 +01:00" in waits[0]
    assert "Fallback asks for at least 20 (not all metrics are known since 10:58 +01:00, for 60 s or more)" in acts[0]
    assert 1 == acts[0].count("not all metrics are known since")
    assert waits[1].startswith("not all metrics are known since 2026-11-23T09:58:00Z")
    assert acts[1].startswith("at least 20 are kept")
    assert as_json(explanation(body(stated(), pods_of(12, 580))))["fallback"] is None


def test_a_vertical_autoscaler_is_a_problem_of_its_own():
    told = "VerticalPodAutoscaler tuner changes the requests"

    screen = lines(body(stated(), pods_of(12, 580), requests_changed=told))

    assert f"  ! {told}" in screen


def test_bounds_that_rest_on_calendars_or_events_are_not_guessed():
    """Only the operator knows what they ask for at the next edge; with its spec the bounds are told."""
    made = named("good")
    names = {**made, "spec": {**made["spec"], "schedulesFrom": [{"calendar": "marketing", "matching": "*"}]}}
    picked = changed(made, schedules=[{"name": "Event/sale", "state": "Closed"}])

    hidden = "the override ends; the bounds then rest on {}, which the operator knows: see its page"
    assert hidden.format("calendars") in lines(names)[-1]
    assert hidden.format("planned events") in lines(picked)[-1]
    assert None is as_json(explanation(names))["next"]["bounds"]
    known = parse_spec(made["spec"], "prod", ControllerOptions())
    assert "then 20 to 80 are allowed" in explained(names, NOW, spec=known)[-1]
