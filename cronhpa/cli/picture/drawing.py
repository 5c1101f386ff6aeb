"""The check that all drawing commands share. It does not load matplotlib's drawing code."""

from __future__ import annotations

from pathlib import Path

import typer

from cronhpa.cli.terminal.console import complain


def check_picture(path: Path, command: str) -> None:
    """Refuses a picture that cannot be drawn, before the command reads anything."""
    if path.suffix not in {".svg", ".png"}:
        raise typer.BadParameter(f'"{path}" must end in .svg or .png', param_hint="--picture")
    try:
        import matplotlib as mpl  # noqa: F401 - the question is whether it is there
    except ImportError as error:
        missing = "a picture is drawn by matplotlib, which is not installed: pip install 'cronhpa[plot]'"
        complain(command, missing)
        raise typer.Exit(1) from error
