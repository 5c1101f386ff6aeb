"""
cronhpa.cli.objects.manifests: objects that somebody wrote, and every problem of all of them at once with file and line.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.api.parse import SpecError
from cronhpa.api.written_spec import written_spec
from cronhpa.cli.objects.manifests import ManifestError, own_zone, read_specs
from cronhpa.cli.objects.yaml_documents import as_yaml

SPEC = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}, "maxReplicas": 3}
DAY = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 2}
ZONE = 'a time zone is an IANA name such as "Europe/Berlin" or "UTC"'
GOOD = """\
apiVersion: cronhpa.io/v1alpha1
kind: CronHPA
metadata: {name: shop, namespace: prod}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  minReplicas: 2
  maxReplicas: 120
  timeZone: Europe/Berlin
  schedules:
  - name: day
    start: "0 8 * * mon-fri"
    end: "0 18 * * *"
    minReplicas: 20
"""


def chpa(name="shop", **spec):
    return {"kind": "CronHPA", "metadata": {"name": name}, "spec": SPEC | {"schedules": [DAY]} | spec}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a file of this name in a folder of its own, which is the present one."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="shop.yaml"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text if isinstance(text, str) else as_yaml(text), "utf-8")
        return file.relative_to(tmp_path)

    return write


def problems(*paths, recursive=False):
    with pytest.raises(ManifestError) as caught:
        read_specs(paths, recursive=recursive)
    return list(caught.value.problems)


# --- which objects -----------------------------------------------------------------------------------------------


def names(specs):
    return [manifest.body["metadata"]["name"] for manifest, _ in specs]


def test_objects_of_lists_and_documents_are_found_in_order(written):
    file = written([{"kind": "Service"}, {"kind": "List", "items": [chpa("a"), {"items": [chpa("b")]}]}, chpa("c")])

    assert ["a", "b", "c"] == names(read_specs([file]))


def test_files_and_folders_are_read_in_order_and_other_objects_passed_over(written):
    for name in ("deploy/b.yaml", "deploy/a.yml", "deploy/c.json", "deploy/d.txt", "deploy/below/e.yaml"):
        written([chpa(name.rpartition("/")[2][0]), {"kind": "Service"}], name)
    written([{"kind": "Service"}], "deploy/service.yaml")
    other = written([chpa("z")], "z.yaml")

    assert ["z", "a", "b", "c"] == names(read_specs([other, other.parent / "deploy"]))
    assert ["a", "b", "e", "c"] == names(read_specs([other.parent / "deploy"], recursive=True))


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ("", "shop.yaml: it is empty: name a file with kind: CronHPA"),
        ([{"kind": "Service"}, {"a": 1}], "shop.yaml: no CronHPA is in it, only Service, a document without a kind: "),
        ([{"kind": "CronHpa"}], "shop.yaml: no CronHPA is in it, only CronHpa: did you mean kind: CronHPA "),
        (
            [{"kind": "HorizontalPodAutoscaler"}, {"kind": "CronHpa"}],
            "shop.yaml: no CronHPA is in it, only CronHpa, HorizontalPodAutoscaler: did you mean kind: CronHPA for ",
        ),
        ([{"kind": "ScaledObject"}], "shop.yaml: no CronHPA is in it, only ScaledObject: `cronhpa convert`"),
        ([{"kind": "CronHPA", "metadata": {}, "spec": SPEC}], "shop.yaml:2: metadata.name: a CronHPA needs a name"),
        ([{"kind": "CronHPA", "metadata": "shop", "spec": SPEC}], "shop.yaml:2: metadata.name: a CronHPA needs a name"),
        ([{"kind": "CronHPA", "metadata": {"name": "shop"}, "spec": 7}], "shop.yaml:4: shop: spec: found 7: a mapping"),
        (GOOD.replace("spec:", "specs:"), "shop.yaml:4: specs: there is no such field: did you mean spec?"),
        (GOOD.replace("prod", "7"), "shop.yaml:3: metadata.namespace: found 7: a string is needed"),
        (GOOD.replace("name: shop", "name: Shop_1", 1), "shop.yaml:3: prod/Shop_1: metadata.name: found 'Shop_1': "),
        (GOOD.replace("/v1alpha1", "/v1"), "shop.yaml:1: prod/shop: apiVersion: found 'cronhpa.io/v1': "),
    ],
)  # fmt: skip
def test_a_document_that_is_no_object_is_named_with_what_it_is(written, documents, told):
    assert [] != [problem for problem in problems(written(documents)) if problem.startswith(told)]


def test_a_folder_without_an_object_says_what_it_has_and_how_to_look_deeper(written):
    file = written([{"kind": "Service"}], "deploy/service.yaml")
    written([chpa()], "deploy/below/shop.yaml")
    written("text", "notes/readme.txt")

    (told,) = problems(file.parent)
    assert "deploy: no CronHPA is in its 1 files, only Service: name a file with kind: CronHPA" in told
    assert told.endswith("; -R reads the folders below, too")
    (told,) = problems(file.parent.parent / "notes", recursive=True)
    assert "notes: it has no file that ends in .yaml, .yml, .json" == told


# --- every problem at once ---------------------------------------------------------------------------------------


def test_every_slip_of_a_file_is_told_at_once_with_its_line_and_what_was_meant(written):
    text = (
        GOOD.replace("minReplicas: 2\n", 'minReplicas: "2"\n')
        .replace("maxReplicas", "maxReplica")
        .replace("Europe/Berlin", "Europe/Berln")
        .replace("mon-fri", "mon-fry")
        .replace("  - name: day", "  mode: Actve\n  schedules:\n  - nam: day")
        .replace("  schedules:\n  mode", "  mode")
    )

    # Lines 5 to 13: target, "2", 120, zone, mode, schedules, name, start, end, minReplicas.
    assert [
        "shop.yaml:6: prod/shop: spec.minReplicas: found '2': a whole number belongs here",
        "shop.yaml:7: prod/shop: spec.maxReplica: there is no such field: did you mean maxReplicas?",
        "shop.yaml:8: prod/shop: spec.timeZone: did you mean Europe/Berlin?",
        "shop.yaml:9: prod/shop: spec.mode: found 'Actve': did you mean Active? Active or Preview is accepted",
        "shop.yaml:11: prod/shop: spec.schedules[0].nam: there is no such field: did you mean name?",
    ] == [problem.replace(f"{ZONE}: ", "") for problem in problems(written(text))]


def test_a_rule_is_run_on_what_is_left_without_a_wrong_type(written):
    """The API server would run no rule then, and the user would need two rounds to see both problems."""
    second = '  - {name: late, start: "0 8 * * mon-fry", durationMinutes: 5, minReplicas: 3}\n'

    assert [
        ("shop.yaml:13", "spec.schedules[0].minReplicas", "found 'many': a whole number belongs here"),
        ("shop.yaml:14", "spec.schedules[1].start", 'found "mon-fry"'),
    ] == [
        (place, path, told.partition(": the day")[0])
        for place, _, path, told in (
            problem.split(": ", 3)
            for problem in problems(written(GOOD.replace("minReplicas: 20", "minReplicas: many") + second))
        )
    ]


def test_a_rule_that_compares_fields_is_silent_if_one_of_them_is_missing(written):
    """minReplicas 2 is above nothing: maxReplicas cannot be read."""
    (told,) = problems(written(GOOD.replace("maxReplicas: 120", "maxReplicas: many")))

    assert told.startswith("shop.yaml:7: prod/shop: spec.maxReplicas: found 'many'")


def test_a_field_that_stands_twice_is_told_beside_the_others(written):
    text = GOOD.replace("  timeZone", "  minReplicas: 3\n  timeZone").replace("mon-fri", "mon-fry")

    first, second = problems(written(text))

    assert "shop.yaml:8: prod/shop: minReplicas: it stands in line 6 already: leave one" == first
    assert second.startswith("shop.yaml:12: prod/shop: spec.schedules[0].start: ")


def test_a_field_that_is_missing_is_told_on_the_line_of_what_it_is_missing_in(written):
    (told,) = problems(written(GOOD.replace('    start: "0 8 * * mon-fri"\n', "")))

    assert told.startswith("shop.yaml:10: prod/shop: spec.schedules[0]")


def test_all_files_are_looked_at_before_any_of_them_is_refused(written):
    bad, broken = written(GOOD.replace("120", "many"), "a.yaml"), written("spec: [", "b.yaml")
    good = written(GOOD, "c.yaml")

    told = problems(bad, broken, good, good.parent / "none.yaml")

    assert ["b.yaml:1", "none.yaml", "a.yaml:7"] == [problem.partition(": ")[0] for problem in told]


def test_the_second_object_of_a_list_in_json_has_its_own_lines(written):
    text = """{"kind": "List", "items": [
 {"kind": "CronHPA", "metadata": {"name": "a"},
  "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "maxReplicas": 3,
   "metrics": []}},
 {"kind": "CronHPA", "metadata": {"name": "b"},
  "spec": {"maxReplicas": 3,
   "maxReplica": 4}}]}
"""
    told = problems(written(text, "list.json"))

    assert {("list.json:4", "a"), ("list.json:6", "b"), ("list.json:7", "b")} == {
        tuple(problem.split(": ")[:2]) for problem in told
    }


@pytest.mark.parametrize(
    ("zone", "meant"),
    [("Berlin", "Europe/Berlin"), ("Europe/Paris ", "Europe/Paris"), ("europe/berlin", "Europe/Berlin")],
)
def test_a_zone_is_told_by_the_name_that_was_meant(written, zone, meant):
    (told,) = problems(written(GOOD.replace("Europe/Berlin", f'"{zone}"')))

    assert told.endswith(f"did you mean {meant}?")


KEYS = ["minReplicas", "maxReplicas", "schedules", "name", "start", "end", "metrics", "x.y", "mode", "type", "target"]
LEAVES = st.none() | st.booleans() | st.integers(-3, 5) | st.sampled_from(["0 8 * * *", "day", "Active", "2", ""])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
def test_any_spec_is_read_or_told_with_its_fields_each_problem_once(spec):
    told = None
    try:
        written_spec({"kind": "CronHPA", "metadata": {"name": "shop"}, "spec": spec})
    except SpecError as error:
        told = [(problem.path, problem.problem) for problem in error.problems]

    assert told != []
    assert all(path.startswith("spec") for path, _ in told or ())
    assert len(set(told or ())) == len(told or ())


# --- one spec ----------------------------------------------------------------------------------------------------


def test_a_written_null_is_no_field():
    """An API server drops it before it looks for errors."""
    assert written_spec(chpa(metrics=None)) == written_spec(chpa())


def test_a_schedule_that_cannot_be_read_is_an_error_with_its_path():
    with pytest.raises(SpecError) as caught:
        written_spec(chpa(schedules=[DAY, {**DAY, "name": "night", "start": "0 25 * * *"}]))

    assert "spec.schedules[1]" in str(caught.value)
    assert "spec.schedules[0]" not in str(caught.value)


def test_the_zone_is_the_stated_one_or_that_of_all_schedules_or_utc():
    berlin, tokyo = {**DAY, "timeZone": "Europe/Berlin"}, {**DAY, "name": "other", "timeZone": "Asia/Tokyo"}

    def zone(**fields):
        body = chpa(**fields)
        return own_zone(body["spec"], written_spec(body))

    assert "Asia/Tokyo" == zone(timeZone="Asia/Tokyo")
    assert "Europe/Berlin" == zone(schedules=[berlin])
    assert "UTC" == zone(schedules=[berlin, tokyo])
