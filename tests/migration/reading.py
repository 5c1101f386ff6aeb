"""Manifests of other autoscalers for tests, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import yaml

from cronhpa.core.model.instant import parse_instant
from cronhpa.migration.convert import Document, convert

MANIFESTS = Path(__file__).parent / "manifests"
NOW = parse_instant("2026-10-01T12:00:00Z")  # a Thursday


def converted(text, *, zone=None, now=NOW, prometheus=None):
    """What becomes of the documents in a text, or of the file of that name."""
    path = MANIFESTS / text if text.endswith(".yaml") else None
    source = path.read_text() if path else dedent(text)
    documents = [Document(path.name if path else "in.yaml", body) for body in yaml.safe_load_all(source)]
    return convert(documents, now=now, zone=zone, prometheus=prometheus)


def only(conversion):
    """The spec of the one manifest that was made."""
    assert 1 == len(conversion.manifests), conversion.remarks
    return conversion.manifests[0]["spec"]


def remarks(conversion):
    """The remarks by path below the object."""
    return {remark.path.partition(".")[2] or remark.path: remark for remark in conversion.remarks}
