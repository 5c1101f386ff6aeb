"""A reconciliation as one line: the record of a failed decision must give the same decision when it is read back."""

from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given

from core.situations import situations
from cronhpa.core.decide import decide
from cronhpa.core.model.instant import MINUTE
from cronhpa.core.model.record import Record, decode, encode


def is_written(situation):
    """JSON has neither NaN nor infinity: a forecast that holds one is written as null."""
    forecast = situation[2]
    return all(isfinite(number) for number in (*getattr(forecast, "load", ()), getattr(forecast, "ceiling", 0)))


@pytest.mark.slow
@given(situations().filter(is_written))
def test_a_record_is_one_line_that_reads_back_and_decides_the_same(situation):
    record = Record(*situation)

    line = encode(record)

    assert "\n" not in line
    assert record == decode(line)
    assert decide(*situation) == decide(*(getattr(decode(line), name) for name in Record.__struct_fields__))


@pytest.mark.parametrize("line", ["", "{}", "[]", "null", '{"spec": 1}', "\x00"])
def test_a_line_that_is_no_record_is_refused(line):
    with pytest.raises(ValueError):
        decode(line)


EARLIER = """
{"spec": {"target": {"api_version": "apps/v1", "kind": "Deployment", "name": "shop"}, "min_replicas": 2,
          "max_replicas": 120, "namespace": "prod",
          "metrics": [{"type": "ResourceMetric", "name": "cpu",
                       "target": {"type": "Utilization", "average_utilization": 60}},
                      {"type": "ExternalMetric", "name": "queue",
                       "target": {"type": "AverageValue", "average_value": 10000}}],
          "behavior": {"scale_up": {"policies": [{"type": "Pods", "value": 1, "period": 15000000000},
                                                 {"type": "Percent", "value": 100, "period": 15000000000}],
                                    "select": "Min", "window": 0},
                       "scale_down": {"policies": [{"type": "Pods", "value": 2, "period": 30000000000}],
                                      "select": "Max", "window": 60000000000}},
          "tuning": {"tolerance": 0.2}},
 "observation": {"scale": {"type": "Scale", "spec_replicas": 4, "status_replicas": 4, "selector": "app=shop"},
                 "readings": [{"type": "Tally", "ready": 4, "unready": 0, "missing": 0, "counted": 4, "matched": 4,
                               "usage": 2800, "request": 4000, "missing_usage": 0, "missing_request": 0,
                               "unready_request": 0, "load": 2800},
                              {"type": "Gauge", "value": 90000, "ready": 0}]},
 "forecast": null, "memory": {}, "now": 1795428000000000000}
"""


def test_a_record_of_an_earlier_version_is_read():
    """
    70 % of 60 % is within the tolerance of 0.2; a queue of 90 at 10 a pod asks for 9, and the smaller policy allows 5.

    Tally, Gauge, tuning, select and window are names of earlier versions.
    """
    record = decode(EARLIER)

    decision = decide(record.spec, record.observation, record.forecast, record.memory, record.now)

    assert [4, 9] == [proposal.replicas for proposal in decision.metrics]
    assert (9, 5) == (decision.merged, decision.desired)
    assert MINUTE == record.spec.behavior.scale_down.stabilization_window
