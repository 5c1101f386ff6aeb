"""`cronhpa replay`: decides recorded reconciliations again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cronhpa.cli.lines import say, show


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Records from the operator's log, one JSON line each.", exists=True, dir_okay=False
        ),
    ],
) -> None:
    """
    Decide recorded reconciliations again, and print each decision as a line of JSON.

    The operator logs a record when a decision raises an error. Exit code 1 if a line is no record or fails again.
    """
    import msgspec

    from cronhpa.core.decide import decide
    from cronhpa.core.record import decode

    failed = False
    for number, line in enumerate(file.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = decode(line)
            decision = decide(record.spec, record.observation, record.forecast, record.memory, record.now)
        except Exception as error:  # noqa: BLE001 - a replay shows whatever error a decision raises
            failed = True
            say(f"{file}:{number}: {type(error).__name__}: {error}", err=True)
            continue
        show(msgspec.json.encode(decision).decode())
    raise typer.Exit(int(failed))
