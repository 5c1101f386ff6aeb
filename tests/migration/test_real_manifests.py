"""
ScaledObjects as people write them: what each means, and which decide without KEDA afterwards.

manifests/keda-real.yaml has them in our own words. They are the first that an index of public repositories names at
common paths (k8s/scaledobject.yaml, scaledobject.yaml, scaled-object.yaml, k8s/keda*.yaml, keda/scaledobject.yaml) and
two of documentation; from r35 on the first of searches for triggers. None is chosen by what converts.
"""

from collections import Counter

import pytest
import yaml

from cronhpa.migration.convert import Document, convert
from migration.reading import MANIFESTS, NOW

# Kinds that the operator reads itself, without an exporter.
BY_ITSELF = {"cpu", "memory", "cron", "prometheus", "predictkube", "metrics-api"}

# Where it was seen, what decides, and the bounds outside of windows.
REAL = {
    "r01": ("57-ajay/suvidhaAutomation", ["redis 6"], (1, 3)),
    "r02": ("Alokxk/Throttle", ["prometheus 0.2"], (2, 6)),
    "r03": ("DemirhanCakir/pdf-merger-api", ["prometheus 10"], (1, 5)),
    "r04": ("Evan-Paillard/Monitoring", ["cpu 60%"], (2, 5)),
    "r05": ("JadsonLucena/LiveEdgeCast", ["prometheus 1"], (0, 100)),
    "r06": ("JasonRyu1991/web_game_project", ["metrics-api 3"], (1, 4)),
    "r07": ("Kindee18/opti-inference-pipeline", ["aws-sqs-queue 5"], (0, 10)),
    "r08": ("LeandroJan/cma-openshift-demo", ["prometheus 1000"], (1, 10)),
    "r09": ("LeetGitPete/agent-shield", ["rabbitmq 140", "rabbitmq 100"], (1, 5)),
    "r10": ("andregorziza/aiops-sre-lab", ["prometheus 1.5"], (1, 5)),
    "r11": ("ecylkk/keda-scaling", ["redis 5"], (0, 10)),
    "r12": ("edgargmaya/fastify-cpu-consumer", ["cpu 50%", "memory 70%"], (2, 20)),
    "r13": ("dysnix/pancakeswap-ifo-scaler", ["cron 12"], (0, 100)),
    "r14": ("aws-samples/keda-amp-scaling", ["prometheus 25"], (1, 30)),
    "r15": ("trixlan/OCP-Custom-Metrics-KEDA", ["prometheus 5"], (1, 10)),
    "r16": ("yusuffranklin/notes-api", ["prometheus 0.05"], (2, 5)),
    "r17": ("umaarlll/fyp-aks-keda", ["azure-servicebus 5"], (0, 10)),
    "r18": ("sanika-i/distributed-cicd-engine", ["kafka 1"], (1, 10)),
    "r19": ("MepCity/pizza-ordering-service", ["prometheus 5"], (1, 5)),
    "r20": ("jandresboyaca/ValidationsOOM", ["prometheus 1000"], (1, 3)),
    "r21": ("Leonid-St/k8s-autoscaling-based-on-predictions", ["prometheus 5"], (1, 5)),
    "r22": ("SimonDelord/keda-config", ["cron 10"], (1, 10)),
    "r23": ("sabbour/keda-vpa-nap", ["prometheus 50"], (2, 100)),
    "r24": ("RubenLopSol/Despliegue-de-Kubernetes-con-Minikube-y-KEDA", ["cpu 3%"], (1, 5)),
    "r25": ("yurymuski/k8s-keda-demo", ["prometheus 5"], (1, 20)),
    "r26": ("RapidAPI/keda-demo", ["kafka 1"], (0, 12)),
    "r27": ("gregorymorenoiem/cardealer-microservices", ["rabbitmq 10", "cpu 60%", "memory 75%"], (1, 6)),
    "r28": ("nicolevanderhoeven/spice-runner", ["prometheus 10", "cpu 30%", "memory 80%"], (1, 150)),
    "r29": ("raulnq/keda-cloudwatch", ["aws-cloudwatch 2"], None),
    "r30": ("meriem-mounchid/Autoscale-NGINX-Ingress-Controller", ["prometheus 100"], (1, 20)),
    "r31": ("wizbit/k8s-scale-zero", ["external-push"], None),
    "r32": ("stheoulle/TP_KUBE", ["cpu 10%", "memory 50%"], (1, 10)),
    "r33": ("predictkube.com quickstart", ["predictkube 2000"], (3, 50)),
    "r34": ("a cron of four days in January", ["cron 4"], (2, 5)),
    "r35": ("Samir-Kesare/DevOps-Optimization", ["prometheus 1100"], (3, 5)),
    "r36": ("magebase/base-infra", ["cpu 65%"], (1, 4)),
    "r37": ("kedacore/keda-docs, a quarter of each hour", ["cron 10"], (0, 100)),
    "r38": ("office hours of Stockholm", ["cron 1"], (0, 3)),
    "r39": ("aws-samples/containers-blog-maelstrom", ["aws-sqs-queue 1"], (0, 2000)),
    "r40": ("a queue by a regular expression", ["rabbitmq 5"], None),
}
ITEMS = {body["metadata"]["name"]: body for body in yaml.safe_load((MANIFESTS / "keda-real.yaml").read_text())["items"]}


def one(name, prometheus=None):
    conversion = convert([Document("in.yaml", ITEMS[name])], now=NOW, prometheus=prometheus)
    return (conversion.manifests[0]["spec"] if conversion.manifests else None), conversion


def kinds(name):
    return {what.split()[0] for what in REAL[name][1]}


def decides(name, spec, conversion):
    """What a converted spec decides by, in the words of the table."""
    out = []
    triggers = [trigger["type"] for trigger in ITEMS[name]["spec"]["triggers"]]
    external = [kind for kind in triggers if kind not in {"cpu", "memory", "cron"}]
    for metric in spec.get("metrics", ()):
        if metric["type"] == "External":
            assert metric["external"]["metric"]["name"] in conversion.sources
            out.append(f"{external.pop(0)} {metric['external']['target']['averageValue']}")
        else:
            target = metric["resource"]["target"]
            out.append(f"{metric['resource']['name']} {target['averageUtilization']}%")
    out += [f"cron {schedule['minReplicas']}" for schedule in spec.get("schedules", ()) if "minReplicas" in schedule]
    return sorted(out)


@pytest.mark.parametrize("name", [name for name, (_, _, bounds) in REAL.items() if bounds])
def test_each_means_what_it_says(name):
    """With the Prometheus of their exporters known. r07 has a placeholder as its queue, which the query then names."""
    _, wanted, bounds = REAL[name]

    spec, conversion = one(name, prometheus="http://prometheus:9090")

    assert sorted(wanted) == decides(name, spec, conversion)
    assert bounds == (spec["minReplicas"], spec["maxReplicas"])


@pytest.mark.parametrize("name", [name for name in REAL if kinds(name) <= BY_ITSELF])
def test_all_of_cron_cpu_memory_prometheus_predictkube_and_metrics_api_decide_without_keda(name):
    _, wanted, bounds = REAL[name]

    spec, conversion = one(name)

    assert sorted(wanted) == decides(name, spec, conversion)
    assert bounds == (spec["minReplicas"], spec["maxReplicas"])
    assert not any("KEDA serves this" in remark.finding for remark in conversion.remarks)


def test_how_many_of_them_decide_without_keda():
    """
    28 by what the operator reads itself (two of these need credentials and one a proxy that signs, as their remarks
    say), one by the cpu and memory that are left of it, and 8 with exporters. Not an expression of CloudWatch, the
    queues of a regular expression, nor the HTTP add-on.
    """
    alone = Counter(one(name)[0] is not None for name in REAL)
    with_exporters = Counter(one(name, prometheus="http://prometheus:9090")[0] is not None for name in REAL)

    assert 40 == len(REAL) == len(ITEMS)
    assert 28 == sum(kinds(name) <= BY_ITSELF for name in REAL)
    assert {True: 29, False: 11} == alone
    assert {True: 37, False: 3} == with_exporters
