"""cronhpa.cli.documents: YAML and JSON in and out, and the CronHPA objects among them."""

import io

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.api.parse import SpecError
from cronhpa.cli.documents import UnreadableFileError, as_yaml, own_zone, read_documents, read_objects, written_spec

SPEC = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}, "maxReplicas": 3}
DAY = {"name": "day", "start": "0 8 * * *", "end": "0 18 * * *", "minReplicas": 2}


def chpa(name="shop", **spec):
    return {"kind": "CronHPA", "metadata": {"name": name}, "spec": SPEC | {"schedules": [DAY]} | spec}


@pytest.fixture
def written(tmp_path):
    def write(text):
        file = tmp_path / "in.yaml"
        file.write_text(text if isinstance(text, str) else as_yaml(text), "utf-8")
        return file

    return write


def test_a_date_stays_a_text(written):
    """As in JSON: the API knows no dates."""
    assert [{"until": "2026-11-23T17:00:00Z", "day": "2026-12-24"}] == list(
        read_documents(written("until: 2026-11-23T17:00:00Z\nday: 2026-12-24\n"))
    )


def test_a_dash_is_the_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: 1\n---\nb: 2\n")))

    assert [{"a": 1}, {"b": 2}] == list(read_documents("-"))


def test_objects_of_lists_and_documents_are_found_in_order(written):
    file = written([{"kind": "Service"}, {"kind": "List", "items": [chpa("a"), {"items": [chpa("b")]}]}, chpa("c")])

    assert ["a", "b", "c"] == [body["metadata"]["name"] for body in read_objects(file)]


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ("", "no CronHPA is in it, only nothing"),
        ([{"kind": "Service"}, {"a": 1}], "no CronHPA is in it, only Service, a document without a kind"),
        ([{"kind": "CronHPA", "metadata": {}, "spec": SPEC}], "metadata.name: a CronHPA needs a name"),
        ([{"kind": "CronHPA", "metadata": {"name": "shop"}, "spec": 7}], "shop: spec: found 7"),
    ],
)
def test_a_file_without_a_readable_object_says_what_it_has(written, documents, told):
    file = written(documents)

    with pytest.raises(UnreadableFileError) as caught:
        read_objects(file)

    assert str(caught.value).startswith(f"{file}: ")
    assert told in str(caught.value)


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


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii", categories=["L"])),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc", min_size=1), inner)))  # fmt: skip
def test_what_is_printed_reads_the_same(value):
    """Also where one value stands in two places: nothing is written by reference."""
    document = {"one": value, "two": value}

    assert [document] == list(yaml.safe_load_all(as_yaml([document])))
    assert "&id" not in as_yaml([document])
