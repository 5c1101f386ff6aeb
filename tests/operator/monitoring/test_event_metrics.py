"""operator/monitoring/event_metrics.py: the numbers of the statuses of planned events."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from cronhpa.core.model.planned_event import PlannedEvent
from cronhpa.kube.label_selector import Selector
from cronhpa.operator.monitoring.event_metrics import event_families
from cronhpa.operator.objects.planned_events import SeenEvent

EVERYTHING = Selector(())
STATUS = {
    "state": "Active",
    "objects": 30,
    "pods": 120,
    "short": 4,
    "ready": 28,
    "addedRequests": {"cpu": "12500m", "memory": "3Gi"},
    "nextEdge": {"time": "2026-11-27T20:00:00Z", "schedule": "doors", "state": "Closed"},
}


def exposed(*events):
    class Families(Collector):
        def collect(self):
            return event_families(events)

    registry = CollectorRegistry()
    registry.register(Families())
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def seen(status, namespace="prod"):
    return SeenEvent(PlannedEvent("sale", namespace), EVERYTHING, EVERYTHING, status=status)


def test_an_event_that_holds_tells_its_numbers_and_its_end():
    """20:00 UTC on 27 November 2026 is 1,795,809,600 s after the epoch."""
    assert [
        'cronhpa_event_objects{name="sale",namespace="prod"} 30.0',
        'cronhpa_event_replicas{name="sale",namespace="prod"} 120.0',
        'cronhpa_event_short_replicas{name="sale",namespace="prod"} 4.0',
        'cronhpa_event_ready_objects{name="sale",namespace="prod"} 28.0',
        'cronhpa_event_added_cpu_cores{name="sale",namespace="prod"} 12.5',
        'cronhpa_event_added_memory_bytes{name="sale",namespace="prod"} 3.221225472e+09',
        'cronhpa_event_active{name="sale",namespace="prod"} 1.0',
        'cronhpa_event_next_edge_timestamp_seconds{name="sale",namespace="prod",state="Closed"} 1.7958096e+09',
    ] == exposed(seen(STATUS))


def test_an_event_without_a_status_and_what_a_forged_one_says_are_absent():
    assert [] == exposed(seen({}), seen({"objects": "many"}))
    status = {"objects": 1, "pods": "many", "addedRequests": {"cpu": "lots"}, "nextEdge": {"time": "soon"}}
    forged = exposed(seen(status, ""))

    assert ["cronhpa_event_objects", "cronhpa_event_active"] == [line.partition("{")[0] for line in forged]
