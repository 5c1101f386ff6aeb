"""`cronhpa override`: bounds set by hand for a while, which outrank every schedule and end by themselves."""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import Annotated, Any, NoReturn

import typer
from msgspec import Struct
from msgspec.structs import replace

from cronhpa.api.explained.explanation_text import folded
from cronhpa.api.range_text import range_text
from cronhpa.cli.objects.cluster import (
    Context,
    Kubeconfig,
    Namespace,
    NotAllNamespaces,
    connected,
    path_of_object,
)
from cronhpa.cli.objects.named import label_of, parse_name, read_named
from cronhpa.cli.objects.object_names import OneObject
from cronhpa.cli.objects.stated_options import stated_options
from cronhpa.cli.tables.time_format import format_length, format_moment, parse_length, parse_moment
from cronhpa.cli.terminal.console import complain, fail, say
from cronhpa.core.model.instant import DAY, SECOND, Nanoseconds, format_instant, parse_instant
from cronhpa.core.model.memory import Memory
from cronhpa.core.model.spec import ControllerOptions, Override, Spec
from cronhpa.core.schedules.wall_clock import known_zone

Json = dict[str, Any]
# A longer override is likely to be forgotten; a schedule would be better.
_LONG = 30 * DAY


def override(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    name: OneObject,
    namespace: Namespace = None,
    _everywhere: NotAllNamespaces = False,
    minimum: Annotated[int | None, typer.Option("--min", min=0, help="At least this many replicas.")] = None,
    maximum: Annotated[int | None, typer.Option("--max", min=0, help="At most this many replicas.")] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=0, help="Exactly this many replicas; 0 is allowed.")
    ] = None,
    length: Annotated[
        str | None, typer.Option("--for", metavar="LENGTH", help="Duration, such as 90m, 2h or 1d.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help='End: "18:00" or "2026-11-23T18:00" in the object\'s zone, or with an offset.'
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason, such as the number of an incident.")] = None,
    above_max: Annotated[
        bool, typer.Option("--above-max", help="Allow a bound above maxReplicas of the object.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the override.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the API server check the override, without a change.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Set bounds by hand for a while, above all schedules, or remove them.

    To set an override, give --min, --max or both, or --replicas; --for or --until; and --reason. It is the field
    spec.override, replaces an earlier override and ends by itself. The rate policies of behavior still apply. Without
    options the bounds in force are shown. Settings are those of `cronhpa run`.

    A bound above maxReplicas needs --above-max. It warns of more than twice the current replicas, and of more than 30
    days, before it writes.

        cronhpa override shop -n prod --min 30 --for 2h --reason INC-4711
        cronhpa override prod/shop --min 10 --max 60 --until 18:00 --reason sale
        cronhpa override shop -n prod --clear

    Exit codes: 0 done; 1 the API server refused or could not be reached; 2 an option is wrong.
    """
    from cronhpa.kube.errors import ClusterError

    arguments = _Arguments(minimum, maximum, replicas, length, until, reason)
    if clear and arguments != _Arguments():
        raise typer.BadParameter("an override is either taken back or set", param_hint="--clear")
    if not clear and arguments != _Arguments():
        _check(arguments)

    named = parse_name(name, namespace)
    options = stated_options("override")

    async def act() -> list[str]:
        async with connected(kubeconfig, context, namespace) as cluster:
            before = await read_named(cluster, named)
            now = time.time_ns()
            if clear:
                wanted = None
            elif arguments == _Arguments():
                return _shown(before, now, options)
            else:
                wanted = _wanted(arguments, before, now)
                for remark in remarks(wanted, before, now, options, above_max=above_max):
                    complain("override", f"{label_of(before)}: {remark}")
            after = await cluster.client.merge_patch(
                path_of_object(before["metadata"]["namespace"], before["metadata"]["name"]),
                {"spec": {"override": wanted}},
                dict,
                {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})},
            )
            return _told(before, after, now, options, is_dry=dry_run)

    try:
        lines = asyncio.run(act())
    except ClusterError as error:
        _refuse(name, error)
    for line in lines:
        for part in folded(line, shutil.get_terminal_size().columns):
            say(part)


class _Arguments(Struct, frozen=True):
    """The options that describe an override."""

    minimum: int | None = None
    maximum: int | None = None
    replicas: int | None = None
    length: str | None = None
    until: str | None = None
    reason: str | None = None


def _check(arguments: _Arguments) -> None:
    """Raises BadParameter where the options do not make one override."""
    bounds = (arguments.minimum, arguments.maximum)
    if bounds == (None, None) and arguments.replicas is None:
        raise typer.BadParameter(
            "say what it asks for: one of them, or both bounds", param_hint="--min, --max, --replicas"
        )
    if bounds != (None, None) and arguments.replicas is not None:
        raise typer.BadParameter("it is both bounds at once: leave out --min and --max", param_hint="--replicas")
    if arguments.minimum is not None and arguments.maximum is not None and arguments.minimum > arguments.maximum:
        raise typer.BadParameter(f"{arguments.maximum} is below --min {arguments.minimum}", param_hint="--max")
    if arguments.length is None and arguments.until is None:
        raise typer.BadParameter("an override ends: state one of them", param_hint="--for, --until")
    if arguments.length is not None and arguments.until is not None:
        raise typer.BadParameter("both are given: state one of them", param_hint="--for, --until")
    if arguments.length is not None:
        _length(arguments.length)
    elif arguments.until is not None:
        _must_be_a_time(arguments.until)
    if not arguments.reason:
        raise typer.BadParameter("say why, for whoever finds it", param_hint="--reason")


def _wanted(arguments: _Arguments, body: Json, now: Nanoseconds) -> Json:
    """The field spec.override, with null for each bound that an earlier override may have. Raises BadParameter."""
    if arguments.length is not None:
        end = now + _length(arguments.length)
    else:
        try:
            end = parse_moment(arguments.until or "", body["spec"].get("timeZone") or "UTC", now, is_end=True)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--until") from error
        if end <= now:
            text = f"{format_moment(end, _zone(body))} is past, by {format_length(now - end)}: name a time to come"
            raise typer.BadParameter(text, param_hint="--until")
    return {
        "minReplicas": arguments.minimum,
        "maxReplicas": arguments.maximum,
        "replicas": arguments.replicas,
        "until": format_instant(-(-end // SECOND) * SECOND),
        "reason": arguments.reason,
    }


def _length(text: str) -> Nanoseconds:
    try:
        return parse_length(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error


def _must_be_a_time(text: str) -> None:
    """Raises BadParameter for a text that is a time in no zone: the object's zone is not known yet."""
    try:
        parse_moment(text, "UTC", time.time_ns())
    except ValueError as error:
        message = str(error).replace("local time of UTC", "local time of the object's zone")
        raise typer.BadParameter(message, param_hint="--until") from error


def remarks(
    wanted: Json, body: Json, now: Nanoseconds, options: ControllerOptions = ControllerOptions(), *, above_max: bool
) -> list[str]:
    """
    Warnings of a probable slip, such as 500 typed for 50, or a year for a day.

    Raises BadParameter for a bound above the object's own maximum, unless `above_max`.
    """
    from cronhpa.core.schedules.bounds import resolve

    spec = _parsed(body, options)
    counts = [wanted[key] for key in ("minReplicas", "maxReplicas", "replicas") if wanted[key] is not None]
    allowed = max(spec.max_replicas, resolve(replace(spec, override=None), now).maximum)
    if max(counts) > allowed and not above_max:
        raise typer.BadParameter(
            f"{max(counts)} is above the {allowed} that the object allows: name a smaller number, or add --above-max",
            param_hint="--min, --max, --replicas",
        )
    floor = wanted["minReplicas"] if wanted["replicas"] is None else wanted["replicas"]
    current = (body.get("status") or {}).get("currentReplicas")
    left = parse_instant(wanted["until"]) - now
    warnings = []
    if floor is not None and current is not None and floor > 2 * current:
        warnings.append(f"{floor} is more than twice the {current} replicas that there were when last seen")
    if left > _LONG:
        warnings.append(f"it lasts {format_length(left)}, until {format_moment(now + left, _zone(body))}")
    return warnings


# --- output ------------------------------------------------------------------------------------------------------


def _told(before: Json, after: Json, now: Nanoseconds, options: ControllerOptions, *, is_dry: bool) -> list[str]:
    """The change that was made, and the bounds that follow."""
    old, new = (_parsed(body, options).override for body in (before, after))
    zone, label = _zone(after), label_of(after)
    would = "would be " if is_dry else ""
    lines = []
    if new is not None:
        lines.append(f"{label}: {would}{asks(new, zone, now)}")
        if old is not None:
            lines.append(f"  it replaces: {asks(old, zone, now)}")
    elif old is not None:
        lines.append(f"{label}: {would}taken back: {asks(old, zone, now)}")
    else:
        lines.append(f"{label}: there is no override to take back")
    return [*lines, *in_force(after, now, options)]


def _shown(body: Json, now: Nanoseconds, options: ControllerOptions) -> list[str]:
    """The present override and bounds, for a call without a change."""
    present = _parsed(body, options).override
    text = "no override" if present is None else asks(present, _zone(body), now)
    return [f"{label_of(body)}: {text}", *in_force(body, now, options)]


def asks(override: Override, zone: str, now: Nanoseconds) -> str:
    """What an override asks for, until when, and why."""
    bound = range_text(override.floor, override.cap)
    # As `explain` writes it: in brackets it is not broken over lines.
    left = f"in {format_length(override.until - now)}" if now < override.until else "past"
    return f"{bound} replicas until {format_moment(override.until, zone)} ({left}): {override.reason}"


def in_force(body: Json, now: Nanoseconds, options: ControllerOptions = ControllerOptions()) -> list[str]:
    """The bounds now and after the override, and why they are not acted on, if so."""
    from cronhpa.api.explained.explanation import hidden_sources
    from cronhpa.api.status_memory import parse_memory

    spec, status = _parsed(body, options), body.get("status") or {}
    memory = parse_memory(status)
    current = status.get("currentReplicas")
    current_text = "" if current is None else f"; {current} replicas when last seen"
    lines = [f"  in force now: {_bounds(spec, memory, now)}{current_text}"]
    if spec.override is not None and now < spec.override.until:
        lines.append(f"  from then on: {_bounds(spec, memory, spec.override.until)}")
    if hidden := hidden_sources(spec, status):
        lines.append(f"  without {hidden}, which the operator knows: see its page")
    if spec.mode == "Preview":
        lines.append("  its mode is Preview: it decides and scales nothing")
    lines += [
        f"  {condition['type']} is False: {condition.get('message', '')}"
        for condition in status.get("conditions") or ()
        if condition.get("type") in {"TargetOwned", "SpecAccepted"} and condition.get("status") == "False"
    ]
    return lines


def _bounds(spec: Spec, memory: Memory, at: Nanoseconds) -> str:
    from cronhpa.core.schedules.bounds import resolve

    bounds = resolve(spec, at, memory.lead_start_up(spec), memory.leads, memory.crowd)
    return f"{bounds.minimum} ({bounds.minimum_by}) to {bounds.maximum} ({bounds.maximum_by})"


def _parsed(body: Json, options: ControllerOptions) -> Spec:
    from cronhpa.api.parse import SpecError, parse_spec

    try:
        return parse_spec(body["spec"], body["metadata"]["namespace"], options)
    except SpecError as error:
        fail("override", f"{label_of(body)} cannot be read: {error}")


def _zone(body: Json) -> str:
    return known_zone(body["spec"].get("timeZone"))


def _refuse(label: str, error: Any) -> NoReturn:
    """Prints each refused field on a line of its own, or else the API's message; ends the command."""
    if error.causes:
        complain("override", f"{label}: the API server refused it:")
        for cause in error.causes:
            say(f"  {cause.field}: {cause.message}", err=True)
    else:
        complain("override", error)
    raise typer.Exit(1)
