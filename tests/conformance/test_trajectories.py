"""Recorded lives of an upstream HorizontalPodAutoscaler, replayed tick by tick: nothing differs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from conformance.sample import shown
from conformance.trajectories import read, replay, score

VECTORS = Path(__file__).parent / "vectors"
LIVES = list(read(VECTORS / "trajectories.jsonl.gz"))

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


def test_the_lives_show_every_condition_and_every_event_of_the_whole_recording():
    everything = set().union(*(shown(life) for life in LIVES))

    assert CONDITIONS <= {thing.removeprefix("condition ") for thing in everything}
    assert EVENTS <= {thing.removeprefix("event ") for thing in everything}


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life["name"])
def test_replicas_status_conditions_and_events_are_the_upstreams(life):
    assert {} == {tick: differences for tick, differences in replay(life) if differences}


def test_a_replay_tells_a_difference(tmp_path):
    """A vector that is wrong by one replica is found: the comparison can fail."""
    life = json.loads(json.dumps(next(life for life in LIVES if life["ticks"][0]["expect"]["status"])))
    life["ticks"][0]["expect"]["status"]["currentReplicas"] = 4711
    file = tmp_path / "trajectories.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(life).encode()))

    found = score(file)

    assert (0, 1) == (found.trajectories_matched, found.trajectories)
    assert "4711" in found.first_difference
