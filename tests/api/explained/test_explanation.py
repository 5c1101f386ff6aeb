"""cronhpa.api.explained.explanation: what follows from a status, whatever the operator's settings are."""

import pytest
from msgspec.structs import replace

from cronhpa.api.explained.explanation import explanation
from cronhpa.api.parse import parse_spec
from cronhpa.core.model.instant import MINUTE, SECOND, format_instant, parse_instant
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.core.schedules.bounds import resolve

NOW = parse_instant("2026-03-02T06:00:00Z")
START_UP = 40 * SECOND
SPEC = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
    "minReplicas": 2,
    "maxReplicas": 50,
    "schedules": [{"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "timeZone": "UTC", "minReplicas": 20}],
}


@pytest.mark.parametrize("period", [5 * SECOND, 15 * SECOND, MINUTE])
def test_a_lead_raises_the_bounds_whatever_the_period_of_the_operator_is(period):
    """Found: of a period of a minute, by which leads are longer, it was said that "2 to 50" are allowed then."""
    options = replace(ControllerOptions(), sync_period=period)
    edge = resolve(parse_spec(SPEC, "prod", options), NOW, START_UP).next_edge
    assert edge is not None
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Deciding"}],
        "nextEdge": {"time": format_instant(edge.at), "schedule": edge.schedule, "state": str(edge.state)},
        "memory": {"version": 1, "recommendations": [], "scaleUpEvents": [], "scaleDownEvents": [],
                   "startUpSeconds": START_UP // SECOND},
    }  # fmt: skip

    told = explanation({"metadata": {"namespace": "prod", "name": "shop"}, "spec": SPEC, "status": status}).edge

    assert ("day is asked for, ahead of its start", "20 to 50") == (told.what, told.then)
