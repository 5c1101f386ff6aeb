"""`cronhpa replay`: recorded turns, decided again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cronhpa.cli.lines import say, show


def replay(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Records, one JSON line each.", exists=True, dir_okay=False)
    ],
) -> None:
    """
    Decide recorded turns again, and print each decision as a line of JSON.

    The operator logs a record when a turn cannot be decided. Exit code 1 when a line is no record, or fails again.
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
        except Exception as error:  # noqa: BLE001 - whatever ends a decision is what a replay is there to show
            failed = True
            say(f"{file}:{number}: {type(error).__name__}: {error}", err=True)
            continue
        show(msgspec.json.encode(decision).decode())
    raise typer.Exit(int(failed))
