"""cronhpa.sources.pods: how many pods are asked, which, and what that says of the others."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.observation import Pod
from cronhpa.sources.pods import chosen, extended, sample_size, variation_of


def pod(number):
    return Pod(f"shop-{number}", "Running", False, "True", 0, 0, 0, ())


@pytest.mark.parametrize(
    ("population", "variation", "size"),
    [
        (1, 1.0, 1),
        (30, 0.0, 30),
        (100, 0.0, 30),
        # n0 = (1.96 x 0.2 x 1.25 / 0.05)^2 = 96.04; 96.04 / (1 + 95.04 / 1000) = 87.7
        (1000, 0.2, 88),
        # n0 = (1.96 x 1.25 / 0.05)^2 = 2401; 2401 / (1 + 2400 / 1000) = 706.2
        (1000, 1.0, 707),
        (15_000, 1.0, 2070),
    ],
)
def test_the_size_follows_the_formula(population, variation, size):
    assert size == sample_size(population, variation)


@pytest.mark.parametrize("shape", [0.1, 0.3, 1.0, 2.0])
def test_the_mean_of_the_sample_is_right_to_five_percent_in_19_of_20_draws(shape):
    """Of 400 draws, with the variation as the draw before it measured it: at most 20 are further off."""
    source = random.Random(7)
    loads = [source.lognormvariate(0, shape) for _ in range(2000)]
    mean = sum(loads) / len(loads)
    variation, off = 1.0, 0
    for _ in range(400):
        drawn = source.sample(loads, sample_size(len(loads), variation))
        variation = variation_of(drawn)
        off += abs(sum(drawn) / len(drawn) / mean - 1) > 0.05

    assert off <= 20


def test_the_same_pods_are_drawn_again_and_nobody_without_the_salt_knows_which():
    pods = [pod(number) for number in range(500)]
    first = chosen(pods, 50, "salt")

    assert first == chosen(pods[::-1], 50, "salt")
    assert 50 == len({listed_pod.name for listed_pod in first})
    assert {listed_pod.name for listed_pod in first} != {listed_pod.name for listed_pod in chosen(pods, 50, "other")}


def test_pods_that_were_not_asked_have_the_mean_and_as_many_of_them_are_missing():
    """Two of four answered, 4 and 6: of ten others five are missing, five have 5."""
    estimate = extended({"a": 4.0, "b": 6.0}, 4, [f"other-{number}" for number in range(10)])

    assert 7 == len(estimate)
    assert 4 + 6 + 5 * 5 == sum(estimate.values())


def test_a_target_of_idle_pods_varies_by_nothing():
    assert 0.0 == variation_of([0.0, 0.0, 0.0])


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1e6), min_size=1),
    st.integers(0, 8),
    st.integers(0, 100),
)
def test_what_is_told_of_the_others_lies_between_what_was_told(answered, silent, others):
    estimate = extended(answered, len(answered) + silent, [f"other-{number}" for number in range(others)])

    assert answered.items() <= estimate.items()
    assert len(estimate) <= len(answered) + others
    assert min(answered.values()) * 0.999 <= min(estimate.values())
    assert max(estimate.values()) <= max(answered.values()) * 1.001
