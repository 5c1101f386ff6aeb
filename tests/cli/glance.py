"""
The situations that a user meets, each as the API would serve its object: decided and rendered by the real code.

`python tests/cli/glance.py` writes the screens of golden/ anew; look at each before you commit it.
"""

from __future__ import annotations

from pathlib import Path

from core.situations import at, forecast, observed, pod, reconciliation_of, sample
from cronhpa.api.explained.explanation_text import explained, folded
from cronhpa.api.explained.object_rows import rows_of
from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.cli.commands.status import table
from cronhpa.core.decide import decide
from cronhpa.core.metrics.observe import observe
from cronhpa.core.model.decision import Recommendation, Scaled, Withheld
from cronhpa.core.model.forecast import TrackRecord
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent, Observation, Scale
from cronhpa.core.model.spec import ControllerOptions, Mode
from cronhpa.core.schedules.conflicts import conflicts

ZONE = "Europe/Berlin"  # an hour ahead of UTC
NOW = at("10:00")
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
DAY = {"name": "day", "start": "0 8 * * mon-fri", "end": "0 18 * * *", "minReplicas": 20, "maxReplicas": 80}
NIGHT = {"name": "night", "start": "0 22 * * *", "end": "0 6 * * *", "replicas": 0, "leadTimeSeconds": 0}
NO_TARGET = Absent("FailedGetScale", 'deployments.apps "shop" not found')
NO_API = Absent(
    "NotFound",
    "unable to fetch metrics from resource metrics API: the server could not find the requested resource "
    "(get pods.metrics.k8s.io)",
)
OTHER = "HorizontalPodAutoscaler shop scales Deployment/shop too: delete it or this object"


def stated(**fields):
    return {
        "scaleTargetRef": TARGET,
        "minReplicas": 2,
        "maxReplicas": 120,
        "metrics": [CPU],
        "timeZone": ZONE,
        **fields,
    }


def usage(count, milli, *, starting=0):
    """Pods of one core of which each uses so much; `starting` of them began a minute ago and are not Ready yet."""
    pods = [pod(f"p{i}") for i in range(count - starting)]
    begun = NOW - MINUTE
    pods += [pod(f"s{i}", ready="False", ready_since=begun, started=begun) for i in range(starting)]
    return pods, {listed_pod.name: sample(milli) for listed_pod in pods}


def body(spec, seen, *, now=NOW, memory=None, told=None, previous=None, outcome=None, name="shop", **fields):
    """The object after one reconciliation at `now`, generation 4. seen: Observation, or spec -> Observation."""
    of = parse_spec(spec, "prod", ControllerOptions())
    observation = seen if isinstance(seen, Observation) else seen(of)
    memory = memory or Memory()
    decision = decide(of, observation, told, memory, now)
    acts = decision.rescales and of.mode is Mode.ACTIVE and "owner_problem" not in fields
    outcome = outcome or (Scaled(now) if acts else Withheld())
    memory = memory.after(decision, outcome, of, observation)
    reconciliation = reconciliation_of(
        of, decision, outcome, memory, 4, forecast=told, zone=spec.get("timeZone", "UTC"), observation=observation,
        conflicts=conflicts(of, now), **fields,
    )  # fmt: skip
    meta = {"namespace": "prod", "name": name, "generation": 4}
    return {"metadata": meta, "spec": spec, "status": render(previous or {}, reconciliation)}


def scaled(at_, to=12, **fields):
    """The status before, of a scaling at this time."""
    return {"lastScaleTime": at_, "desiredReplicas": to, **fields}


def pods_of(count, milli, *, starting=0, current=None):
    return lambda of: observed(of, *usage(count, milli, starting=starting), current=current or count)


def good():
    """Monday, 11:00 in Berlin: a schedule, an override and a forecast beside a CPU of 33 % on 12 pods, one starting."""
    override = {"minReplicas": 30, "until": "2026-11-23T12:00:00Z", "reason": "INC-4711"}
    spec = stated(
        schedules=[DAY], override=override, forecast={}, behavior={"scaleUp": {"policies": [
            {"type": "Pods", "value": 8, "periodSeconds": 60}]}},
    )  # fmt: skip
    expected = forecast(15.2, metric="cpu", coverage_percent=94, track_record=TrackRecord(41.7, 61.0, 2.84, 7))
    return body(
        spec, pods_of(12, 330, starting=1), told=expected, budget_used=28, previous=scaled("2026-11-23T09:15:00Z"),
        memory=Memory(start_up=75 * SECOND, request_per_pod={"cpu": 1000}),
    )  # fmt: skip


def night_zero():
    """Tuesday, 01:00 in Berlin: asleep since 22:00."""
    return body(
        stated(minReplicas=2, schedules=[NIGHT]),
        Observation(Scale(0, 0, "app=shop")),
        now=at("2026-11-24T00:00:00Z"),
        memory=Memory(recommendations=(Recommendation(0, at("23:59")),), zero=True, scheduled_zero=True),
        previous=scaled("2026-11-23T21:00:05Z", 0, conditions=[{"type": "ScaledToZero", "status": "True"}]),
    )


def contradictory():
    """At least 20 by day, and at most 10 at noon, of equal rank."""
    noon = {"name": "noon", "start": "0 12 * * *", "end": "0 13 * * *", "maxReplicas": 10}
    return body(stated(schedules=[DAY, noon]), pods_of(20, 600), previous=scaled("2026-11-23T07:00:00Z"))


def two_owners():
    return body(stated(), pods_of(12, 900), owner_problem=OTHER)


def no_metric():
    return no_metric_since("2026-11-23T09:15:00Z")


def no_metric_since(since):
    was = {"type": "ScalingActive", "status": "False", "lastTransitionTime": since}
    return body(stated(), lambda of: observe_blind(of, NO_API), previous=scaled(since, conditions=[was]))


def no_target():
    return body(stated(), Observation(NO_TARGET))


def preview():
    """Beside the HPA that it is tried against."""
    return body(stated(mode="Preview"), pods_of(12, 900), owner_problem=OTHER)


def plain():
    """As an HPA, and nothing else."""
    return body(stated(timeZone="UTC"), pods_of(12, 580), previous=scaled("2026-11-22T09:15:00Z"))


def maxed(*, since="2026-11-23T09:40:00Z", milli=9_810, now=NOW):
    """CPU at 981 % of 60 on all 12 pods that are allowed: 12 x 981 / 60 = 197 are asked for."""
    was = {"type": "MaxedOut", "status": "True", "lastTransitionTime": since}
    return body(stated(maxReplicas=12), pods_of(12, milli), previous=scaled(since, conditions=[was]), now=now)


def observe_blind(of, measured):
    return observe(of, Scale(12, 12, "app=shop"), usage(12, 0)[0], [measured] * len(of.metrics), NOW)


SITUATIONS = {
    "good": good,
    "night-zero": night_zero,
    "contradictory": contradictory,
    "two-owners": two_owners,
    "no-metric": no_metric,
    "no-target": no_target,
    "preview": preview,
    "plain": plain,
    "maxed": maxed,
}


GOLDEN = Path(__file__).parent / "golden"


def now_of(name):
    return at("2026-11-24T00:00:00Z") if name == "night-zero" else NOW


def named(name):
    """The situation as an object of its name."""
    made = SITUATIONS[name]()
    made["metadata"]["name"] = name
    return made


def explanation_of(name):
    lines = explained(named(name), now_of(name))
    return "".join(f"{part}\n" for line in lines for part in folded(line))


def table_of_all():
    lines = table(rows_of([named(name) for name in SITUATIONS], NOW), 80, is_cut=True, is_everywhere=False)
    return "".join(f"{line.text}\n" for line in lines)


if __name__ == "__main__":
    for answer in SITUATIONS:
        (GOLDEN / f"explain-{answer}.txt").write_text(explanation_of(answer))
    (GOLDEN / "status.txt").write_text(table_of_all())
