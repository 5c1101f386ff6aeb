"""cronhpa.api.transitions, cronhpa.api.range_text: each change between two statuses is one event, with its effect."""

from msgspec.structs import replace

from core.situations import NO_METRICS, at, exactly, forecast, queued, reconciliation_of, schedule, seen, spec
from cronhpa.api.events import Event
from cronhpa.api.render import render
from cronhpa.api.transitions import transition_events
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Scaled, Withheld
from cronhpa.core.model.forecast import TrackRecord
from cronhpa.core.model.instant import MINUTE
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import Fallback, ForecastSettings, MetricTarget, Override, PodsMetric

GONE = replace(queued(0, current=8), scale=Absent("FailedGetScale", 'deployments.apps "shop" not found'))


class Life:
    """One object through time: `reconciliation` gives the events of the statuses before and after it."""

    def __init__(self, zone="UTC"):
        self.status, self.memory, self.zone, self.last = {}, Memory(), zone, []

    def reconcile(self, of, observation, clock, told=None):
        decision = decide(of, observation, told, self.memory, at(clock))
        outcome = Scaled(at(clock)) if decision.rescales else Withheld()
        self.memory = self.memory.after(decision, outcome, of, observation)
        before = self.status
        self.status = render(
            before, reconciliation_of(of, decision, outcome, self.memory, 4, forecast=told, zone=self.zone)
        )
        return list(transition_events(before, self.status, self.zone, at(clock)))


def test_replicas_that_somebody_sets_back_are_told_once():
    """The condition stays for as long as it is so; a restart finds it in the status."""
    of, load = spec(), queued(80, current=8)
    calm, contested, still = (
        render(
            {},
            reconciliation_of(of, decide(of, load, None, Memory(), at(clock)), Withheld(), Memory(), 4, contested=who),
        )
        for clock, who in (("10:00", ""), ("10:01", "argocd sets 2"), ("10:02", "argocd sets 2"))
    )

    told = [list(transition_events(*pair, "UTC", at("10:02"))) for pair in ((calm, contested), (contested, still))]
    assert [[Event("Warning", "ReplicasContested", "argocd sets 2")], []] == told


DAY = spec(schedules=(schedule("day", floor=20, cap=80, lead=0),))


def test_a_window_that_opens_and_closes_is_told_with_what_it_did():
    """2 to 120 by the spec, 20 to 80 from 08:00 to 18:00; a queue of 80 needs 8."""
    life = Life("Europe/Berlin")

    assert [] == life.reconcile(DAY, queued(80, current=8), "07:59:45")
    opened = life.reconcile(DAY, queued(80, current=8), "08:00")
    assert [] == life.reconcile(DAY, queued(80, current=16), "08:00:15")
    closed = life.reconcile(DAY, queued(80, current=20), "18:00")
    assert [] == life.reconcile(DAY, queued(80, current=20), "18:00:15")

    assert [
        Event(
            "Normal",
            "WindowOpened",
            "8 -> 16: day open until Mon 19:00 +01:00; 20 to 80 allowed, 2 to 120 before",
        )
    ] == opened
    assert [
        Event(
            "Normal",
            "WindowClosed",
            "20 -> 8: day closed; 2 to 120 allowed, 20 to 80 before",
        )
    ] == closed


def test_a_lead_is_not_the_window():
    """Asked for ten minutes ahead: when it opens, the bounds are those of its lead, but for the cap."""
    of = spec(schedules=(schedule("day", floor=20, lead=600 * 10**9),))
    life = Life()

    assert [] == life.reconcile(of, queued(80, current=8), "07:45") + life.reconcile(of, queued(80, current=8), "07:50")
    (opened,) = life.reconcile(of, queued(80, current=20), "08:00")
    assert "20 replicas: day open until Mon 18:00 +00:00; 20 to 120 allowed" == opened.message


def test_a_window_that_an_edit_ends_says_so():
    life = Life()
    life.reconcile(DAY, queued(80, current=20), "10:00")
    suspended = life.reconcile(
        replace(DAY, schedules=(replace(DAY.schedules[0], suspend=True),)), queued(80, current=20), "10:01"
    )
    life.reconcile(DAY, queued(80, current=20), "10:02")
    removed = life.reconcile(spec(), queued(80, current=20), "10:03")

    assert ["WindowClosed", "WindowClosed"] == [event.reason for event in (*suspended, *removed)]
    assert suspended[0].message.endswith(": day suspended; 2 to 120 allowed, 20 to 80 before")
    assert removed[0].message.endswith(": day no longer in the spec; 2 to 120 allowed, 20 to 80 before")


def test_a_window_that_cannot_be_read_any_more_neither_opened_nor_closed():
    life = Life()
    life.reconcile(DAY, queued(80, current=20), "10:00")
    broken = replace(DAY, schedules=(replace(DAY.schedules[0], problem="start: what?"),))

    assert [] == life.reconcile(broken, queued(80, current=20), "10:01")


def test_a_zero_by_night_is_told_as_exactly_that():
    night = spec(schedules=(exactly("night", 0, lead=0),))
    life = Life()
    life.reconcile(night, queued(80, current=8), "07:00")

    assert "8 -> 0: night open until Mon 18:00 +00:00; exactly 0 allowed, 2 to 120 before" == (
        life.reconcile(night, queued(80, current=8), "08:00")[0].message
    )


def test_an_override_is_told_when_it_is_set_replaced_and_over():
    life = Life()
    first = Override(at("12:00"), "INC-4711", 30, None)
    life.reconcile(spec(), queued(80, current=8), "09:00")

    set_ = life.reconcile(spec(override=first), queued(80, current=8), "10:00")
    again = life.reconcile(spec(override=first), queued(80, current=8), "10:01")
    changed = life.reconcile(spec(override=replace(first, floor=40)), queued(80, current=8), "10:02")
    over = life.reconcile(spec(override=replace(first, floor=40)), queued(80, current=8), "12:00")

    assert [] == again
    assert ["OverrideSet", "OverrideSet", "OverrideEnded"] == [event.reason for event in (*set_, *changed, *over)]
    assert "8 -> 16: override until Mon 12:00 +00:00; 30 to 120 allowed, 2 to 120 before" == set_[0].message
    assert changed[0].message.endswith(
        ": override replaced, until Mon 12:00 +00:00; 40 to 120 allowed, 30 to 120 before"
    )
    assert over[0].message.endswith(": override over; 2 to 120 allowed, 40 to 120 before")


def test_an_override_that_is_withdrawn_was_taken_back():
    life = Life()
    life.reconcile(spec(override=Override(at("12:00"), "x", None, 5)), queued(80, current=8), "10:00")

    (ended,) = life.reconcile(spec(), queued(80, current=5), "10:01")
    assert "5 -> 8: override taken back before Mon 12:00 +00:00; 2 to 120 allowed, 2 to 5 before" == ended.message


def test_a_forecast_that_begins_and_ceases_to_act_is_told():
    requests = PodsMetric("requests", MetricTarget("AverageValue", average_value=50_000))
    of = spec(metrics=(requests,), forecast=ForecastSettings())
    told = forecast(1255, metric="requests")
    blind = seen(NO_METRICS, current=26)
    life = Life()

    learning = life.reconcile(of, blind, "10:00")
    on = life.reconcile(of, blind, "10:00", told)
    same = life.reconcile(of, blind, "10:00:15", told)
    jump = life.reconcile(replace(of, max_replicas=5), blind, "10:00:30", told)
    back = life.reconcile(of, blind, "10:00:45", told)
    life.reconcile(of, blind, "10:01", told)
    off = life.reconcile(of, blind, "10:01:15", replace(told, coverage_percent=10))

    # That the count is above maxReplicas says nothing of the forecast.
    assert [] == learning + same + jump + back
    assert ["ForecastOn", "ForecastOff"] == [event.reason for event in (*on, *off)]
    assert on[0].message.startswith("a load of 1255 or more from ")
    assert off[0].message.startswith("CoverageLost: ")
    life.reconcile(of, blind, "10:01:30", told)
    assert ["no longer in the spec"] == [
        event.message for event in life.reconcile(spec(metrics=(requests,)), blind, "10:02")
    ]


def test_a_forecast_that_was_tried_tells_its_worth_in_one_line():
    """What it asks for is in the condition: the event had 190 characters."""
    requests = PodsMetric("requests", MetricTarget("AverageValue", average_value=50_000))
    of, blind = spec(metrics=(requests,), forecast=ForecastSettings()), seen(NO_METRICS, current=26)
    life = Life()
    life.reconcile(of, blind, "10:00")

    told = forecast(1255, metric="requests", track_record=TrackRecord(412.0, 537.0, 2.8, 7))
    (on,) = life.reconcile(of, blind, "10:00:15", told)

    assert "412 of 537 under-provisioned minutes avoided at +2.8 % pod-hours over 7 days" == on.message


def test_a_target_that_is_lost_and_found_is_told_once_each():
    life = Life()

    never_seen = life.reconcile(spec(), GONE, "09:59")
    there = life.reconcile(spec(), queued(80, current=8), "10:00")
    lost = life.reconcile(spec(), GONE, "10:01")
    still = life.reconcile(spec(), GONE, "10:02")
    reconciliation_events = life.reconcile(spec(), queued(80, current=8), "10:03")

    assert [] == never_seen + still
    assert [Event("Normal", "TargetFound", "8 replicas: Deployment/shop is there")] == there == reconciliation_events
    assert [
        Event(
            "Warning",
            "TargetLost",
            'Deployment/shop cannot be read, nothing is scaled: deployments.apps "shop" not found',
        )
    ] == lost


def test_a_plain_object_has_no_events_of_ours():
    """Without schedules, override and forecast the events are the upstream's."""
    life = Life()

    assert [] == [
        event for clock in ("10:00", "10:01") for event in life.reconcile(spec(), queued(300, current=8), clock)
    ]


def test_a_fallback_that_begins_and_ends_is_told_once():
    """The queue is unknown from 10:00 on; the fallback of 10 waits a minute."""
    of, gone = spec(fallback=Fallback(10, MINUTE)), seen(NO_METRICS, current=10)
    life = Life()

    assert [] == life.reconcile(of, queued(80, current=10), "09:59")
    assert [] == life.reconcile(of, gone, "10:00")
    (on,) = life.reconcile(of, gone, "10:01")
    assert [] == life.reconcile(of, gone, "10:02")
    (off,) = life.reconcile(of, queued(80, current=10), "10:03")

    assert ("Warning", "FallbackOn") == (on.type, on.reason)
    assert "at least 10 are kept: not all metrics are known since 10:00 +00:00, for 60 s or more" == on.message
    assert Event("Normal", "FallbackOff", "no metric is asked for that is unknown") == off


def test_a_fallback_that_is_taken_out_of_the_spec_ends():
    of, gone = spec(fallback=Fallback(10, 0)), seen(NO_METRICS, current=10)
    life = Life()
    life.reconcile(of, gone, "10:00")

    assert [Event("Normal", "FallbackOff", "no longer in the spec")] == life.reconcile(spec(), gone, "10:01")
