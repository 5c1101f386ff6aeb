"""The recorded life of one object in a store, for tests of commands that show the past."""

import time

import msgspec
from msgspec import Raw
from msgspec.structs import astuple
from typer.testing import CliRunner

from core.situations import reconciliation_of
from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.cli import app
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Scaled, Withheld
from cronhpa.core.model.instant import HOUR, MINUTE, format_instant_exact
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Observation, PodCounts, Scale
from cronhpa.core.model.record import Record, encode
from cronhpa.core.model.spec import ControllerOptions
from cronhpa.history.past.decisions import KeptDecision
from cronhpa.history.past.past_decision import PastDecision
from cronhpa.history.past.points import Point
from cronhpa.history.store import Store

NOW = time.time_ns() // (5 * MINUTE) * (5 * MINUTE)
FIRST = NOW - 5 * HOUR
SPEC = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
    "minReplicas": 2,
    "maxReplicas": 20,
    "timeZone": "Asia/Kolkata",
    "metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
    ],
}


def body(status, spec=SPEC):
    meta = {"namespace": "prod", "name": "shop", "uid": "u", "generation": 1}
    return {"metadata": meta, "spec": spec, "status": status}


def life():
    """Of each hour a reconciliation: 4 pods, then the load of 6, 8, 8 and 4."""
    parsed = parse_spec(SPEC, "prod", ControllerOptions())
    memory, status, current = Memory(), {}, 4
    for number, pods in enumerate((4, 6, 8, 8, 4)):
        now = FIRST + number * HOUR
        load = 600 * pods
        reading = PodCounts(current, 0, 0, current, current, load, 1000 * current, 0, 0, 0, load)
        record = Record(parsed, Observation(Scale(current, current, "app=shop"), (reading,)), None, memory, now)
        decision = decide(*astuple(record))
        outcome = Scaled(now) if decision.rescales else Withheld()
        memory = memory.after(decision, outcome, parsed, record.observation)
        status = render(status, reconciliation_of(parsed, decision, outcome, memory, 1))
        current = decision.desired
        yield record, status


def kept(at, what, inputs, left_out=0):
    decision = PastDecision(at, Raw(msgspec.json.encode(what)), Raw(inputs), "0.1.0", left_out)
    return KeptDecision("prod", "shop", str(at), decision)


def write_life(path):
    """A store of that life, with a point every five minutes."""
    store = Store(path)
    reconciliations = list(life())
    store.decisions.record(
        [kept(record.now, body(status), encode(record).encode()) for record, status in reconciliations]
    )
    points = [Point(FIRST + step * 5 * MINUTE, 4 + step // 20, 4, 2.4 + step / 10, 2, 20, None) for step in range(50)]
    store.decisions.record_points([("prod", "shop", point) for point in points])
    store.close()


def command(*arguments, columns=200):
    """A command in a terminal of so many columns."""
    return CliRunner().invoke(app, [*arguments], env={"COLUMNS": str(columns)})


def at(hours):
    return format_instant_exact(FIRST + round(hours * HOUR))
