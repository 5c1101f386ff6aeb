"""cronhpa.core.behavior, cronhpa.core.model.memory: nothing rises that nobody asks for, or no longer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import (
    BY_OVERRIDE,
    NO_METRICS,
    NOW,
    at,
    behavior,
    behaviors,
    event,
    floored,
    forecast,
    joined,
    queue,
    queued,
    recommended,
    reconciliation_of,
    rules,
    schedules,
    seen,
    spec,
)
from cronhpa.api.render import render
from cronhpa.api.status_memory import parse_memory
from cronhpa.core.behavior import Limits, normalize, resume, stabilize
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import BY_NOBODY, MetricProposal, Recommendation, Role, Rule, Scaled, Source, Withheld
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Memory, longest_window
from cronhpa.core.model.observation import PodCounts, ScalarReading
from cronhpa.core.model.spec import ControllerOptions, ForecastSettings, Mode, Override, PodsMetric
from cronhpa.operator.writes.written_status import StatusWrite, needed_between

OPTIONS = ControllerOptions()


def override(floor=None, cap=None):
    return Override(at("23:00"), "INC-4711", floor, cap)


def counts(current, *reconciliations):
    """
    The replicas after each reconciliation (clock, spec, queue, and a forecast where there is one), scaled as decided.
    """
    memory, path = Memory(), []
    for clock, of, load, *told in reconciliations:
        observation = queued(load, current=current)
        decision = decide(of, observation, told[0] if told else None, memory, at(clock))
        outcome = Scaled(at(clock)) if decision.rescales else Withheld()
        memory = memory.after(decision, outcome, of, observation)
        current = decision.desired
        path.append(current)
    return path


# --- the situations that were seen live --------------------------------------------------------------------------


def test_an_override_that_is_taken_back_is_not_pursued():
    """
    40 in the queue are 4 pods, and `override --min 9`: twice as many, 8. Taken back three seconds later the 8 are held
    for the window of 300 s, to the second in which the 9 were asked for last, and then 4 are enough.
    """
    asked, alone = spec(1, override=override(9)), spec(1)

    path = counts(4, ("10:00:00", asked, 40), ("10:00:03", alone, 40), ("10:05:00", alone, 40), ("10:05:01", alone, 40))

    assert [8, 8, 8, 4] == path


def test_five_hundred_typed_for_fifty_is_held_where_it_got_to():
    """60 pods of 1000: twice as many are 120. Replaced by 50 four seconds later it stays at 120, not 240."""
    typed, meant = spec(3, 1000, override=override(500)), spec(3, 1000, override=override(50))

    path = counts(60, ("10:00:00", typed, 300), ("10:00:04", meant, 300), ("10:05:00", meant, 300))

    assert [120, 120, 120] == path
    assert [120, 120, 50] == counts(60, ("10:00", typed, 300), ("10:00:04", meant, 300), ("10:05:01", meant, 300))


def test_what_an_override_asked_for_four_seconds_ago_is_held_at_the_current_count():
    """The unit of it: the metrics ask for 30, there are 60, and 500 were asked for: 60, where 120 were decided."""
    memory = floored(500, "09:59:56", metrics=30)

    number, steps = normalize(Recommendation(30, NOW, 30), 60, Limits(3, 120, timed=True), None, OPTIONS, memory)

    assert 60 == number
    assert [(Rule.SCALE_DOWN_STABILIZED, 30, 60)] == [(step.rule, step.before, step.after) for step in steps]


def test_a_forecast_that_abstains_is_not_pursued():
    """1300 of load at 50 a pod are 26; from 8 pods 16 are the rate. Then the forecast has nothing to say."""
    requests = PodsMetric("requests", queue(50).target)
    of = spec(1, metrics=(requests,), forecast=ForecastSettings())
    memory, current, path = Memory(), 8, []
    for clock, told in (("10:00:00", forecast(1300, metric="requests")), ("10:00:15", None), ("10:05:01", None)):
        observation = seen(NO_METRICS, current=current)
        decision = decide(of, observation, told, memory, at(clock))
        memory = memory.after(decision, Scaled(at(clock)), of, observation)
        current = decision.desired
        path.append(current)

    assert [16, 16, 16] == path


def test_the_floor_of_a_window_that_closes_is_held_and_not_pursued():
    """40 until 10:00; a count that a rate of four pods had brought to 24 by then stays for the window."""
    slow = behavior(up=rules(("Pods", 4, 15), window=0))
    of = spec(1, behavior=slow, schedules=(event("sale", "2026-11-23T09:00", "2026-11-23T10:00", floor=40),))

    path = counts(20, ("09:59:45", of, 50), ("10:00:00", of, 50), ("10:04:44", of, 50), ("10:04:45", of, 50))

    assert [24, 24, 24, 5] == path


def test_what_a_metric_asked_for_is_carried_as_upstream_also_beside_a_schedule():
    """50 asked for 15 s ago, and 5 now, as new pods have no metrics yet: without a behavior the 50 are pursued."""
    closed = event("past", "2025-11-23T09:00", "2025-11-23T10:00", floor=40)

    for of in (spec(), spec(schedules=(closed,)), spec(override=override(2))):
        assert [16, 32, 50] == counts(8, ("10:00:00", of, 500), ("10:00:15", of, 50), ("10:00:30", of, 50))


def test_what_metrics_asked_for_beside_a_larger_floor_is_carried_once_the_floor_is_gone():
    """The metric's 50 beside a floor of 60: withdrawn, the 50 are still the metric's."""
    of = spec(override=override(60))

    assert [16, 32, 50] == counts(8, ("10:00:00", of, 500), ("10:00:15", spec(), 50), ("10:00:30", spec(), 50))


def test_a_floor_that_lowers_nothing_leaves_no_trace():
    """A floor of 3 below the metric's 5: the memory has the metric's number, once."""
    of = spec(1, override=override(3))
    decision = decide(of, queued(50, current=5), None, Memory(), NOW)

    assert Recommendation(5, NOW, 5, decision.recommended.by) == decision.recommended
    assert "Metric/queue" == str(decision.recommended.by)


def test_both_numbers_are_remembered_with_who_asked_for_the_merged_one():
    floor, cap = (spec(1, override=override(*bounds)) for bounds in ((9, None), (None, 3)))

    asked = [decide(of, queued(50, current=5), None, Memory(), NOW).recommended for of in (floor, cap)]

    assert [Recommendation(9, NOW, 5, BY_OVERRIDE), Recommendation(3, NOW, 5, BY_OVERRIDE)] == asked


def test_a_count_that_no_metric_supports_has_no_number_of_the_metrics():
    """Nothing can be read; the floor of 9 is asked for, and the 5 that are there by nobody."""
    decision = decide(spec(1, override=override(9)), seen(NO_METRICS, current=5), None, Memory(), NOW)

    assert Recommendation(9, NOW, None, BY_OVERRIDE) == decision.recommended


# --- the count that was found at the start -----------------------------------------------------------------------


def test_the_count_found_at_the_start_is_pursued_as_upstream_by_an_object_of_metrics_alone():
    """Upstream seeds its recommendations with it: scaled to 3 by hand, it returns to 8 by its default rate."""
    memory = Memory().seeded(8, NOW - 10 * SECOND, bounded=False)

    assert 6 == decide(spec(), queued(30, current=3), None, memory, NOW).desired


def test_a_cap_that_is_taken_back_does_not_bring_back_the_count_found_at_the_start():
    """50 were found, `override --max 10` for ten seconds: nobody ever asked for 50, the metric asks for 5."""
    alone, capped = spec(1), spec(1, override=override(cap=10))

    assert [50, 10, 10] == counts(50, ("10:00:00", alone, 50), ("10:00:10", capped, 50), ("10:00:20", alone, 50))


# --- a new process -----------------------------------------------------------------------------------------------


def test_a_restart_raises_nothing():
    """9 were asked for by the metrics at some time before the restart; scaled to 4 by hand meanwhile, 4 remain."""
    resumed = recommended(9, "09:50").resumed(4, NOW)

    assert 4 == decide(spec(1), queued(30, current=4), None, resumed, NOW + SECOND).desired


def test_a_restart_holds_what_a_floor_asked_for():
    resumed = floored(9, "09:50", metrics=4).resumed(8, NOW)

    assert 8 == decide(spec(1), queued(30, current=8), None, resumed, NOW + 299 * SECOND).desired
    assert [BY_OVERRIDE, BY_OVERRIDE] == [recommendation.by for recommendation in resumed.recommendations]


def test_a_restart_holds_what_metrics_asked_for_above_a_cap():
    """Capped at 10 on the way down from 30, where the metrics ask for 50: held at 30 once the cap is gone."""
    calm = behavior(down=rules(("Pods", 1, 60), window=300 * SECOND))
    capped = Memory(recommendations=(Recommendation(10, at("09:50"), 50, BY_OVERRIDE),))

    for of in (None, calm):
        resumed = capped.resumed(30, NOW)
        assert 30 == decide(spec(1, behavior=of), queued(30, current=30), None, resumed, NOW + MINUTE).desired


def test_a_restart_keeps_back_a_rise_as_long_as_the_window_up_says():
    """5 were asked for until the old process ended; 20 now are a rise that a window of a minute keeps back."""
    calm = behavior(up=rules(("Pods", 100, 15), window=MINUTE))
    resumed = recommended(5, "09:50").resumed(5, NOW)

    after = [
        decide(spec(1, behavior=calm), queued(200, current=5), None, resumed, NOW + seconds * SECOND).desired
        for seconds in (59, 60)
    ]

    assert [5, 20] == after


# --- what must always hold ---------------------------------------------------------------------------------------

plain_specs = st.builds(
    lambda minimum, rise, of, given_forecast: spec(
        minimum,
        minimum + rise,
        metrics=(PodsMetric("requests", queue(10).target),) if given_forecast else (queue(10),),
        behavior=of,
        forecast=ForecastSettings(mode=given_forecast) if given_forecast else None,
    ),
    st.integers(1, 6),
    st.integers(1, 300),
    behaviors,
    st.sampled_from([None, None, Mode.ACTIVE, Mode.PREVIEW]),
)
some_overrides = st.none() | st.tuples(st.none() | st.integers(0, 300), st.none() | st.integers(0, 60)).map(
    lambda bounds: override(*bounds)
)
reconciliations = st.lists(
    st.fixed_dictionaries(
        {
            "seconds": st.sampled_from([1, 4, 15, 15, 15, 60, 200]),
            "load": st.none() | st.integers(0, 500),
            "override": some_overrides,
            "forecast": st.none() | st.integers(0, 3000),
            "kill": st.sampled_from([False, False, False, True]),
            "by_hand": st.none() | st.none() | st.integers(1, 80),
            "has_behavior": st.booleans(),
        }
    ),
    min_size=2,
    max_size=15,
)


def asked_by_sources(of, decision):
    """What any source asks for now: targets, floors that act, and the minimum."""
    return max(
        [
            decision.minimum,
            *(
                proposal.replicas
                for proposal in decision.proposals
                if proposal.role is not Role.CAP
                and (proposal.source is not Source.FORECAST or of.forecast.mode is Mode.ACTIVE)
            ),
        ]
    )


def measured(of, load, current):
    """The load on `current` pods, all of them Ready; nothing where there is no load or no pod."""
    if load is None or not (of.forecast is None or current):
        return NO_METRICS
    if of.forecast is None:
        return ScalarReading(load * 1000, 0)
    return PodCounts(current, 0, 0, current, current, load * 1000, 0, 0, 0, 0, load * 1000)


@given(plain_specs, st.lists(schedules(), max_size=2).map(tuple), reconciliations, st.integers(1, 60))
def test_while_nobody_asks_for_more_nothing_rises(of, some_schedules, some_reconciliations, current):
    """
    A life of any spec with overrides, forecasts and a behavior that come and go, metrics that fail, kills, and a person
    who scales: at a reconciliation at which no source asks for more than there is, and no metric did within the window,
    nothing rises.
    """
    of, now, memory, status = replace(of, schedules=some_schedules), NOW, Memory(), {}
    by_metrics, seed = [], None
    for reconciliation in some_reconciliations:
        now += reconciliation["seconds"] * SECOND
        acting = replace(
            of, override=reconciliation["override"], behavior=of.behavior if reconciliation["has_behavior"] else None
        )
        current = reconciliation["by_hand"] or current
        if reconciliation["kill"]:
            memory = resume(parse_memory(status), current, now, acting.behavior)
        observation = seen(measured(of, reconciliation["load"], current), current=current)
        told = (
            None
            if reconciliation["forecast"] is None
            else forecast(reconciliation["forecast"], metric="requests", start=now, issued_at=now)
        )
        decision = decide(acting, observation, told, memory, now)
        window = longest_window(acting.behavior, of.options)
        # As upstream the count that was found first is pursued, until a floor or a cap is in force.
        seed = None if decision.bounded else (now, current) if reconciliation is some_reconciliations[0] else seed
        numbers = [number for when, number in (*by_metrics, *([seed] if seed else ())) if when >= now - window]
        asked = max([asked_by_sources(acting, decision), *numbers])

        assert decision.desired <= max(current, asked)
        assert asked > current or decision.desired <= current

        by_metrics += [(now, metric.replicas) for metric in decision.metrics if isinstance(metric, MetricProposal)]
        outcome = Scaled(now) if decision.rescales else Withheld()
        memory = memory.after(decision, outcome, acting, observation)
        rendered = render(status, reconciliation_of(acting, decision, outcome, memory, generation=1))
        status = rendered if needed_between(status, rendered) is StatusWrite.STATUS else status
        current = decision.desired


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300), behaviors)
def test_the_merged_number_alone_never_decides_above_the_current_count(asked, current, floor, of):
    """The metrics ask for `asked`; nothing that only a floor asked for raises it."""
    memory = joined(floored(floor, "09:59:59", metrics=0), floored(floor, "09:59:58"))

    stable = stabilize(Recommendation(asked, NOW, asked), current, memory.recommendations, of, OPTIONS)

    assert stable <= max(current, asked)


def test_a_seed_that_is_held_stays_a_seed():
    held = Memory().seeded(8, NOW, bounded=True)

    assert (Recommendation(8, NOW, 8, BY_NOBODY, asked_at=NOW),) == held.recommendations
    assert held == held.seeded(9, NOW + SECOND, bounded=True)
