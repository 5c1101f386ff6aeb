"""
Writes the dictionary of past decisions: what decisions of many kinds of objects have in common.

`python -m history.decision_dictionary` from tests/ writes the file of the newest form anew. What another dictionary
wrote cannot be read with it: once a store of that form is kept anywhere, a new dictionary is a new file and a new form
in `past_decision`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.api.turn import Turn
from cronhpa.core.decide import decide
from cronhpa.core.decision import Failed, Scaled, Withheld
from cronhpa.core.forecast import Forecast
from cronhpa.core.instant import HOUR, MINUTE, SECOND, parse_instant
from cronhpa.core.memory import Memory
from cronhpa.core.observation import Absent, Observation, PodCounts, ScalarReading, Scale
from cronhpa.core.record import Record
from cronhpa.core.spec import ControllerOptions
from cronhpa.history.past_decision import PastDecision, pack, skeletons_of

FILE = Path(__file__).parents[2] / "cronhpa" / "history" / "decision_dictionary_2.txt"
NOW = parse_instant("2026-11-02T09:15:00Z")
BYTES_MAX = 32_000  # what zlib looks back

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
PODS = {
    "type": "Pods",
    "pods": {"metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "50"}},
}
EXTERNAL = {
    "type": "External",
    "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"queue": "orders"}}},
        "target": {"type": "AverageValue", "averageValue": "30"},
    },
}
DAYTIME = {
    "name": "working-hours", "start": "0 8 * * mon-fri", "end": "0 18 * * mon-fri", "minReplicas": 6, "priority": 10,
}  # fmt: skip
NIGHT = {"name": "night", "start": "0 22 * * *", "end": "0 6 * * *", "replicas": 0}
EVENT = {
    "name": "sale",
    "from": "2026-11-27T08:00",
    "to": "2026-11-27T20:00",
    "minReplicas": 40,
    "leadTimeSeconds": 600,
}
BEHAVIOR = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "policies": [
            {"type": "Percent", "value": 100, "periodSeconds": 15}, {"type": "Pods", "value": 4, "periodSeconds": 15},
        ],
        "selectPolicy": "Max",
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 300,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
        "selectPolicy": "Max",
    },
}  # fmt: skip


def spec(**more):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"}
    return {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 20, **more}


FAILED = Absent("FailedGetResourceMetric", "no metrics returned from resource metrics API")
# The commonest last: zlib writes what is near in fewer bits.
OBJECTS = [
    (spec(metrics=[PODS], timeZone="UTC", schedules=[EVENT], behavior=BEHAVIOR), [FAILED]),
    (spec(metrics=[EXTERNAL], timeZone="America/New_York", schedules=[NIGHT]), [ScalarReading(90_000, 3)]),
    (spec(metrics=[CPU, MEMORY], behavior=BEHAVIOR), [FAILED, PodCounts(4, 0, 0, 4, 4, 2000, 4000, 0, 0, 0, 2000)]),
    (spec(metrics=[CPU], mode="Preview"), [PodCounts(4, 1, 0, 4, 4, 3900, 4000, 0, 0, 1000, 4100)]),
    (
        spec(metrics=[CPU], timeZone="Europe/Berlin", schedules=[DAYTIME, NIGHT], forecast={"mode": "Active"}),
        [PodCounts(4, 0, 0, 4, 4, 3000, 4000, 0, 0, 0, 3000)],
    ),
    (spec(metrics=[CPU]), [PodCounts(4, 0, 0, 4, 4, 3900, 4000, 0, 0, 0, 3900)]),
]


def forecast():
    return Forecast(
        "cpu", NOW - MINUTE, NOW - NOW % (5 * MINUTE), 5 * MINUTE, (3.4217, 3.4217, 5.1234, 5.1234), 9.75,
        "time-of-week", 95, NOW - HOUR, 94,
    )  # fmt: skip


def decisions(text, readings):
    """A decision that holds, one up, one down and one that could not be written."""
    parsed = parse_spec(text, "default", ControllerOptions())
    memory, status = Memory(), {}
    for number, (scale, outcome) in enumerate(((1, Withheld()), (6, Scaled(NOW)), (0.1, Failed("no answer")))):
        now = NOW + number * 15 * SECOND
        seen = tuple(
            replace(reading, usage=round(reading.usage * scale), load=round(reading.load * scale))
            if isinstance(reading, PodCounts)
            else reading
            for reading in readings
        )
        observation = Observation(Scale(4, 4, "app=app"), seen, None, 12 * SECOND, {"cpu": 1000, "memory": 2**30})
        issued = forecast() if "forecast" in text else None
        record = Record(parsed, observation, issued, memory, now)
        decision = decide(*msgspec.structs.astuple(record))
        memory = memory.after(decision, outcome, parsed, observation)
        status = render(status, Turn(parsed, decision, outcome, memory, 1, forecast=issued))
        meta = {"namespace": "default", "name": "app", "uid": "", "generation": 1}
        body = {"metadata": meta, "spec": text, "status": status}
        yield PastDecision(now, Raw(msgspec.json.encode(body)), Raw(msgspec.json.encode(record)), "0.1.0")


def dictionary() -> bytes:
    texts: list[str] = []
    for text, readings in OBJECTS:
        for decision in decisions(text, readings):
            texts += [skeleton for skeleton in skeletons_of(pack([decision])) if skeleton not in texts]
    return "".join(texts).encode()[-BYTES_MAX:]


if __name__ == "__main__":
    FILE.write_bytes(dictionary())
