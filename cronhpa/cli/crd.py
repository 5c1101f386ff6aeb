"""`cronhpa crd`: the CustomResourceDefinition, from the models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def crd(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.", dir_okay=False)
    ] = None,
) -> None:
    """
    Print the CustomResourceDefinition of CronHPA.

        cronhpa crd | kubectl apply -f -

    Exit codes: 0 done; 1 the file cannot be written; 2 an option is wrong.
    """
    from cronhpa.api.crd import crd_text

    text = crd_text()
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
