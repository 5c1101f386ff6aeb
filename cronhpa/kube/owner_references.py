"""The controller that an object names in its ownerReferences."""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern

from msgspec import Struct


class OwnerReference(Struct, frozen=True, rename="camel"):
    """An entry of metadata.ownerReferences."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool = False


# Names of the API have at most 253 characters each: a group, a kind and a name.
_LENGTH_MAX = 1000


def _length(reference: OwnerReference) -> int:
    return len(reference.api_version) + len(reference.kind) + len(reference.name)


def controller_of(references: Sequence[OwnerReference] | None) -> str:
    """The controller among the owners, as `apps/v1/ReplicaSet/shop-5d5f`; "" if there is none."""
    for reference in references or ():
        # A pod may state owners of any length and form. A name has no slash, which separates the parts here.
        if reference.controller and "/" not in reference.kind + reference.name and _length(reference) <= _LENGTH_MAX:
            return intern(f"{reference.api_version}/{reference.kind}/{reference.name}")
    return ""
