"""The same spec, load and trouble to the upstream HPA and to our operator: the same replicas at every tick."""

import os
import random
import secrets

import pytest

from cronhpa.core.model.instant import SECOND
from testbed.control_plane import ControlPlane
from testbed.differential import Case, Clocks, Step, compare, run
from testbed.operator import NAMESPACE, SERVICE_ACCOUNT, Operator
from testbed.plant import Plant

PERIOD = 4
# A window or a period of 2, 6 or 10 s ends in the middle between two ticks, so between the same two of both.
STABILIZATION, INITIALIZATION, READINESS_DELAY = 6, 10, 2


# Settling: a window of the plant and a half, and the second to which readiness is cut.
CLOCKS = Clocks(settling=1.5, windows=(2, 6, 10))


def resource(name, target, container=None):
    if container:
        return {
            "type": "ContainerResource",
            "containerResource": {"name": name, "container": container, "target": target},
        }
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def utilization(percent):
    return {"type": "Utilization", "averageUtilization": percent}


def average(quantity):
    return {"type": "AverageValue", "averageValue": quantity}


def value(quantity):
    return {"type": "Value", "value": quantity}


def pods(metric, target, **labels):
    return {"type": "Pods", "pods": {"metric": identifier(metric, labels), "target": target}}


def of_object(metric, target, kind="Service", name="front", api_version="v1", **labels):
    described = {"apiVersion": api_version, "kind": kind, "name": name}
    return {
        "type": "Object",
        "object": {"metric": identifier(metric, labels), "describedObject": described, "target": target},
    }


def external(metric, target, **labels):
    return {"type": "External", "external": {"metric": identifier(metric, labels), "target": target}}


def identifier(metric, labels):
    return {"name": metric} | ({"selector": {"matchLabels": labels}} if labels else {})


class Cpu:
    """Loads on the pods of a twin; `per_pod` is what one pod carries at its target."""

    def __init__(self, per_pod, **settings):
        self._per_pod, self._settings, self._targets = per_pod, settings, {}

    def __call__(self, plant, namespace, twin, step):
        load = step.level * self._per_pod
        if twin not in self._targets:
            self._targets[twin] = plant.add_target(namespace, {"app": twin}, load, **self._settings)
        plant.set_load(self._targets[twin], load)


def per_pod(metric, unit, **labels):
    def feed(plant, namespace, twin, step):
        plant.set_pods_metric(namespace, {"app": twin}, metric, step.level * unit, series=labels)

    return feed


def by_level(metric, unit, *subject, **labels):
    """One value for both twins: of an object where `subject` says which, else external."""

    def feed(plant, namespace, _twin, step):
        set_value(plant, namespace, metric, step.level * unit, subject, labels)

    return feed


def by_ratio(metric, unit, *subject, **labels):
    def feed(plant, namespace, _twin, step):
        set_value(plant, namespace, metric, step.ratio * unit, subject, labels)

    return feed


def set_value(plant, namespace, metric, load, subject, labels):
    if subject:
        resource_name, name = subject
        plant.set_object_metric(
            namespace, resource_name, namespace if name is None else name, metric, load, series=labels
        )
    else:
        plant.set_external_metric(namespace, metric, load, series=labels)


def both(*feeds):
    def feed(*arguments):
        for adapter_feed in feeds:
            adapter_feed(*arguments)

    return feed


def rules(select=None, window=None, tolerance=None, **policies):
    """`rules(Pods=(2, 4))`: two pods in four seconds."""
    scaling_rules = {"selectPolicy": select, "stabilizationWindowSeconds": window, "tolerance": tolerance}
    scaling_rules["policies"] = [
        {"type": kind, "value": amount, "periodSeconds": seconds} for kind, (amount, seconds) in policies.items()
    ]
    return {key: rule for key, rule in scaling_rules.items() if rule not in (None, [])}


CASES = [
    Case("cpu-utilization", [resource("cpu", utilization(50))], Cpu(0.5)),
    Case("cpu-average", [resource("cpu", average("300m"))], Cpu(0.3)),
    Case("cpu-slow-start", [resource("cpu", utilization(50))], Cpu(0.5), start_up_time="5500ms"),
    Case(
        "cpu-behavior",
        [resource("cpu", utilization(50))],
        Cpu(0.5),
        behavior={"scaleUp": rules(Pods=(2, 6)), "scaleDown": rules(window=2, Percent=(30, 6))},
    ),
    Case("memory-average", [resource("memory", average("1Gi"))], Cpu(2.0**30 + 333, resource="memory")),
    Case(
        "container",
        [resource("cpu", utilization(50), container="worker")],
        Cpu(0.5, container="worker"),
        containers=("app", "worker"),
    ),
    Case(
        "container-average",
        [resource("cpu", average("250m"), container="app")],
        Cpu(0.25, container="app"),
        containers=("app", "worker"),
        behavior={"scaleDown": rules(window=0)},
    ),
    Case("pods", [pods("rps", average("10"), verb="GET")], per_pod("rps", 10.0, verb="GET")),
    Case(
        "pods-window-up",
        [pods("jobs", average("2500m"))],
        per_pod("jobs", 2.5),
        behavior={"scaleUp": rules(window=6, Percent=(100, 10)), "scaleDown": rules(window=6, Pods=(1, 2))},
    ),
    Case("service-average", [of_object("rps", average("7"))], by_level("rps", 7.0, "services", "front")),
    Case(
        "ingress-value",
        [of_object("ms", value("200"), kind="Ingress", api_version="networking.k8s.io/v1", route="a")],
        both(
            by_ratio("ms", 200.0, "ingresses.networking.k8s.io", "front", route="a"),
            by_ratio("ms", 999.0, "ingresses.networking.k8s.io", "front", route="b"),
        ),
    ),
    Case(
        "namespace-value",
        [of_object("backlog", value("40"), kind="Namespace", name="whatever")],
        by_ratio("backlog", 40.0, "namespaces", None),
        behavior={"scaleUp": rules("Min", Pods=(1, 6), Percent=(50, 6)), "scaleDown": rules("Disabled")},
    ),
    Case("external-value", [external("wait", value("30"))], by_ratio("wait", 30.0)),
    Case(
        "external-average",
        [external("queue", average("6"), name="orders")],
        both(
            by_level("queue", 4.0, name="orders", shard="0"),
            by_level("queue", 2.0, name="orders", shard="1"),
            by_level("queue", 90.0, name="mails", shard="0"),
        ),
        behavior={"scaleDown": rules("Min", window=2, Pods=(1, 2), Percent=(50, 2))},
    ),
    Case(
        "to-zero",
        [external("jobs", average("5"))],
        lambda plant, namespace, _, step: plant.set_external_metric(
            namespace, "jobs", 0 if step.level < 1 else step.level * 5
        ),
        bounds=(0, 10),
    ),
    Case(
        "tolerance",
        [resource("cpu", utilization(50))],
        Cpu(0.5),
        behavior={"scaleUp": rules(tolerance="0.5"), "scaleDown": rules(tolerance="0.02", window=2)},
    ),
    Case(
        "two-metrics",
        [resource("cpu", utilization(50)), external("nowhere", average("5"))],
        Cpu(0.5),
    ),
    Case(
        "two-that-work",
        [resource("cpu", utilization(50)), pods("rps", average("10"))],
        both(Cpu(0.4), per_pod("rps", 10.0)),
    ),
    Case("never-ready", [external("wait", value("30"))], by_ratio("wait", 30.0), held=True, replicas=3),
    Case("never-ready-cpu", [resource("cpu", utilization(50))], Cpu(0.5), held=True),
    Case("above", [pods("rps", average("10"))], per_pod("rps", 10.0), bounds=(3, 6), replicas=8),
]

# Levels at which one number of pods alone is right, tolerance and all: whoever was in motion ends where the other is.
LEVELS = (0.45, 1.4, 2.4, 3.35, 4.45, 6.7, 8.85)
FIRST = Step("settled", level=2.0, ratio=1.0, ticks=2)
SCRIPT = [
    Step("rise", level=4.45, ratio=1.6, ticks=4),
    Step("pods gone and unready", level=4.45, ratio=1.04, ticks=3, trouble=True),
    Step("higher, a pod silent", level=6.7, ratio=1.2, ticks=3, silent=True),
    Step("no metrics", level=2.4, ratio=0.5, ticks=2, silent=True, broken=True),
    Step("fall", level=2.4, ratio=0.5, ticks=4),
    Step("nearly nothing", level=0.45, ratio=0.5, ticks=4),
]
# How many more scripts of as many steps are drawn: `CRONHPA_DIFFERENTIAL_ROUNDS=10 make test ARGS=...` looks further.
MORE_ROUNDS = int(os.environ.get("CRONHPA_DIFFERENTIAL_ROUNDS", "0"))


def drawn_steps(seed):
    """A script of random levels and troubles, the same for each seed."""
    draw = random.Random(seed)
    for number in range(len(SCRIPT)):
        trouble, silent, broken = (draw.random() < 0.25 for _ in range(3))
        yield Step(
            f"{seed}.{number}",
            level=draw.choice(LEVELS),
            ratio=draw.choice((0.5, 0.7, 1.04, 1.3, 1.6)),
            ticks=draw.randint(3, 5),
            trouble=trouble,
            silent=silent,
            broken=broken,
        )


@pytest.fixture(scope="module")
def plane():
    options = [
        f"--horizontal-pod-autoscaler-downscale-stabilization={STABILIZATION}s",
        f"--horizontal-pod-autoscaler-cpu-initialization-period={INITIALIZATION}s",
        f"--horizontal-pod-autoscaler-initial-readiness-delay={READINESS_DELAY}s",
    ]
    with ControlPlane(hpa=True, hpa_sync_period=f"{PERIOD}s", hpa_options=options, audit=True) as plane:
        plane.install_chart()
        yield plane


@pytest.fixture(scope="module")
def quick_operator(plane, tmp_path_factory):
    kubeconfig = plane.service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT)
    settings = {
        "sync_period": f"{PERIOD}s",
        "downscale_stabilization": f"{STABILIZATION}s",
        "cpu_initialization_period": f"{INITIALIZATION}s",
        "initial_readiness_delay": f"{READINESS_DELAY}s",
    }
    with Operator(kubeconfig, tmp_path_factory.mktemp("operator"), **settings) as operator:
        yield operator


@pytest.mark.long
def test_twins_scale_alike(plane, quick_operator, record_property):
    """The clocks may explain a tick in ten. They had to explain none of 422 on a machine with nothing else to do."""
    script = [FIRST, *SCRIPT, *(step for seed in range(MORE_ROUNDS) for step in drawn_steps(seed))]
    with Plant(plane.admin_kubeconfig, window=SECOND // 4, delay=0) as plant:
        twins = run(plane, plant, CASES, script, prefix=f"twins-{secrets.token_hex(2)}", period=PERIOD)

    comparison = compare(twins, CLOCKS)

    record_property("told", f"differential test: {comparison}")
    assert [] == comparison.unexplained
    assert comparison.exact >= len(CASES) * sum(step.ticks for step in script[1:]) * 0.9
    assert comparison.allowed.total() <= 0.1 * comparison.exact
    assert comparison.statuses >= len(CASES) * len(SCRIPT)
    assert "Traceback" not in quick_operator.log.read_text()
