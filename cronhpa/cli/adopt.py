"""
`cronhpa adopt`: a live HorizontalPodAutoscaler becomes a CronHPA, and back.

The successor is made active before the predecessor is deleted. The operator holds while an HPA scales the target, so
two never act at once for longer than a watch takes, and wherever this is cut off, one of the two goes on acting.
Running it again finishes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from cronhpa.api.identity import API_VERSION, PLURAL
from cronhpa.cli.cluster import Context, Kubeconfig, Namespace, NotAllNamespaces, connected
from cronhpa.cli.lines import fail, say
from cronhpa.cli.object_names import adoptable_names

if TYPE_CHECKING:
    from cronhpa.kube.client import Client
    from cronhpa.migration.document import Note

Json = dict[str, Any]

_POLL_SECONDS = 0.5
_NOT_FOUND = 404


def adopt(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of the HorizontalPodAutoscaler, and of the CronHPA.",
            autocompletion=adoptable_names,
        ),
    ],
    namespace: Namespace = None,
    _everywhere: NotAllNamespaces = False,
    back: Annotated[bool, typer.Option("--back", help="Convert the CronHPA back to an HPA.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show and check the steps, without a change.")] = False,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="Time to wait for each of the two controllers.")
    ] = 120,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Move a live HorizontalPodAutoscaler over to CronHPA without a change of replicas, or back.

    The command creates the CronHPA while the HPA still acts; the operator decides and does not scale. Once both decide
    the same, the command deletes the HPA and nothing else. If it is interrupted, one of the two goes on acting; run it
    again to finish.

    The memory of an HPA's controller cannot be read. The CronHPA starts with the current replicas as its
    recommendation, so its first scale-down may come later than the HPA's, not earlier; the periods of rate policies
    start anew.

    You need the rights to get, create and delete both kinds in the namespace.

        cronhpa adopt shop -n prod --dry-run
        cronhpa adopt shop -n prod
        cronhpa adopt shop -n prod --back

    Exit codes: 0 done; 1 it stopped and printed the reason; the HPA acts as before unless the message says otherwise;
    2 an option is wrong.
    """
    from cronhpa.kube.errors import ClusterError
    from cronhpa.migration.document import Unconvertible

    async def move() -> None:
        async with connected(kubeconfig, context, namespace) as cluster:
            place = _Place(cluster.client, cluster.namespace, name, timeout)
            await (_to_hpa if back else _to_cron_hpa)(place, dry_run=dry_run)

    try:
        asyncio.run(move())
    except (ClusterError, _Stopped) as error:
        fail("adopt", error)
    except Unconvertible as refusal:
        fail("adopt", f"{refusal.path}: {refusal.found}: {refusal.meaning}")


class _Stopped(Exception):  # noqa: N818 - a decision, with its reason
    """Why it does not go on."""


class _Place:
    """The two objects of one name in a namespace."""

    def __init__(self, client: Client, namespace: str, name: str, timeout_seconds: float) -> None:
        self.client, self.namespace, self.name = client, namespace, name
        self.hpas = f"/apis/autoscaling/v2/namespaces/{quote(namespace, safe='')}/horizontalpodautoscalers"
        self.cron_hpas = f"/apis/{API_VERSION}/namespaces/{quote(namespace, safe='')}/{PLURAL}"
        self._timeout = timeout_seconds

    async def read(self, collection: str) -> Json | None:
        """The object of this name; None where there is none."""
        from cronhpa.kube.errors import ClusterError

        try:
            found: Json = await self.client.get(f"{collection}/{quote(self.name, safe='')}", dict)
        except ClusterError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return found

    async def both(self) -> tuple[Json | None, Json | None]:
        return await self.read(self.hpas), await self.read(self.cron_hpas)

    async def check(self, collection: str, manifest: Json) -> None:
        """Raises ClusterError where the API server would not take the object."""
        await self.client.post(collection, manifest, {"dryRun": "All", "fieldValidation": "Strict"})

    async def create(self, collection: str, manifest: Json) -> None:
        await self.client.post(collection, manifest)

    async def delete(self, collection: str, found: Json) -> None:
        """Deletes this object, not one that took its name since, and nothing that it owns."""
        options = {"propagationPolicy": "Orphan", "preconditions": {"uid": found["metadata"]["uid"]}}
        await self.client.delete(f"{collection}/{quote(self.name, safe='')}", options)
        await self.wait(lambda hpa, chpa: _missing(hpa if collection == self.hpas else chpa))

    async def wait(self, awaited: Callable[[Json | None, Json | None], str | None]) -> None:
        """Until nothing is awaited of the two any more. Raises _Stopped with what still is when time is up."""
        deadline = time.monotonic() + self._timeout
        while (missing := awaited(*await self.both())) is not None:
            if time.monotonic() > deadline:
                raise _Stopped(f"waited {self._timeout:.0f} s in vain: {missing}; run it again to go on")
            await asyncio.sleep(_POLL_SECONDS)


async def _to_cron_hpa(place: _Place, *, dry_run: bool) -> None:
    hpa, chpa = await place.both()
    if hpa is None and chpa is None:
        raise _Stopped(f"there is neither an HPA nor a CronHPA {place.name} in namespace {place.namespace}")
    if hpa is not None:
        manifest = _converted(hpa)
        if chpa is None:
            await place.check(place.cron_hpas, manifest)
        else:
            _must_fit(hpa, chpa)
        _say(_plan(place, hpa, chpa, manifest))
        if dry_run:
            return
        if chpa is None:
            await place.create(place.cron_hpas, manifest)
            _say(["created the CronHPA"])
        await place.wait(_until_it_agrees)
        _say(["the operator has looked at it, holds, and decides what the HPA decides"])
        await place.delete(place.hpas, hpa)
        _say(["deleted the HPA"])
    elif dry_run:
        _say([f"the HPA is gone and CronHPA {place.name} is there: nothing is left to do"])
        return
    await place.wait(_until_it_acts)
    _say([f"CronHPA {place.name} acts. Take the HPA out of where it is applied from, or it comes back."])


async def _to_hpa(place: _Place, *, dry_run: bool) -> None:
    from cronhpa.migration.back import to_hpa
    from cronhpa.migration.document import FieldReader

    hpa, chpa = await place.both()
    if chpa is None:
        raise _Stopped(
            f"there is no CronHPA {place.name} in namespace {place.namespace}"
            + ("; the HPA is there, so nothing is left to do" if hpa else "")
        )
    notes: list[Note] = []
    manifest = to_hpa(FieldReader(chpa, f"CronHPA/{place.name}", notes))
    _must_be_within(manifest, chpa)
    if hpa is None:
        await place.check(place.hpas, manifest)
    else:
        _must_fit(hpa, chpa)
    lost = [f"  lost: {path}: {found}: {meaning}" for path, found, meaning in notes]
    _say([f"{place.namespace}/{place.name}: CronHPA to HorizontalPodAutoscaler", *lost, *_steps(hpa, "HPA", "CronHPA")])
    _show(manifest if hpa is None else None)
    if dry_run:
        return
    if hpa is None:
        await place.create(place.hpas, manifest)
        _say(["created the HPA"])
    await place.wait(_until_the_hpa_acts)
    _say(["the HPA has looked at its target, and the CronHPA holds"])
    await place.delete(place.cron_hpas, chpa)
    _say(["deleted the CronHPA. Take it out of where it is applied from, or it comes back."])


# --- what must be so ---------------------------------------------------------------------------------------------


def _converted(hpa: Json) -> Json:
    """The CronHPA of a live HPA. Raises _Stopped where there is none, or something would make the HPA again."""
    from cronhpa.migration.convert import Document, convert

    owners = hpa["metadata"].get("ownerReferences") or ()
    if owners:
        named = ", ".join(f"{owner['kind']} {owner['name']}" for owner in owners)
        raise _Stopped(f"{named} made this HPA and would make it again: move that over with `cronhpa convert`")
    found = convert([Document(hpa["metadata"]["name"], hpa)], now=time.time_ns())
    if not found.manifests or found.remarks:
        raise _Stopped("; ".join(str(remark) for remark in found.remarks))
    return found.manifests[0]


def _must_fit(hpa: Json, chpa: Json) -> None:
    """Raises _Stopped where two objects that are both there already do not belong together."""
    one, other = (_target(body) for body in (hpa, chpa))
    if one != other:
        raise _Stopped(f"the HPA scales {one} and the CronHPA {other}: rename one of them")
    if chpa["spec"].get("mode") == "Preview":
        raise _Stopped("the CronHPA is there with mode Preview, which never scales: set spec.mode to Active first")


def _must_be_within(manifest: Json, chpa: Json) -> None:
    """Raises _Stopped where the HPA would jump to one of its bounds at once."""
    current = (chpa.get("status") or {}).get("currentReplicas")
    lowest, highest = manifest["spec"]["minReplicas"], manifest["spec"]["maxReplicas"]
    if current is not None and not lowest <= current <= highest:
        raise _Stopped(
            f"{current} replicas run and the HPA would allow {lowest} to {highest}, so it would jump there: "
            "wait until the window closes, or change minReplicas or maxReplicas first"
        )


def _until_it_agrees(hpa: Json | None, chpa: Json | None) -> str | None:
    """What is missing until the HPA can go."""
    if hpa is None:
        return None
    if chpa is None:
        return "the CronHPA is gone"
    said, wanted = _conditions(chpa), chpa["metadata"]["generation"]
    if (chpa.get("status") or {}).get("observedGeneration") != wanted:
        return "the operator has not looked at the CronHPA: is it running, and is this namespace its own?"
    owned = said.get("TargetOwned", {})
    if owned.get("status") != "False" or hpa["metadata"]["name"] not in owned.get("message", ""):
        return f"the operator does not say that it holds because of the HPA: {owned.get('message')}"
    if said.get("SpecAccepted", {}).get("status") != "True":
        return f"the operator cannot read the spec: {said.get('SpecAccepted', {}).get('message')}"
    if _conditions(hpa).get("ScalingActive", {}).get("status") == "True":
        active = said.get("ScalingActive", {})
        if active.get("status") != "True":
            return f"the HPA has its metrics and the operator has not: {active.get('message')}"
    return _disagreement(hpa, chpa)


def _disagreement(hpa: Json, chpa: Json) -> str | None:
    """Where the two decide differently; with schedules of its own the CronHPA may."""
    if any(chpa["spec"].get(key) for key in ("schedules", "forecast", "override")):
        return None
    one, other = ((body.get("status") or {}).get("desiredReplicas") for body in (hpa, chpa))
    return None if one == other else f"the HPA wants {one} replicas and the CronHPA {other}"


def _until_it_acts(_: Json | None, chpa: Json | None) -> str | None:
    if chpa is None:
        return "the CronHPA is gone, and nothing scales the target"
    owned = _conditions(chpa).get("TargetOwned", {})
    return None if owned.get("status") == "True" else f"the CronHPA does not act yet: {owned.get('message')}"


def _until_the_hpa_acts(hpa: Json | None, chpa: Json | None) -> str | None:
    if hpa is None:
        return "the HPA is gone"
    if "ScalingActive" not in _conditions(hpa):
        return "the HPA has not looked at its target"
    held = None if chpa is None else _conditions(chpa).get("TargetOwned", {})
    if held is None or held.get("status") == "False":
        return None
    return "the CronHPA does not hold: if its operator is gone, delete it by hand with kubectl delete chpa"


def _missing(found: Json | None) -> str | None:
    return None if found is None else f"{found['kind']} {found['metadata']['name']} is still there"


def _conditions(body: Json) -> dict[str, Json]:
    return {item["type"]: item for item in (body.get("status") or {}).get("conditions") or ()}


def _target(body: Json) -> str:
    ref = body["spec"]["scaleTargetRef"]
    return f"{ref['kind']}/{ref['name']}"


# --- what is said ------------------------------------------------------------------------------------------------


def _plan(place: _Place, hpa: Json, chpa: Json | None, manifest: Json) -> list[str]:
    spec, status = manifest["spec"], hpa.get("status") or {}
    bounds = f"{spec['minReplicas']} to {spec['maxReplicas']} replicas, {status.get('currentReplicas', '?')} now"
    _show(manifest if chpa is None else None)
    return [
        f"{place.namespace}/{place.name}: HorizontalPodAutoscaler to CronHPA, {_target(hpa)}, {bounds}",
        *_steps(chpa, "CronHPA", "HPA"),
    ]


def _steps(there: Json | None, successor: str, predecessor: str) -> list[str]:
    return [
        f"  1. {'keep' if there else 'create'} the {successor}" + (", which is there already" if there else ""),
        "  2. wait until it has looked at the target, and only one of the two acts",
        f"  3. delete the {predecessor}, and nothing else with it",
    ]


def _show(manifest: Json | None) -> None:
    from cronhpa.cli.documents import as_yaml

    if manifest is not None:
        typer.echo(as_yaml((manifest,)), nl=False)


def _say(lines: list[str]) -> None:
    """On stderr: the standard output has the manifest alone."""
    for line in lines:
        say(line, err=True)
