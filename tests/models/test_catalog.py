"""The methods by their names: the project's own, and those that other packages add."""

import sys

import numpy as np
import pytest

from cronhpa_models import catalog
from cronhpa_models.catalog import ChosenMethod, find
from cronhpa_models.evaluation import coverage, rolling_origin
from cronhpa_models.method import fault, on_grid
from forecasting.packages import THETA, install

DAY = 24


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """A folder that packages with methods are installed in: one that works, and some that do not."""
    folder = tmp_path_factory.mktemp("site") / "packages"
    install(folder, "theta_method", THETA, "Theta = theta")
    broken = (
        "class Shape:\n"
        "    name, needs = 'Shape', ()\n"
        "    def __init__(self, *variants): self.variants = variants\n"
        "    def fit(self): ...\n"
        "    def decode(self): ...\n"
        "class NoDecode:\n"
        "    name, variants, needs = 'NoDecode', ('NoDecode',), ()\n"
        "    def fit(self): ...\n"
        "no_decode, other = NoDecode(), Shape('Another')\n"
        "nameless, listed, lacking = Shape('Nameless'), Shape('Listed'), Shape('Lacking')\n"
        "nameless.name, listed.needs, lacking.needs = 7, ['numpy'], ('no_such_package.part',)\n"
        "twice = own = Shape('Twice', 'LastValue')\n"
    )
    points = ("Class = Shape", "NoDecode = no_decode", "Other = other", "Nameless = nameless", "Listed = listed")
    install(
        folder, "misshapen", broken, *points, "Lacking = lacking", "Twice = twice", "LastValue = own", "Gone = gone"
    )
    install(folder, "another", "twice = 1\n", "Twice = twice")
    install(folder, "raising", "raise RuntimeError('no licence')\n", "Raising = method")
    install(folder, "leaving", "raise SystemExit(3)\n", "Leaving = method")
    return folder


@pytest.fixture
def installed(others, monkeypatch):
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(others))
    yield
    for name in set(sys.modules) - before:
        if name in {"theta_method", "misshapen", "another", "raising", "leaving"}:
            del sys.modules[name]


def rhythm(days):
    clock = np.arange(days * DAY) / DAY * 2 * np.pi
    return (10 + 4 * np.sin(clock)) * np.exp(0.1 * np.random.default_rng(1).standard_normal(len(clock)))


def test_who_names_none_has_the_variants_of_the_error_mixture():
    (chosen,) = catalog.default()

    assert ("ErrorMixture", ("Clock", "NearClock", "ClockAndLoad")) == (chosen.method.name, chosen.variants)


def test_every_name_is_of_one_method():
    names = [variant for chosen in catalog.built_in() for variant in chosen.variants]

    assert len(set(names)) == len(names)
    assert set(names) == {name for chosen in find(names).chosen for name in chosen.variants}


def test_variants_of_a_method_share_it_and_keep_its_order():
    selection = find(["NearClock", "LastValue", "Clock", "NearClock"])

    assert [("ErrorMixture", ("Clock", "NearClock")), ("LastValue", ("LastValue",))] == [
        (chosen.method.name, chosen.variants) for chosen in selection.chosen
    ]
    assert {} == selection.unavailable


@pytest.mark.slow
def test_a_method_of_another_package_forecasts_beside_the_others(installed):
    """statsmodels' Theta, fitted daily, on a rhythm with 10 % of noise: its 0.9 quantile covers about as much."""
    load = rhythm(24)
    selection = find(["Theta", "LastValue"])
    theta = selection.chosen[0]

    fitted = theta.method.fit(load[: 14 * DAY], steps_per_day=DAY, windows=(1, 2))
    origins = on_grid(fitted.load, load[14 * DAY :], len(fitted.load) - 1 + np.arange(DAY))
    read = theta.method.decode(fitted.encode()).distribution(load[14 * DAY :], origins)
    made = rolling_origin(theta, load, steps_per_day=DAY, first=14 * DAY, levels=(0.9,))

    assert {} == selection.unavailable
    assert ["Theta", "LastValue"] == [chosen.method.name for chosen in selection.chosen]
    assert fault(read, variants=1, windows=2, origins=DAY) is None
    np.testing.assert_allclose(fitted.distribution(load[14 * DAY :], origins).load, read.load)
    assert 0.8 <= coverage(made.outcomes[:, 0], made.forecasts[0, 0, :, 0]) <= 1.0


def test_a_method_of_another_package_is_loaded_when_it_is_named_and_not_before(installed):
    find(["Clock", "Nobody"])

    assert "theta_method" not in sys.modules


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Nobody", "no method has this name: LastValue, SeasonalNaive, "),
        ("Raising", "raising:method cannot be loaded: RuntimeError: no licence"),
        ("Leaving", "leaving:method cannot be loaded: SystemExit: 3"),
        ("Gone", "misshapen:gone cannot be loaded: AttributeError: "),
        ("Class", "it is the class Shape: an object is needed, Shape() for example"),
        ("NoDecode", "it has no `decode`"),
        ("Other", "its variants are Another: the entry point's name must be one of them"),
        ("Nameless", "its `name` is no text"),
        ("Listed", "its `needs` is no tuple of names"),
        ("Lacking", "it needs no_such_package.part, not installed here"),
        ("Twice", "several packages add a method of this name: another, misshapen"),
    ],
)
def test_a_method_that_is_not_to_be_had_costs_itself_alone(installed, name, reason):
    selection = find([name, "Clock"])

    assert reason in selection.unavailable[name]
    assert [("Clock",)] == [chosen.variants for chosen in selection.chosen]


def test_no_package_replaces_a_method_of_the_project(installed):
    (chosen,) = find(["LastValue"]).chosen

    assert ChosenMethod(catalog.built_in()[0].method, ("LastValue",)) == chosen


def test_names_that_are_known_are_said_with_those_of_other_packages(installed):
    assert "Theta" in find(["Nobody"]).unavailable["Nobody"]
