"""What the best candidates of past days would have left, for all days and for each."""

import numpy as np
import pytest

from cronhpa.forecasting.evaluation import CandidateScores

pytestmark = pytest.mark.usefixtures("benchmark_scripts")

# Two days of ten minutes; the second candidate adds 20 % of the pods of a day, the third twice as much.
NOTHING = np.zeros((3, 2))
SCORES = CandidateScores(
    minutes=np.array([[10.0, 10.0], [2.0, 9.0], [0.0, 8.0]]),
    pods=np.array([[100.0, 100.0], [120.0, 120.0], [140.0, 140.0]]),
    actions=NOTHING,
    lowest=NOTHING,
    highest=NOTHING,
)


def test_the_best_candidate_for_all_days_keeps_the_budget_on_all_of_them():
    """The second adds 20 %, the third 40 %."""
    from forecast_remainder import best_constant

    assert [0, 0] == best_constant(SCORES, 0.19).tolist()
    assert [1, 1] == best_constant(SCORES, 0.2).tolist()
    assert [2, 2] == best_constant(SCORES, 0.4).tolist()


def test_the_best_candidates_by_day_spend_where_most_minutes_are_avoided():
    """10 % of both days are 20 pods, for which the first day saves eight minutes, the second one."""
    from forecast_remainder import by_day

    assert [0, 0] == by_day(SCORES, 0.09).tolist()
    assert [1, 0] == by_day(SCORES, 0.1).tolist()
    assert [2, 0] == by_day(SCORES, 0.2).tolist()
    assert [2, 2] == by_day(SCORES, 0.4).tolist()
