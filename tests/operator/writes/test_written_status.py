"""cronhpa.operator.writes.written_status: what a status says is known by its inputs, and no input is forgotten."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.situations import NOW, cpu, forecast, reconciliation_of, seen, spec
from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Failed, Lead, Withheld
from cronhpa.core.model.instant import MINUTE, SECOND
from cronhpa.core.model.memory import Intent, Memory
from cronhpa.core.model.observation import Absent, Crowd, NodeStart, Observation, PodCounts, Scale
from cronhpa.core.model.reconciliation import PlaceholderProblem, Reconciliation
from cronhpa.core.model.spec import ForecastSettings
from cronhpa.core.schedules.conflicts import Conflict
from cronhpa.operator.writes.written_status import StatusWrite, WrittenStatus, needed_between

PODS = PodCounts(5, 0, 0, 5, 5, 2500, 5000, 0, 0, 0, 2500)
SPEC = spec(metrics=(cpu(),), forecast=ForecastSettings())
SEEN = seen(PODS, current=5)
WHY = Absent("Gone", "it is not there")

# Another value of each field. Who adds a field adds a line, and learns here whether its change is written.
OF_RECONCILIATION = {
    "record": None,  # its parts are the observation and the memory
    "decision": None,  # made anew from them
    "memory": None,
    "generation": 2,
    "outcome": Failed("refused"),
    "owner_problem": "another object scales the target",
    "forecast": forecast(4.0, metric="cpu"),
    "budget_used": 7,
    "conflicts": (Conflict("Contradiction", "a floor above a cap"),),
    "zone": "Europe/Berlin",
    "contested": "kubectl sets the replicas back",
    "requests_changed": "a VerticalPodAutoscaler",
    "placeholder_problem": PlaceholderProblem("NoRoom", "there is no node"),
}
OF_OBSERVATION = {
    "scale": Scale(5, 6, "app=shop"),
    "readings": (replace(PODS, ready=6),),
    "selector_problem": WHY,
    "start_up": 40 * SECOND,
    "request_per_pod": {"cpu": 2000},
    "crowd": Crowd(NOW + MINUTE, 900, 9, 600),
    "node_start": NodeStart(90 * SECOND, NOW),
    "unseen": WHY,
}
OF_MEMORY = {
    # These change by what is recommended, by a scaling, or at the instant that `WrittenStatus.until` tells.
    "recommendations": None,
    "scale_ups": None,
    "scale_downs": None,
    "zero": True,
    "scheduled_zero": True,
    "start_up": 40 * SECOND,
    "node_start": NodeStart(90 * SECOND, NOW),
    "request_per_pod": {"cpu": 2000},
    "crowd": Crowd(NOW + MINUTE, 900, 9, 600),
    "intent": Intent(5, 6, NOW),
    "leads": (Lead("day", NOW + MINUTE, 40 * SECOND),),
    "replicas": 4,
    "unmeasured_since": NOW - MINUTE,
}


def reconciled(observation=SEEN, **fields):
    """A reconciliation a period after the same had been decided twice; its memory is that of after it."""
    memory = Memory()
    for period in range(3):
        decision = decide(SPEC, observation, None, memory, NOW + period * 15 * SECOND)
        memory = memory.after(decision, Withheld(), SPEC, observation)
    return reconciliation_of(SPEC, decision, Withheld(), memory, 1, observation, **fields)


def remembering(**fields):
    reconciliation = reconciled()
    return replace(reconciliation, memory=replace(reconciliation.memory, **fields))


CHANGES = [
    *((f"reconciliation.{name}", reconciled(**{name: value})) for name, value in OF_RECONCILIATION.items()
      if value is not None and name not in {"generation", "outcome"}),
    *((f"reconciliation.{name}", replace(reconciled(), **{name: OF_RECONCILIATION[name]}))
      for name in ("generation", "outcome")),
    *((f"observation.{name}", reconciled(replace(SEEN, **{name: value}))) for name, value in OF_OBSERVATION.items()),
    *((f"memory.{name}", remembering(**{name: value})) for name, value in OF_MEMORY.items()
      if value is not None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("of", "named"), [(Reconciliation, OF_RECONCILIATION), (Observation, OF_OBSERVATION), (Memory, OF_MEMORY)]
)
def test_every_field_that_a_status_may_show_has_another_value_here(of, named):
    assert {*of.__struct_fields__} == {*named}


def test_where_nothing_changed_nothing_is_written():
    reconciliation = reconciled()

    assert StatusWrite.NOTHING is WrittenStatus.of(b"", reconciliation).needed_for(reconciliation)


@pytest.mark.parametrize(("_name", "changed"), CHANGES, ids=[name for name, _ in CHANGES])
def test_what_would_change_the_status_is_never_taken_for_nothing(_name, changed):
    """
    Found: an input of the status that nobody had named among those that are compared passed every test, and was never
    written.
    """
    before = reconciled()
    was = render({}, before)

    rendered = needed_between(was, render(was, changed))

    assert StatusWrite.NOTHING is rendered or StatusWrite.NOTHING is not WrittenStatus.of(b"", before).needed_for(
        changed
    )
