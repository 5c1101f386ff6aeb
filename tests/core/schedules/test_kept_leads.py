"""cronhpa.core.schedules.bounds: a lead that has begun, and edits of the object."""

from __future__ import annotations

import pytest

from core.schedules.test_leads import bounds, day
from core.situations import at, behavior, rules, schedule, spec
from cronhpa.core.model.decision import Lead, WindowState
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.spec import Override
from cronhpa.core.schedules.bounds import resolve


def test_a_lead_that_an_edit_hides_goes_on_as_it_was_when_the_edit_is_taken_back():
    """
    Ten minutes were learnt for 08:00. An override of 50 outranks the window: nothing leads. Taken back at 07:55 the
    lead has begun, though pods that start in a second would be asked for at 07:58:30 alone.
    """
    begun = (Lead("day", at("08:00"), 10 * MINUTE),)
    hidden = bounds(
        day(), clock="07:54", start_up=SECOND, leads=begun, override=Override(at("09:00"), "INC-4711", floor=50)
    )
    shown = bounds(day(), clock="07:55", start_up=SECOND, leads=hidden.leads)

    assert (50, begun) == (hidden.minimum, hidden.leads)
    assert (WindowState.CLOSED, WindowState.LEADING) == (hidden.windows[0].state, shown.windows[0].state)
    assert (20, begun) == (shown.minimum, shown.leads)
    assert WindowState.CLOSED == bounds(day(), clock="07:55", start_up=SECOND).windows[0].state


@pytest.mark.parametrize(
    "edited",
    [
        {"maximum": 60},
        {"minimum": 3},
        {"minimum": 30},
        {"metrics": ()},
        {"behavior": behavior(up=rules(("Pods", 1000, 15)))},
        {"override": Override(at("09:00"), "INC-4711", floor=50)},
        {"schedules": (day(), schedule("other", "0 9 * * *", "0 10 * * *", floor=5))},
        {"schedules": (day(), schedule("broken", floor=5, problem="cannot be read"))},
    ],
)
def test_an_edit_that_leaves_the_schedule_alone_keeps_its_lead(edited):
    begun = (Lead("day", at("08:00"), 10 * MINUTE),)

    resolved = resolve(spec(**{"schedules": (day(),), **edited}), at("07:55"), SECOND, begun)

    assert begun == resolved.leads


def test_an_edit_of_the_schedule_itself_measures_its_lead_anew():
    begun = (Lead("day", at("08:00"), 10 * MINUTE),)

    for edited in (day(lead=MINUTE), day(suspend=True), schedule("day", "5 8 * * *", "0 18 * * *", floor=20)):
        assert () == resolve(spec(schedules=(edited,)), at("07:55"), SECOND, begun).leads
