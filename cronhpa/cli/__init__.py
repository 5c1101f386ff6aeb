"""The command `cronhpa`: thin, each command in a file of its own."""

from __future__ import annotations

import sys

import typer

from cronhpa.cli import adopt, backtest, convert, crd, explain, history, override, preview, replay, run, status
from cronhpa.core.printable import printable

app = typer.Typer(
    name="cronhpa",
    help="The HorizontalPodAutoscaler algorithm with schedules and forecasts: the operator and its tools.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",  # paragraphs of a help text are filled, not broken where the code breaks them
)
_OBJECTS, _MOVING, _OPERATOR = "An object and its bounds", "Moving over", "The operator"
app.command(rich_help_panel=_OBJECTS)(status.status)
app.command(rich_help_panel=_OBJECTS)(explain.explain)
app.command(rich_help_panel=_OBJECTS)(preview.preview)
app.command(rich_help_panel=_OBJECTS)(backtest.backtest)
app.command(rich_help_panel=_OBJECTS)(override.override)
app.command(rich_help_panel=_MOVING)(convert.convert)
app.command(rich_help_panel=_MOVING)(adopt.adopt)
app.command(rich_help_panel=_OPERATOR)(run.run)
app.command(rich_help_panel=_OPERATOR)(crd.crd)
app.add_typer(history.app, rich_help_panel=_OPERATOR)
app.command(rich_help_panel=_OPERATOR)(replay.replay)


def main() -> None:
    """The entry point. An OSError, such as a full disk, ends a command with one line."""
    try:
        app()
    except OSError as error:
        sys.exit(f"cronhpa: {printable(str(error))}")
