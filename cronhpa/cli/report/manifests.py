"""A suggestion as a manifest, below comments with the sentence and the doubts that belong to it."""

from __future__ import annotations

import textwrap
from typing import Any

from cronhpa.cli.objects.yaml_documents import as_yaml
from cronhpa.core.model.prices import Prices
from cronhpa.core.model.printable import printable
from cronhpa.reporting.cluster_report import doubts_of, sentence
from cronhpa.reporting.suggestions import JudgedTarget

_WIDTH = 100


def manifest_text(judged: JudgedTarget, prices: Prices) -> str:
    """The best suggestion's manifest."""
    best = judged.best
    assert best is not None, "only a target with a suggestion has a manifest"
    base = judged.target.manifest
    metadata: dict[str, Any] = {"name": base["metadata"]["name"], "namespace": judged.target.series.namespace}
    manifest = {"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": metadata, "spec": best.spec}
    comments = [
        sentence(judged, best, prices),
        f"because {best.why}",
        *(f"doubt: {doubt}" for doubt in (*doubts_of(judged, best), *judged.doubts)),
        f"In place of {judged.target.autoscaler}: `cronhpa adopt` moves an HPA over without two of them acting.",
    ]
    lines = [f"# {line}" for text in comments for line in textwrap.wrap(printable(text), _WIDTH)]
    return "\n".join([*lines, as_yaml([manifest])])
