"""
cronhpa.cli.commands.adopt, cronhpa.cli.objects.adoption, cronhpa.cli.objects.adoption_plan: against an API server that
plays both controllers.

What a real control plane makes of it is shown in tests/cluster/test_adopt.py.
"""

import json

import msgspec
import pytest
from aiohttp import web

from cronhpa.cli.objects.adoption import until_the_hpa_scales
from cronhpa.core.model.spec import Spec, TargetRef
from cronhpa.operator.objects.object_state import ObjectState
from cronhpa.operator.objects.owners import Hpa, Owners

HPAS = "/apis/autoscaling/v2/namespaces/prod/horizontalpodautoscalers"
CRON_HPAS = "/apis/cronhpa.io/v1alpha1/namespaces/prod/cronhpas"
REF = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}


def said(kind, *, is_true, message="as it is"):
    return {"type": kind, "status": str(is_true), "message": message}


class Played:
    """
    One HPA and one CronHPA of the name shop, with the statuses that their controllers would write.

    has_metric: by whether the HPA is there, whether the metric is. wants: replicas that each wants.
    """

    def __init__(self, api, has_metric=lambda _: True, wants=(4, 4), metadata=None, metrics=None):
        self.has_metric, self.wants, self.calls = has_metric, wants, []
        self.failures = 0
        """So many requests fail once the HPA was deleted."""
        self.before_delete = []
        """What happens to the HPA between the last look at it and its deletion, an edit a deletion."""
        spec = {"scaleTargetRef": REF, "minReplicas": 1, "maxReplicas": 9, "metrics": metrics or []}
        metadata = {"name": "shop", "namespace": "prod", "uid": "hpa-1", "resourceVersion": "1"} | (
            metadata or {"labels": {"team": "a"}}
        )
        self.bodies = {HPAS: {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}}
        self.bodies[HPAS] |= {"metadata": metadata, "spec": spec}
        for path in (HPAS, CRON_HPAS):
            api.answers[path] = self.collection
            api.answers[f"{path}/shop"] = self.item

    def fails(self):
        is_failing = ("delete", HPAS) in self.calls and self.failures > 0
        self.failures -= is_failing
        return is_failing

    async def collection(self, request):
        if self.fails():
            return web.Response(status=500)
        if request.method == "GET":
            items = [self.seen(request.path)] if request.path in self.bodies else []
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
        body = await request.json()
        if "dryRun" not in request.query:
            self.calls.append(("create", request.path))
            body["metadata"] |= {"uid": f"{body['kind']}-{len(self.calls)}", "generation": 1, "resourceVersion": "1"}
            self.bodies[request.path] = body
        return web.json_response(body)

    async def item(self, request):
        if self.fails():
            return web.Response(status=500)
        path = request.path.removesuffix("/shop")
        if path not in self.bodies:
            failure = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
            return web.json_response(failure, status=404)
        if request.method == "DELETE":
            if path == HPAS and self.before_delete:
                self.before_delete.pop(0)(self.bodies[path])
            asked, metadata = (await request.json())["preconditions"], self.bodies[path]["metadata"]
            if asked != {key: metadata[key] for key in asked}:
                failure = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the precondition failed"}
                return web.json_response(failure, status=409)
            self.calls.append(("delete", path))
            return web.json_response(self.bodies.pop(path))
        return web.json_response(self.seen(path))

    def seen(self, path):
        body = json.loads(json.dumps(self.bodies[path]))
        hpa_is_there = HPAS in self.bodies
        metric = said("ScalingActive", is_true=self.has_metric(hpa_is_there), message="the queue")
        if path == HPAS:
            return body | {"status": {"conditions": [metric], "desiredReplicas": self.wants[0], "currentReplicas": 4}}
        owned = said("TargetOwned", is_true=not hpa_is_there, message=held_by("shop"))
        ready = said("Ready", is_true=not hpa_is_there and self.has_metric(hpa_is_there))
        conditions = [metric, owned, ready, said("SpecAccepted", is_true=True)]
        status = {"conditions": conditions, "observedGeneration": 1, "desiredReplicas": self.wants[1]}
        return body | {"status": status | {"currentReplicas": 4}}


def held_by(*hpas):
    """Why a CronHPA holds, in the words of the operator."""
    owners, state = Owners(), ObjectState("prod", "shop", "uid", 0)
    state.served.readable_spec = Spec(TargetRef(REF["apiVersion"], REF["kind"], REF["name"]), 1, 9)
    for name in hpas:
        owners.note_hpa("prod", name, msgspec.convert({"spec": {"scaleTargetRef": REF}}, Hpa))
    return owners.problem(state, ())


def adopt(cronhpa, *options):
    return cronhpa("adopt", "shop", "--watch", "1", "--timeout", "1", *options)


def test_the_hpa_goes_once_both_agree_and_the_cron_hpa_stays(served, cronhpa):
    played = Played(served)

    result = adopt(cronhpa)

    assert 0 == result.exit_code, result.stderr
    assert [("create", CRON_HPAS), ("delete", HPAS)] == played.calls


def test_a_metric_that_goes_with_the_hpa_brings_it_back_with_its_labels(served, cronhpa):
    played = Played(served, has_metric=lambda hpa_is_there: hpa_is_there)
    before = played.bodies[HPAS]

    result = adopt(cronhpa)

    assert 1 == result.exit_code
    assert "ScalingActive is False: the queue; so the HPA is back as it was" in result.stderr
    creations = [("create", CRON_HPAS), ("delete", HPAS), ("create", HPAS), ("delete", CRON_HPAS)]
    assert creations == played.calls
    after = played.bodies[HPAS]
    assert (before["spec"], {"team": "a"}) == (after["spec"], after["metadata"]["labels"])


def test_a_metric_that_goes_while_it_is_watched_brings_the_hpa_back(served, cronhpa):
    """The metric is there at the first looks without the HPA, and then is gone."""
    alone = iter([True] * 4)
    played = Played(served, has_metric=lambda hpa_is_there: hpa_is_there or next(alone, False))

    result = adopt(cronhpa)

    assert 1 == result.exit_code
    assert HPAS in played.bodies
    assert CRON_HPAS not in played.bodies


@pytest.mark.parametrize("failures", [1, 3])
def test_an_api_server_that_fails_meanwhile_strands_nobody(served, cronhpa, failures):
    """The HPA is gone, the metric too, and the first requests after that fail."""
    played = Played(served, has_metric=lambda hpa_is_there: hpa_is_there)
    played.failures = failures

    result = adopt(cronhpa, "--timeout", "20")

    assert 1 == result.exit_code
    assert "so the HPA is back as it was" in result.stderr
    assert HPAS in played.bodies


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"has_metric": lambda _: False}, "the HPA has no metrics to scale by: the queue"),
        ({"wants": (4, 5)}, "the HPA wants 4 replicas and the CronHPA 5"),
        (
            {"metadata": {"annotations": {"metric-config.pods.rps.json-path/port": "9090"}}},
            "kube-metrics-adapter serves this metric only while an HPA",
        ),
    ],
)
def test_adopt_keeps_the_hpa_if_the_target_would_be_stranded(served, cronhpa, made, words):
    played = Played(served, **made)

    result = adopt(cronhpa)

    assert 1 == result.exit_code
    assert words in result.stderr
    assert HPAS in played.bodies
    assert ("delete", HPAS) not in played.calls


def edited(**spec):
    """Somebody changes these fields of the HPA's spec; none: its controller writes the status."""

    def edit(body):
        body["spec"] |= spec
        body["metadata"]["resourceVersion"] += "1"

    return edit


def test_an_edit_just_before_the_deletion_is_not_lost(served, cronhpa):
    """With the uid as its only precondition, the deletion once removed an edit that nobody had seen."""
    played = Played(served)
    played.before_delete = [edited(maxReplicas=20)]

    result = adopt(cronhpa)

    assert 1 == result.exit_code
    assert "HorizontalPodAutoscaler shop was edited meanwhile, and is not deleted: run it again" in result.stderr
    assert [("create", CRON_HPAS), ("delete", CRON_HPAS)] == played.calls
    assert 0 == adopt(cronhpa).exit_code
    assert 20 == played.bodies[CRON_HPAS]["spec"]["maxReplicas"]


def test_a_status_that_is_written_just_before_the_deletion_does_not_matter(served, cronhpa):
    played = Played(served)
    played.before_delete = [edited(), edited()]

    result = adopt(cronhpa)

    assert 0 == result.exit_code, result.stderr
    assert [("create", CRON_HPAS), ("delete", HPAS)] == played.calls


def test_a_cron_hpa_that_is_there_and_says_otherwise_is_named(served, cronhpa):
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    played = Played(served, metrics=[metric])
    spec = {"scaleTargetRef": REF, "minReplicas": 1, "maxReplicas": 5, "metrics": [metric]}
    metadata = {"name": "shop", "namespace": "prod", "uid": "mine", "generation": 1}
    played.bodies[CRON_HPAS] = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA"}
    played.bodies[CRON_HPAS] |= {"metadata": metadata, "spec": spec}

    result = adopt(cronhpa, "--dry-run")

    assert "the CronHPA that is there differs from the HPA in spec.maxReplicas, and stays as it is" in result.stderr


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"finalizers": ["shop.io/keeper"]}, "the finalizers shop.io/keeper would hold the deleted HPA"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "the HPA is being deleted: wait until it is gone"),
    ],
)
def test_an_hpa_that_could_not_be_put_back_is_refused(served, cronhpa, metadata, words):
    """A deleted HPA with a finalizer cannot be created again, and is removed later, when nobody watches."""
    played = Played(served, metadata=metadata)

    result = adopt(cronhpa)

    assert 1 == result.exit_code
    assert words in result.stderr
    assert [] == played.calls


@pytest.mark.parametrize(("annotation", "code"), [("true", 0), ("false", 1)])
def test_a_datadog_metric_that_is_always_active_lives_on(served, cronhpa, annotation, code):
    external = {"metric": {"name": "datadogmetric@prod:hits"}, "target": {"type": "Value", "value": "5"}}
    Played(served, metrics=[{"type": "External", "external": external}])
    path = "/apis/datadoghq.com/v1alpha1/namespaces/prod/datadogmetrics/hits"
    body = {"metadata": {"annotations": {"external-metrics.datadoghq.com/always-active": annotation}}}

    async def answer(_):
        return web.json_response(body)

    served.answers[path] = answer

    assert code == adopt(cronhpa, "--dry-run").exit_code


def test_without_a_name_there_is_a_plan_and_nothing_else(served, cronhpa):
    Played(served)

    plan, refused = cronhpa("adopt", "--dry-run"), cronhpa("adopt")

    assert [
        "NAMESPACE  HPA   TARGET           REPLICAS     PLAN",
        "prod       shop  Deployment/shop  4 of 1 to 9  adopt",
    ] == (plan.stdout.splitlines())
    assert 2 == refused.exit_code


class OfTheOperatorAlone(Played):
    """The way back of a metric that the CronHPA has, and the HPA has not."""

    def __init__(self, api):
        super().__init__(api)
        metric = {"type": "External", "external": {"metric": {"name": "jobs"}, "target": {"type": "Value", "value": 5}}}
        spec = self.bodies.pop(HPAS)["spec"] | {"metrics": [metric]}
        metadata = {"name": "shop", "namespace": "prod", "uid": "mine", "resourceVersion": "1", "generation": 1}
        self.bodies[CRON_HPAS] = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA"}
        self.bodies[CRON_HPAS] |= {"metadata": metadata, "spec": spec}

    def seen(self, path):
        body = super().seen(path)
        if path == HPAS:
            body["status"]["conditions"] = [said("ScalingActive", is_true=False, message="no external metrics API")]
        return body


def test_an_hpa_that_has_no_metric_leaves_the_cron_hpa_in_charge(served, cronhpa):
    """The HPA stayed, the CronHPA held because of it, and nothing scaled the target."""
    played = OfTheOperatorAlone(served)

    result = adopt(cronhpa, "--back")

    assert 1 == result.exit_code
    assert "no external metrics API" in result.stderr
    assert "so the HPA is deleted again, and the CronHPA acts as before" in " ".join(result.stderr.split())
    assert [("create", HPAS), ("delete", HPAS)] == played.calls
    assert [CRON_HPAS] == list(played.bodies)


@pytest.mark.parametrize("others", [("shop-2", "web-shop"), ()])
def test_an_hpa_goes_only_if_the_cron_hpa_holds_because_of_it(served, cronhpa, others):
    """Found: a part of a word was enough, such as the name of another HPA or of the target."""

    class HeldByOthers(Played):
        def seen(self, path):
            body = super().seen(path)
            if path == CRON_HPAS:
                owned = next(one for one in body["status"]["conditions"] if one["type"] == "TargetOwned")
                owned["message"] = (
                    held_by(*others) if others else "CronHPA old is older and scales Deployment/shop too: delete one"
                )
            return body

    played = HeldByOthers(served)

    result = adopt(cronhpa)

    assert 1 == result.exit_code
    assert "the operator does not say that it holds because of the HPA" in " ".join(result.stderr.split())
    assert ("delete", HPAS) not in played.calls


def test_an_hpa_goes_if_the_cron_hpa_holds_because_of_it_and_others(served, cronhpa):
    class HeldByThree(Played):
        def seen(self, path):
            text = json.dumps(super().seen(path))
            return json.loads(text.replace(held_by("shop"), held_by("jobs", "shop", "web")))

    played = HeldByThree(served)

    assert 0 == adopt(cronhpa).exit_code
    assert ("delete", HPAS) in played.calls


def body(**conditions):
    return {"status": {"conditions": [{"type": kind, "status": value} for kind, value in conditions.items()]}}


@pytest.mark.parametrize(
    ("of_hpa", "of_cron_hpa", "is_awaited"),
    [
        ([{"type": "Resource"}, {"type": "External"}], [{"name": "cpu"}, {"name": "jobs"}], False),
        ([{"type": "Resource"}, {"type": ""}], [{"name": "cpu"}, {"name": "jobs"}], True),
        ([{"type": "Resource"}, {"type": ""}], [{"name": "cpu"}, {"name": "jobs", "reason": "NoSeries"}], False),
        ([], [{"name": "cpu"}], False),
    ],
    ids=["both", "one of the operator alone", "one that nobody has", "a status without metrics"],
)
def test_on_the_way_back_no_metric_is_lost_beside_another(of_hpa, of_cron_hpa, is_awaited):
    """ScalingActive is True of an HPA that can read one of its metrics; it then never scales down."""
    hpa = body(ScalingActive="True")
    chpa = body(ScalingActive="True", TargetOwned="False")
    hpa["status"]["currentMetrics"], chpa["status"]["decision"] = of_hpa, {"metrics": of_cron_hpa}

    assert is_awaited == (until_the_hpa_scales(hpa, chpa) is not None)


@pytest.mark.parametrize(
    ("hpa", "chpa", "is_awaited"),
    [
        (body(ScalingActive="True"), body(ScalingActive="True", TargetOwned="False"), False),
        (body(ScalingActive="False"), body(ScalingActive="True", TargetOwned="False"), True),
        (body(ScalingActive="False"), body(ScalingActive="False", TargetOwned="False"), False),
        (body(), body(ScalingActive="True", TargetOwned="False"), True),
    ],
    ids=["both scale", "a metric of the operator alone", "neither has it", "not looked at yet"],
)
def test_on_the_way_back_the_hpa_must_have_the_metrics_that_the_cron_hpa_has(hpa, chpa, is_awaited):
    """A source serves the CronHPA and no adapter serves the HPA: without the CronHPA nothing would scale."""
    assert is_awaited == (until_the_hpa_scales(hpa, chpa) is not None)
