"""`cronhpa replay`: decides recorded reconciliations again, from the log or from the operator's kept decisions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from cronhpa.cli.objects.cluster import Context, Kubeconfig, Namespace, NotAllNamespaces
from cronhpa.cli.objects.named import ObjectName, parse_name
from cronhpa.cli.objects.object_names import object_names
from cronhpa.cli.past.past_source import OPERATOR, At, Operator, PastLocation, ServiceAccount, StoreFile, TokenFile
from cronhpa.cli.terminal.console import complain, fail, say, show

# How many differences are printed: more of them mean another algorithm.
_DIFFERENCES_MAX = 20
_NOT_DECIDABLE = 3


def replay(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    subject: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="Records from the operator's log, one JSON line each; with --at the name of a CronHPA object.",
            autocompletion=object_names,
        ),
    ],
    at: At = None,
    namespace: Namespace = None,
    _everywhere: NotAllNamespaces = False,
    store: StoreFile = None,
    operator: Operator = OPERATOR,
    token_file: TokenFile = None,
    service_account: ServiceAccount = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """
    Decide recorded reconciliations again, and print each decision as a line of JSON.

    The operator logs a record when a decision raises an error. With --at, decide again what the operator decided then,
    and say whether it is the same.

        cronhpa replay records.jsonl
        cronhpa replay shop --at "yesterday 08:02"

    Exit codes: 0 done, and the same; 1 a line is no record, its decision raises an error again, or the decision
    differs; 2 an option is wrong; 3 this release cannot decide it again.
    """
    if at is not None:
        where = PastLocation(store, operator, token_file, service_account, kubeconfig, context)
        raise typer.Exit(_replay_past(parse_name(subject, namespace), at, where))
    file = Path(subject)
    if not file.is_file():
        problem = f'"{subject}" is no file: give a file of records, or the name of an object and --at'
        raise typer.BadParameter(problem, param_hint="FILE|NAME")
    raise typer.Exit(_replay_file(file))


def _replay_past(named: ObjectName, at: str, where: PastLocation) -> int:
    import asyncio

    from cronhpa.cli.past.explain_at import PastRequest, check_past, decision_at, find_past_object
    from cronhpa.cli.past.past_of_replicas import PastSourceError
    from cronhpa.cli.past.past_source import opened
    from cronhpa.cli.past.replay_check import NotDecidableError, differences
    from cronhpa.cli.tables.time_format import format_moment
    from cronhpa.history.past.past_answers import DecisionAnswer, change_of
    from cronhpa.kube.errors import ClusterError

    now = time.time_ns()
    check_past(PastRequest(at=at), now)
    found = find_past_object(named, where)

    async def read() -> tuple[DecisionAnswer, str]:
        async with opened(where) as source:
            return await decision_at(source, found, at, now)

    try:
        answer, zone = asyncio.run(read())
    except (PastSourceError, ClusterError) as problem:
        complain("replay", problem)
        return 1
    decided = f"{found.label}, decided {format_moment(answer.decision.at, zone)}"
    try:
        differing = differences(answer.decision)
    except NotDecidableError as problem:
        complain("replay", f"{decided}: {problem}")
        return _NOT_DECIDABLE
    brief = change_of(answer.decision)
    if not differing:
        say(f"{decided}: the same again: {brief.desired} replicas, by {brief.decided_by or 'nobody'}")
        return 0
    say(f"{decided}: {len(differing)} {'field differs' if len(differing) == 1 else 'fields differ'}:")
    for text in differing[:_DIFFERENCES_MAX]:
        say(f"  {text}")
    return 1


def _replay_file(file: Path) -> int:
    import msgspec

    from cronhpa.core.decide import decide
    from cronhpa.core.model.record import Record, decode

    lines = [(number, line) for number, line in enumerate(file.read_bytes().splitlines(), start=1) if line.strip()]
    if not any(_is_json_object(line) for _, line in lines):
        fail(
            "replay",
            f"{file}: no line of it is a record, which is one line of JSON from the operator's log; "
            "a manifest is shown by cronhpa preview FILE",
        )
    is_failed = False
    for number, line in lines:
        record: Record | None = None
        try:
            record = decode(line)
            decision = decide(record.spec, record.observation, record.forecast, record.memory, record.now)
        except Exception as error:  # noqa: BLE001 - a replay shows whatever error a decision raises
            is_failed = True
            what = "no record" if record is None else type(error).__name__
            say(f"{file}:{number}: {what}: {error}", err=True)
            continue
        show(msgspec.json.encode(decision).decode())
    return int(is_failed)


def _is_json_object(line: bytes) -> bool:
    """Whether a line may be meant as a record, even a broken one."""
    return line.lstrip().startswith(b"{") and line.rstrip().endswith(b"}")
