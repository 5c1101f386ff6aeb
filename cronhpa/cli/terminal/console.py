"""Output of commands. Names and messages are tenants' texts: a terminal must show them and obey nothing in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import NoReturn

import typer

from cronhpa.core.model.printable import printable

_PLUGIN = "kubectl-"


def program() -> str:
    """The program as it was called: `kubectl cronhpa` for kubectl's plugin, else `cronhpa`."""
    return "kubectl cronhpa" if PurePath(sys.argv[0]).name.startswith(_PLUGIN) else "cronhpa"


def say(text: object, *, err: bool = False) -> None:
    """Prints a text for people; its further lines are indented, so that none looks like a line of our own."""
    typer.echo("\n  ".join(printable(line) for line in str(text).split("\n")), err=err)


def complain(command: str, problem: object) -> None:
    """Prints a problem on stderr, after the program and the command."""
    say(f"{program()} {command}: {problem}", err=True)


def fail(command: str, problem: object, *, code: int = 1) -> NoReturn:
    """Prints a problem and ends the command."""
    complain(command, problem)
    raise typer.Exit(code)


def is_coloured() -> bool:
    """Whether standard output shows colours: a terminal, without NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str | None = None, *, bold: bool = False) -> None:
    """Prints a line that is printable already, coloured where colours are shown."""
    typer.echo(typer.style(text, fg=colour, bold=bold) if is_coloured() else text)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def show(text: str) -> None:
    """Prints a block, such as JSON, with its lines as they are."""
    typer.echo(shown(text))


def shown(text: str) -> str:
    """A text of several lines, each of them printable."""
    return "\n".join(printable(line) for line in text.split("\n"))
