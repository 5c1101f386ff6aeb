"""The simulator beside a literal small model of the protocol that forecasts are measured by."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from math import ceil

import pytest

from core.situations import cpu, spec
from cronhpa.core.model.instant import DAY, MINUTE, SECOND
from cronhpa.core.model.spec import Span
from cronhpa.simulation.load import Load
from cronhpa.simulation.run import run
from cronhpa.simulation.target import Environment
from testbed.loads import K8S_APP11, Trace

_TICK_S = 15


def protocol(instants, values, begin, end, start_up, *, cautious):
    """
    (under-provisioned seconds, pod-seconds, writes), counted in ticks of 15 s; all times in whole seconds.

    Load in pods: 1 is what one pod carries, the target is 0.6 of it. The metric is the load of the last minute, 30 s
    late, spread over the pods that are ready now; tolerance 0.1, at most max(2 x, 4) up, 300 s down stabilization.
    cautious: whether a utilization is a whole percentage and pods that start are taken to use nothing before anything
    is added, as in the upstream.
    """

    def load(second):
        right = bisect_right(instants, second)
        if right == len(instants):
            return values[-1]
        before, after = instants[right - 1], instants[right]
        share = (second - before) / (after - before)
        return values[right - 1] + share * (values[right] - values[right - 1])

    ready_at = [begin] * ceil(load(begin) / 0.6)
    recommended: deque[tuple[int, int]] = deque()
    short = paid = writes = 0
    for now in range(begin, end, _TICK_S):
        seen = [load(now - 30 - age) for age in (0, 15, 30, 45, 60)]
        mean = (sum(seen) - (seen[0] + seen[-1]) / 2) / 4
        ready = sum(at <= now for at in ready_at)
        counted = len(ready_at) if cautious and mean / ready / 0.6 > 1 else ready
        ratio = int(100 * mean / counted) / 60 if cautious else mean / counted / 0.6
        holds = 0.9 <= ratio <= 1.1 or (cautious and ratio < 1 and counted > ready)
        recommended.append((now, len(ready_at) if holds else ceil(ratio * counted)))
        while recommended[0][0] < now - 300:
            recommended.popleft()
        wanted = min(max(number for _, number in recommended), max(2 * len(ready_at), 4))
        writes += wanted != len(ready_at)
        # Sorted by readiness, the last ones go first: those that are not ready, then the youngest.
        ready_at = ready_at[:wanted] + [now + start_up] * (wanted - len(ready_at))
        short += _TICK_S * (load(now) > sum(at <= now for at in ready_at))
        paid += _TICK_S * len(ready_at)
    return short, paid, writes


@pytest.mark.slow
@pytest.mark.parametrize(("cautious", "minutes_within"), [(False, 0.25), (True, 0.12)], ids=["protocol", "upstream"])
@pytest.mark.parametrize("start_up", [60, 120, 240])
def test_the_simulator_comes_near_the_protocol_on_a_recorded_load(start_up, cautious, minutes_within):
    """
    Two days of k8s_app11, 20 pods on average: pod-hours within 4 %, under-provisioned time within 25 % of the protocol
    (measured: 21, 13 and 7 % more) and within 12 % of the same with two rules of the upstream's that it leaves out
    (measured: 10, 6 and 3 % more): a utilization is a whole percentage, and pods that start are taken to use nothing.
    Both make the upstream react later. What is left is that a pod still counts as starting until a whole window of
    its metric lies behind its readiness.
    """
    trace = Trace.read(K8S_APP11)
    one_pod = sum(trace.values) / len(trace.values) / (20 * 0.6)
    pods = [value / one_pod for value in trace.values]
    begin = trace.start + 8 * DAY
    end = begin + 2 * DAY

    short, paid, writes = protocol(
        [instant // SECOND for instant in trace.instants],
        pods,
        begin // SECOND,
        end // SECOND,
        start_up,
        cautious=cautious,
    )
    score = run(
        spec(minimum=1, maximum=10_000, metrics=(cpu(60),)),
        Load(zip(trace.instants, pods, strict=True)),
        Environment(capacity=1.0, requests={"cpu": 1000}, start_up=start_up * SECOND),
        Span(begin, end),
    ).score

    assert short > 20 * MINUTE / SECOND, "a load that is never short proves nothing"
    assert score.under_provisioned / SECOND == pytest.approx(short, rel=minutes_within)
    assert score.pod_time / SECOND == pytest.approx(paid, rel=0.04)
    assert score.actions == pytest.approx(writes, rel=0.35)
