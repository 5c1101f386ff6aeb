"""cronhpa.api.explained.advice: each thing that keeps an object from its work, in words and with what to do."""

import pytest

from cronhpa.api.explained.advice import about_bounds, about_metric, about_scale, about_target

SHOP = "Deployment/shop"
FETCH = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from"


@pytest.mark.parametrize(
    ("message", "what", "do"),
    [
        ('deployments.apps "shop" not found', "there is no Deployment/shop", "create it"),
        (
            'deployments.apps "shop" is forbidden: User "x" cannot get resource "deployments/scale"',
            "the operator may not read Deployment/shop",
            "role",
        ),
        ('no matches for kind "Deployment" in group "odd"', "no kind Deployment", "spec.scaleTargetRef"),
        ("the server could not find the requested resource", "no kind Deployment", "spec.scaleTargetRef"),
        ("dial tcp: i/o timeout", "Deployment/shop cannot be read", "tries again"),
    ],
)
def test_a_target(message, what, do):
    told = about_target(SHOP, message)

    assert what in told.what
    assert do in told.do
    assert message == told.message


@pytest.mark.parametrize(
    ("message", "what", "do"),
    [
        (
            f"{FETCH} resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)",
            "the cluster has no resource metrics API",
            "install metrics-server",
        ),
        (
            f"{FETCH} external metrics API: the server could not find the requested resource",
            "the cluster has no external metrics API",
            "v1beta1.external.metrics.k8s.io",
        ),
        (
            f"{FETCH} external metrics API: 404 page not found",
            "the cluster has no external metrics API",
            "v1beta1.external.metrics.k8s.io",
        ),
        (f"{FETCH} resource metrics API: pods.metrics.k8s.io is forbidden", "may not read", "role"),
        (f"{FETCH} resource metrics API: timeout", "did not answer as it should", "kubectl get apiservice"),
        ("no pods returned by selector while calculating replica count", "the target has no pod", "kubectl describe"),
        (
            "did not receive metrics for targeted pods (pods might be unready)",
            "no pod has a sample",
            "kubectl top pods",
        ),
        ("no metrics returned from resource metrics API", "has no value of it", "kubectl top pods"),
        ("no metrics returned from custom metrics API", "has no value of it", "/apis/custom.metrics.k8s.io"),
        (
            "pods by selector app=shop are controlled by more than one HPA (e.g. [{canary prod} {shop prod}])",
            "CronHPAs canary and shop count the same pods",
            "set spec.podSelection: Owned on both",
        ),
        ("container app not found in Pod shop-1", "pod shop-1 has no container app", "correct the container"),
    ],
)
def test_a_metric(message, what, do):
    told = about_metric(message)

    assert what in told.what
    assert do in told.do
    assert message == told.message


def test_a_request_that_is_missing_is_told_without_the_words_that_it_was_told_in():
    told = about_metric("failed to get cpu utilization: missing request for cpu in container app of Pod shop-1")

    assert "container app of pod shop-1 has no request for cpu, and a utilization is a share of it" == told.what
    assert told.do.startswith("set resources.requests.cpu of container app")


def test_what_is_not_known_is_told_in_the_words_it_came_in():
    told = about_metric("something new")

    assert ("it could not be measured", "", "something new") == (told.what, told.do, told.message)


@pytest.mark.parametrize(("message", "do"), [("deployments is forbidden", "role"), ("timeout", "tries again")])
def test_a_scale_that_is_refused(message, do):
    told = about_scale(SHOP, message)

    assert "the operator could not scale Deployment/shop" == told.what
    assert do in told.do


@pytest.mark.parametrize(
    ("message", "what", "do"),
    [
        (
            "Schedule/day asks for at least 130, Spec for at most 120: Schedule/day is of higher rank and wins",
            "a schedule contradicts the spec: ",
            "raise maxReplicas or lower the bound of the schedule",
        ),
        (
            "Spec asks for at least 2, Schedule/night for at most 0: Schedule/night is of higher rank and wins",
            "a schedule contradicts the spec: ",
            "lower minReplicas or raise the bound of the schedule",
        ),
        (
            "Schedule/day asks for at least 20, Schedule/noon for at most 10, at equal rank: the maximum wins",
            "schedules contradict each other: ",
            "give one of them a priority, or change when it is open",
        ),
    ],
)
def test_bounds_that_contradict_each_other(message, what, do):
    """Found: a floor above maxReplicas, and the advice to give it a priority."""
    told = about_bounds("Contradiction", message)

    assert (what + message, do) == (told.what, told.do)


def test_a_window_that_is_odd_contradicts_nothing():
    told = about_bounds("NeverOpens", "Schedule/day never opens: exclude and only leave it no start")

    assert ("Schedule/day never opens: exclude and only leave it no start", "") == (told.what, told.do)
