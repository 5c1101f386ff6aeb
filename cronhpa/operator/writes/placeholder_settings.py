"""What the operator may make as placeholders: apart from what makes them, so that settings are read at once."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from cronhpa.core.model.spec import Placeholders

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
    """The most placeholders at once, of all objects that a replica serves."""
    owner: str = ""
    """A Role in that namespace with which the Deployments go; "" for none."""
    buffer_owner: str = ""
    """A ClusterRole, with namespaces a Role in each, with which CapacityBuffers go; "": they go with their objects."""
    usual: Placeholders | None = None
    """Of objects that state none; None: objects and events alone ask for them."""


NO_PLACEHOLDERS = PlaceholderSettings()
