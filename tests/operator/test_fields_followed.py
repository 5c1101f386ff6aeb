"""Each field of a spec is set, changed and unset while the operator runs, and what it decides follows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import pytest
from copied import copied
from lives import CPU, Life, condition, cronhpa, deployment, status, until
from model_api import ModelApi
from pydantic import BaseModel
from virtual_time import live

from core.situations import forecast
from cronhpa.api.schema import CronHPASpec
from cronhpa.core.model.calendar import Calendar, CalendarEvent
from cronhpa.operator.writes.placeholder_settings import PlaceholderSettings

# The model begins on Friday, 15 January 2027, at 07:00 UTC. 50 % of one core a pod: 1500 millicores need three pods.
STAGE_SECONDS = 100
ABSENT = "(absent)"
AT_ONCE = {
    "scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]},
    "scaleDown": {"stabilizationWindowSeconds": 0},
}
# Open from 06:00 to 08:00.
MORNING = {"name": "morning", "start": "0 6 * * *", "durationMinutes": 120, "minReplicas": 4, "leadTimeSeconds": 0}
EVENT = {"name": "sale", "from": "2027-01-15T06:00", "to": "2027-01-15T08:00", "minReplicas": 4, "leadTimeSeconds": 0}
OVERRIDE = {"replicas": 5, "until": "2027-01-16T07:00:00Z", "reason": "INC-1"}
QUEUE = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
OWN = "operator"
CALENDARS = {
    "shops": Calendar("shops", (
        CalendarEvent("Sale", "2027-01-15T06:00", "2027-01-15T08:00", floor=7),
        CalendarEvent("Fair", "2027-01-15T06:30", "2027-01-15T08:00"),
        CalendarEvent("Late", "2027-01-15T08:00", "2027-01-15T09:00"),
    )),
    "days": Calendar("days", (CalendarEvent("Closed", "2027-01-15T00:00", "2027-01-16T00:00"),)),
    "other": Calendar("other", (CalendarEvent("Closed", "2027-01-16T00:00", "2027-01-17T00:00"),)),
}  # fmt: skip
SALES = {"calendar": "shops", "matching": "Sale", "minReplicas": 4, "leadTimeSeconds": 0}


class Stage(NamedTuple):
    """A value of the field, the load in millicores, how long is the queue, and what follows from them."""

    value: Any
    expected: Any
    load: int | None = None
    queue: int | None = None


class Field(NamedTuple):
    """base: the spec around the field. load: of stages that name none. see: what is looked at, replicas without it."""

    stages: tuple[Stage, ...]
    base: dict[str, Any]
    load: int = 100
    replicas: int = 1
    see: str = "replicas"
    start_up: float | None = None
    sample_age: int = 0
    seconds: int = STAGE_SECONDS


def set_at(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The spec with a value at a path, or without one; it is changed in place."""
    last = path.rsplit(".", maxsplit=1)[-1]
    at: Any = spec
    for name, after in pairwise(path.split(".")):
        at = at[int(name)] if isinstance(at, list) else at.setdefault(name, [{}] if after.isdigit() else {})
    if isinstance(at, list):
        at[int(last)] = value
    elif value == ABSENT:
        at.pop(last, None)
    else:
        at[last] = value
    return spec


def difference(before: Any, after: Any) -> dict[str, Any]:
    """The merge patch from one object to another."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if old != value:
            patch[key] = difference(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch


def field(*stages: tuple[Any, ...], **how: Any) -> Field:
    base = {"maxReplicas": 30, "behavior": AT_ONCE, **how.pop("base", {})}
    return Field(tuple(Stage(*stage) for stage in stages), base, **how)


def bounds(of: str, base: dict[str, Any]) -> dict[str, Field]:
    """The bounds that a schedule, an override or a source of schedules may state; `of` is its path."""

    def beside(**stated: Any) -> dict[str, Any]:
        return set_at({}, of, {key: value for key, value in (base | stated).items() if value is not None})

    one, none = beside(minReplicas=1, replicas=None), beside(minReplicas=None, replicas=None, maxReplicas=20)
    return {
        f"{of}.minReplicas": field((ABSENT, 1), (4, 4), (6, 6), (ABSENT, 1), base=none),
        f"{of}.maxReplicas": field((ABSENT, 9), (5, 5), (7, 7), (ABSENT, 9), base=one, load=4500),
        f"{of}.replicas": field((5, 5), (2, 2), (5, 5), base=beside(minReplicas=None, replicas=5), load=1500),
    }


UP, DOWN = "behavior.scaleUp", "behavior.scaleDown"
ONE, THREE = ({"type": "Pods", "value": pods, "periodSeconds": 1800} for pods in (1, 3))
HALF = {"type": "Percent", "value": 50, "periodSeconds": 1800}
LATE = {**MORNING, "start": "0 8 * * *"}
THIS_DAY, OTHER_DAY = ({"from": day, "to": day} for day in ("2027-01-15", "2027-01-16"))

FIELDS = {
    "minReplicas": field((ABSENT, 1), (4, 4), (2, 2), (ABSENT, 1)),
    "maxReplicas": field((10, 9), (6, 6), (8, 8), (10, 9), load=4500),
    "metrics": field(
        (ABSENT, 2), ([CPU], 3), ([QUEUE], 7, None, 70), ([CPU, QUEUE], 5, None, 50), ([CPU], 3), (ABSENT, 2),
        base={"schedules": [{**MORNING, "minReplicas": 2}]}, load=1500,
    ),
    # 07:00 UTC are 16:00 in Tokyo and 12:30 in Kolkata.
    "timeZone": field(
        (ABSENT, 1), ("Asia/Tokyo", 5), ("Asia/Kolkata", 7), (ABSENT, 1),
        base={"schedules": [
            {**MORNING, "start": "0 16 * * *", "minReplicas": 5},
            {**MORNING, "name": "noon", "start": "0 12 * * *", "minReplicas": 7, "durationMinutes": 60},
        ]},
    ),
    "schedules": field((ABSENT, 1), ([MORNING], 4), ([{**MORNING, "minReplicas": 6}], 6), (ABSENT, 1)),
    "schedules.0.name": field(
        ("morning", "Schedule/morning"), ("early", "Schedule/early"), ("morning", "Schedule/morning"),
        base={"schedules": [MORNING]}, see="decided by",
    ),
    "schedules.0.start": field(
        ("0 6 * * *", 4), ("0 8 * * *", 1), ("30 6 * * *", 4), base={"schedules": [MORNING]},
    ),
    "schedules.0.end": field(
        ("0 8 * * *", 4), ("30 6 * * *", 1), ("0 9 * * *", 4),
        base={"schedules": [{key: value for key, value in MORNING.items() if key != "durationMinutes"}]},
    ),
    "schedules.0.durationMinutes": field((120, 4), (30, 1), (90, 4), base={"schedules": [MORNING]}),
    "schedules.0.from": field(
        ("2027-01-15T06:00", 4), ("2027-01-15T07:30", 1), ("2027-01-15T06:30", 4), base={"schedules": [EVENT]},
    ),
    "schedules.0.to": field(
        ("2027-01-15T08:00", 4), ("2027-01-15T06:30", 1), ("2027-01-15T09:00", 4), base={"schedules": [EVENT]},
    ),
    "schedules.0.timeZone": field(
        (ABSENT, 4), ("Asia/Tokyo", 1), ("Europe/London", 4), (ABSENT, 4), base={"schedules": [MORNING]},
    ),
    **bounds("schedules.0", MORNING),
    "schedules.0.headroomPercent": field(
        (ABSENT, 3), (100, 6), (200, 9), (ABSENT, 3), base={"schedules": [{**MORNING, "minReplicas": 1}]}, load=1500,
    ),
    "schedules.0.priority": field(
        (ABSENT, 6), (5, 4), (-5, 6), (ABSENT, 6),
        base={"schedules": [MORNING, {**MORNING, "name": "more", "minReplicas": 6}]},
    ),
    # It opens an hour after the life began.
    "schedules.0.leadTimeSeconds": field(
        (ABSENT, 1), (3600, 4), (600, 1), (ABSENT, 1), base={"schedules": [LATE]},
    ),
    "schedules.0.exclude": field(
        (ABSENT, 4), ({"dates": [THIS_DAY]}, 1), ({"dates": [OTHER_DAY]}, 4), ({"holidays": [{"country": "MW"}]}, 1),
        ({"holidays": [{"country": "DE"}]}, 4), ({"calendars": ["days"]}, 1), ({"calendars": ["other"]}, 4),
        ({"dates": [THIS_DAY]}, 1), (ABSENT, 4), base={"schedules": [MORNING]},
    ),
    "schedules.0.only": field(
        (ABSENT, 4), ({"dates": [OTHER_DAY]}, 1), ({"dates": [THIS_DAY]}, 4), ({"holidays": [{"country": "DE"}]}, 1),
        ({"holidays": [{"country": "MW"}]}, 4), ({"calendars": ["other"]}, 1), ({"calendars": ["days"]}, 4),
        ({"dates": [OTHER_DAY]}, 1), (ABSENT, 4), base={"schedules": [MORNING]},
    ),
    # Each five minutes it is open for two; three minutes later the pods of its floor are gone, or stabilized.
    "schedules.0.endsAtOnce": field(
        (ABSENT, 4), (True, 1), (False, 4), (ABSENT, 4),
        base={"schedules": [{**MORNING, "start": "*/5 * * * *", "durationMinutes": 2}], "behavior": None}, seconds=300,
    ),
    "schedules.0.suspend": field((ABSENT, 4), (True, 1), (False, 4), (ABSENT, 4), base={"schedules": [MORNING]}),
    "override": field((ABSENT, 3), (OVERRIDE, 5), ({**OVERRIDE, "replicas": 2}, 2), (ABSENT, 3), load=1500),
    **bounds("override", OVERRIDE),
    "override.until": field(
        ("2027-01-16T07:00:00Z", 5), ("2027-01-15T06:00:00Z", 3), ("2027-01-15T08:00:00Z", 5),
        base={"override": OVERRIDE}, load=1500,
    ),
    "schedulesFrom": field((ABSENT, 1), ([SALES], 4), ([{**SALES, "minReplicas": 6}], 6), (ABSENT, 1)),
    "schedulesFrom.0.calendar": field(
        ("shops", 4), ("days", 1), ("shops", 4), base={"schedulesFrom": [SALES]},
    ),
    "schedulesFrom.0.matching": field(
        ("Sale", "Sale"), ("Fair", "Fair"), ("*", "Fair Late Sale"), (ABSENT, "Fair Late Sale"), ("Sale", "Sale"),
        base={"schedulesFrom": [SALES]}, see="titles",
    ),
    **bounds("schedulesFrom.0", SALES),
    "schedulesFrom.0.headroomPercent": field(
        (ABSENT, 3), (100, 6), (200, 9), (ABSENT, 3), base={"schedulesFrom": [{**SALES, "minReplicas": 1}]}, load=1500,
    ),
    "schedulesFrom.0.boundsFromEvent": field(
        (ABSENT, 4), (True, 7), (False, 4), (ABSENT, 4), base={"schedulesFrom": [SALES]},
    ),
    # Of equal priority, what happens once ranks above what recurs.
    "schedulesFrom.0.priority": field(
        (ABSENT, 4), (-5, 6), (5, 4), (-5, 6), (ABSENT, 4),
        base={"schedulesFrom": [SALES], "schedules": [{**MORNING, "minReplicas": 6}]},
    ),
    "schedulesFrom.0.leadTimeSeconds": field(
        (ABSENT, 1), (3600, 4), (600, 1), (ABSENT, 1), base={"schedulesFrom": [{**SALES, "matching": "Late"}]},
    ),
    "schedulesFrom.0.suspend": field((ABSENT, 4), (True, 1), (False, 4), (ABSENT, 4), base={"schedulesFrom": [SALES]}),
    # Of 3.5 cores, where a pod can carry 0.9 of its one core: four pods.
    "forecast": field((ABSENT, 1), ({}, 4), ({"maxFloorReplicas": 3}, 3), (ABSENT, 1)),
    "forecast.mode": field((ABSENT, 4), ("Preview", 1), ("Active", 4), (ABSENT, 4), base={"forecast": {}}),
    # 3.5 cores over 0.5 a pod, and over twice as much.
    "forecast.podCapacityPercent": field(
        (ABSENT, 4), (100, 7), (200, 4), (ABSENT, 4), base={"forecast": {}},
    ),
    "forecast.maxFloorReplicas": field((ABSENT, 4), (2, 2), (3, 3), (ABSENT, 4), base={"forecast": {}}),
    "mode": field((ABSENT, 3, 1500), ("Preview", 3, 2500), ("Active", 7, 3500), (ABSENT, 2, 1000)),
    "behavior": field(
        (ABSENT, 9, 4500), (AT_ONCE, 1, 500), ({"scaleDown": {"selectPolicy": "Disabled"}}, 9, 4500),
        ({"scaleDown": {"selectPolicy": "Disabled"}}, 9, 500), (AT_ONCE, 1, 500),
        base={"behavior": None},
    ),
    # Within half an hour one pod; a second one by a policy of two; then as many as are asked for.
    f"{UP}.policies": field(
        (ABSENT, 3, 1500), ([ONE], 4, 4500), ([{**ONE, "value": 2}], 5, 4500), (ABSENT, 9, 4500),
        base={"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}, replicas=3,
    ),
    f"{UP}.selectPolicy": field(
        (ABSENT, 1, 500), ("Disabled", 1, 2500), ("Min", 2, 2500), ("Max", 4, 2500), (ABSENT, 4, 2500),
        base={"behavior": {"scaleUp": {"policies": [ONE, THREE]}}},
    ),
    f"{UP}.stabilizationWindowSeconds": field((ABSENT, 1, 500), (3600, 1, 2500), (0, 5, 2500), (ABSENT, 9, 4500)),
    # 52 % and then 60 % of 50 %.
    f"{UP}.tolerance": field(
        (ABSENT, 3, 1500), (ABSENT, 3, 1560), ("0.01", 4, 1560), ("0.5", 4, 2400), (ABSENT, 5, 2400),
    ),
    f"{DOWN}.policies": field(
        (ABSENT, 9, 4500), ([ONE], 8, 500), ([THREE], 6, 500), ([HALF], 4, 500), (ABSENT, 1, 500), replicas=9,
    ),
    f"{DOWN}.selectPolicy": field(
        (ABSENT, 9, 4500), ("Disabled", 9, 500), ("Min", 8, 500), ("Max", 6, 500), (ABSENT, 6, 500),
        base={
            "behavior": {**AT_ONCE, "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [ONE, THREE]}}
        }, replicas=9,
    ),
    f"{DOWN}.stabilizationWindowSeconds": field(
        (ABSENT, 9, 4500), (3600, 9, 500), (0, 1, 500), (0, 9, 4500), (ABSENT, 9, 500),
        base={"behavior": {"scaleUp": AT_ONCE["scaleUp"]}},
    ),
    # 46.5 % of 50 % for twenty pods, then 32 % for nineteen.
    f"{DOWN}.tolerance": field(
        (ABSENT, 20, 10_000), (ABSENT, 20, 9300), ("0.01", 19, 9300), ("0.5", 19, 6000), (ABSENT, 12, 6000),
    ),
    "fallback": field(
        (ABSENT, 3, None, 30), (ABSENT, 3), ({"replicas": 5, "afterSeconds": 0}, 5),
        ({"replicas": 7, "afterSeconds": 0}, 7), (ABSENT, 7), (ABSENT, 3, None, 30), base={"metrics": [QUEUE]},
    ),
    "fallback.replicas": field(
        (4, 3, None, 30), (4, 4), (6, 6), (4, 6), (4, 3, None, 30),
        base={"metrics": [QUEUE], "fallback": {"replicas": 4, "afterSeconds": 0}},
    ),
    # Unknown from 100 s on: at 200 s not for 300 s yet, but for 30; at 500 s for 300 s again.
    "fallback.afterSeconds": field(
        (ABSENT, 3, None, 30), (ABSENT, 3), (30, 5), (ABSENT, 5), (30, 3, None, 30), (ABSENT, 3), (ABSENT, 3),
        (ABSENT, 3), (ABSENT, 5), base={"metrics": [QUEUE], "fallback": {"replicas": 5}},
    ),
    # Ten pods more at 07:20 and a lead of none: room for them from 300 s before on, or from as early as stated.
    "placeholders": field(
        (ABSENT, 0), ({"maxReplicas": 4, "nodeStartupSeconds": 1800}, 4),
        ({"maxReplicas": 6, "nodeStartupSeconds": 1800}, 6), (ABSENT, 0),
        base={"schedules": [{**MORNING, "start": "20 7 * * *", "minReplicas": 11}]}, see="placeholders",
    ),
    "placeholders.maxReplicas": field(
        (4, 4), (6, 6), (0, 0), (4, 4), see="placeholders",
        base={
            "schedules": [{**MORNING, "start": "20 7 * * *", "minReplicas": 11}],
            "placeholders": {"maxReplicas": 4, "nodeStartupSeconds": 1800},
        },
    ),
    "placeholders.nodeStartupSeconds": field(
        (ABSENT, 0), (1800, 10), (600, 0), (ABSENT, 0), see="placeholders",
        base={
            "schedules": [{**MORNING, "start": "20 7 * * *", "minReplicas": 11}], "placeholders": {"maxReplicas": 20},
        },
    ),
    # In 300 s.
    "syncPeriodSeconds": field((ABSENT, 20), (5, 60), (60, 5), (ABSENT, 20), see="metric reads", seconds=300),
    # Pods that are never ready, and whose readiness has never changed.
    "cpuInitializationPeriodSeconds": field(
        (ABSENT, 2, 1500), (10, 3, 1500), (3000, 3, 4500), (10, 9, 4500), (ABSENT, 9, 9000),
        base={"initialReadinessDelaySeconds": 0}, replicas=2, start_up=1e6,
    ),
    "initialReadinessDelaySeconds": field(
        (ABSENT, 2, 1500), (0, 3, 1500), (20, 3, 4500), (0, 9, 4500), (ABSENT, 9, 500),
        base={"cpuInitializationPeriodSeconds": 0}, replicas=2, start_up=1e6,
    ),
    "metricMaxAgeSeconds": field(
        (ABSENT, 3, 1500), (30, 3, 4500), (90, 9, 4500), (30, 9, 500), (ABSENT, 1, 500), sample_age=60,
    ),
    # No pod of the model has an owner.
    "podSelection": field((ABSENT, 3, 1500), ("Owned", 3, 4500), ("All", 9, 4500), ("Owned", 9, 500), (ABSENT, 1, 500)),
}  # fmt: skip

# What is set, changed and unset elsewhere, or as a part of a list that is one value.
ELSEWHERE = {
    "scaleTargetRef": "test_another_target_is_scaled_from_the_edit_on",
    "metrics": "each of them is read anew at each reconciliation: cluster/test_differential",
    "schedules.exclude": "a value of `exclude`", "schedules.only": "a value of `only`",
    f"{UP}.policies": "a value of `policies`", f"{DOWN}.policies": "a value of `policies`",
    "override.reason": "a text for people, which decides nothing",
    "forecast.budgetPercent": "operator/test_learning",
    "forecast.ignoreHistory": "forecasting/test_policy: it changes what is learned",
    "forecast.methods": "forecasting/test_policy: it changes what is learned",
}  # fmt: skip


def seen(what: str, life: Life, since: float) -> Any:
    api = life.api
    if what == "replicas":
        return api.replicas("prod", "shop")
    if what == "metric reads":
        return api.count("GET", "/metrics.k8s.io/", since)
    if what == "placeholders":
        return sum(one["spec"]["replicas"] for (where, _), one in api.objects["deployments"].items() if where == OWN)
    if what == "decided by":
        return status(api)["decision"]["decidedBy"]
    assert what == "titles"
    return " ".join(sorted(schedule["name"].split("/")[2] for schedule in status(api)["schedules"]))


@pytest.mark.parametrize("path", FIELDS)
def test_a_field_is_followed(path):
    of = FIELDS[path]

    async def scenario():
        api = ModelApi()
        api.start_up, api.sample_age = of.start_up, of.sample_age
        template = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}}
        labels = {"matchLabels": {"app": "shop"}}
        api.create(
            "deployments", "prod", "shop", spec={"replicas": of.replicas, "selector": labels, "template": template}
        )
        usual = {"metrics": [CPU], "minReplicas": None, **of.base}
        specs = [set_at(copied(usual), path, stage.value) for stage in of.stages]
        cronhpa(api, **{"metrics": None, **specs[0]})
        stored = api.objects["cronhpas"]["prod", "shop"]["spec"]
        results, told = [], []
        async with Life(api, placeholders=PlaceholderSettings("Deployment", OWN, "low", "pause:1", 100)) as life:
            life.controller.inventory.read_days_of(CALENDARS)
            life.forecasts.forecast = lambda series: forecast(
                3.5, 3.5, metric=series.metric, issued_at=api.now(), start=api.now()
            )
            for number, (stage, spec) in enumerate(zip(of.stages, specs, strict=True)):
                api.load["prod", "shop"] = of.load if stage.load is None else stage.load
                api.external = {} if stage.queue is None else {"queue": stage.queue}
                wanted = {"scaleTargetRef": stored["scaleTargetRef"], **copied(spec)}
                wanted = {key: value for key, value in wanted.items() if value is not None}
                api.edit("cronhpas", "prod", "shop", spec=difference(stored, wanted))
                assert wanted == stored
                await until((number + 1) * of.seconds)
                results.append(seen(of.see, life, number * of.seconds))
                told.append(condition(api, "SpecAccepted")["status"])
                assert 0 == life.control_loop.metrics.errors
        assert {"True"} == set(told)
        return results

    results = live(scenario)

    expected = [stage.expected for stage in of.stages]
    if of.see == "metric reads":
        assert expected == pytest.approx(results, abs=2)
    else:
        assert expected == results


def test_another_target_is_scaled_from_the_edit_on():
    """Each part of `scaleTargetRef` is changed; who is not the target any more stays as it is."""

    async def scenario():
        api = ModelApi()
        for name in ("shop", "cart"):
            deployment(api, name, replicas=1)
        api.create("widgets", "prod", "cart", spec={"replicas": 1})
        cronhpa(api, metrics=None, schedules=[MORNING], behavior=AT_ONCE)

        def counts():
            return (api.replicas("prod", "shop"), api.replicas("prod", "cart"),
                    api.objects["widgets"]["prod", "cart"]["spec"]["replicas"])  # fmt: skip

        results = []
        async with Life(api):
            for number, (ref, floor) in enumerate((
                ({}, 4), ({"name": "cart"}, 5), ({"kind": "Widget", "apiVersion": "example.com/v1"}, 6),
                ({"kind": "Deployment", "apiVersion": "apps/v1", "name": "shop"}, 7),
            )):  # fmt: skip
                schedules = [{**MORNING, "minReplicas": floor}]
                api.edit("cronhpas", "prod", "shop", spec={"scaleTargetRef": ref, "schedules": schedules})
                await until((number + 1) * STAGE_SECONDS)
                results.append(counts())
        return results

    assert [(4, 1, 1), (4, 5, 1), (4, 5, 6), (7, 5, 6)] == live(scenario)


def paths(model: type[BaseModel], at: str = "") -> Iterator[str]:
    """The fields of a model and of the models in it, without the places of lists."""
    for name, described in model.model_fields.items():
        path = f"{at}{described.alias or name}"
        yield path
        for inner in models_in(described.annotation):
            yield from paths(inner, f"{path}.")


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def test_every_field_of_the_spec_is_here():
    followed = {path.replace(".0", "") for path in FIELDS}
    # What a value of a field holds is followed with that field.
    inside = tuple(f"{path}." for path in ELSEWHERE)

    missing = [path for path in paths(CronHPASpec) if path not in followed | set(ELSEWHERE)]

    assert [] == [path for path in missing if not path.startswith(inside) and path not in {UP, DOWN}]
