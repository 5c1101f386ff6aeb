"""
What must be so before a HorizontalPodAutoscaler goes, and after it has gone. Bodies of both objects in, words out.

The words say what is missing; None: nothing.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from cronhpa.core.instant import Nanoseconds

Json = dict[str, Any]


class Stopped(Exception):  # noqa: N818 - a decision, with its reason
    """Why it does not go on."""


def converted(hpa: Json, now: Nanoseconds, served: AbstractSet[str]) -> Json:
    """
    The CronHPA of a live HPA.

    served: paths of metrics that are known to live on without the HPA. Raises Stopped where there is no CronHPA, where
    a metric would go with the HPA, or something would make the HPA again.
    """
    from cronhpa.migration.convert import Document, convert

    owners = hpa["metadata"].get("ownerReferences") or ()
    if owners:
        named = ", ".join(f"{owner['kind']} {owner['name']}" for owner in owners)
        raise Stopped(f"{named} made this HPA and would make it again: move that over with `cronhpa convert`")
    found = convert([Document(hpa["metadata"]["name"], hpa)], now=now)
    own = f"{hpa['kind']}/{hpa['metadata']['name']}."
    remarks = [remark for remark in found.remarks if remark.path.removeprefix(own) not in served]
    if not found.manifests or remarks:
        raise Stopped("; ".join(str(remark) for remark in remarks))
    return found.manifests[0]


def must_fit(hpa: Json, chpa: Json) -> None:
    """Raises Stopped where two objects that are both there already do not belong together."""
    one, other = (target(body) for body in (hpa, chpa))
    if one != other:
        raise Stopped(f"the HPA scales {one} and the CronHPA {other}: rename one of them")
    if chpa["spec"].get("mode") == "Preview":
        raise Stopped("the CronHPA is there with mode Preview, which never scales: set spec.mode to Active first")


def must_be_within(manifest: Json, chpa: Json) -> None:
    """Raises Stopped where the HPA would jump to one of its bounds at once."""
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
    said, wanted = conditions(chpa), chpa["metadata"]["generation"]
    if (chpa.get("status") or {}).get("observedGeneration") != wanted:
        return "the operator has not looked at the CronHPA: is it running, and is this namespace its own?"
    owned = said.get("TargetOwned", {})
    if owned.get("status") != "False" or hpa["metadata"]["name"] not in owned.get("message", ""):
        return f"the operator does not say that it holds because of the HPA: {owned.get('message')}"
    if said.get("SpecAccepted", {}).get("status") != "True":
        return f"the operator cannot read the spec: {said.get('SpecAccepted', {}).get('message')}"
    for name, body in (("HPA", hpa), ("CronHPA", chpa)):
        active = conditions(body).get("ScalingActive", {})
        if active.get("status") != "True":
            return f"the {name} has no metrics to scale by: {active.get('message', 'it has not looked at its target')}"
    return _disagreement(hpa, chpa)


def _disagreement(hpa: Json, chpa: Json) -> str | None:
    """Where the two decide differently; with schedules of its own the CronHPA may."""
    if any(chpa["spec"].get(key) for key in ("schedules", "forecast", "override")):
        return None
    one, other = ((body.get("status") or {}).get("desiredReplicas") for body in (hpa, chpa))
    return None if one == other else f"the HPA wants {one} replicas and the CronHPA {other}"


def until_it_acts(_: Json | None, chpa: Json | None) -> str | None:
    """What is missing until the CronHPA scales by its metrics."""
    if chpa is None:
        return "the CronHPA is gone, and nothing scales the target"
    said = conditions(chpa)
    owned = said.get("TargetOwned", {})
    if owned.get("status") != "True":
        return f"the CronHPA does not act yet: {owned.get('message')}"
    return failing(chpa)


def failing(chpa: Json | None) -> str | None:
    """What keeps the CronHPA from deciding: a metric that is gone, or any other reason not to be Ready."""
    if chpa is None:
        return "the CronHPA is gone"
    for kind in ("ScalingActive", "Ready"):
        found = conditions(chpa).get(kind, {})
        if found.get("status") != "True":
            return f"{kind} is {found.get('status', 'not told')}: {found.get('message')}"
    return None


def has_lost_its_metric(chpa: Json | None) -> bool:
    """Whether it acts, and says that it has nothing to scale by."""
    said = {} if chpa is None else conditions(chpa)
    return (said.get("TargetOwned", {}).get("status"), said.get("ScalingActive", {}).get("status")) == ("True", "False")


def until_the_hpa_acts(hpa: Json | None, chpa: Json | None) -> str | None:
    if hpa is None:
        return "the HPA is gone"
    if "ScalingActive" not in conditions(hpa):
        return "the HPA has not looked at its target"
    held = None if chpa is None else conditions(chpa).get("TargetOwned", {})
    if held is None or held.get("status") == "False":
        return None
    return "the CronHPA does not hold: if its operator is gone, delete it by hand with kubectl delete chpa"


def until_the_hpa_scales(hpa: Json | None, chpa: Json | None) -> str | None:
    """As `until_the_hpa_acts`; and where the CronHPA has its metrics, the HPA must have them, too."""
    waits = until_the_hpa_acts(hpa, chpa)
    if waits is not None or hpa is None or chpa is None:
        return waits
    active, own = (conditions(body).get("ScalingActive", {}) for body in (hpa, chpa))
    if own.get("status") == "True" and active.get("status") != "True":
        return f"the HPA has no metrics: {active.get('reason')}: {active.get('message')}"
    return None


def as_new(hpa: Json) -> Json:
    """An HPA as it can be created again: its spec, labels and annotations."""
    metadata = {
        key: hpa["metadata"][key] for key in ("name", "namespace", "labels", "annotations") if hpa["metadata"].get(key)
    }
    return {"apiVersion": hpa["apiVersion"], "kind": hpa["kind"], "metadata": metadata, "spec": hpa["spec"]}


def missing(found: Json | None) -> str | None:
    return None if found is None else f"{found['kind']} {found['metadata']['name']} is still there"


def conditions(body: Json) -> dict[str, Json]:
    return {item["type"]: item for item in (body.get("status") or {}).get("conditions") or ()}


def target(body: Json) -> str:
    ref = body["spec"]["scaleTargetRef"]
    return f"{ref['kind']}/{ref['name']}"
