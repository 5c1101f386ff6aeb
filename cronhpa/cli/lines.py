"""What a command prints. Names and messages are a tenant's: a terminal shows them and obeys nothing in them."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import NoReturn

import typer

from cronhpa.core.printable import printable

_PLUGIN = "kubectl-"


def program() -> str:
    """The program as it was called: `kubectl cronhpa` for kubectl's plugin, else `cronhpa`."""
    return "kubectl cronhpa" if PurePath(sys.argv[0]).name.startswith(_PLUGIN) else "cronhpa"


def say(text: object, *, err: bool = False) -> None:
    """A line for people; further lines of it are indented, so that none looks like a line of ours."""
    typer.echo("\n  ".join(printable(line) for line in str(text).split("\n")), err=err)


def complain(command: str, problem: object) -> None:
    """What is wrong, on stderr, behind the program and the command that says so."""
    say(f"{program()} {command}: {problem}", err=True)


def fail(command: str, problem: object, *, code: int = 1) -> NoReturn:
    """Ends a command with what is wrong."""
    complain(command, problem)
    raise typer.Exit(code)


def show(text: str) -> None:
    """A block, such as JSON, with its lines as they are."""
    typer.echo(shown(text))


def shown(text: str) -> str:
    """A text of several lines, each of them printable."""
    return "\n".join(printable(line) for line in text.split("\n"))
