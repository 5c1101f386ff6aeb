"""
cronhpa_models.spike_hazard, cronhpa_models.spike_features: which minutes are likely to have a spike, and how high.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa_models.spike_features import DAY
from cronhpa_models.spike_hazard import decode, fit, newest_loads, spikes

LEAD = 3


def flags(starts, days, *, lasts=3):
    """(minutes,): jumps of three minutes each from these minutes on."""
    is_jump = np.zeros(days * DAY, bool)
    for start in starts:
        is_jump[start : start + lasts] = True
    return is_jump


def load_of(jumps):
    return np.where(jumps, 10.0, 2.0)


def learnt(jumps):
    return fit(load_of(jumps), jumps, lead=LEAD)


def told(fitted, minutes):
    """Chances of jumps at some minutes of the day after the fit, in which nothing has jumped yet."""
    minutes = np.asarray(minutes)
    later = np.zeros(minutes.max(), bool)
    return fitted.chance(load_of(later), later, minutes - LEAD)


def test_a_jump_of_every_morning_is_likely_at_its_minutes_and_at_no_other():
    """At 06:00 on each of eight days; 06:10 is ten minutes past it."""
    six = 6 * 60

    fitted = learnt(flags([day * DAY + six for day in range(8)], 8))
    at, before, past = told(fitted, [six, six - 10, six + 10])

    assert at > 0.5
    assert before < 0.1
    assert past < 0.1


def test_what_comes_at_most_full_hours_is_expected_at_the_next():
    """At seven of ten full hours, drawn anew each day: no clock of a day knows which, that of an hour does."""
    draw = np.random.default_rng(4).random(8 * 24) < 0.7

    fitted = learnt(flags([hour * 60 for hour in np.flatnonzero(draw)], 8))
    on_the_hour, half_past = told(fitted, [120, 90])

    assert 0.3 < on_the_hour < 0.95
    assert half_past < 0.05


def test_what_comes_two_hours_after_the_last_time_is_expected_then():
    """Each jump 115 to 125 minutes after the one before it, so that its clock drifts: only the gap predicts it."""
    draw = np.random.default_rng(5)
    starts = np.cumsum(draw.integers(115, 126, 110))
    jumps = flags(starts[starts < 8 * DAY - 3], 8)
    last = np.flatnonzero(jumps)[-3] - 8 * DAY

    fitted = learnt(jumps)
    usual = told(fitted, last + np.arange(115, 126)).mean()
    early = told(fitted, last + np.arange(60, 70)).mean()

    # Three of eleven minutes jump; an hour after the last one never did.
    assert usual > 0.1
    assert early < usual / 5


def test_chances_add_up_to_what_comes():
    """On a day of jumps at two of three full hours, 16 of 24, three minutes each: 48 are to be expected."""
    draw = np.random.default_rng(6).random(9 * 24) < 2 / 3
    jumps = flags([hour * 60 for hour in np.flatnonzero(draw)], 9)
    before, later = jumps[: 8 * DAY], jumps[8 * DAY :]

    chances = learnt(before).chance(load_of(later), later, np.arange(DAY - LEAD))

    assert chances.sum() == pytest.approx(48, rel=0.35)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400), st.integers(1, 20))
def test_nothing_behind_an_origin_is_looked_at(seed, origin, lead):
    """The leak test: loads after an origin do not change its forecast."""
    draw = np.random.default_rng(seed)
    before = flags(draw.integers(0, 4 * DAY - 3, 60), 4)
    fitted = fit(load_of(before), before, lead=lead)
    one, two = (draw.random(500) < 0.1 for _ in range(2))
    two[:origin] = one[:origin]
    origins = np.arange(origin + 1)

    first, second = (fitted.chance(load_of(jumps), jumps, origins) for jumps in (one, two))

    np.testing.assert_array_equal(first, second)


def test_one_origin_is_told_the_same_as_many():
    jumps = flags(np.random.default_rng(7).integers(0, 8 * DAY - 3, 100), 8)
    later = flags([200, 700], 1)
    fitted = learnt(jumps)

    many = fitted.chance(load_of(later), later, np.arange(0, 900, 50))
    single = [fitted.chance(load_of(later[:at]), later[:at], np.array([at]))[0] for at in range(0, 900, 50)]

    np.testing.assert_allclose(many, single)


def test_what_was_kept_tells_the_same():
    jumps = flags(np.random.default_rng(8).integers(0, 8 * DAY - 3, 100), 8)
    fitted = learnt(jumps)
    later = np.zeros(300, bool)

    one, two = (model.chance(load_of(later), later, np.arange(300)) for model in (fitted, decode(fitted.encode())))

    np.testing.assert_allclose(one, two, atol=0.01)


@pytest.mark.parametrize(
    ("jumps", "days"),
    [([], 8), ([5 * DAY], 8), ([DAY + 100, DAY + 700], 1), (range(0, 8 * DAY, 3), 8)],
    ids=["no-jump", "one-jump-of-three-minutes", "a-day-of-history", "jumps-at-every-minute"],
)
def test_with_too_little_to_learn_from_there_is_no_clock(jumps, days):
    assert fit(load_of(flags(jumps, days)), flags(jumps, days), lead=LEAD) is None


def test_what_happened_longer_than_eight_days_ago_does_not_matter():
    recent = flags(np.random.default_rng(9).integers(0, 8 * DAY - 3, 100), 8)
    older = flags(np.random.default_rng(10).integers(0, 4 * DAY - 3, 100), 4)
    later = np.zeros(200, bool)

    one, two = (
        learnt(jumps).chance(load_of(later), later, np.arange(200))
        for jumps in (recent, np.concatenate([older, recent]))
    )

    np.testing.assert_allclose(one, two)


def spikes_of(loads, clocks, days, enough, origin=0):
    """A spike of one minute a day at each clock, with its load; what may come after `origin` minutes of quiet."""
    exceeded = np.zeros(days * DAY, bool)
    load = np.full(days * DAY, 2.0)
    for height, clock in zip(loads, clocks, strict=True):
        exceeded[clock::DAY] = True
        load[clock::DAY] = height
    fitted = fit(load, exceeded, lead=LEAD)
    quiet = np.zeros(origin, bool)
    return fitted, fitted.spikes(np.full(origin, 2.0), quiet, np.array([origin]), np.array([enough]))


def test_a_spike_is_as_high_as_those_of_its_clock():
    """Of 10 at 06:00 and 30 at 18:00: for 06:00 the weight of 18:00 is exp(-12 / 0.5), 0.05 exp(-12 / 4) and 0.005."""
    six, eighteen = 6 * 60, 18 * 60

    _, chances = spikes_of((10.0, 30.0), (six, eighteen), 8, enough=2.0, origin=six - LEAD)

    far = np.exp(-24) + 0.05 * np.exp(-3) + 0.005
    near = 1 + 0.05 + 0.005
    assert near / (near + far) == pytest.approx(chances.cdf[0, chances.load < 20].max(), rel=1e-3)
    assert 1.0 == pytest.approx(chances.cdf[0, -1])


def test_only_spikes_above_what_is_enough_count():
    six, eighteen = 6 * 60, 18 * 60

    _, chances = spikes_of((10.0, 30.0), (six, eighteen), 8, enough=10.5, origin=six - LEAD)
    _, none = spikes_of((10.0, 30.0), (six, eighteen), 8, enough=30.5, origin=six - LEAD)

    assert 0.0 == chances.cdf[0, chances.load < 20].max()
    assert 1.0 == pytest.approx(chances.cdf[0, -1])
    assert 0.0 == none.cdf.max()


def test_newer_spikes_weigh_more():
    """Eight days at 06:00, the newest 40 high and the others 10; a day weighs 0.5 ** (1 / 5) of the day after it."""
    six = 6 * 60
    exceeded = np.zeros(8 * DAY, bool)
    exceeded[six::DAY] = True
    load = np.where(exceeded, 10.0, 2.0)
    load[7 * DAY + six] = 40.0

    spikes_ahead = fit(load, exceeded, lead=LEAD).spikes(
        np.full(six, 2.0), np.zeros(six, bool), np.array([six - LEAD]), np.array([5.0])
    )

    ages = 0.5 ** (np.arange(8) / 5)
    assert ages[0] / ages.sum() == pytest.approx(1 - spikes_ahead.cdf[0, -2], rel=1e-6)


def test_the_loads_that_were_fitted_are_kept():
    jumps = flags(range(0, 8 * DAY, 400), 8)

    fitted = learnt(jumps)

    kept, packed = newest_loads([fitted, decode(fitted.encode())], [fitted.minutes, 100])
    np.testing.assert_allclose(load_of(jumps), kept, rtol=1e-12)
    np.testing.assert_allclose(load_of(jumps)[-100:], packed, rtol=2e-3)


def test_many_origins_at_once_are_what_they_are_one_by_one():
    """More places are looked at than the history has minutes."""
    jumps = flags(range(0, 4 * DAY, 97), 4)
    fitted = learnt(jumps)
    later = flags(range(50, DAY, 240), 1)
    origins = np.arange(DAY)

    together = fitted.chance(load_of(later), later, origins)

    alone = [fitted.chance(load_of(later), later, origins[[place]])[0] for place in range(0, DAY, 31)]
    assert alone == together[::31].tolist()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=4), st.integers(0, 10**6))
def test_several_hazards_at_once_are_what_they_are_one_by_one(seeds, seed):
    """Of other histories, leads and numbers of spikes, at one origin or many; heights of the likely ones alone."""
    several, later, exceeded, origins = [], [], [], []
    draw = np.random.default_rng(seed)
    for drawn_seed in seeds:
        of = np.random.default_rng(drawn_seed)
        days = int(of.integers(3, 9))
        jumps = of.random(days * DAY) < of.choice([0.003, 0.05])
        jumps[:: int(of.integers(100, 2000))] = True
        load = np.where(jumps, 10.0, 2.0) * np.exp(0.1 * of.standard_normal(len(jumps)))
        fitted = fit(load, jumps, lead=int(of.integers(1, 20)))
        came = int(draw.integers(0, 1500))
        several.append(decode(fitted.encode()) if draw.random() < 0.5 else fitted)
        later.append(2.0 * np.exp(0.1 * draw.standard_normal(came)))
        exceeded.append(draw.random(came) < 0.02)
        origins.append(np.sort(draw.integers(0, came + 1, int(draw.integers(1, 6)))))
    enough = [draw.choice([1.0, 5.0, 10.0, 99.0], len(origin)) for origin in origins]

    unlikely = np.concatenate([np.full(len(origin), draw.choice([-1.0, 0.01, 0.1, 1.0])) for origin in origins])
    together = spikes(several, later, exceeded, origins, np.concatenate(enough), unlikely)
    alone = [one.spikes(*asked) for one, *asked in zip(several, later, exceeded, origins, enough, strict=True)]

    chance = np.concatenate([single.chance for single in alone])
    np.testing.assert_array_equal(chance, together.chance)
    np.testing.assert_array_equal(np.flatnonzero(chance > unlikely), together.at)
    loads = np.broadcast_to(together.load, together.cdf.shape)
    of_each = [(single, row) for single in alone for row in single.at]
    for (drawn_seed, row), load, cdf in zip(
        [of_each[place] for place in together.at], loads, together.cdf, strict=True
    ):
        count = drawn_seed.cdf.shape[1]
        looked_back = min(count, len(cdf))
        np.testing.assert_array_equal(np.broadcast_to(drawn_seed.load, drawn_seed.cdf.shape)[row], load[-count:])
        np.testing.assert_array_equal(drawn_seed.cdf[row], cdf[-count:])
        assert not cdf[:-looked_back].any(), "what others look back at says nothing here"
