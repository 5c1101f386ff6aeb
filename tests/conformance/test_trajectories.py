"""Recorded lives of an upstream HorizontalPodAutoscaler, replayed tick by tick: nothing differs."""

from __future__ import annotations

import gzip
import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from conformance.trajectories import NAMESPACE, compare, lines, options, read, reconcile_tick, replay, score
from cronhpa.api.parse import parse_spec
from cronhpa.api.render import render
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.spec import OnceWindow, Schedule
from cronhpa.core.reasons import reason

VECTORS = Path(__file__).parent / "vectors"
LIVES = VECTORS / "trajectories.jsonl.xz"

CONDITIONS = {
    "AbleToScale False FailedGetScale",
    "AbleToScale False FailedUpdateScale",
    "AbleToScale True ReadyForNewScale",
    "AbleToScale True ScaleDownStabilized",
    "AbleToScale True ScaleUpStabilized",
    "AbleToScale True SucceededGetScale",
    "AbleToScale True SucceededRescale",
    "ScaledToZero False NotScaledToZero",
    "ScaledToZero True ScaledToZero",
    "ScalingActive False FailedGetContainerResourceMetric",
    "ScalingActive False FailedGetExternalMetric",
    "ScalingActive False FailedGetObjectMetric",
    "ScalingActive False FailedGetPodsMetric",
    "ScalingActive False FailedGetResourceMetric",
    "ScalingActive False InvalidSelector",
    "ScalingActive False ScalingDisabled",
    "ScalingActive True ValidMetricFound",
    "ScalingLimited False DesiredWithinRange",
    "ScalingLimited True ScaleDownLimit",
    "ScalingLimited True ScaleUpLimit",
    "ScalingLimited True TooFewReplicas",
    "ScalingLimited True TooManyReplicas",
}
EVENTS = {
    "FailedComputeMetricsReplicas",
    "FailedGetContainerResourceMetric",
    "FailedGetExternalMetric",
    "FailedGetObjectMetric",
    "FailedGetPodsMetric",
    "FailedGetResourceMetric",
    "FailedGetScale",
    "FailedRescale",
    "InvalidSelector",
    "SelectorRequired",
    "SuccessfulRescale",
}


class Tick(msgspec.Struct):
    expect: dict[str, Any]


class Life(msgspec.Struct):
    """As much of a life as is counted: pods and metrics are most of it."""

    name: str
    ticks: list[Tick]


def test_the_recording_is_whole_and_shows_every_condition_and_every_event_of_the_upstream():
    ticks: Counter[str] = Counter()
    conditions: set[str] = set()
    events: set[str] = set()
    for life in map(msgspec.json.Decoder(Life).decode, lines(LIVES)):
        ticks[life.name] = len(life.ticks)
        for expect in (tick.expect for tick in life.ticks):
            events |= {event["reason"] for event in expect["events"]}
            for condition in expect["status"].get("conditions", ()):
                conditions.add(f"{condition['type']} {condition['status']} {condition['reason']}")

    assert (440, 13_620) == (len(ticks), ticks.total())
    assert (CONDITIONS, EVENTS) == (conditions, events)


def test_replicas_status_conditions_and_events_are_the_upstreams():
    """All lives, tick by tick; a life that differs is named with its first difference."""
    assert {} == {
        life["name"]: differing[0] for life in read(LIVES) if (differing := [tick for tick in replay(life) if tick[1]])
    }


NEVER_OPEN = (Schedule("past", OnceWindow("2001-01-01T00:00", "2001-01-02T00:00", "UTC"), floor=50),)


@pytest.mark.slow
def test_an_object_with_a_schedule_that_never_opens_follows_the_recorded_lives():
    """
    Each life up to the first count outside the spec's bounds, or at zero: there an object with schedules does not jump,
    and asks no person. Replicas, conditions and events are the upstream's all the same, but for a reason where it has
    none.
    """
    ticks = 0
    for life in read(LIVES):
        flags = options(life["flags"])
        spec, memory, status = parse_spec(life["spec"], NAMESPACE, flags), Memory(), {"desiredReplicas": 0}
        for tick in life["ticks"]:
            spec = parse_spec(tick["spec"], NAMESPACE, flags) if "spec" in tick else spec
            current = tick["scale"].get("specReplicas", 0)
            if "getError" not in tick["scale"] and (
                not current or not spec.min_replicas <= current <= spec.max_replicas
            ):
                break
            reconciliation = reconcile_tick(replace(spec, schedules=NEVER_OPEN), tick, memory)
            memory, status = reconciliation.memory, render(status, reconciliation)
            told = f"; reason: {reason(reconciliation.decision)}"
            text = json.dumps(tick["expect"]).replace('; reason: "', f'{told}"').replace("; reason: ;", f"{told};")
            expect = json.loads(text)
            assert {} == compare(expect, reconciliation, status), life["name"]
            ticks += 1
    assert 6_910 == ticks


@pytest.mark.parametrize(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_a_replay_tells_a_difference(tmp_path, suffix, compress):
    """A vector that is wrong by one replica is found: the comparison can fail."""
    life = json.loads(json.dumps(next(life for life in read(LIVES) if life["ticks"][0]["expect"]["status"])))
    life["ticks"][0]["expect"]["status"]["currentReplicas"] = 4711
    file = tmp_path / f"trajectories.jsonl{suffix}"
    file.write_bytes(compress(json.dumps(life).encode()))

    comparison = score(file)

    assert (0, 1) == (comparison.trajectories_matched, comparison.trajectories)
    assert "4711" in comparison.first_difference
