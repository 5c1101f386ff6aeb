"""deploy/argocd/health.lua, run by a real Lua with the libraries that Argo CD gives it."""

from pathlib import Path

import lupa
import yaml
from msgspec.structs import replace

from core.situations import NO_METRICS, at, queued, reconciliation_of, seen, spec
from cronhpa.api.render import render
from cronhpa.core.decide import decide
from cronhpa.core.model.decision import Withheld
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import Mode
from cronhpa.core.schedules.conflicts import Conflict

FOLDER = Path(__file__).parents[2] / "deploy" / "argocd"
SCRIPT = (FOLDER / "health.lua").read_text()
GONE = replace(queued(0, current=8), scale=Absent("FailedGetScale", 'deployments.apps "shop" not found'))


def health(body):
    """Argo CD gives a script the base and the table library, and a few functions of os that this one does not use."""
    lua = lupa.LuaRuntime(register_eval=False, register_builtins=False)
    lua.execute("string, io, os, math, debug, package, require, coroutine, utf8 = nil")
    lua.globals().obj = lua.table_from(body, recursive=True)
    told = lua.execute(SCRIPT)
    return told["status"], told["message"]


def body(of=None, observation=None, *, generation=4, previous=None, **fields):
    of, observation = of or spec(), observation or queued(80, current=8)
    decision = decide(of, observation, None, Memory(), at("10:00"))
    memory = Memory().after(decision, Withheld(), of, observation)
    status = render(previous or {}, reconciliation_of(of, decision, Withheld(), memory, 4, **fields))
    return {"metadata": {"name": "shop", "generation": generation}, "status": status}


DECIDED = {"desiredReplicas": 8}


def test_an_object_that_is_decided_upon_is_healthy():
    assert ("Healthy", "decisions are made and acted on") == health(body())


def test_a_preview_is_healthy_and_says_that_it_scales_nothing():
    assert ("Healthy", "decisions are made and reported, nothing is scaled") == health(
        body(spec(mode=Mode.PREVIEW), owner_problem="HorizontalPodAutoscaler shop scales it too")
    )


def test_what_was_not_decided_yet_is_progressing():
    assert ("Progressing", "no operator has decided upon it yet") == health({"metadata": {"generation": 1}})
    assert "Progressing" == health({"metadata": {"generation": 1}, "status": {}})[0]
    assert ("Progressing", "the last edit has not been decided upon yet") == health(body(generation=5))


def test_a_target_and_metrics_may_come_after_the_object_but_not_go():
    blind = seen(NO_METRICS, current=8)

    assert ("Progressing", f"FailedGetResourceMetric: {NO_METRICS.message}") == health(body(observation=blind))
    assert ("Degraded", f"FailedGetResourceMetric: {NO_METRICS.message}") == health(
        body(observation=blind, previous=DECIDED)
    )
    assert "Progressing" == health(body(observation=GONE))[0]
    assert ("Degraded", 'TargetUnreachable: deployments.apps "shop" not found') == health(
        body(observation=GONE, previous=DECIDED)
    )


def test_another_owner_is_degraded_at_once():
    health_shown = health(body(owner_problem="HorizontalPodAutoscaler shop scales it too", previous={}))

    assert ("Degraded", "OtherOwner: HorizontalPodAutoscaler shop scales it too") == health_shown


def test_a_spec_that_cannot_be_read_is_degraded_at_once():
    """As `Writer.reject` writes it."""
    ready = {"type": "Ready", "status": "False", "reason": "Unreadable", "message": "x", "observedGeneration": 1}

    assert ("Degraded", "Unreadable: x") == health({"metadata": {"generation": 1}, "status": {"conditions": [ready]}})


def test_a_zero_by_hand_is_suspended():
    assert "Suspended" == health(body(observation=queued(0, current=0)))[0]


def test_a_contradiction_to_come_is_told_and_does_not_hold_up_a_sync():
    of = spec(schedules=())
    torn = Conflict("Contradiction", "a asks for 30, b for 20")
    manifest = body(of)
    manifest["status"]["conditions"].append(
        {"type": "BoundsConsistent", "status": "False", "reason": torn.reason, "message": str(torn)}
    )

    assert ("Healthy", str(torn)) == health(manifest)


def test_the_page_shows_yaml_that_can_be_read():
    blocks = (FOLDER / "README.md").read_text().split("```yaml\n")[1:]

    assert all(yaml.safe_load(block.partition("```")[0]) for block in blocks)
