"""cronhpa.api.crd, cronhpa.api.identity: the CRD of the models: in step with its file, structural, rules bounded."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import typer
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from conformance.specs import can_be_read
from cronhpa.api.crd import KINDS, crd_manifest, crd_text, crd_texts, flatten
from cronhpa.api.resource.cel import POSITIVE
from cronhpa.api.rules import broken_rules
from cronhpa.cli.commands.crd import crd

CRD = Path(__file__).parents[2] / "crds" / "cronhpa.io_cronhpas.yaml"


def schema():
    return crd_manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def nodes(node, path="") -> list[tuple[str, dict]]:
    """Every node of a schema with its path, the node itself first."""
    children = [(f"{path}.{name}", child) for name, child in node.get("properties", {}).items()]
    if "items" in node:
        children.append((f"{path}[]", node["items"]))
    if isinstance(node.get("additionalProperties"), dict):
        children.append((f"{path}{{}}", node["additionalProperties"]))
    return [(path, node), *(entry for name, child in children for entry in nodes(child, name))]


def test_no_field_of_a_spec_holds_an_address_or_names_a_secret():
    """Whom the operator asks, and with which login, is for the one to say who installs it."""
    asked = re.compile(
        r"url|uri|host|address|endpoint|server|port$|secret|token|password|credential|login|header",
        re.IGNORECASE,
    )
    fields = nodes(schema()["properties"]["spec"])

    assert len(fields) > 100
    assert [] == [path for path, node in fields if asked.search(path.rpartition(".")[2]) or "format" in node]


def test_the_file_is_what_the_models_say():
    for of in KINDS:
        assert crd_text(of) == (CRD.parent / f"{of.file}.yaml").read_text(), "run `make crds`"


def test_the_file_for_older_servers_is_what_the_models_say():
    for of in KINDS:
        file = CRD.parent / "kubernetes-1.30" / f"{of.file}.yaml"
        assert crd_text(of, before_1_34=True) == file.read_text(), "run `make crds`"


def test_the_text_for_older_servers_differs_in_what_they_check_of_a_metrics_quantities_alone():
    """Ten rules, on value and averageValue of five sources, become a pattern and a minimum on the fields."""
    lines = Counter(crd_text().splitlines())
    older = Counter(crd_text(before_1_34=True).splitlines())
    gone, come = lines - older, older - lines

    assert (40, 20) == (gone.total(), come.total())
    assert {"rule:", "message:", "messageExpression:", "- fieldPath:"} == {head(line) for line in gone}
    assert {"pattern:", "minimum:"} == {head(line) for line in come}


def head(line):
    words = line.split()
    return " ".join(words[:2]) if words[0] == "-" else words[0]


# Below 2^63, which is the most that the operator reads.
QUANTITY_LIKE = st.from_regex(re.compile(r"[ ]?[-+]?[0-9.]{0,6}([eE][+-]?[0-9]|[numkMGTix]{0,2})?[ ]?"), fullmatch=True)


@pytest.mark.slow
@settings(max_examples=60)
@given(QUANTITY_LIKE)
@example("0.0")
@example("1e-10")
@example("1.")
@example(".5Mi")
@example("1.2.3")
def test_the_pattern_for_older_servers_takes_what_the_rule_takes(text):
    metric = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": text}}}
    shop = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    spec = {"scaleTargetRef": shop, "maxReplicas": 10, "metrics": [metric]}

    assert bool(re.search(POSITIVE, text)) == (can_be_read(spec) and not [*broken_rules(spec)])


def test_the_file_says_that_and_how_it_is_generated():
    assert CRD.read_text().startswith("# Generated from the models of cronhpa/api by `cronhpa crd`")


def test_the_command_prints_the_crd_and_writes_it_where_asked(tmp_path):
    app = typer.Typer()
    app.command()(crd)

    printed = CliRunner().invoke(app, [])
    written = CliRunner().invoke(app, ["--output", str(tmp_path / "crd.yaml")])

    assert (0, crd_texts()) == (printed.exit_code, printed.stdout)
    assert (0, "", crd_texts()) == (written.exit_code, written.stdout, (tmp_path / "crd.yaml").read_text())


def test_the_text_reads_back_to_the_manifest():
    assert crd_manifest() == yaml.safe_load(crd_text())


def test_every_node_has_a_type():
    untyped = [
        path for path, node in nodes(schema()) if "type" not in node and "x-kubernetes-int-or-string" not in node
    ]

    assert [] == untyped


def test_every_string_list_and_map_of_the_spec_is_bounded():
    """A rule on what has no bound costs more than an API server allows."""
    bounds = {"string": {"maxLength", "enum", "format", "pattern"}, "array": {"maxItems"}, "object": {"maxProperties"}}
    unbounded = [
        path
        for path, node in nodes(schema()["properties"]["spec"], "spec")
        if node.get("type") in bounds and "properties" not in node and "x-checked-by-rule" not in node
        if not bounds[node["type"]] & set(node)
    ]

    # These three are compared with a list of words by a rule.
    assert {"type", "selectPolicy"} == {path.rsplit(".", 1)[1] for path in unbounded}


def test_what_a_rule_of_the_metric_checks_is_not_schema_too():
    """Of several sources in a metric the upstream examines only the first: a schema would name fields of the others."""
    metric = schema()["properties"]["spec"]["properties"]["metrics"]["items"]
    target = metric["properties"]["pods"]["properties"]["target"]["properties"]

    assert "enum" not in metric["properties"]["type"]
    assert "enum" not in target["type"]
    assert "minimum" not in target["averageUtilization"]


def test_a_quantity_is_an_int_or_string_of_at_most_40_characters():
    spec = schema()["properties"]["spec"]["properties"]
    tolerance = spec["behavior"]["properties"]["scaleUp"]["properties"]["tolerance"]

    assert [{"type": "integer"}, {"type": "string"}] == tolerance["anyOf"]
    assert (True, 40) == (tolerance["x-kubernetes-int-or-string"], tolerance["maxLength"])
    assert "type" not in tolerance


def test_every_rule_says_what_to_do():
    rules = [rule for _, node in nodes(schema()) for rule in node.get("x-kubernetes-validations", [])]

    assert len(rules) > 80
    assert all(len(rule["message"]) > 15 and "invalid" not in rule["message"] for rule in rules)


def test_schedules_merge_by_name_and_metrics_are_replaced_whole():
    spec = schema()["properties"]["spec"]["properties"]

    assert ("map", ["name"]) == tuple(spec["schedules"][f"x-kubernetes-list-{key}"] for key in ("type", "map-keys"))
    assert "atomic" == spec["metrics"]["x-kubernetes-list-type"]


def test_an_optional_field_is_its_type_without_null_and_without_a_null_default():
    node = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None, "title": "X"}

    assert {"type": "integer", "minimum": 1} == flatten(node, {})


def test_a_reference_is_inlined_and_what_stands_beside_it_wins():
    definitions = {"Span": {"type": "object", "description": "any", "properties": {"to": {"type": "string"}}}}

    flat = flatten({"$ref": "#/$defs/Span", "description": "this one"}, definitions)

    assert {"type": "object", "description": "this one", "properties": {"to": {"type": "string"}}} == flat


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ({"anyOf": [{"type": "boolean"}, {"type": "string"}]}, "no union"),
        ({"type": "integer", "exclusiveMinimum": 0}, "has no exclusiveMinimum"),
        ({"type": "string", "const": "Pods"}, "has no const"),
        ({"title": "Anything"}, "Anything: a structural schema has a type"),
    ],
)
def test_what_a_structural_schema_cannot_say_is_an_error(node, problem):
    with pytest.raises(ValueError, match=problem):
        flatten(node, {})


def test_each_part_of_the_status_says_what_it_is():
    """`kubectl explain` printed "<no description>" for conditions, and later for schedules."""
    parts = schema()["properties"]["status"]["properties"]

    assert [] == [name for name, part in parts.items() if not part.get("description")]
