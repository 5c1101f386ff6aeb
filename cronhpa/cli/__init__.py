"""The command `cronhpa`: thin, each command in a file of its own."""

from __future__ import annotations

import sys

import typer

from cronhpa.cli import adopt, convert, crd, explain, history, override, preview, replay, run

app = typer.Typer(
    name="cronhpa",
    help="The HorizontalPodAutoscaler algorithm with schedules and forecasts: the operator and its tools.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("explain")(explain.explain)
app.command("preview")(preview.preview)
app.command("override")(override.override)
app.command("replay")(replay.replay)
app.command("convert")(convert.convert)
app.command("adopt")(adopt.adopt)
app.command("crd")(crd.crd)
app.add_typer(history.app)


def main() -> None:
    """The entry point. What the machine refuses, a full disk for one, ends a command with one line."""
    try:
        app()
    except OSError as error:
        sys.exit(f"cronhpa: {error}")
