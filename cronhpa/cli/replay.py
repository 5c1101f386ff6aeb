"""`cronhpa replay`: decides recorded reconciliations again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cronhpa.cli.lines import fail, say, show


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

    The operator logs a record when a decision raises an error.

        cronhpa replay records.jsonl

    Exit codes: 0 done; 1 a line is no record, or its decision raises an error again; 2 an option is wrong.
    """
    import msgspec

    from cronhpa.core.decide import decide
    from cronhpa.core.record import Record, decode

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
    raise typer.Exit(int(is_failed))


def _is_json_object(line: bytes) -> bool:
    """Whether it may be meant as a record, however wrong."""
    return line.lstrip().startswith(b"{") and line.rstrip().endswith(b"}")
