"""cronhpa.api.status_memory: any JSON as `status.memory`, and how much of it is kept."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from api.test_memory_text import EMPTY, NINE, TEN, rows
from core.situations import (
    NOW,
    counts,
    observations,
    reconciliation_of,
    specs,
)
from cronhpa.api.render import render
from cronhpa.api.resource.status import CronHPAStatus
from cronhpa.api.status_memory import (
    parse_memory,
    read_memory,
)
from cronhpa.core.behavior import resume
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import DecisionKind, Withheld

numbers = st.integers(-3, 2**31) | st.sampled_from([10**20, -(10**20), 1e308, -0.0, 5.0]) | st.booleans() | st.none()
times = st.sampled_from([TEN, NINE, "2026-11-23T09:59:30Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "", "a"])
texts = st.text(max_size=6) | times | st.sampled_from(["cpu", "500m", "1e30", "-5", "night"])
json_values = st.recursive(
    numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def entries(**fields):
    """Lists of objects that are nearly right."""
    return st.lists(st.fixed_dictionaries({}, optional=fields) | json_values, max_size=4) | json_values


nearly = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "recommendations": entries(
            replicas=numbers, time=times, merged=numbers, metrics=numbers, by=texts, askedAt=times, kept=numbers
        ),
        "scaleUpEvents": entries(change=numbers, time=times, outdated=json_values, assumed=json_values),
        "scaleDownEvents": entries(change=numbers, time=times, outdated=json_values),
    },
    optional={
        "replicas": numbers,
        "zero": st.booleans() | json_values,
        "scheduledZero": st.booleans() | json_values,
        "startUpSeconds": numbers,
        "nodeStart": st.fixed_dictionaries({"seconds": numbers, "time": times}) | json_values,
        "requestPerPod": st.dictionaries(texts, texts | numbers, max_size=3),
        "intent": st.fixed_dictionaries({"from": numbers, "to": numbers, "time": times}) | json_values,
        "leads": entries(schedule=texts, start=times, seconds=numbers),
    },
)
well_formed = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "recommendations": st.lists(
            st.fixed_dictionaries(
                {"replicas": counts, "time": st.just(TEN)},
                optional={
                    "merged": counts,
                    "metrics": counts,
                    "by": st.sampled_from(["Override", "Metric/cpu", "a/b"]),
                    "askedAt": st.just(TEN),
                    "kept": counts,
                },
            ),
            max_size=4,
        ),
        **dict.fromkeys(
            ("scaleUpEvents", "scaleDownEvents"),
            st.lists(st.fixed_dictionaries({"change": st.integers(1, 2**31 - 1), "time": st.just(TEN)}), max_size=4),
        ),
    },
    optional={
        "replicas": counts,
        "zero": st.booleans(),
        "scheduledZero": st.booleans(),
        "startUpSeconds": st.integers(0, 3605),
        "nodeStart": st.fixed_dictionaries({"seconds": st.integers(0, 3605), "time": st.just(TEN)}),
        "requestPerPod": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["0", "1n", "9E"])),
        "intent": st.fixed_dictionaries(
            {"from": st.integers(0, 9), "to": st.integers(0, 2**31 - 1), "time": times.filter(lambda text: "T" in text)}
        ),
    },
)


@given(st.one_of(nearly, well_formed, json_values), specs(), st.data())
def test_any_json_as_memory_is_decided_upon_within_the_bounds_and_rendered(text, of, data):
    """No exception, no bound passed, a status that the CRD takes, and nothing of what is damaged is kept."""
    observation = data.draw(observations(of))
    scale = observation.scale
    current = scale.spec_replicas
    memory = resume(parse_memory({"memory": text}), current, NOW, of.behavior)

    decision = decide(of, observation, None, memory, NOW)
    remembered = memory.after(decision, Withheld(), of, observation)
    status = render({"memory": text}, reconciliation_of(of, decision, Withheld(), remembered, generation=1))

    if decision.kind in {DecisionKind.UNREACHABLE, DecisionKind.SUSPENDED}:
        assert current == decision.desired
    else:
        assert min(decision.minimum, current) <= decision.desired <= max(decision.maximum, current)
    CronHPAStatus.model_validate(status, strict=True, extra="forbid")
    assert remembered.pruned(of.behavior, of.options, NOW).recommendations == parse_memory(status).recommendations
    assert status["memory"] != text or read_memory({"memory": text}).problem is None


@given(st.integers(1, 400))
def test_what_is_kept_of_a_memory_is_bounded_whatever_was_written(thousands):
    """400,000 recommendations are 20 MB, more than the API server takes: nothing of them is kept."""
    text = {**EMPTY, "recommendations": rows(1000, replicas=5) * thousands, "note": "x" * 10**6}
    memory = parse_memory({"memory": text})

    assert (thousands * 1000 if thousands <= 4 else 0) == len(memory.recommendations)
    assert sys.getsizeof(memory.recommendations) < 64 * 1024
