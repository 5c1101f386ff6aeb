"""
`cronhpa adopt`: a live HorizontalPodAutoscaler becomes a CronHPA, and back.

The successor is active before the predecessor is deleted. The operator holds while an HPA scales the target, so both
never act for longer than a watch takes. Wherever the command is cut off, one of the two goes on acting, and running it
again finishes. If the successor does not decide, the command puts the predecessor back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from cronhpa.api.identity import API_VERSION, PLURAL
from cronhpa.cli.objects.adoption import (
    Edited,
    Stopped,
    as_new,
    conditions,
    converted,
    has_lost_its_metric,
    missing,
    must_be_unedited,
    must_be_within,
    must_fit,
    target,
    until_it_acts,
    until_it_agrees,
    until_the_hpa_acts,
    until_the_hpa_scales,
    version_of,
    where_they_differ,
)
from cronhpa.cli.objects.adoption_plan import Plan, served_without, show_plan
from cronhpa.cli.objects.cluster import AllNamespaces, Context, Kubeconfig, Namespace, connected
from cronhpa.cli.objects.object_names import adoptable_names
from cronhpa.cli.terminal.console import fail, say

if TYPE_CHECKING:
    from cronhpa.kube.client import Client
    from cronhpa.migration.documents.document import Note

Json = dict[str, Any]

_POLL_SECONDS = 0.5
_PERIOD_SECONDS = 15
_NOT_FOUND, _CONFLICT = 404, 409


def adopt(  # noqa: PLR0913, PLR0917 - the options of a command
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of the HorizontalPodAutoscaler, and of the CronHPA. With --dry-run: all of them.",
            autocompletion=adoptable_names,
        ),
    ] = None,
    namespace: Namespace = None,
    everywhere: AllNamespaces = False,
    every: Annotated[bool, typer.Option("--all", help="Adopt each HPA of the namespace.")] = False,
    pause: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="With --all: time from the end of one to the begin of the next."),
    ] = 30,
    back: Annotated[bool, typer.Option("--back", help="Convert the CronHPA back to an HPA.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show and check the steps, without a change.")] = False,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="Time to wait for each of the two controllers.")
    ] = 120,
    watch: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="How long both must agree, and how long the CronHPA is watched after that. Default: two sync periods, "
            "30 unless the CronHPA has its own.",
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Move a live HorizontalPodAutoscaler over to CronHPA without a change of replicas, or back.

    The command creates the CronHPA while the HPA still acts; the operator decides and does not scale. Once both have
    had their metrics and decided the same for two sync periods, the command deletes the HPA. It watches the CronHPA as
    long again: if a metric goes, or the CronHPA is not Ready any more, it puts the HPA back as it was. If it is
    interrupted, one of the two goes on acting; run it again to finish.

    The command refuses an HPA whose metrics end with it: see docs/migrating.md.

    The memory of an HPA's controller cannot be read, so the first scale-down of the CronHPA may come later than the
    HPA's, not earlier; the periods of rate policies start anew.

    With --all it prints the plan, then adopts one HPA after the other. After each pause it looks at the last one again,
    and it stops at the first that does not behave. Run it again to go on. An HPA that the plan refuses is left.

    You need the rights to get, create and delete both kinds in the namespace.

        cronhpa adopt -A --dry-run
        cronhpa adopt shop -n prod
        cronhpa adopt -n prod --all --pause 60
        cronhpa adopt shop -n prod --back

    Exit codes: 0 done; 1 it stopped and printed the reason; the HPA acts as before unless the message says otherwise;
    with --all also if an HPA was left; 2 an option is wrong.
    """
    from cronhpa.kube.errors import ClusterError
    from cronhpa.migration.documents.document import Unconvertible

    if every and (name is not None or everywhere or back):
        raise typer.BadParameter("--all takes neither a name nor -A nor --back: name a namespace with -n")
    if name is None and (back or not (dry_run or every)):
        raise typer.BadParameter("name an HPA, or give --all, or --dry-run for the plan of all")
    if name is not None and everywhere:
        raise typer.BadParameter("a name and -A: name a namespace with -n")

    async def move() -> None:
        async with connected(kubeconfig, context, namespace) as cluster:
            if name is None:
                plan = await show_plan(cluster.client, None if everywhere else cluster.namespace, time.time_ns())
                if every and not dry_run:
                    places = [_Place(cluster.client, cluster.namespace, one, timeout) for one in plan.adoptable]
                    await _all_to_cron_hpas(places, plan, watch_seconds=watch, pause_seconds=pause)
                return
            place = _Place(cluster.client, cluster.namespace, name, timeout)
            if back:
                await _to_hpa(place, dry_run=dry_run)
            else:
                await _to_cron_hpa(place, watch_seconds=watch, dry_run=dry_run)

    try:
        asyncio.run(move())
    except (ClusterError, Stopped) as error:
        fail("adopt", error)
    except Unconvertible as refusal:
        fail("adopt", f"{refusal.path}: {refusal.finding}: {refusal.meaning}")


class _Place:
    """The HPA and the CronHPA of one name in a namespace."""

    def __init__(self, client: Client, namespace: str, name: str, timeout_seconds: float) -> None:
        self.client, self.namespace, self.name = client, namespace, name
        self.hpas = f"/apis/autoscaling/v2/namespaces/{quote(namespace, safe='')}/horizontalpodautoscalers"
        self.cron_hpas = f"/apis/{API_VERSION}/namespaces/{quote(namespace, safe='')}/{PLURAL}"
        self.timeout_seconds = timeout_seconds

    async def read(self, collection: str) -> Json | None:
        """The object of this name; None where there is none."""
        from cronhpa.kube.errors import ClusterError

        try:
            body: Json = await self.client.get(f"{collection}/{quote(self.name, safe='')}", dict)
        except ClusterError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return body

    async def both(self) -> tuple[Json | None, Json | None]:
        return await self.read(self.hpas), await self.read(self.cron_hpas)

    async def check(self, collection: str, manifest: Json) -> None:
        """Raises ClusterError if the API server would refuse the object."""
        await self.client.post(collection, manifest, {"dryRun": "All", "fieldValidation": "Strict"})

    async def create(self, collection: str, manifest: Json) -> None:
        await self.client.post(collection, manifest)

    async def delete(self, collection: str, expected: Json) -> None:
        """
        Deletes this object as it was seen, and nothing that it owns.

        Raises Edited, and deletes nothing, if anything but its status changed since, or another object has its name.
        """
        from cronhpa.kube.errors import ClusterError

        deadline = time.monotonic() + self.timeout_seconds
        while True:
            latest = await self.read(collection)
            must_be_unedited(expected, latest)
            options = {"propagationPolicy": "Orphan", "preconditions": version_of(latest or expected)}
            try:
                await self.client.delete(f"{collection}/{quote(self.name, safe='')}", options)
            except ClusterError as error:
                # Somebody wrote after the read: perhaps the controller, to the status.
                if error.status != _CONFLICT or time.monotonic() > deadline:
                    raise
            else:
                break
        await self.wait(lambda hpa, chpa: missing(hpa if collection == self.hpas else chpa))

    async def wait(
        self,
        awaited: Callable[[Json | None, Json | None], str | None],
        *,
        for_seconds: float = 0,
        hopeless: Callable[[Json | None], bool] | None = None,
    ) -> None:
        """
        Waits until `awaited` has returned None for for_seconds on end; else it returns what is missing.

        Raises Stopped with what is missing when time is up. With `hopeless` also at once, if it is true of the CronHPA,
        or if something is missing again while for_seconds pass; an API server that does not answer is then waited for.
        """
        from cronhpa.kube.errors import ClusterError

        deadline = time.monotonic() + self.timeout_seconds
        since: float | None = None
        while True:
            now = time.monotonic()
            try:
                hpa, chpa = await self.both()
            except ClusterError:
                if hopeless is None or now > deadline:
                    raise
                await asyncio.sleep(_POLL_SECONDS)
                continue
            absent = awaited(hpa, chpa)
            if absent is None:
                since = now if since is None else since
                if now - since >= for_seconds:
                    return
            elif hopeless is not None and (since is not None or hopeless(chpa)):
                raise Stopped(absent)
            elif now > deadline:
                raise Stopped(f"waited {self.timeout_seconds:.0f} s in vain: {absent}; run it again to go on")
            else:
                since = None
            await asyncio.sleep(_POLL_SECONDS)


async def _to_cron_hpa(place: _Place, *, watch_seconds: float | None, dry_run: bool, is_of_many: bool = False) -> None:
    """is_of_many: without the manifest on the standard output, which has the plan of all."""
    hpa, chpa = await place.both()
    if hpa is None and chpa is None:
        raise Stopped(f"there is neither an HPA nor a CronHPA {place.name} in namespace {place.namespace}")
    if hpa is None:
        if dry_run:
            _say([f"the HPA is gone and CronHPA {place.name} is there: nothing is left to do"])
            return
        await place.wait(until_it_acts)
    else:
        manifest = converted(hpa, time.time_ns(), await served_without(place.client, hpa))
        if chpa is None:
            await place.check(place.cron_hpas, manifest)
        else:
            must_fit(hpa, chpa)
        if chpa is None and not is_of_many:
            _show(manifest)
        _say(_plan(place, hpa, chpa, manifest))
        if dry_run:
            return
        if chpa is None:
            await place.create(place.cron_hpas, manifest)
            _say(["created the CronHPA"])
        watch_seconds = watch_seconds or 2.0 * ((chpa or manifest)["spec"].get("syncPeriodSeconds") or _PERIOD_SECONDS)
        await place.wait(until_it_agrees, for_seconds=watch_seconds)
        _say([f"both have their metrics and have decided the same for {watch_seconds:.0f} s; the CronHPA holds"])
        await _replace(place, hpa, watch_seconds, was_there=chpa is not None)
    _say([f"CronHPA {place.name} acts. Take the HPA out of where it is applied from, or it comes back."])


async def _all_to_cron_hpas(
    places: Sequence[_Place], plan: Plan, *, watch_seconds: float | None, pause_seconds: float
) -> None:
    """Adopts one after the other. Raises Stopped with the count of those that are done."""
    from cronhpa.kube.errors import ClusterError
    from cronhpa.migration.documents.document import Unconvertible

    if plan.adopted:
        _say([f"CronHPAs already: {', '.join(plan.adopted)}"])
    done, at = 0, ""
    try:
        for number, place in enumerate(places):
            if number:
                _say([f"pause of {pause_seconds:g} s, then {place.name}, {number + 1} of {len(places)}"])
                await asyncio.sleep(pause_seconds)
                await _must_still_act(places[number - 1])
            at = place.name
            await _to_cron_hpa(place, watch_seconds=watch_seconds, dry_run=False, is_of_many=True)
            done += 1
    except (ClusterError, Stopped, Unconvertible) as reason:
        raise Stopped(f"{at}: {reason}; {done} of {len(places)} are adopted: run it again to go on") from reason
    except asyncio.CancelledError:
        _say([f"interrupted at {at}; {done} of {len(places)} are adopted: run it again to go on"])
        raise
    _say([f"{done} of {len(places)} are adopted"])
    if plan.refused:
        raise Stopped(f"left, as the plan says why: {', '.join(plan.refused)}")


async def _must_still_act(place: _Place) -> None:
    """Raises Stopped if an object that was adopted does not decide any more."""
    problem = until_it_acts(*await place.both())
    if problem is not None:
        raise Stopped(f"{place.name} was adopted and does not decide any more: {problem}")


async def _replace(place: _Place, hpa: Json, watch_seconds: float, *, was_there: bool) -> None:
    """
    Deletes the HPA and watches the CronHPA. If the CronHPA does not decide, puts the HPA back and raises Stopped.

    was_there: whether the CronHPA was there before this command; one that was not is then deleted again.
    """
    from cronhpa.kube.errors import ClusterError

    try:
        await place.delete(place.hpas, hpa)
        _say(["deleted the HPA"])
        await place.wait(until_it_acts, for_seconds=watch_seconds, hopeless=has_lost_its_metric)
    except Edited:
        # The CronHPA has the HPA's spec of before the edit. It goes, or the next run would keep it.
        await _take_back(place, was_there=was_there)
        raise
    except (ClusterError, Stopped) as reason:
        cause = reason
    else:
        return
    await _put_back(place, hpa, cause)
    await place.wait(until_the_hpa_acts)
    await _take_back(place, was_there=was_there)
    raise Stopped(f"{cause}; so the HPA is back as it was, and no replica was changed")


async def _take_back(place: _Place, *, was_there: bool) -> None:
    """Deletes the CronHPA, unless it was there before."""
    chpa = await place.read(place.cron_hpas)
    if chpa is not None and not was_there:
        await place.delete(place.cron_hpas, chpa)


async def _put_back(place: _Place, hpa: Json, cause: Exception) -> None:
    """Creates the HPA again, and retries. When time is up, prints the manifest to create and raises Stopped."""
    from cronhpa.kube.errors import ClusterError

    deadline = time.monotonic() + place.timeout_seconds
    while True:
        try:
            await place.create(place.hpas, as_new(hpa))
        except ClusterError as error:
            if error.status == _CONFLICT:
                return  # it was never gone, or somebody else was faster
            if time.monotonic() > deadline:
                _show(as_new(hpa))
                raise Stopped(
                    f"{cause}; the HPA could not be put back ({error}): create it by hand as it is shown; until then "
                    "the CronHPA holds the replicas where they are"
                ) from error
            await asyncio.sleep(_POLL_SECONDS)
        else:
            _say(["put the HPA back"])
            return


async def _to_hpa(place: _Place, *, dry_run: bool) -> None:
    from cronhpa.migration.back import to_hpa
    from cronhpa.migration.documents.document import FieldReader

    hpa, chpa = await place.both()
    if chpa is None:
        raise Stopped(
            f"there is no CronHPA {place.name} in namespace {place.namespace}"
            + ("; the HPA is there, so nothing is left to do" if hpa else "")
        )
    notes: list[Note] = []
    manifest = to_hpa(FieldReader(chpa, f"CronHPA/{place.name}", notes))
    must_be_within(manifest, chpa)
    if hpa is None:
        await place.check(place.hpas, manifest)
    else:
        must_fit(hpa, chpa)
    lost = [f"  lost: {path}: {finding}: {meaning}" for path, finding, meaning in notes]
    _say([f"{place.namespace}/{place.name}: CronHPA to HorizontalPodAutoscaler", *lost, *_steps(hpa, "HPA", "CronHPA")])
    _show(manifest if hpa is None else None)
    if dry_run:
        return
    if hpa is None:
        await place.create(place.hpas, manifest)
        _say(["created the HPA"])
    try:
        await place.wait(until_the_hpa_scales)
    except Stopped as reason:
        if hpa is None and await _went_again(place):
            raise Stopped(f"{reason}; so the HPA is deleted again, and the CronHPA acts as before") from reason
        raise
    _say(["the HPA has looked at its target, and the CronHPA holds"])
    await place.delete(place.cron_hpas, chpa)
    _say(["deleted the CronHPA. Take it out of where it is applied from, or it comes back."])


async def _went_again(place: _Place) -> bool:
    """Deletes the HPA if the CronHPA holds because of it: nothing would scale the target. Tells whether it did."""
    hpa, chpa = await place.both()
    if hpa is None or chpa is None or conditions(chpa).get("TargetOwned", {}).get("status") != "False":
        return False
    await place.delete(place.hpas, hpa)
    return True


# --- output ------------------------------------------------------------------------------------------------------


def _plan(place: _Place, hpa: Json, chpa: Json | None, manifest: Json) -> list[str]:
    spec, status = manifest["spec"], hpa.get("status") or {}
    bounds = f"{spec['minReplicas']} to {spec['maxReplicas']} replicas, {status.get('currentReplicas', '?')} now"
    return [
        f"{place.namespace}/{place.name}: HorizontalPodAutoscaler to CronHPA, {target(hpa)}, {bounds}",
        *([] if chpa is None else where_they_differ(manifest, chpa)),
        *_steps(chpa, "CronHPA", "HPA"),
    ]


def _steps(there: Json | None, successor: str, predecessor: str) -> list[str]:
    return [
        f"  1. {'keep' if there else 'create'} the {successor}" + (", which is there already" if there else ""),
        "  2. wait until it has looked at the target, and only one of the two acts",
        f"  3. delete the {predecessor}, and nothing else with it",
        *(["  4. watch the CronHPA, and put the HPA back if it does not decide"] if predecessor == "HPA" else []),
    ]


def _show(manifest: Json | None) -> None:
    from cronhpa.cli.objects.yaml_documents import as_yaml

    if manifest is not None:
        typer.echo(as_yaml((manifest,)), nl=False)


def _say(lines: list[str]) -> None:
    """On stderr: the standard output has the manifest alone."""
    for line in lines:
        say(line, err=True)
