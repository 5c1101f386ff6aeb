"""The commands `cronhpa` and `kubectl cronhpa`: one program, thin, each command in a file of its own."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from textwrap import dedent
from typing import Annotated, Any, TypeVar

import typer

from cronhpa.cli.commands import (
    adopt,
    backtest,
    convert,
    crd,
    create,
    explain,
    history,
    override,
    page,
    preview,
    replay,
    report,
    run,
    sources,
    status,
)
from cronhpa.cli.commands.version import version_text
from cronhpa.cli.terminal.command_classes import CommandGroup, PlainCommand
from cronhpa.cli.terminal.console import program, say, show

Command = TypeVar("Command", bound=Callable[..., Any])
_EXAMPLES = re.compile(r"(?:^ {4}.*\n?)+", re.MULTILINE)
# The program in an example, except where the example runs it in a pod.
_PROGRAM = re.compile(r"(?<!-- )(?<!kubectl )\bcronhpa (?=[a-z-])")
_OBJECTS, _MOVING, _OPERATOR = "An object and its bounds", "Moving over", "The operator"


def _named(command: Command) -> Command:
    """The command, with the examples in its help as code blocks that name the program as it was called."""

    def fenced(examples: re.Match[str]) -> str:
        return f"```text\n{_PROGRAM.sub(f'{program()} ', dedent(examples[0])).rstrip()}\n```\n"

    command.__doc__ = _EXAMPLES.sub(fenced, inspect.getdoc(command) or "")
    return command


app = typer.Typer(
    name="cronhpa",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",  # paragraphs of a help text are filled, not broken where the code breaks them
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        show(version_text())
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Show release, commit and version of the CRD."
        ),
    ] = False,
) -> None:
    """
    The HorizontalPodAutoscaler algorithm with schedules and forecasts: the operator and its tools.

    `cronhpa` and `kubectl cronhpa` are one program. A command that talks to a cluster takes `-n`, `--context` and
    `--kubeconfig` as kubectl does.

        cronhpa preview shop.yaml
        cronhpa explain shop -n prod

    Exit codes of all commands: 0 done; 1 a file, an object or the cluster cannot be used; 2 an option is wrong. A
    command with other codes lists them.
    """


def version() -> None:
    """
    Show release, commit and version of the CRD, as `--version` does.

        cronhpa version

    Exit codes: 0 done; 2 an option is wrong.
    """
    show(version_text())


_named(main_options)
app.command(cls=PlainCommand, rich_help_panel=_OBJECTS)(_named(status.status))
app.command(cls=PlainCommand, rich_help_panel=_OBJECTS)(_named(explain.explain))
app.command(cls=PlainCommand, rich_help_panel=_OBJECTS)(_named(preview.preview))
app.command(cls=PlainCommand, rich_help_panel=_OBJECTS)(_named(create.create))
app.command(cls=PlainCommand, rich_help_panel=_OBJECTS)(_named(backtest.backtest))
app.command(cls=PlainCommand, rich_help_panel=_OBJECTS)(_named(override.override))
app.command(cls=PlainCommand, rich_help_panel=_OBJECTS)(_named(page.page))
app.command(cls=PlainCommand, rich_help_panel=_MOVING)(_named(report.report))
app.command(cls=PlainCommand, rich_help_panel=_MOVING)(_named(convert.convert))
app.command(cls=PlainCommand, rich_help_panel=_MOVING)(_named(adopt.adopt))
app.command(rich_help_panel=_OPERATOR, cls=run.RunCommand)(_named(run.run))
app.command(cls=PlainCommand, rich_help_panel=_OPERATOR)(_named(crd.crd))
for _registered in (*history.app.registered_commands, *sources.app.registered_commands):
    assert _registered.callback is not None
    _named(_registered.callback)
app.add_typer(history.app, rich_help_panel=_OPERATOR)
app.add_typer(sources.app, rich_help_panel=_OPERATOR)
app.command(cls=PlainCommand, rich_help_panel=_OPERATOR)(_named(replay.replay))
app.command(cls=PlainCommand, rich_help_panel=_OPERATOR)(_named(version))


def main() -> None:
    """The entry point. An OSError, such as a full disk, ends a command with one line."""
    try:
        app(prog_name=program())
    except OSError as error:
        say(f"{program()}: {error}", err=True)
        sys.exit(1)
