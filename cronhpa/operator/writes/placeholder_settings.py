"""What the operator may make as placeholders: apart from what makes them, so that settings are read at once."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

PlaceholderKinds = Literal["none", "auto", "CapacityBuffer", "Deployment"]


class PlaceholderSettings(Struct, frozen=True):
    """The settings of placeholders."""

    kinds: PlaceholderKinds = "none"
    namespace: str = ""
    """The namespace of Deployments."""
    priority_class: str = ""
    """Their PriorityClass."""
    image: str = ""
    most: int = 0
    """The most placeholders at once, of all objects together."""
    owner: str = ""
    """A Role in that namespace with which the Deployments go; "" for none."""


NO_PLACEHOLDERS = PlaceholderSettings()
