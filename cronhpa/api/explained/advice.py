"""Problems of an object, and what to do about them: messages of the upstream and of the API server in plain words."""

from __future__ import annotations

import re

from msgspec import Struct

from cronhpa.api.ambiguous_selector import objects_named_in


class Problem(Struct, frozen=True):
    what: str
    """The problem in words."""
    do: str = ""
    """What to do about it, "" if `what` says so."""
    message: str = ""
    """The original message, "" if `what` holds it."""


_API = re.compile(r"unable to fetch metrics from (resource|custom|external) metrics API: (.*)", re.DOTALL)
_REGISTERED = {
    "resource": ("v1beta1.metrics.k8s.io", "metrics-server"),
    "custom": ("v1beta2.custom.metrics.k8s.io", "an adapter for custom metrics"),
    "external": ("v1beta1.external.metrics.k8s.io", "an adapter for external metrics"),
}
# An API server answers a group that nobody registered with "404 page not found".
_NOT_THERE = re.compile(
    r"could not find the requested resource|404 page not found|not registered|no custom metrics API|no version",
    re.IGNORECASE,
)
_FORBIDDEN = re.compile(r"forbidden|cannot (get|list|patch|update) ", re.IGNORECASE)
_REQUEST = re.compile(r"missing request for (\S+) in container (\S+) of Pod (\S+)")
_CONTAINER = re.compile(r"container (\S+) not found in Pod (\S+)")
# What conditions begin with, in the upstream's words: no HPA need be there.
_UPSTREAM = re.compile(r"the HPA (?:controller )?was unable to [^:]*: ")
_AGAINST_SPEC = {
    "Spec for at most": "raise maxReplicas or lower",
    "Spec asks for at least": "lower minReplicas or raise",
}
_NO_KIND = re.compile(r"no matches for kind|could not find the requested resource|no kind", re.IGNORECASE)


def about_target(target: str, message: str) -> Problem:
    """The target cannot be read. target: such as Deployment/shop."""
    if _FORBIDDEN.search(message):
        return Problem(f"the operator may not read {target}", "give its role the right: see deploy/chart", message)
    if _NO_KIND.search(message):
        kind = target.partition("/")[0]
        return Problem(
            f"the cluster has no kind {kind} of this group and version, or it has no scale",
            "correct spec.scaleTargetRef",
            message,
        )
    if "not found" in message:
        return Problem(f"there is no {target}", "create it, or correct spec.scaleTargetRef", message)
    return Problem(f"{target} cannot be read", "the operator tries again at each decision", message)


def about_scale(target: str, message: str) -> Problem:
    """The replicas of the target could not be written."""
    do = (
        "give its role the right: see deploy/chart" if _FORBIDDEN.search(message) else "it tries again at each decision"
    )
    return Problem(f"the operator could not scale {target}", do, message)


def about_metric(message: str) -> Problem:
    """A metric is absent."""
    if match := _REQUEST.search(message):
        resource, container, pod = match.groups()
        return Problem(
            f"container {container} of pod {pod} has no request for {resource}, and a utilization is a share of it",
            f"set resources.requests.{resource} of container {container}, or use a target of type AverageValue",
        )
    if match := _CONTAINER.search(message):
        return Problem(
            f"pod {match[2]} has no container {match[1]}", "correct the container that the metric names", message
        )
    if objects := objects_named_in(message):
        return Problem(
            f"CronHPAs {' and '.join(name for _, name in objects)} count the same pods, so metrics scale neither",
            "let the selector of each target match its own pods alone, or set spec.podSelection: Owned on both",
            message,
        )
    if "no pods returned by selector" in message:
        return Problem(
            "the target has no pod", "see why none is made: kubectl describe the target and its ReplicaSet", message
        )
    if "did not receive metrics for targeted pods" in message:
        return Problem(
            "no pod has a sample that counts yet: they are starting, not ready, or not measured",
            "wait a minute, then look at kubectl get pods and kubectl top pods",
            message,
        )
    if match := _API.search(message):
        return _about_api(match[1], match[2], message)
    if match := re.search(r"no metrics returned from (resource|custom|external) metrics API", message):
        return Problem(
            f"the {match[1]} metrics API has no value of it",
            "wait a minute if its pods are new, else see what there is: " + _ask(match[1]),
            message,
        )
    return Problem("it could not be measured", "", message)


def about_bounds(reason: str, message: str) -> Problem:
    """Schedules contradict each other or the spec, or a window is odd. reason: of the condition BoundsConsistent."""
    if reason != "Contradiction":
        return Problem(message)
    do = [f"{change} the bound of the schedule" for words, change in _AGAINST_SPEC.items() if words in message]
    if do:
        return Problem(f"a schedule contradicts the spec: {message}", "; ".join(do))
    return Problem(
        f"schedules contradict each other: {message}", "give one of them a priority, or change when it is open"
    )


def own_words(message: str) -> str:
    """The message of a condition without the upstream's words before it."""
    return _UPSTREAM.sub("", message, count=1)


def _about_api(api: str, answer: str, message: str) -> Problem:
    service, provider = _REGISTERED[api]
    if _FORBIDDEN.search(answer):
        return Problem(f"the operator may not read the {api} metrics API", "give its role the right", message)
    if _NOT_THERE.search(answer):
        return Problem(
            f"the cluster has no {api} metrics API",
            f"install {provider}, or see what is wrong with it: kubectl get apiservice {service}",
            message,
        )
    return Problem(
        f"the {api} metrics API did not answer as it should",
        f"ask it yourself: kubectl get apiservice {service}",
        message,
    )


def _ask(api: str) -> str:
    return "kubectl top pods" if api == "resource" else f"kubectl get --raw /apis/{api}.metrics.k8s.io"
