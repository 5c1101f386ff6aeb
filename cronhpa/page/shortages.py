"""The minutes in which too few pods were ready, from the loads of minutes, the kept points and the kept decisions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from cronhpa.core.model.instant import MINUTE, Nanoseconds
from cronhpa.history.past.points import POINT_STEP, Point


def ready_pods(
    points: Sequence[Point], scalings: Sequence[tuple[Nanoseconds, int]], start_up: Nanoseconds | None
) -> list[tuple[Nanoseconds, int | None]]:
    """
    (instant, ready pods from then on), None while unknown.

    Pods are counted at points, five minutes apart. Between two of them a rise is put where the pods of a scaling became
    Ready, `start_up` after it, and a fall where the scaling was. Without such a scaling a count holds until the next
    point.

    scalings: (instant, desired replicas), in order.
    """
    steps: list[tuple[Nanoseconds, int | None]] = []
    changes = [(at, after, after > before) for (_, before), (at, after) in pairwise(scalings) if after != before]
    for point, later in pairwise([*points, None]):
        assert point is not None
        steps.append((point.at, point.ready))
        if later is None or point.ready is None or later.ready is None or point.ready == later.ready:
            continue
        rises = later.ready > point.ready
        delay = start_up if rises else 0
        if delay is None:
            continue
        instants = (at + delay for at, _, is_up in changes if is_up is rises and point.at <= at + delay < later.at)
        at = next(instants, None)
        if at is not None:
            steps.append((at, later.ready))
    return steps


def short_spans(
    ready: Sequence[tuple[Nanoseconds, int | None]],
    minutes: Iterable[tuple[Nanoseconds, float]],
    capacity: float | None,
) -> list[tuple[Nanoseconds, Nanoseconds]]:
    """
    The minutes in which load > ready pods x capacity; adjacent minutes are one span.

    minutes: (start, largest load). The ready pods of a minute are those at its end.
    """
    if not capacity:
        return []
    spans: list[tuple[Nanoseconds, Nanoseconds]] = []
    instants = [at for at, _ in ready]
    for at, load in minutes:
        place = bisect_right(instants, at + MINUTE - 1) - 1
        if place < 0 or at - instants[place] > 2 * POINT_STEP:
            continue
        count = ready[place][1]
        if count is None or load <= count * capacity:
            continue
        if spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], at + MINUTE)
        else:
            spans.append((at, at + MINUTE))
    return spans
