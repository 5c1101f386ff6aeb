"""Shared by the scheduled actions of clouds: they scale machines or tasks, and a workload takes their place."""

from __future__ import annotations

import re

from cronhpa.migration.documents.document import FieldReader, Json

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")


def object_name(text: str) -> str:
    """A text as the name of a Kubernetes object."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")[:63].rstrip("-") or "unnamed"


def target(document: FieldReader, what: str) -> Json:
    """A Deployment of the same name, with a remark that it is a guess."""
    name = document.mapping("metadata").text("name")
    document.remark(
        "scaleTargetRef",
        f"the source scales {what}",
        f"took a Deployment {name}: name the workload that takes its place",
    )
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
