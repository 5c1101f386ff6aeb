"""`cronhpa crd`: the CustomResourceDefinitions, from the models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

_OLDEST, _FIRST_WITH_LENGTHS = 30, 34
"""Minor versions of Kubernetes."""


def crd(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.", dir_okay=False)
    ] = None,
    kubernetes: Annotated[
        str,
        typer.Option(help="Version of the API server, such as 1.30; before 1.34 its text differs.", metavar="VERSION"),
    ] = "1.34",
    kind: Annotated[
        str | None,
        typer.Option(help="Of this kind alone: CronHPA, PlannedEvent or ClusterPlannedEvent.", metavar="KIND"),
    ] = None,
) -> None:
    """
    Print the CustomResourceDefinitions of CronHPA, PlannedEvent and ClusterPlannedEvent.

        cronhpa crd | kubectl apply -f -

    API servers of Kubernetes 1.30 to 1.33 need --kubernetes 1.30: they cannot check quantities by a rule, so a pattern
    checks them.

    Exit codes: 0 done; 1 the file cannot be written; 2 an option is wrong.
    """
    from cronhpa.api.crd import KINDS, crd_text, crd_texts

    version = re.fullmatch(r"v?1\.(\d{1,3})(\..*)?", kubernetes)
    if not version or int(version[1]) < _OLDEST:
        raise typer.BadParameter(
            f'found "{kubernetes}"; accepted are versions from 1.{_OLDEST} on, such as 1.{_OLDEST} or 1.34',
            param_hint="--kubernetes",
        )
    kinds = [one for one in KINDS if kind is None or one.kind.lower() == kind.lower()]
    if not kinds:
        accepted = ", ".join(one.kind for one in KINDS)
        raise typer.BadParameter(f'found "{kind}"; accepted are {accepted}', param_hint="--kind")
    is_older = int(version[1]) < _FIRST_WITH_LENGTHS
    text = crd_texts(before_1_34=is_older) if kind is None else crd_text(kinds[0], before_1_34=is_older)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
