"""
cronhpa.operator.loop.metric_apis, cronhpa.operator.loop.hang_limiter: what hangs delays only those that asked it.
The others keep their period of 15 s.
"""

import asyncio
from itertools import pairwise

import pytest
from lives import CPU, Life, condition, cronhpa, deployment, external, until
from model_api import START, Fault, ModelApi
from virtual_time import live

from cronhpa.core.decide import decide
from cronhpa.core.model.instant import SECOND
from cronhpa.core.sync_grid import following

NIGHT = {"name": "night", "start": "0 22 * * *", "end": "0 6 * * *", "minReplicas": 1}
MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}
UNREADABLE = {"maxReplicas": "many"}
METRICS = {"cpu": [CPU], "schedule": None}
PERIOD_AND_REQUEST = 15.5  # seconds


def healthy(api, kind, namespace="prod"):
    """An object that is content, and needs the pod metrics or nothing."""
    deployment(api, "good", namespace=namespace)
    api.load[namespace, "good"] = 1000
    metrics = METRICS[kind]
    cronhpa(api, "good", namespace, metrics=metrics, schedules=[NIGHT] if metrics is None else None)


async def longest_gap(life, api, seconds, namespace="prod"):
    """The longest time between two decisions on the healthy object, in seconds."""
    seen, decided_at = [api.now()], None
    while (now := asyncio.get_running_loop().time()) < seconds:
        state = life.inventory.items.get((namespace, "good"))
        decision = None if state is None else state.local.latest_decision
        if decision is not None and decision.at != decided_at:
            decided_at = decision.at
            seen.append(api.now())
        await until(now + 0.1)
    seen.append(api.now())
    return max(later - earlier for earlier, later in pairwise(seen)) / SECOND


def shops_of_another_namespace(api, **spec):
    """Forty objects that are content, until their load doubles."""
    for number in range(40):
        deployment(api, f"shop-{number}", 2, namespace="other")
        api.load["other", f"shop-{number}"] = 1000
        cronhpa(api, f"shop-{number}", "other", **spec)


async def doubled_at(api, seconds):
    """Doubles the load of the shops. How many seconds later each was scaled up, as far as within 60 s."""
    for number in range(40):
        api.load["other", f"shop-{number}"] = 2000
    await until(seconds + 60)
    return [(at - START) / SECOND - seconds for at, name, _, after in api.scalings if "shop" in name and after == 4]


def own_pods(api, namespace, name, api_version, kind, owner):
    """Lets the pods of a Deployment name a controller."""
    reference = {"apiVersion": api_version, "kind": kind, "name": owner, "controller": True, "uid": owner}
    for of, pod in list(api.objects["pods"]):
        if of == namespace and pod.rsplit("-", 1)[0] == name:
            api.edit("pods", of, pod, metadata={"ownerReferences": [reference]})


def roll_out(api, version):
    """Gives the pods of each shop a ReplicaSet that nobody has read."""
    for number in range(40):
        shop = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"shop-{number}", "controller": True, "uid": "u"}
        replica_set = f"shop-{number}-{version}"
        api.create("replicasets", "other", replica_set, metadata={"ownerReferences": [shop]}, spec={})
        own_pods(api, "other", f"shop-{number}", "apps/v1", "ReplicaSet", replica_set)


@pytest.mark.parametrize("kind", ["cpu", "schedule"])
def test_an_external_metrics_api_that_hangs_delays_those_that_ask_it(kind):
    """Eighty objects ask eighty metrics: more than there are places for questions of one API at once."""

    async def scenario():
        api = ModelApi()
        healthy(api, kind)
        for number in range(80):
            deployment(api, f"slow-{number}")
            cronhpa(api, f"slow-{number}", metrics=[external(f"queue-{number}")])
        api.faults = [Fault("GET", "external.metrics", hangs=True, times=None)]
        async with Life(api) as life:
            assert await longest_gap(life, api, 150) < 15.5

    live(scenario)


@pytest.mark.parametrize("seconds", [4.0, 14.0, None], ids=["slow", "slower", "hanging"])
def test_queries_of_one_namespace_that_are_slow_or_hang_delay_those_of_no_other(seconds):
    """
    200 objects of a namespace ask metrics that take long, forty of another one ask theirs, which are answered at
    once, but for one that takes 1.2 s. At 7:02 these double: all 2 pods become 4 within the next period of 15 s.

    Found: the metrics API's places were shared by nobody, and eight requests of one namespace that hung had those of
    all others refused.
    """

    async def scenario():
        api = ModelApi()
        for number in range(200):
            deployment(api, f"slow-{number}")
            cronhpa(api, f"slow-{number}", metrics=[external(f"theirs-{number}")])
        for number in range(40):
            deployment(api, f"shop-{number}", 2, namespace="other")
            cronhpa(api, f"shop-{number}", "other", metrics=[external(f"ours-{number}")])
            api.external[f"ours-{number}"] = 10
        if seconds is None:
            api.faults = [Fault("GET", "external.metrics.*theirs", hangs=True, times=None)]
        api.external |= {f"theirs-{number}": 10 for number in range(200)}

        def latency(_method, path):
            return 1.2 if path.endswith("ours-0") else seconds or 0.001 if "theirs" in path else 0.001

        api.latency = latency
        async with Life(api):
            await until(120)
            api.external |= {f"ours-{number}": 20 for number in range(40)}
            await until(160)
        return [(at - START) / SECOND - 120 for at, _, before, after in api.scalings if (before, after) == (2, 4)]

    scaled = live(scenario)

    assert 40 == len(scaled)
    assert scaled[-1] < 15.5


def test_queries_of_one_metric_that_hang_delay_no_other_selector_of_it():
    """
    KEDA names the metrics of all its objects alike. Found: of forty that hang and one that is answered that one was
    taken for a query that had hung itself, and was asked once a minute.
    """
    answered = []

    class Adapter(ModelApi):
        async def answer(self, method, path, query, body):
            if "external.metrics" in path:
                if query["labelSelector"] != "of=good":
                    await asyncio.Event().wait()
                answered.append(asyncio.get_running_loop().time())
                return {"items": [{"value": "10"}]}
            return await super().answer(method, path, query, body)

    async def scenario():
        api = Adapter()
        for name in (*(f"slow-{number}" for number in range(40)), "good"):
            deployment(api, name, replicas=2)
            metric = external("s0-prometheus")
            metric["external"]["metric"]["selector"] = {"matchLabels": {"of": name}}
            cronhpa(api, name, metrics=[metric])
        async with Life(api):
            await until(900)

    live(scenario)

    # Until the first have hung it is not known which.
    late = [later - earlier for earlier, later in pairwise(at for at in answered if at > 300)]
    assert max(late) <= 16


@pytest.mark.slow
def test_windows_of_300_objects_whose_external_metrics_hang_open_in_time():
    """
    At 7:02 all ask for 3 pods. Of 300 requests 16 at most are under way, 8 of metrics that have hung and 8 of others:
    as many objects may wait for their deadline of 15 s.
    """
    opens = 120

    async def scenario():
        api = ModelApi()
        day = {"name": "day", "start": "2 7 * * *", "end": "0 18 * * *", "minReplicas": 3, "leadTimeSeconds": 0}
        for number in range(300):
            deployment(api, f"slow-{number}")
            cronhpa(api, f"slow-{number}", metrics=[external(f"queue-{number}")], schedules=[day])
        api.faults = [Fault("GET", "external.metrics", hangs=True, times=None)]
        async with Life(api):
            await until(opens + 20)
        return sorted((at - START) / SECOND - opens for at, _, _, replicas in api.scalings if replicas == 3)

    seconds = live(scenario)

    assert 300 == len(seconds)
    assert seconds[300 - 16 - 1] < 1
    assert seconds[-1] < 17


def test_pod_metrics_that_hang_delay_no_schedule():
    async def scenario():
        api = ModelApi()
        healthy(api, "schedule")
        deployment(api, "slow")
        cronhpa(api, "slow")
        api.faults = [Fault("GET", "/metrics.k8s.io", hangs=True, times=None)]
        async with Life(api) as life:
            assert await longest_gap(life, api, 100) < 15.5

    live(scenario)


def test_pod_metrics_that_hang_in_one_namespace_delay_no_other():
    async def scenario():
        api = ModelApi()
        healthy(api, "cpu", "other")
        deployment(api, "slow")
        cronhpa(api, "slow")
        api.faults = [Fault("GET", "/metrics.k8s.io/v1beta1/namespaces/prod", hangs=True, times=None)]
        async with Life(api) as life:
            assert await longest_gap(life, api, 100, "other") < 15.5

    live(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpu", "schedule"])
@pytest.mark.parametrize("namespace", ["prod", "other"])
@pytest.mark.parametrize(
    ("write", "spec"),
    [("slow-.*/scale$", {}), ("slow-.*/status$", {}), ("slow-.*/status$", UNREADABLE)],
    ids=["scale", "status", "unreadable"],
)
def test_writes_that_hang_delay_no_object_that_has_nothing_to_write(kind, namespace, write, spec):
    """Twenty objects of a namespace hang in their writes, more than its 16 places. Each write ends after 15 s."""

    async def scenario():
        api = ModelApi()
        healthy(api, kind, namespace)
        api.faults = [Fault("PATCH", write, hangs=True, times=None)]
        async with Life(api) as life:
            await until(50)
            for number in range(20):
                deployment(api, f"slow-{number}")
                api.load["prod", f"slow-{number}"] = 2000
                cronhpa(api, f"slow-{number}", **spec)
            assert await longest_gap(life, api, 200, namespace) < 15.5
            assert life.control_loop.oldest_seconds < 20

    live(scenario)


def test_the_report_of_an_unreadable_spec_may_wait_for_its_place_as_long_as_others():
    """Eighty objects of the namespace scale by writes of twelve seconds each: their turns take minutes."""

    async def scenario():
        api = ModelApi()
        for name in (*(f"slow-{number}" for number in range(80)), "shop"):
            deployment(api, name)
            cronhpa(api, name, metrics=None)
        async with Life(api) as life:
            await until(100)
            api.latency = lambda method, _path: 12 if method == "PATCH" else 0.001
            for number in range(80):
                api.edit("cronhpas", "prod", f"slow-{number}", spec={"minReplicas": 5})
            await until(101)
            api.edit("cronhpas", "prod", "shop", spec=UNREADABLE)
            await until(300)
            assert 0 == life.control_loop.metrics.errors
            assert "False" == condition(api, "SpecAccepted")["status"]
            # It is readable again while its next report waits.
            api.edit("cronhpas", "prod", "shop", spec={"maxReplicas": 10, "minReplicas": 4})
            await until(400)
            assert "True" == condition(api, "SpecAccepted")["status"]
            assert 4 == api.replicas("prod", "shop")

    live(scenario)


@pytest.mark.parametrize("kind", ["cpu", "schedule"])
def test_a_scale_subresource_that_hangs_delays_its_own_object(kind):
    """A kind that is not watched is read through its scale at every reconciliation."""

    async def scenario():
        api = ModelApi()
        healthy(api, kind)
        for number in range(3):
            api.create("widgets", "prod", f"slow-{number}", spec={"replicas": 1})
            target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": f"slow-{number}"}
            metrics = METRICS[kind]
            schedules = [NIGHT] if metrics is None else None
            cronhpa(api, f"slow-{number}", scaleTargetRef=target, metrics=metrics, schedules=schedules)
        api.faults = [Fault("GET", "slow-.*/scale$", hangs=True, times=None)]
        async with Life(api) as life:
            assert await longest_gap(life, api, 150) < 15.5

    live(scenario)


@pytest.mark.parametrize(
    ("kinds", "namespaces"),
    [(("Rotor", "Stator"), 1), (tuple("ABCDEFGH"), 1), (("Rotor",), 100)],
    ids=["two kinds", "eight kinds", "a kind of a hundred namespaces"],
)
def test_targets_that_hang_delay_those_of_no_other_kind(kinds, namespaces):
    """
    Found: two kinds whose scales hang held all places for reads of targets without a watch. Of forty Rollouts of
    another namespace, whose window opens at 7:05, 24 came more than a period late; with eight kinds never.
    """
    day = {"name": "day", "start": "5 7 * * *", "durationMinutes": 60, "minReplicas": 4, "leadTimeSeconds": 0}

    async def scenario():
        api = ModelApi()
        api.kinds["/apis/argoproj.io/v1alpha1", "rollouts"] = "Rollout"
        for kind in kinds:
            api.kinds["/apis/example.com/v1", f"{kind.lower()}s"] = kind
        for number in range(200):
            kind = kinds[number % len(kinds)]
            namespace = f"prod-{number % namespaces}"
            api.create(f"{kind.lower()}s", namespace, f"slow-{number}", spec={"replicas": 1})
            target = {"apiVersion": "example.com/v1", "kind": kind, "name": f"slow-{number}"}
            cronhpa(api, f"slow-{number}", namespace, scaleTargetRef=target, metrics=None)
        for number in range(40):
            api.create("rollouts", "other", f"shop-{number}", spec={"replicas": 2})
            target = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": f"shop-{number}"}
            cronhpa(api, f"shop-{number}", "other", scaleTargetRef=target, metrics=None, schedules=[day])
        api.faults = [Fault("GET", "slow-.*/scale$", hangs=True, times=None)]
        async with Life(api):
            await until(320)
        return [(at - START) / SECOND - 300 for at, name, _, after in api.scalings if "shop" in name and after == 4]

    scaled = live(scenario)

    assert 40 == len(scaled)
    assert scaled[-1] < 1


@pytest.mark.slow
def test_scales_in_doubt_of_one_namespace_that_hang_delay_those_of_no_other():
    """
    Found: the reads of 200 scales in doubt had no share of the client's places, so that another namespace's loads were
    noticed 50 to 96 s after they had doubled.
    """
    up = {"name": "up", "start": "1 7 * * *", "durationMinutes": 600, "minReplicas": 5, "leadTimeSeconds": 0}

    async def scenario():
        api = ModelApi()
        for number in range(200):
            api.create("widgets", "prod", f"slow-{number}", spec={"replicas": 2})
            target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": f"slow-{number}"}
            cronhpa(api, f"slow-{number}", scaleTargetRef=target, metrics=None, schedules=[up])
        shops_of_another_namespace(api)
        async with Life(api):
            await until(58)
            api.faults = [Fault("PATCH", "slow-.*/scale$", status=500, times=None)]
            await until(100)
            api.faults += [Fault("GET", "slow-.*/scale$", hangs=True, times=None)]
            await until(180)
            return await doubled_at(api, 180)

    scaled = live(scenario)

    assert 40 == len(scaled)
    assert scaled[-1] < PERIOD_AND_REQUEST


@pytest.mark.slow
def test_owners_of_pods_of_one_namespace_that_hang_delay_those_of_no_other():
    """
    Pods of 200 Widgets name controllers of a kind whose LIST hangs. Found: they held all places for owners, so that
    a rollout of another namespace, whose ReplicaSets are read once each, was measured 42.7 s late.
    """

    async def scenario():
        api = ModelApi()
        api.kinds["/apis/example.com/v1", "rotors"] = "Rotor"
        shops_of_another_namespace(api, podSelection="Owned")
        for number in range(200):
            deployment(api, f"slow-{number}", 1)  # its pods
            api.create("widgets", "prod", f"slow-{number}", spec={"replicas": 1})
            target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": f"slow-{number}"}
            cronhpa(api, f"slow-{number}", scaleTargetRef=target, podSelection="Owned")
            own_pods(api, "prod", f"slow-{number}", "example.com/v1", "Rotor", f"rotor-{number}")
        roll_out(api, "old")
        api.faults = [Fault("GET", "/namespaces/prod/rotors", hangs=True, times=None)]
        async with Life(api, check_standing=False):
            await until(290)
            roll_out(api, "new")
            await until(300)
            return await doubled_at(api, 300)

    scaled = live(scenario)

    assert 40 == len(scaled)
    assert scaled[-1] < PERIOD_AND_REQUEST


def test_an_api_that_hangs_delays_those_whose_targets_it_serves():
    """
    A hundred objects ask which resource their kind is. Found: each sent a request of its own, so that all places of the
    client were taken, and the scaling of others waited for minutes.
    """

    async def scenario():
        api = ModelApi()
        healthy(api, "cpu")
        for number in range(100):
            target = {"apiVersion": "example.com/v1", "kind": "Widget", "name": f"slow-{number}"}
            cronhpa(api, f"slow-{number}", scaleTargetRef=target)
        api.faults = [Fault("GET", "/apis/example.com/v1$", hangs=True, times=None)]
        async with Life(api):
            await until(50)
            api.load["prod", "good"] = 2000
            await until(66)
        return [(name, replicas) for _, name, _, replicas in api.scalings]

    assert [("prod/good", 4)] == live(scenario)


def test_an_api_of_several_kinds_whose_scales_hang_delays_no_other():
    """Four kinds, of each more targets than are read at once. Found: four times 16 reads took all 64 places."""

    async def scenario():
        api = ModelApi()
        healthy(api, "cpu")
        for kind in ("Rotor", "Stator", "Shaft", "Gear"):
            api.kinds["/apis/example.com/v1", f"{kind.lower()}s"] = kind
            for number in range(20):
                target = {"apiVersion": "example.com/v1", "kind": kind, "name": f"slow-{number}"}
                cronhpa(api, f"{kind.lower()}-{number}", scaleTargetRef=target)
        api.faults = [Fault("GET", "slow-.*/scale$", hangs=True, times=None)]
        async with Life(api):
            await until(50)
            api.load["prod", "good"] = 2000
            await until(66)
        return [(name, replicas) for _, name, _, replicas in api.scalings]

    assert [("prod/good", 4)] == live(scenario)


def test_what_is_in_doubt_and_cannot_be_read_delays_its_own_object():
    """Three answers were lost, and the reads that would tell hang."""

    async def scenario():
        api = ModelApi()
        healthy(api, "cpu")
        for number in range(3):
            deployment(api, f"slow-{number}")
            api.load["prod", f"slow-{number}"] = 2000
            cronhpa(api, f"slow-{number}")
        api.faults = [
            Fault("PATCH", "slow-.*/scale$", times=None),
            Fault("GET", "slow-.*/scale$", hangs=True, times=None),
            Fault("GET", "cronhpas/slow-", hangs=True, times=None),
        ]
        async with Life(api) as life:
            await until(1)
            assert await longest_gap(life, api, 150) < 15.5

    live(scenario)


def test_a_namespace_that_cannot_be_listed_keeps_no_other_from_being_decided():
    """3 cores at 50 % of one each ask for 6; the list of the second namespace is forbidden all the time."""

    async def scenario():
        api = ModelApi()
        deployment(api)
        cronhpa(api)
        api.load["prod", "shop"] = 3000
        api.faults = [Fault("GET", "^/apis/cronhpa.io/v1alpha1/namespaces/other/cronhpas$", status=403, times=None)]
        async with Life(api, namespaces=("prod", "other")):
            await until(60)
        return api.replicas("prod", "shop"), api.count("GET", "/namespaces/prod/cronhpas")

    replicas, lists = live(scenario)

    assert replicas == 6
    assert lists <= 20  # it is tried again every five seconds


def test_a_resource_that_is_asked_for_while_the_list_is_under_way_is_read_all_the_same():
    """Of the list only what the namespace asks for is decoded: after an edit that can be more than at its beginning."""

    async def scenario():
        api = ModelApi()
        for name in ("first", "second"):
            deployment(api, name, replicas=5)
            api.load["prod", name] = 2500
            cronhpa(api, name, metrics=[MEMORY])
        reconciliation = (following("prod", 15 * SECOND, START + 20 * SECOND) - START) / SECOND
        async with Life(api):
            await until(reconciliation - 1)
            answered = asyncio.Event()
            api.faults = [Fault("GET", "/metrics.k8s.io/", waits=answered)]
            await until(reconciliation + 1)
            api.edit("cronhpas", "prod", "second", spec={"metrics": [CPU]})
            answered.set()
            await until(reconciliation + 5)
        told = [event for event in api.objects["events"].values() if "cpu" in event["message"]]
        assert [] == told
        assert "ValidMetricFound" == condition(api, "ScalingActive", "second")["reason"]

    live(scenario)


def broken(spec=(), faults=(), prepare=lambda _api, _namespace: None):
    """How one object is ill: fields of its spec, (method, path, how) of its faults, and what else is done to it."""
    return dict(spec), faults, prepare


def forged(api, namespace):
    memory = {"version": 1, "recommendations": [{"replicas": "x", "time": []}] * 99, "scaleUpEvents": {"": {}}}
    api.edit("cronhpas", namespace, "ill", status={"memory": memory, "conditions": "none", "schedules": 7})


def taken(api, namespace):
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ill"}
    api.create("horizontalpodautoscalers", namespace, "ill", spec={"scaleTargetRef": ref})


def widget(api, namespace):
    api.create("widgets", namespace, "ill", spec={"replicas": 1})


def large(api, namespace):
    labels = {f"label-{number}": "x" for number in range(5000)}
    api.edit("deployments", namespace, "ill", spec={"selector": {"matchLabels": labels}})


REF = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "ill"}
ILL = {
    "unreadable": broken(UNREADABLE),
    "targetless": broken(prepare=lambda api, namespace: api.delete("deployments", namespace, "ill")),
    "kindless": broken({"scaleTargetRef": {**REF, "kind": "Rocket"}}),
    "never-open": broken({"schedules": [{**NIGHT, "start": "0 8 30 2 *"}]}),
    "unmeasured": broken({"metrics": [external("queue")]}, [("GET", "external", {"status": 500})]),
    "measured-never": broken({"metrics": [external("queue")]}, [("GET", "external", {"hangs": True})]),
    "read-never": broken({"scaleTargetRef": REF}, [("GET", "/scale$", {"hangs": True})], widget),
    "unreadable-scale": broken({"scaleTargetRef": REF}, [("GET", "/scale$", {"status": 500})], widget),
    "refused": broken((), [("PATCH", "/scale$", {"status": 403})]),
    "contested": broken((), [("PATCH", "/scale$", {"status": 409})]),
    "written-never": broken((), [("PATCH", "/scale$", {"hangs": True})]),
    "lost": broken((), [("PATCH", "/scale$", {})]),
    "statusless": broken((), [("PATCH", "/status$", {"status": 500})]),
    "told-never": broken(UNREADABLE, [("PATCH", "/status$", {"hangs": True})]),
    "forged": broken(prepare=forged),
    "taken": broken(prepare=taken),
    "large": broken(prepare=large),
    "wrong": broken(),
}  # fmt: skip


@pytest.mark.slow
def test_one_object_in_twenty_is_ill_in_any_way_and_the_nineteen_are_decided_in_time():
    """
    A namespace for each illness, all at once. At 60 s each needs four pods instead of two, at 150 s two again: a period
    of 15 s later the nineteen have them.
    """

    def decide_or_fail(spec, *given):
        if (spec.namespace, spec.target.name) == ("wrong", "ill"):
            raise ArithmeticError("a defect of ours")
        return decide(spec, *given)

    async def scenario():
        api = ModelApi()
        names = [*(f"well-{number}" for number in range(19)), "ill"]
        for namespace, (ill, faults, prepare) in ILL.items():
            for name in names:
                deployment(api, name, namespace=namespace)
                api.load[namespace, name] = 1000
                quick = {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
                cronhpa(api, name, namespace, **(quick | ill if name == "ill" else quick))
            prepare(api, namespace)
            for method, path, how in faults:
                whose = f"external.*/{namespace}/" if path == "external" else f"/{namespace}/.*/ill{path}"
                api.faults.append(Fault(method, whose, times=None, **how))
        async with Life(api, decide=decide_or_fail) as life:
            for second, load in ((60, 2000), (150, 1000)):
                await until(second)
                for key in api.load:
                    api.load[key] = load
            await until(240)
            errors = life.control_loop.metrics.errors
        late = {}
        for at, target, old, new in api.scalings:
            if target.endswith("/ill"):
                continue
            due = 60 if new == 4 else 150
            late.setdefault((old, new), []).append((at - START) / SECOND - due)
        return late, errors, [fault for fault in api.faults if not fault.met]

    late, errors, unmet = live(scenario)

    assert [] == unmet
    assert errors > 0
    assert {(2, 4): 19 * len(ILL), (4, 2): 19 * len(ILL)} == {change: len(seconds) for change, seconds in late.items()}
    assert 0 <= min(map(min, late.values()))
    assert max(map(max, late.values())) < 16
