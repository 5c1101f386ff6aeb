"""cronhpa.migration.convert, cronhpa.cli.commands.convert: the command, and what holds for every input."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cronhpa.cli import app
from cronhpa.migration.convert import Document, convert
from cronhpa.migration.documents.manifest import problems
from migration.reading import MANIFESTS, NOW, converted

FILES = sorted(MANIFESTS.glob("*.yaml"))
CHART = Path(__file__).parents[2] / "deploy" / "chart"
run = CliRunner().invoke
BACK = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}, "maxReplicas": 3}


def hpa(name="shop", **spec):
    metadata = {"name": name, "namespace": "prod"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": BACK | spec,
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_manifest_made_is_one_that_the_api_would_take(file):
    conversion = converted(file.name)

    assert conversion.manifests
    assert [[]] * len(conversion.manifests) == [list(problems(manifest["spec"])) for manifest in conversion.manifests]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_json_and_a_list_make_the_same_as_yaml(file):
    documents = list(yaml.load_all(file.read_text(), Loader=yaml.BaseLoader))
    plain = json.loads(json.dumps(list(yaml.safe_load_all(file.read_text())), default=str))
    assert len(documents) == len(plain)

    listed = convert([Document(file.name, {"kind": "List", "apiVersion": "v1", "items": plain})], now=NOW)

    assert converted(file.name) == listed


@pytest.mark.parametrize(
    ("version", "kind"),
    [("cronhpa.io/v1alpha1", "CronHPA"), ("v1", "Service"), ("keda.sh/v1alpha1", "TriggerAuthentication")],
)
def test_what_scales_nothing_and_what_is_ours_is_passed_over(version, kind):
    other = {"apiVersion": version, "kind": kind, "metadata": {"name": "other"}}

    conversion = convert([Document("a.yaml", {"items": [other, hpa()]})], now=NOW)

    assert (1, ()) == (len(conversion.manifests), conversion.remarks)


def test_an_unknown_kind_is_passed_by_with_a_remark():
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "shop"}}

    conversion = convert([Document("a.yaml", widget), Document("a.yaml", hpa())], now=NOW)

    assert 1 == len(conversion.manifests)
    assert "a.yaml:Widget/shop: found Widget of example.com: no CronHPA is made of it: accepted are" in str(
        conversion.remarks[0]
    )


def test_two_on_one_target_are_told():
    conversion = convert([Document("a.yaml", hpa()), Document("b.yaml", hpa("other"))], now=NOW)

    assert ["found 2 CronHPAs on this target"] == [remark.finding for remark in conversion.remarks]


def with_each_field(value, other):
    """The value many times, each with one field or element in it replaced by the other."""
    for key in [*value] if isinstance(value, dict) else range(len(value)):
        yield _with(value, key, other)
        if isinstance(value[key], dict | list):
            yield from (_with(value, key, below) for below in with_each_field(value[key], other))


def _with(value, key, other):
    changed = value.copy()
    changed[key] = other
    return changed


@pytest.mark.parametrize("other", [["x"], 5, ""], ids=repr)
@pytest.mark.parametrize("file", [file for file in FILES if file.stem != "keda-real"], ids=lambda file: file.stem)
def test_no_field_of_another_type_ends_in_a_traceback(file, other):
    """Found: TypeError for an apiVersion that is a list, for metrics that are texts, and for an empty schedule."""
    for body in yaml.safe_load_all(file.read_text()):
        for changed in with_each_field(body, other):
            conversion = convert([Document("in.yaml", changed)], now=NOW)

            assert not any(list(problems(manifest["spec"])) for manifest in conversion.manifests)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "x", "0 8 * * *", "@daily", "UTC", "3", "cpu"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "name", "metadata"]), inner),
    max_leaves=5,
)


@st.composite
def damaged(draw):
    """A real object with one of its values, anywhere, replaced by something else."""
    file = draw(st.sampled_from(FILES))
    body = draw(st.sampled_from(list(yaml.safe_load_all(file.read_text()))))
    if "items" in body:
        body = body["items"][0]
    holder = body
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = draw(st.sampled_from(keys))
        if not isinstance(holder[key], dict | list) or not holder[key] or draw(st.booleans()):
            holder[key] = draw(values)
            return body
        holder = holder[key]


@given(damaged())
def test_whatever_stands_in_an_object_it_is_made_right_or_named(body):
    conversion = convert([Document("a.yaml", body)], now=NOW, zone="UTC")

    # A workload that no annotation puts to sleep is no autoscaler.
    is_scaler = isinstance(body, dict) and str(body.get("kind")) not in {"Deployment", "StatefulSet"}
    assert conversion.manifests or conversion.remarks or "items" in body or not is_scaler
    assert [[]] * len(conversion.manifests) == [list(problems(manifest["spec"])) for manifest in conversion.manifests]


def test_the_command_prints_manifests_and_says_what_is_missing_on_stderr():
    result = run(app, ["convert", str(MANIFESTS / "crane.yaml")])

    assert 0 == result.exit_code
    assert ["shop", "watched"] == [body["metadata"]["name"] for body in yaml.safe_load_all(result.stdout)]
    assert (
        "crane.yaml:EffectiveHorizontalPodAutoscaler/watched.spec.specificReplicas: found 3: mode Preview"
        in result.stderr
    )


def test_strict_is_1_where_anything_is_missing():
    assert 1 == run(app, ["convert", "--strict", str(MANIFESTS / "crane.yaml")]).exit_code
    assert 0 == run(app, ["convert", "--strict", str(MANIFESTS / "hpa-v2.yaml")]).exit_code


KEDA = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: shop, namespace: prod}
spec:
  scaleTargetRef: {name: shop}
  minReplicaCount: 1
  triggers:
  - {type: prometheus, metadata: {serverAddress: "http://p.x:9090", query: "sum(up) or vector(0)", threshold: "5"}}
"""


def test_sources_are_chart_values_in_a_file_of_their_own(tmp_path):
    """Without it --strict is 1: a metric without its source has no value."""
    values = tmp_path / "values.yaml"

    without = run(app, ["convert", "--strict", "-"], input=KEDA)
    result = run(app, ["convert", "--strict", "--sources", str(values), "-"], input=KEDA)

    assert (1, 0) == (without.exit_code, result.exit_code)
    assert "metric sources are needed (prod-shop-prometheus): --sources FILE" in without.stderr
    sources = {"prod-shop-prometheus": {"prometheus": {"url": "http://p.x:9090", "query": "sum(up) or vector(0)"}}}
    assert {"sources": sources} == yaml.safe_load(values.read_text())
    assert ["CronHPA"] == [body["kind"] for body in yaml.safe_load_all(result.stdout)]
    assert 2 == run(app, ["convert", "--sources", str(values), "-"], input=KEDA).exit_code


def test_the_standard_input_and_a_directory(tmp_path):
    result = run(app, ["convert", "-", "-o", str(tmp_path / "out")], input=(MANIFESTS / "hpa-v1.yaml").read_text())

    assert 0 == result.exit_code
    assert ["prod.old.yaml", "prod.plain.yaml", "prod.shop.yaml"] == sorted(
        file.name for file in (tmp_path / "out").iterdir()
    )
    again = run(app, ["convert", "-", "-o", str(tmp_path / "out")], input=(MANIFESTS / "hpa-v1.yaml").read_text())
    assert 2 == again.exit_code


@pytest.mark.parametrize(
    ("text", "code"), [("{", 2), ("", 1), ("[1, 2]", 1), ("kind: Service\nmetadata: {name: a}", 1)]
)
def test_what_cannot_be_read_or_makes_nothing_has_an_exit_code(text, code, tmp_path):
    (tmp_path / "in.yaml").write_text(text)

    assert code == run(app, ["convert", str(tmp_path / "in.yaml")]).exit_code


def test_what_is_unreadable_costs_only_itself(tmp_path):
    """Found: one template in a page of ten objects, and nothing was made of the other nine."""
    template = "kind: ScaledObject\nmetadata:\n  name: {{ .Values.name }}\n"
    broken = "kind: [\n"
    (tmp_path / "in.yaml").write_text("---\n".join([yaml.safe_dump(hpa()), template, broken, yaml.safe_dump(hpa("b"))]))

    result = run(app, ["convert", str(tmp_path / "in.yaml"), str(tmp_path / "missing.yaml")])

    assert 2 == result.exit_code
    assert ["shop", "b"] == [body["metadata"]["name"] for body in yaml.safe_load_all(result.stdout)]
    line = yaml.safe_dump(hpa()).count("\n") + 4
    assert f"in.yaml:{line}: found unhashable key" in result.stderr
    assert "convert what it renders" in result.stderr
    assert "missing.yaml: No such file" in result.stderr


@pytest.mark.parametrize(
    "given",
    [{"apiVersion": "cronhpa.io/v1alpha1", "kind": "CronHPA", "metadata": {"name": "shop"}, "spec": BACK},
     {"apiVersion": "v1", "kind": "List", "items": []}],
    ids=["a CronHPA", "an empty list"],
)  # fmt: skip
def test_where_nothing_is_made_and_nothing_is_wrong_it_says_so(given):
    """Found: exit code 1 without a word."""
    result = run(app, ["convert", "-"], input=yaml.safe_dump(given))

    assert (1, "") == (result.exit_code, result.stdout)
    assert result.stderr.startswith("cronhpa convert: nothing to convert was found")


def test_a_key_that_stands_twice_is_told_and_costs_only_its_document(tmp_path):
    """Found: the later of two maxReplicas was taken without a word."""
    twice = yaml.safe_dump(hpa("b")) + "spec: {}\n"
    (tmp_path / "in.yaml").write_text("---\n".join([yaml.safe_dump(hpa()), twice]))

    result = run(app, ["convert", str(tmp_path / "in.yaml")])

    before = yaml.safe_dump(hpa()).count("\n") + 1
    first = twice.split("\n").index("spec:") + 1
    assert 2 == result.exit_code
    assert ["shop"] == [body["metadata"]["name"] for body in yaml.safe_load_all(result.stdout)]
    told = f"in.yaml:{before + twice.count(chr(10))}: spec: it stands in line {before + first} already: leave one"
    assert told in result.stderr


def test_a_name_given_twice_costs_only_itself(tmp_path):
    documents = [hpa(), hpa(maxReplicas=9), hpa("b")]

    result = run(app, ["convert", "-", "-o", str(tmp_path)], input=yaml.safe_dump_all(documents))

    assert 2 == result.exit_code
    assert ["prod.b.yaml", "prod.shop.yaml"] == sorted(file.name for file in tmp_path.iterdir())
    assert f"{tmp_path}/prod.shop.yaml: it exists, and is left as it is" in result.stderr
    assert 3 == yaml.safe_load((tmp_path / "prod.shop.yaml").read_text())["spec"]["maxReplicas"]


def test_a_target_of_another_kind_says_what_the_chart_needs():
    """Found: it converted without a word, and was forbidden on Monday."""
    ref = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "shop"}

    conversion = convert([Document("a.yaml", hpa(name, scaleTargetRef=ref | {"name": name})) for name in "ab"], now=NOW)

    assert ["CronHPA/a, CronHPA/b.spec.scaleTargetRef"] == [remark.path for remark in conversion.remarks]
    assert "{apiGroup: argoproj.io, resource: PLURAL} to scaleTargets" in conversion.remarks[0].meaning


def test_the_kinds_that_need_no_remark_are_those_that_the_chart_names():
    rules = (CHART / "templates" / "_names.tpl").read_text()
    kinds = {
        "deployments": ("apps/v1", "Deployment"),
        "replicasets": ("apps/v1", "ReplicaSet"),
        "statefulsets": ("apps/v1", "StatefulSet"),
        "replicationcontrollers": ("v1", "ReplicationController"),
    }

    refs = [{"apiVersion": version, "kind": kind, "name": "shop"} for version, kind in kinds.values()]

    assert set(kinds) == set(re.findall(r"\b([a-z]{2,})/scale\b", rules))
    assert [()] * 4 == [convert([Document("a.yaml", hpa(scaleTargetRef=ref))], now=NOW).remarks for ref in refs]


def test_a_target_in_a_removed_api_version_gets_the_one_of_today():
    ref = {"apiVersion": "extensions/v1beta1", "kind": "Deployment", "name": "shop"}

    conversion = convert([Document("a.yaml", hpa(scaleTargetRef=ref))], now=NOW)

    assert "apps/v1" == conversion.manifests[0]["spec"]["scaleTargetRef"]["apiVersion"]


@pytest.mark.parametrize("version", [["apps/v1"], {"apps/v1": None}])
def test_a_target_whose_api_version_is_no_text_is_refused(version):
    """Found: a traceback."""
    ref = {"apiVersion": version, "kind": "Deployment", "name": "shop"}

    (remark,) = convert([Document("a.yaml", hpa(scaleTargetRef=ref))], now=NOW).remarks

    assert remark.meaning.startswith("no CronHPA is made of it: spec.scaleTargetRef.apiVersion: a string is needed")


def test_a_schedule_that_is_always_open_has_a_comment():
    result = run(app, ["convert", str(MANIFESTS / "kube-downscaler.yaml")])

    above, _, below = result.stdout.partition("  # Always open: a window of two days begins every day.\n")
    assert below.startswith("  - name: asleep\n    start: '@daily'\n    durationMinutes: 2880\n")
    assert above


def test_a_remark_of_several_elements_is_made_once():
    crons = ", ".join(
        f'{{type: cron, metadata: {{timezone: UTC, start: "0 {hour} * * *", end: "30 {hour} * * *", '
        'desiredReplicas: "0"}}'
        for hour in (1, 3, 5)
    )

    conversion = converted(
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: shop}\n"
        f"spec: {{scaleTargetRef: {{name: shop}}, triggers: [{crons}]}}\n"
    )

    assert ['found "0" (also at [1], [2])'] == [remark.finding for remark in conversion.remarks]
