"""deploy/argocd/actions.yaml, run by a real Lua 5.1 with the libraries that Argo CD gives it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lupa import lua51

from cronhpa.api.written_spec import written_spec
from cronhpa.core.model.instant import SECOND, parse_instant

ACTIONS = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "argocd" / "actions.yaml").read_text())
BY_NAME = {definition["name"]: definition["action.lua"] for definition in ACTIONS["definitions"]}
NOW = 1_795_428_000  # 2026-11-23T10:00:00Z
UNTIL = {"until": "2026-11-23T18:00:00Z", "reason": "INC-4711"}


def runtime(body, now=NOW):
    """The base and the table library; `os` has the two functions that Argo CD leaves in it."""
    lua = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    lua.globals().now = now
    lua.execute(
        "local modules = {os = {time = function() return now end, date = function() error('a zone') end}}\n"
        "string, io, os, math, debug, package, coroutine = nil\n"
        "require = function(name) return modules[name] or error(name) end"
    )
    lua.globals().obj = lua.table_from(body, recursive=True)
    return lua


def plain(value):
    return {key: plain(child) for key, child in value.items()} if lua51.lua_type(value) == "table" else value


def body(current=4, **spec):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    metadata, status = {"name": "shop", "namespace": "prod"}, {} if current is None else {"currentReplicas": current}
    return {"metadata": metadata, "spec": {"scaleTargetRef": target, "maxReplicas": 9, **spec}, "status": status}


def offered(of):
    """The actions that can be chosen."""
    found = plain(runtime(of).execute(ACTIONS["discovery.lua"]))
    assert set(BY_NAME) == set(found)
    return {name for name, action in found.items() if not action["disabled"]}


def after(action, of, now=NOW):
    return plain(runtime(of, now).execute(BY_NAME[action]))


def test_an_action_is_offered_where_it_has_an_effect():
    assert {"double-for-an-hour"} == offered(body())
    assert {"double-for-an-hour", "clear-override"} == offered(body(override={"minReplicas": 3, **UNTIL}))
    assert set() == offered(body(current=0)) == offered(body(current=None)) == offered(body(current=9))


def test_it_asks_for_twice_the_replicas_for_an_hour_and_the_object_is_accepted():
    changed = after("double-for-an-hour", body(metrics=None, schedules=None, minReplicas=1))

    override = changed["spec"]["override"]
    assert {
        "minReplicas": 8,
        "until": "2026-11-23T11:00:00Z",
        "reason": "double-for-an-hour in Argo CD",
    } == override
    day = {"name": "day", "start": "@daily", "durationMinutes": 60, "minReplicas": 2}
    assert 8 == written_spec(body(schedules=[day], override=override)).override.floor


def test_it_asks_for_no_more_than_the_maximum():
    assert 9 == after("double-for-an-hour", body(current=7))["spec"]["override"]["minReplicas"]


@given(st.integers(0, 4_102_444_800))
def test_the_end_is_an_hour_away_on_every_day(now):
    """Of each second from 1970 to 2100."""
    until = after("double-for-an-hour", body(), now)["spec"]["override"]["until"]

    assert (now + 3600) * SECOND == parse_instant(until)


@pytest.mark.parametrize("day", ["2028-02-29", "2027-12-31", "2100-02-28"])
def test_the_end_of_a_day_is_followed_by_the_next_day(day):
    last = datetime.fromisoformat(f"{day}T23:30:00+00:00")
    until = after("double-for-an-hour", body(), int(last.timestamp()))["spec"]["override"]["until"]

    assert datetime.fromtimestamp(last.timestamp() + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") == until


def test_a_cleared_override_is_gone_and_nothing_else():
    given_body = body(override={"minReplicas": 3, **UNTIL})

    assert body() == after("clear-override", given_body)
