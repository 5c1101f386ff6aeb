"""`cronhpa create`: a CronHPA from a few options, as `kubectl autoscale` makes an HPA."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cronhpa.api.identity import API_VERSION, GROUP, KIND, PLURAL, VERSION
from cronhpa.cli.objects.cluster import Context, Kubeconfig, Namespace, connected
from cronhpa.cli.terminal.console import complain, fail, say, show

if TYPE_CHECKING:
    from cronhpa.cli.objects.cluster import ConnectedCluster

Json = dict[str, Any]

# kubectl's short names of the kinds that have a scale without an entry in the chart.
_KINDS = {
    **dict.fromkeys(("deploy", "deployment", "deployments"), ("Deployment", "deployments")),
    **dict.fromkeys(("sts", "statefulset", "statefulsets"), ("StatefulSet", "statefulsets")),
    **dict.fromkeys(("rs", "replicaset", "replicasets"), ("ReplicaSet", "replicasets")),
}
_LOOKED_FOR = ("deploy", "sts")
_SCHEDULE = re.compile(r"(?P<start>.+?) to (?P<end>.+): *(?P<floor>\d+)")
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409


def create(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    target: Annotated[
        str, typer.Argument(metavar="NAME|KIND/NAME", help="The target, such as shop, deploy/shop or sts/db.")
    ],
    maximum: Annotated[int, typer.Option("--max", min=1, help="The most replicas.")],
    minimum: Annotated[int, typer.Option("--min", min=0, help="The least replicas.")] = 1,
    cpu: Annotated[
        int | None, typer.Option(min=1, metavar="PERCENT", help="Average CPU, in percent of the pods' requests.")
    ] = None,
    memory: Annotated[
        int | None, typer.Option(min=1, metavar="PERCENT", help="Average memory, in percent of the pods' requests.")
    ] = None,
    schedule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'CRON to CRON: MIN'",
            help="The least replicas while a window is open, such as '0 8 * * mon-fri to 0 18 * * mon-fri: 5'. "
            "May be given again.",
        ),
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="IANA time zone of the schedules. Default: UTC.")
    ] = None,
    forecast: Annotated[bool, typer.Option("--forecast", help="Raise the replicas ahead of a forecast load.")] = False,
    name: Annotated[str | None, typer.Option(help="Name of the CronHPA. Default: that of the target.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Create it in the cluster instead of printing it.")] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Print a CronHPA as YAML, or create it with --apply.

    The target is looked up in the cluster, if one can be reached; else a NAME is taken for a Deployment. Without --cpu,
    --memory and --schedule it scales by 80 % CPU, as an HPA does.

        cronhpa create shop --min 2 --max 20 --cpu 60
        cronhpa create sts/db --max 5 --schedule '0 8 * * mon-fri to 0 18 * * mon-fri: 3' --time-zone Europe/Berlin
        cronhpa create shop --max 20 --cpu 60 --apply -n prod

    Exit codes: 0 done; 1 the spec would be refused, or the cluster refused it, or has no such target; 2 an option is
    wrong.
    """
    from cronhpa.api.parse import SpecError
    from cronhpa.api.written_spec import written_spec
    from cronhpa.cli.objects.yaml_documents import as_yaml
    from cronhpa.kube.errors import ClusterError

    kind, target_name = _named(target)
    metrics = [_utilization(resource, of) for resource, of in (("cpu", cpu), ("memory", memory)) if of is not None]
    if not metrics and not schedule:
        metrics = [_utilization("cpu", 80)]
    spec: Json = {"scaleTargetRef": None, "minReplicas": minimum, "maxReplicas": maximum}
    spec |= {"metrics": metrics} if metrics else {}
    spec |= {"timeZone": time_zone} if time_zone is not None else {}
    spec |= {"schedules": [_window(index, text) for index, text in enumerate(schedule or (), 1)]} if schedule else {}
    spec |= {"forecast": {}} if forecast else {}
    metadata = {"name": name or target_name, **({} if namespace is None else {"namespace": namespace})}
    body: Json = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}

    async def make() -> None:
        async with connected(kubeconfig, context, namespace) as cluster:
            spec["scaleTargetRef"] = _ref(await _looked_up(cluster, kind, target_name, body), target_name)
            if apply:
                written_spec(body)
                body["metadata"]["namespace"] = cluster.namespace
                await cluster.client.post(f"/apis/{GROUP}/{VERSION}/namespaces/{cluster.namespace}/{PLURAL}", body)

    try:
        try:
            asyncio.run(make())
        except ClusterError as error:
            if apply or error.status == _NOT_FOUND:
                raise
            complain("create", f"{kind or _LOOKED_FOR[0]}/{target_name} was not looked up: {error}")
            spec["scaleTargetRef"] = _ref(kind or _LOOKED_FOR[0], target_name)
        written_spec(body)
    except SpecError as error:
        fail("create", "; ".join(f"{problem.path}: {problem.problem}" for problem in error.problems))
    except ClusterError as error:
        exists = error.status == _CONFLICT
        hint = f"CronHPA {metadata['name']} is there already: leave out --apply, and kubectl apply what it prints"
        fail("create", hint if exists else str(error))
    if apply:
        say(f"cronhpa {body['metadata']['namespace']}/{metadata['name']} created")
    else:
        show(as_yaml((body,)).rstrip("\n"))


def _named(text: str) -> tuple[str, str]:
    """Kind, "" if not stated, and name. Raises BadParameter."""
    word, slash, name = text.rpartition("/")
    if not name or (slash and word.lower() not in _KINDS):
        raise typer.BadParameter(
            f"{text!r}: write NAME, deploy/NAME, sts/NAME or rs/NAME; for another kind change what it prints",
            param_hint="NAME",
        )
    return word.lower(), name


def _ref(kind: str, name: str) -> Json:
    return {"apiVersion": "apps/v1", "kind": _KINDS[kind][0], "name": name}


def _utilization(resource: str, percent: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": resource, "target": target}}


def _window(number: int, text: str) -> Json:
    found = _SCHEDULE.fullmatch(text.strip())
    if found is None:
        example = "'0 8 * * mon-fri to 0 18 * * mon-fri: 5'"
        raise typer.BadParameter(f"{text!r}: write two cron texts and a count: {example}", param_hint="--schedule")
    start, end, floor = found.group("start", "end", "floor")
    return {"name": f"window-{number}", "start": start.strip(), "end": end.strip(), "minReplicas": int(floor)}


async def _looked_up(cluster: ConnectedCluster, kind: str, name: str, body: Json) -> str:
    """
    The kind of the target as the cluster has it; says on stderr what the target lacks.

    Raises ClusterError if there is none, or the cluster cannot be reached.
    """
    from cronhpa.kube.client import path_of
    from cronhpa.kube.errors import ClusterError

    for word in (kind,) if kind else _LOOKED_FOR:
        path = path_of("apis", "apps", "v1", "namespaces", cluster.namespace, _KINDS[word][1], name)
        try:
            found: Json = await cluster.client.get(path, dict)
        except ClusterError as error:
            if error.status == _FORBIDDEN:
                complain("create", f"{word}/{name} was not looked up: {error}")
                return word
            if error.status != _NOT_FOUND:
                raise
            continue
        for line in _lacking(found, body["spec"]):
            complain("create", line)
        return word
    named = f"{kind}/{name}" if kind else f"Deployment or StatefulSet {name}"
    raise ClusterError(
        _NOT_FOUND, "NotFound", f"there is no {named} in namespace {cluster.namespace}; name another one with -n"
    )


def _lacking(target: Json, spec: Json) -> list[str]:
    """What the spec needs and the target does not have."""
    problems = []
    replicas = (target.get("spec") or {}).get("replicas", 1)
    if replicas and not spec["minReplicas"] <= replicas <= spec["maxReplicas"]:
        problems.append(f"{replicas} replicas run, outside of {spec['minReplicas']} to {spec['maxReplicas']}")
    containers = target["spec"]["template"]["spec"]["containers"]
    for metric in spec.get("metrics", ()):
        resource = metric["resource"]["name"]
        bare = [
            one["name"] for one in containers if resource not in ((one.get("resources") or {}).get("requests") or {})
        ]
        if bare:
            named = ", ".join(bare)
            problems.append(
                f"no request for {resource} in container {named}: a percentage of requests needs one in each"
            )
    return problems
