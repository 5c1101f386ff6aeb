"""The kinds of sources, by the field that states one in the file of sources."""

from __future__ import annotations

from collections.abc import Mapping

from cronhpa.sources.pods import PodsDefinition
from cronhpa.sources.prometheus import PrometheusDefinition
from cronhpa.sources.source import Definition
from cronhpa.sources.url import UrlDefinition

KINDS: Mapping[str, type[Definition]] = {
    "prometheus": PrometheusDefinition,
    "pods": PodsDefinition,
    "url": UrlDefinition,
}
