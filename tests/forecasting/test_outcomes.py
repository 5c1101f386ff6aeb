"""cronhpa.forecasting.outcomes: what replica counts come to, the same however many steps are worked out at once."""

import numpy as np

from cronhpa.forecasting.columns import AutoscalerModel
from cronhpa.forecasting.outcomes import outcomes_of

# A tick a minute, a load that is constant in it, pods that are Ready two ticks after they were created.
MINUTELY = AutoscalerModel(tick_seconds=60, is_linear=False)


def counted_by_hand(load, replicas):
    """By step: seconds too few, mean replicas, mean load unserved, changes, lowest and highest, tick by tick."""
    rows = []
    for begin in range(0, len(load), 5):
        short = unserved = changes = 0.0
        for tick in range(begin, begin + 5):
            over = load[tick] - min(replicas[max(tick - 2, 0) : tick + 1])
            short += 60 * (over > 0)
            unserved += max(over, 0) / 5
            changes += tick > 0 and replicas[tick] != replicas[tick - 1]
        step = replicas[begin : begin + 5]
        rows.append((short, np.mean(step), unserved, changes, min(step), max(step)))
    return np.array(rows).T


def test_a_day_of_counts_is_scored_as_by_hand():
    """Loads and counts of three days, so that starting pods lie on both sides of every border between blocks."""
    draw = np.random.default_rng(4)
    load, replicas = draw.uniform(0, 9, 4320), draw.integers(1, 9, 4320)

    outcomes = outcomes_of(load, replicas[:, None].astype(np.int16), MINUTELY)

    names = ("under", "pods", "unserved", "actions", "lowest", "highest")
    np.testing.assert_allclose(
        [getattr(outcomes, name)[0] for name in names], counted_by_hand(load, replicas), rtol=1e-5, atol=1e-5
    )


def test_pods_that_start_count_as_too_few_until_they_are_ready():
    """Ten pods are asked for when a load of ten comes, and ready two minutes later: 120 s are short, by nine pods."""
    load = np.array([1.0] * 5 + [10.0] * 5)

    outcomes = outcomes_of(load, np.array([[1]] * 5 + [[10]] * 5, np.int16), MINUTELY)

    assert ([0.0, 120.0], [0.0, 1.0]) == (outcomes.under[0].tolist(), outcomes.actions[0].tolist())
    assert [0.0, np.float32(18 / 5)] == outcomes.unserved[0].tolist()
