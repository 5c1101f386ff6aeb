"""The prices that commands show costs by: options, and environment variables for all commands and the page."""

from __future__ import annotations

from typing import Annotated

import typer

_PANEL = "Costs"

PodPrice = Annotated[
    float | None,
    typer.Option(metavar="PRICE", min=0, envvar="CRONHPA_POD_PRICE", rich_help_panel=_PANEL, help="Of a pod, an hour."),
]
CorePrice = Annotated[
    float | None,
    typer.Option(metavar="PRICE", min=0, envvar="CRONHPA_CORE_PRICE", rich_help_panel=_PANEL, help="Of a core."),
]
GibPrice = Annotated[
    float | None,
    typer.Option(
        metavar="PRICE", min=0, envvar="CRONHPA_GIB_PRICE", rich_help_panel=_PANEL, help="Of a GiB of memory."
    ),
]
