"""
The program `kubectl_complete-cronhpa`: kubectl runs it with the words after `kubectl cronhpa`, the last one unfinished,
and offers the lines that it prints. The last line tells the shell what to do without an offer.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

import typer

# Directives of cobra, kubectl's library: with 0 the shell completes names of files, with 4 it does not.
_FILES, _NO_FILES = 0, 4
_VARIABLES = ("COMP_WORDS", "COMP_CWORD", "_CRONHPA_COMPLETE")


def main() -> None:
    offered = completions(sys.argv[1:])
    typer.echo("\n".join([*offered, f":{_NO_FILES if offered else _FILES}"]))


def completions(words: Sequence[str]) -> list[str]:
    """The words that complete the last one."""
    from cronhpa.cli import app

    *before, last = words or [""]
    # As a shell with `cronhpa --install-completion` asks for it.
    values = (shlex.join(["cronhpa", *before, last]), str(len(before) + 1), "complete_bash")
    os.environ.update(zip(_VARIABLES, values, strict=True))
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            app(prog_name="cronhpa")
    except SystemExit:
        pass
    finally:
        for name in _VARIABLES:
            del os.environ[name]
    return [line for line in printed.getvalue().splitlines() if line]
