"""What follows from the fields of a decision, and how a source is named."""

import pytest

from core.situations import NOW, exactly, queued, recommended, spec
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import (
    BY_NOBODY,
    BY_SPEC,
    Decision,
    DecisionKind,
    Recommendation,
    Rule,
    Source,
    SourceRef,
    Step,
)
from cronhpa.core.model.memory import Memory


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (SourceRef(Source.SCHEDULE, "working-hours"), "Schedule/working-hours"),
        (SourceRef(Source.OVERRIDE), "Override"),
        (BY_SPEC, "Spec"),
        (BY_NOBODY, "CurrentReplicas"),
    ],
)
def test_a_source_is_told_by_its_kind_and_its_name(source, text):
    assert text == str(source) == f"{source}"


def test_a_recommendation_can_hold_the_larger_of_what_was_merged_and_what_the_metrics_asked_for():
    """A cap of 10 where the metrics ask for 50; a floor of 9 where they ask for 4, and where they say nothing."""
    counts = [Recommendation(*fields).highest for fields in ((10, NOW, 50), (9, NOW, 4), (9, NOW, None))]

    assert [50, 9, 9] == counts


def test_a_decision_rescales_where_another_count_is_asked_for_and_the_scale_is_known():
    up, same = (Decision(NOW, DecisionKind.COMPUTED, 4, desired) for desired in (6, 4))
    blind = Decision(NOW, DecisionKind.UNREACHABLE, 0, 3)

    assert [True, False, False] == [decision.rescales for decision in (up, same, blind)]


def test_of_several_limits_the_last_one_is_told_and_of_stabilizations_the_first():
    """As in the upstream's conditions: AbleToScale names the window, ScalingLimited what limited the rest."""
    rules = (Rule.SCALE_DOWN_STABILIZED, Rule.FLOOR, Rule.TOO_MANY_REPLICAS, Rule.SCALE_DOWN_LIMIT, Rule.CAP)
    decision = Decision(NOW, DecisionKind.COMPUTED, 9, 4, steps=tuple(Step(rule, 1, 2) for rule in rules))

    assert (Rule.SCALE_DOWN_STABILIZED, Rule.SCALE_DOWN_LIMIT) == (decision.stabilized, decision.limited)
    assert (None, None) == (
        Decision(NOW, DecisionKind.HELD, 4, 4).stabilized,
        Decision(NOW, DecisionKind.HELD, 4, 4).limited,
    )


def test_a_decision_names_the_bounds_in_force_and_who_set_them():
    of = spec(1, 50, schedules=(exactly("night", 3),))

    decision = decide(of, queued(80, current=8), None, Memory(), NOW)

    assert (3, 3, "Schedule/night", "Schedule/night") == (
        decision.minimum, decision.maximum, str(decision.minimum_by), str(decision.maximum_by),
    )  # fmt: skip
    assert decision.bounded
    assert not decide(spec(), queued(80, current=8), None, recommended(8, "09:59"), NOW).bounded
