"""
The CustomResourceDefinitions, generated from the models: pydantic's JSON schema flattened to a structural schema.

A structural schema has no references, a type at every node, and only keywords that the API server knows. A model with
another keyword raises an error here; a CRD would drop the keyword silently.
"""

from __future__ import annotations

from typing import Any

import yaml
from msgspec import Struct

from cronhpa.api.identity import (
    API_VERSION,
    CLUSTER_EVENT_KIND,
    CLUSTER_EVENT_PLURAL,
    EVENT_KIND,
    EVENT_PLURAL,
    GROUP,
    KIND,
    PLURAL,
    SHORT_NAME,
    SINGULAR,
    VERSION,
)
from cronhpa.api.resource.cel import BEFORE_1_34, BY_RULE, Json
from cronhpa.api.resource.events import ClusterPlannedEventResource, PlannedEventResource
from cronhpa.api.resource.fields import Model
from cronhpa.api.schema import CronHPA

HEADER = "# Generated from the models of cronhpa/api by `cronhpa crd`: edit the models, not this file.\n"

_NARROW, _WIDE = 0, 1
# No name holds a blank: scripts cut a table by its columns.
COLUMNS = (
    ("Targets", "string", ".status.columns.targets", _NARROW, "Measured value / target of each metric."),
    ("Min", "integer", ".status.effectiveMinReplicas", _NARROW, "Lower bound now."),
    ("Max", "integer", ".status.effectiveMaxReplicas", _NARROW, "Upper bound now."),
    ("Current", "integer", ".status.currentReplicas", _NARROW, "Replicas when last seen."),
    ("Desired", "integer", ".status.desiredReplicas", _NARROW, "Replicas decided upon."),
    ("Status", "string", ".status.columns.status", _NARROW, "What the object does, or why it cannot."),
    # Text, because kubectl prints a date in the future as <invalid>.
    ("Next", "string", ".status.columns.next", _NARROW, "When a schedule or the override changes the bounds next."),
    ("Age", "date", ".metadata.creationTimestamp", _NARROW, "Time since its creation."),
    ("Target", "string", ".status.target", _WIDE, "What is scaled."),
    ("Decided-By", "string", ".status.decision.decidedBy", _WIDE, "The source of the count, such as Metric/cpu."),
    ("Mode", "string", ".spec.mode", _WIDE, "Active, or Preview: nothing is scaled."),
    (
        "Forecast",
        "string",
        '.status.conditions[?(@.type=="ForecastActive")].reason',
        _WIDE,
        "What the forecast does, or why it does nothing.",
    ),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', _WIDE, "Whether it does its work."),
)

EVENT_COLUMNS = (
    ("Objects", "integer", ".status.objects", _NARROW, "Objects that it concerns."),
    ("Pods", "integer", ".status.pods", _NARROW, "Replicas that it asks for in all."),
    ("Short", "integer", ".status.short", _NARROW, "Replicas that upper bounds of objects keep from it."),
    ("Next", "string", ".status.columns.next", _NARROW, "When it opens, leads or closes next."),
    ("State", "string", ".status.state", _NARROW, "Upcoming, Leading, Active, Ended, Suspended, Empty or Refused."),
    ("Age", "date", ".metadata.creationTimestamp", _NARROW, "Time since its creation."),
    ("Reason", "string", ".spec.reason", _WIDE, "What it is."),
    ("Ready", "integer", ".status.ready", _WIDE, "Objects whose pods are Ready at their count, while it is active."),
)


class Kind(Struct, frozen=True):
    """A kind of ours, and how `kubectl` names and prints it."""

    kind: str
    plural: str
    singular: str
    short_name: str
    scope: str
    model: type[Model]
    columns: tuple[tuple[str, str, str, int, str], ...]
    categories: tuple[str, ...] = ()

    @property
    def spec_model(self) -> type[Model]:
        spec = self.model.model_fields["spec"].annotation
        assert isinstance(spec, type)
        assert issubclass(spec, Model)
        return spec

    @property
    def file(self) -> str:
        """The name of its file in crds/, without the suffix."""
        return f"{GROUP}_{self.plural}"


CRON_HPA = Kind(KIND, PLURAL, SINGULAR, SHORT_NAME, "Namespaced", CronHPA, COLUMNS, ("all",))
PLANNED_EVENT = Kind(
    EVENT_KIND, EVENT_PLURAL, EVENT_KIND.lower(), "pev", "Namespaced", PlannedEventResource, EVENT_COLUMNS
)
CLUSTER_PLANNED_EVENT = Kind(
    CLUSTER_EVENT_KIND, CLUSTER_EVENT_PLURAL, CLUSTER_EVENT_KIND.lower(), "cpev", "Cluster",
    ClusterPlannedEventResource, EVENT_COLUMNS,
)  # fmt: skip
KINDS = (CRON_HPA, PLANNED_EVENT, CLUSTER_PLANNED_EVENT)

_KEPT = frozenset(
    {
        "default",
        "description",
        "enum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "required",
        "type",
    }
)
_DROPPED = frozenset({"title", "additionalProperties", "properties", "items", "anyOf", BY_RULE})
_BOUNDS = ("enum", "pattern", "minLength", "minimum", "maximum")
_INT_OR_STRING: Json = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}


def crd_manifest(of: Kind = CRON_HPA, *, before_1_34: bool = False) -> Json:
    """The CRD as an API server accepts it: of Kubernetes 1.34 and newer, or `before_1_34` of 1.30 to 1.33."""
    document = _for_server(of.model.model_json_schema(by_alias=True), before_1_34=before_1_34)
    root = flatten(document, document.get("$defs", {}))
    root["properties"] = {
        "apiVersion": {"type": "string", "description": f"{API_VERSION}."},
        "kind": {"type": "string", "description": f"{of.kind}."},
        "metadata": {"type": "object"},
        **root["properties"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{of.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": of.scope,
            "names": {
                "kind": of.kind,
                "listKind": f"{of.kind}List",
                "plural": of.plural,
                "singular": of.singular,
                "shortNames": [of.short_name],
                **({"categories": list(of.categories)} if of.categories else {}),
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {
                            "name": name,
                            "type": kind,
                            "jsonPath": path,
                            "description": description,
                            **({"priority": width} if width else {}),
                        }
                        for name, kind, path, width, description in of.columns
                    ],
                    "schema": {"openAPIV3Schema": root},
                }
            ],
        },
    }


def crd_text(of: Kind = CRON_HPA, *, before_1_34: bool = False) -> str:
    """A CRD as YAML: the text of its file in crds/, or of the file beside it for older servers."""
    manifest = crd_manifest(of, before_1_34=before_1_34)
    return HEADER + yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=10_000)


def crd_texts(*, before_1_34: bool = False) -> str:
    """The CRDs of all kinds as one YAML text."""
    return "---\n".join(crd_text(of, before_1_34=before_1_34) for of in KINDS)


def _for_server(node: Any, *, before_1_34: bool) -> Any:
    """The JSON schema for one range of servers: marks of `BEFORE_1_34` are applied for the older ones, then removed."""
    if isinstance(node, list):
        children = [child for child in node if not (before_1_34 and isinstance(child, dict) and _left_out(child))]
        return [_for_server(child, before_1_34=before_1_34) for child in children]
    if not isinstance(node, dict):
        return node
    added = (node.get(BEFORE_1_34) or {}) if before_1_34 else {}
    rest = {key: _for_server(value, before_1_34=before_1_34) for key, value in node.items() if key != BEFORE_1_34}
    return {**rest, **added}


def _left_out(rule: Json) -> bool:
    return BEFORE_1_34 in rule and rule[BEFORE_1_34] is None


def flatten(node: Json, definitions: Json) -> Json:
    """
    A structural schema of one node of pydantic's JSON schema.

    Raises ValueError with the keyword that a structural schema does not have.
    """
    node = _resolved(node, definitions)
    branches = [_resolved(branch, definitions) for branch in node.get("anyOf", [])]
    if branches:
        return flatten(_without_union(node, branches), definitions)
    out = {key: value for key, value in node.items() if key in _KEPT or key.startswith("x-kubernetes-")}
    if strange := set(node) - set(out) - _DROPPED:
        raise ValueError(f"{node.get('title', '')}: a structural schema has no {', '.join(sorted(strange))}")
    if "description" in out:
        out["description"] = " ".join(out["description"].split())  # docstrings are wrapped, descriptions are one line
    if out.get("default", ...) is None:
        del out["default"]
    if node.get(BY_RULE):
        out = {key: value for key, value in out.items() if key not in _BOUNDS}
    if out.get("x-kubernetes-int-or-string"):
        return {**out, **_INT_OR_STRING}
    if "items" in node:
        out["items"] = flatten(node["items"], definitions)
    if isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = flatten(node["additionalProperties"], definitions)
    if "properties" in node:
        out["properties"] = {name: flatten(child, definitions) for name, child in node["properties"].items()}
    if "type" not in out:
        raise ValueError(f"{node.get('title', '')}: a structural schema has a type at every node")
    return out


def _resolved(node: Json, definitions: Json) -> Json:
    """The node with its reference resolved. Keywords beside a reference win; lists of rules are joined."""
    if "$ref" not in node:
        return {key: value for key, value in node.items() if key != "$defs"}
    named = _resolved(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    return _overlaid(named, {key: value for key, value in node.items() if key != "$ref"})


def _overlaid(below: Json, above: Json) -> Json:
    joined: dict[str, Any] = {
        key: [*below[key], *above[key]] for key in below.keys() & above.keys() if key == "x-kubernetes-validations"
    }
    return {**below, **above, **joined}


def _without_union(node: Json, branches: list[Json]) -> Json:
    """The node with `X | None` as X and `int | str` as int-or-string. Other unions have no structural schema."""
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    kinds = [branch for branch in branches if branch.get("type") != "null"]
    if {"integer", "string"} == {kind.get("type") for kind in kinds}:
        text = next(kind for kind in kinds if kind["type"] == "string")
        bounds = {key: value for key, value in text.items() if key not in {"type", "title"}}
        return _overlaid({**bounds, "x-kubernetes-int-or-string": True}, rest)
    if len(kinds) != 1:
        raise ValueError(f"{node.get('title', '')}: a structural schema has no union but int | str and X | None")
    return _overlaid(kinds[0], rest)
