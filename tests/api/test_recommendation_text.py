"""cronhpa.api.status_memory: the two numbers of a recommendation, for this operator, an earlier and a later one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.test_memory_text import EMPTY, rows
from core.situations import BY_OVERRIDE, NOW, past_instants, queued, recommendations, spec
from cronhpa.api.status_memory import parse_memory, render_memory
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Recommendation, Source, SourceRef
from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.spec import ControllerOptions

OPTIONS = ControllerOptions()
APART = Memory(
    recommendations=(
        Recommendation(9, NOW, 4, BY_OVERRIDE),
        Recommendation(3, NOW, 50, SourceRef(Source.SCHEDULE, "night")),
        Recommendation(20, NOW, None, SourceRef(Source.FORECAST, "cpu")),
        Recommendation(7, NOW, 7, SourceRef(Source.METRIC, "cpu")),
        Recommendation(7, NOW, None, SourceRef(Source.METRIC, "cpu")),
    )
)


def test_the_numbers_are_written_once_where_they_are_equal():
    """
    8 replicas are in force. `replicas` is for an earlier operator, which pursues it: 9 and 20 were asked for by floors,
    so it reads 8; 50 were asked for by the metrics. What a restart holds is nobody's number: it has no `metrics`.
    """
    ten = {"time": "2026-11-23T10:00:00.000000000Z"}

    assert [
        {"replicas": 8, "merged": 9, "metrics": 4, "by": "Override", **ten},
        {"replicas": 50, "merged": 3, "metrics": 50, "by": "Schedule/night", **ten},
        {"replicas": 8, "merged": 20, "by": "Forecast/cpu", **ten},
        {"replicas": 7, "by": "Metric/cpu", **ten},
        {"replicas": 7, "merged": 7, "by": "Metric/cpu", **ten},
    ] == render_memory(APART, 8)["recommendations"]
    assert APART == parse_memory({"memory": render_memory(APART, 8)})


def test_what_is_only_held_says_so_and_an_earlier_operator_holds_it_too():
    """The metrics asked for 50 beside a cap of 10 at 09:50, and 30 are there. Nobody reads them as `metrics` of now."""
    held = Recommendation(10, NOW, 50, BY_OVERRIDE, asked_at=NOW - 600 * SECOND)
    text = render_memory(Memory(recommendations=(held,)), 30)["recommendations"]

    assert [
        {
            "replicas": 30,
            "time": "2026-11-23T10:00:00.000000000Z",
            "merged": 10,
            "by": "Override",
            "askedAt": "2026-11-23T09:50:00.000000000Z",
            "kept": 50,
        }
    ] == text
    assert (held,) == parse_memory({"memory": {**EMPTY, "recommendations": text}}).recommendations


def test_nothing_is_asked_for_after_it_is_held():
    """A forged text: the instant that people read is no later than the recommendation."""
    text = {"memory": {**EMPTY, "recommendations": rows(1, replicas=5, askedAt="9000-01-01T00:00:00Z")}}

    assert (Recommendation(5, NOW, asked_at=NOW),) == parse_memory(text).recommendations


def test_a_recommendation_of_an_earlier_operator_is_held_and_raises_nothing():
    """It wrote the merged count alone: 500 typed for 50 and an upgrade of the operator leave 60 at 60."""
    text = {"memory": {**EMPTY, "recommendations": rows(1, replicas=500)}}
    memory = parse_memory(text)
    resumed = memory.resumed(60, NOW)

    assert (Recommendation(500, NOW),) == memory.recommendations
    assert 60 == decide(spec(3), queued(300, current=60), None, resumed, NOW + 299 * SECOND).desired


def test_a_source_of_a_later_operator_is_nobody():
    text = {"memory": {**EMPTY, "recommendations": rows(1, replicas=5, by="Moon/full")}}

    assert (Recommendation(5, NOW),) == parse_memory(text).recommendations


def test_who_asked_is_kept_of_the_newest_hundred():
    """An hour of recommendations has room in an object, whatever the names: 4,000 are less than half a megabyte."""
    name = SourceRef(Source.METRIC, "a" * 253)
    memory = Memory(recommendations=tuple(Recommendation(4000 - i, NOW + i, 4000 - i, name) for i in range(4000)))

    text = render_memory(memory)

    assert 100 == sum("by" in recommendation for recommendation in text["recommendations"])
    assert len(str(text)) < 500_000
    assert [(recommendation.replicas, recommendation.metrics) for recommendation in memory.recommendations] == [
        (recommendation.replicas, recommendation.metrics)
        for recommendation in parse_memory({"memory": text}).recommendations
    ]


@given(
    st.lists(recommendations(st.integers(0, 60), past_instants), min_size=1, max_size=8).map(tuple),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_an_earlier_operator_holds_as_many_and_raises_to_nothing_but_what_metrics_asked_for(entries, current, asked):
    """After a downgrade: it reads `replicas` alone, and goes to the largest of the window."""
    newest = [
        recommendation for recommendation in entries if recommendation.at >= NOW - OPTIONS.downscale_stabilization
    ]
    text = render_memory(Memory(recommendations=entries), current)["recommendations"]
    kept = [read["replicas"] for recommendation, read in zip(entries, text, strict=True) if recommendation in newest]

    earlier = max([asked, *kept])

    assert earlier >= min(current, max([asked, *(recommendation.highest for recommendation in newest)]))
    assert earlier <= max([current, asked, *(recommendation.metrics or 0 for recommendation in newest)])
