"""A schedule with `endsAtOnce`: its pods go with its window, and what metrics asked for stays as long as ever."""

from msgspec.structs import replace

from core.situations import at, event, queued, schedule, spec
from core.test_withdrawn import counts
from cronhpa.api.status_memory import parse_memory, render_memory
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Recommendation, Rule, Scaled, Source, SourceRef
from cronhpa.core.model.memory import Memory

SALE = event("sale", "2026-11-23T09:00", "2026-11-23T10:00", floor=40)
# The count that is found in the first reconciliation is held for a window, as upstream.
LONG_AGO = ("09:50:00", 50)
ENDS = replace(SALE, ends_at_once=True)


def test_its_pods_go_with_its_window():
    """40 until 10:00, and a queue for 5: by default the 40 stay for five minutes after the last of them, of 9:59:45."""
    clock = (LONG_AGO, ("09:59:45", 50), ("10:00:00", 50), ("10:04:45", 50), ("10:04:46", 50))

    assert [40, 40, 40, 40, 5] == counts(40, *((time, spec(1, schedules=(SALE,)), load) for time, load in clock))
    assert [40, 40, 5, 5, 5] == counts(40, *((time, spec(1, schedules=(ENDS,)), load) for time, load in clock))


def test_what_metrics_asked_for_is_held_as_ever():
    """The queue asked for 30 a minute before the end: 30 stay until 10:04."""
    of = spec(1, schedules=(ENDS,))
    clock = (LONG_AGO, ("09:59:00", 300), ("09:59:45", 50), ("10:00:00", 50), ("10:03:59", 50), ("10:04:01", 50))

    assert [40, 40, 40, 30, 30, 5] == counts(40, *((time, of, load) for time, load in clock))


def test_the_floor_of_another_window_is_held_as_ever():
    """Of 40 and of 20 until 10:00, the 40 set the count while both were open: only the next window's own 20 is kept."""
    other = event("other", "2026-11-23T09:00", "2026-11-23T11:00", floor=20)
    of = spec(1, schedules=(ENDS, other))
    clock = (LONG_AGO, ("09:59:45", 50), ("10:00:00", 50), ("10:59:45", 50), ("11:00:00", 50), ("11:04:46", 50))

    assert [40, 40, 20, 20, 20, 5] == counts(40, *((time, of, load) for time, load in clock))


def test_it_scales_nothing_down_that_metrics_cannot_speak_for():
    """After the end the metric is not there: the count stays."""
    of = spec(1, schedules=(ENDS,))
    memory = Memory(recommendations=(Recommendation(40, at("09:59:45"), 5, SourceRef(Source.SCHEDULE, "sale")),))
    blind = replace(queued(50, current=40), readings=(blind_reading(),))

    assert 40 == decide(of, blind, None, memory, at("10:00:00")).desired


def blind_reading():
    from cronhpa.core.model.observation import Absent

    return Absent("FailedGetExternalMetric", "the adapter does not answer")


def test_a_restart_at_its_end_knows_who_asked():
    for name in ("sale", "Event/black-friday"):
        of = spec(1, schedules=(replace(ENDS, name=name),))
        old = Memory(recommendations=(Recommendation(5, at("09:50:00"), 5, SourceRef(Source.METRIC, "queue")),))
        before = decide(of, queued(50, current=40), None, old, at("09:59:45"))
        memory = old.after(before, Scaled(at("09:59:45")), of, queued(50, current=40))
        kept = parse_memory({"memory": render_memory(memory, 40)})
        resumed = kept.resumed(40, at("10:00:05"), at("10:00:00"))

        assert 5 == decide(of, queued(50, current=40), None, resumed, at("10:00:05")).desired


def test_a_step_that_is_held_names_who_asked_for_it_and_not_the_closed_window():
    of = spec(1, schedules=(ENDS,))
    memory = Memory(
        recommendations=(
            Recommendation(30, at("09:58:00"), 30, SourceRef(Source.METRIC, "queue")),
            Recommendation(40, at("09:59:45"), 5, SourceRef(Source.SCHEDULE, "sale")),
        )
    )

    (step,) = decide(of, queued(50, current=40), None, memory, at("10:00:00")).steps

    assert (Rule.SCALE_DOWN_STABILIZED, 30, "Metric/queue") == (step.rule, step.cause.asked, str(step.cause.by))


def test_a_window_that_opens_again_at_once_keeps_its_pods():
    day = schedule("day", "0 9 * * *", "0 10 * * *", floor=40, ends_at_once=True)
    again = schedule("again", "0 10 * * *", "0 11 * * *", floor=40, ends_at_once=True)
    of = spec(1, schedules=(day, again))

    assert [40, 40] == counts(40, ("09:59:45", of, 50), ("10:00:00", of, 50))
