"""cronhpa.forecasting.predictions: a method that forecasts many objects at once, and fails for one of them."""

import numpy as np
import pytest

from cronhpa.forecasting.fitted_models import KnownLoad, RecentLoad, fit_models
from cronhpa.forecasting.policy import Attempts
from cronhpa.forecasting.predictions import PredictionsRequest, predict_all
from forecasting.made_loads import PODS, every_four_hours, step_maxima
from forecasting.odd_methods import Odd, chosen, half_known_load

PAST = every_four_hours(3)


class Together(Odd):
    """Odd, many at once; it notes how often."""

    times = 0

    def distributions(self, several, later, origins, windows):
        type(self).times += 1
        return [fitted.distribution(*one, windows) for fitted, *one in zip(several, later, origins, strict=True)]


def asked_of(method):
    history = KnownLoad(step_maxima(PAST), None)
    models = fit_models(history, PODS, [chosen(method)], Attempts(), (1, 2))
    return PredictionsRequest(models, RecentLoad(step_maxima(PAST[:60])), np.array([12]), {"Odd"}, Attempts())


@pytest.mark.parametrize("broken", [{"broken": ("distribution",)}, {"answer": half_known_load}], ids=["raises", "lies"])
def test_one_object_of_which_a_method_says_nothing_sound_costs_no_other_its_forecast(broken):
    sound, other, odd = asked_of(Together()), asked_of(Together()), asked_of(Together(**broken))

    answers = predict_all([sound, odd, other])

    assert [["Odd"], [], ["Odd"]] == [list(candidate.distributions) for candidate in answers]
    assert [{}, {"Odd"}, {}] == [asked_method.attempt.failures.keys() or {} for asked_method in (sound, odd, other)]


def test_a_method_that_forecasts_many_at_once_is_asked_once_for_all():
    before = Together.times

    answers = predict_all([asked_of(Together()) for _ in range(5)])

    assert all(candidate.distributions for candidate in answers)
    assert 1 == Together.times - before


def test_a_method_that_forecasts_one_by_one_is_asked_for_each():
    answers = predict_all([asked_of(Odd()), asked_of(Odd(broken=("distribution",)))])

    assert [["Odd"], []] == [list(candidate.distributions) for candidate in answers]
