"""HPAs on made loads, and targets of a report made of them."""

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, parse_instant
from cronhpa.reporting.gathering import metric_of, reported_target
from cronhpa.reporting.objects import PodRequests, autoscalers_of

MONDAY = parse_instant("2026-03-02T00:00:00Z")


def hpa(name="shop", *, minimum=2, maximum=100, utilization=60, **more):
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "prod", "labels": {"app": name}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization}},
                }
            ],
            **more,
        },
    }


def cron_hpa(**more):
    """The CronHPA that does what `hpa` does, with further fields of its spec."""
    body = hpa()
    return {**body, "apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "spec": {**body["spec"], **more}}


def deployment(name="shop", cpu="1"):
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "prod"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def points(days, cores, step=MINUTE, begin=MONDAY):
    """A point each step: cores(at) at each instant."""
    return [(at, cores(at)) for at in range(begin, begin + days * DAY, step)]


def rush(at, *, low=1.5, high=12.0, hour=8, hours=2, weekdays=range(7)):
    """`low` cores, and `high` from `hour` on for `hours` on these weekdays; the first of the days is a Monday."""
    weekday = (at - MONDAY) // DAY % 7
    return high if weekday in weekdays and 0 <= at % DAY - hour * HOUR < hours * HOUR else low


def target(load, body=None, requests=None, **more):
    """The reported target of an HPA on a load; its pods request one core."""
    (autoscaler,), _ = autoscalers_of([body or hpa()], MONDAY)
    requests = requests or PodRequests({"cpu": 1000})
    metric = metric_of(autoscaler, requests)
    return reported_target(autoscaler, metric, requests, load, **more)
