"""cronhpa.api.resource.status: the models accept every rendered status, field by field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.situations import NOW, instants, reconciliation_of, situations
from cronhpa.api.render import render
from cronhpa.api.resource.status import CronHPAStatus
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Failed, Scaled, Withheld
from cronhpa.core.model.forecast import Forecast
from cronhpa.core.schedules.conflicts import Conflict

# As long as an answer of another server may be.
long_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20) | st.just("x" * 40_000)
outcomes = st.one_of(st.just(Scaled(NOW)), st.builds(Failed, message=long_texts), st.just(Withheld()))
conflicts = st.lists(
    st.builds(Conflict, reason=st.just("Contradiction"), text=long_texts, start=st.none() | instants), max_size=3
)


@pytest.mark.slow
@given(
    situations(),
    outcomes,
    st.none() | long_texts,
    st.none() | st.integers(0, 100_000),
    conflicts,
)
def test_any_rendered_status_is_one_that_the_models_describe(situation, outcome, owner_problem, used, told_of):
    """Unknown fields are refused here, and so is a text where a number belongs: both would be lost, or refused."""
    of, observation, forecast, memory, _ = situation
    decision = decide(*situation)
    reconciliation = reconciliation_of(
        of,
        decision,
        outcome,
        memory.after(decision, outcome, of, observation),
        generation=3,
        owner_problem=owner_problem,
        forecast=forecast if isinstance(forecast, Forecast) else None,
        budget_used=used,
        conflicts=tuple(told_of),
    )

    status = render(render({}, reconciliation), reconciliation)

    CronHPAStatus.model_validate(status, extra="forbid", strict=True)
