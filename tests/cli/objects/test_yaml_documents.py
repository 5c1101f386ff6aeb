"""
cronhpa.cli.objects.yaml_documents, cronhpa.kube.yaml_loader: YAML and JSON in and out, with the lines of what was read.
"""

import io

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from cronhpa.cli.objects.yaml_documents import (
    STANDARD_INPUT,
    UnreadableFileError,
    as_yaml,
    read_documents,
    read_with_lines,
)
from cronhpa.core.model.printable import printable
from cronhpa.kube.yaml_loader import Repeated, child_of, line_of


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

    assert [{"a": 1}, {"b": 2}] == list(read_documents(STANDARD_INPUT))


def test_the_document_and_line_of_each_field_can_be_looked_up(written):
    documents = list(read_with_lines(written("a: 1\n---\nb:\n- c: 2\n  d: 3\n- {e: 4}\n")))

    (_, second) = documents
    key, items = child_of(second.node, "b")
    assert [{"a": 1}, {"b": [{"c": 2, "d": 3}, {"e": 4}]}] == [document.body for document in documents]
    assert [3, 5, 6] == [
        line_of(node)
        for node in (key, child_of(child_of(items, 0)[1], "d")[0], child_of(child_of(items, 1)[1], "e")[0])
    ]
    assert [None, None, None] == [child_of(items, 2), child_of(items, "b"), child_of(second.node, 0)]


def test_a_key_that_stands_twice_is_told_with_both_lines(written):
    """Keys of a merge may stand twice: replacing them is the purpose of a merge."""
    text = "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  x: 3\n  z: 4\n  z: 5\n"

    (document,) = read_with_lines(written(text))

    assert {"x": 3, "y": 2, "z": 5} == document.body["b"]
    assert (Repeated("z", 5, 6),) == document.repeated


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "a: 1\nb: [1, 2\nc: 3\n",
            "in.yaml:3: expected ',' or ']', but got ':', while parsing a flow sequence that begins in line 2",
        ),
        (
            "a: 1\n\tb: 2\n",
            "in.yaml:2: found character '\\t' that cannot start any token: indent with spaces",
        ),
        ("a: *b\n", "in.yaml:1: found undefined alias 'b'"),
    ],
)
def test_malformed_yaml_is_named_with_its_line(written, text, told):
    with pytest.raises(UnreadableFileError) as caught:
        list(read_documents(written(text)))

    assert told in str(caught.value)
    assert 1 == len(str(caught.value).splitlines())


def test_a_file_in_another_encoding_is_told_what_is_accepted(tmp_path):
    """As PowerShell 5 writes `kubectl get -o yaml > in.yaml`."""
    file = tmp_path / "in.yaml"
    file.write_text("kind: CronHPA\n", "utf-16")

    with pytest.raises(UnreadableFileError) as caught:
        list(read_documents(file))

    assert f"{file}: byte 0: invalid start byte: UTF-8 text is accepted" == str(caught.value)


def test_a_folder_is_told_what_to_name_instead(tmp_path):
    with pytest.raises(UnreadableFileError, match="it is a folder: name its files"):
        list(read_documents(tmp_path))


def test_a_file_that_is_not_there_is_told_in_the_systems_words(tmp_path):
    with pytest.raises(UnreadableFileError) as caught:
        list(read_documents(tmp_path / "none.yaml"))

    assert f"{tmp_path}/none.yaml: No such file or directory" == str(caught.value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii", categories=["L"])),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc", min_size=1), inner)))  # fmt: skip
def test_printed_yaml_reads_back_the_same(value):
    """Also where one value stands in two places: nothing is written by reference."""
    document = {"one": value, "two": value}

    assert [document] == list(yaml.safe_load_all(as_yaml([document])))
    assert "&id" not in as_yaml([document])


@given(st.text())
@example("x\u202eevil")
@example("gr\u00fc\u00dfe\u200b \U000e0041\U0001f600")
@example("\n \u2028\t\x85x\n")
def test_printed_yaml_turns_and_hides_no_text_of_a_terminal(text):
    """Found: U+202E came out as it is, and a terminal shows the rest of the line from right to left."""
    printed = as_yaml([{text: text}])

    assert [{text: text}] == list(yaml.safe_load_all(printed))
    assert printed.split("\n") == [printable(line) for line in printed.split("\n")]
