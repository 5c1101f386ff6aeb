"""Recorded lives of an upstream HorizontalPodAutoscaler, replayed tick by tick: nothing differs."""

from __future__ import annotations

import gzip
import json
import lzma
from collections import Counter
from pathlib import Path

import pytest

from conformance.trajectories import read, replay, score

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


def test_the_recording_is_whole_and_shows_every_condition_and_every_event_of_the_upstream():
    ticks: Counter[str] = Counter()
    conditions: set[str] = set()
    events: set[str] = set()
    for life in read(LIVES):
        ticks[life["name"]] = len(life["ticks"])
        for expect in (tick["expect"] for tick in life["ticks"]):
            events |= {item["reason"] for item in expect["events"]}
            for item in expect["status"].get("conditions", ()):
                conditions.add(f"{item['type']} {item['status']} {item['reason']}")

    assert (440, 13_620) == (len(ticks), ticks.total())
    assert (CONDITIONS, EVENTS) == (conditions, events)


def test_replicas_status_conditions_and_events_are_the_upstreams():
    """All lives, tick by tick; a life that differs is named with its first difference."""
    assert {} == {
        life["name"]: differing[0] for life in read(LIVES) if (differing := [tick for tick in replay(life) if tick[1]])
    }


@pytest.mark.parametrize(("suffix", "compress"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_a_replay_tells_a_difference(tmp_path, suffix, compress):
    """A vector that is wrong by one replica is found: the comparison can fail."""
    life = json.loads(json.dumps(next(life for life in read(LIVES) if life["ticks"][0]["expect"]["status"])))
    life["ticks"][0]["expect"]["status"]["currentReplicas"] = 4711
    file = tmp_path / f"trajectories.jsonl{suffix}"
    file.write_bytes(compress(json.dumps(life).encode()))

    found = score(file)

    assert (0, 1) == (found.trajectories_matched, found.trajectories)
    assert "4711" in found.first_difference
