"""cronhpa.forecasting.named_methods: the methods that an object names forecast it, whatever becomes of the others."""

import math
import subprocess
import sys
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, parse_instant
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Span, Spec, TargetRef
from cronhpa.forecasting import worker
from cronhpa.forecasting.messages import ForecastTarget, WorkerRequest, digest
from cronhpa.forecasting.named_methods import find_methods, methods_of, unusable
from cronhpa.forecasting.service import ForecastService
from cronhpa.forecasting.walk_forward import WalkForward
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.store import Store
from cronhpa_models import catalog
from forecasting.packages import THETA, install
from forecasting.worker_tasks import fits_patiently, forecasts_patiently

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
NOW = MIDNIGHT + 5 * HOUR + 57 * MINUTE
WEB = Series("shop", "web", "cpu")
API = Series("shop", "api", "cpu")

ODD = """
import os
import time

from cronhpa_models.last_value import LastValue
from cronhpa_models.method import Distribution
from cronhpa_models.periodic_autoregression import PeriodicAutoregression


class Odd:
    needs = ()

    def __init__(self, name, fails):
        self.name, self.variants, self.fails = name, (name,), fails

    def fit(self, load, *, steps_per_day, windows):
        if self.fails == "sleeps":
            time.sleep(600)
        if self.fails == "computes":
            while True:
                pass
        if self.fails == "is silent":
            return None
        if self.fails == "raises":
            raise RuntimeError("no licence")
        if self.fails == "exits":
            os._exit(3)
        if self.fails == "forks":
            os.waitpid(os.fork() or time.sleep(600), 0)
        if self.fails == "eats":
            eaten = [bytearray(2**24) for _ in range(1000)]
        fitted = LastValue().fit(load, steps_per_day=steps_per_day, windows=windows)
        return None if fitted is None else Fitted(fitted, self.fails)

    def decode(self, state):
        return Fitted(LastValue().decode(state), self.fails)


class Fitted:
    def __init__(self, fitted, fails):
        self.fitted, self.fails, self.load, self.windows = fitted, fails, fitted.load, fitted.windows

    def distribution(self, later, origins, windows=None):
        sound = self.fitted.distribution(later, origins, windows)
        return Distribution(-sound.load - 1, sound.cdf) if self.fails == "nonsense" else sound

    def encode(self):
        return self.fitted.encode()


sleeping, computing, raising = Odd("Sleeping", "sleeps"), Odd("Computing", "computes"), Odd("Raising", "raises")
nonsense, silent = Odd("Nonsense", "nonsense"), Odd("Silent", "is silent")
exiting, forking, eating = Odd("Exiting", "exits"), Odd("Forking", "forks"), Odd("Eating", "eats")


class Later(PeriodicAutoregression):
    name, variants = "Later", ("Later",)

    def decode(self, state):
        time.sleep(600)


later = Later()
"""

# Where ODD_WHERE is its import, or the decoding of a fit, it does what ODD_HOW says.
BAD = """
import os
import threading
import time

from cronhpa_models.periodic_autoregression import PeriodicAutoregression


def misbehave(where):
    how = os.environ["ODD_HOW"] if os.environ["ODD_WHERE"] == where else "behaves"
    if how == "raises":
        raise RuntimeError("no licence")
    if how == "interrupts":
        raise KeyboardInterrupt
    if how == "exits":
        os._exit(3)
    if how == "forks":
        os.waitpid(os.fork() or time.sleep(600), 0)
    if how == "eats":
        eaten = [bytearray(2**24) for _ in range(1000)]
    if how == "sleeps":
        time.sleep(600)
    if how == "leaves a thread":
        threading.Thread(target=time.sleep, args=(600,)).start()


class Bad(PeriodicAutoregression):
    name, variants = "Bad", ("Bad",)

    def decode(self, state):
        misbehave("decode")
        return super().decode(state)


misbehave("import")
bad = Bad()
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder of Theta, which wraps statsmodels, and of methods that fail."""
    folder = tmp_path_factory.mktemp("installed") / "packages"
    install(folder, "theta_method", THETA, "Theta = theta")
    install(
        folder,
        "odd_methods_of_others",
        ODD,
        "Sleeping = sleeping",
        "Computing = computing",
        "Raising = raising",
        "Nonsense = nonsense",
        "Silent = silent",
        "Later = later",
        "Exiting = exiting",
        "Forking = forking",
        "Eating = eating",
    )
    install(folder, "bad_method_of_others", BAD, "Bad = bad")
    return folder


@pytest.fixture
def installed(packages, monkeypatch):
    """These methods are found, by a worker process too."""
    monkeypatch.syspath_prepend(str(packages))
    find_methods.cache_clear()
    yield
    find_methods.cache_clear()
    for name in ("theta_method", "odd_methods_of_others", "bad_method_of_others"):
        sys.modules.pop(name, None)


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "history.db")
    remember(opened, WEB)
    yield opened
    opened.close()


def load(at):
    """Ten cores in three hours of the day, one in the others: a constant floor would cost more than the budget."""
    return (10.0 if at % DAY // HOUR in {6, 12, 18} else 1.0) * (1 + 0.05 * math.sin(at // STEP * 1.7))


def remember(store, series, days=9):
    store.loads.backfill(series, [(at, load(at)) for at in range(MIDNIGHT - days * DAY, NOW - NOW % STEP, STEP)])


def target(*methods, series=WEB):
    """A pod is scaled for one core and carries 1.66."""
    metrics = (ResourceMetric("cpu", MetricTarget("AverageValue", average_value=1000)),)
    settings = ForecastSettings(pod_capacity_percent=166, methods=methods)
    ref = TargetRef("apps/v1", "Deployment", series.name)
    return ForecastTarget(series, Spec(ref, 1, 99, metrics=metrics, forecast=settings))


def answer(store, *methods, seconds=20.0):
    """What a worker says of WEB, fitted and forecast at one instant. seconds: that a method may take."""
    request = WorkerRequest(str(store.address), [target(*methods)], NOW)
    fitted = worker.fit(request, seconds)
    made = dict(worker.forecast(request, seconds).answers)[WEB]
    return dict(fitted.absent).get(WEB, made)


def test_who_names_none_chooses_from_the_default_methods():
    assert catalog.default() == methods_of(target().spec).chosen


def test_a_fit_is_made_anew_when_other_methods_are_named():
    assert digest(target("Clock").spec) != digest(target("NearClock").spec)


def patient(store):
    return ForecastService(
        store.address,
        time.monotonic,
        deadline_seconds=600,
        fit_deadline_seconds=600,
        fit_task=fits_patiently,
        forecast_task=forecasts_patiently,
    )


async def test_an_object_that_asks_for_a_method_of_statsmodels_is_forecast_by_it(store):
    """By a worker process, as the operator asks it."""
    service = patient(store)
    try:
        await service.fit([target("ExponentialSmoothing")], NOW)
        made = service.latest(WEB)
    finally:
        await service.close()

    assert () == service.problems
    assert ("ExponentialSmoothing", "") == (made.model, made.unusable)
    # Three minutes before the rise: the ten cores of six o'clock.
    assert made.load[0] < 2.0
    assert 9.0 <= max(made.load) <= 12.0


@pytest.mark.slow
async def test_an_object_that_asks_for_a_method_of_another_package_is_forecast_by_it(store, installed):
    service = patient(store)
    try:
        await service.fit([target("Theta")], NOW)
        made = service.latest(WEB)
    finally:
        await service.close()

    assert () == service.problems
    assert ("Theta", "") == (made.model, made.unusable)
    assert 9.0 <= max(made.load)


@pytest.mark.faults
@pytest.mark.parametrize("name", ["Raising", "Exiting", "Forking", "Eating", "Computing"])
async def test_a_method_of_another_package_that_misbehaves_costs_its_object_alone(store, installed, name):
    """
    In the worker process of the operator, which has 768 MiB: the method raises, ends the process, forks, eats memory or
    never ends. The object beside it in the same task is forecast in the round after it at the latest.
    """
    remember(store, API)
    service = ForecastService(store.address, time.monotonic, fit_deadline_seconds=60.0)
    subjects = [target(name), target("PeriodicAutoregression", series=API)]
    try:
        for _ in range(2):
            await service.fit(subjects, NOW)
        made, lost = service.latest(API), service.latest(WEB)
    finally:
        await service.close()

    assert "PeriodicAutoregression" == made.model
    assert isinstance(lost, Absent)


@pytest.mark.faults
@pytest.mark.parametrize("where", ["import", "decode"])
@pytest.mark.parametrize("how", ["raises", "interrupts", "exits", "forks", "eats", "sleeps", "leaves a thread"])
async def test_a_package_that_misbehaves_when_it_is_loaded_or_its_fit_is_costs_its_object_alone(
    store, installed, monkeypatch, where, how
):
    """As above; constant floors may remain for it. A thread that is left behind ends with the process."""
    monkeypatch.setenv("ODD_WHERE", where)
    monkeypatch.setenv("ODD_HOW", how)
    remember(store, API)
    service = ForecastService(store.address, time.monotonic, deadline_seconds=45.0, fit_deadline_seconds=45.0)
    subjects = [target("Bad"), target("PeriodicAutoregression", series=API)]
    try:
        for minute in range(2):
            await service.fit(subjects, NOW)
            await service.refresh(subjects, NOW + minute * MINUTE)
        made, lost = service.latest(API), service.latest(WEB)
    finally:
        await service.close()

    assert "PeriodicAutoregression" == made.model
    if how == "leaves a thread":
        assert ("Bad", "") == (lost.model, lost.unusable)
    else:
        assert isinstance(lost, Absent) or "remain: Bad (" in lost.unusable


@pytest.mark.slow
def test_of_the_named_methods_the_one_that_does_best_on_past_days_is_used(store):
    """The last value knows nothing of a rise before it comes."""
    assert "ExponentialSmoothing" == answer(store, "LastValue", "ExponentialSmoothing").model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "why", "seconds"),
    [
        ("Nobody", "no method has this name: LastValue, ", 20.0),
        ("Raising", "RuntimeError: no licence", 20.0),
        ("Nonsense", "ValueError: a load is negative, ", 20.0),
        ("Sleeping", "no answer within 5 s", 5.0),
        ("Computing", "no answer within 5 s", 5.0),
    ],
)
def test_a_method_that_cannot_be_used_is_named_and_the_others_go_on(store, installed, name, why, seconds):
    made = answer(store, name, "PeriodicAutoregression", seconds=seconds)

    assert "PeriodicAutoregression" == made.model
    assert made.unusable.startswith(f"not used: {name} ({why}")
    assert made.load == answer(store, "PeriodicAutoregression").load


def test_a_method_that_hangs_for_one_object_costs_the_other_objects_of_its_task_nothing(store, installed):
    remember(store, API)
    request = WorkerRequest(str(store.address), [target("Sleeping"), target("PeriodicAutoregression", series=API)], NOW)
    worker.fit(request, 5.0)
    made = dict(worker.forecast(request).answers)

    assert "PeriodicAutoregression" == made[API].model
    assert "no answer within 5 s" in made[WEB].message


@pytest.mark.parametrize("name", ["Nobody", "Raising", "Nonsense"])
def test_without_any_method_constant_floors_remain_and_the_answer_says_so(store, installed, name):
    """Three hours of ten cores a day: a constant floor costs more than 5 %."""
    absent = answer(store, name)

    assert "NothingToGain" == absent.reason
    assert f"; no method can be used, constant floors and the spike hazard remain: {name} (" in absent.message


def test_a_method_with_too_little_history_is_named(store, installed):
    made = answer(store, "Silent", "PeriodicAutoregression")

    assert ("PeriodicAutoregression", "not used: Silent (too little was measured for it)") == (
        made.model,
        made.unusable,
    )


def test_a_method_that_hangs_after_it_was_chosen_is_named(store, installed):
    """Its floors are gone until it answers again; the forecast says so."""
    made = answer(store, "Later", seconds=5.0)

    assert "Later" == made.model
    assert made.unusable.endswith("constant floors and the spike hazard remain: Later (no answer within 5 s)")


def test_who_is_learning_is_told_of_a_method_that_is_not_installed(store):
    young = Store(store.address.with_name("young.db"))
    remember(young, WEB, days=1)
    absent = answer(young, "Nobody")
    young.close()

    assert "Learning" == absent.reason
    assert "no method can be used" in absent.message


def test_a_backtest_uses_the_named_methods_and_names_those_that_it_cannot_use():
    points = [(at, load(at)) for at in range(MIDNIGHT - 9 * DAY, MIDNIGHT + DAY, STEP)]
    walk = WalkForward(points, target("Nobody", "PeriodicAutoregression"), Span(MIDNIGHT, MIDNIGHT + 7 * HOUR))
    for at in range(MIDNIGHT, MIDNIGHT + 7 * HOUR, STEP):
        walk(at)

    assert "84 by PeriodicAutoregression, not used: Nobody (no method has this name" in walk.summary


@given(
    st.dictionaries(st.text(max_size=63), st.text(max_size=2000), max_size=8),
    st.lists(st.sampled_from(["LastValue", "Clock"]), unique=True),
)
def test_the_sentence_on_methods_has_a_bounded_length(failures, names):
    assert len(unusable(find_methods(tuple(names)), failures)) < 600 + 8 * 70 + 100


_IMPORTED = """
import sys
import msgspec
from cronhpa.forecasting import worker
from cronhpa.forecasting.messages import WorkerRequest

request = msgspec.json.decode(sys.argv[1], type=WorkerRequest)
worker.fit(request)
answers = dict(worker.forecast(request).answers)
print(*(answer.model for answer in answers.values()), sorted({"pandas", "scipy", "statsmodels"} & set(sys.modules)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "imported"),
    [
        ((), []),
        (("PeriodicAutoregression",), []),
        (("ExponentialSmoothing",), ["pandas", "scipy", "statsmodels"]),
    ],
    ids=["default", "numpy", "statsmodels"],
)
def test_a_worker_imports_what_the_chosen_methods_need_and_nothing_else(store, names, imported):
    request = msgspec.json.encode(WorkerRequest(str(store.address), [target(*names)], NOW)).decode()
    command = [sys.executable, "-c", _IMPORTED, request]

    model, _, modules = subprocess.run(command, capture_output=True, check=True, text=True).stdout.partition(" ")

    assert model in (names or catalog.DEFAULT)
    assert f"{imported}\n" == modules
