"""The operator's settings that decide, from the environment: its pod has them, elsewhere a user states them."""

from __future__ import annotations

import typer

from cronhpa.cli.terminal.console import complain
from cronhpa.core.model.spec import ControllerOptions


def stated_options(command: str) -> ControllerOptions:
    """Says which of them are not the defaults. Ends the command where one is wrong."""
    from pydantic import ValidationError

    from cronhpa.api.spec_errors import found_and_accepted
    from cronhpa.operator.controller_settings import ControllerSettings, variable_of

    try:
        settings = ControllerSettings()
    except ValidationError as error:
        for wrong in error.errors(include_url=False):
            complain(command, f"{variable_of(str(wrong['loc'][0]))}: {found_and_accepted(wrong)}")
        raise typer.Exit(2) from error
    others = [
        f"{variable_of(name)}={value}"
        for name, value in settings
        if value != ControllerSettings.model_fields[name].default
    ]
    if others:
        complain(command, f"it decides by {', '.join(others)}")
    return settings.controller_options
