"""What a policy asks for: fitted and chosen once a day, and whatever a method does, answered."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronhpa.core.model.instant import DAY, HOUR, MINUTE, SECOND
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings, Span
from cronhpa.forecasting import policy, worker
from cronhpa.forecasting.candidates import Candidate
from cronhpa.forecasting.choice import Choice, NothingToGain
from cronhpa.forecasting.fitted_models import RUN_UP_MINUTES, KnownLoad, RecentLoad
from cronhpa.forecasting.policy import Attempts, FittedPolicy, Rejected
from cronhpa.forecasting.workload import workload_of
from cronhpa_models import catalog
from forecasting import odd_methods
from forecasting.made_loads import MIDNIGHT, SPEC, STEPS_PER_DAY, WEB, daily_jump, every_four_hours, step_maxima
from forecasting.odd_methods import Odd, chosen

DEFAULT = catalog.default()


def fit(history, target=WEB, methods=DEFAULT, now=MIDNIGHT, **rest):
    return policy.fit(history, target, workload_of(target), methods, now, **rest)


def by_minute(minutes):
    return KnownLoad(step_maxima(minutes), minutes)


def counted(tried):
    """An `evaluate` that notes the days whose candidates are scored."""

    def evaluate(begin, work):
        tried.append(begin)
        return work()

    return evaluate


def with_candidate(fitted, candidate):
    return msgspec.structs.replace(fitted, choice=Choice(candidate, 1.0, 1.0, 1.0, 7))


def capped(target, replicas):
    return msgspec.structs.replace(target, spec=msgspec.structs.replace(target.spec, max_replicas=replicas))


@pytest.fixture(scope="module")
def fitted():
    """A policy fitted to six days by the minute."""
    return fit(by_minute(every_four_hours(6)))


def recent(length, seed=3):
    """Minutes after those six days."""
    minutes = np.append(every_four_hours(6)[-RUN_UP_MINUTES:], every_four_hours(1, seed)[:length])
    return RecentLoad(step_maxima(minutes[RUN_UP_MINUTES:][: length // 5 * 5]), minutes)


def asked(fitted, load, origins=None, methods=DEFAULT, attempt=None):
    models = policy.models_of(fitted, methods, attempt)
    return policy.provision(fitted, models, load, load.origins if origins is None else origins, attempt)


def test_a_daily_jump_is_worth_a_forecast():
    fitted = fit(KnownLoad(daily_jump()))

    assert isinstance(fitted.choice, Choice)
    assert fitted.choice.avoided > 0.7 * fitted.choice.of > 0
    assert fitted.choice.extra_percent <= 5
    assert (5, fitted.choice.extra_percent) == (fitted.choice.days, fitted.expected_percent)
    assert {} == fitted.failures


def test_a_load_that_is_never_short_has_nothing_to_gain():
    fitted = fit(KnownLoad(np.full(6 * STEPS_PER_DAY, 12.0)))

    assert NothingToGain(0.0, 5) == fitted.choice
    assert ({}, b"") == (fitted.models.methods, fitted.models.spikes)
    assert asked(fitted, RecentLoad(np.full(3, 12.0))) is None
    assert "" == fitted.model_name
    assert fitted.track_record is None
    assert "no minute in 5 days was under-provisioned" == fitted.why_nothing()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (daily_jump(1), "24 h of cpu measured over 24 h: forecasts begin with 48 h of history, 24 h of it measured"),
        (
            np.append(daily_jump(1)[1:], np.full(2 * STEPS_PER_DAY, np.nan)),
            "23 h of cpu measured over 71 h: forecasts begin with 48 h of history, 24 h of it measured",
        ),
        (
            np.append(daily_jump(3), np.full(7 * STEPS_PER_DAY, np.nan)),
            "too little of cpu was measured in the last seven days to learn from",
        ),
        (
            np.concatenate([daily_jump(3), np.full(7 * STEPS_PER_DAY, np.nan), np.full(11, 6.0)]),
            "too little of cpu was measured in the last seven days to learn from",
        ),
    ],
    ids=["one day", "gaps", "a week of gaps", "55 minutes of a week"],
)
def test_with_too_little_to_learn_from_it_is_learning(steps, message):
    assert Absent("Learning", message) == fit(KnownLoad(steps))


def test_an_hourly_recording_learns_from_two_days_of_24_steps():
    hourly = np.where(np.arange(10 * 24) % 24 < 6, 6.0, 30.0)

    assert isinstance(fit(KnownLoad(hourly, steps_per_day=24)), FittedPolicy)
    assert "Learning" == fit(KnownLoad(hourly[:47], steps_per_day=24)).reason


@pytest.mark.slow
def test_what_the_decisions_do_not_bear_out_is_not_used():
    """Ten pods are the most there may be, and run anyway: the vectorized autoscaler knows no maximum."""
    fitted = fit(KnownLoad(daily_jump()), capped(WEB, 10))

    assert isinstance(fitted.choice, Rejected)
    assert 0 == fitted.choice.effect.avoided < fitted.choice.effect.minutes
    assert fitted.why_nothing().startswith("with this object's bounds, behavior and schedules 0 of ")
    assert asked(fitted, RecentLoad(np.full(3, 12.0))) is None


@pytest.mark.slow
def test_the_days_that_were_evaluated_are_not_evaluated_again():
    """Eight of nine days at first, one a day later, none at the same instant; all ten when the pods turn out slower."""
    load = daily_jump(12)
    counts, previous = [], None
    slow = msgspec.structs.replace(WEB, start_up=300 * SECOND)
    for days, target in ((0, WEB), (1, WEB), (1, WEB), (2, slow)):
        tried = []
        history = KnownLoad(load[: (9 + days) * STEPS_PER_DAY])
        previous = fit(history, target, now=MIDNIGHT + days * DAY, previous=previous, evaluate=counted(tried))
        counts.append(len(tried))

    assert [8, 1, 0, 10] == counts


def test_a_fit_that_comes_an_hour_late_evaluates_the_same_days():
    load = daily_jump(12)
    tried = []
    previous = fit(KnownLoad(load[: 9 * STEPS_PER_DAY]))

    fit(
        KnownLoad(load[: 10 * STEPS_PER_DAY + 11]),
        now=MIDNIGHT + DAY + 55 * MINUTE,
        previous=previous,
        evaluate=counted(tried),
    )

    assert [MIDNIGHT + 55 * MINUTE] == tried


@pytest.mark.slow
def test_days_are_evaluated_anew_when_other_spans_are_ignored_or_other_methods_may_be_chosen():
    """They were evaluated with an incident in them, or fitted on it; then only the newest is new."""
    load = daily_jump(12)
    incident = ForecastSettings(ignored=(Span(MIDNIGHT - 3 * DAY, MIDNIGHT - 3 * DAY + HOUR),))
    other = msgspec.structs.replace(WEB, spec=msgspec.structs.replace(SPEC, forecast=incident))
    fewer = (catalog.ChosenMethod(DEFAULT[0].method, DEFAULT[0].variants[:2]),)
    counts, previous = [], None
    for days, target, methods in ((0, WEB, DEFAULT), (0, other, DEFAULT), (1, other, DEFAULT), (1, other, fewer)):
        tried = []
        history = KnownLoad(load[: (9 + days) * STEPS_PER_DAY])
        now = MIDNIGHT + days * DAY
        previous = fit(history, target, methods, now, previous=previous, evaluate=counted(tried))
        counts.append(len(tried))

    assert [8, 8, 1, 9] == counts


def test_an_event_that_is_left_out_costs_no_evaluation_but_of_its_own_day():
    """The sale of the newest day is left out before that day is evaluated; one that is named late costs what saw it."""
    load = daily_jump(12)
    sale = Span(MIDNIGHT + 9 * HOUR, MIDNIGHT + 12 * HOUR)
    late = Span(MIDNIGHT - 3 * DAY, MIDNIGHT - 3 * DAY + HOUR)
    counts, previous = [], None
    for days, spans in ((0, (sale,)), (1, (sale,)), (1, (late, sale)), (2, (late, sale))):
        tried = []
        history = KnownLoad(load[: (9 + days) * STEPS_PER_DAY])
        target = msgspec.structs.replace(WEB, left_out=spans)
        previous = fit(history, target, now=MIDNIGHT + days * DAY, previous=previous, evaluate=counted(tried))
        counts.append(len(tried))

    assert [8, 1, 4, 1] == counts


def test_each_day_adds_a_validation_of_its_own():
    load = daily_jump(12)
    spans, previous = [], None
    for days in range(3):
        history = KnownLoad(load[: (9 + days) * STEPS_PER_DAY])
        previous = fit(history, now=MIDNIGHT + days * DAY, previous=previous)
        spans.append(previous.effect.span // DAY)

    assert [1, 2, 3] == spans
    assert 3 == previous.track_record.days


def test_an_edit_of_the_spec_is_validated_anew():
    """What was found for 200 pods at the most says nothing of ten, and the other way round."""
    history, previous, policies = KnownLoad(daily_jump()), None, []
    for target in (WEB, capped(WEB, 10), WEB):
        previous = fit(history, target, previous=previous)
        policies.append(previous.choice)

    assert [Choice, Rejected, Choice] == [type(candidate) for candidate in policies]
    assert policies[0] == policies[2]


def test_what_the_last_choice_cost_beyond_its_plan_is_planned_without():
    """
    It was to cost 4.6 % and cost 20 %: half of the budget of 5 % is left to the next choice. A load that more than
    doubles in three steps of a hundred, at no clock, is met by dear floors alone.
    """
    load = np.where(np.random.default_rng(5).random(10 * STEPS_PER_DAY) < 0.03, 9.0, 4.0)
    before = fit(KnownLoad(load[: 9 * STEPS_PER_DAY]), methods=())

    plain, dear = (
        fit(KnownLoad(load), methods=(), now=MIDNIGHT + DAY, previous=before, spent_percent=spent)
        for spent in (0.0, 20.0)
    )

    assert 2.5 < before.expected_percent
    assert (dear.expected_percent or 0.0) <= 2.5 < plain.expected_percent


def test_a_floor_comes_back_as_the_same_floor(fitted):
    """The load that stands for n pods, divided by what one is planned to carry and rounded up, is n."""
    load = recent(300)
    floors = asked(fitted, load)

    given_back = np.ceil(floors.load / fitted.workload.carried)
    wanted = floors.replicas > 0
    assert wanted.any()
    assert floors.replicas[wanted].tolist() == given_back[wanted].tolist()


def test_where_no_floor_is_asked_for_the_load_is_what_is_expected_or_what_the_running_pods_carry(fitted):
    load = recent(300)
    floors = asked(fitted, load)
    running = np.ceil(load.minutes[RUN_UP_MINUTES:] / 0.6)  # of the newest minute: no more than of the newest five

    none = floors.replicas[0] == 0
    assert none.any()
    assert (floors.load[0][none] <= np.maximum(running.max(), 1) * 0.9 + 1e-9).all()
    # A floor is a whole number of pods: the load of the last one may lie above the ceiling.
    assert (floors.load <= np.ceil(floors.ceiling / 0.9) * 0.9).all()


def test_levels_are_the_probability_that_the_stated_load_suffices(fitted):
    """A floor against a rise is one of most outcomes; 12 of load came in one hour of four."""
    floors = asked(with_candidate(fitted, Candidate("Clock", 0.07, 0.0)), recent(300))

    assert ((floors.level >= 0) & (floors.level <= 1)).all()
    assert (floors.level[floors.replicas > 0] > 0.5).all()


def test_in_a_gap_nothing_is_stated_but_a_constant_floor(fitted):
    """The newest five minutes are unknown: what the pods that run carry is not known either."""
    load = recent(60)
    load.minutes[-10:] = np.nan

    asks = asked(with_candidate(fitted, Candidate("Clock", 6.0, 0.0)), load, np.array([40, 60]))
    constant = asked(with_candidate(fitted, Candidate("", float("inf"), 0.1)), load, np.array([40, 60]))

    assert [False, True] == np.isnan(asks.load[0]).tolist()
    assert not np.isnan(constant.load).any()


@pytest.mark.parametrize("by_the_minute", [False, True], ids=["steps", "minutes"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), gaps=st.sampled_from([0.0, 0.1, 0.6]), length=st.integers(10, 300))
def test_what_is_asked_for_at_one_origin_is_what_is_asked_for_at_many(fitted, by_the_minute, seed, gaps, length):
    """One by one an origin is handed nothing but what was known at it."""
    draw = np.random.default_rng(seed)
    minutes = recent(length, seed).minutes
    minutes[RUN_UP_MINUTES:][draw.random(length) < gaps] = np.nan
    steps = step_maxima(minutes[RUN_UP_MINUTES:][: length // 5 * 5])
    load = RecentLoad(steps, minutes if by_the_minute else None)
    origins = np.unique(draw.choice(load.origins, 4))

    together = asked(fitted, load, origins)

    for place, origin in enumerate(origins):
        rows_known = origin // 5 if by_the_minute else origin
        alone = RecentLoad(steps[:rows_known], minutes[: RUN_UP_MINUTES + origin] if by_the_minute else None)
        floors_asked = asked(fitted, alone, np.array([origin]))
        assert together.replicas[:, place].tolist() == floors_asked.replicas[:, 0].tolist()
        # Sums over other shapes differ in their last digit.
        np.testing.assert_allclose(together.load[:, place], floors_asked.load[:, 0], rtol=1e-9)
        np.testing.assert_allclose(together.level[:, place], floors_asked.level[:, 0], rtol=1e-9)
        assert together.ceiling[place] == floors_asked.ceiling[0]


def test_a_policy_that_was_kept_asks_for_the_same(fitted):
    """What goes to the store, and what comes back."""
    state = worker.encode_states({WEB.series: fitted})
    (back,) = msgspec.msgpack.decode(state, type=dict[str, FittedPolicy]).values()

    assert fitted == back
    load = recent(300)
    for one, other in zip(*(vars(asked(kept_policy, load)).values() for kept_policy in (fitted, back)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_any_method_a_constant_floor_is_chosen_and_named():
    """Without single minutes there is no spike hazard either: whatever its cost, it adds nothing to the floor."""
    fitted = fit(KnownLoad(daily_jump()), methods=())

    assert {} == fitted.failures
    assert ("", "ConstantFloor") == (fitted.choice.candidate.method, fitted.model_name)
    assert (asked(fitted, RecentLoad(daily_jump()[-STEPS_PER_DAY:]), methods=()).replicas > 0).any()


BROKEN = {
    "fit raises": Odd(broken=("fit",)),
    "load raises": Odd(broken=("load",)),
    "distribution raises": Odd(broken=("distribution",)),
    "falling cdf": Odd(answer=odd_methods.falling_cdf),
    "NaN cdf": Odd(answer=odd_methods.unknown_cdf),
    "NaN loads": Odd(answer=odd_methods.half_known_load),
    "infinite loads": Odd(answer=odd_methods.infinite_load),
    "negative loads": Odd(answer=odd_methods.negative_load),
    "an origin too few": Odd(answer=odd_methods.one_origin_less),
    "no bins": Odd(answer=odd_methods.no_bins),
    "no axis for the variants": Odd(answer=odd_methods.no_variant),
    "no distribution": Odd(answer=odd_methods.no_distribution),
    "words": Odd(answer=odd_methods.words),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", BROKEN.values(), ids=BROKEN)
def test_a_method_that_fails_in_every_fit_is_not_chosen_and_costs_no_other(method):
    history = KnownLoad(daily_jump(3))

    alone, beside = (fit(history, methods=methods) for methods in (DEFAULT, (chosen(method), *DEFAULT)))

    assert (["Odd"], alone.choice) == (list(beside.failures), beside.choice)
    assert {"ErrorMixture"} == set(beside.models.methods)


@pytest.mark.parametrize("method", BROKEN.values(), ids=BROKEN)
def test_a_method_that_fails_after_it_was_chosen_costs_its_own_floors_alone(method):
    """The constant floor of the choice stays; the one that is worth its cost is gone."""
    history = KnownLoad(daily_jump(3))
    sound = with_candidate(
        msgspec.structs.replace(fit(history, methods=(chosen(Odd()),)), constants=(0, 1, 2, 3, 4, 5, 6, 7, 8)),
        Candidate("Odd", 0.012, 0.1),
    )
    state = Odd().fit(history.steps, steps_per_day=STEPS_PER_DAY, windows=(1, 2)).encode()
    sound = msgspec.structs.replace(sound, models=msgspec.structs.replace(sound.models, methods={"Odd": state}))
    load, attempt = RecentLoad(np.full(6, 30.0)), Attempts()

    floors_asked = asked(sound, load, methods=(chosen(method),), attempt=attempt)

    is_fit_alone = method.broken == ("fit",)
    assert ([] if is_fit_alone else ["Odd"]) == list(attempt.failures)
    assert is_fit_alone or np.unique(floors_asked.replicas).tolist() == [8]
    assert (floors_asked.load >= (8 - 1e-5) * 0.9).all()


@pytest.mark.parametrize(
    "method",
    [Odd(broken=("encode",)), Odd(encoded=lambda _state: "text"), Odd(encoded=lambda _state: None)],
    ids=["raises", "text", "nothing"],
)
def test_a_method_whose_fit_cannot_be_kept_costs_its_own_floors_alone(method):
    """What is kept goes to the store together with others': it must be bytes."""
    fitted = fit(KnownLoad(daily_jump(3)), methods=(chosen(method),))
    state = worker.encode_states({WEB.series: with_candidate(fitted, Candidate("Odd", 0.15, 0.1))})
    (back,) = msgspec.msgpack.decode(state, type=dict[str, FittedPolicy]).values()

    floors_asked = asked(back, RecentLoad(np.full(6, 30.0)), methods=(chosen(method),))

    assert ["Odd"] == list(fitted.failures)
    assert {} == back.models.methods
    assert not np.isnan(floors_asked.load).any()


@pytest.mark.parametrize("method", [Odd(broken=("decode",)), None], ids=["cannot be read", "uninstalled"])
def test_a_method_of_the_choice_that_is_gone_is_named_and_the_rest_of_its_floor_holds(method):
    fitted = with_candidate(fit(KnownLoad(daily_jump(3)), methods=(chosen(Odd()),)), Candidate("Odd", 0.15, 0.1))
    state = Odd().fit(daily_jump(3), steps_per_day=STEPS_PER_DAY, windows=(1, 2)).encode()
    fitted = msgspec.structs.replace(fitted, models=msgspec.structs.replace(fitted.models, methods={"Odd": state}))
    attempt = Attempts()

    floors_asked = asked(
        fitted, RecentLoad(np.full(6, 30.0)), methods=(chosen(method),) if method else (), attempt=attempt
    )

    assert ["Odd"] == list(attempt.failures)
    assert [fitted.constants[-1]] == np.unique(floors_asked.replicas).tolist()
    assert not np.isnan(floors_asked.load).any()
