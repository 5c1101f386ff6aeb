"""cronhpa.forecasting.provisioning: many objects are asked at once as each would be alone."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.forecasting.candidates import BY_HOUR, CONSTANTS, COSTS, Candidate
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES, KnownLoad, RecentLoad, fit_models
from cronhpa.forecasting.policy import Attempts
from cronhpa.forecasting.provisioning import ProvisioningRequest, provision_all
from cronhpa_models import catalog
from forecasting.made_loads import PODS, every_four_hours, half_past_nine, step_maxima

SLOW = msgspec.structs.replace(PODS, start_up_seconds=400, carried=0.7)
METHODS = ("Clock", "NearClock", "ClockAndLoad", "", "Missing")
PASTS = (every_four_hours(8), half_past_nine(8), every_four_hours(4, seed=3), np.full(8 * 1440, 5.0))


@pytest.fixture(scope="module")
def fitted():
    """By load, by workload, by the minute or by the step: the last load never is short, so it has no spike hazard."""
    return [
        fit_models(
            KnownLoad(step_maxima(past), past if by_minute else None),
            workload,
            catalog.default(),
            Attempts(),
            workload.windows(by_minute=False),
        )
        for past in PASTS
        for workload in (PODS, SLOW)
        for by_minute in (True, False)
    ]


OBJECTS = st.tuples(
    st.integers(0, 4 * len(PASTS) - 1),
    st.builds(
        Candidate,
        st.sampled_from(METHODS),
        st.sampled_from((*COSTS, float("inf"))),
        st.sampled_from(CONSTANTS),
    ),
    st.integers(1, 300),
    st.integers(1, 3),
)


@settings(max_examples=30, deadline=None)
@given(objects=st.lists(OBJECTS, min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_the_floors_of_many_objects_are_those_of_each(fitted, objects, seed):
    draw = np.random.default_rng(seed)
    asked = []
    for number, drawn, length, count in objects:
        candidate = msgspec.structs.replace(drawn, method="") if drawn.is_constant else drawn
        if candidate.is_constant and candidate.constant_share == BY_HOUR:
            candidate = msgspec.structs.replace(candidate, constant_share=0.0)
        past = PASTS[number // 4][-RUN_UP_MINUTES:]
        minutes = np.append(past, past[-1] * draw.uniform(0.5, 3.0, length))
        minutes[draw.random(len(minutes)) < draw.choice([0.0, 0.3])] = np.nan
        steps = step_maxima(minutes[RUN_UP_MINUTES:][: length // 5 * 5])
        recent = RecentLoad(steps, None if number % 2 else minutes)
        origins = np.sort(draw.integers(0, len(recent.origins) + 1, count))
        asked.append(ProvisioningRequest(candidate, fitted[number], recent, origins, Attempts()))

    together = provision_all(asked)

    for one, floors in zip(asked, together, strict=True):
        (alone,) = provision_all([one])
        for name in ("replicas", "load", "level", "ceiling"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(floors, name))


def test_nobody_asks_for_nothing():
    assert [] == provision_all([])
