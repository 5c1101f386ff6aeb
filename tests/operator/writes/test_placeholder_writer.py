"""cronhpa.operator.writes.placeholder_writer: placeholders in the lives of an operator, on a cluster of either kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pytest
from lives import Life, cronhpa, timeline, until
from model_api import Fault, ModelApi
from msgspec.structs import replace
from virtual_time import live

from cronhpa.core.model.instant import SECOND
from cronhpa.core.model.spec import Placeholders
from cronhpa.core.placeholders import pods_to_come
from cronhpa.operator.writes import placeholder_writer as writer_module
from cronhpa.operator.writes.placeholder_settings import PlaceholderKinds, PlaceholderSettings

OWN = "operator"
BUFFERS = "/apis/autoscaling.x-k8s.io/v1alpha1"
# The world begins at 07:00. The day's 12 pods count from 07:18 on, two minutes before it; a node takes five minutes.
DAY = {"name": "day", "start": "20 7 * * *", "end": "0 18 * * *", "minReplicas": 12, "leadTimeSeconds": 120}
ROOM = {"maxReplicas": 50, "nodeStartupSeconds": 300}
BEGIN, RISE, START = 13 * 60, 18 * 60, 20 * 60
TEMPLATE = {
    "metadata": {"labels": {"app": "shop"}},
    "spec": {
        "containers": [{"name": "app", "image": "shop:1", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
        "nodeSelector": {"pool": "web"},
        "tolerations": [{"key": "web", "operator": "Exists"}],
    },
}


def settings(kinds: PlaceholderKinds = "auto", most: int = 100) -> PlaceholderSettings:
    return PlaceholderSettings(kinds, OWN, "placeholder", "pause:1", most)


def world(*, buffers: bool = False) -> ModelApi:
    """A cluster; buffers: whether it serves CapacityBuffers."""
    api = ModelApi()
    if buffers:
        api.kinds |= {(BUFFERS, "capacitybuffers"): "CapacityBuffer"}
    return api


def shop(api: ModelApi, name: str = "shop", template: Any = TEMPLATE, namespace: str = "prod", **spec: Any) -> None:
    """A Deployment of two pods, and its object with the day's window."""
    selector = {"matchLabels": {"app": name}}
    api.create("deployments", namespace, name, spec={"replicas": 2, "selector": selector, "template": template})
    stated = {"minReplicas": 2, "maxReplicas": 40, "metrics": None, "schedules": [DAY], "placeholders": ROOM}
    cronhpa(api, name, namespace, **{**stated, **spec})


def placeholders(api: ModelApi, plural: str = "deployments") -> list[dict[str, Any]]:
    return [one for one in api.objects[plural].values() if one["metadata"]["name"].startswith("placeholder-")]


def counts(api: ModelApi, plural: str = "deployments") -> list[int]:
    return [one["spec"]["replicas"] for one in placeholders(api, plural)]


def looks(
    api: ModelApi,
    look: Callable[[ModelApi], Any],
    *moments: float,
    kinds: PlaceholderKinds = "auto",
    most: int = 100,
    **spec: Any,
) -> list[Any]:
    """What is seen at some moments of a life."""

    async def scenario() -> Any:
        shop(api, **spec)
        out = []
        async with Life(api, placeholders=settings(kinds, most)):
            for moment in moments:
                await until(moment)
                out.append(look(api))
        return out

    return live(scenario)


def lived(api: ModelApi, *moments: float, **how: Any) -> list[Any]:
    """The placeholders at some moments of a life, as (Deployments, CapacityBuffers)."""
    return looks(api, lambda api: (counts(api), counts(api, "capacitybuffers")), *moments, **how)


def test_a_deployment_holds_the_missing_pods_from_five_minutes_before_the_rise_until_they_are_there():
    """10 of 12 are missing from 07:13 on. The target has all by 07:19, in three steps, the first of two pods."""
    api = world()

    assert [([], []), ([10], []), ([8], []), ([], [])] == lived(api, BEGIN - 5, BEGIN + 10, RISE - 1, RISE + 60)
    assert 12 == api.replicas("prod", "shop")


def test_each_real_pod_takes_the_place_of_one():
    """Two pods a minute from 07:15 on, with a lead of five minutes and a period of 15 s."""
    api = world()
    slow = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}
    measured = {**DAY, "leadTimeSeconds": 300}
    rise = 15 * 60

    seen = lived(api, *(rise - 1 + 60 * minute + 40 for minute in range(6)), behavior=slow, schedules=[measured])

    assert [[8], [6], [4], [2], [], []] == [deployments for deployments, _ in seen]


AT_ONCE = {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}}


def test_their_room_is_free_seconds_before_the_pods_come():
    """
    None is to be preempted: kube-scheduler may leave a pod waiting that preempts. They are scaled to none, because the
    pods of a Deployment that is deleted stay for as long as the garbage collector takes.
    """
    api = world()

    assert [[10], [0], [], []] == [
        seen for seen, _ in lived(api, RISE - 11, RISE - 8.5, RISE - 1, RISE + 2.5, behavior=AT_ONCE)
    ]
    assert [(RISE, 2, 12)] == timeline(api)


def test_they_go_as_soon_as_the_target_is_scaled_by_others():
    """Within two seconds, whatever the period."""
    api = world()

    async def scenario() -> list[list[int]]:
        shop(api, behavior=AT_ONCE, syncPeriodSeconds=60)
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 30)
            seen = [counts(api)]
            api.edit("deployments", "prod", "shop", spec={"replicas": 7})
            await until(BEGIN + 32.5)
            return [*seen, counts(api)]

    assert [[10], [5]] == live(scenario)


def test_an_operator_that_is_killed_before_the_step_leaves_the_room_free():
    """Killed 5 s before the step, the next one starts 20 s after it: it scales, and makes no placeholder again."""
    api = world()

    async def scenario() -> list[list[int]]:
        shop(api, behavior=AT_ONCE)
        async with Life(api, placeholders=settings()):
            await until(RISE - 7)
        seen = [counts(api)]
        await until(RISE + 20)
        async with Life(api, placeholders=settings()):
            for moment in range(RISE + 21, RISE + 60):
                await until(moment)
                seen.append(counts(api))
        return seen

    first, *later = live(scenario)

    assert [0] == first
    assert not any(any(seen) for seen in later)
    assert [(2, 12)] == [(old, new) for _, old, new in timeline(api)]


def test_where_fewer_are_allowed_than_pods_come_those_in_their_room_preempt_none():
    """Three of ten, and two pods a minute from 07:15 on: one is left seconds before each step, three after it."""
    slow = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}
    api, rise = world(), 15 * 60
    few = {"maxReplicas": 3, "nodeStartupSeconds": 300}
    moments = range(rise - 10, rise + 200)
    made = dict(zip(moments, lived(
        api, *moments, behavior=slow, schedules=[{**DAY, "leadTimeSeconds": 300}], placeholders=few
    ), strict=True))  # fmt: skip

    steps = [at for at, *_ in timeline(api)][:3]

    assert [([1], [3])] * 3 == [(made[at - 2][0], made[at + 30][0]) for at in steps]


def test_what_one_object_frees_makes_no_placeholders_of_another():
    """15 are allowed: 7 and 8 of two objects. Ten seconds before the rise of one the other's remain as they are."""
    api = world()

    async def scenario() -> list[list[int]]:
        shop(api, behavior=AT_ONCE)
        shop(api, "store", behavior=AT_ONCE, schedules=[{**DAY, "leadTimeSeconds": 60}])
        seen = []
        async with Life(api, placeholders=settings(most=15)):
            for moment in (RISE - 30, RISE - 2):
                await until(moment)
                seen.append(sorted(counts(api)))
        return seen

    before, after = live(scenario)

    assert [7, 8] == before
    assert after in ([7], [8])


def test_they_land_where_the_pods_land_take_as_much_and_give_way():
    api = world()
    lived(api, BEGIN + 10)
    (made,) = placeholders(api)
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert OWN == made["metadata"]["namespace"]
    assert {"cronhpa.io/placeholder-for": "prod/shop"} == made["metadata"]["annotations"]
    assert ({"pool": "web"}, TEMPLATE["spec"]["tolerations"]) == (pod["nodeSelector"], pod["tolerations"])
    assert ("placeholder", 0) == (pod["priorityClassName"], pod["terminationGracePeriodSeconds"])
    assert ("pause:1", {"requests": {"cpu": "500m", "memory": "1Gi"}}) == (container["image"], container["resources"])
    # None of the target's labels: its pods must not be counted, nor get its traffic.
    assert made["spec"]["selector"]["matchLabels"].items() <= made["spec"]["template"]["metadata"]["labels"].items()
    assert "app" not in made["spec"]["template"]["metadata"]["labels"]


def test_where_the_cluster_has_capacity_buffers_there_is_one_beside_the_object():
    api = world(buffers=True)

    assert [([], [10]), ([], [])] == lived(api, BEGIN + 10, RISE + 60)

    api = world(buffers=True)
    lived(api, BEGIN + 10)
    (made,) = placeholders(api, "capacitybuffers")
    assert "prod" == made["metadata"]["namespace"]
    assert ("CronHPA", "shop") == tuple(made["metadata"]["ownerReferences"][0][key] for key in ("kind", "name"))
    assert {"apiGroup": "apps", "kind": "Deployment", "name": "shop"} == made["spec"]["scalableRef"]


def test_the_setting_names_the_kind():
    assert [([10], [])] == lived(world(buffers=True), BEGIN + 10, kinds="Deployment")
    assert [([], [])] == lived(world(), BEGIN + 10, kinds="CapacityBuffer")


def test_a_setting_asks_for_objects_that_state_nothing():
    """Four of each; one object states that it wants none, and nothing ever raises the floor of another."""
    api = world()

    async def scenario() -> list[int]:
        shop(api, placeholders=None)
        shop(api, "none", placeholders={"maxReplicas": 0})
        shop(api, "still", placeholders=None, schedules=None)
        usual = replace(settings(), usual=Placeholders(4, 300 * SECOND))
        async with Life(api, placeholders=usual):
            await until(BEGIN + 10)
            return counts(api)

    assert [4] == live(scenario)


def test_without_the_setting_the_log_says_so_once_and_nothing_is_asked_for(caplog):
    api = world()

    assert [([], [])] == lived(api, RISE, kinds="none")
    assert 1 == caplog.text.count("placeholders of prod/shop: there are none: CRONHPA_PLACEHOLDERS is none: set it")
    assert 0 == api.count("GET", f"/namespaces/{OWN}/")


def test_one_that_somebody_deletes_is_made_again_once_a_minute():
    """From 07:13 until 07:18 somebody deletes it every ten seconds: it is made five or six times."""
    api = world()

    async def scenario() -> int:
        shop(api)
        async with Life(api, placeholders=settings()):
            for second in range(BEGIN, RISE, 10):
                await until(second)
                for one in placeholders(api):
                    api.delete("deployments", OWN, one["metadata"]["name"])
            return api.count("POST", f"/namespaces/{OWN}/deployments")

    assert 5 <= live(scenario) <= 6


def test_one_is_removed_with_its_object_and_by_a_replica_that_never_knew_it():
    api = world()

    async def scenario() -> list[list[int]]:
        shop(api)
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 10)
        seen = [counts(api)]
        api.delete("cronhpas", "prod", "shop")
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 60)
        return [*seen, counts(api)]

    assert [[10], []] == live(scenario)


def test_those_of_a_target_that_is_deleted_go():
    """The object stays; nothing is known of when its target comes back."""
    api = world()

    async def scenario() -> list[list[int]]:
        shop(api)
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 10)
            seen = [counts(api)]
            api.delete("deployments", "prod", "shop")
            await until(BEGIN + 60)
        return [*seen, counts(api)]

    assert [[10], []] == live(scenario)


def test_those_of_an_object_that_another_installation_serves_by_now_go():
    api = world()

    async def scenario() -> list[list[int]]:
        shop(api)
        seen = []
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 30)
            seen.append(counts(api))
            api.create("leases", "elsewhere", "cronhpa", spec={"holderIdentity": "it"})
            api.edit("cronhpas", "prod", "shop", status={"operator": "elsewhere/cronhpa"})
            await until(BEGIN + 55)
            seen.append(counts(api))
        return seen

    assert [[10], []] == live(scenario)


def test_the_next_operator_keeps_what_it_finds():
    """Killed at 07:13:10, started anew, and for 20 s the target cannot be read: the same one, of the same size."""
    api = world()

    async def scenario() -> list[Any]:
        shop(api)
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 10)
        seen = placeholders(api)
        fault = Fault("GET", "/namespaces/prod/deployments/shop/scale", status=503, times=None)
        api.faults += [fault, Fault("GET", "/apis/apps/v1/deployments", status=503, times=20)]
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 30)
            api.faults.clear()
            await until(BEGIN + 60)
        assert 1 == api.count("POST", f"/namespaces/{OWN}/deployments")
        return [seen, placeholders(api)]

    before, after = live(scenario)

    assert before == after
    assert 10 == after[0]["spec"]["replicas"]


@pytest.mark.parametrize("trouble", [{"status": 503}, {"status": 404}, {}], ids=["503", "404", "cut"])
def test_one_reading_of_the_apis_kinds_that_fails_makes_no_deployments_beside_buffers(trouble):
    """Found: each object had its room twice for five seconds, enough for a node autoscaler to start nodes."""
    api, seen = world(buffers=True), []

    async def scenario():
        shop(api)
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 40)
            fault = Fault("GET", "/apis/autoscaling.x-k8s.io$", **trouble)
            api.faults = [fault]
            while asyncio.get_running_loop().time() < BEGIN + 120:
                await asyncio.sleep(1)
                seen.append((counts(api), counts(api, "capacitybuffers")))
        return fault.met

    assert 1 == live(scenario)
    assert [([], [10])] == [before for before, _ in groupby(seen)]


def test_a_tenant_cannot_pass_a_buffer_off_as_that_of_another_object():
    """A copy of the label and the annotation, in another namespace: prod's own is still removed, the copy stays."""
    api = world(buffers=True)

    async def scenario() -> list[str]:
        shop(api)
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 10)
            (own,) = placeholders(api, "capacitybuffers")
            copied = {key: own["metadata"][key] for key in ("labels", "annotations")}
            name = own["metadata"]["name"]
            api.create("capacitybuffers", "tenant", name, metadata=copied, spec={"replicas": 9, "scalableRef": {}})
            await until(RISE + 60)
        return [one["metadata"]["namespace"] for one in placeholders(api, "capacitybuffers")]

    assert ["tenant"] == live(scenario)


def test_those_of_others_are_left_alone():
    """One of another installation, and a Deployment that merely has the name."""
    api = world()

    async def scenario() -> int:
        for name, labels in (("placeholder-1", {"cronhpa.io/placeholders-of": "another"}), ("placeholder-2", {})):
            meta = {"labels": labels, "annotations": {"cronhpa.io/placeholder-for": "prod/gone"}}
            api.create("deployments", OWN, name, metadata=meta, spec={"replicas": 1})
        shop(api)
        async with Life(api, placeholders=settings()):
            await until(BEGIN - 60)
            return len(placeholders(api))

    assert 2 == live(scenario)


def test_a_scale_up_waits_for_none_of_them(caplog):
    """Nothing about them is answered, or all is refused: the target is scaled as without, and one line tells."""
    scaled = []
    for fault in (
        Fault("GET", f"/namespaces/{OWN}/", hangs=True, times=None),
        Fault("POST", f"/namespaces/{OWN}/", status=403, times=None),
    ):
        api = world()
        api.faults.append(fault)
        lived(api, RISE + 60)
        scaled.append(timeline(api)[0])
    api = world()
    lived(api, RISE + 60, kinds="none")

    assert [timeline(api)[0]] * 2 == scaled
    assert 1 == caplog.text.count("placeholders of prod/shop: they cannot be written: answered 403 on purpose")


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ({}, "there are none: deployments.apps shop has no template of its pods"),
        ({"spec": {"containers": [{"name": "app"}]}}, "there are none: its pods request neither cpu nor memory"),
    ],
)
def test_a_target_whose_pods_cannot_be_copied_has_none_and_one_line(template, line, caplog):
    assert [([], [])] == lived(world(), RISE - 1, template=template)
    assert 1 == caplog.text.count(line)


def test_a_cluster_that_gets_no_room_in_time_is_told_once(caplog):
    """The model's placeholders never say that they are ready: ten had no node when the pods came."""
    lived(world(), RISE + 60)

    assert 1 == caplog.text.count("10 of 10 had no node when the pods came")


def test_placeholders_with_nodes_are_not_told(caplog):
    api = world()

    async def scenario() -> None:
        shop(api)
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 10)
            (made,) = placeholders(api)
            api.edit("deployments", OWN, made["metadata"]["name"], status={"readyReplicas": 10})
            await until(RISE + 60)
        assert not counts(api)

    live(scenario)

    assert "had no node" not in caplog.text


def test_all_objects_together_have_no_more_than_the_setting_allows(caplog):
    """10 are missing for each of two objects, and 15 are allowed: they are shared."""
    api = world()

    async def scenario() -> list[int]:
        shop(api)
        shop(api, "store")
        async with Life(api, placeholders=settings(most=15)):
            await until(BEGIN + 10)
            return counts(api)

    assert [7, 8] == sorted(live(scenario))
    assert 1 == caplog.text.count(
        "placeholders of prod/store: some of its pods to come have none: all objects of a replica have "
        "CRONHPA_PLACEHOLDER_MAX=15: raise it"
    )


def test_of_many_objects_each_has_its_placeholders_within_seconds_of_the_first():
    """They are looked at in turns while they need none."""
    api = world()

    async def scenario() -> list[int]:
        for number in range(12):
            shop(api, f"shop-{number}")
        async with Life(api, placeholders=settings(most=1000)):
            await until(BEGIN - 1)
            seen = counts(api)
            await until(BEGIN + 12)
            return [*seen, *counts(api)]

    assert [10] * 12 == live(scenario)


def test_objects_that_are_costly_to_count_are_looked_at_at_a_tenth_of_a_core(monkeypatch):
    """Each look takes half a second of CPU: one in five seconds, eight in 40, and not 40."""
    cpu, looks_at = [0.0], []

    def costly(latest, replicas, now):
        cpu[0] += 0.5
        looks_at.append(now)
        return pods_to_come(latest, replicas, now)

    monkeypatch.setattr(writer_module, "pods_to_come", costly)
    monkeypatch.setattr(writer_module, "time", SimpleNamespace(thread_time=lambda: cpu[0]))

    assert [([10], [])] == lived(world(), BEGIN + 40)

    needed = [at for at in looks_at if at >= looks_at[-1] - 40 * SECOND]
    assert 8 <= len(needed) <= 9


def test_writes_of_one_namespace_that_hang_delay_those_of_no_other():
    """
    An admission webhook of `prod` answers no request for 200 buffers that it wants from 07:13 on. The ten of `other`
    are wanted from 07:14 on, when the first of `prod` still hang.
    """
    api = world(buffers=True)
    api.faults = [Fault("POST", "/namespaces/prod/capacitybuffers", hangs=True, times=None)]

    async def scenario() -> int:
        for number in range(200):
            shop(api, f"shop-{number}")
        for number in range(10):
            shop(api, f"store-{number}", namespace="other", schedules=[{**DAY, "start": "21 7 * * *"}])
        async with Life(api, placeholders=settings(most=10_000)):
            await until(BEGIN + 60 + 20)
            return len(counts(api, "capacitybuffers"))

    assert 10 == live(scenario)


def test_what_waited_for_its_turn_is_not_made_for_an_object_that_is_gone():
    """Of forty buffers whose requests hang some wait for a place when their objects are deleted, 10 s later."""
    api = world(buffers=True)
    hanging = Fault("POST", "/namespaces/prod/capacitybuffers", hangs=True, times=None)
    api.faults = [hanging]

    async def scenario() -> int:
        for number in range(40):
            shop(api, f"shop-{number}")
        most = 0
        async with Life(api, placeholders=settings(most=10_000)):
            await until(BEGIN + 10)
            for number in range(40):
                api.delete("cronhpas", "prod", f"shop-{number}")
            await until(BEGIN + 14)
            api.faults.remove(hanging)
            for second in range(60):
                await until(BEGIN + 14 + second)
                most = max(most, len(counts(api, "capacitybuffers")))
        return most

    assert 0 == live(scenario)


def test_while_nothing_is_to_come_they_are_listed_once_a_minute():
    """Twelve minutes: once a minute, for those that somebody left."""
    api = world()
    lived(api, BEGIN - 60)

    assert 11 <= api.count("GET", f"/namespaces/{OWN}/deployments") <= 13


# --- what goes wrong is a condition ------------------------------------------------------------------------------


def told(api: ModelApi, name: str = "shop") -> str | None:
    """The reason of the condition about its placeholders; None without one."""
    conditions = api.objects["cronhpas"]["prod", name]["status"].get("conditions") or ()
    found = [one for one in conditions if one["type"] == "PlaceholdersHoldRoom"]
    assert all(one["status"] == "False" for one in found)
    return found[0]["reason"] if found else None


def conditions_at(api: ModelApi, *moments: float, **how: Any) -> list[Any]:
    return looks(api, told, *moments, **how)


def test_a_cluster_without_room_is_a_condition_before_the_pods_come():
    """A node takes five minutes: from 07:19 on the ten that the model never makes ready lack one for longer."""
    early = {**DAY, "leadTimeSeconds": 60}

    assert [None, "NoRoom"] == conditions_at(world(), BEGIN + 60, RISE + 60 + 50, schedules=[early])


@pytest.mark.parametrize(
    ("kinds", "faults", "spec", "reason"),
    [
        ("none", (), {}, "Off"),
        ("auto", (Fault("GET", f"/namespaces/{OWN}/deployments", status=403, times=None),), {}, "NotListed"),
        ("auto", (Fault("POST", f"/namespaces/{OWN}/", status=403, times=None),), {}, "NotWritten"),
        ("CapacityBuffer", (), {}, "NotServed"),
        ("auto", (), {"template": {}}, "NoTemplate"),
    ],
)
def test_what_cannot_be_made_is_a_condition_and_the_target_is_scaled_all_the_same(kinds, faults, spec, reason):
    api = world()
    api.faults += faults

    assert [reason] == conditions_at(api, RISE - 30, kinds=kinds, **spec)
    assert reason == told(api)
    api = world()
    api.faults += faults
    conditions_at(api, RISE + 60, kinds=kinds, **spec)
    assert 12 == api.replicas("prod", "shop")


def test_a_limit_that_is_reached_is_a_condition():
    assert [None, "LimitReached"] == conditions_at(world(), BEGIN - 60, BEGIN + 60, most=4)


def test_placeholders_that_somebody_deletes_are_a_condition_until_the_next_rise():
    api = world()

    async def scenario() -> list[str | None]:
        shop(api)
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 30)
            seen = [told(api)]
            for one in placeholders(api):
                api.delete("deployments", OWN, one["metadata"]["name"])
            await until(BEGIN + 120)
            return [*seen, told(api)]

    assert [None, "Deleted"] == live(scenario)
    assert [10] == counts(api)


def test_a_buffer_that_the_autoscaler_refuses_is_a_condition_until_it_takes_it():
    api = world(buffers=True)

    async def scenario() -> list[str | None]:
        shop(api)
        out = []
        async with Life(api, placeholders=settings()):
            await until(BEGIN + 30)
            (made,) = placeholders(api, "capacitybuffers")
            for status in ("False", "True"):
                ready = {"type": "ReadyForProvisioning", "status": status, "message": "quota"}
                api.edit("capacitybuffers", "prod", made["metadata"]["name"], status={"conditions": [ready]})
                await until(BEGIN + (90 if status == "False" else 150))
                out.append(told(api))
        return out

    assert ["BufferRefused", None] == live(scenario)


def test_the_role_that_a_setting_names_owns_them():
    """With it, as when the chart has no such Role any more, they go. A Role that cannot be read holds up nothing."""
    for status, owners in ((200, ["Role"]), (403, [])):
        api = world()
        api.kinds |= {("/apis/rbac.authorization.k8s.io/v1", "roles"): "Role"}
        if status == 403:
            api.faults.append(Fault("GET", f"/namespaces/{OWN}/roles", status=403, times=None))

        async def scenario(api: ModelApi = api) -> list[Any]:
            api.create("roles", OWN, "room", rules=[])
            shop(api)
            owned = PlaceholderSettings("auto", OWN, "placeholder", "pause:1", 100, "room")
            async with Life(api, placeholders=owned):
                await until(BEGIN + 30)
                (made,) = placeholders(api)
                return made["metadata"].get("ownerReferences", [])

        found = live(scenario)
        assert owners == [one["kind"] for one in found]
        assert all(one["uid"] == api.objects["roles"][OWN, "room"]["metadata"]["uid"] for one in found)


@pytest.mark.parametrize(("namespaces", "kind"), [((), "ClusterRole"), (("prod",), "Role")])
def test_the_role_that_a_setting_names_owns_buffers_alone(namespaces, kind):
    """Not their objects, too: what has two owners stays until both are gone."""
    for is_there, expected in ((True, kind), (False, "CronHPA")):
        api = world(buffers=True)
        group = "/apis/rbac.authorization.k8s.io/v1"
        api.kinds |= {(group, "roles"): "Role", (group, "clusterroles"): "ClusterRole"}

        async def scenario(api: ModelApi = api, *, is_there: bool = is_there) -> list[Any]:
            if is_there:
                api.create(
                    f"{kind.lower()}s",
                    "prod" if namespaces else "",
                    "buffers",
                    metadata={"namespace": "".join(namespaces)},
                )
            shop(api)
            async with Life(api, placeholders=replace(settings(), buffer_owner="buffers"), namespaces=namespaces):
                await until(BEGIN + 30)
                (made,) = placeholders(api, "capacitybuffers")
                return made["metadata"]["ownerReferences"]

        assert [expected] == [one["kind"] for one in live(scenario)]


@pytest.mark.parametrize(("applied", "suspend", "seen"), [(0, False, [8]), (60, False, [8]), (60, True, [])])
def test_an_event_asks_for_room_ahead_of_itself_alone(applied, suspend, seen):
    """
    The event's 20 from 07:30 on, five minutes ahead of a lead of two: 18 from 07:23 on. Nothing for the day's 12.

    It asks for that also if it comes when the object is known, and for nothing while it is suspended.
    """
    api = world()
    api.kinds |= {("/apis/cronhpa.io/v1alpha1", "plannedevents"): "PlannedEvent"}
    doors = {"name": "doors", "from": "2027-01-15T07:30", "to": "2027-01-15T08:00", "minReplicas": 20}
    event = {
        "selector": {}, "reason": "a sale", "schedules": [{**doors, "leadTimeSeconds": 120}], "placeholders": ROOM,
        "suspend": suspend,
    }  # fmt: skip

    async def scenario() -> list[list[int]]:
        shop(api, placeholders=None)
        out = []
        if not applied:
            api.create("plannedevents", "prod", "sale", spec=event)
        async with Life(api, placeholders=settings()):
            await until(60)
            if applied:
                api.create("plannedevents", "prod", "sale", spec=event)
            for moment in (RISE - 5, RISE + 120, 23 * 60 + 30):
                await until(moment)
                out.append(counts(api))
        return out

    assert [[], [], seen] == live(scenario)
