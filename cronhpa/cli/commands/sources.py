"""`cronhpa sources`: the operator's file of named sources of metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cronhpa.cli.objects.yaml_documents import STANDARD_INPUT, UnreadableFileError, read_text
from cronhpa.cli.terminal.command_classes import CommandGroup, PlainCommand
from cronhpa.cli.terminal.console import fail, say

app = typer.Typer(
    cls=CommandGroup,
    name="sources",
    no_args_is_help=True,
    help="Sources of metrics that need no adapter: check the operator's file of them.",
    rich_markup_mode="markdown",
)


@app.callback()
def sources() -> None:
    """Sources of metrics that need no adapter: check the operator's file of them."""


@app.command(cls=PlainCommand)
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="YAML with `sources:`; - is standard input.")],
    prometheus_url: Annotated[
        str | None, typer.Option(help="The Prometheus of sources without a url, as CRONHPA_PROMETHEUS_URL.")
    ] = None,
) -> None:
    """
    Check a file of sources as the operator would, without asking any of them.

    Each source goes to standard output, each problem to standard error: FILE:LINE: FIELD: what was found:
    what is accepted.

        cronhpa sources check sources.yaml
        helm get values cronhpa -o yaml | yq '{"sources": .sources}' | cronhpa sources check -

    Exit codes: 0 the operator would use it; 1 it would not; 2 the file is unreadable.
    """
    from cronhpa.sources.parse import SourcesError, parse_sources

    try:
        text = read_text(file)
    except UnreadableFileError as error:
        fail("sources check", error, code=2)
    where = "standard input" if file == STANDARD_INPUT else str(file)
    try:
        definitions = parse_sources(text, where, default_url=prometheus_url)
    except SourcesError as error:
        for problem in error.problems:
            say(problem, err=True)
        raise typer.Exit(1) from None
    for name, definition in sorted(definitions.items()):
        say(f"{name}: type: {definition.metric_type}, {definition.summary}")
