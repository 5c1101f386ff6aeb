"""What a command prints. Names and messages are a tenant's: a terminal shows them and obeys nothing in them."""

from __future__ import annotations

import typer

from cronhpa.core.printable import printable


def say(text: object, *, err: bool = False) -> None:
    """A line for people; further lines of it are indented, so that none looks like a line of ours."""
    typer.echo("\n  ".join(printable(line) for line in str(text).split("\n")), err=err)


def show(text: str) -> None:
    """A block, such as JSON, with its lines as they are."""
    typer.echo(shown(text))


def shown(text: str) -> str:
    """A text of several lines, each of them printable."""
    return "\n".join(printable(line) for line in text.split("\n"))
