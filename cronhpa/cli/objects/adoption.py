"""
The conditions for deleting a HorizontalPodAutoscaler, and those after it. Bodies of both objects in, texts out.

A text says what is missing; None if nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Any

from cronhpa.core.model.instant import Nanoseconds

Json = dict[str, Any]
# As operator.objects.owners has it.
_OWNED_BY = re.compile(r"HorizontalPodAutoscaler (\S+(?:, \S+)*) scales ")


class Stopped(Exception):  # noqa: N818 - a decision, with its reason
    """The command does not go on; the text says why."""


class Edited(Stopped):
    """Somebody changed the object that was to be deleted."""


def converted(hpa: Json, now: Nanoseconds, served: AbstractSet[str]) -> Json:
    """
    The CronHPA of a live HPA.

    served: paths of metrics that are known to live on without the HPA. Raises Stopped if no CronHPA is equivalent, if a
    metric would end with the HPA, or if an owner would create the HPA again or a finalizer would hold it.
    """
    from cronhpa.migration.convert import Document, convert

    if "deletionTimestamp" in hpa["metadata"]:
        raise Stopped("the HPA is being deleted: wait until it is gone")
    if hpa["metadata"].get("finalizers"):
        named = ", ".join(hpa["metadata"]["finalizers"])
        raise Stopped(
            f"the finalizers {named} would hold the deleted HPA, and it could not be put back: remove them first"
        )
    owners = hpa["metadata"].get("ownerReferences") or ()
    if owners:
        named = ", ".join(f"{owner['kind']} {owner['name']}" for owner in owners)
        raise Stopped(f"{named} made this HPA and would make it again: move that over with `cronhpa convert`")
    conversion = convert([Document(hpa["metadata"]["name"], hpa)], now=now)
    own = f"{hpa['kind']}/{hpa['metadata']['name']}."
    remarks = [remark for remark in conversion.remarks if remark.path.removeprefix(own) not in served]
    if not conversion.manifests or remarks:
        raise Stopped("; ".join(str(remark) for remark in remarks))
    return conversion.manifests[0]


def must_fit(hpa: Json, chpa: Json) -> None:
    """Raises Stopped if two existing objects do not belong together."""
    one, other = (target(body) for body in (hpa, chpa))
    if one != other:
        raise Stopped(f"the HPA scales {one} and the CronHPA {other}: rename one of them")
    if chpa["spec"].get("mode") == "Preview":
        raise Stopped("the CronHPA is there with mode Preview, which never scales: set spec.mode to Active first")


def must_be_unedited(before: Json, latest: Json | None) -> None:
    """Raises Edited if the object is gone or replaced by now, or anything but its status has changed."""
    what = f"{before['kind']} {before['metadata']['name']}"
    if latest is None:
        raise Edited(f"{what} was deleted meanwhile by somebody else: run it again to go on")
    if before["metadata"]["uid"] != latest["metadata"]["uid"] or as_new(before) != as_new(latest):
        raise Edited(f"{what} was edited meanwhile, and is not deleted: run it again to go on with what it says now")


def version_of(body: Json) -> Json:
    """The preconditions of a deletion that deletes this version of an object and no other."""
    return {key: body["metadata"][key] for key in ("uid", "resourceVersion")}


def where_they_differ(manifest: Json, chpa: Json) -> list[str]:
    """A line that names the fields in which an existing CronHPA differs from the HPA's conversion; none if none do."""
    from pydantic.alias_generators import to_camel

    from cronhpa.api.parse import SpecError, parse_spec
    from cronhpa.core.model.spec import ControllerOptions

    try:
        converted_spec, own_spec = (parse_spec(body["spec"], "", ControllerOptions()) for body in (manifest, chpa))
    except SpecError:
        return []  # the operator reports it in the status, which is waited for
    fields = [
        f"spec.{to_camel(name)}"
        for name in ("min_replicas", "max_replicas", "metrics", "behavior")
        if getattr(converted_spec, name) != getattr(own_spec, name)
    ]
    return [f"  the CronHPA that is there differs from the HPA in {', '.join(fields)}, and stays as it is"] * bool(
        fields
    )


def must_be_within(manifest: Json, chpa: Json) -> None:
    """Raises Stopped if the current count is outside of the HPA's bounds, to which it would jump at once."""
    current = (chpa.get("status") or {}).get("currentReplicas")
    lowest, highest = manifest["spec"]["minReplicas"], manifest["spec"]["maxReplicas"]
    if current is not None and not lowest <= current <= highest:
        raise Stopped(
            f"{current} replicas run and the HPA would allow {lowest} to {highest}, so it would jump there: "
            "wait until the window closes, or change minReplicas or maxReplicas first"
        )


def until_it_agrees(hpa: Json | None, chpa: Json | None) -> str | None:
    """What is missing until the HPA can go."""
    if hpa is None:
        return "the HPA is gone"
    if chpa is None:
        return "the CronHPA is gone"
    by_type, wanted = conditions(chpa), chpa["metadata"]["generation"]
    if (chpa.get("status") or {}).get("observedGeneration") != wanted:
        return "the operator has not looked at the CronHPA: is it running, and is this namespace its own?"
    owned = by_type.get("TargetOwned", {})
    if owned.get("status") != "False" or hpa["metadata"]["name"] not in _hpas_in(owned.get("message", "")):
        return f"the operator does not say that it holds because of the HPA: {owned.get('message')}"
    if by_type.get("SpecAccepted", {}).get("status") != "True":
        return f"the operator cannot read the spec: {by_type.get('SpecAccepted', {}).get('message')}"
    for name, body in (("HPA", hpa), ("CronHPA", chpa)):
        active = conditions(body).get("ScalingActive", {})
        if active.get("status") != "True":
            return f"the {name} has no metrics to scale by: {active.get('message', 'it has not looked at its target')}"
    return _disagreement(hpa, chpa)


def _hpas_in(message: str) -> list[str]:
    """The HPAs because of which a CronHPA holds, by the message of its TargetOwned."""
    named = _OWNED_BY.match(message)
    return [] if named is None else named[1].split(", ")


def _disagreement(hpa: Json, chpa: Json) -> str | None:
    """How the two decisions differ. A CronHPA with schedules, a forecast or an override may differ."""
    if any(chpa["spec"].get(key) for key in ("schedules", "forecast", "override")):
        return None
    one, other = ((body.get("status") or {}).get("desiredReplicas") for body in (hpa, chpa))
    return None if one == other else f"the HPA wants {one} replicas and the CronHPA {other}"


def until_it_acts(_: Json | None, chpa: Json | None) -> str | None:
    """What is missing until the CronHPA scales by its metrics."""
    if chpa is None:
        return "the CronHPA is gone, and nothing scales the target"
    by_type = conditions(chpa)
    owned = by_type.get("TargetOwned", {})
    if owned.get("status") != "True":
        return f"the CronHPA does not act yet: {owned.get('message')}"
    return failing(chpa)


def failing(chpa: Json | None) -> str | None:
    """Why the CronHPA does not decide: a missing metric, or another reason not to be Ready."""
    if chpa is None:
        return "the CronHPA is gone"
    for kind in ("ScalingActive", "Ready"):
        condition = conditions(chpa).get(kind, {})
        if condition.get("status") != "True":
            return f"{kind} is {condition.get('status', 'not told')}: {condition.get('message')}"
    return None


def has_lost_its_metric(chpa: Json | None) -> bool:
    """Whether the CronHPA owns the target, and has no metric to scale by."""
    by_type = {} if chpa is None else conditions(chpa)
    return (by_type.get("TargetOwned", {}).get("status"), by_type.get("ScalingActive", {}).get("status")) == (
        "True",
        "False",
    )


def until_the_hpa_acts(hpa: Json | None, chpa: Json | None) -> str | None:
    if hpa is None:
        return "the HPA is gone"
    if "ScalingActive" not in conditions(hpa):
        return "the HPA has not looked at its target"
    target_owned = None if chpa is None else conditions(chpa).get("TargetOwned", {})
    if target_owned is None or target_owned.get("status") == "False":
        return None
    return "the CronHPA does not hold: if its operator is gone, delete it by hand with kubectl delete chpa"


def until_the_hpa_scales(hpa: Json | None, chpa: Json | None) -> str | None:
    """As `until_the_hpa_acts`; in addition the HPA must have each metric that the CronHPA has."""
    waits = until_the_hpa_acts(hpa, chpa)
    if waits is not None or hpa is None or chpa is None:
        return waits
    active, own = (conditions(body).get("ScalingActive", {}) for body in (hpa, chpa))
    if own.get("status") == "True" and active.get("status") != "True":
        return f"the HPA has no metrics: {active.get('reason')}: {active.get('message')}"
    # Of a metric that it could not read an HPA's status has an entry without a type. It then never scales down.
    read = (hpa.get("status") or {}).get("currentMetrics") or ()
    own_metrics = ((chpa.get("status") or {}).get("decision") or {}).get("metrics") or ()
    for metric, of_hpa in zip(own_metrics, read, strict=False):
        if "reason" not in metric and not of_hpa.get("type"):
            return f"the HPA cannot read the metric {metric.get('name')}, which the CronHPA has"
    return None


def as_new(hpa: Json) -> Json:
    """An HPA as it can be created again: its spec, labels and annotations."""
    metadata = {
        key: hpa["metadata"][key] for key in ("name", "namespace", "labels", "annotations") if hpa["metadata"].get(key)
    }
    return {"apiVersion": hpa["apiVersion"], "kind": hpa["kind"], "metadata": metadata, "spec": hpa["spec"]}


def missing(body: Json | None) -> str | None:
    """What is missing until an object is gone."""
    return None if body is None else f"{body['kind']} {body['metadata']['name']} is still there"


def conditions(body: Json) -> dict[str, Json]:
    return {condition["type"]: condition for condition in (body.get("status") or {}).get("conditions") or ()}


def target(body: Json) -> str:
    ref = body["spec"]["scaleTargetRef"]
    return f"{ref['kind']}/{ref['name']}"
