"""
cronhpa.migration.documents.document: a field is read, passed by or told; a field of another type is refused with its
path.
"""

import pytest

from cronhpa.migration.documents.document import FieldReader, Remark, Unconvertible


def mapping(**body):
    return FieldReader(body, "HPA/shop", [])


def test_what_nobody_read_is_told_by_its_path_here_and_below():
    document = mapping(
        kind="HPA", spec={"min": 1, "max": 2, "metrics": [{"type": "x", "odd": 1}]}, status={"a": 1}, n=None
    )
    document.ignore("kind")
    spec = document.mapping("spec")
    spec.integer("min")
    spec.mappings("metrics")[0].text("type")

    assert ["HPA/shop.spec.max", "HPA/shop.spec.metrics[0].odd", "HPA/shop.status"] == sorted(document.unread())


def test_a_field_that_is_null_is_absent():
    document = mapping(spec=None, name=None)

    assert ("x", None, {}, [], []) == (
        document.text("name", "x"),
        document.integer("name"),
        document.texts("name"),
        document.items("name"),
        document.mappings("name"),
    )
    assert "name" not in document
    assert [] == list(document.mapping("spec"))


def test_a_number_may_be_written_as_a_text():
    assert [3, -2] == [mapping(n="3").integer("n"), mapping(n=-2).integer("n")]


@pytest.mark.parametrize(
    ("read", "value", "told"),
    [
        ("integer", True, "a whole number belongs here"),
        ("integer", 1.5, "a whole number belongs here"),
        ("integer", "9" * 11, "a whole number belongs here"),
        ("text", [], "a string is needed"),
        ("text", False, "a string is needed"),
        ("texts", [], "a mapping belongs here"),
        ("texts", {1: "a"}, "a mapping belongs here"),
        ("items", {}, "a list belongs here"),
        ("mapping", [], "a mapping belongs here"),
        ("mappings", {}, "a list belongs here"),
    ],
)
def test_a_field_of_another_type_is_refused_with_its_path(read, value, told):
    with pytest.raises(Unconvertible) as caught:
        getattr(mapping(field=value), read)("field")

    assert ("HPA/shop.field", f"found {value!r}", told) == (
        caught.value.path,
        caught.value.finding,
        caught.value.meaning,
    )


def test_a_list_of_mappings_names_the_place_that_is_none():
    with pytest.raises(Unconvertible, match=r"HPA/shop.field\[1\]: found 7: a mapping belongs here"):
        mapping(field=[{}, 7]).mappings("field")


def test_a_remark_has_the_file_the_path_and_the_meaning():
    notes = []
    FieldReader({}, "HPA/shop", notes).mapping("spec").remark("", "found nothing", "nothing is done")

    assert [("HPA/shop.spec", "found nothing", "nothing is done")] == notes
    assert "a.yaml:HPA/shop.spec: found nothing: nothing is done" == str(Remark("a.yaml", *notes[0]))
